"""What the river adapter needs from a learner of Budgetron beyond its public methods."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from budgetron._base.online_classifier import OnlineClassifier
from budgetron._core.rounds import Learner

__all__ = [
    "add_features",
    "admit_class",
    "check_parameters",
    "margins_of_row",
    "margins_of_rows",
    "predicts_as_it_learns",
    "row_dtype",
]


def check_parameters(model: OnlineClassifier) -> None:
    """Raise an error if a parameter is invalid."""
    model._validate_params()


def predicts_as_it_learns(model: OnlineClassifier) -> bool:
    """Return whether the margin of a round comes from the hypothesis that `predict` uses."""
    return model._predicts_as_it_learns


def row_dtype(model: OnlineClassifier) -> np.dtype[np.floating]:
    """Return the floating-point type in which a fitted model computes."""
    dtype: np.dtype[np.floating] = model._learners[0].row.dtype
    return dtype


def add_features(model: OnlineClassifier, n_features: int) -> None:
    """Extend the rows of a fitted model to `n_features`; the new features were 0 in all rounds so far."""
    model._widen(n_features)


def admit_class(model: OnlineClassifier, code: int) -> None:
    """Add a class to a fitted model."""
    model._admit(code)


def margins_of_rows(model: OnlineClassifier, rows: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return margins of shape (n_outputs, n_rows), each row taken as the next row of the stream."""
    return model._next_margins(rows)


def margins_of_row(model: OnlineClassifier, row: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return margins of shape (n_outputs,) of the next row of the stream."""
    hypotheses = model._learners
    first = hypotheses[0]
    has_budget = not isinstance(first, Learner) or first.rule.budget > 0
    if model._predicts_as_it_learns and has_budget:
        # A round that is opened and never closed changes nothing and is much faster. Without a budget,
        # opening a round may enlarge the storage.
        return np.array([hypothesis.open_round(row) for hypothesis in hypotheses])
    return model._next_margins(row[None])[:, 0]
