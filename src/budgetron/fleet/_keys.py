"""Keys as the index takes them: an array of 64-bit integers, or a list of texts."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from budgetron._util.types import Ints

__all__ = ["Keys", "checked_key", "checked_keys", "is_text"]

Keys: TypeAlias = Ints | list[str]

WRONG = "keys must be integers or texts, all of one kind"


def checked_keys(keys: ArrayLike, n: int) -> Keys:
    """Return the keys of n rows; raise `ValueError` or `TypeError` with the row of the first invalid one."""
    given: Any = keys if isinstance(keys, np.ndarray) else _as_array(keys)
    if given.ndim != 1:
        raise ValueError(f"keys must have one dimension, with one key per row; got shape {given.shape}")
    if len(given) != n:
        raise ValueError(f"keys must have one entry per row; got {len(given)} keys for {n} rows")
    if isinstance(given, np.ma.MaskedArray) and np.ma.getmaskarray(given).any():
        row = int(np.flatnonzero(np.ma.getmaskarray(given))[0])
        raise ValueError(f"keys must not be missing; that of row {row} is masked")
    if given.dtype.kind == "i":
        return np.ascontiguousarray(given, np.int64)
    if given.dtype.kind == "u":
        return _signed(given)
    if given.dtype.kind in "UT":
        return _texts(given.tolist())
    if given.dtype.kind != "O":
        raise TypeError(f"{WRONG}; got an array of {given.dtype}")
    values = given.tolist()
    if values and isinstance(values[0], str):
        return _texts(values)
    return _integers(values)


def checked_key(key: object) -> Keys:
    """Return one key, as a sequence of one."""
    if not isinstance(key, int | np.integer | str) or isinstance(key, bool):
        raise TypeError(f"a key must be an integer or a text; got {key!r}")
    return checked_keys(np.array([key], object), 1)


def is_text(keys: Keys) -> bool:
    """Return whether keys are texts."""
    return isinstance(keys, list)


def _as_array(keys: ArrayLike) -> Any:
    """Return a sequence of keys as an array, without converting numbers to text as NumPy would."""
    if isinstance(keys, list | tuple):
        values = np.empty(len(keys), object)
        values[:] = keys
        return values
    return np.asarray(keys)


def _signed(given: Any) -> Ints:
    most = np.iinfo(np.int64).max
    if given.dtype.itemsize == 8 and len(given) and given.max() > most:
        row = int(np.flatnonzero(given > most)[0])
        raise ValueError(f"keys must be below 2 ** 63; that of row {row} is {given[row]}")
    return np.ascontiguousarray(given, np.int64)


def _integers(values: list[Any]) -> Ints:
    limits = np.iinfo(np.int64)
    for row, value in enumerate(values):
        if not isinstance(value, int | np.integer) or isinstance(value, bool | np.bool_):
            raise TypeError(f"{WRONG}; that of row {row} is {value!r}")
        if not limits.min <= value <= limits.max:
            raise ValueError(f"keys must be from -(2 ** 63) to 2 ** 63 - 1; that of row {row} is {value}")
    return np.array(values, np.int64)


def _texts(values: list[Any]) -> list[str]:
    for row, value in enumerate(values):
        if not isinstance(value, str):
            raise TypeError(f"{WRONG}; that of row {row} is {value!r}")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError(f"keys must be valid Unicode; that of row {row} is {value!r}") from None
    return [str(value) for value in values]
