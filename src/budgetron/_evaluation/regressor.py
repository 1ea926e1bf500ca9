"""The regressors that can be evaluated, and how they play the rounds of a block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from budgetron._base.access import start_regressor
from budgetron._base.online_regressor import OnlineRegressor
from budgetron._evaluation.classifier import n_supports
from budgetron._evaluation.delayed import DelayedRows
from budgetron._util.threads import one_thread
from budgetron._util.types import Floats, Ints, Rows

__all__ = [
    "Predicted",
    "Regressor",
    "TargetScale",
    "TargetScales",
    "is_regressor",
    "learn_row",
    "play_block",
    "play_delayed",
    "scale_of",
]

# The targets of this number of rows determine their center and scale.
SCALED_BY = 100


class Regressor(Protocol):
    """A regressor that learns a stream: of Budgetron, or of any library that follows scikit-learn."""

    def partial_fit(self, X: Rows, y: ArrayLike) -> object: ...
    def predict(self, X: Rows) -> Floats: ...
    def get_params(self, deep: bool = ...) -> dict[str, object]: ...


def is_regressor(model: object) -> TypeGuard[Regressor]:
    """Return whether a model predicts numbers."""
    return isinstance(model, RegressorMixin)


class TargetScale(NamedTuple):
    """A learner learns (y - center) / scale, and its predictions are converted back."""

    center: float
    scale: float

    def to_learner(self, y: Floats) -> Floats:
        """Return targets as the learner gets them."""
        return (y - self.center) / self.scale

    def from_learner(self, values: Floats) -> Floats:
        """Return predictions in the unit of the targets."""
        return self.center + self.scale * values


def scale_of(y: ArrayLike) -> TargetScale:
    """Return the mean and the standard deviation of the first targets; the latter 1 if they are equal."""
    first = np.asarray(y, np.float64)[:SCALED_BY]
    deviation = float(first.std())
    equal = not deviation > 1e-9 * float(np.abs(first).max())
    return TargetScale(float(first.mean()), 1.0 if equal else deviation)


# By the name of the learner; the others get targets as they are.
TargetScales = Mapping[str, TargetScale]


class Predicted(NamedTuple):
    """The rounds of a block: predictions before the targets were seen, supports after each round, and the
    intervals of the predictions, of learners that have intervals.
    """

    predictions: Floats
    supports: Ints
    intervals: Floats | None

    def converted(self, scale: TargetScale) -> Predicted:
        """Return the same in the unit of the targets."""
        intervals = None if self.intervals is None else scale.from_learner(self.intervals)
        return Predicted(scale.from_learner(self.predictions), self.supports, intervals)


def play_block(model: Regressor, X: Rows, y: Floats) -> Predicted:
    """Play the rounds of a block with targets that are known immediately."""
    if isinstance(model, OnlineRegressor):
        trace = model.progressive_fit(X, y)
        return Predicted(trace.predictions, trace.support_sizes, trace.intervals)
    return play_delayed(model, X, y, DelayedRows(), 0)


def play_delayed(model: Regressor, X: Rows, y: Floats, waiting: DelayedRows, delay: int) -> Predicted:
    """Predict each row, then learn the row that came `delay` rows earlier.

    Before its first row, a model predicts 0.
    """
    if isinstance(model, OnlineRegressor):
        start_regressor(model, X, y)  # so that the whole block determines gamma="scale"
    predictions, supports = np.zeros(len(y)), np.zeros(len(y), np.int64)
    interval_of = getattr(model, "predict_interval", None)  # few regressors have it
    intervals = None if interval_of is None else np.zeros((len(y), 2))
    with one_thread():
        for t in range(len(y)):
            row = X[t : t + 1]
            can_predict = _can_predict(model)
            if can_predict:
                predictions[t] = model.predict(row)[0]
            has_interval = can_predict or isinstance(model, OnlineRegressor)  # before the first row, too
            if has_interval and interval_of is not None and intervals is not None:
                intervals[t] = interval_of(row)[0]
            waiting.add(row, y[t])
            if len(waiting) > delay:
                learn_row(model, *waiting.next())
            supports[t] = n_supports(model)
    return Predicted(predictions, supports, intervals)


def _can_predict(model: Regressor) -> bool:
    """Return whether a model has learned a row, so that `predict` works."""
    if isinstance(model, OnlineRegressor):
        return model.rounds_ > 0
    return hasattr(model, "n_features_in_")  # by which scikit-learn recognises a fitted regressor


def learn_row(model: Regressor, row: Rows, target: float) -> None:
    """Learn one row of shape (1, n_features)."""
    if isinstance(model, OnlineRegressor):
        model.play(row, float(target))
    else:
        model.partial_fit(row, [target])
