"""Read files, and convert data sets of OpenML to the same form: functions for `_sources.load`."""

from __future__ import annotations

import csv
import gzip
from io import BufferedReader
from itertools import permutations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetron.datasets._catalogue import CATALOGUE
from budgetron.datasets._sources import Bunch, Matrix, Pair, labels, numbers, reading

__all__ = [
    "ELECTRICITY",
    "as_array",
    "as_csr",
    "convert_dense",
    "convert_electricity",
    "convert_ijcnn1",
    "convert_letter",
    "convert_phishing",
    "convert_sparse",
    "convert_usps",
    "read_electricity",
    "read_idx",
    "read_libsvm",
    "read_npz",
    "read_table",
]

# float32 or float64
FloatType: TypeAlias = np.dtype[Any]

ELECTRICITY = ("date", "day", "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer")


# ---------------------------------------------------------------------- files


def read_libsvm(features: int, dtype: FloatType, part: str, path: Path) -> Pair:
    """Read a LIBSVM file."""
    from sklearn.datasets import load_svmlight_file  # takes long to import

    with reading(path):
        X, y = load_svmlight_file(str(path), n_features=features, dtype=dtype, zero_based=False)
        return X, labels(y)


def read_npz(part: str, path: Path) -> Pair:
    """Read arrays named X and y, with the name of the part as suffix."""
    suffix = "" if part == "all" else f"_{part}"
    # Opened here, because numpy leaves a damaged file open.
    with reading(path), path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return arrays[f"X{suffix}"], labels(arrays[f"y{suffix}"])


def read_idx(part: str, images: Path, digits: Path) -> Pair:
    """Read MNIST's files."""
    pixels = _bytes(images, 16)
    with reading(images):
        X = pixels.reshape(-1, 784)
    return X, labels(_bytes(digits, 8))


def _bytes(path: Path, header: int) -> NDArray[np.uint8]:
    with reading(path), _open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def read_electricity(part: str, path: Path) -> Pair:
    """Read a CSV file with the columns of Electricity."""
    with reading(path):
        header, *rows = _rows(path)
        if tuple(header) != (*ELECTRICITY, "class"):
            raise ValueError(f"columns {', '.join(header)}")
        return np.array([row[:-1] for row in rows], dtype=np.float64), np.array([row[-1] for row in rows])


def read_table(part: str, path: Path) -> Pair:
    """Read a CSV file of numbers without header, with the label in the last column."""
    with reading(path):
        table = np.array(_rows(path), dtype=np.float64)
        return table[:, :-1], labels(table[:, -1])


def _rows(path: Path) -> list[list[str]]:
    with _open(path) as file:
        return list(csv.reader(file.read().decode().splitlines()))


def _open(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


# ---------------------------------------------------------------------- data sets of OpenML


def convert_sparse(bunch: Bunch) -> Pair:
    """Return sparse rows."""
    return sparse.csr_matrix(bunch.data), labels(bunch.target)


def convert_dense(bunch: Bunch) -> Pair:
    """Return dense rows."""
    return numbers(bunch), labels(bunch.target)


def convert_electricity(bunch: Bunch) -> Pair:
    """Return dense rows, with text as labels."""
    return numbers(bunch), np.asarray(bunch.target).astype(str)


def convert_letter(bunch: Bunch) -> Pair:
    """Return rows scaled like LIBSVM's, with labels 1 to 26."""
    # LIBSVM mapped the range 0 to 15 of every column to -1 to 1.
    return numbers(bunch) / 7.5 - 1, np.array([ord(letter) - ord("A") + 1 for letter in bunch.target])


def convert_usps(bunch: Bunch) -> Pair:
    """Return pixels in [-1, 1], with labels 0 to 9."""
    X, y = convert_dense(bunch)
    return X if X.min() < 0 else 2 * X - 1, y - y.min()


def convert_phishing(bunch: Bunch) -> Pair:
    """Return one feature per level, numbered as in LIBSVM's file."""
    X, y = convert_dense(bunch)
    rows, columns = X.shape
    levels = (X + 1 + 3 * np.arange(columns)).astype(np.intp).ravel()
    _, first, level = np.unique(levels, return_index=True, return_inverse=True)
    feature = np.argsort(np.argsort(first))  # the rank of each level's first appearance
    shape = (rows, len(first))
    pointers = np.arange(0, levels.size + 1, columns)
    onehot = sparse.csr_matrix((np.full(levels.size, 0.18257), feature[level], pointers), shape=shape)
    onehot.sort_indices()
    return onehot, (y > 0).astype(np.int64)


def convert_ijcnn1(bunch: Bunch) -> Pair:
    """Find the training and test part by their class counts."""
    X, y = convert_sparse(bunch)
    parts = CATALOGUE["ijcnn1"].parts
    # Rows and positives of LIBSVM's files; tr and val together are the training part again.
    files = {"tr": (35000, 3415), "val": (14990, 1438)}
    files |= {name: (part.rows, part.counts[1]) for name, part in parts.items() if part.counts}
    for order in permutations(files):
        ends = np.cumsum([files[name][0] for name in order])
        if ends[-1] != len(y):
            break
        blocks = dict(zip(order, np.split(np.arange(len(y)), ends[:-1]), strict=True))
        if all((y[rows] > 0).sum() == files[name][1] for name, rows in blocks.items()):
            rows = np.concatenate([blocks["train"], blocks["test"]])
            return X[rows], y[rows]
    return X, y  # presumably only the two parts; otherwise the check of the counts fails


# ---------------------------------------------------------------------- the final form


def as_csr(dtype: FloatType, X: Matrix) -> Matrix:
    """Return rows as a CSR matrix."""
    return sparse.csr_matrix(X, dtype=dtype)


def as_array(dtype: FloatType, X: Matrix) -> Matrix:
    """Return rows as an array."""
    dense = X.toarray() if sparse.issparse(X) else X
    return np.ascontiguousarray(dense, dtype=dtype)
