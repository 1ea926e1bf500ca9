"""The base of the linear regressors: weights and an intercept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.sparse import hstack as sparse_hstack

from budgetron._base.batches import Batch
from budgetron._base.large_values import refuse_large_row
from budgetron._base.linear_estimator import LinearEstimator
from budgetron._base.online_regressor import OnlineRegressor
from budgetron._core.linear import LinearRule
from budgetron._util.sparse import check_sparse
from budgetron._util.types import Floats, Matrix, Row

__all__ = ["LinearRegressor"]


class LinearRegressor(LinearEstimator, OnlineRegressor):
    """The base of the linear regressors. A subclass defines `_rule` or `_joint_rule`.

    With an intercept, the hypothesis has one more weight, the first one, for the constant 1.
    """

    _learned_names: ClassVar[frozenset[str]] = OnlineRegressor._learned_names

    def _n_weights(self, d: int) -> int:
        return d + int(self.fit_intercept)

    def rows_with_constant(self, X: Matrix) -> Matrix:
        """Return checked rows as the hypothesis takes them: with the constant 1 first."""
        if not self._started_with["fit_intercept"]:
            return X
        if issparse(X):
            ones = csr_array(np.ones((X.shape[0], 1), X.dtype))
            return csr_array(sparse_hstack([ones, X], format="csr", dtype=X.dtype))
        rows = np.empty((X.shape[0], X.shape[1] + 1), X.dtype)
        rows[:, 0], rows[:, 1:] = 1.0, X
        return rows

    def _rounds(self, batch: Batch) -> None:
        super()._rounds(replace(batch, X=self.rows_with_constant(batch.X)))

    def _decide(self, hypothesis: LinearRule, X: Matrix) -> Floats:
        return super()._decide(hypothesis, self.rows_with_constant(X))

    def _play_round(self, x: Row, y: float) -> float:
        hypothesis = self._learners[0]
        try:
            return float(hypothesis.play(self._row_with_constant(x), y))
        except ValueError as error:
            refuse_large_row(x, hypothesis.dtype, error)
            raise

    def _open_row(self, x: Row) -> float:
        return float(self._learners[0].open_round(self._row_with_constant(x)))

    def _row_with_constant(self, x: Row) -> Row:
        """Return one row as the hypothesis takes it; its length is checked, not its values."""
        if not self._started_with["fit_intercept"]:
            return x
        if issparse(x):
            check_sparse(x)
        row: Any = x.toarray() if issparse(x) else np.asarray(x)
        if row.size != self.n_features_in_ or row.ndim > 2:
            raise ValueError(f"x must have {self.n_features_in_} features; got shape {row.shape}")
        if row.dtype.kind not in "fiub":
            raise ValueError(f"x must be numbers; got an array of {row.dtype}")
        return np.concatenate([[1.0], row.ravel()])

    def _add_features(self, d: int) -> None:
        super()._add_features(self._n_weights(d))
        self.n_features_in_ = d

    @property
    def coef_(self) -> Floats:
        """Weights of shape (n_features,)."""
        weights = self._weights(self._fitted()[0])
        return weights[1:].copy() if self._started_with["fit_intercept"] else weights

    @property
    def intercept_(self) -> float:
        """The prediction for a row of zeros; 0.0 without an intercept."""
        weights = self._weights(self._fitted()[0])
        return float(weights[0]) if self._started_with["fit_intercept"] else 0.0
