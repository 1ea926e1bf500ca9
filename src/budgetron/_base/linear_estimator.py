"""What all linear learners have, classifiers and regressors: weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from budgetron._base.compiled_state import linear_hypothesis
from budgetron._base.large_values import refuse_large_features
from budgetron._base.parameters import Constraints
from budgetron._base.row_player import RowPlayer
from budgetron._base.sizes import Prepare, as_it_is, bytes_of_width
from budgetron._core.linear import LinearRule
from budgetron._util.checks import State
from budgetron._util.types import Floats, Matrix

__all__ = ["FIT_INTERCEPT", "LinearEstimator", "coefficients", "intercepts"]

# The constraint of the parameter.
FIT_INTERCEPT: Constraints = {"fit_intercept": ["boolean"]}

# Features must be smaller, so that weights and their squares cannot overflow.
LARGEST = 1e75


class LinearEstimator(RowPlayer):
    """What all linear learners have: weights.

    A subclass defines which rule it follows (`_rule`), or if one hypothesis has all outputs, `_joint_rule`.
    With `fit_intercept`, rules learn rows (1, x), and the first weight is the intercept.
    """

    fit_intercept: bool

    _learners: Sequence[LinearRule]

    def _rule(self, d: int, single: bool) -> LinearRule:
        """Return the algorithm with this learner's parameters, for d features, of float32 if `single`."""
        raise NotImplementedError(f"{type(self).__name__} must define _rule")

    def _joint_rule(self, d: int, single: bool, outputs: int) -> LinearRule:
        """Return the algorithm for this many outputs; more than one only if the learner is joint."""
        return self._rule(d, single)

    def _for_features(self, d: int) -> LinearEstimator:
        """Return a learner whose rule does not depend on the number of features, and is right for d."""
        return self

    def new_rule(self, d: int, dtype: np.dtype[Any], outputs: int = 1) -> LinearRule:
        """Return a new hypothesis of this learner over d features of this type."""
        return self._for_features(d)._joint_rule(d, dtype == np.float32, outputs)

    def _make(self, X: Matrix, outputs: int) -> list[LinearRule]:
        d = X.shape[1]
        if self._joint:
            return [self.new_rule(d, X.dtype, outputs)]
        return [self.new_rule(d, X.dtype) for _ in range(outputs)]

    def _restore(self, states: list[object], found: State, dtype: np.dtype[Any]) -> list[LinearRule]:
        width = found["n_features_in_"]
        learner = self._for_features(width)
        outputs = self._outputs_in(found) if self._joint else 1

        def make_rule(d: int) -> LinearRule:
            return learner.new_rule(d, dtype, outputs)

        return [linear_hypothesis(make_rule, state, width) for state in states]

    def _bytes_needed(self, X: Matrix, outputs: int, prepare: Prepare = as_it_is) -> int:
        width = X.shape[1]
        learner = self._for_features(width)
        hypotheses = 1 if self._joint else outputs

        def make(n: int) -> LinearRule:
            rule = learner.new_rule(n, X.dtype, outputs // hypotheses)
            prepare(rule)
            return rule

        return hypotheses * bytes_of_width(make, width)

    def _refuse_large(self, X: Matrix, square: float) -> None:
        if not square < LARGEST**2:
            refuse_large_features(X, LARGEST)

    def _fitted(self) -> Sequence[LinearRule]:
        super()._fitted()
        return self._learners

    def _weights(self, hypothesis: LinearRule) -> Floats:
        """Return the weights that `decision_function` uses for one hypothesis, or for all of its outputs.

        If there is an intercept, it is the first weight.
        """
        weights: Floats = hypothesis.factor * hypothesis.weights
        return weights

    def _decide(self, hypothesis: LinearRule, X: Matrix) -> Floats:
        return hypothesis.decide(X, self._weights(hypothesis))

    @property
    def updates_(self) -> int:
        """Number of rounds whose example changed the weights.

        With more than two classes and one hypothesis for each, the sum over the classes.
        """
        return sum(hypothesis.updates for hypothesis in self._fitted())


def coefficients(hypotheses: Sequence[Any], weights: Callable[[Any], Floats]) -> Floats:
    """Return the weights of shape (n_outputs, n_features), given a function that returns all weights."""
    found = np.vstack([weights(hypothesis) for hypothesis in hypotheses])
    return found[:, hypotheses[0].constant :]


def intercepts(hypotheses: Sequence[Any], weights: Callable[[Any], Floats]) -> Floats:
    """Return the intercepts of shape (n_outputs,), given a function that returns all weights."""
    found = np.vstack([weights(hypothesis) for hypothesis in hypotheses])
    return found[:, 0].copy() if hypotheses[0].constant else np.zeros(len(found))
