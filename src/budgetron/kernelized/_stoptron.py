"""The Stoptron (Projectron paper, section 5)."""

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import Rule

from budgetron._base.kernel_classifier import BudgetedClassifier


@cython.cclass
class StoptronRule(Rule):
    """On a mistake, store the example if the budget is not full."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        if self.size() < self.budget:
            self.add(self.y)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class Stoptron(BudgetedClassifier):
    """A Perceptron that stops learning when its budget is full.

    Use it as a baseline for the other learners with a budget. It is good enough on a short stream with few
    mistakes. On a long or noisy stream its result depends on the first examples, because it never changes
    after the budget is full.

    Parameters
    ----------
    budget : int, default=100
        The largest number of supports; with more than two classes, per class. The mistake that fills the
        budget is stored.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d). Memory: O(B d). No mistake bound holds after the budget is full.

    References
    ----------
    Orabona, Keshet, Caputo: The Projectron (2008), section 5.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import Stoptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = Stoptron(budget=50, gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 137 mistakes, error rate 0.0762, 50 supports)
    """

    def _rule(self, generator: np.random.Generator) -> StoptronRule:
        return StoptronRule(self.budget)
