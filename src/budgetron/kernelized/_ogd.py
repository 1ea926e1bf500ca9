"""Online gradient descent with kernels: NORMA (Kivinen, Smola, Williamson 2004)."""

from functools import partial
from numbers import Integral
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.descent import slope_of, step_of
from cython.cimports.budgetron._core.rule import ERROR, TAU, Rule
from cython.cimports.libc.math import fabs, sqrt
from sklearn.utils._param_validation import Interval

from budgetron._base.descent import DESCENT, check_decay, descent_theorem, places_of, steps_of
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import MOST_SUPPORTS, Constraints
from budgetron._base.theorems import DeclaredTheorem
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class GradientRule(Rule):
    """In every round, shrink and take a step along the gradient of the loss; over the budget, truncate."""

    loss: cython.int
    schedule: cython.int
    eta: cython.double
    decay: cython.double  # lambda

    def __init__(self, budget: int, loss: int, schedule: int, eta: float, decay: float) -> None:
        ledger = ("tau", "error", "removed", "norm") if budget else ("tau", "norm")
        Rule.__init__(self, budget, ledger=ledger, tail=budget > 0)
        self.loss = loss
        self.schedule = schedule
        self.eta = eta
        self.decay = decay

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def slope(self) -> cython.double:
        """Return -y l'(f(x)), with the derivative l' of the loss; below 0 if f(x) is beyond y."""
        return slope_of(self.loss, self.y * self.margin, self.tie_share())

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return self.slope() != 0.0 or (self.decay > 0.0 and self.size() > 0)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        eta: cython.double = step_of(self.schedule, self.eta, self.rounds + 1.0)  # t counts all rounds
        c: cython.double = eta * self.slope()
        self.note(TAU, fabs(c))
        self.shrink(1.0 - eta * self.decay)  # (1 - eta_t lambda) f_t
        if c != 0.0:
            self.add(c * self.y)  # - eta_t l'(f_t(x_t), y_t) k(x_t, .)
            if self.budget > 0 and self.size() > self.budget:  # truncation
                self.note(ERROR, fabs(self.weight(0)) * sqrt(self.own(0)))
                self.remove(0)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class OGD(KernelClassifier):
    """Online gradient descent on the regularized loss (NORMA), with an optional budget by truncation.

    It is the plain baseline of kernel learning on streams. Without a budget, memory and time per round grow
    without limit. With a budget the oldest support is removed, which costs little if `decay` has made its
    coefficient small.

    Parameters
    ----------
    eta : float, default=0.2
        The step, or its constant; see `schedule`.
    decay : float, default=0.0
        lambda: in every round the hypothesis is multiplied by 1 - eta_t lambda, which must not be below 0.
    loss : {"hinge", "logistic", "squared"}, default="hinge"
        max(0, 1 - y f(x)), log(1 + exp(-y f(x))), or (y - f(x))^2 / 2. Only "hinge" stores fewer rows than
        there are rounds: the others store each row.
    schedule : {"constant", "sqrt", "inverse"}, default="constant"
        The step of round t, counted from 1: eta, eta / sqrt(t), or eta / t. "inverse" with eta = 1 / decay
        has the steps of Pegasos.
    budget : int, default=None
        The largest number of supports; with more than two classes, per class. The oldest one is removed. None
        means no limit.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(m d) for m supports. Memory: O(m d).

    The number of mistakes is at most that of `bounds.online_gradient_descent`, which compares with the losses
    of any function g and is evaluated on the ledger of a run. With the hinge loss, a constant step, no decay
    and no budget it is (sum of hinge losses of g) + ||g||^2 / (2 eta) + eta R^2 / 2 * (number of updates). A
    removed support adds its coefficient times sqrt(k(x, x)) as an error. With a constant step and the hinge
    loss this error is at most eta R (1 - eta lambda)^B after B updates, the paper's bound for truncation.

    The hypothesis has no offset. A hinge loss of at most 1e-9 (1e-4 for float32 rows) counts as 0. The paper
    truncates terms that are older than a number of rounds; here the budget counts supports, because rounds
    without a loss add none.

    References
    ----------
    Kivinen, Smola, Williamson: Online Learning with Kernels (2004).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import OGD
    >>> X, y = load_digits(return_X_y=True)
    >>> model = OGD(gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 91 mistakes, error rate 0.0506, 660 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = (
        KernelClassifier._parameter_constraints
        | DESCENT
        | {"budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both"), None]}
    )

    def __init__(
        self,
        eta: float = 0.2,
        decay: float = 0.0,
        loss: str = "hinge",
        *,
        schedule: str = "constant",
        budget: int | None = None,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.eta = eta
        self.decay = decay
        self.loss = loss
        self.schedule = schedule
        self.budget = budget

    def _rule(self, generator: np.random.Generator) -> GradientRule:
        check_decay(self.eta, self.decay)
        return GradientRule(self.budget or 0, *places_of(self.loss, self.schedule), self.eta, self.decay)

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        return [descent_theorem(partial(steps_of, self.eta, self.schedule), self.decay, self.loss)]
