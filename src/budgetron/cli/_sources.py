"""Where rows come from: a file, a pipe, or a data set by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

import numpy as np
from sklearn.datasets import load_digits

from budgetron import datasets, streams
from budgetron.cli import _options as opt

__all__ = ["BUNDLED", "Source", "described", "named", "tab_of", "takes_rows"]


def _digits() -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order] / 16.0, y[order]


# Streams that need no file
BUNDLED: dict[str, tuple[str, Callable[[], tuple[Any, Any]]]] = {
    "digits": ("scikit-learn's 1,797 digits, ten classes", _digits),
    "two-gaussians": (
        "the papers' two Gaussians, 20,000 rows, 10 % of the labels turned",
        lambda: streams.two_gaussians(20_000, random_state=0),
    ),
}


@dataclass(frozen=True)
class Source:
    """What was said about the rows on the command line; `takes_rows` makes options of the fields."""

    target: opt.Target = None
    format: opt.FileFormat = None
    classes: opt.Classes = None
    categorical: opt.Categorical = None
    ignore: opt.Ignore = None
    encode: opt.Encoding = opt.Encode.auto
    scale: opt.Scale = True
    missing: opt.MissingValues = opt.Missing.error
    constant: opt.Constant = True
    header: opt.Header = True
    delimiter: opt.Delimiter = None
    features: opt.Features = None

    def typed(self) -> list[str]:
        """The options as one would type them, without those left alone."""
        words: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            words += [f"--no-{field.name}"] if value is False else [f"--{field.name}", str(value)]
        return words

    def open(self, name: str, limit: int | None = None) -> Any:
        """The stream `data:NAME`, or over a file or standard input ("-")."""
        if name.startswith("data:"):
            return named(name)
        return streams.read(
            name,
            self.target,
            format=self.format,
            classes=_split(self.classes),
            categorical=_split(self.categorical),
            ignore=_split(self.ignore) or (),
            encode=self.encode,
            scale=None if self.scale else False,
            missing=self.missing,
            constant=self.constant,
            header=self.header,
            delimiter=tab_of(self.delimiter),
            n_features=self.features,
            limit=limit,
        )


def tab_of(delimiter: str | None) -> str | None:
    """A delimiter as it was meant: a tab is hard to type."""
    return "\t" if delimiter in ("\\t", "tab") else delimiter


def described(stream: Any) -> str:
    """How the rows of a stream are read, in one line."""
    encoder = getattr(stream, "encoder", None)
    features = f"{stream.n_features} features" + (f": {encoder.summary()}" if encoder is not None else "")
    labels = [str(label) for label in stream.classes.tolist()]
    shown = ", ".join(labels if len(labels) <= 10 else [*labels[:9], "..."])
    return f"{stream.name}: {features}; {len(labels)} classes: {shown}"


def takes_rows(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the fields of `Source` as options, in the place of its parameter `settings`."""
    types = get_type_hints(Source, include_extras=True)
    options = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name])
        for field in fields(Source)
    ]
    own = [p for p in signature(command, eval_str=True).parameters.values() if p.name != "settings"]

    @wraps(command)
    def run(**given: Any) -> None:
        said = {field.name: given.pop(field.name) for field in fields(Source)}
        command(settings=Source(**said), **given)

    own = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in own]
    run.__signature__ = Signature([*own, *options])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in [*own, *options]}
    return run


def named(name: str) -> Any:
    """The stream `data:NAME` over a bundled or a known data set."""
    key = name.removeprefix("data:")
    if key in BUNDLED:
        X, y = BUNDLED[key][1]()
    else:
        loaders = {record.name: getattr(datasets, record.loader) for record in datasets.available()}
        if key not in loaders:
            raise ValueError(f"there is no data set {key!r}; there are {', '.join([*BUNDLED, *loaders])}")
        X, y = loaders[key]()
    return streams.arrays(X, y, name=key)


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
