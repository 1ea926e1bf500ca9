"""Types of rows and labels, declared once."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Codes", "Floats", "Ints", "Label", "Labels", "Matrix", "Row", "Rows"]

# Input of users: anything that scikit-learn accepts as X, an array, a data frame or a sparse matrix.
Rows: TypeAlias = Any
# Rows that were checked: a C-contiguous array, or a canonical CSR matrix, of float32 or float64.
Matrix: TypeAlias = Any
# One row: an array of numbers or a sparse row.
Row: TypeAlias = Any
# A label of any type that can be compared and hashed, and an array of labels.
Label: TypeAlias = Any
Labels: TypeAlias = NDArray[Any]
# Labels as indices into `classes_`.
Codes: TypeAlias = NDArray[np.intp]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
