"""What a theorem is: its statement, its assumptions, and the catalogue of all theorems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from math import nan, sqrt
from typing import ParamSpec, TypeAlias

__all__ = [
    "ROUNDING",
    "THEOREMS",
    "Assumption",
    "AssumptionError",
    "Check",
    "Theorem",
    "assume",
    "require_at_most",
    "root_or_nan",
    "theorem",
]

# A quantity of a run may miss a limit by this share through rounding, also with float32 rows.
ROUNDING = 1e-6


class AssumptionError(ValueError):
    """An assumption of a theorem does not hold, so the theorem does not apply."""

    __module__ = "budgetron.bounds"


@dataclass(frozen=True)
class Assumption:
    """An assumption of a theorem, and whether it holds."""

    text: str
    value: float
    holds: bool

    def __str__(self) -> str:
        return f"{self.text} is assumed; it is {self.value:.6g}"


@dataclass(frozen=True)
class Theorem:
    """Where a bound is stated, for which learner, and what it bounds under which assumptions."""

    name: str
    source: str
    learner: str
    quantity: str
    assumptions: str
    function: Callable[..., float]


Check: TypeAlias = bool | list[Assumption]
P = ParamSpec("P")
THEOREMS: dict[str, Theorem] = {}


def assume(check: Check, holds: bool, text: str, value: float) -> None:
    """Append an assumption to `check` if that is a list; else raise an error if it is checked and false."""
    assumption = Assumption(text, float(value), bool(holds))
    if isinstance(check, list):
        check.append(assumption)
    elif check and not holds:
        raise AssumptionError(str(assumption))


def require_at_most(check: Check, value: float, limit: float, what: str) -> None:
    """Assume that a value is at most a limit, up to rounding."""
    assume(check, value <= limit * (1 + ROUNDING), f"{what} of at most {limit:.6g}", value)


def root_or_nan(square: float) -> float:
    """Return the square root, NaN of a negative number."""
    return sqrt(square) if square >= 0 else nan


def theorem(
    source: str, learner: str, quantity: str, assumptions: str = "none"
) -> Callable[[Callable[P, float]], Callable[P, float]]:
    """Enter a function in `THEOREMS`; it raises `AssumptionError`, or returns NaN, if it is undefined."""

    def register(function: Callable[P, float]) -> Callable[P, float]:
        @wraps(function)
        def bound(*args: P.args, **kwargs: P.kwargs) -> float:
            try:
                return function(*args, **kwargs)
            except (ZeroDivisionError, OverflowError, ValueError) as error:
                if isinstance(error, AssumptionError):
                    raise
                if kwargs.get("check", True) is True:
                    raise AssumptionError(f"{function.__name__} is not defined there: {error}") from error
                return nan

        THEOREMS[function.__name__] = Theorem(
            function.__name__, source, learner, quantity, assumptions, bound
        )
        return bound

    return register
