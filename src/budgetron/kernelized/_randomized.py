"""The Randomized Budget Perceptron: original, and modified by Sutskever."""

from numbers import Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import Rule
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron import bounds
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import BUDGET, Constraints
from budgetron._base.theorems import DeclaredTheorem, FunctionTheorem, Run
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class RandomRule(Rule):
    """On a mistake with a full budget, remove a random support, then store the example."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        if self.size() == self.budget:
            self.remove(self.draw(self.budget))  # one of I_t; the new support is not removed
        self.add(self.y)
        return 1


@cython.cclass
class ModifiedRandomRule(Rule):
    """On a mistake, subtract a random term, take a small step, project onto a ball (Sutskever's paper)."""

    eta: cython.double
    radius: cython.double

    def __init__(self, budget: int, eta: float, radius: float, generator: np.random.Generator) -> None:
        Rule.__init__(self, budget, ledger=("removed", "norm"), generator=generator, norm=True)
        self.eta = eta
        self.radius = radius

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        # w <- pi_C(w + eta y phi(x) - s(w)): s(w) is one of the B terms of w, of which the last B - m are
        # zero (footnote 2)
        term: cython.Py_ssize_t = self.draw(self.budget)
        if term < self.size():
            self.remove(term)
        self.add(self.eta * self.y)
        if self.norm() > self.radius:  # pi_C, C = {w : ||w|| <= radius}
            self.shrink(self.radius / self.norm())
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class RandomizedBudgetPerceptron(KernelClassifier):
    """A Perceptron with a budget that removes a random support.

    It is the fastest learner with a budget, and about as good as the self-tuned `Forgetron`. Its results
    depend on the seed; use `Forgetron` if they must not.

    Parameters
    ----------
    budget : int, default=100
        The largest number of supports after a round; with more than two classes, per class.
    variant : {"original", "modified"}, default="original"
        "original" takes full steps, and removes a support when the budget is full. "modified" has the better
        bound: it takes steps of `eta`, draws one of `budget` slots on every mistake and removes its support
        if there is one, and limits ||f|| to `radius`.
    eta : float, default=None
        Step of "modified"; by default 1/16 (Sutskever's paper, Theorem 1).
    radius : float, default=None
        Largest norm of "modified"; by default sqrt(budget) / 8 (Sutskever's paper, Theorem 1).
    random_state : int, RandomState or None, default=None
        Seed. The state of the generator is part of the model.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d). Memory: O(B d). "modified" needs ||f||, which costs another kernel
    row per removal. Recording the ledger of "original" costs the same.

    For "original" the expected number of mistakes is at most ((sum of hinge losses) + U sqrt(B) + B S) /
    (1 - U / sqrt(B)) for every sequence of competitors of norm at most U < sqrt(B) whose total drift is S, if
    k(x, x) <= 1 (`bounds.randomized_budget`, which has a slightly better bound and its proof).

    For "modified" with its defaults, if k(x, x) <= 1: 3/4 of the expected number of mistakes is at most (sum
    of hinge losses) + B/2 + 6 S sqrt(B) for every sequence of competitors of norm at most sqrt(B)/8 whose
    total drift is S (Sutskever's paper, Theorem 1). `bounds.modified_randomized_budget_general` is the bound
    for other values of `eta` and `radius`.

    A margin of 0 is a mistake, with a full step. "modified" draws a slot on every mistake, also while the
    budget is not full.

    References
    ----------
    Sutskever: A simpler unified analysis of Budget Perceptrons (2009), Algorithm 1.
    Dekel, Shalev-Shwartz, Singer: The Forgetron (2008), section 8 ("CG").
    Cavallanti, Cesa-Bianchi, Gentile: Tracking the best hyperplane with a simple budget Perceptron (2007).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import RandomizedBudgetPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RandomizedBudgetPerceptron(budget=50, gamma=0.001, random_state=0)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 128 mistakes, error rate 0.0712, 50 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = (
        KernelClassifier._parameter_constraints
        | BUDGET
        | {
            "variant": [StrOptions({"original", "modified"})],
            "eta": [Interval(Real, 0.0, None, closed="neither"), None],
            "radius": [Interval(Real, 0.0, None, closed="neither"), None],
            "random_state": ["random_state"],
        }
    )

    def __init__(
        self,
        budget: int = 100,
        variant: str = "original",
        *,
        eta: float | None = None,
        radius: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.budget = budget
        self.variant = variant
        self.eta = eta
        self.radius = radius
        self.random_state = random_state

    def _rule(self, generator: np.random.Generator) -> RandomRule | ModifiedRandomRule:
        if self.variant == "original":
            return RandomRule(self.budget, ledger=("removed", "norm"), generator=generator)
        return ModifiedRandomRule(self.budget, *self._constants(), generator)

    def _constants(self) -> tuple[float, float]:
        """Return the step and the largest norm of "modified"."""
        eta = 1 / 16 if self.eta is None else self.eta
        return eta, float(np.sqrt(self.budget)) / 8 if self.radius is None else self.radius

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        if self.variant == "original":
            return [FunctionTheorem("randomized_budget", self._bound, drifts=True)]
        limit = self._constants()[1]
        general = FunctionTheorem(
            "modified_randomized_budget_general",
            self._general_bound,
            norm_weight=0.0,
            norm_limit=limit,
            drifts=True,
        )
        if (self.eta, self.radius) != (None, None):
            return [general]
        name = "modified_randomized_budget"
        theorem = FunctionTheorem(name, self._modified_bound, norm_weight=0.0, norm_limit=limit, drifts=True)
        return [theorem, general]

    def _bound(self, run: Run, check: bounds.Check) -> float:
        return bounds.randomized_budget(run.norm, run.losses, self.budget, run.shift, run.radius, check=check)

    def _modified_bound(self, run: Run, check: bounds.Check) -> float:
        return bounds.modified_randomized_budget(
            run.norm, run.losses, self.budget, run.shift, run.radius, check=check
        )

    def _general_bound(self, run: Run, check: bounds.Check) -> float:
        eta, limit = self._constants()
        return bounds.modified_randomized_budget_general(
            run.norm, run.losses, self.budget, eta, limit, run.shift, run.radius, check=check
        )
