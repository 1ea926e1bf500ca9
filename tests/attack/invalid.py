"""Invalid rows and labels for classifiers. Each must raise an error that leaves the model unchanged."""

import warnings

import numpy as np
import pandas as pd
import polars
from inputs import make_rows, names
from scipy.sparse import csr_array

N = 4


def good_rows(d):
    return make_rows(0, N, d, "real", "fresh")


def changed(d, value, dtype=float):
    X = good_rows(d).astype(dtype)
    X[2, 0] = value
    return X


def out_of_range(d, index):
    rows = csr_array(np.ones((N, d)))
    rows.indices[1] = index
    return rows


def frame_with(d, value):
    return pd.DataFrame(changed(d, value, object), columns=names(d))


def matrix(d):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asmatrix(good_rows(d))


# Functions of the number of features
BAD_ROWS = {
    "NaN": lambda d: changed(d, np.nan),
    "infinity": lambda d: changed(d, -np.inf, np.float32),
    "NaN in a CSR matrix": lambda d: csr_array(changed(d, np.nan)),
    "infinity in a CSR matrix": lambda d: csr_array(changed(d, np.inf)),
    "pandas with a missing value": lambda d: frame_with(d, pd.NA),
    "pandas with None": lambda d: frame_with(d, None),
    "pandas with text": lambda d: frame_with(d, "a"),
    "polars with a missing value": lambda d: polars.DataFrame([[1.0, None, 1.0, 1.0]] * d),
    "no rows": lambda d: good_rows(d)[:0],
    "no rows, CSR": lambda d: csr_array((0, d)),
    "no features": lambda d: np.zeros((N, 0)),
    "three dimensions": lambda d: good_rows(d)[None],
    "one dimension": lambda d: np.zeros(N),
    "a number": lambda d: 1.5,
    "None": lambda d: None,
    "text": lambda d: "rows",
    "numbers as text": lambda d: np.full((N, d), "x"),
    "complex": lambda d: good_rows(d) + 1j,
    "records": lambda d: np.zeros(N, [("a", float)]),
    "objects": lambda d: changed(d, {}, object),
    "dicts": lambda d: [{"a": 1.0}] * N,
    "a ragged list": lambda d: [[1.0] * d, [1.0] * (d + 1), [], [1.0]],
    "np.matrix": matrix,
    "CSR index too large": lambda d: out_of_range(d, d),
    "CSR index far too large": lambda d: out_of_range(d, 2**31 - 1),
    "CSR index negative": lambda d: out_of_range(d, -1),
    "complex CSR matrix": lambda d: csr_array(good_rows(d) + 1j),
}

# Rows that only a fitted model refuses
BAD_LATER_ROWS = {
    "too wide": lambda d: good_rows(d + 1),
    "too narrow": lambda d: good_rows(d)[:, : d - 1],
    "too wide, CSR": lambda d: csr_array(good_rows(d + 1)),
    "too narrow, CSR": lambda d: csr_array(good_rows(d)[:, : d - 1]),
}

# Functions of the classes
BAD_LABELS = {
    "too few labels": lambda classes: classes[:1],
    "too many labels": lambda classes: np.repeat(classes[:1], N + 1),
    "no labels": lambda classes: classes[:0],
    "None": lambda classes: None,
    "a label": lambda classes: classes[0],
    "two dimensions": lambda classes: np.repeat(classes[:1], 2 * N).reshape(N, 2),
    "NaN": lambda classes: np.array([np.nan] * N),
    "missing": lambda classes: np.array([None] * N),
    "dicts": lambda classes: [{}] * N,
    "unknown number": lambda classes: [*classes[:1].tolist() * (N - 1), 99],
    "unknown text": lambda classes: np.array(["unknown"] * N),
    "fractions": lambda classes: np.full(N, 0.25),
    "complex": lambda classes: np.full(N, 1j),
}

# One row for `play`
BAD_SINGLE_ROWS = {
    "NaN": lambda d: np.full(d, np.nan),
    "infinity": lambda d: [np.inf] * d,
    "too long": lambda d: np.zeros(d + 1),
    "too short": lambda d: np.zeros(d - 1),
    "empty": lambda d: [],
    "two rows": lambda d: np.zeros((2, d)),
    "a column": lambda d: np.zeros((d, 1)),
    "three dimensions": lambda d: np.zeros((1, 1, d)),
    "a number": lambda d: 1.0,
    "None": lambda d: None,
    "text": lambda d: "row",
    "texts": lambda d: ["a"] * d,
    "complex": lambda d: np.full(d, 1j),
    "dates": lambda d: np.zeros(d, "datetime64[s]"),
    "a dict": lambda d: {"a": 1.0},
    "objects": lambda d: np.array([{}] * d),
    "sparse NaN": lambda d: csr_array(np.full((1, d), np.nan)),
    "sparse, two rows": lambda d: csr_array(np.ones((2, d))),
    "sparse, too long": lambda d: csr_array(np.ones((1, d + 1))),
    "sparse complex": lambda d: csr_array(np.full((1, d), 1j)),
    "sparse, index too large": lambda d: csr_array(([1.0], [d], [0, 1]), shape=(1, d)),
    "sparse, index negative": lambda d: csr_array(([1.0], [-1], [0, 1]), shape=(1, d)),
}

# Rows that only a fitted model refuses. The first row is converted as scikit-learn does, which takes dates.
LATER_SINGLE_ROWS = ("too long", "too short", "sparse, too long", "dates")

BAD_SINGLE_LABELS = {
    "unknown number": 99,
    "unknown text": "unknown",
    "None": None,
    "NaN": np.nan,
    "a list": [0],
    "an array": np.zeros(1),
    "an array of no dimensions": np.array(0),
    "a dict": {},
}
