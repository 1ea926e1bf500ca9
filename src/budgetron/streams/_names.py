"""Find the columns of a table by their names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from budgetron.streams._errors import Advice, StreamError

__all__ = ["find_target", "listed", "no_column"]


def find_target(name: str, target: str | int | None, columns: list[str], optional: bool) -> str | None:
    """Return the name of the target, given its name or number; None if it is optional and not there."""
    if target is None:
        if optional:
            return None
        problem = f"{name}: no target column given; the columns are {listed(columns)}"
        raise StreamError(problem, Advice.NAME_TARGET)
    if str(target) in columns:  # names go first, because the columns of a data frame may be called 0, 1...
        return str(target)
    try:
        number = int(target)
        return columns[number - 1 if number > 0 else number if number < 0 else len(columns)]
    except (ValueError, IndexError):
        if optional:
            return None
        raise no_column(name, str(target), columns) from None


def no_column(name: str, wanted: str, columns: Iterable[str]) -> StreamError:
    """Return the error for a column that a table does not have."""
    by_text = {column.casefold(): column for column in columns}
    near = get_close_matches(wanted.casefold(), by_text, 1)
    hint = f'did you mean "{by_text[near[0]]}"? The' if near else "the"
    return StreamError(f'{name}: no column "{wanted}"; {hint} columns are {listed(columns)}')


def listed(names: Iterable[str]) -> str:
    """Return names as a list to be read; of many, the first ones and the last."""
    shown = [f'"{name}"' for name in names]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:11], "...", shown[-1]])
