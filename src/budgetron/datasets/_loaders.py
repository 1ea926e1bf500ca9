"""The loaders: a description of each data set, and the functions that read and convert it."""

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
    """Load Adult in its binary form, LIBSVM's a9a: whether a person earns more than 50,000 dollars.

    32,561 training and 16,281 test rows; 123 features of 0 or 1, about 14 of them 1; labels -1 and +1 (24 %).
    The data set of Table 1 of the Projectron paper.

    Parameters
    ----------
    subset : {"train", "test", "all"}
    data_home : path, optional
        The cache folder of scikit-learn; by default its usual one.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is a CSR matrix. Files: `a9a` and `a9a.t`, plain or compressed (.gz, .bz2).

    Notes
    -----
    OpenML: 1430, assumed to be both parts in this order; the class counts are checked.

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
    """Load Covertype: which of seven types of forest grows at a place.

    581,012 rows of 54 features, in UCI's order, not scaled: 10 quantities, then indicators of 4
    areas and 40 soil types; labels 1 to 7. Class 2 against the rest (49 %) is LIBSVM's covtype.binary.

    Parameters
    ----------
    data_home : path, optional
        The cache folder of scikit-learn; by default its usual one.
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
    """Load Electricity (Elec2): whether the price goes UP or DOWN, compared with the mean of the last day.

    45,312 half hours in New South Wales, May 1996 to December 1998, ordered by time; 8 features in [0, 1],
    except the day of the week (1 to 7); labels "UP" (42 %) and "DOWN". A stream with drift, in which the last
    label is a good prediction of the next.

    Parameters
    ----------
    data_home : path, optional
        The cache folder of scikit-learn; by default its usual one.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is an array. File: `electricity.csv`, plain or as .gz, with a header.

    Notes
    -----
    OpenML: 151, assumed to be in the same order; not verified.
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
    """Load IJCNN1: whether an engine misfires.

    49,990 training and 91,701 test rows of 22 features; labels -1 and +1 (10 %).

    Parameters
    ----------
    subset : {"train", "test", "all"}
    data_home : path, optional
        The cache folder of scikit-learn; by default its usual one.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is an array. Files: `ijcnn1` and `ijcnn1.t`, plain or compressed (.gz, .bz2).

    Notes
    -----
    OpenML: 1575. Not verified: it seems to contain LIBSVM's four files, of which two are the training part
    again, in an unknown order. The class counts determine which rows are which. Only the two parts, in this
    order, are accepted as well.
    """
    dtype = float_dtype(dtype)
    read = partial(read_libsvm, 22, dtype)
    return load("ijcnn1", subset, data_home, read, convert_ijcnn1, partial(as_array, dtype))


def load_letter(
    subset: str = "train", *, data_home: PathLike | None = None, dtype: DTypeLike = np.float64
) -> Dataset:
    """Load Letter: which capital letter an image shows.

    15,000 training and 5,000 test rows; 16 features in [-1, 1]; labels 1 to 26 for A to Z, about equally
    frequent.

    Parameters
    ----------
    subset : {"train", "test", "all"}
    data_home : path, optional
        The cache folder of scikit-learn; by default its usual one.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is an array. Files: LIBSVM's `letter.scale` and `letter.scale.t`, plain or compressed
        (.gz, .bz2).

    Notes
    -----
    OpenML: 6, whose integers 0 to 15 are scaled like LIBSVM's (which has six digits). It is
    assumed to be both parts in this order; the class counts are checked.
    """
    dtype = float_dtype(dtype)
    read = partial(read_libsvm, 16, dtype)
    return load("letter", subset, data_home, read, convert_letter, partial(as_array, dtype))


def load_mnist(
    subset: str = "train", *, data_home: PathLike | None = None, dtype: DTypeLike = np.float64
) -> Dataset:
    """Load MNIST: which digit was written.

    60,000 training and 10,000 test rows; 28 x 28 pixels in [0, 1], row by row; labels 0 to 9.

    Parameters
    ----------
    subset : {"train", "test", "all"}
    data_home : path, optional
        The cache folder of scikit-learn; by default its usual one.
    dtype : float64 or float32
        The training rows take 359 MB in float64.

    Returns
    -------
    Dataset
        `X` is an array. Files: `mnist-train-images-idx3-ubyte`, `mnist-train-labels-idx1-ubyte`,
        and the same with `t10k`; plain or as .gz.

    Notes
    -----
    OpenML: 554, assumed to be both parts in this order; the class counts are checked.
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
    """Load Phishing websites in LIBSVM's form: whether a page is genuine.

    11,055 rows of 68 features, 30 of which are 0.18257, so that every row is a unit vector;
    labels 0 and 1 (56 %).

    Parameters
    ----------
    data_home : path, optional
        The cache folder of scikit-learn; by default its usual one.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is a CSR matrix. File: `phishing`, plain or compressed (.gz, .bz2).

    Notes
    -----
    OpenML: 4534, 30 columns of -1, 0 and 1. Each level of each column becomes a feature, numbered
    by its first occurrence, which is how LIBSVM's file is numbered if the order of the rows is the
    same. That is not verified; another order permutes the features, which does not change any kernel.
    """
    dtype = float_dtype(dtype)
    read = partial(read_libsvm, 68, dtype)
    return load("phishing", "all", data_home, read, convert_phishing, partial(as_csr, dtype))


def load_spambase(*, data_home: PathLike | None = None, dtype: DTypeLike = np.float64) -> Dataset:
    """Load Spambase: whether an e-mail is spam.

    4,601 rows of 57 features, not scaled: frequencies of words and characters, lengths of runs of capital
    letters; labels 0 and 1 (39 %). All rows of class 1 come first, so shuffle the rows before learning
    online.

    Parameters
    ----------
    data_home : path, optional
        The cache folder of scikit-learn; by default its usual one.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is an array. File: UCI's `spambase.data`, plain or as .gz.

    Notes
    -----
    OpenML: 44. The order of its rows is not verified.
    """
    dtype = float_dtype(dtype)
    return load("spambase", "all", data_home, read_table, convert_dense, partial(as_array, dtype))


def load_usps(
    subset: str = "all", *, data_home: PathLike | None = None, dtype: DTypeLike = np.float64
) -> Dataset:
    """Load USPS: which digit of a zip code was written.

    7,291 training and 2,007 test rows, 9,298 in total; 16 x 16 pixels in [-1, 1], row by row; labels 0 to 9.
    This is not the data set with 11,000 images.

    Parameters
    ----------
    subset : {"train", "test", "all"}
    data_home : path, optional
        The cache folder of scikit-learn; by default its usual one.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is an array. File: `usps.npz` with `X_train`, `y_train`, `X_test`, `y_test`.

    Notes
    -----
    OpenML: 41082, with labels 1 to 10 for 0 to 9. Assumed to be both parts in this order; the
    class counts are checked. If its pixels are in [0, 1], they are mapped to [-1, 1].
    """
    dtype = float_dtype(dtype)
    return load("usps", subset, data_home, read_npz, convert_usps, partial(as_array, dtype))


def load_vehicle(
    subset: str = "train", *, data_home: PathLike | None = None, dtype: DTypeLike = np.float64
) -> Dataset:
    """Load SensIT Vehicle, with acoustic and seismic features: which vehicle passes by.

    78,823 training and 19,705 test rows of 100 features; labels 1 to 3.

    Parameters
    ----------
    subset : {"train", "test", "all"}
    data_home : path, optional
        The cache folder of scikit-learn; by default its usual one.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is an array. Files: LIBSVM's `combined` and `combined.t`, plain or compressed (.gz, .bz2).

    Notes
    -----
    Not verified: neither file was available when this was written, so only the numbers of rows, features and
    classes are checked. OpenML: "SensIT-Vehicle-Combined", version 1, assumed to be both parts in this order.
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
