"""Coverage and size of the prediction sets of a learner on one stream."""

from __future__ import annotations

from typing import TypedDict

from budgetron.bounds import conformal_misses
from budgetron.conformal import ConformalClassifier

__all__ = ["Coverage", "coverage_of"]


class Coverage(TypedDict):
    """The share of the rounds whose set should contain the label, that whose set does, and a lower bound."""

    aim: float
    coverage: float
    guaranteed: float
    mean_set_size: float


def coverage_of(model: object) -> Coverage | None:
    """Return the figures of all rounds of a model; None if it predicts no sets, or has played no round."""
    if not isinstance(model, ConformalClassifier) or not model.__sklearn_is_fitted__() or not model.rounds_:
        return None
    rounds = model.rounds_
    least = 1.0 - conformal_misses(rounds, model.coverage, model.step) / rounds
    return {
        "aim": float(model.coverage),
        "coverage": model.coverage_,
        "guaranteed": max(0.0, least),
        "mean_set_size": model.mean_set_size_,
    }
