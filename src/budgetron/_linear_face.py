"""The linear learners' face: the weights as fitted attributes, and sparse rows as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron._core.linear import LinearRule
from budgetron._face import OnlineClassifier

__all__ = ["LinearClassifier"]


class LinearClassifier(OnlineClassifier):
    """What all linear learners share. A subclass says which rule it follows."""

    _learners: list[LinearRule]

    def _rule(self, d: int, single: bool) -> LinearRule:
        """The algorithm with this learner's parameters, for rows of d features, float32 if single."""
        raise NotImplementedError(f"{type(self).__name__} does not say which rule it follows")

    def _make(self, X: Any, outputs: int) -> list[LinearRule]:
        return [self._rule(X.shape[1], X.dtype == np.float32) for _ in range(outputs)]

    def _fitted(self) -> list[LinearRule]:
        super()._fitted()
        return self._learners

    def _weights(self, learner: LinearRule) -> NDArray[np.float64]:
        """The weights that `decision_function` uses for one hypothesis."""
        weights: NDArray[np.float64] = learner.factor * learner.weights
        return weights

    def _decide(self, learner: LinearRule, X: Any) -> NDArray[np.float64]:
        return learner.decide(X, self._weights(learner))

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of shape (n_outputs, n_features)."""
        return np.array([self._weights(learner) for learner in self._fitted()])

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Zeros: the hyperplanes of these learners pass through the origin."""
        return np.zeros(len(self._fitted()))

    @property
    def updates_(self) -> int:
        """Number of rounds whose example changed the weights, summed over the classes if more than two."""
        return sum(learner.updates for learner in self._fitted())
