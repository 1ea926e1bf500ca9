"""The base of the linear regressors: weights and an intercept."""

from __future__ import annotations

from typing import ClassVar

from budgetron._base.linear_estimator import LinearEstimator, coefficients, intercepts
from budgetron._base.online_regressor import OnlineRegressor
from budgetron._util.types import Floats, Matrix

__all__ = ["LinearRegressor"]


class LinearRegressor(LinearEstimator, OnlineRegressor):
    """The base of the linear regressors. A subclass defines `_rule` or `_joint_rule`."""

    _learned_names: ClassVar[frozenset[str]] = OnlineRegressor._learned_names

    def rows_with_constant(self, X: Matrix) -> Matrix:
        """Return checked rows as the hypothesis learns them: after a constant 1, with an intercept."""
        rows: Matrix = self._learners[0].basis(X)
        return rows

    @property
    def coef_(self) -> Floats:
        """Weights of shape (n_features,)."""
        weights: Floats = coefficients(self._fitted(), self._weights)[0]
        return weights

    @property
    def intercept_(self) -> float:
        """The prediction for a row of zeros; 0.0 without an intercept."""
        return float(intercepts(self._fitted(), self._weights)[0])
