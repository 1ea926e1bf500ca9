"""What the Passive-Aggressive learners have in common: their variants, and which of them have weights."""

from __future__ import annotations

from math import inf
from numbers import Real

from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.parameters import Constraints
from budgetron._base.weighted_classifier import WeightedClassifier
from budgetron._util.types import Floats, Labels, Matrix

__all__ = ["EPSILON", "PA_VARIANTS", "PassiveAggressiveClassifier", "step_limits"]

# The constraints of the parameters: of all these learners, and of the regressors.
PA_VARIANTS: Constraints = {
    "C": [Interval(Real, 0.0, None, closed="neither")],
    "variant": [StrOptions({"PA", "PA-I", "PA-II"})],
}
EPSILON: Constraints = {"epsilon": [Interval(Real, 0.0, None, closed="left")]}


def step_limits(variant: str, C: float) -> tuple[float, float]:
    """Return the largest step of a variant, and the number that is added to the squared norm of a row."""
    return C if variant == "PA-I" else inf, 1 / (2 * C) if variant == "PA-II" else 0.0


class PassiveAggressiveClassifier(WeightedClassifier):
    """A classifier of these variants: all but "PA" support weights, which multiply C."""

    C: float
    variant: str

    def _importances(self, X: Matrix, labels: Labels, weights: ArrayLike | None) -> Floats | None:
        importances = super()._importances(X, labels, weights)
        if importances is not None and self.variant == "PA":
            raise ValueError(
                'variant="PA" does not support weights, because it has no C; use "PA-I" or "PA-II"'
            )
        return importances
