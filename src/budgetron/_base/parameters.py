"""Checks of parameters that all estimators share."""

from __future__ import annotations

from numbers import Integral
from typing import Any, SupportsInt, TypeAlias, cast

from sklearn.base import BaseEstimator

__all__ = ["MOST_SUPPORTS", "CheckedEstimator", "Constraints"]

# The valid values of each parameter, as scikit-learn's `_parameter_constraints` declares them.
Constraints: TypeAlias = dict[str, list[Any]]

# Slots are counted in 32 bits.
MOST_SUPPORTS = 2**31 - 2

# Python's integers have no limit, but floats do.
MOST = 2**1000


class CheckedEstimator(BaseEstimator):
    """An estimator that checks its parameters, also that integers can be converted to floats."""

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Return the names of the parameters."""
        names: list[str] = cls._get_param_names()
        return names

    def check_params(self) -> None:
        """Raise `ValueError` or `TypeError` if a parameter is invalid."""
        self._validate_params()

    def _validate_params(self) -> None:
        super()._validate_params()
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Integral) and abs(int(cast(SupportsInt, value))) > MOST:
                raise ValueError(
                    f"the {name!r} parameter of {type(self).__name__} must be a number up to 2 ** 1000"
                )
