"""The river adapter of the classifiers.

It converts labels to the classes 0, 1, 2, ... in the order in which they are first seen.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, TypedDict

import numpy as np
from numpy.typing import NDArray
from river import base

from budgetron._base.access import add_class, next_margins, next_row_margins, predicts_as_it_learns
from budgetron._base.batches import predicted_codes
from budgetron._base.large_values import LargeValueError
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._core.calibration import log_odds, sigmoids, sound
from budgetron.calibration import observe, probabilities, with_class_added
from budgetron.portfolio import BudgetClassifier
from budgetron.river._features import Features, is_missing, table_values
from budgetron.river._learner import RiverLearner, is_list_of_distinct

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RiverClassifier"]

# Any hashable value that river accepts as a label.
Label = base.typing.ClfTarget

HINT = "Leave out rows without a label"


class Parts(TypedDict):
    """What a model file holds of an adapter, apart from its parameters."""

    model: OnlineClassifier
    features: list[Hashable]
    labels: list[Label]
    sigmoids: NDArray[np.float64]


class RiverClassifier(RiverLearner, base.MiniBatchClassifier):
    """The base class of the river adapters of classifiers; see `budgetron.river`."""

    _learner: ClassVar[type[OnlineClassifier]]
    _model: OnlineClassifier

    def __init__(self, *args: object, **params: object) -> None:
        super().__init__(*args, **params)
        self._labels: list[Label] = []
        self._codes: dict[Label, int] = {}
        # One sigmoid per output. BudgetClassifier has its own, which it updates in every round.
        self._sigmoids: NDArray[np.float64] | None = (
            None if isinstance(self._model, BudgetClassifier) else sigmoids(1)
        )

    # ------------------------------------------------------------------ learning

    def learn_one(self, x: Features, y: Label) -> None:
        """Play one round."""
        if y in self._codes and self._features.knows_all(x):
            self._play(x, y)
            return
        if is_missing(y):
            raise ValueError(f"the label must be a value; got {y!r}. {HINT}")
        if y in self._codes and not self._features.new_in(x):  # what has no column is missing
            self._play(x, y)
            return
        with self._unchanged_on_error():
            self._add_features(x)
            self._play(x, y)

    def _play(self, x: Features, y: Label) -> None:
        row = self._row(x)
        code = self._code_of(y)
        try:
            if not self._is_fitted():
                margins = self._model.play(row, code, classes=[0, 1])
            elif predicts_as_it_learns(self._model):
                margins = self._model.play(row, code)
            else:  # the margin of the round is not that of the prediction
                margins = self._margins_of(row)
                self._model.play(row, code)
        except LargeValueError as error:
            raise error.at(name=repr(self._features.name(error.feature))) from None
        if self._sigmoids is not None:
            observe(self._sigmoids, np.asarray(margins, np.float64).reshape(1, -1), np.array([code]))

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Play one round per row, in order: the result of a loop of `learn_one`, but faster.

        A cell without a value (NaN) is a missing feature.
        """
        values, labels = table_values(X), list(y)
        if len(labels) != len(values):
            raise ValueError(
                f"X and y must have one label per row; got {len(values)} rows and {len(labels)} labels"
            )
        if not labels:
            return
        missing = next((i for i, label in enumerate(labels) if is_missing(label)), None)
        if missing is not None:
            raise ValueError(
                f"every row needs a label; the label of row {missing} is {labels[missing]!r}. {HINT}"
            )
        if predicts_as_it_learns(self._model):
            self._learn_table(X, values, labels)
            return
        with self._unchanged_on_error():  # row by row: the sigmoids need the margin of each prediction
            for row, label in zip(values, labels, strict=True):
                present = ~np.isnan(row)
                self.learn_one(dict(zip(X.columns[present], row[present], strict=True)), label)

    def _learn_table(self, X: pd.DataFrame, values: NDArray[np.float64], labels: list[Label]) -> None:
        # Cut the table where a feature or a label is new, as a loop would find them.
        new_features = self._features.first_rows(X, values)
        known = set(self._codes)
        cuts = {0, *new_features}
        for i, label in enumerate(labels):
            if label not in known:
                known.add(label)
                cuts.add(i)
        # Without new features and labels this is one batch. An error in it changes nothing, so no copy is
        # needed.
        one_batch = len(cuts) == 1 and not new_features and labels[0] in self._codes and self._is_fitted()
        with nullcontext() if one_batch else self._unchanged_on_error():
            for start, stop in pairwise([*sorted(cuts), len(labels)]):
                self._add_features(new_features.get(start, {}))
                self._code_of(labels[start])
                codes = np.array([self._codes[label] for label in labels[start:stop]])
                rows = self._features.rows(X, values[start:stop], self._dtype())
                try:
                    trace = self._model.progressive_fit(rows, codes, None if self._is_fitted() else [0, 1])
                except LargeValueError as error:
                    name = repr(self._features.name(error.feature))
                    raise error.at(name=name, after=start) from None
                if self._sigmoids is not None:
                    observe(self._sigmoids, trace.margins, codes)

    # ------------------------------------------------------------------ prediction

    def predict_one(self, x: Features, **kwargs: object) -> Label | None:
        """Return the predicted label; None before any label was seen."""
        if len(self._labels) < 2:
            return self._labels[0] if self._labels else None
        margins = self._margins_of(self._row(x))
        return self._labels[int(predicted_codes(_by_row(margins[:, None]))[0])]

    def predict_proba_one(self, x: Features, **kwargs: object) -> dict[Label, float]:
        """Return the probability of each label seen so far."""
        if len(self._labels) < 2:
            return dict.fromkeys(self._labels, 1.0)
        values = self._probabilities(self._margins_of(self._row(x))[:, None])
        return dict(zip(self._labels, values[0].tolist(), strict=True))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the predicted label of each row."""
        import pandas as pd

        if len(self._labels) < 2:
            return pd.Series([self.predict_one({})] * len(X), index=X.index, dtype=object)
        margins = self._margins_of(self._features.rows(X, table_values(X), self._dtype()))
        codes = predicted_codes(_by_row(margins))
        return pd.Series([self._labels[code] for code in codes], index=X.index)

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the probability of each label seen so far, for each row."""
        import pandas as pd

        if len(self._labels) < 2:
            return pd.DataFrame(1.0, index=X.index, columns=self._labels)
        margins = self._margins_of(self._features.rows(X, table_values(X), self._dtype()))
        return pd.DataFrame(self._probabilities(margins), index=X.index, columns=self._labels)

    # ------------------------------------------------------------------ memory and river's checks

    @property
    def nbytes_(self) -> int:
        """Bytes of all arrays of the model."""
        own = 0 if self._sigmoids is None else self._sigmoids.nbytes
        return (self._model.nbytes_ if self._is_fitted() else 0) + own

    @property
    def _multiclass(self) -> bool:
        return True

    # ------------------------------------------------------------------ files

    _part_names: ClassVar[frozenset[str]] = frozenset(Parts.__annotations__)

    def to_parts(self) -> Parts:
        """Return what a file stores besides the parameters.

        If the model calibrates itself, the sigmoids are new ones: earlier versions expect them.
        """
        unused = sigmoids(len(self._labels) if len(self._labels) > 2 else 1)
        return {
            "model": self._model,
            "features": list(self._features.columns),
            "labels": self._labels,
            "sigmoids": unused if self._sigmoids is None else self._sigmoids,
        }

    def _restore_parts(
        self,
        model: OnlineClassifier,
        features: list[Hashable],
        labels: list[Label],
        sigmoids: NDArray[np.float64],
    ) -> None:
        """Restore the state that `to_parts` returned; raise a ValueError if it is inconsistent.

        The values come from a file, so their types are checked as well.
        """
        self._check_model(model, features)
        if not is_list_of_distinct(labels):
            raise ValueError("labels should be a list without duplicates")
        if any(map(is_missing, labels)):
            raise ValueError("labels should be values")
        outputs = len(labels) if len(labels) > 2 else 1
        if model.__sklearn_is_fitted__():
            consistent = model.classes_.tolist() == list(range(max(2, len(labels)))) and len(labels) > 0
        else:
            consistent = not labels
        if not consistent or not sound(sigmoids, outputs):
            raise ValueError("features, labels and sigmoids should be those of the learner")
        self._set_model(model, features)
        self._labels = labels
        self._codes = {label: code for code, label in enumerate(labels)}
        if self._sigmoids is not None:
            self._sigmoids = sigmoids

    # ------------------------------------------------------------------ internals

    def _code_of(self, y: Label) -> int:
        """Return the class of a label. A new label becomes a class."""
        code = self._codes.get(y)
        if code is None:
            code = len(self._labels)
            if code >= 2:  # a new model starts with two classes
                add_class(self._model, code)
                if self._sigmoids is not None:
                    self._sigmoids = with_class_added(self._sigmoids, code)
            self._codes[y] = code
            self._labels.append(y)
        return code

    def _margins_of(self, rows: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return margins of shape (n_outputs,) for one row, or (n_outputs, n_rows) for several."""
        margins = next_margins(self._model, rows) if rows.ndim == 2 else next_row_margins(self._model, rows)
        if not np.isfinite(margins).all():
            raise ValueError(
                f"features must not be too large; the largest is {self._largest(rows)}. Scale the features "
                "(preprocessing.StandardScaler)"
            )
        return margins

    def _probabilities(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return probabilities of shape (n_rows, n_labels) from margins of shape (n_outputs, n_rows)."""
        if self._sigmoids is None:
            assert isinstance(self._model, BudgetClassifier)
            return self._model.probabilities_from_margins(_by_row(margins))
        odds = np.array([log_odds(numbers, f) for numbers, f in zip(self._sigmoids, margins, strict=True)])
        return probabilities(_by_row(odds))


def _by_row(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn shape (n_outputs, n_rows) into (n_rows,) for one output, otherwise into (n_rows, n_outputs)."""
    return values[0] if len(values) == 1 else np.ascontiguousarray(values.T)
