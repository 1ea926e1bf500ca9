"""The results of one learner on one stream. Their size does not depend on the length of the stream."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from budgetron._evaluation.classifier import Estimator
from budgetron._evaluation.ranking import ScoreSample, ScoreState, score_samples
from budgetron._evaluation.run_result import Curve, RunResult
from budgetron._util.types import Codes, Floats, Labels

__all__ = ["Result", "ResultState"]

Counts = NDArray[np.int64]

# The names of the numbers in a summary
FIGURES = (
    "rounds",
    "mistakes",
    "error_rate",
    "window_error",
    "balanced_accuracy",
    "supports",
    "nbytes",
    "seconds",
    "rounds_per_second",
)


class ResultState(TypedDict):
    """The state of a `Result` without its model, as `budgetron.save` stores it in a checkpoint."""

    confusion: Counts
    supports: int
    seconds: float
    curve: Curve
    _step: int
    _recent: NDArray[np.bool_]
    scores: list[ScoreState]


@dataclass(repr=False)
class Result(RunResult):
    """How a learner did on a stream.

    Attributes
    ----------
    name : str
    model : classifier
        The learner after the last round.
    classes : ndarray of shape (n_classes,)
    confusion : ndarray of shape (n_classes, n_classes)
        Number of rounds by true class (row) and predicted class (column). A mistake is never counted on the
        diagonal: a margin of 0, which is a mistake, is counted as the other class.
    window : int
    supports : int
        Number of supports at the end, over all classes.
    seconds : float
        Time spent on predicting and learning. If learners shared kernel values, an estimate of the time that
        this learner would take alone.
    curve : dict of str to ndarray
        Values at 500 to 1000 evenly spaced rounds (at all rounds of a shorter stream): ``round``, and after
        this round ``mistakes``, ``window_error`` (error rate of the last `window` rounds), ``supports`` and
        ``nbytes``, the last at the end of the block of rows.
    """

    name: str
    model: Estimator
    classes: Labels
    window: int
    points: int = 500
    confusion: Counts = field(init=False)
    supports: int = 0
    seconds: float = 0.0
    curve: Curve = field(init=False)
    _step: int = 1
    _recent: NDArray[np.bool_] = field(init=False, repr=False)
    _scores: list[ScoreSample] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.confusion = np.zeros((len(self.classes), len(self.classes)), np.int64)
        self.curve = {
            "round": np.zeros(0, np.int64),
            "mistakes": np.zeros(0, np.int64),
            "window_error": np.zeros(0),
            "supports": np.zeros(0, np.int64),
            "nbytes": np.zeros(0, np.int64),
        }
        self._recent = np.zeros(0, np.bool_)
        self._scores = score_samples(len(self.classes))

    # ------------------------------------------------------------------ figures

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return int(self.confusion.sum())

    @property
    def mistakes(self) -> int:
        """Number of rounds that were mistakes."""
        return self.rounds - int(np.trace(self.confusion))

    @property
    def loss(self) -> float:
        """The number of mistakes, as a number that can be compared for any kind of learner."""
        return self.mistakes

    @property
    def error_rate(self) -> float:
        """Mistakes divided by rounds."""
        return self.mistakes / max(1, self.rounds)

    @property
    def window_error(self) -> float:
        """Error rate of the last `window` rounds."""
        return float(self._recent.mean()) if len(self._recent) else 0.0

    @property
    def balanced_accuracy(self) -> float:
        """Mean over the classes that occurred of the fraction of their rounds that were right."""
        rounds = self.confusion.sum(axis=1)
        if not rounds.any():
            return 0.0
        return float(np.mean(np.diag(self.confusion)[rounds > 0] / rounds[rounds > 0]))

    @property
    def precision(self) -> NDArray[np.float64]:
        """For each class, the fraction of the rounds predicted as this class that were right; 0 if none."""
        share: NDArray[np.float64] = np.diag(self.confusion) / np.maximum(1, self.confusion.sum(axis=0))
        return share

    @property
    def recall(self) -> NDArray[np.float64]:
        """For each class, the fraction of its rounds that were right; 0 if it did not occur."""
        share: NDArray[np.float64] = np.diag(self.confusion) / np.maximum(1, self.confusion.sum(axis=1))
        return share

    @property
    def auc(self) -> float | None:
        """Area under the ROC curve of the margins, for two classes; None if it is unknown.

        This is the probability that a round of the second class has a larger margin than one of the first.
        From a sample of at least 2048 rounds of each class, or of all if there are fewer.
        """
        return self._scores[0].area() if len(self.classes) == 2 else None

    @property
    def class_auc(self) -> list[float | None]:
        """For each class, the area under the ROC curve of its margin against all other classes.

        This is the probability that a round of the class has a larger margin of this class than a round of
        the other classes. None where it is unknown. With two classes, both have the same area, `auc`. With
        more, from a sample of at least 256 rounds of the class and of the others, or of all if there are
        fewer.
        """
        if len(self.classes) == 2:
            return [self.auc, self.auc]
        return [sample.area() for sample in self._scores]

    @property
    def baseline_error(self) -> float:
        """Error rate of always predicting the most frequent class of the stream."""
        counts = self.confusion.sum(axis=1)
        return 1.0 - float(counts.max()) / max(1, self.rounds)

    def summary(self) -> dict[str, str | int | float]:
        """Return the figures of the whole run by name, as plain numbers."""
        return {"learner": self.name} | {name: getattr(self, name) for name in FIGURES}

    def __repr__(self) -> str:
        error = f"error rate {self.error_rate:.4f}"
        return f"Result({self.name}, {self.rounds} rounds, {error}, {self.supports} supports)"

    def to_dict(self) -> dict[str, object]:
        """Return everything but the model, as plain numbers and lists."""
        return self.summary() | {
            "parameters": self.parameters(),
            "window": self.window,
            "classes": self.classes.tolist(),
            "confusion": self.confusion.tolist(),
            "precision": self.precision.tolist(),
            "recall": self.recall.tolist(),
            "auc": self.auc,
            "class_auc": self.class_auc,
            "baseline_error": self.baseline_error,
            "curve": {name: values.tolist() for name, values in self.curve.items()},
        }

    # ------------------------------------------------------------------ recording

    def state(self) -> ResultState:
        """Return a copy of everything that `record` changes."""
        state: ResultState = {
            "confusion": self.confusion,
            "supports": self.supports,
            "seconds": self.seconds,
            "curve": self.curve,
            "_step": self._step,
            "_recent": self._recent,
            "scores": [sample.state() for sample in self._scores],
        }
        return deepcopy(state)

    def restore(self, state: ResultState) -> None:
        """Continue from the `state` of another result."""
        if state["confusion"].shape != self.confusion.shape or set(state["curve"]) != set(self.curve):
            raise ValueError("the saved results are of other classes or curves")
        # Earlier versions stored one sample, which was empty with more than two classes.
        scores = [state["scores"]] if isinstance(state["scores"], dict) else state["scores"]
        if len(scores) not in (1, len(self._scores)):
            raise ValueError("the saved scores are of other classes")
        for sample, saved in zip(self._scores, scores, strict=False):
            sample.restore(saved)
        self.confusion, self.curve = state["confusion"], state["curve"]
        self.supports, self.seconds = state["supports"], state["seconds"]
        self._step, self._recent = state["_step"], state["_recent"]

    def record(
        self, codes: Codes, columns: Codes, supports: Counts, scores: Floats | None, seconds: float
    ) -> None:
        """Add the rounds of a block.

        Parameters
        ----------
        codes, columns : ndarray of shape (n_rounds,)
            Row and column of the confusion matrix in which each round is counted.
        supports : ndarray of shape (n_rounds,)
            Number of supports after each round.
        scores : ndarray of shape (n_rounds,) or (n_rounds, n_classes), or None
            The margin, or that of each class, of each round before its label was seen, if it is known.
        seconds : float
            Time spent on the block.
        """
        before, mistakes = self.rounds, columns != codes
        np.add.at(self.confusion, (codes, columns), 1)
        if scores is not None and scores.ndim == 1:
            self._scores[0].add(codes, scores)
        elif scores is not None:
            for i, sample in enumerate(self._scores):
                sample.add((codes == i).astype(np.intp), scores[:, i])
        self.seconds += seconds
        self.supports = int(supports[-1]) if len(supports) else self.supports
        recent = np.concatenate([self._recent, mistakes])
        self._recent = recent[-self.window :]
        self._extend_curve(before, mistakes, recent, supports)

    def _extend_curve(
        self, before: int, mistakes: NDArray[np.bool_], recent: NDArray[np.bool_], supports: Counts
    ) -> None:
        """Add points for a block of rounds; `recent` also has the mistakes of the window before it."""
        block = len(mistakes)
        points = self._new_points(before, block)
        ends = points + 1 + len(recent) - block
        starts = np.maximum(ends - self.window, 0)
        counts = np.concatenate([[0], np.cumsum(recent)])
        total = self.mistakes - int(mistakes.sum())
        new: Curve = {
            "round": before + points + 1,
            "mistakes": total + np.cumsum(mistakes)[points],
            "window_error": (counts[ends] - counts[starts]) / (ends - starts),
            "supports": supports[points],
            "nbytes": np.full(len(points), self.nbytes),
        }
        self._extend(new)
