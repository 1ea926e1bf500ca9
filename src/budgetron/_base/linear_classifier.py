"""The base of the linear classifiers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from budgetron._base.linear_estimator import LinearEstimator, coefficients, intercepts
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.unmergeable import UnmergeableClassifier
from budgetron._core.linear import LinearRule
from budgetron._util.types import Floats

__all__ = ["LinearClassifier"]


class LinearClassifier(LinearEstimator, UnmergeableClassifier):
    """The base of the linear classifiers. A subclass defines `_rule` or `_joint_rule`."""

    _learned_names: ClassVar[frozenset[str]] = OnlineClassifier._learned_names

    def _new_hypothesis(self, generator: np.random.Generator) -> LinearRule:
        return self.new_rule(self._learners[0].n_features, self._learners[0].dtype)

    @property
    def coef_(self) -> Floats:
        """Weights of shape (n_outputs, n_features)."""
        return coefficients(self._fitted(), self._weights)

    @property
    def intercept_(self) -> Floats:
        """Intercepts of shape (n_outputs,); zeros without `fit_intercept`."""
        return intercepts(self._fitted(), self._weights)
