"""The base of the kernel classifiers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from budgetron._base.kernel_estimator import KernelEstimator
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.parameters import BUDGET, Constraints
from budgetron._base.unmergeable import MERGEABLE, UnmergeableClassifier
from budgetron._core.rounds import Learner
from budgetron.kernels import KernelFunction, Normalized

__all__ = ["BudgetedClassifier", "KernelClassifier"]


class KernelClassifier(KernelEstimator, UnmergeableClassifier):
    """The base of the kernel classifiers. A subclass defines which rule it follows (`_rule`)."""

    _learned_names: ClassVar[frozenset[str]] = (
        KernelEstimator._learned_names | OnlineClassifier._learned_names
    )

    def _new_hypothesis(self, generator: np.random.Generator) -> Learner:
        one = self._learners[0]
        return Learner(one.kernel, self._rule(generator), one.n_features, one.dtype, one.supports.sparse)

    def _why_not_mergeable(self) -> str:
        return (
            f"{type(self).__name__} cannot be merged: learners of different rows store different supports. "
            "Their sum has the supports of all of them, and averages that were projected onto one budget "
            f"always made more mistakes than merging over fixed supports; {MERGEABLE}"
        )


class BudgetedClassifier(KernelClassifier):
    """A kernel learner with a budget and no other parameter of its own."""

    _parameter_constraints: ClassVar[Constraints] = KernelClassifier._parameter_constraints | BUDGET

    def __init__(
        self,
        budget: int = 100,
        *,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.budget = budget
