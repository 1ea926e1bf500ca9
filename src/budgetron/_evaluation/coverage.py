"""Coverage and size of the prediction sets, or intervals, of a learner on one stream."""

from __future__ import annotations

from typing import TypedDict

from budgetron.bounds import conformal_misses
from budgetron.conformal import ConformalClassifier, ConformalRegressor

__all__ = ["Coverage", "coverage_of"]


class Coverage(TypedDict):
    """The share of the rounds whose set or interval should contain the label, that whose does, and a lower
    bound; the size is None for intervals.
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
