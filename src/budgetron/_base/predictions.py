"""The class that margins predict: one tie rule for every classifier."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["predicted_codes"]


def predicted_codes(margins: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the code of the class that each row's margins predict.

    The code is the index into `classes_`. Margins have shape (n_rows,) for two classes, where a margin above
    0 predicts the second class, and (n_rows, n_classes) for more, where the largest margin wins. A tie
    predicts the first of the tied classes.
    """
    codes: NDArray[np.intp] = margins.argmax(axis=1) if margins.ndim == 2 else (margins > 0.0).astype(np.intp)
    return codes
