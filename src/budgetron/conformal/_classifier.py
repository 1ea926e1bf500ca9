"""`ConformalClassifier`: sets of classes that contain the label in a given share of the rounds."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgetron._base.access import predicts_as_it_learns
from budgetron._base.batches import Batch, check_same_classes
from budgetron._base.learner_wrapper import LearnerWrapper
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.protocol import Hypothesis
from budgetron._base.sizes import Prepare, as_it_is
from budgetron._base.trace import Trace
from budgetron._core.conformal import limits, next_limits
from budgetron._core.linear import LinearRule
from budgetron._util.checks import State, require_int
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.types import Codes, Floats, Label, Matrix, Row, Rows
from budgetron.conformal._tracking import TRACKING_PARAMETERS, Tracking

__all__ = ["ConformalClassifier"]

Sets = NDArray[np.bool_]

# Larger scores, of margins whose difference would overflow, become this number.
MOST = 1e300


class ConformalClassifier(Tracking, LearnerWrapper):
    """An online learner whose sets of classes contain the label in a given share of the rounds.

    The learner learns exactly as it would alone. Use it if one predicted class is not enough: the number of
    classes in a set says how sure the prediction is.

    Parameters
    ----------
    learner : online learner
        Any kernel or linear learner, or a `BudgetClassifier`. It needs no probabilities. The learner is
        cloned.
    coverage : float, default=0.9
        The share of the rounds whose set should contain the label.
    step : float, default=0.01
        How far one round moves the level of the quantile. With a larger step, coverage recovers faster after
        a change of the stream, and the sizes of the sets vary more.
    window : int, default=1000
        Number of recent scores that are kept. It should be several times 1 / (1 - coverage).

    Attributes
    ----------
    learner_ : online learner
        The learner after its last round.
    scores_ : ndarray of shape (window,)
        The scores of the last rounds. Round t is at place t modulo `window`.
    counts_ : ndarray of shape (2,)
        Number of rounds, and of misses among them.
    total_set_size_ : int
        Number of classes in the sets of all rounds.

    Notes
    -----
    The score of class c for a row x is the largest margin of another class minus the margin of c: negative if
    c is predicted. Two classes with the margin f have the margins -f and f. The set consists of the classes
    whose score is at most q, a quantile of the scores that the labels of the last `window` rounds had before
    they were seen. Its level is 1 - m, where m is 1 - coverage at first, and changes by
    step (1 - coverage - miss) in each round (adaptive conformal inference). For m <= 0 the set has all
    classes, and for m >= 1 none.

    Guarantee, for every stream and every learner: with a = 1 - coverage, the number of misses after T rounds
    is at most a T + a / step + coverage, and at least a T - coverage / step - a. `certify` evaluates this
    (`bounds.conformal_misses`, `bounds.conformal_deviation`). It holds for the rounds of `partial_fit`,
    `progressive_fit` and `play`, in which each row is predicted before its label is learned.

    A set can be empty. If the learner predicts more than the share `coverage` of the rows correctly, this is
    necessary: otherwise more labels would be inside. Choose a larger `coverage`, or add the predicted class.

    With a voted Perceptron, sets and predictions are those of the hypothesis that learns, not of the vote.
    With `BudgetClassifier`, `predict_set` does not use recent labels, as `predict`. Scores are compared up to
    rounding. `progressive_fit` and `play` report the learner's own margins, and
    ``certify(model.learner_, ...)`` evaluates the learner's own theorem. If a class is added
    (``partial_fit(..., admit=True)``), this happens before its first round, whose set may contain it.

    The additional cost is 16 bytes per score, and O(log(window)) comparisons and a move of at most
    8 `window` bytes per round.

    References
    ----------
    Gibbs, Candes: Adaptive Conformal Inference Under Distribution Shift (2021). Vovk, Gammerman, Shafer:
    Algorithmic Learning in a Random World (2005).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import ConformalClassifier, Forgetron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ConformalClassifier(Forgetron(budget=50, gamma=0.001), coverage=0.95)
    >>> trace = model.progressive_fit(X, y)
    >>> print(f"{trace.coverage:.3f} {trace.mean_set_size:.1f}")
    0.950 1.2
    >>> [model.classes_[one].tolist() for one in model.predict_set(X[:2])]
    [[0], [1]]
    """

    _learned_names: ClassVar[frozenset[str]] = (
        LearnerWrapper._learned_names | Tracking._learned_names | {"total_set_size_"}
    )
    _derived_names: ClassVar[frozenset[str]] = LearnerWrapper._derived_names | Tracking._derived_names
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = TRACKING_PARAMETERS
    _predicts_as_it_learns: ClassVar[bool] = True
    _needs_history: ClassVar[bool] = False

    total_set_size_: int

    def __init__(
        self, learner: OnlineClassifier, coverage: float = 0.9, *, step: float = 0.01, window: int = 1000
    ) -> None:
        self.learner = learner
        self.coverage = coverage
        self.step = step
        self.window = window

    # ------------------------------------------------------------------ prediction

    def predict_set(self, X: Rows) -> Sets:
        """Return the set of classes of each row, as the next one of the stream.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), bool
            Whether each class of `classes_` is in the set.
        """
        return self.sets_from_margins(self.decision_function(X))

    def sets_from_margins(self, margins: Floats) -> Sets:
        """Return the sets, given margins of shape (n,) or (n, n_classes)."""
        scores, sizes = scores_of(margins)
        sets: Sets = scores <= next_limits(self.threshold_, sizes, self._tie())[:, None]
        return sets

    def _margins(self, X: Matrix) -> Floats:
        if predicts_as_it_learns(self.learner_):
            return self.learner_._margins(X)
        return super()._margins(X)  # of the hypothesis that plays the rounds

    def _next_margins(self, X: Matrix) -> Floats:
        if predicts_as_it_learns(self.learner_):
            return self.learner_._next_margins(X)
        return self._margins(X)

    # ------------------------------------------------------------------ rounds

    def _make(self, X: Matrix, outputs: int) -> Sequence[Hypothesis]:
        self._start_tracking()
        self.total_set_size_ = 0
        return super()._make(X, outputs)

    def _track(self, margins: Floats, codes: Codes) -> tuple[Sets, NDArray[np.bool_]]:
        """Count rounds that were played; return their sets, and whether each has the label."""
        scores, sizes = scores_of(margins)
        rows = np.arange(len(codes))
        highest = limits(scores[rows, codes], sizes, self._tie(), *self._tracked())
        sets: Sets = scores <= highest[:, None]
        self.total_set_size_ += int(np.count_nonzero(sets))
        return sets, sets[rows, codes]

    def _observe(self, batch: Batch, start: int) -> None:
        self.learner_._mistakes = self._mistakes
        self.learner_._observe(batch, start)

    def _close_batch(self, batch: Batch) -> Trace | None:
        trace = super()._close_batch(batch)
        assert trace is not None  # `LearnerWrapper` always records it
        sets, covered = self._track(trace.margins, batch.codes)
        return replace(trace, sets=sets, covered=covered)

    def play(self, x: Row, y: Label, classes: ArrayLike | None = None) -> float | Floats:
        if not self.__sklearn_is_fitted__():
            return super().play(x, y, classes)  # which calls this method again, with a fitted model
        if classes is not None:
            check_same_classes(self, classes, self.classes_)
        with defer_interrupts():  # so that every round that was learned is counted
            margins = self.learner_.play(x, y)
            self._mistakes = self.learner_._mistakes
            self._track(np.asarray(margins, np.float64)[None], np.array([self._codes[y]]))
        return margins

    play.__doc__ = OnlineClassifier.play.__doc__

    @property
    def mean_set_size_(self) -> float:
        """The mean number of classes in the sets of all rounds; NaN before the first one."""
        self._fitted()
        return self.total_set_size_ / self.rounds_ if self.rounds_ else float("nan")

    # ------------------------------------------------------------------ classes, weights and sizes

    def _continue_with_copies(self) -> None:
        self.learner_ = copy.deepcopy(self.learner_)
        self._share_hypotheses()
        self._copy_tracking()

    def _admit(self, label: Label) -> None:
        self.learner_._admit(label)
        self._set_classes(self.learner_.classes_)
        self._share_hypotheses()
        self._mistakes = self.learner_._mistakes

    def _bytes_needed(self, X: Matrix, outputs: int, prepare: Prepare = as_it_is) -> int:
        return super()._bytes_needed(X, outputs, prepare) + self._bytes_of_tracking()

    def _check_learned(self, found: State, hypotheses: Sequence[Any]) -> None:
        super()._check_learned(found, hypotheses)
        most = int(found["counts_"][0]) * len(found["classes_"])
        require_int(found["total_set_size_"], 0, most, "the number of classes in all sets")

    def _weights(self, hypothesis: LinearRule) -> Floats:
        assert isinstance(self.learner_, LinearClassifier)
        return self.learner_._weights(hypothesis)


def scores_of(margins: Floats) -> tuple[Floats, Floats]:
    """Return the score of each class for each row, and the size of the margins of each row.

    Margins are of shape (n,) for two classes, otherwise (n, n_classes). The score is the largest margin of
    another class minus that of the class itself.
    """
    if margins.ndim == 1:
        margins = np.column_stack([-margins, margins])
    ordered = np.partition(margins, -2, axis=1)[:, -2:]  # the second largest, and the largest
    best = margins == ordered[:, 1:]
    with np.errstate(over="ignore"):
        scores = np.where(best, ordered[:, :1], ordered[:, 1:]) - margins
    return np.clip(scores, -MOST, MOST), np.ascontiguousarray(np.abs(margins).max(axis=1))
