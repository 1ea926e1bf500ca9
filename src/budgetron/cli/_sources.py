"""Where rows come from: a file, a pipe, or a data set by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from budgetron import datasets, streams

__all__ = ["BUNDLED", "Source", "named"]


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
    """What was said about the rows on the command line."""

    target: str | None = None
    format: str | None = None
    classes: str | None = None
    categorical: str | None = None
    ignore: str | None = None
    encode: str = "auto"
    scale: bool = True
    missing: str = "error"
    constant: bool = True
    header: bool = True
    delimiter: str | None = None
    features: int | None = None

    def open(self, name: str, **options: Any) -> Any:
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
            delimiter=self.delimiter,
            n_features=self.features,
            **options,
        )


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
