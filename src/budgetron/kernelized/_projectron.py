"""The Projectron and Projectron++ (Projectron paper, sections 3 and 4)."""

from collections.abc import Callable
from numbers import Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import BETA, DELTA, TAU, THRESHOLD, Rule
from cython.cimports.libc.math import sqrt
from sklearn.utils._param_validation import Interval

from budgetron import bounds
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import OPTIONAL_BUDGET, Constraints
from budgetron._base.theorems import DeclaredTheorem, FunctionTheorem, Run
from budgetron.kernels import KernelFunction, Normalized

# A squared distance from the span below this share of k(x, x) is rounding, and counts as 0.
DOUBLE_TOLERANCE = cython.declare(cython.double, 1e-12)
SINGLE_TOLERANCE = cython.declare(cython.double, 1e-5)


@cython.cclass
class ProjectronRule(Rule):
    """On a mistake, project the example onto the span of the supports if it is near the span."""

    eta: cython.double  # fixed threshold, or negative for eq. (13)
    bound: cython.double  # U
    square: cython.double  # ||P k(x, .)||^2 of the current row
    delta2: cython.double  # ||delta||^2

    def __init__(self, budget: int, eta: float, bound: float, ledger: tuple[str, ...]) -> None:
        Rule.__init__(self, budget, ledger=ledger, projection=True)
        self.eta = eta
        self.bound = bound

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def measure(self) -> cython.int:
        """Compute ||P k||^2 and ||delta||^2, (9); a distance that may be rounding counts as 0."""
        tolerance: cython.double = SINGLE_TOLERANCE if self.supports.single else DOUBLE_TOLERANCE
        self.square = self.projection.project(self.k)
        self.delta2 = self.kxx - self.square
        if self.delta2 < tolerance * self.kxx:
            self.delta2 = 0.0
        self.note(DELTA, sqrt(self.delta2))
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def mistake(self) -> cython.int:
        """Do the update of Algorithm 2 on a mistake."""
        threshold: cython.double = self.eta
        loss: cython.double = 1.0 - self.y * self.margin
        if threshold < 0.0:
            threshold = (2.0 * loss - self.square - 0.5) / (2.0 * self.bound)  # (13)
        self.note(THRESHOLD, threshold)
        full: cython.bint = self.budget > 0 and self.size() == self.budget
        if full or self.delta2 == 0.0 or sqrt(self.delta2) <= threshold:
            self.shift(self.y, self.projection.coefficients(), self.square)  # f''_t, (10)
        else:
            self.add(self.y)  # f'_t
            self.projection.append(self.delta2, self.k, self.supports)
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        self.measure()
        return self.mistake()


@cython.cclass
class ProjectronPlusPlusRule(ProjectronRule):
    """The Projectron that also updates on margin errors, by projection only."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return self.y * self.margin < 1.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def step(self, square: cython.double) -> cython.double:
        """Return tau, (17)."""
        loss: cython.double = 1.0 - self.y * self.margin
        return loss / square if loss < square else 1.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def gain(self, square: cython.double, delta2: cython.double) -> cython.double:
        """Return beta, (16)."""
        loss: cython.double = 1.0 - self.y * self.margin
        tau: cython.double = self.step(square)
        return tau * (2.0 * loss - tau * square - 2.0 * self.bound * sqrt(delta2))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def update_is_likely(self, square: cython.double) -> cython.bint:
        delta2: cython.double = self.kxx - square
        return self.y * self.margin <= 0.0 or self.gain(square, delta2 if delta2 > 0.0 else 0.0) >= 0.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        tau: cython.double = 1.0
        beta: cython.double
        self.measure()
        if self.y * self.margin <= 0.0:
            self.note(TAU, tau)
            return self.mistake()
        tau = self.step(self.square)
        beta = self.gain(self.square, self.delta2)
        if beta >= 0.0:
            self.shift(self.y * tau, self.projection.coefficients(), self.square)  # (14)
        else:
            tau = beta = 0.0
        self.note(TAU, tau)
        self.note(BETA, beta)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class Projectron(KernelClassifier):
    """A Perceptron that projects a mistake onto the span of its supports if it is near the span.

    It makes about as many mistakes as the Perceptron with a fraction of its supports, and removes none. The
    number of supports depends on the stream; use `budget` to limit it. A mistake costs more time than in
    learners that remove supports.

    Parameters
    ----------
    eta : float, default=None
        Fixed threshold: a mistake whose distance from the span is at most `eta` is projected, any other is
        stored. With 0 the hypothesis is exactly the Perceptron's, but linearly dependent examples are not
        stored. The default is 0.1, unless `norm_bound` is given.
    norm_bound : float, default=None
        Instead of `eta`: U, the largest norm of a competitor. The threshold of each round then follows from
        eq. 13 of the Projectron paper. With U < 0.75 and k(x, x) = 1 nothing is ever stored.
    budget : int, default=None
        The largest number of supports; with more than two classes, per class. When it is reached, every
        mistake is projected. None means no limit.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(m d) for m supports, and O(m^2) on a mistake. Memory: O(m d + m^2 / 2).
    m stays finite for any continuous kernel and eta > 0 (Projectron paper, Theorem 1).

    With `norm_bound`, the number of mistakes is at most 2 ||g||^2 + 4 * (sum of hinge losses of g) for every
    g with ||g|| <= U, if k(x, x) <= 1 (Projectron paper, Corollary 1). With a fixed `eta`, it is at most
    (||g||^2 + 2 * (sum of hinge losses of g)) / (2 - R^2 - 2 eta ||g||), where R bounds sqrt(k(x, x))
    (Theorem 2). Both bounds hold until the budget is reached.

    Where the paper contains a slip, the mathematics decides. A projected step changes the current
    coefficients. Eq. 13 is compared with the norm of delta. A squared distance below 1e-12 k(x, x) (1e-5 for
    float32 rows) counts as 0. An example in the span is always projected, because projecting and storing it
    give the same hypothesis.

    References
    ----------
    Orabona, Keshet, Caputo: The Projectron (2008), Algorithm 2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import Projectron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = Projectron(eta=0.3, gamma=0.0003)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 153 mistakes, error rate 0.0851, 128 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = (
        KernelClassifier._parameter_constraints
        | OPTIONAL_BUDGET
        | {
            "eta": [Interval(Real, 0.0, None, closed="left"), None],
            "norm_bound": [Interval(Real, 0.0, None, closed="neither"), None],
        }
    )

    def __init__(
        self,
        eta: float | None = None,
        norm_bound: float | None = None,
        budget: int | None = None,
        *,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.eta = eta
        self.norm_bound = norm_bound
        self.budget = budget

    def _rule(self, generator: np.random.Generator) -> ProjectronRule:
        if self.eta is not None and self.norm_bound is not None:
            raise ValueError("eta and norm_bound both set the threshold; give only one of them")
        ledger = ("delta", "threshold", "norm")
        if self.norm_bound is not None:
            return ProjectronRule(self.budget or 0, -1.0, self.norm_bound, ledger)
        return ProjectronRule(self.budget or 0, self._threshold(), 0.0, ledger)

    def _threshold(self) -> float:
        """Return the fixed threshold, for learners without `norm_bound`."""
        return 0.1 if self.eta is None else self.eta

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        limit = self.norm_bound
        if limit is None:
            return [
                FunctionTheorem("projectron", self._bound_for_eta(bounds.projectron, radius)),
                FunctionTheorem("projectron_root", self._bound_for_eta(bounds.projectron_root, radius)),
            ]

        def bound(run: Run, check: bounds.Check) -> float:
            value = bounds.projectron_norm_bound(run.norm, run.losses, limit, run.radius, check=check)
            assume_room(self.budget, self.n_support_, check)
            return value

        return [FunctionTheorem("projectron_norm_bound", bound, norm_weight=0.5, norm_limit=limit)]

    def _bound_for_eta(
        self, theorem: Callable[..., float], radius: float
    ) -> Callable[[Run, bounds.Check], float]:
        eta = self._threshold()
        if self._learners[0].dtype == np.float32:  # whatever is nearer than this is projected too
            eta = max(eta, float(np.sqrt(SINGLE_TOLERANCE)) * radius)

        def bound(run: Run, check: bounds.Check) -> float:
            value = theorem(run.norm, run.losses, eta, run.radius, check=check)
            assume_room(self.budget, self.n_support_, check)
            return value

        return bound


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class ProjectronPlusPlus(KernelClassifier):
    """A Projectron that also learns from correct predictions with a margin below 1.

    It makes fewer mistakes than `Projectron` and the Perceptron, with fewer supports, because a margin error
    changes coefficients but never adds a support. For its memory it is usually the best of the papers' kernel
    learners. It takes more time per round than `Projectron`.

    Parameters
    ----------
    norm_bound : float, default=2.0
        U, the largest norm of a competitor. Larger values give more supports and, up to a point, fewer
        mistakes.
    eta : float, default=None
        Fixed threshold for mistakes, instead of eq. 13 of the Projectron paper. Margin errors use
        `norm_bound` in both cases.
    budget : int, default=None
        The largest number of supports; with more than two classes, per class. When it is reached, every
        mistake is projected. None means no limit.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(m d) for m supports, and O(m^2) if y f(x) < 1. Memory:
    O(m d + m^2 / 2).

    The number of mistakes is at most 2 ||g||^2 + 4 * (sum of hinge losses of g) - 2 * (sum of beta) for every
    g with ||g|| <= U, if k(x, x) <= 1 (Projectron paper, eq. 15). The bound holds until the budget is
    reached.

    The equations of the paper give slightly fewer mistakes and supports than its tables.

    References
    ----------
    Orabona, Keshet, Caputo: The Projectron (2008), section 4.1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import ProjectronPlusPlus
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ProjectronPlusPlus(norm_bound=1.0, gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 90 mistakes, error rate 0.0501, 80 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = (
        KernelClassifier._parameter_constraints
        | OPTIONAL_BUDGET
        | {
            "norm_bound": [Interval(Real, 0.0, None, closed="neither")],
            "eta": [Interval(Real, 0.0, None, closed="left"), None],
        }
    )

    def __init__(
        self,
        norm_bound: float = 2.0,
        eta: float | None = None,
        budget: int | None = None,
        *,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.norm_bound = norm_bound
        self.eta = eta
        self.budget = budget

    def _rule(self, generator: np.random.Generator) -> ProjectronPlusPlusRule:
        eta = -1.0 if self.eta is None else self.eta
        ledger = ("delta", "threshold", "tau", "beta", "norm")
        return ProjectronPlusPlusRule(self.budget or 0, eta, self.norm_bound, ledger)

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        if self.eta is not None:
            return []  # the theorem is stated for the threshold of eq. 13

        def bound(run: Run, check: bounds.Check) -> float:
            progress = run.ledger_sum("beta")
            value = bounds.projectron_plus_plus(
                run.norm, run.losses, progress, self.norm_bound, run.radius, check=check
            )
            assume_room(self.budget, self.n_support_, check)
            return value

        return [FunctionTheorem("projectron_plus_plus", bound, norm_weight=0.5, norm_limit=self.norm_bound)]


def assume_room(budget: int | None, n_supports: int, check: bounds.Check) -> None:
    """Check that the budget was not reached: until then the theorems hold."""
    if budget is not None:
        text = f"a number of supports below the budget {budget}"
        bounds.assume(check, n_supports < budget, text, n_supports)
