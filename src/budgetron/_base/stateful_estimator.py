"""Estimators whose state is checked, whichever way it comes from outside."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from budgetron._base.parameters import CheckedEstimator
from budgetron._util.checks import State, invalid_state_as_value_error, own_copy, require
from budgetron._util.restore import restore_on_error

__all__ = ["StatefulEstimator", "require_no_arrays"]


class StatefulEstimator(CheckedEstimator):
    """An estimator that knows what it has learned, as a table of plain values and arrays.

    Model files use `learned_state` and `set_learned_state`. pickle, copy and skops use `__getstate__` and
    `__setstate__`, which are made of these two. So a state passes the same checks on every way.
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

    def __setstate__(self, state: State) -> None:
        with (
            restore_on_error(self, dict(self.__dict__)),
            invalid_state_as_value_error(type(self).__name__),
        ):
            self._set_checked_state(own_copy(state))

    def _set_checked_state(self, state: State) -> None:
        names = self.parameter_names()
        missing = [name for name in names if name not in state]
        require(not missing, f"the parameters {missing[:3]} of {type(self).__name__} are missing")
        parameters = {name: state[name] for name in names}
        require_no_arrays(parameters, f"the parameters of {type(self).__name__}")
        self.__dict__.clear()
        self.__dict__.update(parameters)
        others = set(state) - set(parameters) - self._derived_names
        learned_names = self._learned_attributes() if others else frozenset()
        others -= learned_names
        # An attribute of the object would replace a method or a property of its class.
        hidden = sorted(name for name in others if hasattr(type(self), name))
        require(not hidden, f"{hidden[:3]} should not be in the state of {type(self).__name__}")
        super().__setstate__({name: state[name] for name in others})
        learned = {name: value for name, value in state.items() if name in learned_names}
        if learned:
            self._validate_params()
            self.set_learned_state(learned)
        # In the order of the state, so that the pickle of a copy has the same bytes.
        for name in state:
            if name in self.__dict__:
                self.__dict__[name] = self.__dict__.pop(name)


def require_no_arrays(value: object, what: str) -> None:
    """Refuse arrays among parameters: they are compared with ==, as arrays cannot be."""
    require(not isinstance(value, np.ndarray), f"{what} should not be arrays")
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            require_no_arrays(item, what)
