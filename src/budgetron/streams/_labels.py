"""Labels of a file become classes: integers, booleans, floats or text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from budgetron.streams._base import MAX_CLASSES, LabelArray, check_classes
from budgetron.streams._errors import Advice, Fault

__all__ = ["Label", "Labels"]

Label: TypeAlias = bool | int | float | str

_TRUTH = {"true": True, "false": False}
_WORDS = {"bool": "a truth value", "int": "an integer", "float": "a number", "text": "text"}


class Labels:
    """The classes of a stream, and the class of each label that is read.

    Parameters
    ----------
    values : iterable
        Labels as read from the source or as given by the user.
    like : iterable, optional
        Labels as read from the source. They decide the type if the user's labels are text: "0" is 0 in a
        column of numbers.
    typed : bool, default=False
        Whether text is text. In a CSV file everything is text, and "1" means 1 if all labels are numbers.
    optional : bool, default=False
        For rows to predict: fewer than two classes are allowed, and a label that is missing or unknown
        becomes None.
    """

    def __init__(
        self,
        values: Iterable[object],
        *,
        like: Iterable[object] = (),
        typed: bool = False,
        optional: bool = False,
    ) -> None:
        self._optional = optional
        values = [_plain(value) for value in values]
        self._kind = _common({_kind(value, typed) for value in like or values})
        found: set[Label] = set()
        for value in values:
            label = _convert(value, self._kind)
            if label is None:
                raise ValueError(f"class {value!r} is not {_WORDS[self._kind]}, but the labels are")
            found.add(label)
        if not optional or len(found) > MAX_CLASSES:
            check_classes(len(found))
        self.classes: LabelArray = np.array(sorted(found))
        self._index = {label: i for i, label in enumerate(self.classes.tolist())}

    def lookup(self, codes: NDArray[np.int64], values: list[object]) -> LabelArray:
        """Return the class of each row, given the index of its value; raise `Fault` if it is unknown."""
        index = [self.code_of(value) for value in values]
        places = np.array([*index, -1])[codes]
        if self._optional:
            found: LabelArray = np.array([*self.classes.tolist(), None], object)[places]
            return found
        if (bad := places < 0).any():
            row = int(bad.argmax())
            if codes[row] < 0:
                raise Fault(row, "the label is missing; every row needs a label")
            problem = f"label {values[codes[row]]!r} is not among the classes {self}"
            raise Fault(row, problem, Advice.LIST_CLASSES)
        y: LabelArray = self.classes[places]
        return y

    def code_of(self, value: object) -> int:
        """Return the index of a label's class in `classes`; -1 if it is unknown."""
        return self._index.get(_convert(_plain(value), self._kind), -1)

    def __str__(self) -> str:
        names = [str(label) for label in self.classes.tolist()]
        return ", ".join(names if len(names) <= 8 else [*names[:7], "...", names[-1]])


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def _kind(value: object, typed: bool) -> str:
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
    """Return the type that fits all labels."""
    if kinds <= {"int", "float"} and kinds:
        return "float" if "float" in kinds else "int"
    return kinds.pop() if len(kinds) == 1 else "text"


def _number(value: object) -> int | float | None:
    """Return a finite number, as int where it is whole; None for anything else."""
    number: int | float
    try:
        number = int(value) if isinstance(value, str | int) else _float(value)
    except (TypeError, ValueError):
        try:
            number = _float(value)
        except (TypeError, ValueError):
            return None
    if not abs(number) < 2**63 or (isinstance(value, str) and "_" in value):
        return None
    return int(number) if number == int(number) else number


def _float(value: object) -> float:
    return float(value)  # type: ignore[arg-type]  # TypeError is caught


def _convert(value: object, kind: str) -> Label | None:
    """Return the value as this type, or None if it is not of this type."""
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
