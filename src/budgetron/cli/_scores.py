"""Predictions of a model with margins and probabilities, and how many of them are right."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from budgetron._evaluation.by_name import Learner
from budgetron._evaluation.ranking import rare_classes
from budgetron.cli._prefix import LabelArray, Rows

__all__ = ["Counts", "Predictor"]


@dataclass
class Counts:
    """Rows with labels by class and prediction.

    Attributes
    ----------
    classes : list
    predicted : ndarray of shape (n_classes, n_classes)
        Rows whose label is a class of the model.
    without_label : int
        The others.
    """

    classes: list[object]
    predicted: NDArray[np.int64] = field(init=False)
    without_label: int = 0

    def __post_init__(self) -> None:
        self.predicted = np.zeros((len(self.classes), len(self.classes)), np.int64)
        self._index = {str(label): i for i, label in enumerate(self.classes)}

    @property
    def rows(self) -> int:
        """All rows that were predicted."""
        return int(self.predicted.sum()) + self.without_label

    def add(
        self, predicted: LabelArray, y: LabelArray | None, values: NDArray[np.float64] | None = None
    ) -> None:
        """Count the rows of a block. Labels are compared as text: a number may be text in another file."""
        labels = [None] * len(predicted) if y is None else y.tolist()
        for prediction, label in zip(predicted.tolist(), labels, strict=True):
            if label is None or str(label) not in self._index:
                self.without_label += 1
            else:
                self.predicted[self._index[str(label)], self._index[str(prediction)]] += 1

    def summary(self) -> str:
        """Return the error on the rows with labels, and precision and recall of a rare class."""
        total = int(self.predicted.sum())
        if not total:
            return ""
        right = np.diag(self.predicted)
        text = f", error {100 * (1 - right.sum() / total):.2f} % on the rows with labels"
        of_class = self.predicted.sum(axis=1)
        for i in rare_classes(of_class):
            precision = 100 * right[i] / max(1, self.predicted[:, i].sum())
            text += f"; class {self.classes[i]} ({100 * of_class[i] / total:.2f} % of them): "
            text += f"precision {precision:.1f} %, recall {100 * right[i] / of_class[i]:.1f} %"
        return text


class Predictor:
    """Predict rows by a model, with the columns that are wanted.

    Parameters
    ----------
    model : learner
    margins, proba : bool
        Whether margins and probabilities are wanted.
    threshold : str or None
        A probability, as "0.2" or "label=0.2".
    """

    def __init__(self, model: Learner, margins: bool, proba: bool, threshold: str | None) -> None:
        self.classes: list[object] = model.classes_.tolist()
        self._model, self._margins, self._proba = model, margins, proba
        self._threshold = None if threshold is None else self._parsed(threshold)
        if (proba or threshold is not None) and not hasattr(model, "predict_proba"):
            option = "--proba" if proba else "--threshold"
            raise ValueError(
                f"{option}: {type(model).__name__} does not provide probabilities; learn with -l budget or "
                "-l arow:loss=logistic"
            )
        outputs = self.classes[1:] if len(self.classes) == 2 else self.classes
        self.columns = _names("margin", outputs) if margins else []
        self.columns += _names("proba", self.classes) if proba else []

    def _parsed(self, threshold: str) -> tuple[int, float]:
        """Return the class and its least probability."""
        label, _, number = threshold.rpartition("=")
        try:
            least = float(number)
        except ValueError:
            raise ValueError(f"--threshold must be a number or label=number; got {threshold!r}") from None
        if not 0.0 <= least <= 1.0:
            raise ValueError(f"--threshold must be a probability from 0 to 1; got {number}")
        names = [str(one) for one in self.classes]
        if label and label not in names:
            raise ValueError(f"--threshold: the model has no class {label!r}; it has {', '.join(names)}")
        return names.index(label) if label else len(names) - 1, least

    def counts(self) -> Counts:
        """Return the counts of no rows."""
        return Counts(self.classes)

    def predict(self, X: Rows) -> tuple[LabelArray, NDArray[np.float64] | None]:
        """Return the predictions, and the values of the columns."""
        parts = []
        if self._margins:
            parts.append(self._model.decision_function(X).reshape(X.shape[0], -1))
        chances = self._model.predict_proba(X) if self._proba or self._threshold is not None else None
        if self._proba:
            parts.append(chances)
        values = np.hstack(parts) if parts else None
        if self._threshold is None or chances is None:
            return self._model.predict(X), values
        label, least = self._threshold
        others = chances.copy()
        others[:, label] = -1.0
        codes = np.where(chances[:, label] >= least, label, others.argmax(axis=1))
        return self._model.classes_[codes], values


def _names(prefix: str, labels: list[object]) -> list[str]:
    """Return a column name for each label, without spaces, all different."""
    names: list[str] = []
    for label in labels:
        name = f"{prefix}_{'_'.join(str(label).split())}"
        while name in names:
            name += "_"
        names.append(name)
    return names
