"""Files, pipes and frames as streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from budgetron.streams._base import Stream, StreamError
from budgetron.streams._bytes import Source
from budgetron.streams._encoder import Encoder
from budgetron.streams._libsvm import LINE, Libsvm
from budgetron.streams._table import Frame, Parquet, Reader, Table
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
    source: Any,
    target: str | int | None = None,
    *,
    format: str | None = None,
    classes: Iterable[Any] | None = None,
    categorical: Iterable[str] | None = None,
    ignore: Iterable[str] = (),
    encode: str = "auto",
    hash_columns: int = 64,
    scale: bool | None = None,
    missing: str = "error",
    constant: bool = False,
    encoder: Encoder | None = None,
    header: bool = True,
    delimiter: str | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
    optional_labels: bool = False,
    limit: int | None = None,
    block: int = 4096,
) -> Stream:
    r"""Stream a file or a pipe: CSV, JSON lines, Parquet or LIBSVM, also compressed (gz, bz2, xz, zst).

    Memory stays bounded whatever the size. Types of CSV and JSON columns are decided by the first
    megabyte: numbers are numeric, everything else is categorical. How columns become features is told
    under `Encoder`. All but LIBSVM need pyarrow.

    Parameters
    ----------
    source : path, "-" or binary file
        "-" is standard input. Compression is recognised by the first bytes. A file is read from
        where it stands, and is left open.
    target : str or int, optional
        The column of the labels, or its number from 1 (-1 is the last). Not for LIBSVM.
    format : {"csv", "jsonl", "parquet", "libsvm"}, optional
        By default told by the name (.csv, .tsv, .jsonl, .ndjson, .parquet, .libsvm, .svm) or else by the
        first line. Parquet cannot come by a pipe: its index is at the end.
    classes : iterable, optional
        All labels there are. By default a file is read through once for them; a pipe must
        show all of them in its first megabyte. Text is converted if the labels are numbers.
    categorical : iterable of str, optional
        Columns that are categories though they look like numbers.
    ignore : iterable of str, optional
        Columns to leave out.
    encode, hash_columns, missing, constant
        See `Encoder`; of these LIBSVM has only `constant`.
    scale : bool, optional
        See `Encoder`. True by default; not offered for LIBSVM, whose rows are sparse.
    encoder : Encoder, optional
        Encode by this one as it is, and learn nothing: for rows to predict. Columns may stand in
        another order and further ones are ignored. If there is no target, `y` is None in the blocks;
        if there is, a label that is missing or no class is None.
    header : bool, default=True
        Whether the first line of a CSV file has the names; otherwise they are c1, c2...
    delimiter : str, optional
        Of a CSV file; by default a tab in .tsv files, in others the first of comma, tab and semicolon
        that the first line has.
    n_features : int, optional
        Of a LIBSVM file; by default the highest index in the file, or in the first megabyte of a pipe.
    zero_based : bool, default=False
        Whether the indices of a LIBSVM file count from 0.
    optional_labels : bool, default=False
        For LIBSVM rows to predict: a label that is no class is None.
    limit : int, optional
        Read no more rows than this.
    block : int, default=4096
        The most rows a block may have.

    Returns
    -------
    Stream

    Raises
    ------
    StreamError
        With the file, the line or row (counted from 1), what is wrong, and what would be right.

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
    bytes_ = Source(source)
    head = bytes_.head()
    if not head:
        raise StreamError(f"{bytes_.name}: no rows; an empty file has nothing to learn from")
    format = format or _format(bytes_, head)
    if format == "libsvm":
        if target is not None or encoder is not None or scale or categorical or list(ignore):
            raise StreamError(
                f"{bytes_.name}: a LIBSVM file has sparse rows that begin with their label; "
                "target, encoder, scale, categorical and ignore are for tables"
            )
        return Libsvm(
            bytes_,
            n_features=n_features,
            classes=classes,
            zero_based=zero_based,
            constant=constant,
            optional_labels=optional_labels,
            block=block,
            limit=limit,
        )
    if n_features is not None or zero_based:
        raise ValueError(f"n_features and zero_based are for LIBSVM files; {bytes_.name} is {format}")
    reader: Reader
    if format == "csv":
        reader = Csv(bytes_, header, _delimiter(bytes_, head) if delimiter is None else delimiter)
    elif format == "jsonl":
        reader = JsonLines(bytes_)
    else:
        reader = Parquet(bytes_)
    fresh = Encoder(
        encode=encode, hash_columns=hash_columns, scale=scale is not False, missing=missing, constant=constant
    )
    return Table(
        reader,
        target,
        encoder=encoder or fresh,
        frozen=encoder is not None,
        classes=classes,
        categorical=categorical,
        ignore=ignore,
        block=block,
        limit=limit,
    )


def frame(
    df: Any,
    target: str | int | None = None,
    *,
    classes: Iterable[Any] | None = None,
    categorical: Iterable[str] | None = None,
    ignore: Iterable[str] = (),
    encode: str = "auto",
    hash_columns: int = 64,
    scale: bool = True,
    missing: str = "error",
    constant: bool = False,
    encoder: Encoder | None = None,
    block: int = 4096,
    name: str = "frame",
) -> Stream:
    """Stream a pandas or polars frame, or an arrow table; needs pyarrow.

    Parameters are those of `read` for tables; `name` is for messages, in which rows count from 1.

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
    fresh = Encoder(encode=encode, hash_columns=hash_columns, scale=scale, missing=missing, constant=constant)
    return Table(
        Frame(df, name),
        target,
        encoder=encoder or fresh,
        frozen=encoder is not None,
        classes=classes,
        categorical=categorical,
        ignore=ignore,
        block=block,
        limit=None,
    )


def _format(source: Source, head: bytes) -> str:
    """By the name, or else by the first line."""
    suffix = source.suffixes[-1] if source.suffixes else ""
    if head.startswith(b"PAR1"):
        return "parquet"
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    line = _first_line(head)
    if line.startswith((b"{", b"[")):  # an array is no JSON lines, but is told so there
        return "jsonl"
    return "libsvm" if LINE.match(line) else "csv"


def _delimiter(source: Source, head: bytes) -> str:
    if source.suffixes[-1:] in (["tsv"], ["tab"]):
        return "\t"
    line = _first_line(head).decode("latin-1")
    return next((character for character in ",\t;" if character in line), ",")


def _first_line(head: bytes) -> bytes:
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return next((line.strip() for line in lines if line.strip() and not line.startswith(b"#")), b"")
