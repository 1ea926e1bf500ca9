"""What all river adapters share: the learner inside, its parameters, and the columns of the features."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Hashable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from budgetron._base.access import add_features, row_dtype
from budgetron._util.checks import State, own_copy, raise_invalid_state, require_names
from budgetron._util.restore import restore_on_error
from budgetron.river._features import FeatureColumns, Features

__all__ = ["LEFT_OUT", "RENAMED", "RiverLearner", "is_list_of_distinct"]

# River's name of a parameter, and parameters that need all labels in advance (use `river.imblearn` instead).
RENAMED = {"random_state": "seed"}
LEFT_OUT = {"class_weight"}


class RiverLearner:
    """An adapter holds a learner of Budgetron, and converts river's dicts to rows of numbers."""

    _learner: ClassVar[type[Any]]
    _signature: ClassVar[inspect.Signature]
    max_features: int

    def __init__(self, *args: object, **params: object) -> None:
        bound = self._signature.bind(*args, **params)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)
        if not isinstance(self.max_features, int) or self.max_features < 1:
            raise ValueError(f"max_features must be a whole number above 0; got {self.max_features!r}")
        given = self._given(bound.arguments)
        if given.get("gamma") == "scale":
            raise ValueError(
                'gamma="scale" needs a whole batch, and river passes one row at a time; '
                'scale the features (preprocessing.StandardScaler) and set gamma to a number or "auto"'
            )
        self._model = self._learner(**given)
        self._model.check_params()
        self._features = FeatureColumns()

    def _given(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of the learner inside, from those of the adapter."""
        return {
            name: arguments[RENAMED.get(name, name)]
            for name in inspect.signature(self._learner).parameters
            if name not in LEFT_OUT
        }

    # ------------------------------------------------------------------ memory and river's checks

    @property
    def nbytes_(self) -> int:
        """Bytes of all arrays of the model."""
        return int(self._model.nbytes_) if self._is_fitted() else 0

    @property
    def _raw_memory_usage(self) -> int:
        return int(super()._raw_memory_usage) + self.nbytes_  # type: ignore[misc]  # river's base class follows

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, object]]:
        # Small models make river's checks fast.
        yield {"memory": "256kB"} if "memory" in cls._signature.parameters else {}

    # ------------------------------------------------------------------ files

    _part_names: ClassVar[frozenset[str]]

    def to_parts(self) -> Mapping[str, Any]:
        """Return what a file stores besides the parameters."""
        raise NotImplementedError

    def _restore_parts(self, *args: Any, **parts: Any) -> None:
        """Restore the state that `to_parts` returned; raise a ValueError if it is inconsistent."""
        raise NotImplementedError

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Return the names of the parameters."""
        return list(cls._signature.parameters)

    @classmethod
    def from_parts(cls, parameters: Mapping[str, object], **parts: Any) -> Self:
        """Return a model from its parameters and the result of `to_parts`, after checking it."""
        model = cls(**parameters)
        model._restore_parts(**parts)
        return model

    def __getstate__(self) -> dict[str, object]:
        parameters = {name: getattr(self, name) for name in self.parameter_names()}
        return {"parameters": parameters, "parts": self.to_parts()}

    def __setstate__(self, state: State) -> None:
        """Continue from a state of pickle, copy or skops, after the checks that a model file has to pass."""
        name = type(self).__name__
        try:
            found = require_names(own_copy(state), {"parameters", "parts"}, f"the state of {name}")
            parameters = require_names(found["parameters"], set(self.parameter_names()), "the parameters")
            parts = require_names(found["parts"], set(self._part_names), "the parts")
            restored = self.from_parts(parameters, **parts | {"model": copy.copy(parts["model"])})
        except Exception as error:
            raise_invalid_state(error, name)
        vars(self).update(vars(restored))

    def _check_model(self, model: Any, features: list[Hashable]) -> None:
        """Check the learner of a state, and the names of its features."""
        if type(model) is not self._learner or plain_params(model) != plain_params(self._model):
            raise ValueError("the learner should be of the class and with the parameters of the adapter")
        if not is_list_of_distinct(features):
            raise ValueError("features should be a list without duplicates")
        expected = model.n_features_in_ if model.__sklearn_is_fitted__() else 0
        if not expected == len(features) <= self.max_features:
            raise ValueError("features should be those of the learner")

    def _set_model(self, model: Any, features: list[Hashable]) -> None:
        self._model, self._features = model, FeatureColumns(features)

    # ------------------------------------------------------------------ internals

    def __copy__(self) -> Self:
        # A shallow copy would share the learner, and count only some of the rounds that it learns.
        return copy.deepcopy(self)

    def _unchanged_on_error(self) -> AbstractContextManager[None]:
        return restore_on_error(self, copy.deepcopy(self.__dict__))

    def _is_fitted(self) -> bool:
        return bool(self._model.__sklearn_is_fitted__())

    def _dtype(self) -> np.dtype[np.floating]:
        return row_dtype(self._model) if self._is_fitted() else np.dtype(np.float64)

    def _row(self, x: Features) -> NDArray[np.floating]:
        return self._features.row(x, self._dtype())

    def _add_features(self, x: Features) -> None:
        """Give new features a column, in the model as well."""
        before = len(self._features)
        if not self._features.knows_all(x):
            self._features.add(x, self.max_features)
        if not len(self._features):
            raise ValueError("the first row has no feature with a value; leave it out")
        if self._is_fitted() and len(self._features) > before:
            add_features(self._model, len(self._features))

    def _largest(self, rows: NDArray[np.floating]) -> str:
        """Return the name, value and row of the feature with the largest absolute value."""
        row, column = np.unravel_index(int(np.abs(rows).argmax()), np.atleast_2d(rows).shape)
        value = float(np.atleast_2d(rows)[row, column])
        where = f" in row {int(row)}" if rows.ndim == 2 else ""
        return f"feature {self._features.name(int(column))!r}, {value:g}{where}"


def is_list_of_distinct(values: object) -> bool:
    return isinstance(values, list) and len(set(values)) == len(values)


def plain_params(model: Any) -> dict[str, object]:
    """Return all parameters of an estimator; for a nested estimator, its class and its parameters."""
    params = model.get_params().items()
    return {name: type(value) if hasattr(value, "get_params") else value for name, value in params}
