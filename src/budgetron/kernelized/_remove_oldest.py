"""The Remove-Oldest Perceptron (Forgetron paper, section 3)."""

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import PSI, Rule

from budgetron import bounds
from budgetron._base.kernel_classifier import BudgetedClassifier
from budgetron._base.theorems import DeclaredTheorem, FunctionTheorem, Run


@cython.cclass
class RemoveOldestRule(Rule):
    """On a mistake, store the example; over the budget, remove the oldest support."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        psi: cython.double = 0.0
        self.add(self.y)  # (7), (8)
        if self.size() > self.budget:
            if self.recording:  # Psi(1, y_r f'_t(x_r)) of (15): only Corollary 1 needs it
                psi = 3.0 - 2.0 * self.weight(0) * self.value_at(0)
            self.remove(0)  # (9), r_t = min I'_t
        self.note(PSI, psi)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class RemoveOldestPerceptron(BudgetedClassifier):
    """A Perceptron with a budget that removes its oldest support.

    Use it where the stream drifts and old examples are misleading. It is the simplest learner with a budget,
    and it adapts quickly. Its mistake bound depends on the run. `Forgetron` has a bound that is known in
    advance.

    Parameters
    ----------
    budget : int, default=100
        The largest number of supports after a round; with more than two classes, per class.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d). Memory: O(B d). Recording the ledger (`psi`) costs another kernel
    row per removal.

    The number of mistakes is at most ||g||^2 + 2 * (sum of hinge losses of g) + (sum of psi) for every g, if
    k(x, x) <= 1 (Forgetron paper, Corollary 1). The last sum is measured; nothing bounds it in advance.

    References
    ----------
    Dekel, Shalev-Shwartz, Singer: The Forgetron (2008), section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import RemoveOldestPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RemoveOldestPerceptron(budget=50, gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 111 mistakes, error rate 0.0618, 50 supports)
    """

    def _rule(self, generator: np.random.Generator) -> RemoveOldestRule:
        return RemoveOldestRule(self.budget, ledger=("psi", "removed", "norm"))

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        def bound(run: Run, check: bounds.Check) -> float:
            return bounds.remove_oldest(run.norm, run.losses, run.ledger_sum("psi"), run.radius, check=check)

        return [FunctionTheorem("remove_oldest", bound, norm_weight=0.5)]
