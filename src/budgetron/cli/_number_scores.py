"""Predictions of a regressor, with intervals, and their errors."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from budgetron._evaluation.regression_result import error_text
from budgetron._evaluation.regressor import TargetScale
from budgetron.cli._models import SavedModel
from budgetron.cli._prefix import LabelArray, Rows

__all__ = ["Errors", "NumberPredictor"]


class Errors:
    """The errors of predictions, on rows whose target is known.

    Attributes
    ----------
    rows : int
        All rows that were predicted.
    """

    def __init__(self) -> None:
        self.rows = self._known = self._intervals = self._covered = 0
        self._squares = self._sizes = 0.0

    def add(self, predicted: LabelArray, y: LabelArray | None, values: NDArray[np.float64] | None) -> None:
        """Add the rows of a block; `values` are the ends of their intervals, if there are any."""
        self.rows += len(predicted)
        if y is None:
            return
        known = ~np.isnan(y)
        residuals = y[known] - predicted[known]
        self._known += int(known.sum())
        self._squares += float((residuals**2).sum())
        self._sizes += float(np.abs(residuals).sum())
        if values is not None:
            low, high = values[known].T
            self._intervals += int(known.sum())
            self._covered += int(((low <= y[known]) & (y[known] <= high)).sum())

    def summary(self) -> str:
        """Return the errors on the rows with targets, and the coverage of the intervals."""
        if not self._known:
            return ""
        rmse, mae = sqrt(self._squares / self._known), self._sizes / self._known
        text = f", RMSE {error_text(rmse)}, MAE {error_text(mae)}"
        text += " on the rows with targets"
        if self._intervals:
            text += f"; {100 * self._covered / self._intervals:.1f} % of them are in their intervals"
        return text


class NumberPredictor:
    """Predict rows by a regressor, with the columns that are wanted.

    Parameters
    ----------
    saved : SavedModel
    intervals : bool
        Whether the ends of the prediction intervals are wanted.
    refused : sequence of str
        Options that were given, but are for classifiers.
    """

    def __init__(self, saved: SavedModel, intervals: bool, refused: Sequence[str]) -> None:
        if refused:
            raise ValueError(f"{refused[0]} is for classes, but the model predicts numbers; leave it out")
        if intervals and not hasattr(saved.model, "predict_interval"):
            name = type(saved.model).__name__
            raise ValueError(f"--intervals: {name} has no intervals; learn with -l budget or --coverage")
        self._model = saved.model
        self._scale = saved.target_scale or TargetScale(0.0, 1.0)
        self.columns = ["low", "high"] if intervals else []

    def counts(self) -> Errors:
        """Return the errors of no rows."""
        return Errors()

    def predict(self, X: Rows) -> tuple[LabelArray, NDArray[np.float64] | None]:
        """Return the predictions, and the values of the columns."""
        values = self._scale.from_learner(self._model.predict_interval(X)) if self.columns else None
        return self._scale.from_learner(self._model.predict(X)), values
