"""The Projectron (002 sections 3-4) and Projectron++ (002 section 4.1)."""

from numbers import Integral, Real
from typing import Any, ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import BETA, DELTA, TAU, THRESHOLD, Rule
from cython.cimports.libc.math import sqrt
from sklearn.utils._param_validation import Interval

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import MOST_SUPPORTS
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class ProjectronRule(Rule):
    """On a mistake, project the example onto the span of the supports if little is lost."""

    eta: cython.double  # fixed threshold, or negative for eq. (13)
    bound: cython.double  # U
    square: cython.double  # ||P k(x, .)||^2 of the row at hand
    delta2: cython.double  # ||delta||^2

    def __init__(self, budget: int, eta: float, bound: float, ledger: tuple[str, ...]) -> None:
        Rule.__init__(self, budget, ledger=ledger, projection=True)
        self.eta = eta
        self.bound = bound

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def measure(self) -> cython.int:
        """||P k||^2 and (9), where a distance lost in rounding counts as none."""
        tolerance: cython.double = 1e-5 if self.supports.single else 1e-12
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
        """Algorithm 2, on a mistake."""
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
    """The Projectron that also learns from margin errors, by projection alone."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def wants_update(self) -> cython.bint:
        return self.y * self.margin < 1.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def step(self, square: cython.double) -> cython.double:
        """tau, (17)."""
        loss: cython.double = 1.0 - self.y * self.margin
        return loss / square if loss < square else 1.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def gain(self, square: cython.double, delta2: cython.double) -> cython.double:
        """beta, (16)."""
        loss: cython.double = 1.0 - self.y * self.margin
        tau: cython.double = self.step(square)
        return tau * (2.0 * loss - tau * square - 2.0 * self.bound * sqrt(delta2))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def moves(self, square: cython.double) -> cython.bint:
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


@cython.annotation_typing(False)  # here they are for readers
class Projectron(KernelClassifier):
    """The Perceptron that projects a mistake onto the span of its supports where little is lost.

    As good as the Perceptron with a fraction of its supports, and without forgetting
    anything. How many supports it comes to hold depends on the stream; `budget` sets a
    limit if there must be one. It costs more per mistake than learners that remove.

    Parameters
    ----------
    eta : float, default=None
        Fixed threshold: a mistake whose distance from the span is at most `eta` is projected,
        any other is stored. At 0 the hypothesis is exactly the Perceptron's, with linearly
        dependent examples left out. By default 0.1, unless `norm_bound` is given.
    norm_bound : float, default=None
        Instead of `eta`: U, the largest norm of a competitor; the threshold then follows
        002 eq. 13 in each round. With U < 0.75 and k(x, x) = 1 nothing is ever stored.
    budget : int, default=None
        The most supports (of each class, if there are more than two), if given; when they are
        reached every mistake is projected.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Threads that share the kernel values of a batch: None is 1, -1 all cores.

    Notes
    -----
    Cost per round: one kernel row, O(m d) for m supports, and O(m^2) on a mistake; memory
    O(m d + m^2 / 2). m stays finite for any continuous kernel and eta > 0 (002 Theorem 1).

    Mistakes are at most 2 ||g||^2 + 4 * (sum of hinge losses of g) for every g with
    ||g|| <= U, if k(x, x) <= 1 (002 Corollary 1); with a fixed eta, at most
    (||g||^2 + 2 * (sum of hinge losses of g)) / (2 - R^2 - 2 eta ||g||), where R bounds
    sqrt(k(x, x)) (Theorem 2). Both hold while `budget` is not reached.

    Where the paper slips, the mathematics decides: a projected step changes the current
    coefficients, and eq. 13 is compared with the norm of delta. A squared distance below
    1e-12 k(x, x) (1e-5 for float32) counts as 0, and what lies in the span is projected
    whatever the threshold, for there both steps are the same.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = KernelClassifier._parameter_constraints | {
        "eta": [Interval(Real, 0.0, None, closed="left"), None],
        "norm_bound": [Interval(Real, 0.0, None, closed="neither"), None],
        "budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both"), None],
    }

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
            raise ValueError("give eta or norm_bound, not both: each sets the threshold")
        ledger = ("delta", "threshold", "norm")
        if self.norm_bound is not None:
            return ProjectronRule(self.budget or 0, -1.0, self.norm_bound, ledger)
        return ProjectronRule(self.budget or 0, self._threshold(), 0.0, ledger)

    def _threshold(self) -> float:
        """The fixed eta, where `norm_bound` does not set it."""
        return 0.1 if self.eta is None else self.eta


@cython.annotation_typing(False)  # here they are for readers
class ProjectronPlusPlus(KernelClassifier):
    """The Projectron that also learns from correct but unsure predictions.

    Fewer mistakes than `Projectron` and the Perceptron, with even fewer supports: a margin
    error changes coefficients but never adds a support. Usually the best of the papers'
    kernel learners for its memory.

    Parameters
    ----------
    norm_bound : float, default=2.0
        U, the largest norm of a competitor. Larger means more supports and, up to a point,
        fewer mistakes.
    eta : float, default=None
        Fixed threshold for mistakes, instead of 002 eq. 13. Margin errors need `norm_bound`
        all the same.
    budget : int, default=None
        The most supports (of each class, if there are more than two), if given; when they are
        reached every mistake is projected.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Threads that share the kernel values of a batch: None is 1, -1 all cores.

    Notes
    -----
    Cost per round: one kernel row, O(m d) for m supports, and O(m^2) when y f(x) < 1; memory
    O(m d + m^2 / 2).

    Mistakes are at most 2 ||g||^2 + 4 * (sum of hinge losses of g) - 2 * (sum of beta) for every g
    with ||g|| <= U, if k(x, x) <= 1 (002 eq. 15), while `budget` is not reached.

    The equations give slightly fewer mistakes and supports than the published tables.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = KernelClassifier._parameter_constraints | {
        "norm_bound": [Interval(Real, 0.0, None, closed="neither")],
        "eta": [Interval(Real, 0.0, None, closed="left"), None],
        "budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both"), None],
    }

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
