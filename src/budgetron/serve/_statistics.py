"""How good the predictions of a model were, in a fixed amount of memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import sqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from budgetron._util.types import Floats, Ints
from budgetron.portfolio._changes import CHUNK, ChangeDetector

__all__ = ["ClassStatistics", "NumberStatistics", "Statistics"]

WINDOW = 1000  # labels that the recent error counts
POINTS = 256  # most points of the curve of the recent error
MARKS = 20  # most recent changes that are kept


class Statistics(ABC):
    """Counts of labels and errors, over time.

    An error compares a label with the prediction that was sent for the row, or, for a row that arrived with
    its label, with the prediction just before the row was learned.

    Attributes
    ----------
    labels : int
    curve : list of [labels, error]
        The error of the last 1,000 labels after so many labels; at most 256 points, at equal distances.
    changes : list of [labels, time]
        After how many labels, and when, the error rate increased.
    delay : float or None
        Seconds from prediction to label, averaged over recent labels.
    """

    _loss_type: ClassVar[DTypeLike]

    def __init__(self) -> None:
        self.labels = 0
        self.curve: list[list[float]] = []
        self.changes: list[list[float]] = []
        self.delay: float | None = None
        self._recent = np.zeros(WINDOW, self._loss_type)  # the losses of the last labels
        self._spacing = 16  # labels between two points of the curve

    @property
    def nbytes(self) -> int:
        """Bytes of the counts; curve and changes at their largest."""
        return self._recent.nbytes + 112 * (POINTS + MARKS)

    @property
    @abstractmethod
    def recent_error(self) -> float | None:
        """The error of the last 1,000 labels."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return all errors by name; None before the first label."""

    @abstractmethod
    def _losses(self, labels: NDArray[Any], predicted: NDArray[Any]) -> NDArray[Any]:
        """Return the loss of each prediction; count what its loss does not say."""

    def _until_chunk(self) -> int:
        """Return how many losses may be added before `_count` must be called."""
        return WINDOW

    @abstractmethod
    def _count(self, losses: NDArray[Any], time: float) -> None:
        """Count losses that were added to the window."""

    def add(self, labels: NDArray[Any], predicted: NDArray[Any], time: float, delays: Floats) -> None:
        """Count labels and predictions, as the task keeps them; delays are NaN for rows without one."""
        losses = self._losses(labels, predicted)
        start = 0
        while start < len(losses):  # up to the next point of the curve, or the end of a chunk
            until_point = self._spacing - self.labels % self._spacing
            size = min(until_point, self._until_chunk(), len(losses) - start)
            self._add_losses(losses[start : start + size], time)
            start += size
        known = delays[~np.isnan(delays)]
        if len(known):
            mean, share = float(known.mean()), min(1.0, len(known) / 100)
            self.delay = mean if self.delay is None else self.delay + share * (mean - self.delay)

    def _add_losses(self, losses: NDArray[Any], time: float) -> None:
        """Add losses; a point of the curve, or a chunk, may end with the last of them."""
        place = self.labels % WINDOW
        before_end = WINDOW - place
        self._recent[place : place + len(losses)] = losses[:before_end]
        self._recent[: max(0, len(losses) - before_end)] = losses[before_end:]
        self.labels += len(losses)
        self._count(losses, time)
        if self.labels % self._spacing == 0:
            self._add_point()

    def _add_point(self) -> None:
        recent = self.recent_error
        assert recent is not None
        self.curve.append([self.labels, recent])
        if len(self.curve) >= POINTS:
            self.curve = self.curve[1::2]
            self._spacing *= 2

    def _recent_loss(self) -> float | None:
        """Return the mean loss of the last 1,000 labels."""
        return float(self._recent.sum()) / min(self.labels, WINDOW) if self.labels else None

    def state(self) -> dict[str, Any]:
        """Return everything as plain values and arrays."""
        return {
            "labels": self.labels,
            "curve": np.array(self.curve, np.float64).reshape(-1, 2),
            "changes": np.array(self.changes, np.float64).reshape(-1, 2),
            "delay": self.delay,
            "recent": self._recent,
            "spacing": self._spacing,
        }

    def restored(self, state: dict[str, Any]) -> Self:
        """Return these statistics with a `state`."""
        self.labels = int(state["labels"])
        self.curve, self.changes = state["curve"].tolist(), state["changes"].tolist()
        self.delay = None if state["delay"] is None else float(state["delay"])
        self._recent, self._spacing = state["recent"].astype(self._loss_type), int(state["spacing"])
        return self


class ClassStatistics(Statistics):
    """Counts of labels and errors by class; an error is a prediction that differs from the label.

    The detector of `BudgetClassifier` finds increases of the error rate.

    Attributes
    ----------
    errors : int
    of_class, right : ndarray of shape (n_classes,)
        Labels of each class, and how many of them were predicted.
    """

    _loss_type = np.uint8

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.errors = 0
        self.of_class: Ints = np.zeros(n_classes, np.int64)
        self.right: Ints = np.zeros(n_classes, np.int64)
        self._detector = ChangeDetector()
        self._chunk = [0, 0]  # labels and errors since the detector's last chunk

    @property
    def nbytes(self) -> int:
        """Bytes of the counts; curve and changes at their largest."""
        return super().nbytes + self.of_class.nbytes + self.right.nbytes + self._detector.counts.nbytes

    @property
    def recent_error(self) -> float | None:
        """The share of errors of the last 1,000 labels."""
        return self._recent_loss()

    @property
    def balanced_accuracy(self) -> float | None:
        """The mean over classes of the share of their labels that was predicted."""
        seen = self.of_class > 0
        return float((self.right[seen] / self.of_class[seen]).mean()) if seen.any() else None

    def describe(self) -> dict[str, Any]:
        """Return the shares of errors of all and of recent labels, and the balanced accuracy."""
        return {
            "errors": self.errors,
            "error": self.errors / self.labels if self.labels else None,
            "recent_error": self.recent_error,
            "balanced_accuracy": self.balanced_accuracy,
        }

    def _losses(self, labels: Ints, predicted: Ints) -> NDArray[np.bool_]:
        wrong: NDArray[np.bool_] = labels != predicted
        self.of_class += np.bincount(labels, minlength=len(self.of_class))
        self.right += np.bincount(labels[~wrong], minlength=len(self.right))
        return wrong

    def _until_chunk(self) -> int:
        return CHUNK - self._chunk[0]

    def _count(self, losses: NDArray[np.bool_], time: float) -> None:
        errors = int(np.count_nonzero(losses))
        self.errors += errors
        self._chunk = [self._chunk[0] + len(losses), self._chunk[1] + errors]
        if self._chunk[0] == CHUNK:
            if self._detector.add(*self._chunk):
                self.changes = [*self.changes, [self.labels, time]][-MARKS:]
            self._chunk = [0, 0]

    def state(self) -> dict[str, Any]:
        """Return everything as plain values and arrays."""
        return super().state() | {
            "errors": self.errors,
            "of_class": self.of_class,
            "right": self.right,
            "detector": self._detector.counts,
            "chunk": np.array(self._chunk),
        }

    def restored(self, state: dict[str, Any]) -> Self:
        """Return these statistics with a `state`."""
        super().restored(state)
        self.errors = int(state["errors"])
        self.of_class, self.right = state["of_class"].astype(np.int64), state["right"].astype(np.int64)
        self._detector = ChangeDetector(state["detector"].astype(np.float64))
        self._chunk = state["chunk"].tolist()
        return self


class NumberStatistics(Statistics):
    """Sums of the errors of numbers; the error is the root of the mean squared error."""

    _loss_type = np.float64

    def __init__(self) -> None:
        super().__init__()
        self._squares = self._sizes = 0.0

    @property
    def recent_error(self) -> float | None:
        """The root of the mean squared error of the last 1,000 labels."""
        loss = self._recent_loss()
        return None if loss is None else sqrt(loss)

    def describe(self) -> dict[str, Any]:
        """Return the root of the mean squared error, of all and of recent labels, and the mean error."""
        return {
            "rmse": sqrt(self._squares / self.labels) if self.labels else None,
            "recent_rmse": self.recent_error,
            "mae": self._sizes / self.labels if self.labels else None,
        }

    def _losses(self, labels: Floats, predicted: Floats) -> Floats:
        residuals = labels - predicted
        self._sizes += float(np.abs(residuals).sum())
        squares: Floats = residuals**2
        return squares

    def _count(self, losses: Floats, time: float) -> None:
        self._squares += float(losses.sum())

    def state(self) -> dict[str, Any]:
        """Return everything as plain values and arrays."""
        return super().state() | {"squares": self._squares, "sizes": self._sizes}

    def restored(self, state: dict[str, Any]) -> Self:
        """Return these statistics with a `state`."""
        super().restored(state)
        self._squares, self._sizes = float(state["squares"]), float(state["sizes"])
        return self
