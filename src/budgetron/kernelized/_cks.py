"""The budget Perceptron of Crammer, Kandola and Singer (CKS; Forgetron paper, section 8)."""

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import Rule
from cython.cimports.libc.math import INFINITY

from budgetron._base.kernel_classifier import BudgetedClassifier


@cython.cclass
class CKSRule(Rule):
    """On a mistake, store the example; over the budget, remove the best-classified support."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        p: cython.Py_ssize_t
        best: cython.Py_ssize_t = 0
        margin: cython.double
        tolerance: cython.double
        threshold: cython.double = -INFINITY
        self.add(self.y)  # f'_t; the new support is not removed
        if self.size() > self.budget:
            tolerance = self.tie_tolerance(0.0)
            for p in range(self.size() - 1):
                # the margin of x_p under f'_t without x_p
                margin = self.label(p) * (self.value_at(p) - self.weight(p) * self.own(p))
                if margin > threshold:  # of ties, the oldest
                    threshold, best = margin + tolerance, p
            self.remove(best)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class CKSPerceptron(BudgetedClassifier):
    """A Perceptron with a budget that removes the support which is classified best without itself.

    Use it on separable or nearly separable streams, where well-classified supports are redundant. On noisy
    streams it keeps the noisy examples, because they are never classified well, and makes many mistakes; use
    `Forgetron` there.

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
    Cost per round: one kernel row, O(B d), and O(B) per removal. Memory: O(B d + B^2), because the Gram
    matrix of the supports is stored. No mistake bound is known.

    The paper describes the algorithm in words only. Here the removed support is one of those before the
    round: the one with the largest margin under the updated hypothesis without it. Margins that differ by at
    most 1e-9 times the largest k(x, x) (1e-4 for float32 rows) are ties, and the oldest support is removed,
    so that rounding never decides. (Coefficients are -1 and +1.)

    References
    ----------
    Dekel, Shalev-Shwartz, Singer: The Forgetron (2008), section 8 ("CKS").

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import CKSPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CKSPerceptron(budget=50, gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 107 mistakes, error rate 0.0595, 50 supports)
    """

    def _rule(self, generator: np.random.Generator) -> CKSRule:
        return CKSRule(self.budget, ledger=("removed", "norm"), gram=True)
