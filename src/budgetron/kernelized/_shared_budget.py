"""A Perceptron with one budget for all classes."""

from collections.abc import Sequence
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import PSI, Rule

from budgetron import bounds
from budgetron._base.kernel_classifier import BudgetedClassifier
from budgetron._base.theorems import ClassesTheorem, DeclaredTheorem, FunctionTheorem, Run


@cython.cclass
class SharedBudgetRule(Rule):
    """Each class that errs takes a step; over the budget, remove the oldest support.

    With more than two classes, a class errs if y f(x) <= 0, where y is +1 for the class of the row and -1 for
    the others. All classes that err share one new support. With two classes this is `RemoveOldestPerceptron`.
    """

    def __init__(self, budget: int, outputs: int) -> None:
        Rule.__init__(self, budget, ledger=("psi", "removed", "norm"))
        self.set_outputs(outputs)

    def set_outputs(self, outputs: int) -> None:
        """Consist of this many functions from now on."""
        Rule.set_outputs(self, outputs)
        self.set_argument(1, outputs)
        if outputs > 1:  # the proof with psi and the norm is about one function
            self.ledger = ("removed",)

    def keep_average(self, limit: int = 0) -> None:
        """Keep the average of the hypotheses; only of one function."""
        self.refuse_history()
        Rule.keep_average(self, limit)

    def keep_journal(self) -> None:
        """Keep every hypothesis; only of one function."""
        self.refuse_history()
        Rule.keep_journal(self)

    def refuse_history(self) -> None:
        """Raise an error if there are several functions."""
        if self.outputs > 1:
            raise ValueError(
                "SharedBudgetPerceptron with more than two classes cannot be averaged or recorded; use "
                "RemoveOldestPerceptron, which has a hypothesis for each class"
            )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def sign(self, c: cython.Py_ssize_t) -> cython.double:
        """Return the label that the row has for class c."""
        return 1.0 if c == self.target else -1.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        c: cython.Py_ssize_t
        wrong: cython.Py_ssize_t = 0
        if self.outputs == 1:
            return self.y * self.margin <= 0.0
        for c in range(self.outputs):
            wrong += self.sign(c) * self._scores[c] <= 0.0
        return wrong > 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        c: cython.Py_ssize_t
        psi: cython.double = 0.0
        if self.outputs == 1:
            self.add(self.y)
        else:
            self.add(0.0)
            for c in range(self.outputs):
                if self.sign(c) * self._scores[c] <= 0.0:
                    self._coef[c * self.supports.capacity + self.added] = self.sign(c)
        if self.size() > self.budget:
            if self.recording and self.outputs == 1:  # Psi of (15), for Corollary 1
                psi = 3.0 - 2.0 * self.weight(0) * self.value_at(0)
            self.remove(0)
        self.note(PSI, psi)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class SharedBudgetPerceptron(BudgetedClassifier):
    """Perceptrons, one for each class, that share one budget of supports.

    The other learners with a budget give each class a budget of its own, whether it errs or not. Here a row
    is stored if the function of any class errs on it, once for all classes that do, and the oldest support of
    all is removed. So the memory goes to the classes that err. Use it for many classes under a memory limit,
    above all if some classes are rare or easy. With two classes it is `RemoveOldestPerceptron`.

    Parameters
    ----------
    budget : int, default=100
        The largest number of supports after a round, of all classes together.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d), and O(B K) for K classes. Memory: O(B (d + K)).

    Mistakes of two classes have the bound of `RemoveOldestPerceptron` (Forgetron paper, Corollary 1). With
    more classes, the sum of these bounds over the classes is one (`bounds.shared_budget`): in a mistake, the
    function of at least one class errs. Averages of the hypotheses are not available then.

    References
    ----------
    Dekel, Shalev-Shwartz, Singer: The Forgetron (2008), section 3 (removal of the oldest support) and section
    9 (classifiers that share one memory, an open problem).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import SharedBudgetPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SharedBudgetPerceptron(budget=200, gamma=0.001)
    >>> model.progressive_fit(X, y).support_sizes.max()
    np.int64(200)
    """

    _joint: ClassVar[bool] = True

    def _rules(self, outputs: int, generators: Sequence[np.random.Generator]) -> list[Rule]:
        return [SharedBudgetRule(self.budget, outputs)]

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        if self._n_outputs > 1:
            return [ClassesTheorem("shared_budget", classes_bound, norm_weight=0.5)]

        def bound(run: Run, check: bounds.Check) -> float:
            return bounds.remove_oldest(run.norm, run.losses, run.ledger_sum("psi"), run.radius, check=check)

        return [FunctionTheorem("remove_oldest", bound, norm_weight=0.5)]


@cython.annotation_typing(False)
def classes_bound(run: Run, check: bounds.Check) -> float:
    """Return the bound for more than two classes, with the damage of all removals."""
    damage = sum(removal_damages(run))
    return bounds.shared_budget(run.norm, run.losses, damage, run.radius, check=check)


@cython.annotation_typing(False)
def removal_damages(run: Run) -> list[float]:
    """Return Psi of (15) of each removal, summed over the classes whose function had the support."""
    scores, removed = run.trace.margins, run.ledger("removed")
    signs = np.where(run.y[:, None] == np.arange(scores.shape[1]), 1.0, -1.0)
    coefficients = np.where(signs * scores <= 0.0, signs, 0.0)  # of the row of each round, by class
    stored = np.flatnonzero(coefficients.any(axis=1))
    damages = []
    for t in np.flatnonzero(removed >= 0):
        oldest = int(removed[t])
        # The supports are all rows that were stored since the oldest, and include the row of this round.
        supports = stored[(stored >= oldest) & (stored <= t)]
        own = coefficients[oldest]
        values = run.kernel.matrix(run.X[oldest : oldest + 1], run.X[supports])[0] @ coefficients[supports]
        damages.append(float(np.sum(3.0 * np.abs(own) - 2.0 * own * values)))
    return damages
