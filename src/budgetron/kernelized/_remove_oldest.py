"""The Remove-Oldest Perceptron: 003 section 3."""

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import PSI, Rule

from budgetron._base.kernel_classifier import BudgetedClassifier


@cython.cclass
class RemoveOldestRule(Rule):
    """On a mistake, store the example; over the budget, forget the oldest."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        psi: cython.double = 0.0
        self.add(self.y)  # (7), (8)
        if self.size() > self.budget:
            if self.recording:  # Psi(1, y_r f'_t(x_r)) of (15): asked for by Corollary 1 only
                psi = 3.0 - 2.0 * self.weight(0) * self.value_at(0)
            self.remove(0)  # (9), r_t = min I'_t
        self.note(PSI, psi)
        return 1


@cython.annotation_typing(False)  # here they are for readers
class RemoveOldestPerceptron(BudgetedClassifier):
    """The Perceptron that forgets its oldest support when the budget is full.

    Use it where the stream drifts and old examples mislead; it is the simplest of all
    budgets and adapts at once. No mistake bound holds for it; `Forgetron` has one.

    Parameters
    ----------
    budget : int, default=100
        The most supports after a round; with more than two classes, of each class.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Threads that share the kernel values of a batch: None is 1, -1 all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d); memory O(B d). The ledger (`psi`) costs
    another kernel row per removal.

    The number of mistakes is at most ||g||^2 + 2 * (sum of hinge losses of g) + (sum of psi)
    for every g, if k(x, x) <= 1 (003 Corollary 1); the last sum is what it is.

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
