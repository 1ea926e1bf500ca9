"""The river adapter of the detectors."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar, TypedDict

from budgetron._base.large_values import LargeValueError
from budgetron._base.online_detector import OnlineDetector
from budgetron.river._features import Features, table_values
from budgetron.river._learner import RiverLearner

if TYPE_CHECKING:
    import pandas as pd
    from river.base import AnomalyDetector
else:
    try:
        from river.base import AnomalyDetector
    except ImportError:  # before river 0.26
        from river.anomaly.base import AnomalyDetector

__all__ = ["RiverDetector"]


class Parts(TypedDict):
    """What a model file holds of an adapter, apart from its parameters."""

    model: OnlineDetector
    features: list[Hashable]


class RiverDetector(RiverLearner, AnomalyDetector):
    """The base class of the river adapters of detectors; see `budgetron.river`."""

    _learner: ClassVar[type[OnlineDetector]]
    _model: OnlineDetector
    _part_names: ClassVar[frozenset[str]] = frozenset(Parts.__annotations__)

    def learn_one(self, x: Features) -> None:
        """Play one round."""
        if self._is_fitted() and (self._features.knows_all(x) or not self._features.new_in(x)):
            self._play(x)
            return
        with self._unchanged_on_error():
            self._add_features(x)
            self._play(x)

    def _play(self, x: Features) -> None:
        try:
            self._model.play(self._row(x))
        except LargeValueError as error:
            raise error.at(name=repr(self._features.name(error.feature))) from None

    def learn_many(self, X: pd.DataFrame) -> None:
        """Play one round per row, in order: the result of a loop of `learn_one`, but faster.

        A cell without a value (NaN) is a missing feature.
        """
        values = table_values(X)
        if not len(values):
            return
        # Cut the table where a feature is new, as a loop would find it.
        new_features = self._features.first_rows(X, values)
        starts = sorted({0, *new_features})
        with self._unchanged_on_error():
            for start, stop in zip(starts, [*starts[1:], len(values)], strict=True):
                self._add_features(new_features.get(start, {}))
                rows = self._features.rows(X, values[start:stop], self._dtype())
                try:
                    self._model.partial_fit(rows)
                except LargeValueError as error:
                    name = repr(self._features.name(error.feature))
                    raise error.at(name=name, after=start) from None

    def score_one(self, x: Features) -> float:
        """Return -f(x), which is high for unusual rows; 0.0 before any row was learned."""
        if not self._is_fitted():
            return 0.0
        return -self._model.score_row(self._row(x))

    def predict_one(self, x: Features) -> bool:
        """Return whether x is an alarm: its score is above the threshold of the false-alarm rate."""
        return self._is_fitted() and -self.score_one(x) < self._model.offset_

    @property
    def alarms_(self) -> int:
        """Number of learned rows that were alarms."""
        return self._model.alarms_ if self._is_fitted() else 0

    # ------------------------------------------------------------------ files

    def to_parts(self) -> Parts:
        """Return what a file stores besides the parameters."""
        return {"model": self._model, "features": list(self._features.columns)}

    def _restore_parts(self, model: OnlineDetector, features: list[Hashable]) -> None:
        """Restore the state that `to_parts` returned; raise a ValueError if it is inconsistent."""
        self._check_model(model, features)
        self._set_model(model, features)
