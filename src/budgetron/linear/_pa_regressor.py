"""Linear Passive-Aggressive regression: PA, PA-I and PA-II with the epsilon-insensitive loss."""

from typing import ClassVar

import cython
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.rule import TAU
from cython.cimports.libc.math import fabs

from budgetron._base.linear_estimator import FIT_INTERCEPT
from budgetron._base.linear_regressor import LinearRegressor
from budgetron._base.parameters import Constraints
from budgetron._base.passive_aggressive import EPSILON, PA_VARIANTS, step_limits
from budgetron._base.regression_theorems import RegressionTheorem, pa_theorems


@cython.cclass
class PARegressionRule(LinearRule):
    """If the error is above epsilon, take the smallest step that repairs it, or a limited one."""

    epsilon: cython.double
    most: cython.double  # the largest tau
    slack: cython.double  # added to ||x||^2

    def __init__(
        self, d: int, single: bool, intercept: bool, epsilon: float, most: float, slack: float
    ) -> None:
        LinearRule.__init__(self, d, single, intercept=intercept)
        self.epsilon = epsilon
        self.most = most
        self.slack = slack

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return fabs(self.y - self.margin) > self.epsilon and self.importance > 0.0  # loss > 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        loss: cython.double = fabs(self.y - self.margin) - self.epsilon
        square: cython.double = self.square + self.slack / self.importance
        # A row of zeros cannot be repaired by any step.
        tau: cython.double = loss / square if square > 0.0 else 0.0
        if tau > self.most * self.importance:
            tau = self.most * self.importance
        self.note(TAU, tau)
        self.add(tau if self.y > self.margin else -tau)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class PARegressor(LinearRegressor):
    """Linear Passive-Aggressive regression: the smallest step after which the prediction is within epsilon.

    Use it on streams that change quickly: it forgets fast, and costs O(non-zeros) per row. On noisy targets
    use a small `C`, or `AROWRegressor`.

    Parameters
    ----------
    C : float, default=1.0
        Limits how far a single row moves the weights; use smaller values for noisy targets. No effect for
        "PA".
    variant : {"PA", "PA-I", "PA-II"}, default="PA-I"
        With loss = max(0, |y - w . x| - epsilon), the step is loss / ||x||^2 for "PA", at most C for "PA-I",
        and loss / (||x||^2 + 1 / (2 C)) for "PA-II".
    epsilon : float, default=0.1
        Errors up to this are not losses; in the unit of the targets.
    fit_intercept : bool, default=True
        Whether there is a weight for the constant 1. It counts in ||x||^2.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float

    Notes
    -----
    A row whose prediction is within epsilon of its target changes nothing. Otherwise w += tau x, or
    w -= tau x if the prediction was too large. A row of weight b is learned with C b.

    Guarantees, for every u, with R the largest ||x|| and l, l* the losses of the learner and of u: with "PA",
    the sum of l^2 / ||x||^2 is at most (U + sqrt(U^2 + ||u||^2))^2, where U^2 is the sum of l*^2 / ||x||^2.
    With "PA-II", the sum of l^2 is at most (R^2 + 1 / (2 C)) (||u||^2 + 2 C sum l*^2). `certify` evaluates
    them with the best u (`bounds.pa_regression`, `bounds.pa_ii_regression`). The bound of PA-I in the paper
    is about mistakes of classification, and has no counterpart here.

    Cost per round: O(non-zeros). Memory: O(d). Absolute values of targets must be below 1e30.

    References
    ----------
    Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online Passive-Aggressive Algorithms (2006), section 5 and
    theorems 3 and 5.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from budgetron.linear import PARegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> PARegressor(C=0.02).progressive_fit(scale(X), scale(y))
    RegressionTrace(442 rounds, RMSE 0.7781)
    """

    _parameter_constraints: ClassVar[Constraints] = PA_VARIANTS | EPSILON | FIT_INTERCEPT

    def __init__(
        self,
        C: float = 1.0,
        variant: str = "PA-I",
        epsilon: float = 0.1,
        *,
        fit_intercept: bool = True,
    ) -> None:
        self.C = C
        self.variant = variant
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept

    def _rule(self, d: int, single: bool) -> PARegressionRule:
        most, slack = step_limits(self.variant, self.C)
        return PARegressionRule(d, single, self.fit_intercept, self.epsilon, most, slack)

    def regression_theorems(self) -> list[RegressionTheorem]:
        return pa_theorems(self.variant, float(self.epsilon), float(self.C))
