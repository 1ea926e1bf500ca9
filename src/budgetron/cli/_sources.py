"""Open the source of rows: a file, a pipe, or a data set by name."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import NamedTuple, TypeAlias, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from budgetron import streams
from budgetron.cli import _options as opt
from budgetron.cli._messages import err
from budgetron.streams import Stream

__all__ = [
    "BUNDLED",
    "Source",
    "check_path",
    "delimiter_of",
    "description",
    "open_named",
    "print_reading",
    "remarks",
    "takes_rows",
]

Arrays: TypeAlias = tuple[ArrayLike, ArrayLike]


def _digits() -> Arrays:
    from sklearn.datasets import load_digits  # takes long to import

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order] / 16.0, y[order]


def _friedman() -> Arrays:
    from sklearn.datasets import make_friedman1  # takes long to import

    X, y = make_friedman1(20_000, noise=1.0, random_state=0)
    return (X - 0.5) * 12**0.5, y  # mean 0 and deviation 1: rows of data sets are not scaled


class Bundled(NamedTuple):
    """A data set that is part of the package or generated. It has 0 classes if numbers are predicted."""

    rows: int
    features: int
    classes: int
    description: str
    load: Callable[[], Arrays]


BUNDLED = {
    "digits": Bundled(1797, 64, 10, "scikit-learn's digits", _digits),
    "two-gaussians": Bundled(
        20_000,
        2,
        2,
        "the papers' two Gaussians, 10 % of the labels flipped",
        lambda: streams.two_gaussians(20_000, random_state=0),
    ),
    "friedman": Bundled(20_000, 10, 0, "Friedman's function of five features, for regression", _friedman),
}

# With more classes that are whole numbers, a remark says that they may be a quantity.
MANY_CLASSES = 20


@dataclass(frozen=True)
class Source:
    """How to read the rows; `takes_rows` turns the fields into options."""

    target: opt.Target = None
    task: opt.TaskOption = None
    format: opt.FileFormat = None
    classes: opt.Classes = None
    categorical: opt.Categorical = None
    numeric: opt.Numeric = None
    keep: opt.Keep = None
    ignore: opt.Ignore = None
    encode: opt.Encoding = opt.Encode.auto
    scale: opt.Scale = True
    missing: opt.MissingValues = opt.Missing.mean
    na_values: opt.NaValues = None
    decimal: opt.DecimalMark = None
    date_order: opt.Dates = opt.DateOrder.auto
    constant: opt.Constant = True
    header: opt.Header = True
    delimiter: opt.Delimiter = None
    features: opt.Features = None
    zero_based: opt.ZeroBased = False

    def typed(self) -> list[str]:
        """Return the options as one would type them, without those at their default."""
        words: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            option = field.name.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{option}" if value else f"--no-{option}")
            else:
                words += [f"--{option}", str(value)]
        return words

    def open(self, name: str, limit: int | None = None, scan: bool = True) -> Stream:
        """Open the data set `data:NAME`, a file, or standard input ("-").

        Without `scan`, the first rows decide the classes.
        """
        if name.startswith("data:"):
            return open_named(name, self.task or "auto")
        check_path(name)
        if self.task == "regression" and self.classes is not None:
            raise ValueError("--classes are labels, but --task is regression; leave one of them out")
        stream = streams.read(
            name,
            self.target,
            task=self.task or "auto",
            format=self.format,
            classes=_split(self.classes),
            scan=scan,
            categorical=_split(self.categorical),
            numeric=_split(self.numeric) or (),
            keep=_split(self.keep) or (),
            ignore=_split(self.ignore) or (),
            encode=self.encode,
            scale=None if self.scale else False,
            missing=self.missing,
            na_values=_split(self.na_values) or (),
            decimal=self.decimal,
            date_order=self.date_order,
            constant=self.constant,
            header=self.header,
            delimiter=delimiter_of(self.delimiter),
            n_features=self.features,
            zero_based=self.zero_based,
            limit=limit,
        )
        _check_labels(stream)
        return stream


def delimiter_of(typed: str | None) -> str | None:
    """Return the delimiter; a tab may be typed as a backslash and t, or as the word tab."""
    return "\t" if typed in ("\\t", "tab") else typed


def description(stream: Stream) -> str:
    """Return one line that says how the rows of a stream are read."""
    features = f"{stream.n_features:,} features"
    if stream.encoder is not None:
        features += f": {stream.encoder.summary()}"
    if stream.task == "regression":
        return f"{stream.name}: {features}; regression: the target has numbers"
    labels = [] if stream.classes is None else [str(label) for label in stream.classes.tolist()]
    shown = ", ".join(labels if len(labels) <= 10 else [*labels[:9], "..."])
    return f"{stream.name}: {features}; {len(labels)} classes: {shown}"


def print_reading(stream: Stream) -> None:
    """Print how the rows of a stream are read."""
    err.print(description(stream))
    for line in remarks(stream):
        err.print(f"  {line}")


def remarks(stream: Stream) -> list[str]:
    """Return a line for each column that is read in a way that may surprise, with the option to change it."""
    lines = []
    classes = stream.classes
    if classes is not None and classes.dtype.kind in "iu" and len(classes) > MANY_CLASSES:
        lines.append(
            f"the target has {len(classes)} different whole numbers, which are read as classes; if they are "
            "a quantity, give --task regression"
        )
    for column in [] if stream.encoder is None else stream.encoder.columns:
        if column.kind == "none":
            lines.append(f'column "{column.name}" is not used: {column.reason}; give --keep to use it')
        elif column.kind == "words":
            lines.append(f'column "{column.name}": {column.reason}, whose words are hashed')
        elif column.kind == "hash" and column.reason:
            own = f"{len(column.levels):,} have a feature, all others are" if column.levels else "all are"
            lines.append(f'column "{column.name}": {column.reason}; {own} hashed into {column.width}')
    return lines


def takes_rows(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `settings` of a command by options, one for each field of `Source`."""
    types = get_type_hints(Source, include_extras=True)
    options = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name])
        for field in fields(Source)
    ]
    own = [p for p in signature(command, eval_str=True).parameters.values() if p.name != "settings"]

    @wraps(command)
    def run(**given: object) -> None:
        settings = {field.name: given.pop(field.name) for field in fields(Source)}
        command(settings=Source(**settings), **given)  # type: ignore[arg-type]  # typer checks them

    own = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in own]
    run.__signature__ = Signature([*own, *options])  # type: ignore[attr-defined]  # read by typer
    run.__annotations__ = {p.name: p.annotation for p in [*own, *options]}
    return run


def open_named(name: str, task: str = "auto") -> Stream:
    """Open `data:NAME`, a bundled or a known data set."""
    key = name.removeprefix("data:")
    loaders = _loaders()
    if key not in loaders:
        near = get_close_matches(key, loaders, 1)
        hint = f"did you mean data:{near[0]}?" if near else f"the data sets are {', '.join(loaders)}"
        raise ValueError(f"there is no data set {key!r}; {hint}")
    X, y = loaders[key]()
    return streams.arrays(X, y, name=key, task=task)


def check_path(name: str) -> None:
    """Raise `ValueError`, with a hint, if the name is not a path but a URL or the name of a data set."""
    if os.path.exists(name):
        return
    if "://" in name:
        raise ValueError(f"{name}: URLs are not supported; download the file first, or pipe it and give -")
    if name in _loaders():
        raise ValueError(f"{name}: no such file; for the data set of this name give data:{name}")


def _loaders() -> dict[str, Callable[[], Arrays]]:
    from budgetron import datasets  # takes long to import

    bundled = {name: stream.load for name, stream in BUNDLED.items()}
    return bundled | {record.name: getattr(datasets, record.loader) for record in datasets.available()}


def _check_labels(stream: Stream) -> None:
    """Raise `ValueError` if the labels have decimals: a quantity is not a class.

    If the first rows have decimals, this is regression, unless the user wants classes.
    """
    labels = [] if stream.classes is None else stream.classes.tolist()
    decimal = next((label for label in labels if isinstance(label, float) and label % 1), None)
    if decimal is not None:
        column = "the first column" if stream.target is None else f'column "{stream.target}"'
        raise ValueError(
            f"{stream.name}: {column} has decimals, like {decimal:g}, so it cannot be the label of a "
            "classifier; give --task regression to predict numbers, or bin it into classes first"
        )


def _split(text: str | None) -> list[str] | None:
    """Return the parts of a list with commas; a part that has a comma is quoted, as in a CSV file."""
    if text is None:
        return None
    try:
        parts = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error as error:
        raise ValueError(f"{text!r} is not a list of names with commas: {error}") from None
    return [part.strip() for part in parts if part.strip()]
