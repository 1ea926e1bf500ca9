"""Targets that are numbers: when a target is a quantity and not a class, and how its numbers are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan, nan
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from budgetron.streams import _numbers
from budgetron.streams._arrow import ArrowColumn, is_number, is_text, level_of
from budgetron.streams._columns import MISSING_TEXTS
from budgetron.streams._decide import MOSTLY, Wishes, decide, has_leading_zero
from budgetron.streams._errors import Advice, Fault
from budgetron.streams._running import Floats, State

__all__ = ["FIRST_TARGETS", "Targets", "Task", "checked_task", "find_targets", "is_quantity"]

Task: TypeAlias = Literal["classification", "regression"]
TASKS = ("classification", "regression", "auto")

# The rule that decides between classes and numbers looks at this number of rows, so that the beginning of a
# file and the whole file are treated in the same way.
FIRST_TARGETS = 1000
# Whole numbers are classes if they span at most this, or if there are at most so many different ones.
CLASS_SPAN = 100
FEW_CLASSES = 20

# Learners accept targets whose absolute values are below this.
LARGEST = 1e30


def checked_task(task: str) -> Task:
    """Return a task that is known."""
    if task not in TASKS[:2]:
        raise ValueError(f"task must be one of {', '.join(TASKS)}; got {task!r}")
    return cast(Task, task)


def is_quantity(values: Iterable[float]) -> bool:
    """Return whether numbers are a quantity, and not labels of classes.

    They are a quantity if one of them has decimals. Whole numbers are a quantity if there are more than 20
    different ones, and if the largest and the smallest differ by more than 100. Other whole numbers are codes
    of classes, such as 0 and 1 or 1 to 26.

    Examples
    --------
    >>> is_quantity([0, 1, 1]), is_quantity([0.5, 1, 1]), is_quantity(range(0, 3000, 30))
    (False, True, True)
    """
    found = np.unique(np.fromiter(values, np.float64))
    found = found[np.isfinite(found)]
    if (found % 1 != 0).any():
        return True
    return len(found) > FEW_CLASSES and bool(found[-1] - found[0] > CLASS_SPAN)


def find_targets(
    name: str,
    column: ArrowColumn,
    *,
    na_values: Sequence[str],
    decimal: str | None,
    typed: bool,
    task: str,
) -> Targets | None:
    """Return how the numbers of a target column are written; None if they are classes.

    Raises `Fault` if the numbers may be read in two ways.

    Parameters
    ----------
    name : str
    column : arrow column
        The first rows.
    na_values : sequence of str
        Texts that mean a missing value.
    decimal : {None, ".", ","}
        The decimal mark of the file, if it is known.
    typed : bool
        Whether the format distinguishes text from numbers.
    task : {"regression", "auto"}
    """
    column = column.slice(0, FIRST_TARGETS)
    kind = column.type
    missing = frozenset(na_values)
    if not is_text(kind):
        targets = Targets(missing=missing)
        if task == "regression":
            return targets
        quantity = is_number(kind) and is_quantity(map(targets.number, column.to_pylist()))
        return targets if quantity else None
    if typed and task == "auto":
        return None
    texts = [text for value in column.to_pylist() if (text := (value or "").strip()) not in missing]
    if task == "auto" and not _mostly_numbers(texts):
        return None
    numeric = Wishes(numeric=[name], decimal=decimal)
    (decided,) = decide({name: column}, na_values, numeric, typed)
    targets = Targets(decided.form, decided.unit, missing)
    if task == "regression":
        return targets
    numbers = [targets.number(text) for text in texts]
    known = [number for number in numbers if not isnan(number)]
    if len(known) < len(numbers):  # a mistake in the file, if the others are a quantity
        return targets if any(number % 1 for number in known if isfinite(number)) else None
    return targets if is_quantity(known) else None


def _mostly_numbers(texts: Sequence[str]) -> bool:
    """Return whether most texts are numbers; codes with leading zeros are not."""
    if has_leading_zero(texts):
        return False
    unit = _numbers.unit_of(texts)
    numbers = [_numbers.is_number(_numbers.without_unit(text, unit) if unit else text) for text in texts]
    return sum(numbers) > MOSTLY * len(texts)


@dataclass(frozen=True)
class Targets:
    """Targets that are numbers.

    Attributes
    ----------
    form : str
        How text is read as a number; see `_numbers`.
    unit : str
        The sign of percent or of a currency that the numbers may have.
    missing : frozenset of str
        Texts that mean a missing value.
    optional : bool
        For rows to predict: a target that is missing or not a number becomes NaN.
    """

    form: str = _numbers.PLAIN
    unit: str = ""
    missing: frozenset[str] = field(default=frozenset(MISSING_TEXTS), repr=False)
    optional: bool = False

    def __post_init__(self) -> None:
        if self.form not in (_numbers.PLAIN, *_numbers.FORMS) or self.unit not in ("", *_numbers.UNITS):
            raise ValueError(f"not a form of numbers: {self.form!r} with the unit {self.unit!r}")

    def state(self) -> State:
        """Return the form of the numbers as plain values."""
        return {"form": self.form, "unit": self.unit}

    def number(self, value: object) -> float:
        """Return a value as a number; NaN if it is none."""
        if self._is_missing(value):
            return nan
        if isinstance(value, str):
            text = value.strip()
            text = _numbers.without_unit(text, self.unit) if self.unit else text
            found = _numbers.number(text, self.form)
            if found is None and self.form == _numbers.PLAIN and _numbers.is_plain([text]):
                return float(text)  # infinity
            return nan if found is None else found
        try:
            return nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]  # caught
        except (TypeError, ValueError):
            return nan

    def _is_missing(self, value: object) -> bool:
        return value is None or (bool(self.missing) and level_of(value).strip() in self.missing)

    def lookup(self, codes: NDArray[np.int64], values: list[object]) -> Floats:
        """Return the number of each row, given the index of its value; raise `Fault` if it is not usable."""
        numbers = np.array([*map(self.number, values), nan])
        targets: Floats = numbers[codes]
        if (bad := ~(np.abs(targets) < LARGEST)).any():
            if self.optional:
                return np.where(bad, nan, targets)
            row = int(bad.argmax())
            value = None if codes[row] < 0 else values[codes[row]]
            if self._is_missing(value):
                raise Fault(row, "the target is missing; every row needs a target")
            if isnan(targets[row]):
                raise Fault(row, f"the target {value!r} is not a number", Advice.CORRECT_TARGET)
            problem = (
                "infinite; every row needs a finite target"
                if np.isinf(targets[row])
                else "too large; scale the targets"
            )
            raise Fault(row, f"the target {value!r} is {problem}")
        return targets
