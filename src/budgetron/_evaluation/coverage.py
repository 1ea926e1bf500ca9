"""Coverage and size of the prediction sets, or intervals, of a learner on one stream."""

from __future__ import annotations

from typing import TypedDict

from budgetron._evaluation.regression_result import RegressionResult, error_text
from budgetron._evaluation.result import Result
from budgetron.bounds import conformal_misses
from budgetron.conformal import ConformalClassifier, ConformalRegressor

__all__ = ["Coverage", "coverage_of", "size_text"]


class Coverage(TypedDict):
    """The coverage that was asked for, that of all rounds, a lower bound on it, and the mean size of a set.

    The size is the number of classes, and None for intervals.
    """

    aim: float
    coverage: float
    guaranteed: float
    mean_set_size: float | None


def coverage_of(model: object) -> Coverage | None:
    """Return the figures of all rounds of a model; None if it has no guarantee, or has played no round."""
    if not isinstance(model, ConformalClassifier | ConformalRegressor) or not model.__sklearn_is_fitted__():
        return None
    rounds = int(model.counts_[0])
    if not rounds:
        return None
    least = 1.0 - conformal_misses(rounds, model.coverage, model.step) / rounds
    return {
        "aim": float(model.coverage),
        "coverage": model.coverage_,
        "guaranteed": max(0.0, least),
        "mean_set_size": model.mean_set_size_ if isinstance(model, ConformalClassifier) else None,
    }


def size_text(result: Result | RegressionResult, figures: Coverage) -> str:
    """Return the mean number of classes in a set, or the median width of the recent intervals."""
    if isinstance(result, RegressionResult):
        return "-" if result.window_width is None else error_text(result.window_width)
    return f"{figures['mean_set_size']:.2f}"
