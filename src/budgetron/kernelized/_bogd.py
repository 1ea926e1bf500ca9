"""Bounded online gradient descent: BOGD and BOGD++ (Zhao, Wang, Wu, Jin, Hoi 2012)."""

from numbers import Integral, Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import ERROR, TAU, VARIANCE
from cython.cimports.budgetron._core.span import SpanRule
from cython.cimports.libc.math import fabs, sqrt
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.descent import descent_theorem
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import MOST_SUPPORTS, Constraints
from budgetron._base.theorems import DeclaredTheorem
from budgetron.kernels import KernelFunction, Normalized

LEDGER = ("tau", "variance", "error", "removed", "norm")


@cython.cclass
class BoundedGradientRule(SpanRule):
    """Gradient descent; over the budget, a random support is removed, so that the expected change is 0."""

    uniform: cython.bint
    eta: cython.double
    decay: cython.double  # lambda
    most: cython.double  # the largest |coefficient|
    lost: cython.double  # of the round: the norm of a change without a mean of 0
    variance: cython.double  # of its random change
    change: cython.double  # the norm of its random change

    def __init__(
        self,
        budget: int,
        uniform: bool,
        eta: float,
        decay: float,
        most: float,
        generator: np.random.Generator,
    ) -> None:
        SpanRule.__init__(self, budget, ledger=LEDGER, generator=generator)
        self.uniform = uniform
        self.eta = eta
        self.decay = decay
        self.most = most
        self.lost = self.variance = self.change = 0.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def has_loss(self) -> cython.bint:
        return 1.0 - self.y * self.margin > self.tie_share()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return self.has_loss() or (self.decay > 0.0 and self.size() > 0)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        self.note(TAU, 0.0)
        self.shrink(1.0 - self.eta * self.decay)  # (1 - eta lambda) f_t
        if self.has_loss():
            self.lost = self.variance = self.change = 0.0
            self.note(TAU, self.eta)
            if self.size() == self.budget:
                self.remove_at_random()
            self.add(self.eta * self.y)
            self.clip()
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def remove_at_random(self) -> cython.int:
        """Remove a support with probability p_i, and divide the other coefficients by 1 - p_i."""
        p: cython.Py_ssize_t
        chosen: cython.Py_ssize_t = 0
        keep: cython.double
        variance: cython.double = 0.0
        below: cython.double = 0.0
        u: cython.double
        if self.budget == 1:  # it is removed for certain, so that the mean of the change is not 0
            self.lost = fabs(self.weight(0)) * sqrt(self.own(0))
            self.note(ERROR, self.lost)
        self.set_probabilities()
        if self.uniform:
            chosen = self.draw(self.budget)
        else:
            u = self.draw_fraction()
            for p in range(self.budget):
                keep = self._direction[self.supports._order[p]]
                below += 1.0 - keep
                if keep < 1.0:
                    chosen = p
                if u < below:
                    break
        for p in range(self.budget):
            keep = self._direction[self.supports._order[p]]
            self._direction[self.supports._order[p]] = 0.0  # what is added to the coefficient
            if keep > 0.0:
                variance += (1.0 - keep) * self.weight(p) * self.weight(p) * self.own(p) / (keep * keep)
                if p != chosen:
                    self._direction[self.supports._order[p]] = self.weight(p) * (1.0 / keep - 1.0)
        self.note(VARIANCE, variance)
        if self.recording and self.budget > 1:
            self.variance = variance
            self._direction[self.supports._order[chosen]] = -self.weight(chosen)
            self.change = self.direction_norm()
            self._direction[self.supports._order[chosen]] = 0.0
        self.move(1.0, self._direction)
        self.remove(chosen)
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def set_probabilities(self) -> cython.void:
        """Leave 1 - p_i in `direction`: the probability that the support in the slot is kept.

        BOGD++ keeps a support with probability min(1, s |alpha_i| sqrt(k(x_i, x_i))), where s is such that
        one support is removed in expectation. Supports with probability 1 are found one after the other.
        """
        p: cython.Py_ssize_t
        slot: cython.Py_ssize_t
        free: cython.Py_ssize_t = 0  # supports that may be removed
        before: cython.Py_ssize_t = -1
        total: cython.double = 0.0
        s: cython.double
        self.clear_direction()
        for p in range(self.budget):
            self._direction[self.supports._order[p]] = -fabs(self.weight(p)) * sqrt(self.own(p))
            total -= self._direction[self.supports._order[p]]
        if self.uniform or not total > 0.0:
            for p in range(self.budget):
                self._direction[self.supports._order[p]] = 1.0 - 1.0 / self.budget
            return
        free = self.budget
        while free != before:  # negative: not yet known to be kept
            before = free
            s = (free - 1) / total
            for p in range(self.budget):
                slot = self.supports._order[p]
                if self._direction[slot] < 0.0 and -s * self._direction[slot] >= 1.0:
                    total += self._direction[slot]
                    self._direction[slot] = 1.0
                    free -= 1
            if total <= 0.0:
                break
        s = (free - 1) / total if total > 0.0 else 0.0
        for p in range(self.budget):
            slot = self.supports._order[p]
            if self._direction[slot] <= 0.0:
                self._direction[slot] = -s * self._direction[slot]
        return

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def clip(self) -> cython.int:
        """Limit the absolute value of each coefficient."""
        p: cython.Py_ssize_t
        weight: cython.double
        clipped: cython.bint = False
        self.clear_direction()
        for p in range(self.size()):
            weight = self.weight(p)
            if fabs(weight) > self.most:
                self._direction[self.supports._order[p]] = self.label(p) * self.most - weight
                clipped = True
        if clipped:
            if self.recording:
                error: cython.double = self.direction_norm()
                self.note(ERROR, self.lost + error)
                if self.change > 0.0:  # it depends on the random change: their product has no mean of 0
                    self.note(VARIANCE, self.variance + 2.0 * self.change * error)
            self.move(1.0, self._direction)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class BOGD(KernelClassifier):
    """Online gradient descent with a budget that removes a random support and corrects the others.

    The others are multiplied such that the expected hypothesis does not change. It is fast, and simpler than
    learners that project. Its results depend on the seed. Removal by chance changes the hypothesis much, so
    learners that project, such as `ProjectronPlusPlus`, make fewer mistakes for the memory.

    Parameters
    ----------
    budget : int, default=100
        The largest number of supports after a round; with more than two classes, per class.
    variant : {"uniform", "BOGD++"}, default="BOGD++"
        "uniform" removes each support with the same probability. "BOGD++" prefers supports with a small
        |coefficient| sqrt(k(x, x)).
    eta : float, default=0.2
        The step.
    decay : float, default=0.0
        lambda: in every round the hypothesis is multiplied by 1 - eta lambda, which must not be below 0.
    limit : float, default=10.0
        The largest |coefficient|, in multiples of `eta`; at least 1.
    random_state : int, RandomState or None, default=None
        Seed. The state of the generator is part of the model.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d), and O(B) per update. Memory: O(B d). Recording the ledger costs a
    kernel row per support and update.

    The loss is the hinge loss. The expected number of mistakes is at most that of
    `bounds.online_gradient_descent` with the variances of the random changes, which are at most
    (B / (B - 1))^2 `limit`^2 eta^2 R^2 for "uniform", and with the errors that the limit of the coefficients
    causes. It is evaluated on the ledger of a run. A round with a random change and an error adds twice the
    product of their norms to the variance. With a budget of 1 there are no others to correct: the removed
    term is an error.

    The paper's probabilities of BOGD++ can be negative where a coefficient is much larger than the others.
    Here such a support is never removed, and the probabilities of the others sum to 1. A hinge loss of at
    most 1e-9 (1e-4 for float32 rows) counts as 0. The new support is not removed.

    References
    ----------
    Zhao, Wang, Wu, Jin, Hoi: Fast Bounded Online Gradient Descent Algorithms for Scalable Kernel-Based Online
    Learning (2012).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import BOGD
    >>> X, y = load_digits(return_X_y=True)
    >>> model = BOGD(budget=50, gamma=0.001, random_state=0)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 223 mistakes, error rate 0.1241, 50 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = KernelClassifier._parameter_constraints | {
        "budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both")],
        "variant": [StrOptions({"uniform", "BOGD++"})],
        "eta": [Interval(Real, 0.0, None, closed="neither")],
        "decay": [Interval(Real, 0.0, None, closed="left")],
        "limit": [Interval(Real, 1.0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        budget: int = 100,
        variant: str = "BOGD++",
        *,
        eta: float = 0.2,
        decay: float = 0.0,
        limit: float = 10.0,
        random_state: int | np.random.RandomState | None = None,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.budget = budget
        self.variant = variant
        self.eta = eta
        self.decay = decay
        self.limit = limit
        self.random_state = random_state

    def _rule(self, generator: np.random.Generator) -> BoundedGradientRule:
        if self.eta * self.decay > 1:
            raise ValueError(
                f"eta * decay must be at most 1, or coefficients change sign; got {self.eta:.4g} * "
                f"{self.decay:.4g}. Use a smaller eta or decay"
            )
        most = self.limit * self.eta
        return BoundedGradientRule(
            self.budget, self.variant == "uniform", self.eta, self.decay, most, generator
        )

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        return [descent_theorem(lambda rounds: np.full(len(rounds), self.eta), self.decay)]
