"""Passive-aggressive learning on a budget: simple, projecting, nearest neighbour (Wang, Vucetic 2010)."""

from numbers import Integral, Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import ERROR, TAU
from cython.cimports.budgetron._core.span import SpanRule
from cython.cimports.libc.math import INFINITY, sqrt
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import MOST_SUPPORTS, Constraints
from budgetron.kernels import KernelFunction, Normalized

LEDGER = ("tau", "error", "removed", "norm")

# Two examples count as dependent if the squared sine of their angle is below this.
LEAST_SINE = cython.declare(cython.double, 1e-2)


@cython.cclass
class BudgetPARule(SpanRule):
    """A PA-I step; over the budget, replace the support r whose term is nearest to its projection.

    The paper minimises ||f - f_t||^2 / 2 + C * loss over all f = f_t - alpha_r k_r + sum_{i in V} beta_i k_i,
    with t in V. The solution is the PA-I step, with alpha_r P_V k_r, the projection onto the span of V, in
    place of alpha_r k_r. So r is the support with the smallest alpha_r^2 ||k_r - P_V k_r||^2.
    """

    most: cython.double  # C

    def __init__(self, budget: int, most: float, gram: bool = False, inverse: bool = False) -> None:
        SpanRule.__init__(self, budget, ledger=LEDGER, divides=True, gram=gram, inverse=inverse)
        self.most = most

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return 1.0 - self.y * self.margin > self.tie_share()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        tau: cython.double = 0.0  # a row that the kernel maps to 0 cannot gain a margin
        if self.kxx > 0.0:
            tau = min((1.0 - self.y * self.margin) / self.kxx, self.most)
        self.note(TAU, tau)
        if tau > 0.0:
            if self.size() < self.budget:
                self.add_first(tau * self.y)
            else:
                self.replace(tau * self.y)
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def add_first(self, c: cython.double) -> cython.int:
        """Take a step while the budget is not full."""
        return self.add(c)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def replace(self, c: cython.double) -> cython.int:
        """BPA-S, V = {t}: take the step c, and replace a support by its projection onto k(x_t, .)."""
        r: cython.Py_ssize_t = self.cheapest()
        share: cython.double = self.k[self.supports._order[r]] / self.kxx
        self.note(ERROR, sqrt(max(self.cost(r), 0.0)))
        self.add(c + self.weight(r) * share)
        self.remove(r)
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def cheapest(self) -> cython.Py_ssize_t:
        """Return the support whose replacement changes f least; of ties, the oldest."""
        p: cython.Py_ssize_t
        r: cython.Py_ssize_t = 0
        cost: cython.double
        largest: cython.double = 0.0
        threshold: cython.double = INFINITY
        for p in range(self.budget):
            largest = max(largest, self.weight(p) * self.weight(p) * self.own(p))
        for p in range(self.budget):
            cost = self.cost(p)
            if cost < threshold:
                r, threshold = p, cost - self.tie_share() * largest
        return r

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def cost(self, p: cython.Py_ssize_t) -> cython.double:
        """Return alpha_p^2 ||k_p - P_V k_p||^2."""
        k: cython.double = self.k[self.supports._order[p]]
        return self.weight(p) * self.weight(p) * (self.own(p) - k * k / self.kxx)


@cython.cclass
class NearestRule(BudgetPARule):
    """BPA-NN: V consists of the new example and the nearest neighbour of the removed support."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def neighbour(self, p: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the support nearest to that at p in the kernel's space, of ties the oldest; -1 if none."""
        i: cython.Py_ssize_t
        nearest: cython.Py_ssize_t = -1
        distance: cython.double
        threshold: cython.double = INFINITY
        row: cython.Py_ssize_t = self.supports._order[p] * self.supports.capacity
        for i in range(self.budget):
            if i != p:
                distance = self.own(p) + self.own(i) - 2.0 * self._gram[row + self.supports._order[i]]
                if distance < threshold:
                    nearest, threshold = i, distance - self.tie_share() * max(self.own(p), self.own(i))
        return nearest

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def shares(
        self, p: cython.Py_ssize_t, n: cython.Py_ssize_t, own: cython.p_double, other: cython.p_double
    ) -> cython.double:
        """Compute the coefficients of P_V k_p over k_t and k_n; return ||P_V k_p||^2."""
        slot: cython.Py_ssize_t = self.supports._order[p]
        kpt: cython.double = self.k[slot]
        knt: cython.double
        kpn: cython.double
        knn: cython.double
        det: cython.double
        own[0] = kpt / self.kxx
        other[0] = 0.0
        if n < 0:
            return own[0] * kpt
        knt = self.k[self.supports._order[n]]
        kpn = self._gram[slot * self.supports.capacity + self.supports._order[n]]
        knn = self.own(n)
        det = self.kxx * knn - knt * knt
        if det <= LEAST_SINE * self.kxx * knn:
            return own[0] * kpt
        own[0] = (kpt * knn - kpn * knt) / det
        other[0] = (kpn * self.kxx - kpt * knt) / det
        return own[0] * kpt + other[0] * kpn

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def cost(self, p: cython.Py_ssize_t) -> cython.double:
        own: cython.double = 0.0
        other: cython.double = 0.0
        square: cython.double = self.shares(p, self.neighbour(p), cython.address(own), cython.address(other))
        return self.weight(p) * self.weight(p) * (self.own(p) - square)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def replace(self, c: cython.double) -> cython.int:
        own: cython.double = 0.0
        other: cython.double = 0.0
        r: cython.Py_ssize_t = self.cheapest()
        n: cython.Py_ssize_t = self.neighbour(r)
        alpha: cython.double = self.weight(r)
        self.note(ERROR, sqrt(max(self.cost(r), 0.0)))
        self.shares(r, n, cython.address(own), cython.address(other))
        self.clear_direction()
        if n >= 0:
            self._direction[self.supports._order[n]] = other
        self.move(alpha, self._direction)
        self.add(c + alpha * own)
        self.remove(r)
        return 1


@cython.cclass
class ProjectingRule(BudgetPARule):
    """BPA-P: V consists of the new example and all other supports."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def add_first(self, c: cython.double) -> cython.int:
        self.store_row(c)
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def replace(self, c: cython.double) -> cython.int:
        self.note(ERROR, 0.0)
        if self.store_row(c):
            self.note(ERROR, self.project_and_remove(self.cheapest()))
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def cost(self, p: cython.Py_ssize_t) -> cython.double:
        return self.weight(p) * self.weight(p) * self.distance2(p)


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class BudgetPA(KernelClassifier):
    """Passive-aggressive learning (PA-I) that replaces a support when the budget is full.

    It finds the support whose replacement changes the hypothesis least. Its variants differ in what replaces
    it. "projecting" makes the fewest mistakes for the memory, and "simple" takes the least time.

    Parameters
    ----------
    budget : int, default=100
        The largest number of supports after a round; with more than two classes, per class.
    variant : {"simple", "projecting", "nearest"}, default="simple"
        The removed support is replaced by its projection onto the new example ("simple", BPA-S), the new
        example and all other supports ("projecting", BPA-P), or the new example and the nearest other support
        ("nearest", BPA-NN).
    C : float, default=1.0
        The largest step; use smaller values for noisy labels.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d). An update costs O(B) for "simple" and O(B^2) for the others.
    Memory: O(B d), and O(B^2) for the others, which store the Gram matrix and, for "projecting", its inverse.
    No mistake bound is known.

    The paper minimises over the hypothesis and the removed support at once. The minimum is the step of PA-I,
    together with the projection of the removed term; the support with the smallest distance from its
    projection, times its coefficient, is removed. The ledger's `error` is this distance. The new example is
    not removed. Values that differ by at most 1e-9 (1e-4 for float32 rows) of the largest squared term are
    ties, and the oldest support is removed. A loss of at most 1e-9 (1e-4) counts as 0.

    A row whose squared distance from the span of the supports is at most 1e-4 k(x, x) (1e-3 for float32 rows)
    is not stored by "projecting": its step is projected. "nearest" does not use a neighbour if the squared
    sine of its angle to the new example is at most 0.01.

    References
    ----------
    Wang, Vucetic: Online Passive-Aggressive Algorithms on a Budget (2010).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import BudgetPA
    >>> X, y = load_digits(return_X_y=True)
    >>> model = BudgetPA(budget=50, variant="projecting", gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 58 mistakes, error rate 0.0323, 50 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = KernelClassifier._parameter_constraints | {
        "budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both")],
        "variant": [StrOptions({"simple", "projecting", "nearest"})],
        "C": [Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(
        self,
        budget: int = 100,
        variant: str = "simple",
        C: float = 1.0,
        *,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.budget = budget
        self.variant = variant
        self.C = C

    def _rule(self, generator: np.random.Generator) -> BudgetPARule:
        if self.variant == "projecting":
            return ProjectingRule(self.budget, self.C, inverse=True)
        if self.variant == "nearest":
            return NearestRule(self.budget, self.C, gram=True)
        return BudgetPARule(self.budget, self.C)
