"""Budgeted stochastic gradient descent: Pegasos with removal or projection (Wang, Crammer, Vucetic 2012)."""

from numbers import Integral, Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import ERROR, TAU
from cython.cimports.budgetron._core.span import SpanRule
from cython.cimports.libc.math import INFINITY, fabs, sqrt
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.descent import descent_theorem
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import MOST_SUPPORTS, Constraints
from budgetron._base.theorems import DeclaredTheorem
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class BudgetedSGDRule(SpanRule):
    """A step of Pegasos in every round; over the budget, remove or project the smallest term."""

    decay: cython.double  # lambda
    projects: cython.bint

    def __init__(self, budget: int, decay: float, projects: bool) -> None:
        ledger = ("tau", "error", "removed", "norm")
        SpanRule.__init__(self, budget, ledger=ledger, inverse=projects, divides=projects)
        self.decay = decay
        self.projects = projects

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return self.size() > 0 or self.has_loss()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def has_loss(self) -> cython.bint:
        return 1.0 - self.y * self.margin > self.tie_share()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        t: cython.double = self.rounds + 1.0
        eta: cython.double = 1.0 / (self.decay * t)
        self.note(TAU, 0.0)
        self.shrink(1.0 - 1.0 / t)  # 1 - eta_t lambda
        if self.has_loss():
            self.note(TAU, eta)
            if self.projects:
                self.store_row(eta * self.y)
            else:
                self.add(eta * self.y)
            if self.size() > self.budget:
                self.maintain(self.smallest())
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def smallest(self) -> cython.Py_ssize_t:
        """Return the support with the smallest |alpha| sqrt(k(x, x)); of ties, the oldest."""
        p: cython.Py_ssize_t
        chosen: cython.Py_ssize_t = 0
        size: cython.double
        largest: cython.double = 0.0
        threshold: cython.double = INFINITY
        for p in range(self.size()):
            largest = max(largest, fabs(self.weight(p)) * sqrt(self.own(p)))
        for p in range(self.size()):
            size = fabs(self.weight(p)) * sqrt(self.own(p))
            if size < threshold:
                chosen, threshold = p, size - self.tie_share() * largest
        return chosen

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def maintain(self, p: cython.Py_ssize_t) -> cython.int:
        """Remove the support at p, or project it onto the others."""
        if self.projects:
            self.note(ERROR, self.project_and_remove(p))
        else:
            self.note(ERROR, fabs(self.weight(p)) * sqrt(self.own(p)))
            self.remove(p)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class BSGD(KernelClassifier):
    """Stochastic gradient descent for SVMs (Pegasos) on a budget.

    The steps become smaller with time, so it approaches the SVM of the whole stream and does not follow
    changes. For streams that drift use `OGD` with a constant step, or `BudgetPA`.

    Parameters
    ----------
    budget : int, default=100
        The largest number of supports after a round; with more than two classes, per class.
    variant : {"removal", "projection"}, default="projection"
        What happens to the smallest term, |coefficient| sqrt(k(x, x)), of a hypothesis with too many: it is
        removed, or projected onto the span of the other supports.
    decay : float, default=0.001
        lambda, the regularization. The step of round t is 1 / (lambda t).
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d). An update costs O(B) for "removal" and O(B^2) for "projection".
    Memory: O(B d), and O(B^2) more for "projection", which stores the Gram matrix and its inverse.

    The number of mistakes is at most that of `bounds.online_gradient_descent`, with the norm of each removed
    term, or of its distance from its projection, as the error. It is evaluated on the ledger of a run. With
    these steps the terms of the distances vanish, as in the authors' theorem.

    The paper's third way, to merge two supports, is not included. Sizes that differ by at most 1e-9 (1e-4 for
    float32 rows) of the largest are ties, and the oldest support is removed. A row whose squared distance
    from the span of the supports is at most 1e-4 k(x, x) (1e-3) is not stored by "projection": its step is
    projected. A hinge loss of at most 1e-9 (1e-4) counts as 0.

    References
    ----------
    Wang, Crammer, Vucetic: Breaking the Curse of Kernelization: Budgeted Stochastic Gradient Descent for
    Large-Scale SVM Training (2012).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import BSGD
    >>> X, y = load_digits(return_X_y=True)
    >>> model = BSGD(budget=50, gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 89 mistakes, error rate 0.0495, 50 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = KernelClassifier._parameter_constraints | {
        "budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both")],
        "variant": [StrOptions({"removal", "projection"})],
        "decay": [Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(
        self,
        budget: int = 100,
        variant: str = "projection",
        decay: float = 1e-3,
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
        self.decay = decay

    def _rule(self, generator: np.random.Generator) -> BudgetedSGDRule:
        return BudgetedSGDRule(self.budget, self.decay, self.variant == "projection")

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        return [descent_theorem(lambda rounds: 1.0 / (self.decay * rounds), self.decay)]
