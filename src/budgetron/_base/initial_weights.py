"""Linear learners that may start from given weights."""

from __future__ import annotations

import numpy as np

from budgetron._base.linear_classifier import LARGEST, LinearClassifier
from budgetron._base.parameters import Constraints
from budgetron._core.linear import LinearRule
from budgetron._util.types import Matrix

__all__ = ["INITIAL_WEIGHTS", "InitialWeightsClassifier"]

# The constraint of the parameter. A tuple, because parameters are compared and stored in files.
INITIAL_WEIGHTS: Constraints = {"initial_weights": [tuple, None]}


class InitialWeightsClassifier(LinearClassifier):
    """A linear learner whose first weights are the parameter `initial_weights`: w_0 of its figure."""

    initial_weights: tuple[float, ...] | None

    def _make(self, X: Matrix, outputs: int) -> list[LinearRule]:
        rules = super()._make(X, outputs)
        if self.initial_weights is not None:
            if outputs > 1:
                raise ValueError(f"initial_weights are for two classes; got {outputs} classes")
            weights = np.asarray(self.initial_weights, dtype=object)
            numbers = all(isinstance(w, int | float | np.number) for w in self.initial_weights)
            if weights.shape != (X.shape[1],) or not numbers:
                raise ValueError(
                    f"initial_weights must be a tuple of {X.shape[1]} numbers, one per feature; "
                    f"got {len(self.initial_weights)} items"
                )
            start = weights.astype(np.float64)
            if not np.all(np.abs(start) < LARGEST):  # also if one is not a number
                raise ValueError(f"initial_weights must be finite and below {LARGEST:g} in size")
            rules[0].set_weights(start)
        return rules
