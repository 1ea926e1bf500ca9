"""Open files, pipes and data frames as streams."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import IO

from budgetron.streams._base import Stream
from budgetron.streams._bytes import Source
from budgetron.streams._columnar import Frame, Parquet
from budgetron.streams._decide import Wishes
from budgetron.streams._encoder import Encoder
from budgetron.streams._errors import Advice, StreamError
from budgetron.streams._libsvm import LINE, Libsvm
from budgetron.streams._table import Reader, Table
from budgetron.streams._targets import Targets, checked_task
from budgetron.streams._text import Csv, JsonLines

__all__ = ["frame", "read"]

_SUFFIXES = {
    "csv": "csv",
    "tsv": "csv",
    "tab": "csv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "parquet": "parquet",
    "pq": "parquet",
    "libsvm": "libsvm",
    "svm": "libsvm",
    "svmlight": "libsvm",
}
_FORMATS = ("csv", "jsonl", "parquet", "libsvm")


def read(
    source: str | os.PathLike[str] | IO[bytes],
    target: str | int | None = None,
    *,
    task: str = "classification",
    format: str | None = None,
    classes: Iterable[object] | None = None,
    scan: bool = True,
    categorical: Iterable[str] | None = None,
    numeric: Iterable[str] = (),
    keep: Iterable[str] = (),
    ignore: Iterable[str] = (),
    encode: str = "auto",
    hash_columns: int | None = None,
    scale: bool | None = None,
    missing: str = "mean",
    na_values: Iterable[str] = (),
    decimal: str | None = None,
    date_order: str = "auto",
    constant: bool = False,
    encoder: Encoder | None = None,
    update_encoder: bool = False,
    need_target: bool = False,
    header: bool = True,
    delimiter: str | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
    optional_labels: bool = False,
    targets: Targets | None = None,
    limit: int | None = None,
    block: int = 4096,
) -> Stream:
    r"""Stream a file or a pipe: CSV, JSON lines, Parquet or LIBSVM, also compressed (gz, bz2, xz, zst).

    Memory use is bounded, regardless of the size of the file. Lines, labels, the number of columns and the
    nesting of JSON values have limits, listed on the page about the command line. The first 4096 rows (or
    those in the first megabyte of text) decide how each column is read: as a number, a date, a category or
    text. Columns that look like ids are not used. The page about the command line has the rules, `Encoder`
    describes how columns become features, and ``stream.encoder.columns`` says how each column is read. All
    formats except LIBSVM need pyarrow.

    Parameters
    ----------
    source : path, "-" or binary file
        "-" is standard input. Compression is recognised by the first bytes. An open file is read from its
        current position, and is left open.
    target : str or int, optional
        The name of the target column, or its number counted from 1 (-1 is the last). Not for LIBSVM.
    task : {"classification", "regression", "auto"}, default="classification"
        Whether the targets are classes or numbers. With "auto", the first 1000 rows decide. Numbers with
        decimals are numbers. Whole numbers are numbers if there are more than 20 different ones and they span
        more than 100; otherwise they are classes, as truth values and text are. If `classes` are given, the
        targets are classes. ``stream.task`` is the result.
    format : {"csv", "jsonl", "parquet", "libsvm"}, optional
        By default determined by the suffix (.csv, .tsv, .jsonl, .ndjson, .parquet, .libsvm, .svm) or, if it
        is none of these, by the first line. Parquet cannot be read from a pipe: its index is at the end.
    classes : iterable, optional
        All labels that occur. By default a file is read once to find them; the first megabyte of a pipe must
        contain all of them. Text is converted if the labels are numbers.
    scan : bool, default=True
        Whether a table is read once to find classes that are not given. Otherwise they must be in its first
        megabyte, as in a pipe, unless all rows of it have the same class. A LIBSVM file is always read once
        if classes or the number of features are not given, but only the first and last field of its lines.
    categorical, numeric : iterable of str, optional
        Columns that are categories, and columns that are numbers, whatever their values look like.
    keep : iterable of str, optional
        Columns that are used even if they look like ids.
    ignore : iterable of str, optional
        Columns that are not used.
    encode, hash_columns, missing, na_values, constant
        See `Encoder`. For LIBSVM, only `constant` is used.
    decimal : {".", ","}, optional
        The decimal mark of a CSV file, if the numbers leave it open: 1,234 may be one thousand or one.
    date_order : {"auto", "day", "month"}, default="auto"
        What comes first in dates such as 03/04/2024, if the dates leave it open.
    scale : bool, optional
        See `Encoder`. True by default. Not for LIBSVM, whose rows are sparse.
    encoder : Encoder, optional
        Encode rows by this fitted encoder, without updating it; for rows to predict. Columns may have another
        order, and further columns are ignored. Without a target column, `y` is None in the blocks. With
        one, a label that is missing or unknown is None.
    update_encoder : bool, default=False
        Update the means and deviations of `encoder`, as if its rows and these rows were one stream; for rows
        to learn.
    need_target : bool, default=False
        With `encoder`: raise an error if there is no target column.
    header : bool, default=True
        Whether the first line of a CSV file has the column names. Otherwise they are c1, c2...
    delimiter : str, optional
        The delimiter of a CSV file. By default a tab in .tsv files, and otherwise the most frequent of comma,
        tab, semicolon and vertical bar in the first line, outside of quotes.
    n_features : int, optional
        The number of features of a LIBSVM file. By default the highest index in the file, or in the first
        megabyte of a pipe; an index above 16,777,216 is then an error.
    zero_based : bool, default=False
        Whether the indices of a LIBSVM file start at 0.
    optional_labels : bool, default=False
        For LIBSVM rows without known labels: an unknown label becomes None.
    targets : Targets, optional
        With ``task="regression"``: read the numbers of the target column like those of another stream, whose
        attribute `targets` this is. For rows to predict, a target that is not a number becomes NaN.
    limit : int, optional
        Read no more rows than this.
    block : int, default=4096
        The largest number of rows in a block. Blocks of very wide rows are smaller: a block has at most 2**23
        features in total, or one row.

    Returns
    -------
    Stream

    Raises
    ------
    StreamError
        The message says where (file, line or row, counted from 1), what is wrong, and what to do.

    Examples
    --------
    >>> import io
    >>> from budgetron import streams
    >>> stream = streams.read(io.BytesIO(b"1 1:0.5 3:2\n-1 2:1\n"))
    >>> stream.n_features, stream.classes
    (3, array([-1,  1]))
    >>> for X, y in stream:
    ...     print(X.toarray(), y)
    [[0.5 0.  2. ]
     [0.  1.  0. ]] [ 1 -1]
    """
    if format not in (None, *_FORMATS):
        raise ValueError(f"format must be one of {', '.join(_FORMATS)}; got {format!r}")
    if task != "auto":
        checked_task(task)
    opened = Source(source)
    head = opened.head()
    if not head:
        raise StreamError(f"{opened.name}: no rows; the file is empty")
    format = format or _format(opened, head)
    if format == "libsvm":
        of_tables = (target, encoder, scale or None, categorical or None, numeric or None, keep or None)
        if any(value is not None for value in of_tables) or list(ignore):
            problem = f"{opened.name}: a LIBSVM file has sparse rows that start with their label"
            raise StreamError(problem, Advice.TABLE_ONLY)
        return Libsvm(
            opened,
            n_features=n_features,
            classes=classes,
            zero_based=zero_based,
            constant=constant,
            optional_labels=optional_labels,
            block=block,
            limit=limit,
            task=task,
        )
    if n_features is not None or zero_based:
        raise StreamError(f"{opened.name}: the format is {format}", Advice.LIBSVM_ONLY)
    chosen = encoder or Encoder(
        encode=encode,
        hash_columns=hash_columns,
        scale=scale is not False,
        missing=missing,
        constant=constant,
        na_values=na_values,
    )
    return Table(
        _reader(opened, format, header, delimiter or _delimiter(opened, head), chosen.na_values),
        target,
        encoder=chosen,
        known=encoder is not None,
        learn=encoder is None or update_encoder,
        classes=classes,
        scan=scan,
        wishes=_wishes(categorical, numeric, keep, decimal, date_order),
        ignore=ignore,
        block=block,
        limit=limit,
        optional_target=encoder is not None and not update_encoder and not need_target,
        task=task,
        targets=targets,
    )


def frame(
    df: object,
    target: str | int | None = None,
    *,
    task: str = "classification",
    classes: Iterable[object] | None = None,
    categorical: Iterable[str] | None = None,
    numeric: Iterable[str] = (),
    keep: Iterable[str] = (),
    ignore: Iterable[str] = (),
    encode: str = "auto",
    hash_columns: int | None = None,
    scale: bool = True,
    missing: str = "mean",
    na_values: Iterable[str] = (),
    date_order: str = "auto",
    constant: bool = False,
    encoder: Encoder | None = None,
    update_encoder: bool = False,
    block: int = 4096,
    name: str = "frame",
) -> Stream:
    """Stream a pandas or polars data frame, or an arrow table; needs pyarrow.

    The parameters are those of `read` for tables. `name` is used in messages, in which rows count from 1.

    Examples
    --------
    >>> import pandas as pd
    >>> from budgetron import streams
    >>> df = pd.DataFrame({"size": [1.0, 3.0], "colour": ["red", "blue"], "good": [True, False]})
    >>> stream = streams.frame(df, "good")
    >>> stream.feature_names
    ['size', 'colour=blue', 'colour=red', 'colour=?']
    >>> for X, y in stream:
    ...     print(X, y)
    [[0. 0. 1. 0.]
     [1. 1. 0. 0.]] [ True False]
    """
    if task != "auto":
        checked_task(task)
    fresh = Encoder(
        encode=encode,
        hash_columns=hash_columns,
        scale=scale,
        missing=missing,
        constant=constant,
        na_values=na_values,
    )
    return Table(
        Frame(df, name),
        target,
        encoder=encoder or fresh,
        known=encoder is not None,
        learn=encoder is None or update_encoder,
        classes=classes,
        scan=True,
        wishes=_wishes(categorical, numeric, keep, None, date_order),
        ignore=ignore,
        block=block,
        limit=None,
        optional_target=encoder is not None and not update_encoder,
        task=task,
        targets=None,
    )


def _wishes(
    categorical: Iterable[str] | None,
    numeric: Iterable[str],
    keep: Iterable[str],
    decimal: str | None,
    date_order: str,
) -> Wishes:
    columns = [[names] if isinstance(names, str) else list(names or ()) for names in (categorical, numeric)]
    kept = [keep] if isinstance(keep, str) else list(keep)
    return Wishes(columns[0], columns[1], kept, decimal, date_order)


def _reader(source: Source, format: str, header: bool, delimiter: str, na_values: Iterable[str]) -> Reader:
    if format == "csv":
        return Csv(source, header, delimiter, na_values)
    return JsonLines(source) if format == "jsonl" else Parquet(source)


def _format(source: Source, head: bytes) -> str:
    """Return the format, determined by the name or, if it says nothing, by the first line."""
    suffix = source.suffixes[-1] if source.suffixes else ""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"PK\x03\x04"):
        what = "a saved model" if suffix == "budgetron" else "a zip archive (Excel files are, too)"
        raise StreamError(f"{source.name}: this is {what}; give a CSV, JSON lines, Parquet or LIBSVM file")
    line = _first_line(head)
    if b"\0" in line:
        what = "UTF-16 text" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "not a text file"
        raise StreamError(f"{source.name}: this is {what}; give a CSV, JSON lines or LIBSVM file in UTF-8")
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if line.startswith((b"{", b"[")):  # an array is not JSON lines, but that reader explains it
        return "jsonl"
    return "libsvm" if LINE.match(line) else "csv"


def _delimiter(source: Source, head: bytes) -> str:
    if source.suffixes[-1:] in (["tsv"], ["tab"]):
        return "\t"
    line = re.sub(r'"[^"]*"', "", _first_line(head).decode("latin-1"))
    return max(",\t;|", key=line.count)


def _first_line(head: bytes) -> bytes:
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return next((line.strip() for line in lines if line.strip() and not line.startswith(b"#")), b"")
