"""Kernel Passive-Aggressive learning: PA, PA-I (Projectron paper, section 5) and PA-II."""

from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import TAU, Rule

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import OPTIONAL_BUDGET, Constraints
from budgetron._base.passive_aggressive import PA_VARIANTS, PassiveAggressiveClassifier, step_limits
from budgetron._base.weighted_classifier import CLASS_WEIGHT
from budgetron._util.types import Label
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class PassiveAggressiveRule(Rule):
    """On a margin error, take the smallest step that gives the example a margin of 1, or a limited one."""

    most: cython.double  # the largest tau
    slack: cython.double  # added to k(x, x)

    def __init__(self, budget: int, most: float, slack: float, outputs: int = 1) -> None:
        ledger = ("tau", "removed", "norm") if budget else ("tau", "norm")
        Rule.__init__(self, budget, ledger=ledger, divides=True)
        self.most = most
        self.slack = slack
        self.set_outputs(outputs)

    def set_outputs(self, outputs: int) -> None:
        """Consist of this many functions from now on."""
        Rule.set_outputs(self, outputs)
        self.set_argument(3, outputs)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        # loss > 0: the margin of a duplicate of the newest support is 1, and rounding must not decide
        if self.outputs == 1:
            return 1.0 - self.y * self.margin > self.tie_share()
        right: cython.double = self._scores[self.target]
        return min(right, self.margin - right) < 1.0 - self.tie_share()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        if self.importance == 0.0:
            return 1
        if self.outputs > 1:
            return self.update_all()
        tau: cython.double = self.step(1.0 - self.y * self.margin)
        self.note(TAU, tau)
        if tau > 0.0:
            self.add(tau * self.y)
            if self.budget > 0 and self.size() > self.budget:
                self.remove(0)
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def step(self, loss: cython.double) -> cython.double:
        """Return tau for this loss."""
        square: cython.double = self.kxx + self.slack / self.importance
        # A row that the kernel maps to 0 cannot gain a margin by any step.
        tau: cython.double = loss / square if square > 0.0 else 0.0
        return min(tau, self.most * self.importance)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update_all(self) -> cython.int:
        """With several outputs: add one support for all of them, with a step for each that has a loss."""
        c: cython.Py_ssize_t
        y: cython.double
        loss: cython.double
        self.add(0.0)
        for c in range(self.outputs):
            y = 1.0 if c == self.target else -1.0
            loss = 1.0 - y * self._scores[c]
            if loss > 0.0:
                self._coef[c * self.supports.capacity + self.added] = y * self.step(loss)
        if self.budget > 0 and self.size() > self.budget:
            self.remove(0)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class PassiveAggressive(PassiveAggressiveClassifier, KernelClassifier):
    """Passive-Aggressive learning with kernels; with a budget, the oldest support is removed.

    It also learns from correct predictions with a margin below 1. It makes clearly fewer mistakes than the
    Perceptron, with about twice as many supports. Use it with a budget on streams that drift. Without a
    budget, memory and time per round grow without limit.

    Parameters
    ----------
    C : float, default=1.0
        Limits how far a single example moves the hypothesis; use smaller values for noisy labels. No effect
        for "PA".
    variant : {"PA", "PA-I", "PA-II"}, default="PA-I"
        With loss = 1 - y f(x), the step is loss / k(x, x) for "PA", at most C for "PA-I", and
        loss / (k(x, x) + 1 / (2 C)) for "PA-II".
    budget : int, default=None
        The largest number of supports; with more than two classes, per class. None means no limit. No
        mistake bound is proven with a budget.
    class_weight : dict, default=None
        Weights of classes; classes that are not listed have weight 1. A row of weight w is learned with C w.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(m d) for m supports. Memory: O(m d). Every round with
    a positive loss adds a support, except where k(x, x) = 0 and no step can help. A loss of at most 1e-9
    (1e-4 for float32 rows) counts as 0: rounding never decides whether a duplicate is stored.

    References
    ----------
    Orabona, Keshet, Caputo: The Projectron (2008), section 5 (PA-I). Crammer, Dekel, Keshet,
    Shalev-Shwartz, Singer: Online Passive-Aggressive Algorithms (2006).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import PassiveAggressive
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PassiveAggressive(C=1.0, gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 44 mistakes, error rate 0.0245, 512 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = (
        KernelClassifier._parameter_constraints | PA_VARIANTS | OPTIONAL_BUDGET | CLASS_WEIGHT
    )

    def __init__(
        self,
        C: float = 1.0,
        variant: str = "PA-I",
        budget: int | None = None,
        *,
        class_weight: dict[Label, float] | None = None,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.C = C
        self.variant = variant
        self.budget = budget
        self.class_weight = class_weight

    def _rule(self, generator: np.random.Generator) -> PassiveAggressiveRule:
        most, slack = step_limits(self.variant, self.C)
        return PassiveAggressiveRule(self.budget or 0, most, slack)
