"""Probabilities from margins, learned along with the stream."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from budgetron._base.batches import Rows
from budgetron._base.learner_wrapper import LearnerWrapper
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._core.calibration import calibrate, log_odds, mirror, sigmoids

__all__ = ["CalibratedClassifier"]


class CalibratedClassifier(LearnerWrapper):
    """An online learner that also says how sure it is.

    The learner learns exactly as it would alone. Beside it, each round teaches a sigmoid what margins
    like this one turned out to mean.

    Parameters
    ----------
    learner : online learner
        Any kernel or linear learner of Budgetron that predicts with the hypothesis it learns with, which all
        but the voted ones do. It is cloned.

    Attributes
    ----------
    learner_ : online learner
        The learner after its last round.
    sigmoids_ : ndarray of shape (n_outputs, 7)
        What was learned about the margins.

    Notes
    -----
    P(y = +1 | f(x)) = 1 / (1 + exp(-(a z + b))), with z the margin by the root of its mean square, held
    within 10. a and b follow logistic regression on the margins that rounds had *before* their label was
    seen, so that nothing is judged by what it learned from: one Newton step a round, over about the last
    thousand rounds. a is never negative: a larger margin never means a smaller probability. It costs seven
    numbers a hypothesis.

    With more than two classes each has its own sigmoid, and the probabilities are divided by their sum.

    `decision_function` is a z + b, the log-odds, and `predict` the most probable class; both may differ from
    the learner's own, whose threshold is a margin of 0. `progressive_fit` and `play` report the learner's own
    rounds, of which the bounds speak.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import CalibratedClassifier, Forgetron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CalibratedClassifier(Forgetron(budget=50, gamma=0.001)).fit(X[:1000], y[:1000] % 2)
    >>> model.predict_proba(X[1000:1002]).round(2)
    array([[0.05, 0.95],
           [0.91, 0.09]])
    """

    sigmoids_: NDArray[np.float64]

    def __init__(self, learner: OnlineClassifier) -> None:
        self.learner = learner

    def predict_proba(self, X: Rows) -> NDArray[np.float64]:
        """The probability of each class for each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return probabilities(self.decision_function(X))

    def _validate_params(self) -> None:
        super()._validate_params()
        if not self.learner._predicts_as_it_learns:
            raise ValueError(
                f"{type(self.learner).__name__} predicts with other hypotheses than it learns with, whose "
                "margins the rounds do not tell; calibrate another learner"
            )

    def _keep(self, hypothesis: Any) -> None:
        pass

    def _make(self, X: Any, outputs: int) -> Any:
        self.sigmoids_ = sigmoids(outputs)
        return super()._make(X, outputs)

    def _go_on_with_copies(self) -> None:
        self.learner_ = copy.deepcopy(self.learner_)
        self._learners = self.learner_._learners
        self.sigmoids_ = self.sigmoids_.copy()

    def _admit(self, label: Any) -> None:
        learner = self.learner_
        self.sigmoids_ = admitted(self.sigmoids_, int(np.searchsorted(self.classes_, label)))
        learner._admit(label)
        self.classes_, self._codes = learner.classes_, learner._codes
        self._learners, self._mistakes = learner._learners, learner._mistakes

    def _widen(self, d: int) -> None:
        self.learner_._widen(d)
        self._learners, self.n_features_in_ = self.learner_._learners, d

    def _count(self, X: Any, codes: NDArray[np.intp], margins: NDArray[np.float64], start: int) -> None:
        observe(self.sigmoids_, margins, codes)

    def _margins(self, X: Any) -> NDArray[np.float64]:
        return np.array(
            [
                log_odds(numbers, f)
                for numbers, f in zip(self.sigmoids_, self.learner_._margins(X), strict=True)
            ]
        )

    def _weights(self, hypothesis: Any) -> NDArray[np.float64]:
        weights: NDArray[np.float64] = self.learner_._weights(hypothesis)
        return weights

    @property
    def nbytes_(self) -> int:
        """Bytes of all arrays that the model keeps."""
        return super().nbytes_ + self.sigmoids_.nbytes


def admitted(numbers: NDArray[np.float64], place: int) -> NDArray[np.float64]:
    """The sigmoids with one more class, at this place."""
    if len(numbers) == 1:
        numbers = np.stack([mirror(numbers[0]), numbers[0]])
    return np.insert(numbers, place, sigmoids(1)[0], axis=0)


def observe(numbers: NDArray[np.float64], margins: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
    """Let the sigmoids see rounds: margins of shape (n,) or (n, n_classes) before the labels, and these."""
    if len(numbers) == 1:
        calibrate(numbers[0], margins.reshape(-1), np.where(codes == 1, 1.0, -1.0))
        return
    for c, row in enumerate(numbers):
        calibrate(row, margins[:, c], np.where(codes == c, 1.0, -1.0))


def probabilities(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each class, from log-odds of shape (n,) or (n, n_classes)."""
    if odds.ndim == 1:
        return np.column_stack([expit(-odds), expit(odds)])
    values: NDArray[np.float64] = expit(odds)
    values /= values.sum(axis=1, keepdims=True)
    return values
