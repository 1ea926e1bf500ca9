"""Kernel Passive-Aggressive regression: PA, PA-I and PA-II with the epsilon-insensitive loss."""

from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import TAU, Rule
from cython.cimports.libc.math import fabs

from budgetron._base.kernel_regressor import KernelRegressor
from budgetron._base.parameters import OPTIONAL_BUDGET, Constraints
from budgetron._base.passive_aggressive import EPSILON, PA_VARIANTS, step_limits
from budgetron._base.regression_theorems import RegressionTheorem, pa_theorems
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class KernelPARule(Rule):
    """If the error is above epsilon, add the row with the smallest coefficient that repairs it."""

    epsilon: cython.double
    most: cython.double  # the largest tau
    slack: cython.double  # added to k(x, x)

    def __init__(self, budget: int, epsilon: float, most: float, slack: float) -> None:
        ledger = ("tau", "removed", "norm") if budget else ("tau", "norm")
        Rule.__init__(self, budget, ledger=ledger, divides=True)
        self.epsilon = epsilon
        self.most = most
        self.slack = slack

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        # loss > 0: the error of a duplicate of the newest support is epsilon, and rounding must not decide
        loss: cython.double = fabs(self.y - self.margin) - self.epsilon
        return loss > self.tie_share() * fabs(self.y) and self.importance > 0.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        loss: cython.double = fabs(self.y - self.margin) - self.epsilon
        square: cython.double = self.kxx + self.slack / self.importance
        # A row that the kernel maps to 0 cannot be repaired by any step.
        tau: cython.double = loss / square if square > 0.0 else 0.0
        tau = min(tau, self.most * self.importance)
        self.note(TAU, tau)
        if tau > 0.0:
            self.add(tau if self.y > self.margin else -tau)
            if self.budget > 0 and self.size() > self.budget:
                self.remove(0)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class KernelPARegressor(KernelRegressor):
    """Kernel Passive-Aggressive regression: the smallest step after which the prediction is within epsilon.

    Use it on streams that change quickly, with a budget: the oldest support is removed when there are too
    many, so that it forgets at a fixed pace. On noisy targets use a small `C`, or `SecondOrderRegressor`,
    which is more accurate.

    Parameters
    ----------
    C : float, default=1.0
        Limits how far a single row moves the function; use smaller values for noisy targets. No effect for
        "PA".
    variant : {"PA", "PA-I", "PA-II"}, default="PA-I"
        With loss = max(0, |y - f(x)| - epsilon), the coefficient is loss / k(x, x) for "PA", at most C for
        "PA-I", and loss / (k(x, x) + 1 / (2 C)) for "PA-II".
    epsilon : float, default=0.1
        Errors up to this are not losses; in the unit of the targets. Rows without a loss are not stored.
    budget : int, default=None
        Largest number of supports; None for no limit.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Threads that compute the kernel values of a batch. None means 1, -1 all cores.

    Notes
    -----
    A row whose prediction is within epsilon of its target changes nothing. Losses below 1e-9 |y| (1e-4 |y|
    for float32 rows) count as rounding. A row of weight b is learned with C b. There is no constant: center
    the targets.

    Guarantees without a budget, for every function u of the kernel's space: those of `linear.PARegressor`,
    with k(x, x) instead of ||x||^2 (`bounds.pa_regression`, `bounds.pa_ii_regression`). `certify` evaluates
    them with the best u; it computes all kernel values, and takes O(n^3) for n rows. No bound is known with a
    budget.

    Cost per round: one kernel row, O(m d) with m supports. Memory: O(m d).

    References
    ----------
    Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online Passive-Aggressive Algorithms (2006), section 5.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.preprocessing import scale
    >>> from budgetron import KernelPARegressor
    >>> X, y = make_friedman1(2000, random_state=0)
    >>> KernelPARegressor(C=0.3, budget=300, gamma=0.05).progressive_fit(scale(X), scale(y))
    RegressionTrace(2000 rounds, RMSE 0.5556, 300 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = (
        KernelRegressor._parameter_constraints | PA_VARIANTS | EPSILON | OPTIONAL_BUDGET
    )

    def __init__(
        self,
        C: float = 1.0,
        variant: str = "PA-I",
        epsilon: float = 0.1,
        *,
        budget: int | None = None,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        KernelRegressor.__init__(self, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.C = C
        self.variant = variant
        self.epsilon = epsilon
        self.budget = budget

    def _rule(self, generator: np.random.Generator) -> KernelPARule:
        most, slack = step_limits(self.variant, self.C)
        return KernelPARule(self.budget or 0, self.epsilon, most, slack)

    def regression_theorems(self) -> list[RegressionTheorem]:
        """Return the theorems that apply to this fitted learner, the default first, for `certify`."""
        return [] if self.budget else pa_theorems(self.variant, float(self.epsilon), float(self.C))
