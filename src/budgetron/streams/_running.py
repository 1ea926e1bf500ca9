"""Running mean and standard deviation of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from budgetron._util import running

__all__ = ["Floats", "Running", "State"]

Floats: TypeAlias = NDArray[np.float64]

# The state of an object as `files.save` stores it: numbers, text, arrays, and lists and dicts of these.
State: TypeAlias = dict[str, Any]

# Rows between two changes of the reference; fixed, so that the size of the blocks does not matter.
SEGMENT = 4096


class Running:
    """Mean and standard deviation of each column over the rows up to each one; NaN is skipped.

    Sums are taken relative to the mean of an earlier row, which is itself relative to the column's first
    value, so that no digits are lost when the mean is far from 0. This reference changes every 4096 rows,
    regardless of the blocks, so that the results are bit for bit the same for every cut of the stream.
    """

    # origin: the first value of each column. reference: relative to the origin. count, squares: the number of
    # values when the reference was set, and their sum of squares about their own mean. since, sum1, sum2: the
    # number of values since then, the sum of their distances from the reference, and the sum of its squares.
    _fields = ("origin", "reference", "count", "squares", "since", "sum1", "sum2")

    def __init__(self, n_columns: int) -> None:
        self.rows = 0
        self.origin = np.full(n_columns, np.nan)
        self.reference, self.count, self.squares = np.zeros((3, n_columns))
        self.since, self.sum1, self.sum2 = np.zeros((3, n_columns))

    @property
    def mean(self) -> Floats:
        """Mean of each column; 0 if it has no value yet."""
        n = np.maximum(self.count + self.since, 1.0)
        mean: Floats = np.nan_to_num(self.origin) + (self.reference + self.sum1 / n)
        return mean

    @property
    def std(self) -> Floats:
        """Standard deviation of each column (divided by n, not by n - 1)."""
        n = np.maximum(self.count + self.since, 1.0)
        return np.sqrt(np.maximum(self.squares + (self.sum2 - self.sum1**2 / n), 0.0) / n)

    def standardise(self, X: Floats) -> Floats:
        """Return (x - mean) / std, where both include the row itself; 0 where std is 0 or x is NaN."""
        return self._advance(X, running.standardise)

    def fill(self, X: Floats) -> Floats:
        """Return X with each NaN replaced by the mean of the earlier rows."""
        return self._advance(X, running.fill)

    def frozen(self, X: Floats) -> Floats:
        """Return X standardised by the current mean and deviation, without updating them; NaN becomes 0."""
        distance: Floats = X - np.nan_to_num(self.origin)
        distance -= self.reference + self.sum1 / np.maximum(self.count + self.since, 1.0)
        std = self.std
        distance /= np.where(std == 0, 1.0, std)
        distance[:, std == 0] = 0.0
        distance[np.isnan(distance)] = 0.0
        return distance

    def state(self) -> State:
        """Return everything as plain values and arrays."""
        return {"rows": self.rows} | {name: getattr(self, name).copy() for name in self._fields}

    @classmethod
    def from_state(cls, state: State) -> Running:
        """Return an object with this `state`."""
        self = cls(0)
        self.rows = int(state["rows"])
        for name in cls._fields:
            setattr(self, name, np.array(state[name], np.float64))
        return self

    def _advance(self, X: Floats, step: Callable[[Floats, Floats, Floats], None]) -> Floats:
        """Add rows, and return what `step` computes for them."""
        X = np.ascontiguousarray(X)
        out = np.empty_like(X)
        new = np.isnan(self.origin)
        if new.any() and len(X):
            first = np.isnan(X).argmin(axis=0)
            self.origin = np.where(new, X[first, np.arange(X.shape[1])], self.origin)
        start = 0
        while start < len(X):
            stop = min(len(X), start + SEGMENT - self.rows % SEGMENT)
            # New arrays, because a copy of this object may share the present ones.
            state = np.array([getattr(self, name) for name in self._fields])
            step(X[start:stop], state, out[start:stop])
            self.since, self.sum1, self.sum2 = state[4:]
            self.rows += stop - start
            start = stop
            if self.rows % SEGMENT == 0:
                self._rebase()
        return out

    def _rebase(self) -> None:
        n = np.maximum(self.count + self.since, 1.0)
        self.squares = np.maximum(self.squares + (self.sum2 - self.sum1**2 / n), 0.0)
        self.reference = self.reference + self.sum1 / n
        self.count = self.count + self.since
        self.since, self.sum1, self.sum2 = np.zeros((3, len(n)))
