"""Rows that are given as objects: dicts of plain values by column name, as parsed from JSON.

An `ObjectReader` turns them into `PlainRows`, compact and independent of the encoder's running state, so that
rows may be stored and encoded later. The values of a row become the same features as those of a JSON lines
file.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from budgetron.streams import _numbers, _times
from budgetron.streams._arrow import level_of
from budgetron.streams._columns import Column, Columns
from budgetron.streams._encoder import Encoder
from budgetron.streams._errors import Advice, Fault
from budgetron.streams._running import Floats

__all__ = ["ObjectReader", "PlainRows"]

# A row: plain values by column name.
Object: TypeAlias = dict[str, Any]

_NUMBERS = {int, float}
_PLAIN = {int, float, bool, str, type(None)}
# Larger numbers are errors of the sender. Their squares, and products with other values, stay finite.
LARGEST = 1e30
_HEADER = struct.Struct("<II")  # the number of rows, and the bytes of the texts


@dataclass(frozen=True)
class PlainRows:
    """Rows before encoding.

    Attributes
    ----------
    numbers : ndarray of shape (n_rows, n_number_columns)
        Numbers, and dates as numbers of days; NaN if missing.
    texts : tuple of list
        The levels or texts of each other column; None if missing.
    """

    numbers: Floats
    texts: tuple[list[str | None], ...] = ()

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def nbytes(self) -> int:
        """Bytes of the values, and of the objects that Python needs for texts."""
        return self.numbers.nbytes + sum(map(_text_bytes, chain.from_iterable(self.texts)))

    def take(self, places: Sequence[int] | slice) -> PlainRows:
        """Return some of the rows."""
        if isinstance(places, slice):
            return PlainRows(self.numbers[places], tuple(texts[places] for texts in self.texts))
        return PlainRows(
            self.numbers[places], tuple([texts[place] for place in places] for texts in self.texts)
        )

    @staticmethod
    def joined(parts: Sequence[PlainRows]) -> PlainRows:
        """Return the rows of all parts, in order; there must be one part at least."""
        if len(parts) == 1:
            return parts[0]
        texts = tuple(
            list(chain.from_iterable(column)) for column in zip(*(p.texts for p in parts), strict=True)
        )
        return PlainRows(np.concatenate([part.numbers for part in parts]), texts)

    def to_bytes(self) -> bytes:
        """Return the rows as bytes, little-endian."""
        texts = json.dumps(self.texts, separators=(",", ":")).encode() if self.texts else b""
        head = _HEADER.pack(len(self), len(texts))
        return head + texts + np.ascontiguousarray(self.numbers, "<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> PlainRows:
        """Return the rows that `to_bytes` was called for."""
        n, length = _HEADER.unpack_from(data)
        start = _HEADER.size
        texts = tuple(json.loads(data[start : start + length])) if length else ()
        numbers = np.frombuffer(data, "<f8", offset=start + length).astype(np.float64)
        return cls(numbers.reshape(n, -1) if n else numbers.reshape(0, 0), texts)


def _text_bytes(text: str | None) -> int:
    """Return the bytes of a text, and of a reference to it, rounded up as Python's allocator does."""
    if text is None:
        return 8
    return 72 + len(text) if text.isascii() else 96 + 4 * len(text)


class ObjectReader:
    """Read objects as the rows of an encoder.

    A value that is absent or None is missing. Numbers may also be text, written as in the file that the
    columns were determined from. Columns that the encoder does not use are ignored; other names are errors.
    """

    def __init__(self, encoder: Encoder) -> None:
        columns = [column for column in encoder.columns if column.kind != "none"]
        self._numbers = [column for column in columns if column.kind in ("number", "time")]
        self._texts = [column for column in columns if column.kind not in ("number", "time")]
        self._known = frozenset(column.name for column in encoder.columns)
        self._na_values = frozenset(encoder.na_values)
        self._na_numbers = frozenset(
            value for text in encoder.na_values if (value := _numbers.number(text, "")) is not None
        )
        # A table of numbers without anything special is read at once.
        plain = all(column.kind == "number" for column in self._numbers)
        self._fast = plain and not self._texts and not self._na_numbers and len(self._numbers) > 1
        self._values = itemgetter(*(column.name for column in self._numbers)) if self._fast else None

    @property
    def names(self) -> list[str]:
        """The names of all columns that rows may have."""
        return sorted(self._known)

    def read(self, rows: Sequence[object]) -> PlainRows:
        """Return the rows; raise `Fault` with the row and the column of a value that cannot be used."""
        fast = self._all_numbers(rows)
        if fast is not None:
            return PlainRows(fast)
        checked = [self._checked(i, row) for i, row in enumerate(rows)]
        numbers = np.empty((len(checked), len(self._numbers)))
        for j, column in enumerate(self._numbers):
            values = [row.get(column.name) for row in checked]
            numbers[:, j] = (
                self._days(column, values) if column.kind == "time" else self._floats(column, values)
            )
        texts = tuple(
            [self._level(i, column.name, row.get(column.name)) for i, row in enumerate(checked)]
            for column in self._texts
        )
        return PlainRows(numbers, texts)

    def columns(self, rows: PlainRows) -> Columns:
        """Return rows in the form that the encoder accepts."""
        block: Columns = {column.name: rows.numbers[:, j] for j, column in enumerate(self._numbers)}
        for column, texts in zip(self._texts, rows.texts, strict=True):
            levels: dict[str, int] = {}
            codes = [-1 if text is None else levels.setdefault(text, len(levels)) for text in texts]
            block[column.name] = np.array(codes, np.int64), list(levels)
        return block

    def _all_numbers(self, rows: Sequence[Any]) -> Floats | None:
        """Return the rows if each has a number in every column and nothing else; None otherwise."""
        if self._values is None:
            return None
        width = len(self._numbers)
        try:
            table = [self._values(row) for row in rows if len(row) == width]
        except (KeyError, TypeError, IndexError):
            return None
        if len(table) < len(rows) or not set(map(type, chain.from_iterable(table))) <= _NUMBERS:
            return None
        if len(table) == 1 and min(table[0]) >= -LARGEST and max(table[0]) <= LARGEST:  # quicker for one row
            return np.array(table, np.float64)
        try:
            numbers = np.array(table, np.float64).reshape(len(table), width)
        except OverflowError:
            return None
        return numbers if (np.abs(numbers) <= LARGEST).all() else None

    def _checked(self, i: int, row: object) -> Object:
        """Return a row that is an object of plain values with known columns."""
        if not isinstance(row, dict):
            raise Fault(i, f"a row is an object of values by column name; got {_kind(row)}")
        for name, value in row.items():
            if name not in self._known:
                raise Fault(i, f'there is no column "{name}"', Advice.SAME_COLUMNS, column=name)
            if type(value) not in _PLAIN:
                problem = f'column "{name}" has {_kind(value)}; give a number, text, true, false or null'
                raise Fault(i, problem, column=name)
        return row

    def _floats(self, column: Column, values: Iterable[object]) -> list[float]:
        return [self._float(i, column, value) for i, value in enumerate(values)]

    def _float(self, i: int, column: Column, value: object) -> float:
        name = column.name
        if isinstance(value, str):
            if value.strip() in self._na_values:
                return np.nan
            text = _numbers.without_unit(value.strip(), column.unit) if column.unit else value
            number = _numbers.number(text, column.form if column.kind == "number" else "")
            if number is None:
                raise Fault(i, f'column "{name}" has the text {value[:60]!r}; give a number', column=name)
            value = number
        if value is None:
            return np.nan
        if isinstance(value, bool):
            raise Fault(i, f'column "{name}" has {_kind(value)}; give a number', column=name)
        if not -LARGEST <= value <= LARGEST:  # type: ignore[operator]  # a number; NaN fails, too
            problem = f'column "{name}" has a number beyond {LARGEST:g}; numbers must be finite and smaller'
            raise Fault(i, problem, column=name)
        return np.nan if value in self._na_numbers else float(value)  # type: ignore[arg-type]

    def _days(self, column: Column, values: list[object]) -> Floats:
        if _times.is_unit(column.form):
            return _times.from_numbers(np.array(self._floats(column, values)), column.form)
        for i, value in enumerate(values):
            if value is not None and not isinstance(value, str):
                problem = f'column "{column.name}" has {_kind(value)}; give a date or time as text'
                raise Fault(i, problem, column=column.name)
        import pyarrow as pa

        form = column.form or "year-month-day"
        try:
            return _times.parse(pa.array(values, pa.string()), form, column.name, self._na_values)
        except Fault as fault:
            raise Fault(fault.row, fault.problem, fault.advice, column=column.name) from None

    def _level(self, i: int, name: str, value: object) -> str | None:
        if value is None:
            return None
        level = level_of(value)
        try:
            level.encode()
        except UnicodeEncodeError:
            problem = f'column "{name}" has text that is not valid Unicode: half of a surrogate pair'
            raise Fault(i, problem, column=name) from None
        return None if level.strip() in self._na_values else level


def _kind(value: object) -> str:
    """Return what a JSON value is called."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    names = {dict: "an object", list: "an array", str: "text", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)
