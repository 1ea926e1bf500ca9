"""Columns as a ColumnTransformer of scikit-learn names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["column_numbers"]


def column_numbers(columns: Any, names: Sequence[str] | None, d: int) -> list[int]:
    """Return the numbers of columns that are given by number, by name, by a slice, or by truth values.

    Parameters
    ----------
    columns : int, str, slice, or sequence of int, str or bool
    names : sequence of str, or None
        The names of all columns.
    d : int
        The number of columns.
    """
    if isinstance(columns, slice):
        ends = [_number(end, names) if isinstance(end, str) else end for end in (columns.start, columns.stop)]
        if isinstance(columns.stop, str):  # names include the last one
            ends[1] += 1
        return list(range(d))[slice(ends[0], ends[1], columns.step)]
    if isinstance(columns, str | int | np.integer):
        columns = [columns]
    found = list(columns)
    if found and all(isinstance(column, bool | np.bool_) for column in found):
        if len(found) != d:
            raise ValueError(f"there should be a truth value for each of {d} columns; got {len(found)}")
        return [int(number) for number in np.flatnonzero(found)]
    numbers = [_number(column, names) if isinstance(column, str) else int(column) for column in found]
    if not all(-d <= number < d for number in numbers):
        raise ValueError(f"columns should be numbers below {d}; got {numbers}")
    return [number % d for number in numbers]


def _number(name: str, names: Sequence[str] | None) -> int:
    if names is None or name not in names:
        raise ValueError(f"there is no column {name!r}")
    return list(names).index(name)
