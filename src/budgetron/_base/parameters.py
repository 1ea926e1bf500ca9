"""Checks of parameters that all estimators share."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, SupportsInt, TypeAlias, cast

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

__all__ = ["BUDGET", "MOST_SUPPORTS", "OPTIONAL_BUDGET", "CheckedEstimator", "Constraints"]

# The valid values of each parameter, as scikit-learn's `_parameter_constraints` declares them.
Constraints: TypeAlias = dict[str, list[Any]]

# Slots are counted in 32 bits.
MOST_SUPPORTS = 2**31 - 2

# The constraint of the parameter, for learners that need a budget, and for those that may have none.
BUDGET: Constraints = {"budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both")]}
OPTIONAL_BUDGET: Constraints = {"budget": [*BUDGET["budget"], None]}

# Python's integers have no limit, but floats do.
MOST = 2**1000

# Parameters of these types are remembered when they were found valid.
PLAIN = frozenset({str, int, float, bool, type(None)})

# How many sets of valid parameters are remembered.
MOST_REMEMBERED = 1000

# A class, and the types and values of its parameters.
Key: TypeAlias = tuple[type, tuple[type, ...], tuple[object, ...]]


class CheckedEstimator(BaseEstimator):
    """An estimator that checks its parameters, also that integers can be converted to floats.

    scikit-learn reads the signature of the class for each list of parameters, and compares each value with
    all constraints. This takes longer than a thousand rounds. So the names are kept with the class, and valid
    parameters are remembered: thousands of models may have the same ones.
    """

    _valid: ClassVar[set[Key]] = set()

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Return the names of the parameters."""
        names: list[str] = cls._get_param_names()
        return names

    @classmethod
    def _get_param_names(cls) -> list[str]:
        names: list[str] | None = cls.__dict__.get("_own_parameter_names")
        if names is None:
            names = cls._own_parameter_names = super()._get_param_names()
        return list(names)

    def check_params(self) -> None:
        """Raise `ValueError` or `TypeError` if a parameter is invalid."""
        self._validate_params()

    def _validate_params(self) -> None:
        """Check each parameter by itself; a subclass may override this to compare several."""
        names = self._get_param_names()
        values = tuple([getattr(self, name) for name in names])
        kinds = tuple(map(type, values))
        key = (type(self), kinds, values)
        plain = PLAIN.issuperset(kinds)
        if plain and key in self._valid:
            return
        super()._validate_params()
        for name, value in zip(names, values, strict=True):
            if isinstance(value, Integral) and abs(int(cast(SupportsInt, value))) > MOST:
                raise ValueError(
                    f"the {name!r} parameter of {type(self).__name__} must be a number up to 2 ** 1000"
                )
        if plain:
            if len(self._valid) >= MOST_REMEMBERED:
                self._valid.clear()
            self._valid.add(key)
