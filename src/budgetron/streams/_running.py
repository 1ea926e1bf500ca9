"""Running mean and standard deviation of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
        out = np.empty_like(X)
        for start, rows in self._segments(X):
            distance, sums, variances, n = self._advance(rows)
            distance -= sums / n
            deviations = np.sqrt(np.maximum(variances, 0.0) / n, out=variances)
            flat = deviations == 0
            deviations[flat] = 1.0
            distance /= deviations
            distance[flat | np.isnan(rows)] = 0.0
            out[start : start + len(rows)] = distance
        return out

    def fill(self, X: Floats) -> Floats:
        """Return X with each NaN replaced by the mean of the earlier rows."""
        out = X.copy()
        for start, rows in self._segments(X):
            reference, origin_before = self.reference, np.nan_to_num(self.origin)
            _, sums, _, n = self._advance(rows)
            # A NaN does not change the sums, so those at its row are those before it. A column without an
            # earlier value has sum 0 there, and its origin must not be used before it is seen.
            started = np.cumsum(~np.isnan(rows), axis=0) > 0
            origin = np.where(started, np.nan_to_num(self.origin), origin_before)
            means = origin + (reference + sums / n)
            gaps = np.isnan(rows)
            out[start : start + len(rows)][gaps] = means[gaps]
        return out

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

    def _segments(self, X: Floats) -> Iterator[tuple[int, Floats]]:
        start = 0
        while start < len(X):
            stop = start + SEGMENT - self.rows % SEGMENT
            rows = X[start:stop]
            yield start, rows
            start = stop
            self.rows += len(rows)
            if self.rows % SEGMENT == 0:
                self._rebase()

    def _advance(self, rows: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Add rows; return for each its distance from the reference, their sum, sum of squares and count."""
        gaps = np.isnan(rows)
        new = np.isnan(self.origin)
        if new.any():
            first = gaps.argmin(axis=0)
            self.origin = np.where(new, rows[first, np.arange(rows.shape[1])], self.origin)
        distance = rows - self.origin
        distance -= self.reference
        if gaps.any():
            distance[gaps] = 0.0
            since = np.cumsum(~gaps, axis=0) + self.since
        else:
            since = np.arange(1.0, len(rows) + 1)[:, None] + self.since
        # The earlier sums are added to the first row, so that the additions are those of one long sum.
        sum1, sum2 = distance.copy(), distance**2
        sum1[0] += self.sum1
        sum2[0] += self.sum2
        np.cumsum(sum1, axis=0, out=sum1)
        np.cumsum(sum2, axis=0, out=sum2)
        self.since, self.sum1, self.sum2 = since[-1], sum1[-1].copy(), sum2[-1].copy()
        n = np.maximum(since + self.count, 1.0)
        sum2 -= sum1**2 / n
        sum2 += self.squares
        return distance, sum1, sum2, n

    def _rebase(self) -> None:
        n = np.maximum(self.count + self.since, 1.0)
        self.squares = np.maximum(self.squares + (self.sum2 - self.sum1**2 / n), 0.0)
        self.reference = self.reference + self.sum1 / n
        self.count = self.count + self.since
        self.since, self.sum1, self.sum2 = np.zeros((3, len(n)))
