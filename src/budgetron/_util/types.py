"""Types of rows and labels, declared once."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AnyArray",
    "AnyIndices",
    "Codes",
    "Floats",
    "Indices",
    "Ints",
    "Label",
    "Labels",
    "Matrix",
    "Positions",
    "Reals",
    "Row",
    "Rows",
]

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
# Arrays of the compiled core: of any type; of numbers in the type of the rows, float32 or float64; of
# indices.
AnyArray: TypeAlias = NDArray[Any]
Reals: TypeAlias = NDArray[np.floating]
Indices: TypeAlias = NDArray[np.int32]
AnyIndices: TypeAlias = NDArray[np.integer]
Positions: TypeAlias = NDArray[np.intp]
