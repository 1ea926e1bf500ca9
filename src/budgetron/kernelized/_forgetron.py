"""The Forgetron: self-tuned, basic and greedy (003 sections 5-7), and simplified (000 Algorithm 2)."""

from numbers import Integral, Real
from typing import Any, ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import GRAD_ERROR, PHI, PSI, Rule
from cython.cimports.libc.math import INFINITY, fabs
from cython.cimports.libc.math import sqrt as root
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import MOST_SUPPORTS
from budgetron.bounds import drift_limit, norm_limit
from budgetron.kernels import KernelFunction, Normalized

LEDGER = ("phi", "psi", "Q", "removed", "norm")
SHARE = cython.declare(cython.double, 15.0 / 32.0)  # of each mistake, what removals may spoil


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def damage(lam: cython.double, mu: cython.double) -> cython.double:
    """Psi(lambda, mu), (15)."""
    return lam * lam + 2.0 * lam - 2.0 * lam * mu


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def gentlest(sigma: cython.double, mu: cython.double, c: cython.double) -> cython.double:
    """Phi of (43): the largest in (0, 1] with Psi(sigma phi, mu phi) + c <= 0."""
    a: cython.double = sigma * sigma - 2.0 * sigma * mu  # (44)
    b: cython.double = 2.0 * sigma
    d: cython.double = b * b - 4.0 * a * c
    phi: cython.double = 1.0
    if a > 0.0 or (a < 0.0 and d > 0.0 and (-b - root(d)) / (2.0 * a) > 1.0):
        phi = -2.0 * c / (b + root(d))  # = (-b + sqrt d) / 2a, without cancellation near a = 0
    elif a == 0.0 and b > 0.0:
        phi = -c / b
    return phi if phi < 1.0 else 1.0


@cython.cclass
class ForgetronRule(Rule):
    """What 003's three variants share: the budget, and Q_t in `tally`."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def tuned(self) -> cython.double:
        """phi_t of (42) for the oldest support, given f'_t; M_t counts this round's mistake."""
        mu: cython.double = self.label(0) * self.value_at(0)
        return gentlest(fabs(self.weight(0)), mu, self.tally - SHARE * self.mistakes)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def forget(self, r: cython.Py_ssize_t, phi: cython.double) -> cython.int:
        """Steps (2) and (3): shrink by phi; if the budget is exceeded, remove the support at r."""
        psi: cython.double = 0.0
        self.shrink(phi)  # f''_t = phi f'_t
        if self.size() > self.budget:
            psi = damage(fabs(self.weight(r)), self.label(r) * self.value_at(r))  # (29)
            self.tally += psi
            self.remove(r)
        self.note(PHI, phi)
        self.note(PSI, psi)
        return 1


@cython.cclass
class BasicRule(ForgetronRule):
    """Figure 2."""

    most: cython.double
    bound: cython.double

    def __init__(self, budget: int) -> None:
        Rule.__init__(self, budget, ledger=LEDGER, tail=True)
        self.most = (budget + 1) ** (-1 / (2 * (budget + 1)))
        self.bound = norm_limit(budget)  # U, (26)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        phi: cython.double = self.most
        self.add(self.y)  # (1)
        if phi * self.norm() > self.bound:
            phi = self.bound / self.norm()
        return self.forget(0, phi)  # (25)


@cython.cclass
class SelfTunedRule(ForgetronRule):
    """Figure 3."""

    def __init__(self, budget: int) -> None:
        Rule.__init__(self, budget, ledger=LEDGER, tail=True)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        phi: cython.double = 1.0
        self.add(self.y)  # (1)
        if self.size() > self.budget:
            phi = self.tuned()
        return self.forget(0, phi)


@cython.cclass
class GreedyRule(ForgetronRule):
    """Section 7: a support that can be removed without shrinking goes first."""

    def __init__(self, budget: int) -> None:
        Rule.__init__(self, budget, ledger=LEDGER, gram=True)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        p: cython.Py_ssize_t
        r: cython.Py_ssize_t = 0
        psi: cython.double
        tolerance: cython.double
        least: cython.double = INFINITY
        phi: cython.double = 1.0
        self.add(self.y)
        if self.size() > self.budget:
            tolerance = self.tie_tolerance(1.0)  # Psi has the terms lambda^2 and 2 lambda, lambda <= 1
            for p in range(self.size() - 1):  # argmin over I_t; of equals, the oldest
                psi = damage(fabs(self.weight(p)), self.label(p) * self.value_at(p))
                if psi < least - tolerance:
                    least, r = psi, p
            if least > SHARE:  # (51) holds for none: (52), the oldest
                r, phi = 0, self.tuned()
        return self.forget(r, phi)


@cython.cclass
class SimplifiedRule(Rule):
    """000 Algorithm 2: a constant decay, the oldest removed, and a ball."""

    eta: cython.double
    keep: cython.double  # 1 - lambda eta
    radius: cython.double

    def __init__(self, budget: int, eta: float, decay: float, radius: float) -> None:
        Rule.__init__(self, budget, ledger=("grad_error", "removed", "norm"), tail=True)
        self.eta = eta
        self.keep = 1.0 - decay * eta
        self.radius = radius

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        self.note(GRAD_ERROR, 0.0)
        if self.size() == self.budget:
            self.note(GRAD_ERROR, self.weight(0) * self.keep / self.eta)  # c_i
            self.remove(0)  # the smallest weight, for all decay alike
        self.shrink(self.keep)  # - lambda eta w
        self.add(self.eta * self.y)
        if self.norm() > self.radius:  # pi_C
            self.shrink(self.radius / self.norm())
        return 1


@cython.annotation_typing(False)  # here they are for readers
class Forgetron(KernelClassifier):
    """The Perceptron that shrinks its hypothesis and forgets its oldest support, with a mistake bound.

    The budget learner to begin with: strict memory, nothing random, nothing to tune but
    the budget, and a proof. "self-tuned" is the one to use.

    Parameters
    ----------
    budget : int, default=100
        The most supports after a round; with more than two classes, of each class.
    variant : {"self-tuned", "basic", "greedy", "simplified"}, default="self-tuned"
        "self-tuned" shrinks as little as its proof allows. "basic" shrinks by a worst-case
        constant on each mistake, from the first. "greedy" first looks for a support that can go without
        any shrinking. "simplified" decays by a constant, with small steps, and follows a
        competitor that moves.
    eta : float, default=None
        Step of "simplified"; by default 1/32 (000 Theorem 2).
    decay : float, default=None
        Weight decay lambda of "simplified"; by default 1/U^2 with
        U^2 = B / (32 log2(8 B)) (000 Theorem 2). `decay` * `eta` must be below 1, which
        the defaults are from budget 6 on.
    radius : float, default=None
        Largest norm of "simplified"; by default U/2 (000 Theorem 2).
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Threads that share the kernel values of a batch: None is 1, -1 all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d), and O(B) on a mistake; memory O(B d). "greedy"
    keeps the Gram matrix of the supports: O(B^2) more.

    Mistakes of "self-tuned", "basic" and "greedy" are at most 2 ||g||^2 + 4 * (sum of hinge
    losses of g) for every g with ||g|| <= 1/4 sqrt((B + 1) / log(B + 1)), if k(x, x) <= 1 and
    B >= 83 (003 Theorems 2 and 3). For "simplified" with B >= 500 and its defaults, half the mistakes
    are at most (sum of hinge losses) + 16 U^2 + 48 U S for every sequence of competitors of
    norm at most U/2 that moves by S in all (000 Theorem 2).

    Where the papers slip, the mathematics decides: weights shrink by every phi since they
    were added; M_t counts the present mistake; "greedy" follows 003 (52), which is better than
    the published figures; a zero margin is a mistake with a whole step.

    References
    ----------
    Dekel, Shalev-Shwartz, Singer: The Forgetron: a kernel-based Perceptron on a budget (2008).
    Sutskever: A simpler unified analysis of Budget Perceptrons (2009), Algorithm 2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import Forgetron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = Forgetron(budget=50, gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 114 mistakes, error rate 0.0634, 50 supports)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = KernelClassifier._parameter_constraints | {
        "budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both")],
        "variant": [StrOptions({"self-tuned", "basic", "greedy", "simplified"})],
        "eta": [Interval(Real, 0.0, None, closed="neither"), None],
        "decay": [Interval(Real, 0.0, None, closed="left"), None],
        "radius": [Interval(Real, 0.0, None, closed="neither"), None],
    }

    def __init__(
        self,
        budget: int = 100,
        variant: str = "self-tuned",
        *,
        eta: float | None = None,
        decay: float | None = None,
        radius: float | None = None,
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
        self.radius = radius

    def _rule(self, generator: np.random.Generator) -> Rule:
        if self.variant == "self-tuned":
            return SelfTunedRule(self.budget)
        if self.variant == "basic":
            return BasicRule(self.budget)
        if self.variant == "greedy":
            return GreedyRule(self.budget)
        square = drift_limit(self.budget) ** 2
        eta = 1 / 32 if self.eta is None else self.eta
        decay = 1 / square if self.decay is None else self.decay
        radius = np.sqrt(square) / 2 if self.radius is None else self.radius
        if decay * eta >= 1:
            raise ValueError(
                f"decay * eta must be below 1, or old supports change sides; got {decay:.4g} * {eta:.4g} "
                f"at budget {self.budget}. Give a smaller decay or eta, or a larger budget"
            )
        return SimplifiedRule(self.budget, eta, decay, radius)
