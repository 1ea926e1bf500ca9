"""Checks of the arguments of `feature_scales`."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import issparse

from budgetron._util.sparse import check_sparse
from budgetron._util.types import Codes, Floats

__all__ = ["Settings", "check_count", "check_dtype", "check_labels", "check_rows", "check_targets"]

LEAST_NOISE = 0.01


class Settings:
    """The checked parameters."""

    def __init__(
        self,
        gamma: object,
        max_rows: object,
        max_scales: object,
        steps: object,
        noise: object,
        weight: object,
        dtype: DTypeLike,
    ) -> None:
        self.gamma = check_number(gamma, "gamma", positive=True)
        self.max_rows = check_count(max_rows, "max_rows", 2)
        self.max_scales = check_count(max_scales, "max_scales", 1)
        self.steps = check_count(steps, "steps", 1)
        self.noise = check_number(noise, "noise", positive=True)
        if self.noise < LEAST_NOISE:  # S would not be positive definite in single precision
            raise ValueError(f"noise must be at least {LEAST_NOISE}; got {self.noise}")
        self.weight = check_number(weight, "weight", positive=False)
        self.dtype = check_dtype(dtype)


def check_number(value: object, name: str, positive: bool) -> float:
    """Return a number that is finite and above 0, or at least 0 if not `positive`."""
    least = "above 0" if positive else "at least 0"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ValueError(f"{name} must be a number {least}; got {value!r}")
    number = float(value)
    if not (0.0 < number < np.inf or (number == 0.0 and not positive)):
        raise ValueError(f"{name} must be finite and {least}; got {number}")
    return number


def check_count(value: object, name: str, least: int) -> int:
    """Return an integer of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}")
    return int(value)


def check_dtype(value: DTypeLike) -> np.dtype[Any]:
    """Return the type of the matrices."""
    dtype = np.dtype(value)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64; got {dtype}")
    return dtype


def check_rows(X: Any) -> Any:
    """Return X as an array of numbers or as a CSR matrix; check its shape, but not yet its values."""
    if issparse(X):
        check_sparse(X)
        rows = X.tocsr()
    else:
        rows = np.asarray(X)
    if rows.dtype.kind not in "biufO":
        raise ValueError(f"X must contain real numbers; it has the type {rows.dtype}. Encode other values")
    if rows.dtype.kind == "O" or rows.dtype.itemsize > 8:
        try:
            rows = rows.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"X must contain real numbers: {error}. Encode other values") from error
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(
            f"X must have shape (n, d) with at least one row and one feature; got {rows.shape}. "
            "Reshape a single row by X.reshape(1, -1)"
        )
    return rows


def check_labels(y: Any, n: int) -> tuple[Codes, int]:
    """Return the labels as numbers from 0, and the number of classes."""
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != n:
        raise ValueError(f"y must have shape ({n},), one label per row of X; got {labels.shape}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise ValueError(
            f"y must be finite; the label of row {row} is {labels[row]}. Leave out unlabelled rows"
        )
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"the labels in y must be of one type, such as all str: {error}") from error
    return codes.reshape(-1), len(classes)


def check_targets(y: Any, n: int) -> Floats:
    """Return the targets of a regression."""
    try:
        targets = np.asarray(y, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the targets in y must be numbers: {error}") from error
    if targets.shape != (n,):
        raise ValueError(f"y must have shape ({n},), one target per row of X; got {targets.shape}")
    if not np.isfinite(targets).all():
        row = int(np.flatnonzero(~np.isfinite(targets))[0])
        raise ValueError(f"y must be finite; the target of row {row} is {targets[row]}")
    return targets
