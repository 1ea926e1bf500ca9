"""Labels of a file become classes: whole numbers, truth values, numbers or text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.streams._base import MOST_CLASSES, check_classes
from budgetron.streams._encoder import Fault

__all__ = ["Labels"]

_TRUTH = {"true": True, "false": False}


class Labels:
    """The classes of a stream, and which of them a label read is.

    Parameters
    ----------
    values : iterable
        Labels as read or as given by the user.
    like : iterable, optional
        Labels as read, whose kind decides if the user's are text: "0" is 0 in a column of numbers.
    typed : bool, default=False
        Whether text is text. In a CSV file everything is text, and "1" means 1 if all labels are like that.
    optional : bool, default=False
        For rows to predict: less than two classes are in order, and a label that is missing or none of
        them is None.
    """

    def __init__(
        self, values: Iterable[Any], *, like: Iterable[Any] = (), typed: bool = False, optional: bool = False
    ) -> None:
        self._optional = optional
        values = [_plain(value) for value in values]
        kinds = {_kind(value, typed) for value in like or values}
        self._kind = _common(kinds)
        known = {_convert(value, self._kind) for value in values}
        if None in known:
            odd = next(value for value in values if _convert(value, self._kind) is None)
            raise ValueError(f"class {odd!r} is no {_WORDS[self._kind]}, as the labels are")
        if not optional or len(known) > MOST_CLASSES:
            check_classes(len(known))
        self.classes: NDArray[Any] = np.array(sorted(known))
        self._index = {label: i for i, label in enumerate(self.classes.tolist())}

    def lookup(self, codes: NDArray[np.int64], values: list[Any]) -> NDArray[Any]:
        """The classes of rows given by the number of their value; raises `Fault` for one unknown."""
        known = [self._index.get(_convert(_plain(value), self._kind), -1) for value in values]
        places = np.array([*known, -1])[codes]
        if self._optional:
            found: NDArray[Any] = np.array([*self.classes.tolist(), None], object)[places]
            return found
        if (bad := places < 0).any():
            row = int(bad.argmax())
            if codes[row] < 0:
                raise Fault(row, "the label is missing; every row needs one")
            raise Fault(row, f"label {values[codes[row]]!r} is not among the classes {self}; give classes")
        y: NDArray[Any] = self.classes[places]
        return y

    def __str__(self) -> str:
        names = [str(label) for label in self.classes.tolist()]
        return ", ".join(names if len(names) <= 8 else [*names[:7], "...", names[-1]])


_WORDS = {"bool": "truth value", "int": "whole number", "float": "number", "text": "text"}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _kind(value: Any, typed: bool) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        if typed:
            return "text"
        if value.strip().lower() in _TRUTH:
            return "bool"
    number = _number(value)
    if number is None:
        return "text"
    return "int" if isinstance(number, int) else "float"


def _common(kinds: set[str]) -> str:
    if kinds <= {"int", "float"} and kinds:
        return "float" if "float" in kinds else "int"
    return kinds.pop() if len(kinds) == 1 else "text"


def _number(value: Any) -> int | float | None:
    """A finite number, as int where it is whole; None for anything else."""
    try:
        number: int | float = int(value) if isinstance(value, str | int) else float(value)
    except (TypeError, ValueError):
        try:
            number = float(value)
        except (TypeError, ValueError):
            return None
    if not abs(number) < 2**63 or (isinstance(value, str) and "_" in value):
        return None
    return int(number) if number == int(number) else number


def _convert(value: Any, kind: str) -> Any:
    """The value as this kind, None if it is not one."""
    if kind == "text":
        return str(value)
    if kind == "bool":
        return _TRUTH.get(str(value).strip().lower())
    if isinstance(value, bool):
        return None
    number = _number(value)
    if kind == "int":
        return number if isinstance(number, int) else None
    return None if number is None else float(number)
