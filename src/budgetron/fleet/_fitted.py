"""What a fleet has learned: fitted attributes, parameters that must not change, and the state of files."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from budgetron._base.access import row_dtype
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.stateful_estimator import StatefulEstimator
from budgetron._core.pooled_fleet import PooledFleet
from budgetron._util.checks import MOST_ROUNDS, State, require, require_int, require_names
from budgetron._util.types import Labels
from budgetron._util.units import parse_bytes
from budgetron.fleet._common import CommonLearner, check_common
from budgetron.fleet._learners import Learner, check_learner, check_started
from budgetron.fleet._state import checked_index, checked_states
from budgetron.fleet._store import FleetStore

__all__ = ["FittedFleet", "same"]


class FittedFleet(StatefulEstimator):
    """A fleet without methods that learn or predict."""

    learner: Learner
    memory: int | str | None
    common: KernelClassifier | None
    idle: int | None
    random_state: int
    _store: FleetStore

    @property
    def classes_(self) -> Labels:
        """The two classes."""
        return self._started().model.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return self._started().model.n_features_in_

    @property
    def keys_(self) -> NDArray[Any]:
        """The keys: an array of integers, or of texts as Python objects."""
        store = self._started()
        return store.index.all_keys()[store.known_keys()]

    @property
    def rows_(self) -> int:
        """Rows that all keys have learned."""
        return self._started().states.rows

    @property
    def expired_(self) -> int:
        """Keys that were forgotten because they had no rows for too long."""
        return self._started().expired

    @property
    def common_(self) -> KernelClassifier:
        """The learner that all keys have in common, as an ordinary estimator: a copy."""
        common = self._started().common
        if common is None:
            raise AttributeError("this Fleet has no common learner")
        return common.copied_model()

    @property
    def evicted_(self) -> int:
        """Supports that were removed because the memory was full."""
        states = self._started().states
        return states.evicted if isinstance(states, PooledFleet) else 0

    @property
    def nbytes_(self) -> int:
        """Bytes of all numbers that the fleet keeps."""
        return self._started().nbytes

    def _is_started(self) -> bool:
        return "_store" in self.__dict__

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_started()

    def _started(self) -> FleetStore:
        # An AttributeError, so that hasattr(fleet, "keys_") is False before the first row.
        if not self._is_started():
            raise NotFittedError("this Fleet has not learned anything yet; call play or partial_fit first")
        return self._store

    # ------------------------------------------------------------------ parameters and state

    def _validate_params(self) -> None:
        check_learner(self.learner)
        if self.common is not None:
            check_common(self.common)
        super()._validate_params()
        if self.memory is not None:
            parse_bytes(self.memory)
            if not self.learner.get_params(deep=False).get("budget"):
                raise ValueError(
                    "memory is for kernel learners with a budget, which is the most that one key may have"
                )

    def _check_parameters(self) -> None:
        """Check that no parameter has changed since the first call."""
        store = self._store
        memory = 0 if self.memory is None else parse_bytes(self.memory)
        unchanged = {
            "learner": same(self.learner, store.model),
            "memory": memory == store.memory,
            "common": same(self.common, None if store.common is None else store.common.model),
            "idle": (self.idle or 0) == store.states.idle,
            "random_state": self.random_state == store.seed,
        }
        changed = [name for name, same in unchanged.items() if not same]
        if changed:
            self._validate_params()
            raise ValueError(f"{', '.join(changed)} changed since the first call; make a new Fleet")

    def _learned_attributes(self) -> frozenset[str]:
        return frozenset({"_store"})

    def learned_state(self) -> State | None:
        return {"_store": self._store.state()} if self._is_started() else None

    def _copied_state(self) -> State:
        """Return the learned state of the known keys, with a model of its own."""
        store = self._store
        state = store.state(store.known_keys())
        return {"_store": state | {"model": copy.deepcopy(state["model"]), "expired": store.expired}}

    def set_learned_state(self, found: State) -> None:
        require_names(found, {"_store"}, "a fleet")
        require(isinstance(found["_store"], dict), "the keys of a fleet should be a table of names")
        model = found["_store"].get("model")
        require(type(model) is type(self.learner), "the model should be of the class of the learner")
        require(
            model.__sklearn_is_fitted__() and model.rounds_ == 0, "the model should be before its first round"
        )
        require(
            same(model.get_params(), self.learner.get_params()),
            "the model should have the learner's parameters",
        )
        check_started(model)
        text, keys = checked_index(found["_store"].get("index"))
        common = None
        if self.common is not None:
            common = CommonLearner.from_state(found["_store"].get("common"), self.common)
            alike = same(common.model.get_params(), self.common.get_params())
            require(alike, "the common model should have the parameters of the common learner")
            kinds = [
                (list(one.classes_), one.n_features_in_, row_dtype(one)) for one in (model, common.model)
            ]
            require(kinds[0] == kinds[1], "the common learner should learn the rows and classes of the keys")
        store = self._new_store(copy.deepcopy(model), text, common)
        names = {"model", "index", "states", *store.counter_names} | ({"common"} if common else set())
        state = require_names(found["_store"], names, "the keys of a fleet")
        counters = {
            name: require_int(state[name], 0, 2**64 - 1 if name == "random" else MOST_ROUNDS, name)
            for name in store.counter_names
        }
        store.set_counters(counters)  # the number of rows is needed to compare keys
        store.append(
            keys, checked_states(state["states"], model, len(keys), counters["rows"], store.memory > 0)
        )
        store.set_counters(counters)
        self._store = store

    def _new_store(self, model: Learner, text: bool, common: CommonLearner | None) -> FleetStore:
        memory = 0 if self.memory is None else parse_bytes(self.memory)
        return FleetStore(model, text, self.idle or 0, memory, self.random_state, common)


def same(a: object, b: object) -> bool:
    """Return whether two states are equal: values of the same types, arrays, and tables of these."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, BaseEstimator) and isinstance(b, BaseEstimator):
        return same(a.get_params(deep=False), b.get_params(deep=False))
    return bool(a == b)
