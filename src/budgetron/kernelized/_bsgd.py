"""Budgeted stochastic gradient descent: Pegasos on a budget (Wang, Crammer, Vucetic 2012)."""

from numbers import Integral, Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import ERROR, TAU
from cython.cimports.budgetron._core.support_merging import MergingRule
from cython.cimports.libc.math import INFINITY, fabs, sqrt
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.descent import descent_theorem
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import MOST_SUPPORTS, Constraints
from budgetron._base.theorems import DeclaredTheorem
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class BudgetedSGDRule(MergingRule):
    """A step of Pegasos in every round; over the budget, remove, project or merge the smallest term."""

    decay: cython.double  # lambda
    projects: cython.bint

    def __init__(self, budget: int, decay: float, projects: bool, merges: bool) -> None:
        ledger = ("tau", "error", "removed", "norm")
        MergingRule.__init__(self, budget, merges=merges, ledger=ledger, inverse=projects, divides=projects)
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
        """Remove the support at p, project it onto the others, or merge it with another."""
        partner: cython.Py_ssize_t = self.find_partner(p) if self.merges else -1
        if self.projects:
            self.note(ERROR, self.project_and_remove(p))
        elif partner >= 0:
            self.note(ERROR, self.distance)
            self.merge(p, partner)
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
    variant : {"removal", "projection", "merging"}, default="projection"
        What happens to the smallest term, |coefficient| sqrt(k(x, x)), of a hypothesis with too many: it is
        removed, projected onto the span of the other supports, or merged with another support. "merging"
        needs the "rbf" kernel.
    decay : float, default=0.001
        lambda, the regularization. The step of round t is 1 / (lambda t).
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d). An update costs O(B) for "removal", O(B^2) for "projection", and
    another kernel row for "merging". Memory: O(B d), and O(B^2) more for "projection", which stores the Gram
    matrix and its inverse. A table for "merging" takes 1.3 MB, once in a process.

    The number of mistakes is at most that of `bounds.online_gradient_descent`, with the norm of what each
    removal, projection or merge changes as the error. It is evaluated on the ledger of a run. With these
    steps the terms of the distances vanish, as in the authors' theorem.

    "merging" replaces two terms a k(x, .) + b k(x', .) of the same sign by one, c k(z, .), where z = h x + (1
    - h) x'. The first is the smallest term. The second is the one for which the change of the hypothesis is
    smallest, and h is the best for both. These two are looked up in tables over a / (a + b) and k(x, x')
    (Glasmachers and Qaurooni 2018) with 200 x 400 cells, by bilinear interpolation; then c is computed
    exactly. The square of the norm of the change is at most 1e-3 a^2 larger than the smallest one. If no
    other term has the same sign, the smallest one is removed. A merged support is not a row of the stream;
    `support_` lists the round of the support with the larger coefficient. If rows are stored by their
    non-zeros, a merged support has those of both rows, so that memory grows with the merges. Merged supports
    cannot be averaged (`batch.AveragedClassifier`), and classes do not share kernel values.

    Sizes that differ by at most 1e-9 (1e-4 for float32 rows) of the largest are ties, and the oldest support
    is removed; in the same way, of equally good partners the oldest is taken. A row whose squared distance
    from the span of the supports is at most 1e-4 k(x, x) (1e-3) is not stored by "projection": its step is
    projected. A hinge loss of at most 1e-9 (1e-4) counts as 0.

    References
    ----------
    Wang, Crammer, Vucetic: Breaking the Curse of Kernelization: Budgeted Stochastic Gradient Descent for
    Large-Scale SVM Training (2012).

    Glasmachers, Qaurooni: Speeding Up Budgeted Stochastic Gradient Descent SVM Training with Precomputed
    Golden Section Search (2018).

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
        "variant": [StrOptions({"removal", "projection", "merging"})],
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
        if self.variant == "merging" and self.kernel != "rbf":
            raise ValueError(
                f'variant="merging" needs kernel="rbf", for which a mixture of two rows represents both; got '
                f'kernel={self.kernel!r}. Use another kernel, or variant="projection"'
            )
        return BudgetedSGDRule(
            self.budget, self.decay, self.variant == "projection", self.variant == "merging"
        )

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        return [descent_theorem(lambda rounds: 1.0 / (self.decay * rounds), self.decay)]
