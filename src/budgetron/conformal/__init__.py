"""Prediction sets and intervals that contain a given share of the labels, on any stream.

`ConformalClassifier` and `ConformalRegressor` wrap a learner. `budgetron.certify` evaluates their theorem.
"""

from budgetron.conformal._classifier import ConformalClassifier
from budgetron.conformal._regressor import ConformalRegressor

__all__ = ["ConformalClassifier", "ConformalRegressor"]
