"""Linear learners that may start from given weights."""

from __future__ import annotations

import numpy as np

from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.linear_estimator import LARGEST
from budgetron._base.parameters import Constraints
from budgetron._core.linear import LinearRule
from budgetron._util.types import Floats, Matrix

__all__ = ["INITIAL_WEIGHTS", "InitialWeightsClassifier", "initial_numbers"]

# The constraint of the parameter. A tuple, because parameters are compared and stored in files.
INITIAL_WEIGHTS: Constraints = {"initial_weights": [tuple, None]}


def initial_numbers(given: tuple[float, ...], name: str, n: int, per: str, outputs: int) -> Floats:
    """Return the numbers of a parameter that says from where to start, or raise an error that names it."""
    if outputs > 1:
        raise ValueError(f"{name} are for two classes; got {outputs} classes")
    if len(given) != n or not all(isinstance(value, int | float | np.number) for value in given):
        raise ValueError(f"{name} must be a tuple of {n} numbers, one per {per}; got {len(given)} items")
    start = np.array([float(value) for value in given])
    if not np.all(np.abs(start) < LARGEST):  # also if one is not a number
        raise ValueError(f"{name} must be finite and below {LARGEST:g} in size")
    return start


class InitialWeightsClassifier(LinearClassifier):
    """A linear learner whose first weights are the parameter `initial_weights`: w_0 of its figure."""

    initial_weights: tuple[float, ...] | None

    def _make(self, X: Matrix, outputs: int) -> list[LinearRule]:
        rules = super()._make(X, outputs)
        if self.initial_weights is not None:
            given = self.initial_weights
            start = initial_numbers(given, "initial_weights", X.shape[1], "feature", outputs)
            rules[0].set_weights(np.append(np.zeros(rules[0].constant), start))  # intercept 0
        return rules
