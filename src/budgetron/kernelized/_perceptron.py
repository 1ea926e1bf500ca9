"""The kernel Perceptron (Projectron paper, Algorithm 1; Forgetron paper, section 2)."""

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import Rule

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.theorems import DeclaredTheorem, perceptron_theorems


@cython.cclass
class PerceptronRule(Rule):
    """On a mistake, store the example with its label as coefficient."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        return self.add(self.y)  # f_t = f_{t-1} + y_t k(x_t, .)


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class KernelPerceptron(KernelClassifier):
    """The kernel Perceptron, without a budget.

    It stores every mistake and never removes one. Use it as a baseline, or where mistakes are few. On a noisy
    stream its memory and its time per round grow without limit; use a learner with a budget there.

    Parameters
    ----------
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(m d) for m supports. Memory: O(m d).

    The number of mistakes is at most ||g||^2 + 2 * (sum of hinge losses of g) for every g, if k(x, x) <= 1
    (Forgetron paper, Theorem 1).

    References
    ----------
    Orabona, Keshet, Caputo: The Projectron (2008), Algorithm 1. Dekel, Shalev-Shwartz,
    Singer: The Forgetron (2008), section 2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import KernelPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelPerceptron(gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 94 mistakes, error rate 0.0523, 94 supports)
    """

    def _rule(self, generator: np.random.Generator) -> PerceptronRule:
        return PerceptronRule()

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        return perceptron_theorems(radius)
