"""The classifiers that can be evaluated: learners of Budgetron, and those of other libraries."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from budgetron._base import access
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.row_player import RowPlayer
from budgetron._util.types import Floats, Labels, Matrix, Rows

__all__ = [
    "Classifier",
    "Estimator",
    "can_predict",
    "margins_before_label",
    "n_supports",
    "traces_its_predictions",
]


@runtime_checkable
class Classifier(Protocol):
    """A classifier that learns a stream: of Budgetron, or of any library that follows scikit-learn."""

    def partial_fit(self, X: Rows, y: ArrayLike, classes: Labels) -> object: ...
    def predict(self, X: Rows) -> Labels: ...


class Estimator(Classifier, Protocol):
    """A classifier with parameters."""

    def get_params(self, deep: bool = ...) -> dict[str, object]: ...


def can_predict(model: Classifier) -> bool:
    """Return whether a model has learned a row, so that `predict` works."""
    if isinstance(model, OnlineClassifier):
        return model.rounds_ > 0
    return hasattr(model, "classes_")  # by which scikit-learn recognises a fitted classifier


def traces_its_predictions(model: Classifier) -> bool:
    """Return whether `progressive_fit` reports the predictions that `predict` would have made."""
    return isinstance(model, OnlineClassifier) and access.predicts_as_it_learns(model)


def margins_before_label(model: OnlineClassifier, row: Matrix) -> Floats:
    """Return the margin of each output for one checked row; 0 before the first round."""
    if not model.rounds_:
        return np.zeros(len(model.classes_) if len(model.classes_) > 2 else 1)
    return access.margins_of(model, row)[:, 0]


def n_supports(model: object) -> int:
    """Return the number of supports over all outputs; 0 for models without supports."""
    return access.n_supports(model) if isinstance(model, RowPlayer) else 0
