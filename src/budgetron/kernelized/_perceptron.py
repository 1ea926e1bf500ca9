"""The kernel Perceptron (Projectron paper, Algorithm 1; Forgetron paper, section 2; Mohri et al.)."""

from typing import ClassVar, cast

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import Rule

from budgetron._base.initial_weights import initial_numbers
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import Constraints
from budgetron._base.theorems import DeclaredTheorem, perceptron_theorems
from budgetron._core.rounds import Learner
from budgetron._util.types import Matrix
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class PerceptronRule(Rule):
    """On a mistake, store the example with its label as coefficient.

    With counters, a mistake on a stored row changes its coefficient: the counter alpha of figure 8.9. While
    the initial coefficients are set, every row is stored, with its weight as |coefficient|.
    """

    counters: cython.bint
    starting: cython.bint

    def __init__(self, counters: bool) -> None:
        Rule.__init__(self)
        self.counters = counters

    def set_starting(self, starting: bool) -> None:
        """Set whether the rows that follow are those of the initial coefficients; they are no mistakes."""
        self.starting = starting
        self.mistakes = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return self.starting or self.y * self.margin <= 0.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        slot: cython.Py_ssize_t = self.repeated_slot() if self.counters else -1
        step: cython.double = self.importance * self.y if self.starting else self.y
        if slot >= 0:
            return self.increase(slot, step)
        return self.add(step)  # f_t = f_{t-1} + y_t k(x_t, .)


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
    initial_coefficients : tuple of float, default=None
        The coefficients with which the rows of the first call start, one per row, with the sign of the label
        (figure 8.9: alpha_0 times y). None means 0. For two classes. Rows with a coefficient other than 0
        are supports before the first round. They count as rounds (`rounds_`, `support_`), but not as
        mistakes. There is no bound then, and the hypotheses cannot be averaged.
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
        "counters": ["boolean"],
        "initial_coefficients": [tuple, None],
    }

    def __init__(
        self,
        *,
        counters: bool = False,
        initial_coefficients: tuple[float, ...] | None = None,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.counters = counters
        self.initial_coefficients = initial_coefficients

    def _make(self, X: Matrix, outputs: int) -> list[Learner]:
        learners = super()._make(X, outputs)
        if self.initial_coefficients is not None:
            given, n = self.initial_coefficients, X.shape[0]
            start = initial_numbers(given, "initial_coefficients", n, "row of the first call", outputs)
            used = np.flatnonzero(start)
            rule = cast(PerceptronRule, learners[0].rule)
            rule.set_starting(True)
            learners[0].learn(X[used], np.sign(start[used]), importances=np.abs(start[used]))
            rule.set_starting(False)
        return learners

    def _rule(self, generator: np.random.Generator) -> PerceptronRule:
        return PerceptronRule(self.counters)

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        return perceptron_theorems(radius) if self.initial_coefficients is None else []
