"""NORMA for regression: gradient descent on the regularized loss in the space of the kernel."""

from numbers import Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import TAU, Rule
from cython.cimports.libc.math import fabs, sqrt
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.kernel_regressor import KernelRegressor
from budgetron._base.parameters import BUDGET, Constraints
from budgetron.kernels import KernelFunction, Normalized

LOSSES = ("squared", "epsilon-insensitive", "huber")
SQUARED = cython.declare(cython.int, 0)
EPSILON_INSENSITIVE = cython.declare(cython.int, 1)


@cython.cclass
class NormaRule(Rule):
    """In each round: f = (1 - eta lambda) f - eta l'(f(x)) k(x, .); then keep at most `budget` supports."""

    eta: cython.double
    regularization: cython.double
    loss: cython.int
    epsilon: cython.double
    decreasing: cython.bint

    def __init__(
        self, budget: int, eta: float, regularization: float, loss: str, epsilon: float, decreasing: bool
    ) -> None:
        Rule.__init__(self, budget, ledger=("tau", "removed", "norm"))
        self.eta = eta
        self.regularization = regularization
        self.loss = LOSSES.index(loss)
        self.epsilon = epsilon
        self.decreasing = decreasing

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return self.importance > 0.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        eta: cython.double = self.eta
        step: cython.double = self.descent()
        if self.decreasing:
            eta /= sqrt(self.rounds + 1.0)
        self.shrink(1.0 - eta * self.regularization)
        self.note(TAU, eta * self.importance * fabs(step))
        if step != 0.0:
            self.add(eta * self.importance * step)
            if self.size() > self.budget:
                self.remove(0)
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def descent(self) -> cython.double:
        """Return -l'(f(x)), the negative derivative of the loss."""
        residual: cython.double = self.y - self.margin
        sign: cython.double = 1.0 if residual > 0.0 else -1.0
        if self.loss == SQUARED:
            return residual
        if self.loss == EPSILON_INSENSITIVE:
            return sign if fabs(residual) > self.epsilon else 0.0
        return sign if fabs(residual) > self.epsilon else residual / self.epsilon  # Huber's loss


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class NormaRegressor(KernelRegressor):
    """Kernel regression by gradient descent (NORMA): simple, and with robust losses.

    Use it as a baseline, or with "huber" for targets with outliers. `SecondOrderRegressor` is more accurate.

    Parameters
    ----------
    budget : int, default=300
        Largest number of supports. With more, the oldest one is removed; its coefficient has decayed by then.
    eta : float, default=0.2
        Step size.
    regularization : float, default=0.001
        lambda: each round multiplies f by 1 - eta lambda. eta times this must be below 1.
    loss : {"squared", "epsilon-insensitive", "huber"}, default="squared"
        With the error e = y - f(x): "squared" is e^2 / 2; "epsilon-insensitive" is max(0, |e| - epsilon);
        "huber" is e^2 / (2 epsilon) up to epsilon, and |e| - epsilon / 2 above.
    epsilon : float, default=0.1
        See `loss`; no effect for "squared".
    rate : {"constant", "decreasing"}, default="constant"
        "decreasing" divides eta by the root of the number of rounds: for streams that do not change.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Threads that compute the kernel values of a batch. None means 1, -1 all cores.

    Notes
    -----
    Each round sets f = (1 - eta lambda) f - eta l'(f(x)) k(x, .). A row of weight b has b times the loss. The
    removed support has a coefficient of at most eta (1 - eta lambda)^budget times the derivative of its loss.
    There is no constant: center the targets. No bound is evaluated.

    Cost per round: one kernel row, O(m d) with m supports. Memory: O(m d).

    References
    ----------
    Kivinen, Smola, Williamson: Online Learning with Kernels (2004).

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.preprocessing import scale
    >>> from budgetron import NormaRegressor
    >>> X, y = make_friedman1(2000, random_state=0)
    >>> NormaRegressor(gamma=0.05).progressive_fit(scale(X), scale(y))
    RegressionTrace(2000 rounds, RMSE 0.5924, 300 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = (
        KernelRegressor._parameter_constraints
        | BUDGET
        | {
            "eta": [Interval(Real, 0.0, None, closed="neither")],
            "regularization": [Interval(Real, 0.0, None, closed="left")],
            "loss": [StrOptions(set(LOSSES))],
            "epsilon": [Interval(Real, 0.0, None, closed="neither")],
            "rate": [StrOptions({"constant", "decreasing"})],
        }
    )

    def __init__(
        self,
        budget: int = 300,
        eta: float = 0.2,
        regularization: float = 0.001,
        loss: str = "squared",
        epsilon: float = 0.1,
        *,
        rate: str = "constant",
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        KernelRegressor.__init__(self, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.budget = budget
        self.eta = eta
        self.regularization = regularization
        self.loss = loss
        self.epsilon = epsilon
        self.rate = rate

    def _validate_params(self) -> None:
        super()._validate_params()
        if not self.eta * self.regularization < 1.0:
            raise ValueError(
                "eta times regularization must be below 1, because each round multiplies f by 1 minus this; "
                f"got {self.eta * self.regularization:g}"
            )

    def _rule(self, generator: np.random.Generator) -> NormaRule:
        return NormaRule(
            self.budget,
            self.eta,
            self.regularization,
            self.loss,
            self.epsilon,
            self.rate == "decreasing",
        )
