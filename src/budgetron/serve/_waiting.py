"""Rows that wait for their labels, with limits on their number, their bytes and their age.

Rows of the same moment are kept together in a batch, in memory and in the log. A batch is dropped when all of
its labels have arrived, when it is too old, or when newer rows need its place.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.streams._objects import PlainRows

__all__ = ["BATCH_BYTES", "Batch", "Limits", "Waiting"]

# Bytes of a batch besides its values: Python objects, measured with sys.getsizeof and rounded up.
BATCH_BYTES = 1000


@dataclass(frozen=True)
class Limits:
    """How much may wait.

    Attributes
    ----------
    rows : int
    bytes : int
    seconds : float
    """

    rows: int = 100_000
    bytes: int = 32 << 20
    seconds: float = 7 * 86400.0


@dataclass
class Batch:
    """Rows that were predicted at the same time.

    Attributes
    ----------
    first : int
        The number of the first row; the others follow.
    time : float
        When they were predicted, in seconds since 1970.
    rows : PlainRows
    predicted : ndarray
        What was predicted for each row, as the task keeps it.
    labelled : bytearray
        1 for each row whose label has arrived.
    """

    first: int
    time: float
    rows: PlainRows
    predicted: NDArray[Any]
    labelled: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.labelled = self.labelled or bytearray(len(self.rows))
        self.left = self.labelled.count(0)
        self.nbytes = BATCH_BYTES + self.rows.nbytes + self.predicted.nbytes + len(self.rows)


class Waiting:
    """The waiting rows of one model. All methods may be called by any thread.

    Parameters
    ----------
    limits : Limits
    next_row : int
        The number of the next row. Numbers are never used twice.

    Attributes
    ----------
    rows, nbytes : int
        Rows whose labels have not arrived, and bytes of all batches. Neither is ever above its limit.
    expired, displaced : int
        Rows that were dropped without a label: because of their age, and because of the other limits.
    """

    def __init__(self, limits: Limits, next_row: int) -> None:
        self.limits, self.next_row = limits, next_row
        self.rows = self.nbytes = self.expired = self.displaced = 0
        self._sealed: dict[int, Batch] = {}  # by the number of their first row
        self._firsts: list[int] = []  # the keys of `_sealed`, sorted
        self._open: list[Batch] = []  # rows since the last call of `seal`
        self._unstored: dict[int, Batch] = {}
        self._removed: list[int] = []  # batches that the log may still have
        self._lock = threading.Lock()

    def add(self, rows: PlainRows, predicted: NDArray[Any], time: float) -> int:
        """Add rows, and drop the oldest ones if there are too many; return the first new number."""
        with self._lock:
            batch = Batch(self.next_row, time, rows, predicted)
            self.next_row += len(rows)
            self.rows += batch.left
            self.nbytes += batch.nbytes
            self._open.append(batch)
            self._keep_limits()
            return batch.first

    def restore(self, batch: Batch) -> None:
        """Add a batch that the log has; drop the oldest ones if the limits have become smaller."""
        with self._lock:
            self.rows += batch.left
            self.nbytes += batch.nbytes
            insort(self._firsts, batch.first)
            self._sealed[batch.first] = batch
            self._keep_limits()

    def seal(self) -> list[Batch]:
        """Make one batch of the rows since the last call, for labels to find; return what is unstored."""
        with self._lock:
            if self._open:
                parts, self._open = self._open, []
                joined = parts[0]
                if len(parts) > 1:
                    predicted = np.concatenate([part.predicted for part in parts])
                    rows = PlainRows.joined([part.rows for part in parts])
                    joined = Batch(parts[0].first, parts[0].time, rows, predicted)
                    self.nbytes += joined.nbytes - sum(part.nbytes for part in parts)
                self._firsts.append(joined.first)
                self._sealed[joined.first] = self._unstored[joined.first] = joined
            return list(self._unstored.values())

    def stored(self, batches: list[Batch]) -> None:
        """Record that the log has these batches."""
        with self._lock:
            for batch in batches:
                self._unstored.pop(batch.first, None)
                if batch.first not in self._sealed:  # dropped while it was written
                    self._removed.append(batch.first)

    def find(self, number: int) -> Batch | None:
        """Return the sealed batch in which a row waits for its label."""
        with self._lock:
            place = bisect_right(self._firsts, number) - 1
            if place < 0:
                return None
            batch = self._sealed[self._firsts[place]]
            offset = number - batch.first
            return batch if offset < len(batch.rows) and not batch.labelled[offset] else None

    def label(self, number: int, batch: Batch) -> None:
        """Record that the label of a row has arrived; a batch that has all labels is dropped."""
        with self._lock:
            if self._sealed.get(batch.first) is not batch:  # dropped in the meantime
                return
            batch.labelled[number - batch.first] = 1
            batch.left -= 1
            self.rows -= 1
            if not batch.left:
                self._drop(batch.first)

    def expire(self, now: float) -> None:
        """Drop the batches that are too old."""
        with self._lock:
            while self._firsts and now - self._sealed[self._firsts[0]].time > self.limits.seconds:
                self.expired += self._drop_oldest()

    def removed(self) -> list[int]:
        """Return the numbers of batches that the log may still have, each once."""
        with self._lock:
            removed, self._removed = self._removed, []
            return removed

    def put_back_removed(self, firsts: list[int]) -> None:
        """Note batches of `removed` that the log still has, because it could not be written."""
        with self._lock:
            self._removed += firsts

    @property
    def changed(self) -> bool:
        """Whether the log does not have everything."""
        return bool(self._open or self._unstored or self._removed)

    @property
    def oldest(self) -> int:
        """The number of the oldest row that may wait."""
        with self._lock:
            return self._firsts[0] if self._firsts else self.next_row

    @property
    def oldest_time(self) -> float | None:
        """When the oldest waiting batch was predicted."""
        with self._lock:
            return self._sealed[self._firsts[0]].time if self._firsts else None

    def _keep_limits(self) -> None:
        while self.rows > self.limits.rows or self.nbytes > self.limits.bytes:
            self.displaced += self._drop_oldest()

    def _drop_oldest(self) -> int:
        """Drop the oldest batch; return how many of its rows had no label."""
        if self._firsts:
            return self._drop(self._firsts[0])
        batch = self._open.pop(0)
        self.rows -= batch.left
        self.nbytes -= batch.nbytes
        return batch.left

    def _drop(self, first: int) -> int:
        batch = self._sealed.pop(first)
        del self._firsts[bisect_right(self._firsts, first) - 1]
        if self._unstored.pop(first, None) is None:
            self._removed.append(first)
        self.rows -= batch.left
        self.nbytes -= batch.nbytes
        return batch.left
