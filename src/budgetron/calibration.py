"""Probabilities from margins, calibrated while the learner learns."""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from scipy import special

from budgetron._base.access import predicts_as_it_learns
from budgetron._base.learner_wrapper import LearnerWrapper
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.protocol import Hypothesis
from budgetron._core.calibration import calibrate, log_odds, mirror, sigmoids, sound
from budgetron._core.linear import LinearRule
from budgetron._util.checks import State, require
from budgetron._util.types import Codes, Floats, Label, Matrix, Rows

__all__ = ["CalibratedClassifier"]


class CalibratedClassifier(LearnerWrapper):
    """An online learner with calibrated probabilities.

    The learner learns exactly as it would alone. In each round, a sigmoid is fitted to the margin that the
    row had before its label was seen.

    Parameters
    ----------
    learner : online learner
        Any kernel or linear learner except the voted Perceptrons. The learner is cloned.

    Attributes
    ----------
    learner_ : online learner
        The learner after its last round.
    sigmoids_ : ndarray of shape (n_outputs, 7)
        The state of the sigmoids.

    Notes
    -----
    P(y = +1 | f(x)) = 1 / (1 + exp(-(a z + b))), where z is the margin divided by the root mean
    square of the margins, limited to [-10, 10]. a and b follow a logistic regression on the margins that
    rounds had *before* their label was seen, so that no margin is influenced by its own label: one Newton
    step per round, over about the last thousand rounds. a is never negative: a larger margin never means a
    smaller probability. The cost is seven numbers per hypothesis.

    With more than two classes each class has its own sigmoid, and the probabilities are divided by their sum.

    `decision_function` is a z + b, the log-odds, and `predict` returns the most probable class. Both may
    differ from those of the learner, whose threshold is a margin of 0. `progressive_fit` and `play` report
    the learner's own rounds, to which the mistake bounds apply.

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

    _learned_names: ClassVar[frozenset[str]] = LearnerWrapper._learned_names | {"sigmoids_"}

    _needs_history: ClassVar[bool] = False

    sigmoids_: Floats

    def __init__(self, learner: OnlineClassifier) -> None:
        self.learner = learner

    def predict_proba(self, X: Rows) -> Floats:
        """Return the probability of each class for each row.

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
        if not predicts_as_it_learns(self.learner):
            raise ValueError(
                f"{type(self.learner).__name__} cannot be calibrated: it predicts with other hypotheses than "
                "the one it learns with, and rounds have no margins of these; use another learner"
            )

    def _make(self, X: Matrix, outputs: int) -> Sequence[Hypothesis]:
        self.sigmoids_ = sigmoids(outputs)
        return super()._make(X, outputs)

    def _continue_with_copies(self) -> None:
        self.learner_ = copy.deepcopy(self.learner_)
        self._share_hypotheses()
        self.sigmoids_ = self.sigmoids_.copy()

    def _admit(self, label: Label) -> None:
        learner = self.learner_
        self.sigmoids_ = with_class_added(self.sigmoids_, bisect_left(self.classes_.tolist(), label))
        learner._admit(label)
        self._set_classes(learner.classes_)
        self._share_hypotheses()
        self._mistakes = learner._mistakes

    def _count(self, X: Matrix, codes: Codes, margins: Floats, start: int) -> None:
        observe(self.sigmoids_, margins, codes)

    def _margins(self, X: Matrix) -> Floats:
        return np.array(
            [
                log_odds(numbers, f)
                for numbers, f in zip(self.sigmoids_, self.learner_._margins(X), strict=True)
            ]
        )

    def _weights(self, hypothesis: LinearRule) -> Floats:
        assert isinstance(self.learner_, LinearClassifier)
        return self.learner_._weights(hypothesis)

    def _check_learned(self, found: State, hypotheses: Sequence[object]) -> None:
        outputs = len(found["classes_"]) if len(found["classes_"]) > 2 else 1
        require(sound(found["sigmoids_"], outputs), "sigmoids should be finite numbers, with a curvature")
        require(predicts_as_it_learns(found["learner_"]), "learner_ should predict as it learns")

    @property
    def nbytes_(self) -> int:
        """Bytes of all arrays that the model keeps."""
        return super().nbytes_ + self.sigmoids_.nbytes


def with_class_added(numbers: Floats, place: int) -> Floats:
    """Return the sigmoids with one more class, at this place."""
    if len(numbers) == 1:
        numbers = np.stack([mirror(numbers[0]), numbers[0]])
    return np.insert(numbers, place, sigmoids(1)[0], axis=0)


def observe(numbers: Floats, margins: Floats, codes: Codes) -> None:
    """Fit the sigmoids to rounds: margins of shape (n,) or (n, n_classes), and the labels as codes."""
    if len(numbers) == 1:
        calibrate(numbers[0], margins.reshape(-1), np.where(codes == 1, 1.0, -1.0))
        return
    for c, row in enumerate(numbers):
        calibrate(row, margins[:, c], np.where(codes == c, 1.0, -1.0))


def probabilities(odds: Floats) -> Floats:
    """Return the probability of each class, given log-odds of shape (n,) or (n, n_classes)."""
    if odds.ndim == 1:
        return np.column_stack([special.expit(-odds), special.expit(odds)])
    values: Floats = special.expit(odds)
    values /= values.sum(axis=1, keepdims=True)
    return values
