"""Checks of values from outside: each returns the value, or raises `ValueError` with the reason."""

from __future__ import annotations

from typing import Any, Never

import numpy as np
from numpy.typing import NDArray

from budgetron._util.numbers import largest

__all__ = [
    "MOST_ROUNDS",
    "State",
    "own_copy",
    "raise_invalid_state",
    "require",
    "require_array",
    "require_finite",
    "require_float",
    "require_int",
    "require_moderate",
    "require_names",
    "require_no_arrays",
]

# The state of an object: plain values, arrays, and tables of these.
State = dict[str, Any]

# More rounds than any stream has; the sum of two such numbers does not overflow 64 bits.
MOST_ROUNDS = 2**62


# Levels of tables and lists in a state; the deepest states have about ten.
DEEPEST = 40


def own_copy(value: Any, level: int = 0) -> Any:
    """Return a state with copies of its tables, lists and arrays, so that nothing else shares them.

    Arrays of a memory-mapped file are read-only, and an array may occur twice in a state. Objects of other
    types are not copied, nor are empty arrays, which may be shared.
    """
    if level > DEEPEST:
        raise ValueError(f"a state should have at most {DEEPEST} levels of tables and lists")
    # By the methods of dict and list, because those of a subclass could return anything.
    if isinstance(value, dict):
        return {name: own_copy(item, level + 1) for name, item in dict.items(value)}
    if isinstance(value, list):
        return [own_copy(item, level + 1) for item in list.__iter__(value)]
    if type(value) is tuple:
        return tuple([own_copy(item, level + 1) for item in value])
    if isinstance(value, np.ndarray) and (value.size or not value.flags.writeable):
        # A plain copy would keep the object that describes the type; pickle makes a new one for each model.
        kind = value.dtype.type if value.dtype.kind in "biuf" else value.dtype
        return value.astype(kind, order="C", subok=False)
    return value


def raise_invalid_state(error: Exception, what: str) -> Never:
    """Raise the error of an invalid state as a `ValueError`: values of unexpected types fail in many ways."""
    if isinstance(error, ValueError | MemoryError):
        raise error
    raise ValueError(f"the state of {what} is invalid: {type(error).__name__}: {error}") from error


def require(condition: object, message: str) -> None:
    """Raise `ValueError` with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)


def require_no_arrays(value: object, what: str) -> None:
    """Refuse arrays among parameters: they are compared with ==, as arrays cannot be."""
    if isinstance(value, np.ndarray):
        raise ValueError(f"{what} should not be arrays")
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            require_no_arrays(item, what)


def require_names(
    value: object, expected: set[str], what: str, optional: frozenset[str] = frozenset()
) -> State:
    """Return a dict that has exactly these names; the optional ones may be missing."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} should be a table of names")
    if value.keys() != expected:
        wrong = sorted(map(str, (value.keys() ^ expected) - (optional & value.keys())))
        if wrong:
            raise ValueError(
                f"{what} should have the names {sorted(expected)}; {wrong[:3]} missing or unexpected"
            )
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
    if type(value) is not np.ndarray:
        raise ValueError(f"{what} should be an array")
    if value.dtype != dtype or value.shape != shape:
        raise ValueError(
            f"{what} should be {np.dtype(dtype)} of shape {shape}; it is {value.dtype} of shape {value.shape}"
        )
    if not value.flags.carray:
        raise ValueError(f"{what} should be C-contiguous and writeable")
    return value


def require_finite(values: NDArray[Any], what: str) -> None:
    """Refuse NaN and infinity, which rounds never produce, in an array of floats."""
    if not largest(values) < np.inf:
        raise ValueError(f"{what} should be finite")


def require_moderate(stored: NDArray[Any], factor: float, what: str) -> None:
    """Refuse numbers so large that the next round might overflow.

    If one class overflowed, it would stop while the others go on.
    """
    require_finite(stored, what)
    require(1e-110 < abs(factor) < 1e110, "factor should be moderate")
    if not largest(stored) * abs(factor) < 1e90:
        raise ValueError(f"{what} should be moderate")
