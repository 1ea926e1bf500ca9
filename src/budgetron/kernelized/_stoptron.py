"""The Stoptron: 002 section 5."""

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import Rule

from budgetron._base.kernel_classifier import BudgetedClassifier


@cython.cclass
class StoptronRule(Rule):
    """On a mistake, store the example while there is room."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        if self.size() < self.budget:
            self.add(self.y)
        return 1


@cython.annotation_typing(False)  # here they are for readers
class Stoptron(BudgetedClassifier):
    """The Perceptron that stops learning when the budget is full.

    A baseline, to see whether a budget learner is worth its trouble. After the last free slot it
    never changes again: good enough on a short stream with few mistakes, at the mercy of its
    first examples on a long or noisy one.

    Parameters
    ----------
    budget : int, default=100
        The most supports (with more than two classes, of each class). The mistake that fills
        the budget is still stored.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Threads that share the kernel values of a batch: None is 1, -1 all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d); memory O(B d). No bound holds once it stopped.

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
