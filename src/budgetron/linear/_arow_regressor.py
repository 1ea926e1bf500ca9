"""Linear regression by a Gaussian over weight vectors, and the Vovk-Azoury-Warmuth forecaster."""

from typing import ClassVar, cast

import cython
import numpy as np
from scipy.sparse import issparse
from sklearn.utils._param_validation import StrOptions

from budgetron._base.batches import Batch
from budgetron._base.gaussian_regressor import GAUSSIAN_PARAMETERS, GaussianRegressor
from budgetron._base.large_values import refuse_large_row
from budgetron._base.linear_estimator import FIT_INTERCEPT
from budgetron._base.linear_regressor import LinearRegressor
from budgetron._base.parameters import Constraints
from budgetron._base.regression_theorems import RegressionTheorem, vaw_theorem
from budgetron._base.sizes import with_params
from budgetron._core.linear import LinearRule
from budgetron._util.types import Floats, Matrix, Row
from budgetron.linear._arow_rules import MOST_FULL, DiagonalRule, FullRule, diagonal_rule


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class AROWRegressor(GaussianRegressor, LinearRegressor):
    """Linear regression by a Gaussian over weight vectors: recursive least squares.

    Each row changes the Gaussian as Bayes' rule says, so that after any number of rows the mean is the
    solution of ridge regression on all of them. With `forget`, old rows lose influence. Use it first: it has
    almost no parameters, is not sensitive to the scale of the features, and gives standard deviations.

    Parameters
    ----------
    r : float, default=1.0
        Variance of the noise of the targets, in the unit of `prior`. With a larger r, each row has less
        influence. Ridge regression has the penalty r / prior.
    covariance : {"auto", "full", "diagonal"}, default="auto"
        "full" keeps the covariance of all weights: exact. "diagonal" keeps one variance per weight: for wide
        rows. "auto" is "full" up to 1000 weights and "diagonal" above.
    variant : {"ridge", "vaw"}, default="ridge"
        What is predicted: "ridge" predicts by the mean of the Gaussian, w . x. "vaw", the forecaster of Vovk,
        Azoury and Warmuth, predicts w . x r / (r + v), where v is the variance of w . x: predictions in
        directions that are not yet known are closer to 0. Only "vaw" has a bound. Both learn the same w.
    prior : float, default=1.0
        Variance of each weight before the first row. Predictions depend on prior / r only.
    forget : float, default=1.0
        The part of what was learned that each row keeps; the rest returns to the prior. For streams that
        change. Each round adds (1 - forget) prior to every variance, so that with a small r / prior even
        0.9999 forgets within some hundred rows; try 0.999 and 0.9999.
    fit_intercept : bool, default=True
        Whether there is a weight for the constant 1.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    noise_variance_ : float
        Estimated variance of the noise of the targets.

    Notes
    -----
    With v = x' Sigma x, each row changes the Gaussian by::

        w += (y - w . x) / (v + r) Sigma x,     Sigma -= Sigma x x' Sigma / (v + r)

    With a diagonal covariance, 1 / Sigma_ii += x_i^2 / r instead. With `forget` f < 1, then::

        w *= sqrt(f),     Sigma = f Sigma + (1 - f) prior

    This is `AROW` with the squared loss and numbers as labels; the core is the same. A row of weight b is
    learned with r / b.

    Guarantee of "vaw" with a full covariance, without forgetting and weights, for any stream and every u::

        sum (y - p)^2 <= sum (y - u . x)^2 + r / prior ||u||^2 + Y^2 ln det(I + prior / r sum x x')

    where Y is the largest |y|. The last term grows with the logarithm of the number of rows. `certify`
    evaluates it, with the best u (`bounds.vovk_azoury_warmuth`).

    Cost per round: O(d^2), or O(non-zeros) if diagonal. Memory: 4 d^2 bytes, or 16 d if diagonal. Absolute
    values of targets must be below 1e30.

    References
    ----------
    Vovk: Competitive On-Line Statistics (2001). Azoury, Warmuth: Relative Loss Bounds for On-Line Density
    Estimation with the Exponential Family of Distributions (2001). Cesa-Bianchi, Lugosi: Prediction,
    Learning, and Games (2006), theorem 11.8.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from budgetron.linear import AROWRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> AROWRegressor(prior=1000.0).progressive_fit(X, y)
    RegressionTrace(442 rounds, RMSE 57.43)
    """

    _parameter_constraints: ClassVar[Constraints] = (
        GAUSSIAN_PARAMETERS
        | FIT_INTERCEPT
        | {
            "covariance": [StrOptions({"auto", "full", "diagonal"})],
            "variant": [StrOptions({"ridge", "vaw"})],
        }
    )
    _joint: ClassVar[bool] = True

    def __init__(
        self,
        r: float = 1.0,
        covariance: str = "auto",
        variant: str = "ridge",
        *,
        prior: float = 1.0,
        forget: float = 1.0,
        fit_intercept: bool = True,
    ) -> None:
        self.r = r
        self.covariance = covariance
        self.variant = variant
        self.prior = prior
        self.forget = forget
        self.fit_intercept = fit_intercept

    def _for_features(self, d: int) -> "AROWRegressor":
        if self.covariance != "auto":
            return self
        return with_params(self, covariance="full" if self._may_be_full(d) else "diagonal")

    def _may_be_full(self, d: int) -> bool:
        """Return whether "auto" is a full covariance for rows of d features; an intercept counts as one."""
        return d + self.fit_intercept <= MOST_FULL

    def _joint_rule(self, d: int, single: bool, outputs: int) -> FullRule | DiagonalRule:
        rule = FullRule if self.covariance == "full" else DiagonalRule
        prior = float(self.prior)
        return rule(d, single, self.fit_intercept, self.r, "squared", prior, self.forget, outputs, True)

    def _add_features(self, d: int) -> None:
        was_full, is_full = self._may_be_full(self.n_features_in_), self._may_be_full(d)
        if self._started_with["covariance"] == "auto" and was_full and not is_full:
            self._learners = [diagonal_rule(rule) for rule in self._learners]
        LinearRegressor._add_features(self, d)

    # ------------------------------------------------------------------ predictions

    def _needs_ledger(self) -> bool:
        return self.variant == "vaw"

    def _predictions(self, batch: Batch) -> Floats:
        margins = LinearRegressor._predictions(self, batch)
        if self.variant == "ridge":
            return margins
        return margins * self._shares(np.asarray(self._ledger(batch)["variance"], np.float64))

    def _shares(self, variances: Floats) -> Floats:
        """Return the factors of the predictions, given the variances of w . x."""
        shares: Floats = self.r / (self.r + np.nan_to_num(variances))
        return shares

    def _decide(self, hypothesis: LinearRule, X: Matrix) -> Floats:
        values = LinearRegressor._decide(self, hypothesis, X)
        if self.variant == "ridge":
            return values
        return values * self._shares(self._variances(X.toarray() if issparse(X) else X))

    def _open_row(self, x: Row) -> float:
        margin = LinearRegressor._open_row(self, x)
        if self.variant == "ridge":
            return margin
        row = np.asarray(x.toarray() if issparse(x) else x, np.float64).reshape(1, -1)
        return margin * float(self._shares(self._variances(row))[0])

    def _play_round(self, x: Row, y: float) -> float:
        if self.variant == "ridge":
            return LinearRegressor._play_round(self, x, y)
        try:
            prediction = self._open_row(x)
            self._learners[0].close_round(y)
        except ValueError as error:
            refuse_large_row(x, self._learners[0].dtype, error)
            raise
        return prediction

    def _variances(self, X: Floats) -> Floats:
        rule, rows = self._learners[0], np.asarray(self.rows_with_constant(X), np.float64)
        if rule.covariance is None:
            variances: Floats = rows**2 @ cast(DiagonalRule, rule).variances()
            return variances
        spread: Floats = np.einsum("ij,ij->i", rows @ rule.covariance.matrix(), rows)
        return np.maximum(spread, 0.0)

    def _errors(self) -> Floats:
        errors: Floats = self._learners[0].extra["errors"].copy()
        return errors

    def regression_theorems(self) -> list[RegressionTheorem]:
        if self.variant != "vaw":
            return []
        full = self._learners[0].covariance is not None
        return [vaw_theorem(float(self.r), float(self.prior), float(self.forget), full)]
