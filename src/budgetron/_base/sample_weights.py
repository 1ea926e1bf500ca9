"""Weights of rows: checks of the argument `sample_weight`."""

from __future__ import annotations

from numbers import Number

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from budgetron._util.types import Floats

__all__ = ["checked_weights", "refuse_zero_weights"]


def refuse_zero_weights(weights: ArrayLike | None) -> None:
    """Refuse weights that are all 0, with which `fit` would learn nothing."""
    if weights is not None and not np.any(np.asarray(weights)):
        raise ValueError(
            "all weights are zero, so that nothing would be learned; sample_weight needs one above 0"
        )


def checked_weights(weights: ArrayLike | None, n: int) -> Floats:
    """Return the weights of n rows, after checking them.

    Not by scikit-learn's function, which refuses weights that are all 0. Those of a batch may be.
    """
    if weights is None or isinstance(weights, Number):
        weights = np.full(n, 1.0 if weights is None else weights)
    given: Floats = check_array(weights, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if given.shape != (n,):
        raise ValueError(
            f"sample_weight must be a number, or have shape ({n},), one per row; got shape {given.shape}"
        )
    if (given < 0.0).any():
        row = int(np.flatnonzero(given < 0.0)[0])
        raise ValueError(f"sample_weight must not be negative; that of row {row} is {given[row]}")
    return given
