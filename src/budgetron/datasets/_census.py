"""Census-Income (KDD), a data set of the Forgetron paper, with balancing and encoding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from budgetron.datasets._catalogue import CATALOGUE
from budgetron.datasets._forms import FloatType
from budgetron.datasets._sources import (
    Bunch,
    Dataset,
    LabelArray,
    Matrix,
    Pair,
    PathLike,
    choose,
    float_dtype,
    labels,
    load,
    reading,
    texts,
)

__all__ = ["load_census_income"]

# UCI's columns, counted from 0: these are numeric, 24 is the weight of the row, 41 the class; the others are
# nominal.
_NUMERIC = (0, 5, 16, 17, 18, 30, 39)
_WEIGHT = 24


def load_census_income(
    subset: str = "train",
    *,
    balanced: bool = True,
    numeric: str = "unit",
    random_state: int | np.random.RandomState | None = None,
    data_home: PathLike | None = None,
    dtype: DTypeLike = np.float64,
) -> Dataset:
    """Load Census-Income (KDD): whether a person earns more than 50,000 dollars.

    Balanced by default, as in the Forgetron paper. 199,523 training and 99,762 test rows; 7 numeric columns,
    and 33 nominal columns that become 503 features of 0 or 1; labels 0 and 1 (6 %). The instance weight is
    left out, as UCI recommends.

    Parameters
    ----------
    subset : {"train", "test", "all"}
    balanced : bool, default=True
        Keep all rows of class 1 (12,382 for training), draw the same number of class 0, and shuffle them.
        Otherwise all rows, in the published order.
    numeric : {"unit", "standard", "raw"}, default="unit"
        Numeric features are mapped to [0, 1], or to mean 0 and variance 1, or left unchanged. Extremes, means
        and deviations are those of all training rows, so that they are the same for all parts and draws;
        test rows may be outside of [0, 1]. The Forgetron paper does not say how it scaled them. This uses
        rows that come later, which is acceptable for experiments, but impossible for a stream.
    random_state : int, RandomState or None
        For the draw and the order.
    data_home : path, optional
        The cache folder of scikit-learn; by default its usual one.
    dtype : float64 or float32

    Returns
    -------
    Dataset
        `X` is a CSR matrix with 510 columns; features of nominal columns are named "column=level". File:
        `census-income.npz` with `num_s`, `cat_s` (codes) and `y_s`, where s is train or test; and the
        names `num_names`, `cat_names`, `levels_00` to `levels_32`.

    Notes
    -----
    OpenML: 4535. Assumed, but not verified: it has UCI's columns in UCI's order, and both parts
    in this order. The class counts of both parts and the number of levels are checked. Its columns have no
    names, so features are named after V1, V2 and so on.

    Examples
    --------
    >>> from budgetron.datasets import load_census_income
    >>> X, y = load_census_income(random_state=0)  # doctest: +SKIP
    """
    if numeric not in ("unit", "standard", "raw"):
        raise ValueError(f"numeric must be 'unit', 'standard' or 'raw', not {numeric!r}")
    dtype = float_dtype(dtype)
    entry, reader = CATALOGUE["census_income"], _Reader()
    choose(entry, subset)
    # Always load both parts, because the training rows determine the scale.
    both = load(
        entry.name, "all", data_home, reader.read, reader.convert, lambda table: table, width=40, strict=True
    )
    cut = entry.parts["train"].rows
    rows = np.arange(len(both.y))[{"train": slice(cut), "test": slice(cut, None), "all": slice(None)}[subset]]
    if balanced:
        rows = rows[_balance(both.y[rows], check_random_state(random_state))]
    offset, scale = _scale(numeric, both.X[:cut, : len(_NUMERIC)])
    X = _onehot(both.X[rows], [len(levels) for levels in reader.levels], offset, scale, dtype)
    return Dataset(X, both.y[rows], both.name, reader.feature_names, both.source, both.description)


class _Reader:
    """Reads the table, and keeps the names and levels of its columns.

    Tables have the 7 numeric columns first, then the 33 nominal columns as codes.
    """

    columns: tuple[str, ...] = ()
    levels: tuple[LabelArray, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the encoded features."""
        names = list(self.columns[: len(_NUMERIC)])
        for column, levels in zip(self.columns[len(_NUMERIC) :], self.levels, strict=True):
            names += [f"{column}={level}" for level in levels]
        return tuple(names)

    def read(self, part: str, path: Path) -> Pair:
        """Read the file."""
        with reading(path), path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            self.columns = (*arrays["num_names"].tolist(), *arrays["cat_names"].tolist())
            self.levels = tuple(arrays[f"levels_{i:02}"] for i in range(len(arrays["cat_names"])))
            return np.hstack([arrays[f"num_{part}"], arrays[f"cat_{part}"]]), labels(arrays[f"y_{part}"])

    def convert(self, bunch: Bunch) -> Pair:
        """Convert the data set of OpenML."""
        if len(bunch.feature_names) != 41:
            raise ValueError(f"{len(bunch.feature_names)} columns besides the class, not 41")
        nominal = [i for i in range(41) if i not in (*_NUMERIC, _WEIGHT)]
        coded = [texts(bunch, i) for i in nominal]
        self.levels = tuple(levels for levels, _ in coded)
        if sum(map(len, self.levels)) != 503:
            raise ValueError(f"{sum(map(len, self.levels))} levels of nominal columns, not 503")
        self.columns = tuple(bunch.feature_names[i] for i in (*_NUMERIC, *nominal))
        numbers = bunch.data[:, _NUMERIC].astype(np.float64).astype(np.int32)
        table = np.column_stack([numbers, *(codes.astype(np.int32) for _, codes in coded)])
        # "- 50000." and "50000+.", with or without blanks and full stop
        return table, np.array(["+" in str(label) for label in bunch.target], dtype=np.int64)


def _balance(y: NDArray[np.int64], generator: np.random.RandomState) -> NDArray[np.intp]:
    positive, negative = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    drawn = generator.choice(negative, size=len(positive), replace=False)
    return generator.permutation(np.concatenate([positive, drawn]))


def _scale(numeric: str, values: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the offset and divisor of each numeric column."""
    if numeric == "unit":
        low = values.min(axis=0).astype(np.float64)
        return low, values.max(axis=0) - low
    if numeric == "standard":
        return values.mean(axis=0), values.std(axis=0)
    return np.zeros(values.shape[1]), np.ones(values.shape[1])


def _onehot(
    table: Matrix,
    sizes: list[int],
    offset: NDArray[np.float64],
    scale: NDArray[np.float64],
    dtype: FloatType,
) -> Matrix:
    """Return CSR rows: the numeric columns, then a 1 for the level of each nominal column."""
    rows, width = table.shape
    plain = len(offset)
    data = np.ones((rows, width), dtype)
    data[:, :plain] = (table[:, :plain] - offset) / scale
    columns = np.empty((rows, width), np.int32)
    columns[:, :plain] = np.arange(plain)
    columns[:, plain:] = table[:, plain:] + (plain + np.cumsum([0, *sizes[:-1]])).astype(np.int32)
    pointers = np.arange(0, rows * width + 1, width, dtype=np.int32)
    X = sparse.csr_matrix((data.ravel(), columns.ravel(), pointers), shape=(rows, plain + sum(sizes)))
    X.eliminate_zeros()  # most people have no capital gains
    return X
