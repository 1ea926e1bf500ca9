"""The river adapters of the conformal wrappers: sets and intervals for single rows."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, overload

import numpy as np
from river.conf import Interval
from sklearn.base import clone

from budgetron import conformal
from budgetron.river._adapter import Label, RiverClassifier
from budgetron.river._features import Features
from budgetron.river._learner import RiverLearner
from budgetron.river._regressor import RiverRegressor

__all__ = ["ConformalClassifier", "ConformalRegressor"]


class Conformal(RiverLearner):
    """The base class of both adapters. The parameter `learner` is a river adapter, too."""

    _kind: ClassVar[type[RiverLearner]]
    _example: ClassVar[str]
    _model: conformal.ConformalClassifier | conformal.ConformalRegressor

    def __init__(self, learner: RiverLearner, *args: object, **params: object) -> None:
        if not isinstance(learner, self._kind) or isinstance(learner, Conformal):
            raise ValueError(
                f"the learner of {type(self).__name__} must be one of budgetron.river, like "
                f"{self._example}(); put pipelines around {type(self).__name__}. Got {learner!r}"
            )
        self.max_features = learner.max_features
        learner = learner.clone()  # type: ignore[attr-defined]  # all adapters are models of river
        super().__init__(learner, *args, **params)

    def _given(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return super()._given(arguments) | {"learner": clone(arguments["learner"]._model)}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, object]]:
        learner = getattr(sys.modules[cls.__module__], cls._example)
        yield {"learner": learner(budget=20), "coverage": 0.8, "window": 50}

    @property
    def coverage_(self) -> float:
        """The share of the rounds whose label was inside of the prediction; NaN before the first one.

        The class of a label that is new is added before its round, which may count as inside, although no
        set could have had this label before.
        """
        return self._model.coverage_ if self._is_fitted() else float("nan")

    @property
    def misses_(self) -> int:
        """Number of rounds whose label was outside of the prediction."""
        return self._model.misses_ if self._is_fitted() else 0


class ConformalClassifier(Conformal, RiverClassifier):
    """A classifier whose sets of labels contain the label in a given share of the rounds.

    The river adapter of `budgetron.ConformalClassifier`, which documents the method and its guarantee.
    `predict_one(x, with_set=True)` returns the set of labels of a row; it also works through river's
    pipelines. Before the first round this set is empty.

    Parameters
    ----------
    learner
        A classifier of `budgetron.river`. It is cloned; its `max_features` applies.
    coverage
        The share of the rounds whose set should contain the label.
    step
        How far one round moves the level of the quantile.
    window
        Number of recent scores that are kept.

    Examples
    --------
    >>> from river import datasets, preprocessing
    >>> from budgetron import river
    >>> learner = river.SecondOrderProjectron(budget=50)
    >>> model = preprocessing.StandardScaler() | river.ConformalClassifier(learner, coverage=0.95)
    >>> inside = 0
    >>> for x, y in datasets.Phishing():
    ...     inside += y in model.predict_one(x, with_set=True)
    ...     model.learn_one(x, y)
    >>> print(f"{inside / 1250:.3f}")
    0.949
    """

    __module__ = "budgetron.river"
    _learner = conformal.ConformalClassifier
    _kind = RiverClassifier
    _example = "Forgetron"
    _model: conformal.ConformalClassifier

    def __init__(
        self, learner: RiverClassifier, coverage: float = 0.9, *, step: float = 0.01, window: int = 1000
    ) -> None:
        super().__init__(learner, coverage, step=step, window=window)

    @property
    def mean_set_size_(self) -> float:
        """The mean number of labels in the sets of all rounds; NaN before the first one."""
        return self._model.mean_set_size_ if self._is_fitted() else float("nan")

    @overload  # type: ignore[override]  # a set only if it is asked for, as in `river.conf`
    def predict_one(
        self, x: Features, with_set: Literal[False] = False, **kwargs: object
    ) -> Label | None: ...
    @overload
    def predict_one(self, x: Features, with_set: Literal[True], **kwargs: object) -> set[Label]: ...
    def predict_one(self, x: Features, with_set: bool = False, **kwargs: object) -> Label | set[Label] | None:
        """Return the predicted label, None before any label was seen; or the set of labels."""
        if not with_set:
            return super().predict_one(x)
        if not self._is_fitted():
            return set()
        margins = self._margins_of(self._row(x))
        inside = self._model.sets_from_margins(margins if len(margins) == 1 else margins[None])[0]
        # A model starts with two classes; the second may not have a label yet.
        return {label for label, is_inside in zip(self._labels, inside, strict=False) if is_inside}


class ConformalRegressor(Conformal, RiverRegressor):
    """A regressor whose intervals contain the target in a given share of the rounds.

    The river adapter of `budgetron.ConformalRegressor`, which documents the method and its guarantee.
    `predict_one(x, with_interval=True)` returns a `river.conf.Interval`, as the regressors of `river.conf`
    do; it also works through river's pipelines. The first intervals are infinite.

    Parameters
    ----------
    learner
        A regressor of `budgetron.river`. It is cloned; its `max_features` applies.
    coverage
        The share of the rounds whose interval should contain the target.
    step
        How far one round moves the level of the quantile.
    window
        Number of recent scores that are kept.

    Examples
    --------
    >>> from river import datasets, preprocessing
    >>> from budgetron import river
    >>> learner = river.linear.AROWRegressor()
    >>> model = preprocessing.StandardScaler() | river.ConformalRegressor(learner, coverage=0.8)
    >>> inside = 0
    >>> for x, y in datasets.TrumpApproval():
    ...     inside += y in model.predict_one(x, with_interval=True)
    ...     model.learn_one(x, y)
    >>> print(f"{inside / 1001:.3f}")
    0.796
    """

    __module__ = "budgetron.river"
    _learner = conformal.ConformalRegressor
    _kind = RiverRegressor
    _example = "SecondOrderRegressor"
    _model: conformal.ConformalRegressor

    def __init__(
        self, learner: RiverRegressor, coverage: float = 0.9, *, step: float = 0.01, window: int = 1000
    ) -> None:
        super().__init__(learner, coverage, step=step, window=window)

    @overload
    def predict_one(self, x: Features, with_interval: Literal[False] = False) -> float: ...
    @overload
    def predict_one(self, x: Features, with_interval: Literal[True]) -> Interval: ...
    def predict_one(self, x: Features, with_interval: bool = False) -> float | Interval:
        """Return the prediction, 0.0 before any target was seen; or the interval."""
        if not with_interval:
            return super().predict_one(x)
        if not self._is_fitted():
            return Interval(-np.inf, np.inf)
        low, high = self._model.predict_interval(self._row(x)[None])[0].tolist()
        return Interval(low, high)


for _adapter in (ConformalClassifier, ConformalRegressor):
    _adapter._signature = inspect.signature(_adapter)
