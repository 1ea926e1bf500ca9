"""Estimators whose state is checked, whichever way it comes from outside."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable
from typing import ClassVar, Self

from budgetron._base.parameters import CheckedEstimator
from budgetron._util.checks import State, own_copy, raise_invalid_state, require, require_no_arrays

__all__ = ["StatefulEstimator"]

# Parameters that are shorter texts are shared by all models.
LONGEST_SHARED = 40


class StatefulEstimator(CheckedEstimator):
    """An estimator that can return what it has learned as a table of plain values and arrays.

    Model files use `learned_state` and `set_learned_state`. pickle, copy and skops use `__getstate__` and
    `__setstate__`, which call these two, so that every state is checked in the same way.
    """

    # Attributes that follow from others, and are not stored.
    _derived_names: ClassVar[frozenset[str]] = frozenset()

    def learned_state(self) -> State | None:
        """Return all that was learned, as values that a file can hold; None before the first round."""
        raise NotImplementedError(f"{type(self).__name__} must define learned_state")

    def set_learned_state(self, found: State) -> None:
        """Continue from a state that `learned_state` returned, after checking it.

        The state may come from anywhere. An invalid one raises `ValueError` and leaves the model unchanged.
        """
        raise NotImplementedError(f"{type(self).__name__} must define set_learned_state")

    def _learned_attributes(self) -> frozenset[str]:
        """Return the names that a learned state may have, given the parameters."""
        raise NotImplementedError(f"{type(self).__name__} must define _learned_attributes")

    def __getstate__(self) -> State:
        # Hypotheses as plain tables: a library that builds objects from a foreign state, as skops does, then
        # needs to trust no compiled class.
        state: State = super().__getstate__()
        stored = {name: value for name, value in state.items() if name not in self._derived_names}
        return stored | (self.learned_state() or {})

    def __copy__(self) -> Self:
        # A shallow copy would share the learners inside, and count only some of the rounds that they learn.
        return copy.deepcopy(self)

    def __setstate__(self, state: State) -> None:
        before = dict(self.__dict__)
        try:
            self._set_checked_state(own_copy(state))
        except Exception as error:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise_invalid_state(error, type(self).__name__)

    def _set_checked_state(self, state: State) -> None:
        name_of_class, parameters = type(self).__name__, self.parameter_names()
        missing = [name for name in parameters if name not in state]
        require(not missing, f"the parameters {missing[:3]} of {name_of_class} are missing")
        if self.__dict__:  # a dict that was never cleared shares its names with those of other objects
            self.__dict__.clear()
        given = _under_names_of(parameters, state)
        require_no_arrays(given, f"the parameters of {name_of_class}")
        self.__dict__.update(given)
        others = (state.keys() - given.keys()) - self._derived_names
        learned = _under_names_of(self._learned_attributes(), state) if others else {}
        others -= learned.keys()
        # An attribute of the object would replace a method or a property of its class.
        hidden = sorted(name for name in others if hasattr(type(self), name))
        require(not hidden, f"{hidden[:3]} should not be in the state of {name_of_class}")
        if others:
            super().__setstate__({name: state[name] for name in others})
        if learned:
            self._validate_params()
            self.set_learned_state(learned)
        # In the order of the state, so that the pickle of a copy has the same bytes.
        found = self.__dict__
        if [*found][: len(state)] != [*state]:
            for name in state:
                if name in found:
                    found[name] = found.pop(name)


def _under_names_of(names: Iterable[str], state: State) -> State:
    """Return the part of a state that has these names, in its order.

    Names and short texts are those that other models have: pickle makes new ones for each model.
    """
    known = {name: name for name in names}
    return {
        known[name]: sys.intern(value) if type(value) is str and len(value) < LONGEST_SHARED else value
        for name, value in state.items()
        if name in known
    }
