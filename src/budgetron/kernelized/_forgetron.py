"""The Forgetron: self-tuned, basic and greedy (Forgetron paper), and simplified (Sutskever's paper)."""

from numbers import Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.removal import allowed_damage, damage, largest_phi
from cython.cimports.budgetron._core.rule import GRAD_ERROR, PHI, PSI, STEP_NORM, Rule
from cython.cimports.libc.math import INFINITY, fabs
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron import bounds
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import BUDGET, Constraints
from budgetron._base.theorems import DeclaredTheorem, FunctionTheorem, Run
from budgetron.bounds import drift_limit, norm_limit
from budgetron.kernels import KernelFunction, Normalized

LEDGER = ("phi", "psi", "Q", "removed", "step_norm", "norm")


@cython.cclass
class ForgetronRule(Rule):
    """The common part of self-tuned, basic and greedy: shrink, remove, and count the damage."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def tuned(self) -> cython.double:
        """Return phi_t of (42) for the oldest support, given f'_t; M_t includes the mistake of this round."""
        mu: cython.double = self.label(0) * self.value_at(0)
        return largest_phi(fabs(self.weight(0)), mu, self.damage_sum - allowed_damage(self.mistakes))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def forget(self, r: cython.Py_ssize_t, phi: cython.double) -> cython.int:
        """Do steps (2) and (3): shrink by phi; if the budget is exceeded, remove the support at r."""
        psi: cython.double = 0.0
        self.note(STEP_NORM, self.norm())  # ||f'_t||
        self.shrink(phi)  # f''_t = phi f'_t
        if self.size() > self.budget:
            psi = damage(fabs(self.weight(r)), self.label(r) * self.value_at(r))  # (29)
            self.damage_sum += psi
            self.remove(r)
        self.note(PHI, phi)
        self.note(PSI, psi)
        return 1


@cython.cclass
class BasicRule(ForgetronRule):
    """The basic Forgetron (figure 2)."""

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
    """The self-tuned Forgetron (figure 3)."""

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
    """The greedy Forgetron (section 7): if a support can be removed without shrinking, remove it.

    By eq. 51 the damage of one removal must be at most 15/32. The cumulative test compares the sum of all
    damages with 15/32 of the mistakes, as eq. 41 does.
    """

    cumulative: cython.bint

    def __init__(self, budget: int, cumulative: bool) -> None:
        Rule.__init__(self, budget, ledger=LEDGER, gram=True)
        self.cumulative = cumulative

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        p: cython.Py_ssize_t
        r: cython.Py_ssize_t = 0
        psi: cython.double
        tolerance: cython.double
        least: cython.double = INFINITY
        threshold: cython.double = INFINITY
        most: cython.double = allowed_damage(1)
        phi: cython.double = 1.0
        self.add(self.y)
        if self.size() > self.budget:
            tolerance = self.tie_tolerance(1.0)  # Psi has the terms lambda^2 and 2 lambda, lambda <= 1
            for p in range(self.size() - 1):  # argmin over I_t; of ties, the oldest
                psi = damage(fabs(self.weight(p)), self.label(p) * self.value_at(p))
                if psi < threshold:
                    least, r, threshold = psi, p, psi - tolerance
            if self.cumulative:
                most = allowed_damage(self.mistakes) - self.damage_sum
            if least > most:  # no support can be removed without shrinking: remove the oldest, (52)
                r, phi = 0, self.tuned()
        return self.forget(r, phi)


@cython.cclass
class SimplifiedRule(Rule):
    """The simplified Forgetron (Sutskever's Algorithm 2): decay, remove the oldest, project onto a ball."""

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
            self.remove(0)  # the smallest weight, because all decay by the same factor
        self.shrink(self.keep)  # - lambda eta w
        self.add(self.eta * self.y)
        if self.norm() > self.radius:  # pi_C
            self.shrink(self.radius / self.norm())
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class Forgetron(KernelClassifier):
    """A Perceptron with a budget that shrinks before it removes its oldest support, with a mistake bound.

    Start with this learner if you need a budget and a guarantee: its memory is bounded, it is deterministic,
    and the budget is its only parameter to choose. Use the default variant, "self-tuned". If you need the
    fewest mistakes for the memory, and no guarantee, use `SecondOrderProjectron` or `BudgetClassifier`.

    Parameters
    ----------
    budget : int, default=100
        The largest number of supports after a round; with more than two classes, per class.
    variant : {"self-tuned", "basic", "greedy", "greedy-cumulative", "simplified"}, default="self-tuned"
        "self-tuned" shrinks as little as its proof allows. "basic" shrinks by a worst-case constant on every
        mistake. "greedy" removes a support that needs no shrinking, if there is one. "greedy-cumulative" does
        the same, but allows a larger damage after removals with a small one; it agrees better with the
        published tables, and makes more mistakes on noisy labels. "simplified" takes small steps and decays
        by a constant; its bound allows competitors that drift.
    eta : float, default=None
        Step of "simplified"; by default 1/32 (Sutskever's paper, Theorem 2).
    decay : float, default=None
        Weight decay lambda of "simplified"; by default 1/U^2 with U^2 = B / (32 log2(8 B)) (Sutskever's
        paper, Theorem 2). `decay` * `eta` must be below 1; the defaults satisfy this if the budget is at
        least 6.
    radius : float, default=None
        Largest norm of "simplified"; by default U/2 (Sutskever's paper, Theorem 2).
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d), and O(B) on a mistake. Memory: O(B d). The greedy variants store
    the Gram matrix of the supports: O(B^2) more.

    The number of mistakes of all variants but "simplified" is at most 2 ||g||^2 + 4 * (sum of hinge losses of
    g) for every g with ||g|| <= 1/4 sqrt((B + 1) / log(B + 1)), if k(x, x) <= 1 and B >= 83 (Forgetron paper,
    Theorems 2 and 3). For "simplified" with B >= 500 and its defaults, half the number of
    mistakes is at most (sum of hinge losses) + 16 U^2 + 48 U S for every sequence of competitors of norm at
    most U/2 whose total drift is S (Sutskever's paper, Theorem 2). `bounds.simplified_forgetron_general` is
    the bound for other values of `eta`, `decay` and `radius`, and `bounds.simplified_forgetron_ledger` the
    bound of his Lemma 1 for the quantities of a run.

    The greedy variants remove the support with the smallest damage psi. Values of psi that differ by at most
    1e-9 (1e-4 for float32 rows) times the largest term of f, or times 1 if that is larger, are ties, and the
    oldest support is removed, so that rounding never decides.

    Where the papers contain a slip, the mathematics decides. A weight shrinks by every phi since it was
    added. M_t includes the mistake of round t. "greedy" follows eq. 52 of the Forgetron paper, which gives
    fewer mistakes than the published tables. "greedy-cumulative" tests Psi_j + Q_t <= 15/32 M_t instead of
    Psi_j <= 15/32. Theorem 3 covers it: the sum of all damages is at most 15/32 of the mistakes, and whenever
    it shrinks, it removes the oldest support. A margin of 0 is a mistake, with a full step.

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

    _parameter_constraints: ClassVar[Constraints] = (
        KernelClassifier._parameter_constraints
        | BUDGET
        | {
            "variant": [StrOptions({"self-tuned", "basic", "greedy", "greedy-cumulative", "simplified"})],
            "eta": [Interval(Real, 0.0, None, closed="neither"), None],
            "decay": [Interval(Real, 0.0, None, closed="left"), None],
            "radius": [Interval(Real, 0.0, None, closed="neither"), None],
        }
    )

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
        if self.variant in ("greedy", "greedy-cumulative"):
            return GreedyRule(self.budget, self.variant == "greedy-cumulative")
        eta, decay, radius = self._constants()
        if decay * eta >= 1:
            raise ValueError(
                f"decay * eta must be below 1, or coefficients change sign; got {decay:.4g} * {eta:.4g} at "
                f"budget {self.budget}. Use a smaller decay or eta, or a larger budget"
            )
        return SimplifiedRule(self.budget, eta, decay, radius)

    def _constants(self) -> tuple[float, float, float]:
        """Return the step, the weight decay and the largest norm of "simplified"."""
        limit = drift_limit(self.budget)  # U, (12) of Sutskever's paper
        eta = 1 / 32 if self.eta is None else self.eta
        decay = 1 / limit**2 if self.decay is None else self.decay
        return eta, decay, limit / 2 if self.radius is None else self.radius

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        if self.variant == "simplified":
            return self._drifting_theorems()
        return [
            FunctionTheorem("forgetron", self._bound, norm_weight=0.5, norm_limit=norm_limit(self.budget)),
            FunctionTheorem("forgetron_ledger", ledger_bound),
        ]

    def _drifting_theorems(self) -> list[DeclaredTheorem]:
        # Theorem 2 is stated for the default constants, the others for all.
        chosen = {
            "simplified_forgetron": self._drifting_bound,
            "simplified_forgetron_general": self._general_bound,
            "simplified_forgetron_ledger": self._lemma_bound,
        }
        if (self.eta, self.decay, self.radius) != (None, None, None):
            del chosen["simplified_forgetron"]
        limit = self._constants()[2]
        return [
            FunctionTheorem(name, bound, norm_weight=0.0, norm_limit=limit, drifts=True)
            for name, bound in chosen.items()
        ]

    def _bound(self, run: Run, check: bounds.Check) -> float:
        return bounds.forgetron(run.norm, run.losses, self.budget, run.radius, check=check)

    def _drifting_bound(self, run: Run, check: bounds.Check) -> float:
        return bounds.simplified_forgetron(
            run.norm, run.losses, self.budget, run.shift, run.radius, check=check
        )

    def _general_bound(self, run: Run, check: bounds.Check) -> float:
        return bounds.simplified_forgetron_general(
            run.norm, run.losses, self.budget, *self._constants(), run.shift, run.radius, check=check
        )

    def _lemma_bound(self, run: Run, check: bounds.Check) -> float:
        eta, decay, radius = self._constants()
        on, own = run.trace.mistakes, np.sqrt(run.kernel.diagonal(run.X))
        removed = run.ledger("removed")[on].astype(np.intp)
        norms = np.append(0.0, run.ledger("norm"))[: len(on)][on]  # ||w_i||, before the update
        errors = np.where(removed >= 0, np.abs(run.ledger("grad_error")[on]) * own[removed], 0.0)  # ||E_i||
        gradients = own[on] + decay * norms + errors  # at least the norms of -y phi(x) + lambda w + E
        margins = run.y[on] * run.trace.margins[on]
        return bounds.simplified_forgetron_ledger(
            run.norm,
            float(np.maximum(0.0, 1.0 - run.margins[on]).sum()),
            int(on.sum()),
            eta,
            decay,
            radius,
            float(gradients.max(initial=0.0)),
            float(errors.sum()),
            float((decay * norms**2 / 2 - margins).sum()),
            run.shift,
            check=check,
        )


def ledger_bound(run: Run, check: bounds.Check) -> float:
    """Return the bound of Lemma 6, from the shrinking and the damage that the ledger records."""
    on = run.trace.mistakes
    phi, before = run.ledger("phi")[on], run.ledger("step_norm")[on]
    shrinking = bounds.log_shrinking(phi, phi * before, run.norm)
    return bounds.forgetron_ledger(
        run.norm, run.losses, shrinking, run.ledger_sum("psi"), run.radius, check=check
    )
