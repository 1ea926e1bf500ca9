"""Ahpatron: updates below a margin, and half of the supports projected onto the others (Liao et al. 2024)."""

from numbers import Integral, Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import ERROR, TAU
from cython.cimports.budgetron._core.span import SpanRule
from sklearn.utils._param_validation import Interval

from budgetron import bounds
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import MOST_SUPPORTS, Constraints
from budgetron._base.theorems import DeclaredTheorem, FunctionTheorem, Run
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class AhpatronRule(SpanRule):
    """If y f(x) < 1 - epsilon, take a step; if the budget is full, first remove half of the supports."""

    epsilon: cython.double
    eta: cython.double  # lambda in the paper
    radius: cython.double  # U in the paper

    def __init__(self, budget: int, epsilon: float, eta: float, radius: float) -> None:
        SpanRule.__init__(self, budget, ledger=("tau", "error", "norm"), gram=True)
        self.epsilon = epsilon
        self.eta = eta
        self.radius = radius

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return 1.0 - self.epsilon - self.y * self.margin > self.tie_share()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        if self.size() == self.budget:
            self.note(ERROR, self.keep_largest(self.budget // 2))
        self.note(TAU, self.eta)
        self.add(self.eta * self.y)
        if self.norm() > self.radius:
            self.shrink(self.radius / self.norm())
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class Ahpatron(KernelClassifier):
    """A Perceptron with a margin that projects half of its supports onto the others when the budget is full.

    It makes fewer mistakes than `Forgetron` with the same budget, and its bound allows competitors of a
    larger norm. A removal costs as much as B^2 kernel values, but only once in B / 2 updates.

    Parameters
    ----------
    budget : int, default=100
        The largest number of supports after a round; with more than two classes, per class.
    epsilon : float in (0, 1], default=0.5
        Rounds with y f(x) < 1 - epsilon are learned. With 1 only mistakes are.
    eta : float, default=None
        The step; by default `epsilon`, for which the bound allows nearly the largest norm.
    radius : float, default=None
        The largest norm of the hypothesis. None means no limit.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d), O(B) per update, and O(B^3) once in B / 2 updates. Memory:
    O(B d + B^2), because the Gram matrix of the supports is stored.

    With the defaults, if k(x, x) <= 1, the number of mistakes is at most 2 ||g||^2 + 2 * (sum of hinge losses
    of g) for every g with ||g|| <= sqrt(B / 8) - 1/2. `bounds.ahpatron` has the bound for other values, and
    its proof; `bounds.ahpatron_ledger` is the bound for the errors of a run. The authors prove a bound of the
    same kind; the constants are ours.

    The half with the largest coefficients is kept. The paper's code adds a small number to the diagonal of
    the Gram matrix, and scales the projected hypothesis to its norm before; here the projection is exact. Of
    coefficients that differ by at most 1e-9 (1e-4 for float32 rows) of the largest, the newer one is kept. A
    support whose squared distance from the span of those kept before it is at most 1e-4 k(x, x) (1e-3) is not
    kept. These are our choices. A row whose margin is above 1 - epsilon - 1e-9 (1e-4) is not learned.

    References
    ----------
    Liao, Li, Liao, Hu, Dang: Ahpatron: A New Budgeted Online Kernel Learning Machine with Tighter Mistake
    Bound (2024).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import Ahpatron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = Ahpatron(budget=50, gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 97 mistakes, error rate 0.0540, 48 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = KernelClassifier._parameter_constraints | {
        "budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both")],
        "epsilon": [Interval(Real, 0.0, 1.0, closed="right")],
        "eta": [Interval(Real, 0.0, None, closed="neither"), None],
        "radius": [Interval(Real, 0.0, None, closed="neither"), None],
    }

    def __init__(
        self,
        budget: int = 100,
        epsilon: float = 0.5,
        *,
        eta: float | None = None,
        radius: float | None = None,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.budget = budget
        self.epsilon = epsilon
        self.eta = eta
        self.radius = radius

    def _rule(self, generator: np.random.Generator) -> AhpatronRule:
        return AhpatronRule(self.budget, self.epsilon, self._step(), self._limit())

    def _step(self) -> float:
        return self.epsilon if self.eta is None else self.eta

    def _limit(self) -> float:
        return np.inf if self.radius is None else self.radius

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        limit = self._limit()
        return [
            FunctionTheorem("ahpatron", self._bound, norm_limit=limit),
            FunctionTheorem("ahpatron_ledger", self._ledger_bound, norm_limit=limit),
        ]

    def _bound(self, run: Run, check: bounds.Check) -> float:
        return bounds.ahpatron(
            run.norm, run.losses, self.budget, self.epsilon, self._step(), run.radius, check=check
        )

    def _ledger_bound(self, run: Run, check: bounds.Check) -> float:
        learned = run.ledger("tau") > 0.0
        margins = run.y * run.trace.margins
        return bounds.ahpatron_ledger(
            run.norm,
            float(np.maximum(0.0, 1.0 - run.margins[learned]).sum()),
            self._step(),
            float(run.kernel.diagonal(run.X)[learned].sum()),
            np.nan_to_num(run.ledger("error")),
            float((1.0 - margins[learned]).sum() - run.trace.mistakes.sum()),
            run.radius,
            check=check,
        )
