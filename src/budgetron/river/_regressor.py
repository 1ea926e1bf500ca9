"""The river adapter of the regressors."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, TypedDict

import numpy as np
from river import base

from budgetron._base.large_values import LargeValueError
from budgetron._base.online_regressor import OnlineRegressor
from budgetron.river._features import Features, is_missing, table_values
from budgetron.river._learner import RiverLearner

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RiverRegressor"]


class Parts(TypedDict):
    """What a model file holds of an adapter, apart from its parameters."""

    model: OnlineRegressor
    features: list[Hashable]


class RiverRegressor(RiverLearner, base.MiniBatchRegressor):
    """The base class of the river adapters of regressors; see `budgetron.river`."""

    _learner: ClassVar[type[OnlineRegressor]]
    _model: OnlineRegressor
    _part_names: ClassVar[frozenset[str]] = frozenset(Parts.__annotations__)

    def learn_one(self, x: Features, y: float) -> None:
        """Play one round."""
        if is_missing(y):
            raise ValueError(f"the target must be a number; got {y!r}. Leave out rows without a target")
        if self._is_fitted() and (self._features.knows_all(x) or not self._features.new_in(x)):
            self._play(x, y)
            return
        with self._unchanged_on_error():
            self._add_features(x)
            self._play(x, y)

    def _play(self, x: Features, y: float) -> None:
        try:
            self._model.play(self._row(x), y)
        except LargeValueError as error:
            raise error.at(name=repr(self._features.name(error.feature))) from None

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Play one round per row, in order: the result of a loop of `learn_one`, but faster.

        A cell without a value (NaN) is a missing feature.
        """
        values, targets = table_values(X), list(y)
        if len(targets) != len(values):
            raise ValueError(
                f"X and y must have one target per row; got {len(values)} rows and {len(targets)} targets"
            )
        missing = next((i for i, target in enumerate(targets) if is_missing(target)), None)
        if missing is not None:
            raise ValueError(f"every row needs a target; that of row {missing} is {targets[missing]!r}")
        if not targets:
            return
        # Cut the table where a feature is new, as a loop would find it.
        new_features = self._features.first_rows(X, values)
        with self._unchanged_on_error():
            for start, stop in pairwise([*sorted({0, *new_features}), len(targets)]):
                self._add_features(new_features.get(start, {}))
                rows = self._features.rows(X, values[start:stop], self._dtype())
                try:
                    self._model.partial_fit(rows, targets[start:stop])
                except LargeValueError as error:
                    name = repr(self._features.name(error.feature))
                    raise error.at(name=name, after=start) from None

    def predict_one(self, x: Features) -> float:
        """Return the prediction; 0.0 before any target was seen."""
        if not self._is_fitted():
            return 0.0
        return float(self._model.predict_row(self._row(x)))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the prediction of each row."""
        import pandas as pd

        if not self._is_fitted():
            return pd.Series(np.zeros(len(X)), index=X.index)
        rows = self._features.rows(X, table_values(X), self._dtype())
        return pd.Series(self._model.predict(rows), index=X.index)

    # ------------------------------------------------------------------ files

    def to_parts(self) -> Parts:
        """Return what a file stores besides the parameters."""
        return {"model": self._model, "features": list(self._features.columns)}

    def _restore_parts(self, model: OnlineRegressor, features: list[Hashable]) -> None:
        """Restore the state that `to_parts` returned; raise a ValueError if it is inconsistent."""
        self._check_model(model, features)
        self._set_model(model, features)
