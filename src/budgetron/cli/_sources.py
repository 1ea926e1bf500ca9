"""Where rows come from: a file, a pipe, or a data set by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from sklearn.datasets import load_digits

from budgetron import datasets, streams
from budgetron.cli import _options as opt

__all__ = ["BUNDLED", "Source", "check_path", "described", "named", "tab_of", "takes_rows"]


def _digits() -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order] / 16.0, y[order]


class Bundled(NamedTuple):
    """A stream that needs no file."""

    rows: int
    features: int
    classes: int
    description: str
    load: Callable[[], tuple[Any, Any]]


BUNDLED = {
    "digits": Bundled(1797, 64, 10, "scikit-learn's digits", _digits),
    "two-gaussians": Bundled(
        20_000,
        2,
        2,
        "the papers' two Gaussians, 10 % of the labels turned",
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
    zero_based: opt.ZeroBased = False

    def typed(self) -> list[str]:
        """The options as one would type them, without those left alone."""
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

    def open(self, name: str, limit: int | None = None) -> Any:
        """The stream `data:NAME`, or over a file or standard input ("-")."""
        if name.startswith("data:"):
            return named(name)
        check_path(name)
        stream = streams.read(
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
            zero_based=self.zero_based,
            limit=limit,
        )
        _check_labels(stream)
        return stream


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
    loaders = _loaders()
    if key not in loaders:
        near = get_close_matches(key, loaders, 1)
        meant = f"did you mean data:{near[0]}?" if near else f"there are {', '.join(loaders)}"
        raise ValueError(f"there is no data set {key!r}; {meant}")
    X, y = loaders[key]()
    return streams.arrays(X, y, name=key)


def check_path(name: str) -> None:
    """Refuse what is no path, with a word on what was meant."""
    if os.path.exists(name):
        return
    if "://" in name:
        raise ValueError(f"{name}: addresses are not read; fetch the file first, or pipe it and give -")
    if name in _loaders():
        raise ValueError(f"{name}: no such file; the data set of this name is data:{name}")


def _loaders() -> dict[str, Callable[[], tuple[Any, Any]]]:
    bundled = {name: stream.load for name, stream in BUNDLED.items()}
    return bundled | {record.name: getattr(datasets, record.loader) for record in datasets.available()}


def _check_labels(stream: Any) -> None:
    """Refuse a quantity: what learns here are classifiers."""
    odd = next((label for label in stream.classes.tolist() if isinstance(label, float) and label % 1), None)
    if odd is not None:
        target = getattr(stream, "target", None)
        what = f'column "{target}" has' if target is not None else "its labels have"
        raise ValueError(
            f"{stream.name}: {what} decimals, like {odd:g}, and what learns here are classifiers; "
            "choose another column, or cut it into classes first"
        )


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
