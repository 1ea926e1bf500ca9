"""The tighter budget Perceptron (Weston, Bordes, Bottou 2005)."""

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import Rule
from cython.cimports.libc.math import INFINITY

from budgetron._base.kernel_classifier import BudgetedClassifier


@cython.cclass
class TighterRule(Rule):
    """On a mistake, store the example; over the budget, remove the support whose removal costs least."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def errors_without(self, p: cython.Py_ssize_t, tolerance: cython.double) -> cython.Py_ssize_t:
        """Return how many supports the hypothesis without the support at p misclassifies."""
        i: cython.Py_ssize_t
        errors: cython.Py_ssize_t = 0
        value: cython.double
        n: cython.Py_ssize_t = self.supports.capacity
        row: cython.Py_ssize_t = self.supports._order[p] * n
        for i in range(self.size()):
            value = self.value_at(i) - self.weight(p) * self._gram[row + self.supports._order[i]]
            errors += self.label(i) * value <= tolerance
        return errors

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        p: cython.Py_ssize_t
        best: cython.Py_ssize_t = 0
        errors: cython.Py_ssize_t
        fewest: cython.Py_ssize_t = self.size() + 2
        margin: cython.double
        threshold: cython.double = -INFINITY
        tolerance: cython.double
        self.add(self.y)  # the new support is not removed
        if self.size() > self.budget:
            tolerance = self.tie_tolerance(0.0)
            for p in range(self.size() - 1):
                errors = self.errors_without(p, tolerance)
                margin = self.label(p) * (self.value_at(p) - self.weight(p) * self.own(p))
                # of equal numbers the one with the largest margin without itself, of ties the oldest
                if errors < fewest or (errors == fewest and margin > threshold):
                    fewest, best, threshold = errors, p, margin + tolerance
            self.remove(best)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class TighterPerceptron(BudgetedClassifier):
    """A Perceptron with a budget that removes the support whose removal causes the fewest errors.

    The errors are counted on the stored examples. It keeps better supports than `CKSPerceptron`, which looks
    only at the margin of the removed example, at a higher cost per mistake.

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
    Cost per round: one kernel row, O(B d), and O(B^2) per removal. Memory: O(B d + B^2), because the Gram
    matrix of the supports is stored. No mistake bound is known.

    The paper counts the errors on all examples seen so far, or on a cache of them. In bounded memory the
    stored examples are the cache, the removed one and the new one included. Many removals then cause equally
    many errors. Of these the support with the largest margin without itself is removed, and of margins that
    differ by at most 1e-9 times the largest k(x, x) (1e-4 for float32 rows) the oldest; this is our choice. A
    margin below that tolerance counts as an error.

    References
    ----------
    Weston, Bordes, Bottou: Online (and Offline) on an Even Tighter Budget (2005).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import TighterPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = TighterPerceptron(budget=50, gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 108 mistakes, error rate 0.0601, 50 supports)
    """

    def _rule(self, generator: np.random.Generator) -> TighterRule:
        return TighterRule(self.budget, ledger=("removed", "norm"), gram=True)
