"""Rows and labels in all the forms that a user may pass them in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars
from models import WIDE, rows_in_use
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix, lil_array


@dataclass(frozen=True)
class Form:
    """A way to pass rows.

    Attributes
    ----------
    convert : callable
        Takes the rows as an array of float64, and returns them in this form.
    values : {"real", "whole", "binary"}
        Which values the form represents exactly.
    single : bool
        Whether a model that starts with these rows computes in float32.
    sparse : bool
        Whether the rows are a sparse matrix.
    """

    convert: Callable[[np.ndarray], Any]
    values: str = "real"
    single: bool = False
    sparse: bool = False


def strided(X):
    wide = np.full((2 * len(X), 3 * X.shape[1]), np.nan)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def backwards(X):
    return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def broadcast(X):
    """Return a view with a stride of 0 if all rows are equal."""
    return np.broadcast_to(X[0], X.shape) if (X[0] == X).all() else X


def objects(X):
    values = X.astype(object)
    values[:, 0] = X[:, 0].astype(int)
    return values


def names(d):
    return [f"f{j}" for j in range(d)]


def frame(X, dtype=float):
    return pd.DataFrame(X, columns=names(X.shape[1])).astype(dtype)


def mixed_frame(X):
    """Return a data frame whose columns have different types."""
    kinds = ("int8", "Int64", "float32", "float64")
    return frame(X).astype({name: kinds[j % len(kinds)] for j, name in enumerate(names(X.shape[1]))})


def with_wide_indices(X):
    rows = csr_array(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    return rows


def unsorted(X):
    """Return a CSR matrix with the non-zeros of each row in descending order, and duplicates."""
    rows = csr_array(X)
    parts = [slice(*ends) for ends in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)]
    values = [np.repeat(rows.data[part][::-1] / 2, 2) for part in parts]
    indices = [np.repeat(rows.indices[part][::-1], 2) for part in parts]
    return csr_array((np.concatenate(values), np.concatenate(indices), 2 * rows.indptr), shape=X.shape)


def with_zeros(X):
    """Return a CSR matrix that stores zeros explicitly."""
    n, d = X.shape
    columns = rows_in_use(d)
    return csr_array(
        (X[:, columns].reshape(-1), np.tile(columns, n), np.arange(0, n * len(columns) + 1, len(columns))),
        shape=(n, d),
    )


def read_only_sparse(X):
    rows = csr_array(X)
    for array in (rows.data, rows.indices, rows.indptr):
        array.flags.writeable = False
    return rows


def in_type(dtype):
    return lambda X: X.astype(dtype)


def csr_in_type(dtype):
    return lambda X: csr_array(X.astype(dtype))


DENSE = {
    "C order": Form(np.ascontiguousarray),
    "Fortran order": Form(np.asfortranarray),
    "strided": Form(strided),
    "backwards": Form(backwards),
    "read-only": Form(read_only),
    "broadcast": Form(broadcast),
    "float32": Form(in_type(np.float32), single=True),
    "float32, Fortran order": Form(lambda X: np.asfortranarray(X, np.float32), single=True),
    "float16": Form(in_type(np.float16)),
    "long double": Form(in_type(np.longdouble)),
    "big-endian": Form(in_type(">f8")),
    "big-endian float32": Form(in_type(">f4")),
    "int64": Form(in_type(np.int64), "whole"),
    "int8": Form(in_type(np.int8), "whole"),
    "big-endian int": Form(in_type(">i4"), "whole"),
    "uint8": Form(in_type(np.uint8), "binary"),
    "bool": Form(in_type(bool), "binary"),
    "list": Form(np.ndarray.tolist),
    "list of ints": Form(lambda X: X.astype(int).tolist(), "whole"),
    "tuple of arrays": Form(tuple),
    "objects": Form(objects, "whole"),
    "pandas": Form(frame),
    "pandas float32": Form(lambda X: frame(X, "float32"), single=True),
    "pandas bool": Form(lambda X: frame(X, bool), "binary"),
    "pandas mixed": Form(mixed_frame, "whole"),
    "polars": Form(lambda X: polars.DataFrame(X, schema=names(X.shape[1]), orient="row")),
}

SPARSE = {
    "CSR": Form(csr_array, sparse=True),
    "CSR matrix": Form(csr_matrix, sparse=True),
    "CSR float32": Form(csr_in_type(np.float32), single=True, sparse=True),
    "CSR int": Form(csr_in_type(np.int32), "whole", sparse=True),
    "CSR bool": Form(csr_in_type(bool), "binary", sparse=True),
    "CSR with indices of 64 bits": Form(with_wide_indices, sparse=True),
    "CSR unsorted": Form(unsorted, sparse=True),
    "CSR with zeros": Form(with_zeros, sparse=True),
    "CSR read-only": Form(read_only_sparse, sparse=True),
    "CSC": Form(csc_array, sparse=True),
    "COO": Form(coo_array, sparse=True),
    "LIL": Form(lil_array, sparse=True),
}

FORMS = DENSE | SPARSE


def forms_for(variant):
    """Return the names of the forms for rows of a variant."""
    if variant.foreign:
        return [name for name, form in DENSE.items() if not form.single]
    return [*SPARSE, "C order", "float32"] if variant.d == WIDE else list(FORMS)


# Arrays of objects are numbers for scikit-learn, but not for `play`.
OBJECTS = ("objects", "pandas mixed")


def make_rows(seed, n, d, values, style):
    """Return n rows of d features as float64.

    Parameters
    ----------
    values : {"real", "whole", "binary"}
    style : {"grid", "fresh"}
        "grid" repeats a few rows; "fresh" rows are nearly always distinct, unless values are few.
    """
    rng = np.random.default_rng([seed, n])
    used = rows_in_use(d)
    if values == "binary":
        numbers = rng.integers(0, 2, (n, len(used)))
    elif values == "whole" or style == "grid":
        numbers = rng.integers(-1, 3, (n, len(used)))
    else:  # multiples of 1/64 up to 4 are numbers of float16
        numbers = np.clip(np.round(rng.normal(size=(n, len(used))) * 64), -256, 256) / 64
    X = np.zeros((n, d))
    X[:, used] = numbers
    return X


def make_labels(seed, X, known, style):
    """Return the place of each label in `known`.

    Parameters
    ----------
    style : {"random", "learnable", "constant"}
    """
    rng = np.random.default_rng([seed, len(X), 1])
    if style == "constant":
        return np.full(len(X), int(rng.integers(known)))
    if style == "random":
        return rng.integers(known, size=len(X))
    used = rows_in_use(X.shape[1])
    return np.abs(np.floor(X[:, used[0]] * X[:, used[1]] + X[:, used[2]]).astype(int)) % known


# The labels of the classes, in an order in which they may appear
LABELS = {
    "int": [0, 1, 2, 3],
    "unordered int": [7, -2, 40, 3],
    "float": [1.0, 0.0, 3.0, 2.0],
    "text": ["b", "a", "zebra", "c"],
    "objects": ["b", "a", "zebra", "c"],
    "bool": [False, True],
}


def as_array(labels, kind):
    return np.array(labels, object if kind == "objects" else None)


LABEL_FORMS = {
    "array": lambda y: y,
    "list": np.ndarray.tolist,
    "series": pd.Series,
    "objects": lambda y: y.astype(object),
    "polars": lambda y: polars.Series(y.tolist()),
    "strided": lambda y: np.repeat(y, 2)[::2],
    "backwards": lambda y: y[::-1].copy()[::-1],
}
