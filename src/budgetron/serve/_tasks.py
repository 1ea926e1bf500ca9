"""What a model predicts, classes or numbers: how labels are kept, learned and counted, and what is answered.

No other module of the service distinguishes classifiers from regressors, except those that describe models.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from budgetron._base.batches import predicted_codes
from budgetron._evaluation.regression_result import error_text
from budgetron._evaluation.regressor import TargetScale
from budgetron._util.types import Floats
from budgetron.serve._statistics import ClassStatistics, NumberStatistics, Statistics
from budgetron.streams import Targets
from budgetron.streams._labels import Labels
from budgetron.streams._targets import LARGEST

__all__ = ["MAX_LABEL", "Classification", "Predictions", "Regression", "Task", "task_of"]

MAX_LABEL = 1000  # characters
_LABEL_TYPES = (str, int, float)


@dataclass(frozen=True)
class Predictions:
    """Predictions for some rows.

    Attributes
    ----------
    values : ndarray
        Indices of classes, or numbers. `Task.nothing` if nothing was learned yet.
    probabilities : ndarray of shape (n_rows, n_classes) or None
        None if the learner does not provide them.
    regions : ndarray or None
        For classes, whether each is in the set of a row; for numbers, the ends of the interval of each row.
        None if they were not asked for, or if nothing was learned yet.
    """

    values: NDArray[Any]
    probabilities: Floats | None = None
    regions: NDArray[Any] | None = None


class Task(ABC):
    """What a model predicts.

    Attributes
    ----------
    name : str
    dtype : data type
        How labels and predictions are kept.
    nothing : number
        Instead of a prediction, if nothing was learned yet.
    regions : str
        What is asked for sets or intervals, as a member of a request.
    classes : list or None
        All labels, sorted; None if labels are numbers.
    """

    name: ClassVar[str]
    dtype: ClassVar[DTypeLike]
    nothing: ClassVar[float]
    regions: ClassVar[str]
    region_method: ClassVar[str]  # of learners that have sets or intervals
    classes: list[Any] | None

    @abstractmethod
    def value_of(self, label: object) -> float:
        """Return a label as it is kept; raise `ValueError` with the reason if it cannot be used."""

    @abstractmethod
    def is_fitted(self, model: Any) -> bool:
        """Return whether a learner can predict."""

    @abstractmethod
    def are_nothing(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which predictions were made before anything was learned."""

    @abstractmethod
    def statistics(self) -> Statistics:
        """Return counts without labels."""

    @abstractmethod
    def predict(self, model: Any, X: Any, regions: bool) -> Predictions:
        """Predict rows by a fitted learner."""

    @abstractmethod
    def play(self, model: Any, X: Any, labels: NDArray[Any], fitted: bool) -> NDArray[Any]:
        """Learn rows; return the prediction of each before it was learned."""

    @abstractmethod
    def answers(
        self, ids: Iterable[str | None], found: Predictions, rows: slice, regions: bool
    ) -> list[dict[str, Any]]:
        """Return predictions as the client gets them."""

    @abstractmethod
    def text(self, found: Predictions) -> str:
        """Return the prediction of one row in words."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the task as plain values, for `task_of`."""

    def extras(self) -> dict[str, Any]:
        """Return what the command line needs in a model file."""
        return {}


class Classification(Task):
    """Labels are classes. They are kept as indices of the sorted classes."""

    name = "classification"
    dtype = np.int64
    nothing = -1
    regions = "sets"
    region_method = "predict_set"
    classes: list[Any]

    def __init__(self, classes: list[Any]) -> None:
        self._labels = Labels(classes, typed=True)
        self.classes = self._labels.classes.tolist()
        self._codes = {(type(label), label): code for code, label in enumerate(self.classes)}

    def value_of(self, label: Any) -> int:
        try:
            return self._codes[type(label), label]
        except (KeyError, TypeError):  # written differently, as 1.0 for 1; or unknown
            pass
        usable = isinstance(label, _LABEL_TYPES) and len(str(label)[: MAX_LABEL + 1]) <= MAX_LABEL
        code = self._labels.code_of(label) if usable else -1
        if code < 0:
            raise ValueError(f"the label {_shown(label)} is not among the classes {self._labels}")
        return code

    def is_fitted(self, model: Any) -> bool:
        return getattr(model, "classes_", None) is not None

    def are_nothing(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = values < 0
        return found

    def statistics(self) -> Statistics:
        return ClassStatistics(len(self.classes))

    def predict(self, model: Any, X: Any, regions: bool) -> Predictions:
        sets = model.predict_set(X) if regions else None
        if not hasattr(model, "decision_function"):
            codes = np.searchsorted(self._labels.classes, model.predict(X)).astype(np.int64)
            return Predictions(codes, None, sets)
        margins = model.decision_function(X)
        codes = predicted_codes(margins).astype(np.int64)
        if not hasattr(model, "predict_proba"):
            return Predictions(codes, None, sets)
        of_margins = getattr(model, "probabilities_from_margins", None)
        probabilities = model.predict_proba(X) if of_margins is None else of_margins(margins)
        return Predictions(codes, probabilities, sets)

    def play(self, model: Any, X: Any, labels: NDArray[Any], fitted: bool) -> NDArray[Any]:
        y = self._labels.classes[labels]
        options = {} if fitted else {"classes": self._labels.classes}
        if hasattr(model, "progressive_fit"):
            codes: NDArray[Any] = model.progressive_fit(X, y, **options).codes.astype(np.int64)
            return codes
        predicted = self.predict(model, X, False).values if fitted else np.full(len(y), -1)
        model.partial_fit(X, y, **options)
        return predicted

    def answers(
        self, ids: Iterable[str | None], found: Predictions, rows: slice, regions: bool
    ) -> list[dict[str, Any]]:
        classes, codes = self.classes, found.values[rows].tolist()
        shares: list[Any] = [None] * len(codes)
        if found.probabilities is not None:
            names = [str(label) for label in classes]
            shares = [dict(zip(names, row, strict=True)) for row in found.probabilities[rows].tolist()]
        answers = [
            {"id": id, "prediction": None if code < 0 else classes[code], "probabilities": share}
            for id, code, share in zip(ids, codes, shares, strict=True)
        ]
        if regions:  # all classes if nothing was learned yet
            shape = len(codes), len(classes)
            sets = np.ones(shape, bool) if found.regions is None else found.regions[rows]
            for answer, inside in zip(answers, sets.tolist(), strict=True):
                answer["set"] = [label for label, is_in in zip(classes, inside, strict=True) if is_in]
        return answers

    def text(self, found: Predictions) -> str:
        code = int(found.values[0])
        if found.probabilities is None:
            return str(self.classes[code])
        return f"{self.classes[code]} (probability {found.probabilities[0, code]:.3f})"

    def state(self) -> dict[str, Any]:
        return {"classes": self.classes}


class Regression(Task):
    """Labels are numbers.

    Parameters
    ----------
    targets : Targets
        How numbers are written as text.
    scale : TargetScale or None
        How numbers are scaled for the learner.
    """

    name = "regression"
    dtype = np.float64
    nothing = np.nan
    regions = "intervals"
    region_method = "predict_interval"
    classes = None

    def __init__(self, targets: Targets | None = None, scale: TargetScale | None = None) -> None:
        self._targets, self._scale = targets or Targets(), scale

    def value_of(self, label: object) -> float:
        usable = isinstance(label, int | float) or (isinstance(label, str) and len(label) <= MAX_LABEL)
        try:
            number = self._targets.number(label) if usable else np.nan
        except OverflowError:  # an integer of many digits
            number = np.inf
        if not abs(number) < LARGEST:
            problem = "is not a number" if number != number else "is too large; scale the labels"
            raise ValueError(f"the label {_shown(label)} {problem}")
        return number

    def is_fitted(self, model: Any) -> bool:
        return getattr(model, "n_features_in_", None) is not None

    def are_nothing(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.isnan(values)
        return found

    def statistics(self) -> Statistics:
        return NumberStatistics()

    def predict(self, model: Any, X: Any, regions: bool) -> Predictions:
        intervals = self._from_learner(model.predict_interval(X)) if regions else None
        return Predictions(self._from_learner(model.predict(X)), None, intervals)

    def play(self, model: Any, X: Any, labels: NDArray[Any], fitted: bool) -> NDArray[Any]:
        y = labels if self._scale is None else self._scale.to_learner(labels)
        return self._from_learner(model.progressive_fit(X, y).predictions)

    def _from_learner(self, values: Floats) -> Floats:
        return values if self._scale is None else self._scale.from_learner(values)

    def answers(
        self, ids: Iterable[str | None], found: Predictions, rows: slice, regions: bool
    ) -> list[dict[str, Any]]:
        values = found.values[rows].tolist()
        answers: list[dict[str, Any]] = [
            {"id": id, "prediction": None if value != value else value}
            for id, value in zip(ids, values, strict=True)
        ]
        if regions:  # without ends if nothing was learned yet
            ends = (
                np.tile([-np.inf, np.inf], (len(values), 1)) if found.regions is None else found.regions[rows]
            )
            for answer, interval in zip(answers, ends.tolist(), strict=True):
                empty = interval[0] != interval[0]
                answer["interval"] = [] if empty else [end if isfinite(end) else None for end in interval]
        return answers

    def text(self, found: Predictions) -> str:
        return error_text(float(found.values[0]))

    def state(self) -> dict[str, Any]:
        return {"task": self.name}

    def extras(self) -> dict[str, Any]:
        scale = None if self._scale is None else list(self._scale)
        return {"targets": self._targets.state(), "target_scale": scale}


def task_of(extras: dict[str, Any]) -> Task:
    """Return the task of a model file of the service, or the regression of one of the command line."""
    served = extras.get("serve") or {}
    if "classes" in served:
        return Classification(list(served["classes"]))
    stored, scale = extras.get("targets"), extras.get("target_scale")
    targets = None if stored is None else Targets(stored["form"], stored["unit"])
    if scale is None:
        return Regression(targets)
    center, deviation = map(float, scale)
    if not (isfinite(center) and isfinite(deviation) and deviation > 0.0):
        raise ValueError("the file does not say how targets are scaled; save the model again")
    return Regression(targets, TargetScale(center, deviation))


def _shown(label: object) -> str:
    return json.dumps(label)[:80]
