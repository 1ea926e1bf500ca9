"""Checks of values from outside: each returns the value, or raises `ValueError` with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MOST_ROUNDS",
    "State",
    "invalid_state_as_value_error",
    "own_copy",
    "require",
    "require_array",
    "require_finite",
    "require_float",
    "require_int",
    "require_moderate",
    "require_names",
]

# The state of an object: plain values, arrays, and tables of these.
State = dict[str, Any]

# More rounds than any stream has; the sum of two such numbers does not overflow 64 bits.
MOST_ROUNDS = 2**62


# Levels of tables and lists in a state; the deepest states have about ten.
DEEPEST = 40


def own_copy(value: Any, level: int = 0) -> Any:
    """Return a state with copies of its tables, lists and arrays, so that no array has two owners.

    Arrays of a memory-mapped file are read-only, and an array may occur twice in a state. Objects of other
    types are not copied, nor are empty arrays, which may be shared.
    """
    if level > DEEPEST:
        raise ValueError(f"a state should have at most {DEEPEST} levels of tables and lists")
    kind = type(value)
    if kind is dict:
        return {name: own_copy(item, level + 1) for name, item in value.items()}
    if kind is list:
        return [own_copy(item, level + 1) for item in value]
    if isinstance(value, np.ndarray) and (value.size or not value.flags.writeable):
        return np.array(value, order="C")
    return value


@contextmanager
def invalid_state_as_value_error(what: str) -> Iterator[None]:
    """Turn other errors into a `ValueError`: a value of an unexpected type can fail in many ways."""
    try:
        yield
    except (ValueError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(f"the state of {what} is invalid: {type(error).__name__}: {error}") from error


def require(condition: object, message: str) -> None:
    """Raise `ValueError` with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)


def require_names(
    value: object, expected: set[str], what: str, optional: frozenset[str] = frozenset()
) -> State:
    """Return a dict that has exactly these names; the optional ones may be missing."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} should be a table of names")
    wrong = sorted((set(value) ^ expected) - (optional & set(value)))
    require(not wrong, f"{what} should have the names {sorted(expected)}; {wrong[:3]} missing or unexpected")
    return value


def require_int(value: object, least: int, most: int, what: str) -> int:
    """Return an integer within limits."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{what} should be an integer from {least} to {most}")
    return value


def require_float(value: object, what: str) -> float:
    """Return a float, which may be NaN or infinite: some quantities are unknown at first."""
    if type(value) is not float:
        raise ValueError(f"{what} should be a float")
    return value


def require_array(value: object, dtype: Any, shape: tuple[int, ...], what: str) -> NDArray[Any]:
    """Return an array of exactly this type and shape, as the pointers of the compiled core need it."""
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{what} should be an array")
    require(
        value.dtype == dtype and value.shape == shape,
        f"{what} should be {np.dtype(dtype)} of shape {shape}; it is {value.dtype} of shape {value.shape}",
    )
    require(
        value.flags.c_contiguous and value.flags.writeable, f"{what} should be C-contiguous and writeable"
    )
    return value


def require_finite(values: NDArray[Any], what: str) -> None:
    """Refuse NaN and infinity, which rounds never produce."""
    require(np.isfinite(values).all(), f"{what} should be finite")


def require_moderate(stored: NDArray[Any], factor: float, what: str) -> None:
    """Refuse numbers so large that the next round might overflow.

    If one class overflowed, it would stop while the others go on.
    """
    require_finite(stored, what)
    require(1e-110 < abs(factor) < 1e110, "factor should be moderate")
    with np.errstate(over="ignore"):
        require(np.all(np.abs(stored * factor) < 1e90), f"{what} should be moderate")
