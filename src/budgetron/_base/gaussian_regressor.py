"""Standard deviations of predictions, for the regressors that keep a Gaussian over functions."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar, Literal, overload

import numpy as np
from scipy.sparse import issparse
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from budgetron._base.batches import Batch
from budgetron._base.online_regressor import OnlineRegressor
from budgetron._base.parameters import Constraints
from budgetron._util.blocks import row_blocks
from budgetron._util.threads import one_thread
from budgetron._util.types import Floats, Matrix, Rows

__all__ = ["GAUSSIAN_PARAMETERS", "GaussianRegressor"]

# The constraints of the parameters.
GAUSSIAN_PARAMETERS: Constraints = {
    "r": [Interval(Real, 0.0, None, closed="neither")],
    "prior": [Interval(Real, 0.0, None, closed="neither")],
    "forget": [Interval(Real, 0.0, 1.0, closed="right")],
}

# Rows whose variances are computed together.
BLOCK = 1024


class GaussianRegressor(OnlineRegressor):
    """A regressor that learns by recursive least squares: a Gaussian over functions, with the squared loss.

    A subclass defines the variance of f(x) (`_variances`), and where its hypothesis counts the normalized
    errors (`_errors`).
    """

    _parameter_constraints: ClassVar[Constraints] = GAUSSIAN_PARAMETERS

    r: float
    prior: float
    forget: float

    def _variances(self, X: Matrix) -> Floats:
        """Return the variance of f(x) for rows that were checked, in units of r."""
        raise NotImplementedError(f"{type(self).__name__} must define _variances")

    def _errors(self) -> Floats:
        """Return the sum of e^2 / (v + r) over the rounds, and the sum of the weights of the rounds."""
        raise NotImplementedError(f"{type(self).__name__} must define _errors")

    @property
    def noise_variance_(self) -> float:
        """Estimated variance of the noise of the targets: r times the mean of e^2 / (v + r) over the rounds.

        e is the residual of a round, and v the variance of f(x) before it. With `forget`, old rounds count
        less.
        """
        self._fitted()
        total, weight = self._errors()
        return float(self.r * total / weight) if weight > 0.0 else float(self.r)

    @overload
    def predict(self, X: Rows, return_std: Literal[False] = False) -> Floats: ...

    @overload
    def predict(self, X: Rows, return_std: Literal[True]) -> tuple[Floats, Floats]: ...

    def predict(self, X: Rows, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Return the prediction for each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return the standard deviation of the target, given the row, as well. It consists of the
            uncertainty about f(x) and of the noise: sqrt(noise_variance_ (1 + v / r)).

        Returns
        -------
        ndarray of shape (n_samples,), or a tuple of two of them
        """
        check_is_fitted(self)
        rows = self._check_rows(X)
        predictions = self._predict_rows(rows)
        if not return_std:
            return predictions
        return predictions, np.sqrt(self.noise_variance_ * (1.0 + self.variances(rows) / self.r))

    def variances(self, rows: Matrix) -> Floats:
        """Return the variance of f(x), v in units of r, for rows that were checked."""
        variances = np.empty(rows.shape[0])
        with one_thread():
            for block in row_blocks(len(variances), BLOCK):
                part = rows[block]
                variances[block] = self._variances(part.toarray() if issparse(part) else part)
        return variances

    def round_variances(self, batch: Batch, supports: int) -> Floats:
        """Return the variance that f(x) had in each round of a batch, before the target was seen.

        The batch was played with a ledger. `supports` is the number of supports before it. Rows of weight 0
        have no variance, but NaN.
        """
        return np.array(self._ledger(batch)["variance"], np.float64)
