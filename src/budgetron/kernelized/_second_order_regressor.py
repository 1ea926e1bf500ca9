"""Second-order kernel regression: a sparse online Gaussian process in the span of a few supports."""

from collections.abc import Sequence
from numbers import Real
from typing import ClassVar, cast

import cython
import numpy as np
from sklearn.utils._param_validation import Interval

from budgetron._base.batches import Batch
from budgetron._base.gaussian_regressor import GAUSSIAN_PARAMETERS, GaussianRegressor
from budgetron._base.kernel_regressor import KernelRegressor
from budgetron._base.kernel_variances import round_variances, variances_at
from budgetron._base.parameters import BUDGET, Constraints
from budgetron._core.rule import Rule
from budgetron._util.types import Floats
from budgetron.kernelized._second_order_rule import SecondOrderRule
from budgetron.kernels import KernelFunction, Normalized


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class SecondOrderRegressor(GaussianRegressor, KernelRegressor):
    """Kernel regression by a Gaussian over functions in the span of a few supports and of the features.

    This is a sparse online Gaussian process, also known as kernel recursive least squares. It stores rows
    that are novel: far from the span of the supports, by the Projectron's test. It keeps a Gaussian over the
    functions in that span and over linear functions, and each row changes it as Bayes' rule says. It is the
    most accurate single regressor here. Use `BudgetRegressor` if you do not want to choose `gamma`, or if
    features and targets are not scaled.

    Parameters
    ----------
    budget : int, default=300
        Largest number of supports. When it is reached, new supports come only by exchange (see the notes).
    threshold : float, default=0.02
        A row becomes a support if the squared distance of its image from the span of the supports is above
        this. The distance is at most k(x, x), which is 1 for "rbf".
    r : float, default=0.1
        Variance of the noise of the targets, in the unit of `prior`. With a larger r, each row has less
        influence.
    linear : bool, default=True
        Whether f has a linear part and a constant, as if the kernel were k(x, x') + gamma x . x' + 1. With
        more than 1000 features, features have variances but no covariances.
    prior : float, default=1.0
        Variance of each coordinate before the first update. Predictions depend on prior / r only.
    forget : float, default=1.0
        The part of what was learned that each row keeps; the rest returns to the prior. For streams that
        change. Each round adds (1 - forget) prior to every variance, so that with a small r / prior even
        0.9999 forgets within some hundred rows; try 0.999 and 0.9999.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Threads that compute the kernel values of a batch. None means 1, -1 all cores.

    Attributes
    ----------
    noise_variance_ : float
        Estimated variance of the noise of the targets.

    Notes
    -----
    Let K = L L' be the Gram matrix of the supports. A row with kernel values k has the coordinates
    z = L^-1 k in an orthonormal basis of their span, and phi = (1, sqrt(gamma) x, z) in all. The prediction
    is w . phi. A row with ||delta||^2 = k(x, x) - ||z||^2 above the threshold first becomes a support, if
    there is room; its coordinate in phi is ||delta||, of mean 0 and variance `prior`. Then, with
    v = phi' Sigma phi::

        w += (y - w . phi) / (v + r) Sigma phi,     Sigma -= Sigma phi phi' Sigma / (v + r)

    and with `forget` f < 1::

        w *= sqrt(f),     Sigma = f Sigma + (1 - f) prior

    which moves the Gaussian back towards the one before the first row ("back to the prior"). This is the
    core of `SecondOrderProjectron` with the squared loss, including the exchange of supports: when as many
    novel rows as the budget were not stored because the budget was full, supports that contribute almost
    nothing to the predictions are removed. A row of weight b is learned with r / b.

    The standard deviation of `predict` is that of the target: sqrt(s (v + r)). Here v is the variance of
    f(x), with the variance `prior` per ||delta||^2 outside of the span, and s is the mean of e^2 / (v + r)
    over the rounds, with e the residual. With `forget`, the mean is over recent rounds.

    A ||delta||^2 below 1e-9 k(x, x) (1e-4 for float32 rows) counts as 0, because rounding dominates it.

    Targets and features should have a scale of about 1: predictions start at 0, and the kernel has one width
    for all features. Absolute values of targets must be below 1e30.

    Cost per round, with m supports and n = m + d + 1 coordinates: one kernel row, O(m d); O(m^2) for z; and
    O(n^2) for the update. Memory: 4 n^2 + 4 m^2 bytes, plus the supports.

    The ledger has ||delta||, the variance v, tau, which is |y - w . phi| / (v + r), and the norm of w. No
    bound is known for this learner once the budget is reached.

    References
    ----------
    Csato, Opper: Sparse On-Line Gaussian Processes (2002). Engel, Mannor, Meir: The Kernel Recursive
    Least-Squares Algorithm (2004). Van Vaerenbergh, Lazaro-Gredilla, Santamaria: Kernel Recursive
    Least-Squares Tracker for Time-Varying Regression (2012), for forgetting.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.preprocessing import scale
    >>> from budgetron import SecondOrderRegressor
    >>> X, y = make_friedman1(2000, random_state=0)
    >>> model = SecondOrderRegressor(budget=100, gamma=0.1)
    >>> model.progressive_fit(scale(X), scale(y))
    RegressionTrace(2000 rounds, RMSE 0.3492, 100 supports)
    >>> prediction, deviation = model.predict(scale(X)[:1], return_std=True)
    """

    _parameter_constraints: ClassVar[Constraints] = (
        KernelRegressor._parameter_constraints
        | BUDGET
        | GAUSSIAN_PARAMETERS
        | {
            "threshold": [Interval(Real, 0.0, None, closed="left")],
            "linear": ["boolean"],
        }
    )
    _joint: ClassVar[bool] = True

    def __init__(
        self,
        budget: int = 300,
        threshold: float = 0.02,
        r: float = 0.1,
        linear: bool = True,
        *,
        prior: float = 1.0,
        forget: float = 1.0,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        KernelRegressor.__init__(self, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.budget = budget
        self.threshold = threshold
        self.r = r
        self.linear = linear
        self.prior = prior
        self.forget = forget

    def _rules(self, outputs: int, generators: Sequence[np.random.Generator]) -> list[Rule]:
        rule = SecondOrderRule(
            self.budget,
            self.threshold,
            self.r,
            self.linear,
            float(np.sqrt(self.gamma_)),
            "squared",
            float(self.prior),
            self.forget,
            outputs,
            regression=True,
        )
        return [rule]

    def _errors(self) -> Floats:
        errors: Floats = cast(SecondOrderRule, self._learners[0].rule).normalized_errors()
        return errors

    def round_variances(self, batch: Batch, supports: int) -> Floats:
        assert batch.sizes is not None
        assert batch.ledger is not None
        return round_variances(self._learners[0], batch.ledger[0], batch.sizes[0], supports)

    def _variances(self, X: Floats) -> Floats:
        return variances_at(self._learners[0], X)
