"""How well the predictions of a model were, in a fixed amount of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron._util.types import Floats, Ints
from budgetron.portfolio._changes import CHUNK, ChangeDetector

__all__ = ["Statistics"]

WINDOW = 1000  # labels that the recent error counts
POINTS = 256  # most points of the curve of the recent error
MARKS = 20  # most recent changes that are kept


class Statistics:
    """Counts of labels and errors, by class and over time.

    An error is a prediction that differs from the label: the prediction that was sent for the row, or, for a
    row that arrived with its label, the prediction just before the row was learned.

    Attributes
    ----------
    labels, errors : int
    of_class, right : ndarray of shape (n_classes,)
        Labels of each class, and how many of them were predicted.
    curve : list of [labels, error]
        The error of the last 1,000 labels after so many labels; at most 256 points, at equal distances.
    changes : list of [labels, time]
        After how many labels, and when, the error rate increased; the detector is that of `BudgetClassifier`.
    delay : float or None
        Seconds from prediction to label, averaged over recent labels.
    """

    def __init__(self, n_classes: int) -> None:
        self.labels = self.errors = 0
        self.of_class: Ints = np.zeros(n_classes, np.int64)
        self.right: Ints = np.zeros(n_classes, np.int64)
        self.curve: list[list[float]] = []
        self.changes: list[list[float]] = []
        self.delay: float | None = None
        self._recent = np.zeros(WINDOW, np.uint8)  # the errors of the last labels, 1 or 0
        self._spacing = 16  # labels between two points of the curve
        self._detector = ChangeDetector()
        self._chunk = [0, 0]  # labels and errors since the detector's last chunk

    @property
    def nbytes(self) -> int:
        """Bytes of the counts; curve and changes at their largest."""
        arrays = self.of_class.nbytes + self.right.nbytes + self._recent.nbytes
        return arrays + self._detector.counts.nbytes + 112 * (POINTS + MARKS)

    @property
    def error(self) -> float | None:
        """The share of errors of all labels."""
        return self.errors / self.labels if self.labels else None

    @property
    def recent_error(self) -> float | None:
        """The share of errors of the last 1,000 labels."""
        return int(self._recent.sum()) / min(self.labels, WINDOW) if self.labels else None

    @property
    def balanced_accuracy(self) -> float | None:
        """The mean over classes of the share of their labels that was predicted."""
        seen = self.of_class > 0
        return float((self.right[seen] / self.of_class[seen]).mean()) if seen.any() else None

    def add(self, labels: Ints, predicted: Ints, time: float, delays: Floats) -> None:
        """Count labels and predictions, both as indices of classes; delays are NaN for rows without one."""
        wrong = labels != predicted
        self.of_class += np.bincount(labels, minlength=len(self.of_class))
        self.right += np.bincount(labels[~wrong], minlength=len(self.right))
        start = 0
        while start < len(wrong):  # up to the next point of the curve, or the end of a chunk of the detector
            until_point = self._spacing - self.labels % self._spacing
            size = min(until_point, CHUNK - self._chunk[0], len(wrong) - start)
            self._add_errors(wrong[start : start + size], time)
            start += size
        known = delays[~np.isnan(delays)]
        if len(known):
            mean, share = float(known.mean()), min(1.0, len(known) / 100)
            self.delay = mean if self.delay is None else self.delay + share * (mean - self.delay)

    def _add_errors(self, wrong: NDArray[np.bool_], time: float) -> None:
        """Count errors; a point of the curve, or a chunk of the detector, may end with the last of them."""
        errors = int(np.count_nonzero(wrong))
        place = self.labels % WINDOW
        before_end = WINDOW - place
        self._recent[place : place + len(wrong)] = wrong[:before_end]
        self._recent[: max(0, len(wrong) - before_end)] = wrong[before_end:]
        self.labels += len(wrong)
        self.errors += errors
        self._chunk = [self._chunk[0] + len(wrong), self._chunk[1] + errors]
        if self._chunk[0] == CHUNK:
            if self._detector.add(*self._chunk):
                self.changes = [*self.changes, [self.labels, time]][-MARKS:]
            self._chunk = [0, 0]
        if self.labels % self._spacing == 0:
            self._add_point()

    def _add_point(self) -> None:
        recent = self.recent_error
        assert recent is not None
        self.curve.append([self.labels, recent])
        if len(self.curve) >= POINTS:
            self.curve = self.curve[1::2]
            self._spacing *= 2

    def state(self) -> dict[str, Any]:
        """Return everything as plain values and arrays."""
        return {
            "labels": self.labels,
            "errors": self.errors,
            "of_class": self.of_class,
            "right": self.right,
            "curve": np.array(self.curve, np.float64).reshape(-1, 2),
            "changes": np.array(self.changes, np.float64).reshape(-1, 2),
            "delay": self.delay,
            "recent": self._recent,
            "spacing": self._spacing,
            "detector": self._detector.counts,
            "chunk": np.array(self._chunk),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Statistics:
        """Return statistics with this `state`."""
        self = cls(len(state["of_class"]))
        self.labels, self.errors = int(state["labels"]), int(state["errors"])
        self.of_class, self.right = state["of_class"].astype(np.int64), state["right"].astype(np.int64)
        self.curve, self.changes = state["curve"].tolist(), state["changes"].tolist()
        self.delay = None if state["delay"] is None else float(state["delay"])
        self._recent, self._spacing = state["recent"].astype(np.uint8), int(state["spacing"])
        self._detector = ChangeDetector(state["detector"].astype(np.float64))
        self._chunk = state["chunk"].tolist()
        return self
