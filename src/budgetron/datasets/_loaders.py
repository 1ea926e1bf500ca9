"""The loaders: what each data set is, and which functions read and convert it."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import DTypeLike

from budgetron.datasets._forms import (
    ELECTRICITY,
    as_array,
    as_csr,
    convert_dense,
    convert_electricity,
    convert_ijcnn1,
    convert_letter,
    convert_phishing,
    convert_sparse,
    convert_usps,
    read_electricity,
    read_idx,
    read_libsvm,
    read_npz,
    read_table,
)
from budgetron.datasets._sources import Dataset, PathLike, float_dtype, load

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
    return load(
        "adult", subset, data_home, partial(read_libsvm, 123, dtype), convert_sparse, partial(as_csr, dtype)
    )


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
    return load("covertype", "all", data_home, read_npz, convert_dense, partial(as_array, dtype), names)


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
    OpenML: 151, taken to be in the same order; not verified.
    """
    dtype = float_dtype(dtype)
    return load(
        "electricity",
        "all",
        data_home,
        read_electricity,
        convert_electricity,
        partial(as_array, dtype),
        ELECTRICITY,
    )


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
    OpenML: 1575. Not verified: it seems to hold LIBSVM's four files, of which two are the training
    part once more, in an unknown order. Their class counts tell which rows are which; both parts
    alone, in this order, do as well.
    """
    dtype = float_dtype(dtype)
    read = partial(read_libsvm, 22, dtype)
    return load("ijcnn1", subset, data_home, read, convert_ijcnn1, partial(as_array, dtype))


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
    read = partial(read_libsvm, 16, dtype)
    return load("letter", subset, data_home, read, convert_letter, partial(as_array, dtype))


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
    OpenML: 554, taken to have both parts in this order; the class counts of the part are checked.
    """
    dtype = float_dtype(dtype)
    return load(
        "mnist",
        subset,
        data_home,
        read_idx,
        convert_dense,
        lambda X: np.divide(X, dtype.type(255), dtype=dtype),
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
    read = partial(read_libsvm, 68, dtype)
    return load("phishing", "all", data_home, read, convert_phishing, partial(as_csr, dtype))


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
    return load("spambase", "all", data_home, read_table, convert_dense, partial(as_array, dtype))


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
    return load("usps", subset, data_home, read_npz, convert_usps, partial(as_array, dtype))


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
    return load(
        "vehicle",
        subset,
        data_home,
        partial(read_libsvm, 100, dtype),
        convert_sparse,
        partial(as_array, dtype),
    )


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}{i}" for i in range(1, count + 1))


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
