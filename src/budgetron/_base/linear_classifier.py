"""The linear learners' face: the weights as fitted attributes, and sparse rows as they are."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron._base.compiled_state import linear_hypothesis
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._core.linear import LinearRule

__all__ = ["LinearClassifier"]


class LinearClassifier(OnlineClassifier):
    """What all linear learners share. A subclass says which rule it follows."""

    _learners: list[LinearRule]

    def _rule(self, d: int, single: bool) -> LinearRule:
        """The algorithm with this learner's parameters, for rows of d features, float32 if single."""
        raise NotImplementedError(f"{type(self).__name__} does not say which rule it follows")

    def _make(self, X: Any, outputs: int) -> list[LinearRule]:
        return [self._rule(X.shape[1], X.dtype == np.float32) for _ in range(outputs)]

    def _restore(self, states: list[Any], found: dict[str, Any], dtype: np.dtype[Any]) -> list[LinearRule]:
        def make_rule(d: int) -> LinearRule:
            return self._rule(d, dtype == np.float32)

        return [linear_hypothesis(make_rule, state, found["n_features_in_"]) for state in states]

    def _new_hypothesis(self, generator: np.random.Generator) -> LinearRule:
        row = self._learners[0].row
        return self._rule(len(row), row.dtype == np.float32)

    def _mirror(self, learner: LinearRule, generator: np.random.Generator) -> LinearRule:
        if learner.average is not None or learner.journal is not None:
            twin: LinearRule = super()._mirror(learner, generator)
            return twin
        twin = copy.deepcopy(learner)
        np.negative(twin.weights, out=twin.weights)
        return twin

    def _widened(self, learner: LinearRule, d: int) -> LinearRule:
        wider, state, old = (
            self._rule(d, learner.row.dtype == np.float32),
            learner.__getstate__(),
            len(learner.row),
        )
        fresh = wider.__getstate__()
        # Where nothing was seen, what stands at the beginning stands there still.
        state["weights"] = np.append(state["weights"], fresh["weights"][old:])
        state["extra"] = {
            name: np.append(array, fresh["extra"][name][old:])
            if len(fresh["extra"][name]) > len(array)
            else array
            for name, array in state["extra"].items()
        }
        if state["covariance"] is not None:
            parts = fresh["covariance"].arrays()
            for name, array in state["covariance"].arrays().items():
                parts[name][: len(array)] = array
            state["covariance"] = fresh["covariance"]
        if state["average"] is not None:
            state["average"].reserve(d)
        wider.__setstate__(state)
        return wider

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
