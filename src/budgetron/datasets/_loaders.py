"""The loaders: for each data set, how its files are read and how OpenML's copy becomes the same."""

from __future__ import annotations

import csv
import gzip
from functools import partial
from io import BufferedReader
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from budgetron.datasets._catalogue import CATALOGUE
from budgetron.datasets._sources import Dataset, Pair, PathLike, float_dtype, labels, load, numbers, reading

__all__ = [
    "load_adult",
    "load_covertype",
    "load_electricity",
    "load_ijcnn1",
    "load_letter",
    "load_mnist",
    "load_phishing",
    "load_spambase",
    "load_usps",
    "load_vehicle",
]


def load_adult(
    subset: str = "train", *, data_home: PathLike | None = None, dtype: DTypeLike = np.float64
) -> Dataset:
    """Adult in its binary form, LIBSVM's a9a: who earns more than 50,000 dollars.

    32,561 rows to train and 16,281 to test; 123 features of 0 or 1, about 14 of them set; labels
    -1 and +1 (24 %). The set of 002 Table 1.

    Parameters
    ----------
    subset : {"train", "test", "all"}
    data_home : path, optional
        Where scikit-learn keeps what it fetched from OpenML; by default its own folder.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is a CSR matrix. Files: `a9a` and `a9a.t`, as they are or compressed (.gz, .bz2).

    Notes
    -----
    OpenML: 1430, taken to be both parts in this order; the class counts of the part are checked.

    Examples
    --------
    >>> from budgetron.datasets import load_adult
    >>> X, y = load_adult()  # doctest: +SKIP
    """
    dtype = float_dtype(dtype)
    return load("adult", subset, data_home, partial(_libsvm, 123, dtype), _sparse, partial(_csr, dtype))


def load_covertype(*, data_home: PathLike | None = None, dtype: DTypeLike = np.float64) -> Dataset:
    """Covertype: which of seven kinds of forest grows in a place.

    581,012 rows of 54 features, in UCI's order, not scaled: 10 quantities, then indicators of 4
    areas and 40 soils; labels 1 to 7. Class 2 against the rest (49 %) is LIBSVM's covtype.binary.

    Parameters
    ----------
    data_home : path, optional
        Where scikit-learn keeps what it fetched from OpenML; by default its own folder.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is an array. File: `covtype.npz` with `X` and `y`.

    Notes
    -----
    OpenML: 1596. The order of its rows is not verified.
    """
    dtype = float_dtype(dtype)
    names = (*_QUANTITIES, *_numbered("Wilderness_Area", 4), *_numbered("Soil_Type", 40))
    return load("covertype", "all", data_home, _npz, _dense, partial(_array, dtype), names)


def load_electricity(*, data_home: PathLike | None = None, dtype: DTypeLike = np.float64) -> Dataset:
    """Electricity (Elec2): whether the price goes UP or DOWN against the last day's mean.

    45,312 half hours of New South Wales, May 1996 to December 1998, in the order of time; 8
    features in [0, 1] but for the day of the week (1 to 7); labels "UP" (42 %) and "DOWN". A
    stream with drift, in which the last label is a good guess of the next.

    Parameters
    ----------
    data_home : path, optional
        Where scikit-learn keeps what it fetched from OpenML; by default its own folder.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is an array. File: `electricity.csv`, as it is or as .gz, with a header.

    Notes
    -----
    OpenML: 151.
    """
    dtype = float_dtype(dtype)
    return load("electricity", "all", data_home, _elec2, _elec2_openml, partial(_array, dtype), _ELECTRICITY)


def load_ijcnn1(
    subset: str = "train", *, data_home: PathLike | None = None, dtype: DTypeLike = np.float64
) -> Dataset:
    """IJCNN1: whether an engine misfires.

    49,990 rows to train and 91,701 to test, of 22 features; labels -1 and +1 (10 %).

    Parameters
    ----------
    subset : {"train", "test", "all"}
    data_home : path, optional
        Where scikit-learn keeps what it fetched from OpenML; by default its own folder.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is an array. Files: `ijcnn1` and `ijcnn1.t`, as they are or compressed (.gz, .bz2).

    Notes
    -----
    OpenML: 1575, not verified. Its number of rows is that of LIBSVM's four files together, of
    which two make up a third; which rows are which is told by their class counts.
    """
    dtype = float_dtype(dtype)
    read = partial(_libsvm, 22, dtype)
    return load("ijcnn1", subset, data_home, read, _ijcnn1_openml, partial(_array, dtype))


def load_letter(
    subset: str = "train", *, data_home: PathLike | None = None, dtype: DTypeLike = np.float64
) -> Dataset:
    """Letter: which capital letter an image shows.

    15,000 rows to train and 5,000 to test; 16 features in [-1, 1]; labels 1 to 26 for A to Z,
    about equally many.

    Parameters
    ----------
    subset : {"train", "test", "all"}
    data_home : path, optional
        Where scikit-learn keeps what it fetched from OpenML; by default its own folder.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is an array. Files: LIBSVM's `letter.scale` and `letter.scale.t`, as they are or
        compressed (.gz, .bz2).

    Notes
    -----
    OpenML: 6, whose whole numbers 0 to 15 are scaled as LIBSVM did (to six digits there). It is
    taken to be both parts in this order; the class counts of the part are checked.
    """
    dtype = float_dtype(dtype)
    read = partial(_libsvm, 16, dtype)
    return load("letter", subset, data_home, read, _letter_openml, partial(_array, dtype))


def load_mnist(
    subset: str = "train", *, data_home: PathLike | None = None, dtype: DTypeLike = np.float64
) -> Dataset:
    """MNIST: which digit was written.

    60,000 rows to train and 10,000 to test; 28 x 28 pixels in [0, 1], row by row; labels 0 to 9.

    Parameters
    ----------
    subset : {"train", "test", "all"}
    data_home : path, optional
        Where scikit-learn keeps what it fetched from OpenML; by default its own folder.
    dtype : float64 or float32
        The training rows take 376 MB in float64.

    Returns
    -------
    Dataset
        `X` is an array. Files: `mnist-train-images-idx3-ubyte`, `mnist-train-labels-idx1-ubyte`,
        and the same with `t10k`; as they are or as .gz.

    Notes
    -----
    OpenML: 554, which has both parts in this order.
    """
    dtype = float_dtype(dtype)
    return load(
        "mnist", subset, data_home, _idx, _dense, lambda X: np.divide(X, dtype.type(255), dtype=dtype)
    )


def load_phishing(*, data_home: PathLike | None = None, dtype: DTypeLike = np.float64) -> Dataset:
    """Phishing websites in LIBSVM's form: whether a page is what it says.

    11,055 rows of 68 features, 30 of them set to 0.18257, which makes every row a unit vector;
    labels 0 and 1 (56 %).

    Parameters
    ----------
    data_home : path, optional
        Where scikit-learn keeps what it fetched from OpenML; by default its own folder.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is a CSR matrix. File: `phishing`, as it is or compressed (.gz, .bz2).

    Notes
    -----
    OpenML: 4534, 30 columns of -1, 0 and 1. Each level of each column becomes a feature, numbered
    as it first appears, which is how LIBSVM's file is numbered if the order of the rows is the
    same. That is not verified; another order permutes the features, which no kernel here notices.
    """
    dtype = float_dtype(dtype)
    read = partial(_libsvm, 68, dtype)
    return load("phishing", "all", data_home, read, _phishing_openml, partial(_csr, dtype))


def load_spambase(*, data_home: PathLike | None = None, dtype: DTypeLike = np.float64) -> Dataset:
    """Spambase: whether a mail is one that nobody asked for.

    4,601 rows of 57 features, not scaled: frequencies of words and signs, lengths of capital
    runs; labels 0 and 1 (39 %). All of class 1 come first: shuffle before learning on-line.

    Parameters
    ----------
    data_home : path, optional
        Where scikit-learn keeps what it fetched from OpenML; by default its own folder.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is an array. File: UCI's `spambase.data`, as it is or as .gz.

    Notes
    -----
    OpenML: 44. The order of its rows is not verified.
    """
    dtype = float_dtype(dtype)
    return load("spambase", "all", data_home, _table, _dense, partial(_array, dtype))


def load_usps(
    subset: str = "all", *, data_home: PathLike | None = None, dtype: DTypeLike = np.float64
) -> Dataset:
    """USPS: which digit of a zip code was written.

    7,291 rows to train and 2,007 to test, 9,298 in all; 16 x 16 pixels in [-1, 1], row by row;
    labels 0 to 9. Not the set with 11,000 images.

    Parameters
    ----------
    subset : {"train", "test", "all"}
    data_home : path, optional
        Where scikit-learn keeps what it fetched from OpenML; by default its own folder.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is an array. File: `usps.npz` with `X_train`, `y_train`, `X_test`, `y_test`.

    Notes
    -----
    OpenML: 41082, with labels 1 to 10 for 0 to 9. Taken to be both parts in this order; the class
    counts of the part are checked. Pixels in [0, 1] there would be mapped to [-1, 1].
    """
    dtype = float_dtype(dtype)
    return load("usps", subset, data_home, _npz, _usps_openml, partial(_array, dtype))


def load_vehicle(
    subset: str = "train", *, data_home: PathLike | None = None, dtype: DTypeLike = np.float64
) -> Dataset:
    """SensIT Vehicle, acoustic and seismic features combined: which vehicle passes by.

    78,823 rows to train and 19,705 to test, of 100 features; labels 1 to 3.

    Parameters
    ----------
    subset : {"train", "test", "all"}
    data_home : path, optional
        Where scikit-learn keeps what it fetched from OpenML; by default its own folder.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is an array. Files: LIBSVM's `combined` and `combined.t`, as they are or compressed
        (.gz, .bz2).

    Notes
    -----
    Not verified: neither file was at hand when this was written, so that only rows, features and
    the number of classes are checked. OpenML: "SensIT-Vehicle-Combined", version 1, taken to be
    both parts in this order.
    """
    dtype = float_dtype(dtype)
    return load("vehicle", subset, data_home, partial(_libsvm, 100, dtype), _sparse, partial(_array, dtype))


# ---------------------------------------------------------------------- files


def _libsvm(features: int, dtype: np.dtype[Any], part: str, path: Path) -> Pair:
    with reading(path):
        X, y = load_svmlight_file(str(path), n_features=features, dtype=dtype, zero_based=False)
        return X, labels(y)


def _npz(part: str, path: Path) -> Pair:
    suffix = "" if part == "all" else f"_{part}"
    with reading(path), np.load(path, allow_pickle=False) as arrays:
        return arrays[f"X{suffix}"], labels(arrays[f"y{suffix}"])


def _idx(part: str, images: Path, digits: Path) -> Pair:
    pixels = _bytes(images, 16)
    with reading(images):
        X = pixels.reshape(-1, 784)
    return X, labels(_bytes(digits, 8))


def _bytes(path: Path, header: int) -> NDArray[np.uint8]:
    with reading(path), _open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def _elec2(part: str, path: Path) -> Pair:
    with reading(path), _open(path) as file:
        header, *rows = csv.reader(file.read().decode().splitlines())
        if tuple(header) != (*_ELECTRICITY, "class"):
            raise ValueError(f"columns {', '.join(header)}")
        return np.array([row[:-1] for row in rows], dtype=np.float64), np.array([row[-1] for row in rows])


def _table(part: str, path: Path) -> Pair:
    with reading(path), _open(path) as file:
        table = np.loadtxt(file, delimiter=",", ndmin=2)
        return table[:, :-1], labels(table[:, -1])


def _open(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


# ---------------------------------------------------------------------- OpenML's copies


def _sparse(bunch: Any) -> Pair:
    return sparse.csr_matrix(bunch.data), labels(bunch.target)


def _dense(bunch: Any) -> Pair:
    return numbers(bunch), labels(bunch.target)


def _elec2_openml(bunch: Any) -> Pair:
    return numbers(bunch), np.asarray(bunch.target).astype(str)


def _letter_openml(bunch: Any) -> Pair:
    # LIBSVM mapped the 0 to 15 of every column to -1 to 1.
    return numbers(bunch) / 7.5 - 1, np.array([ord(letter) - ord("A") + 1 for letter in bunch.target])


def _usps_openml(bunch: Any) -> Pair:
    X, y = _dense(bunch)
    return X if X.min() < 0 else 2 * X - 1, y - y.min()


def _phishing_openml(bunch: Any) -> Pair:
    X, y = _dense(bunch)
    rows, columns = X.shape
    levels = (X + 1 + 3 * np.arange(columns)).astype(np.intp).ravel()
    _, first, level = np.unique(levels, return_index=True, return_inverse=True)
    feature = np.argsort(np.argsort(first))  # the rank of each level's first appearance
    shape = (rows, len(first))
    pointers = np.arange(0, levels.size + 1, columns)
    onehot = sparse.csr_matrix((np.full(levels.size, 0.18257), feature[level], pointers), shape=shape)
    onehot.sort_indices()
    return onehot, (y > 0).astype(np.int64)


def _ijcnn1_openml(bunch: Any) -> Pair:
    X, y = _sparse(bunch)
    parts = CATALOGUE["ijcnn1"].parts
    # Rows and positives of LIBSVM's files; tr and val are the training part once more.
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
    return X, y  # perhaps the two parts alone; if not, the check of the counts says so


# ---------------------------------------------------------------------- what users see


def _csr(dtype: np.dtype[Any], X: Any) -> Any:
    return sparse.csr_matrix(X, dtype=dtype)


def _array(dtype: np.dtype[Any], X: Any) -> NDArray[Any]:
    dense = X.toarray() if sparse.issparse(X) else X
    return np.ascontiguousarray(dense, dtype=dtype)


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}{i}" for i in range(1, count + 1))


_ELECTRICITY = ("date", "day", "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer")

_QUANTITIES = (
    "Elevation",
    "Aspect",
    "Slope",
    "Horizontal_Distance_To_Hydrology",
    "Vertical_Distance_To_Hydrology",
    "Horizontal_Distance_To_Roadways",
    "Hillshade_9am",
    "Hillshade_Noon",
    "Hillshade_3pm",
    "Horizontal_Distance_To_Fire_Points",
)
