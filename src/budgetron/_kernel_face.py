"""The kernel learners' face: the kernel's parameters, and the supports as fitted attributes."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._core.rounds import Learner
from budgetron._core.rule import Rule
from budgetron._face import OnlineClassifier
from budgetron.kernels import NAMES, KernelFunction, Normalized, resolve, resolve_gamma

__all__ = ["BudgetedClassifier", "KernelClassifier"]


class KernelClassifier(OnlineClassifier):
    """What all kernel learners share.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "laplacian", "allsubsets"}, callable or Normalized, default="rbf"
        The kernel; see `budgetron.kernels`.
    gamma : float, "scale" or "auto", default="scale"
        Width of "rbf" and "laplacian", factor of "poly". "scale" is
        1 / (n_features * X.var()) of the first batch, and stays.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant term of "poly".
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions(set(NAMES)), callable, Normalized],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "degree": [Interval(Integral, 0, 2**31 - 1, closed="both")],
        "coef0": [Interval(Real, None, None, closed="neither")],
    }

    kernel: str | KernelFunction | Normalized
    gamma: float | str
    degree: int
    coef0: float
    gamma_: float
    _learners: list[Learner]

    def __init__(
        self,
        *,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def _rule(self, generator: np.random.Generator) -> Rule:
        """The algorithm with this learner's parameters, ready for its first round."""
        raise NotImplementedError(f"{type(self).__name__} does not say which rule it follows")

    def _make(self, X: Any, outputs: int) -> list[Learner]:
        self.gamma_ = resolve_gamma(self.gamma, X)
        kernel = resolve(self.kernel, self.gamma_, self.degree, self.coef0)
        return [
            Learner(kernel, self._rule(generator), X.shape[1], X.dtype)
            for generator in self._generators(outputs)
        ]

    def _fitted(self) -> list[Learner]:
        super()._fitted()
        return self._learners

    @property
    def support_(self) -> NDArray[np.int64]:
        """The 0-based round in which each support was added, oldest first."""
        rounds = [_live(learner, "rounds") for learner in self._fitted()]
        return rounds[0] if len(rounds) == 1 else np.unique(np.concatenate(rounds))

    @property
    def support_vectors_(self) -> NDArray[Any]:
        """The supports, one row each, in the order of `support_`."""
        learners = self._fitted()
        if len(learners) == 1:
            return _live(learners[0], "rows")
        rounds = self.support_
        rows = np.empty((len(rounds), self.n_features_in_), learners[0].row.dtype)
        for learner in learners:
            rows[np.searchsorted(rounds, _live(learner, "rounds"))] = _live(learner, "rows")
        return rows

    @property
    def dual_coef_(self) -> NDArray[np.float64]:
        """Coefficients of shape (n_outputs, n_support_), in the order of `support_`."""
        rounds = self.support_
        coef = np.zeros((len(self._learners), len(rounds)))
        for i, learner in enumerate(self._learners):
            coef[i, np.searchsorted(rounds, _live(learner, "rounds"))] = learner.rule.coefficients()
        return coef

    @property
    def n_support_(self) -> int:
        """Number of supports; one that several classes hold counts once."""
        return len(self.support_)


class BudgetedClassifier(KernelClassifier):
    """A kernel learner with a budget and no other parameter of its own."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = KernelClassifier._parameter_constraints | {
        "budget": [Interval(Integral, 1, None, closed="left")]
    }

    def __init__(
        self,
        budget: int = 100,
        *,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0)
        self.budget = budget


def _live(learner: Learner, array: str) -> NDArray[Any]:
    """An array of the slab for the supports alone, oldest first."""
    values: NDArray[Any] = getattr(learner.supports, array)[learner.supports.order[: learner.supports.m]]
    return values
