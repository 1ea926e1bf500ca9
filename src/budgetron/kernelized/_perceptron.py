"""The kernel Perceptron (Projectron paper, Algorithm 1; Forgetron paper, section 2; Mohri et al.)."""

from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import Rule

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import Constraints
from budgetron._base.theorems import DeclaredTheorem, perceptron_theorems
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class PerceptronRule(Rule):
    """On a mistake, store the example with its label as coefficient.

    With counters, a mistake on a stored row changes its coefficient: the counter alpha of figure 8.9.
    """

    counters: cython.bint

    def __init__(self, counters: bool) -> None:
        Rule.__init__(self)
        self.counters = counters

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        slot: cython.Py_ssize_t = self.repeated_slot() if self.counters else -1
        if slot >= 0:
            return self.increase(slot, self.y)
        return self.add(self.y)  # f_t = f_{t-1} + y_t k(x_t, .)


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class KernelPerceptron(KernelClassifier):
    """The kernel Perceptron, without a budget.

    It stores every mistake and never removes one. Use it as a baseline, or where mistakes are few. On a noisy
    stream its memory and its time per round grow without limit; use a learner with a budget there.

    Parameters
    ----------
    counters : bool, default=False
        Whether a mistake on a row that is stored already adds its label to the coefficient of that support,
        instead of storing the row again. The hypothesis is the same. Use it for several passes over the same
        rows. A coefficient may become 0; its support stays.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(m d) for m supports. Memory: O(m d). With `counters`, m is at most the
    number of different rows, and a mistake costs O(m) more, to look for the row.

    The number of mistakes is at most ||g||^2 + 2 * (sum of hinge losses of g) for every g, if k(x, x) <= 1
    (Forgetron paper, Theorem 1).

    References
    ----------
    Orabona, Keshet, Caputo: The Projectron (2008), Algorithm 1. Dekel, Shalev-Shwartz,
    Singer: The Forgetron (2008), section 2. Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning,
    figures 8.8 and 8.9 (counters).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import KernelPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelPerceptron(gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 94 mistakes, error rate 0.0523, 94 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = KernelClassifier._parameter_constraints | {
        "counters": ["boolean"]
    }

    def __init__(
        self,
        *,
        counters: bool = False,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.counters = counters

    def _rule(self, generator: np.random.Generator) -> PerceptronRule:
        return PerceptronRule(self.counters)

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        return perceptron_theorems(radius)
