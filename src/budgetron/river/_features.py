"""Conversion between river's dicts and data frames, and rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from budgetron._util.numbers import largest

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FeatureColumns", "Features", "is_missing", "table_values"]

# One row as river passes it. Values are checked when they are converted to numbers.
Features = Mapping[Hashable, object]
Row = NDArray[np.floating]


class FeatureColumns:
    """The column of each feature in a row of numbers.

    A feature gets a column when it is first learned. The new features of one row get theirs in the order of
    their names, so that a learner does not depend on the order of a dict. A feature that is missing in a row
    is 0. It is missing if the row does not have it, or if its value is None, NaN, or pandas' NA or NaT.

    Parameters
    ----------
    names : iterable of hashable
        The features, in the order of their columns.
    """

    def __init__(self, names: Iterable[Hashable] = ()) -> None:
        self.columns: dict[Hashable, int] = {name: column for column, name in enumerate(names)}
        self._read_all: Callable[[Features], tuple[float, ...]] | None = None
        self._prepare()

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, name: Hashable) -> bool:
        return name in self.columns

    def name(self, column: int) -> Hashable:
        """Return the feature in a column."""
        return list(self.columns)[column]

    def knows_all(self, x: Features) -> bool:
        """Return whether every feature of a row has a column."""
        return all(map(self.columns.__contains__, x))

    def new_in(self, x: Features) -> list[Hashable]:
        """Return the features with a value that have no column yet."""
        _require_mapping(x)
        return [name for name, value in x.items() if name not in self.columns and not is_missing(value)]

    def add(self, x: Features, limit: int) -> None:
        """Give the new features of a row a column. If there is an error, none of them gets one."""
        new = self.new_in(x)
        total = len(self.columns) + len(new)
        if total > limit:
            raise ValueError(
                f"feature {new[0]!r} would make {total:,} features, but max_features is {limit:,}; "
                "increase max_features, or hash the features (river.feature_extraction.FeatureHasher)"
            )
        for name, value in x.items():
            _number(name, value)
        self.columns |= {name: len(self.columns) + i for i, name in enumerate(_in_order(new))}
        self._prepare()

    def _prepare(self) -> None:
        # With one name, itemgetter returns a value and not a tuple.
        self._read_all = itemgetter(*self.columns) if len(self.columns) > 1 else None

    def row(self, x: Features, dtype: np.dtype[np.floating]) -> Row:
        """Return a dict as a row of numbers, without the features that have no column."""
        row: Row = np.zeros(len(self.columns), dtype)
        if self._read_all is not None and len(x) == len(self.columns):
            try:
                row[:] = self._read_all(x)  # the fast path: exactly the known features
                if largest(row) < np.inf:
                    return row
                row[:] = 0.0
            except (KeyError, TypeError, ValueError):
                pass  # other features, or a value that is not a number; the loop below reports it
        _require_mapping(x)
        for name, value in x.items():
            column = self.columns.get(name)
            if column is not None:
                row[column] = _number(name, value)
        return row

    def rows(self, X: pd.DataFrame, values: NDArray[np.float64], dtype: np.dtype[np.floating]) -> Row:
        """Return the values of a data frame with each feature in its column, and 0 for missing values."""
        rows: Row = np.zeros((len(values), len(self.columns)), dtype)
        for j, name in enumerate(X.columns):
            if name in self.columns:
                rows[:, self.columns[name]] = np.nan_to_num(values[:, j])
        return rows

    def first_rows(self, X: pd.DataFrame, values: NDArray[np.float64]) -> dict[int, dict[Hashable, object]]:
        """Return the new features of a data frame by the row in which each first has a value."""
        present = ~np.isnan(values)
        first: dict[int, dict[Hashable, object]] = {}
        for j, name in enumerate(X.columns):
            if name not in self.columns and present[:, j].any():
                first.setdefault(int(present[:, j].argmax()), {})[name] = 0.0
        return first


def _in_order(names: list[Hashable]) -> list[Hashable]:
    """Return names in a fixed order, or as they are if they have none."""
    keys: list[Any] = [(type(name).__name__, name) for name in names]
    try:
        return [name for _, name in sorted(keys)]
    except TypeError:
        return names


def table_values(X: pd.DataFrame) -> NDArray[np.float64]:
    """Return the values of a data frame; NaN where there is no value."""
    if not hasattr(X, "columns"):
        raise TypeError(f"X must be a pandas DataFrame; got {type(X).__name__}")
    if not X.columns.is_unique:
        twice = X.columns[X.columns.duplicated()][0]
        raise ValueError(f"feature {twice!r} is the name of several columns of X; a row has one value of it")
    try:
        values: NDArray[np.float64] = X.to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError, OverflowError):
        values = np.column_stack([_column_values(name, X[name]) for name in X.columns])
    infinite = np.isinf(values)
    if infinite.any():
        row, column = (int(i) for i in np.argwhere(infinite)[0])
        raise ValueError(f"features must be finite; feature {X.columns[column]!r} of row {row} is infinite")
    return values


def _column_values(name: Hashable, column: pd.Series) -> NDArray[np.float64]:
    """Return the values of a column that may be of any type, such as objects of which some are pandas' NA."""
    try:
        values: NDArray[np.float64] = column.astype(object).where(column.notna(), np.nan).to_numpy(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"feature {name!r} is not a number; encode it (preprocessing.OneHotEncoder)"
        ) from None
    return values


def _require_mapping(x: object) -> None:
    if not isinstance(x, Mapping):
        raise TypeError(f"a row must be a dict of features and their values; got {x!r}")


def _number(name: Hashable, value: object) -> float:
    """Return the value of a feature as a number; 0 if it is missing."""
    if is_missing(value):
        return 0.0
    try:
        number = float(value)  # type: ignore[arg-type]  # whatever is not a number raises
    except (TypeError, ValueError, OverflowError):  # an integer may be too large
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(
            f"feature {name!r} must be a finite number; got {value!r}. Encode text "
            "(preprocessing.OneHotEncoder); use None or NaN for a missing value"
        )
    return number


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN (which is never equal to itself), or pandas' NA or NaT."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # NA has no truth value; an array has several
        return type(value).__name__ in ("NAType", "NaTType")
