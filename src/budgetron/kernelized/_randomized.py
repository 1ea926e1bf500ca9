"""The Randomized Budget Perceptron: the original (002, 003 section 8) and 000 Algorithm 1."""

from numbers import Integral, Real
from typing import Any, ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import Rule
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import MOST_SUPPORTS
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class RandomRule(Rule):
    """On a mistake with a full budget, a random support makes room."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        if self.size() == self.budget:
            self.remove(self.draw(self.budget))  # one of I_t; the newcomer stays
        self.add(self.y)
        return 1


@cython.cclass
class ModifiedRandomRule(Rule):
    """000 Algorithm 1: small steps, a random term subtracted on every mistake, and a ball."""

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
        # w <- pi_C(w + eta y phi(x) - s(w)): s(w) is one of w's B terms, of which the
        # last B - m are zero (footnote 2)
        term: cython.Py_ssize_t = self.draw(self.budget)
        if term < self.size():
            self.remove(term)
        self.add(self.eta * self.y)
        if self.norm() > self.radius:  # pi_C, C = {w : ||w|| <= radius}
            self.shrink(self.radius / self.norm())
        return 1


@cython.annotation_typing(False)  # here they are for readers
class RandomizedBudgetPerceptron(KernelClassifier):
    """The Perceptron that forgets a random support when the budget is full.

    As simple and fast as a budget can be, and about as good as the self-tuned
    `Forgetron`; its results vary from seed to seed.

    Parameters
    ----------
    budget : int, default=100
        The most supports after a round; with more than two classes, of each class.
    variant : {"original", "modified"}, default="original"
        "original" takes whole steps and removes when the budget is full. "modified" is the
        algorithm with the better bound: steps of `eta`, a random one of `budget` terms,
        absent ones included, removed on every mistake, and ||f|| kept within `radius`.
    eta : float, default=None
        Step of "modified"; by default 1/16 (000 Theorem 1).
    radius : float, default=None
        Largest norm of "modified"; by default sqrt(budget) / 8 (000 Theorem 1).
    random_state : int, RandomState or None, default=None
        Seed. The generator's state is part of the model.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Threads that share the kernel values of a batch: None is 1, -1 all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d); memory O(B d). "modified" needs ||f||, and so another
    kernel row per removal, as does the ledger of "original".

    With ||x|| <= 1 in feature space, "modified" and its defaults: 3/4 of the expected number
    of mistakes is at most (sum of hinge losses) + B/2 + 6 S sqrt(B) for every sequence of
    competitors of norm at most sqrt(B)/8 that moves by S in all (000 Theorem 1).

    A zero margin is a mistake with a whole step; the draw is made on every mistake of
    "modified", also while the budget is not full.

    References
    ----------
    Sutskever: A simpler unified analysis of Budget Perceptrons (2009), Algorithm 1.
    Dekel, Shalev-Shwartz, Singer: The Forgetron (2008), section 8 ("CG").

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import RandomizedBudgetPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RandomizedBudgetPerceptron(budget=50, gamma=0.001, random_state=0)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 128 mistakes, error rate 0.0712, 50 supports)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = KernelClassifier._parameter_constraints | {
        "budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both")],
        "variant": [StrOptions({"original", "modified"})],
        "eta": [Interval(Real, 0.0, None, closed="neither"), None],
        "radius": [Interval(Real, 0.0, None, closed="neither"), None],
        "random_state": ["random_state"],
    }

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
        eta = 1 / 16 if self.eta is None else self.eta
        radius = np.sqrt(self.budget) / 8 if self.radius is None else self.radius
        return ModifiedRandomRule(self.budget, eta, radius, generator)
