"""Decide from the first rows of a table how each column is read.

The decision depends on at most 4096 rows, so that a file and a longer file with the same first rows are read
in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from budgetron.streams import _numbers, _times
from budgetron.streams._arrow import ArrowColumn, is_number, is_text
from budgetron.streams._columns import Column
from budgetron.streams._errors import Advice, Fault

__all__ = ["MOSTLY", "Wishes", "decide", "has_leading_zero"]

# A column in which more than this share of the values look like numbers may contain nothing but numbers.
MOSTLY = 0.5
# A column looks like an id if at least this share of its values differ from each other. Fewer rows than
# `FEW_ROWS` must all differ, and fewer than `FEWEST_ROWS` say nothing.
DIFFERENT = 0.98
FEW_ROWS = 100
FEWEST_ROWS = 20
# Text with at least this number of words per value, on average, is text and not a name.
WORDS = 3.0

ID_NAMES = {"id", "ids", "uuid", "guid", "key", "idx", "index", "rowid", "serial", "unnamed", ""}
CODE_NAMES = {"zip", "zipcode", "postcode", "postal", "plz", "code"}
TIME_NAMES = {"time", "timestamp", "date", "datetime", "ts", "epoch", "unix", "at", "when", "day"}


@dataclass(frozen=True)
class Wishes:
    """What the user wants, whatever the values look like.

    Attributes
    ----------
    categorical, numeric, keep : sequence of str
        Columns that are categories; columns that are numbers; columns that are used although they look like
        ids.
    decimal : {None, ".", ","}
        The decimal mark of numbers.
    date_order : {"auto", "day", "month"}
        What comes first in dates such as 03/04/2024.
    """

    categorical: Sequence[str] = ()
    numeric: Sequence[str] = ()
    keep: Sequence[str] = ()
    decimal: str | None = None
    date_order: str = "auto"

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise ValueError(f'decimal must be "." or ","; got {self.decimal!r}')
        if self.date_order not in ("auto", "day", "month"):
            raise ValueError(f'date_order must be "auto", "day" or "month"; got {self.date_order!r}')
        if both := set(self.categorical) & set(self.numeric):
            raise ValueError(f"a column cannot be both categorical and numeric; got {sorted(both)}")


def decide(
    columns: Mapping[str, ArrowColumn], na_values: Sequence[str], wishes: Wishes, typed: bool
) -> list[Column]:
    """Return how each column is read; the kind of categories is "hash" until the levels are counted.

    If the format is `typed`, text is not read as numbers, unless the user wants it. Missing values are empty
    text, which is one of `na_values`. Raises `Fault` if a column may be read in two ways.
    """
    decided: dict[str, Column] = {}
    texts: dict[str, list[str]] = {}
    missing = set(na_values)
    for name, column in columns.items():
        if is_text(column.type):
            texts[name] = [value for value in _stripped(column) if value not in missing]
        else:
            decided[name] = _typed(name, column, wishes)
    # The decimal mark of a file is found from the columns that leave no doubt.
    candidates = wishes.numeric if typed else texts
    numeric = [name for name in texts if name in candidates and name not in wishes.categorical]
    units = {name: _numbers.unit_of(texts[name]) for name in numeric}
    written = {name: _without(units[name], texts[name]) for name in numeric}
    forms = {name: _numbers.forms_of(written[name]) for name in numeric}
    marks = {mark for name in numeric if (mark := _numbers.decimal_mark(written[name], forms[name]))}
    decimal = wishes.decimal or (marks.pop() if len(marks) == 1 else None)
    for name, values in texts.items():
        try:
            if units.get(name) and forms[name]:
                form = _numbers.find_form(written[name], forms[name], decimal)
                decided[name] = Column(name, "number", form=form, unit=units[name])
            else:
                decided[name] = _text(name, values, forms.get(name), decimal, wishes)
        except Fault as fault:
            row = _stripped(columns[name]).index(values[fault.row])
            raise Fault(row, f'column "{name}" {fault.problem}', fault.advice) from None
    in_order = [decided[name] for name in columns]
    if all(column.kind == "none" for column in in_order):  # something must be learned
        return [replace(column, kind=column.form or "hash", form="", reason="") for column in in_order]
    return [replace(column, form="") if column.kind == "none" else column for column in in_order]


def _without(unit: str, values: list[str]) -> list[str]:
    return [_numbers.without_unit(value, unit) for value in values] if unit else values


def _stripped(column: ArrowColumn) -> list[str]:
    """Return the values without spaces around them; "" if missing."""
    try:
        return [(value or "").strip() for value in column.to_pylist()]
    except UnicodeDecodeError:
        problem = "text in this row or a later one is not UTF-8; write the file with valid text"
        raise Fault(0, problem) from None


def _typed(name: str, column: ArrowColumn, wishes: Wishes) -> Column:
    """Decide on a column of a format that has types."""
    from pyarrow import types

    kind = column.type
    if types.is_temporal(kind) and not types.is_duration(kind) and name not in wishes.categorical:
        return Column(name, "time", form="time" if types.is_time(kind) else "")
    if not is_number(kind) or name in wishes.categorical:
        return Column(name, "hash")
    if not types.is_integer(kind):
        return Column(name, "number")
    return _whole(name, [value for value in column.to_pylist() if value is not None], "", wishes)


def _text(
    name: str, values: list[str], forms: list[str] | None, decimal: str | None, wishes: Wishes
) -> Column:
    """Decide on a column of text.

    `forms` are the forms of numbers that fit all values; None if the column cannot have numbers.
    """
    if name in wishes.categorical:
        return Column(name, "hash")
    if not values:  # nothing is known yet, and most columns are numbers
        return Column(name, "number" if forms is not None else "hash")
    if forms and not has_leading_zero(values):
        form = _numbers.find_form(values, forms, decimal)
        if wishes.decimal is not None and form == _numbers.PLAIN:  # accept separators in later rows
            form = ".," if wishes.decimal == "." else ",."
        if form or not all(map(_INTEGER.fullmatch, values)):
            return Column(name, "number", form=form)
        return _whole(name, list(map(int, values)), "yearmonthday", wishes)
    if name in wishes.numeric:
        return Column(name, "number")
    form_of_time = _times.find_form(values, wishes.date_order)
    if form_of_time is not None:
        return Column(name, "time", form=form_of_time)
    if forms is not None and not all(map(str.isdigit, values)):  # digits are codes with leading zeros
        _check_mixed(values)
    if _mean_words(values) >= WORDS and len(set(values)) > len(values) / 2:
        return Column(name, "words", reason="it holds text")
    if name not in wishes.keep and _all_differ(values):
        return Column(name, "none", form="hash", reason=_id_reason(values))
    return Column(name, "hash")


_INTEGER = re.compile(r"[-+]?\d{1,18}")
_LEADING_ZERO = re.compile(r"\n0\d+\n")  # two fixed characters are found fast


def _whole(name: str, values: list[int], date_form: str, wishes: Wishes) -> Column:
    """Decide on a column of whole numbers: dates, ids and codes are written as such, too."""
    if name in wishes.numeric or not values:
        return Column(name, "number")
    words = set(_name_words(name))
    if words & TIME_NAMES:
        if (unit := _times.epoch_unit(values)) is not None:
            return Column(name, "time", form=unit)
        if date_form and _times.find_form(list(map(str, values))) == date_form:
            return Column(name, "time", form=date_form)
    if name not in wishes.keep and _all_differ(values):
        steps = {after - before for before, after in pairwise(values)}
        if len(steps) == 1:
            return Column(name, "none", form="number", reason="it counts the rows")
        if words & ID_NAMES:
            return Column(name, "none", form="number", reason=_id_reason(values))
    if words & (CODE_NAMES | (ID_NAMES - {""})) and name not in wishes.keep:
        return Column(name, "hash", reason="its name is that of a code")
    return Column(name, "number")


def _all_differ(values: Sequence[object]) -> bool:
    if len(values) < FEWEST_ROWS:
        return False
    return len(set(values)) >= (DIFFERENT if len(values) >= FEW_ROWS else 1.0) * len(values)


def _id_reason(values: Sequence[object]) -> str:
    return f"it looks like an id: {len(set(values)):,} different values in the first {len(values):,}"


def _name_words(name: str) -> list[str]:
    """Return the words of a name, in lower case: customerId and customer_id have the words customer, id."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return re.split(r"[^a-z]+", spaced.lower().strip()) if name.strip() else [""]


def _mean_words(values: Sequence[str]) -> float:
    return sum(value.count(" ") + 1 for value in values) / len(values)


def has_leading_zero(values: Sequence[str]) -> bool:
    """Return whether some value is a code such as 00501: as a number it would lose its zeros."""
    return _LEADING_ZERO.search("\n".join(["", *values, ""])) is not None


def _check_mixed(values: Sequence[str]) -> None:
    """Raise `Fault` if a column of numbers contains some text: that is a mistake, not a category."""
    numbers = [_numbers.is_number(value) for value in values]
    if all(numbers):
        first = _numbers.forms_of(values[:1])
        row = next(i for i, value in enumerate(values) if not set(_numbers.forms_of([value])) & set(first))
        problem = f"has {values[row]!r}, which is not written like {values[0]!r}"
        raise Fault(row, problem, Advice.CATEGORICAL)
    if sum(numbers) / len(values) > MOSTLY:
        row = numbers.index(False)
        raise Fault(row, f"has {values[row]!r} among numbers", Advice.CATEGORICAL)
