"""Streams over tables: find the columns of labels, numbers and categories, and encode the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from budgetron._util.blocks import row_blocks
from budgetron._util.units import format_bytes
from budgetron.streams import _numbers, _times
from budgetron.streams._arrow import (
    ArrowType,
    Piece,
    Schema,
    category,
    is_number,
    is_string,
    is_temporal,
    is_text,
    label_codes,
    labels_in,
    whole,
)
from budgetron.streams._base import MAX_CLASSES, Block, LabelArray, Rows, Stream, check_block, check_classes
from budgetron.streams._columns import Category, Column, Columns
from budgetron.streams._decide import Wishes, decide
from budgetron.streams._encoder import Encoder
from budgetron.streams._errors import Advice, Fault, StreamError
from budgetron.streams._labels import Labels
from budgetron.streams._names import find_target, listed, no_column
from budgetron.streams._running import Floats
from budgetron.streams._targets import Targets, find_targets

__all__ = ["FIRST_ROWS", "Reader", "Table", "check_columns"]


FIRST_ROWS = 4096  # the encoder determines the features from these, regardless of the blocks

# The largest number of features in a block, 64 MB. Blocks of wide rows have fewer rows, so that a small file
# with very many columns or levels does not take much memory.
BLOCK_VALUES = 1 << 23
MAX_COLUMNS = 1 << 17
COLUMN_BYTES = 4096  # what reading one column takes, measured


class Reader:
    """A table in some format, read in pieces.

    Attributes
    ----------
    again : bool
        Whether it can be read more than once.
    typed : bool
        Whether the format distinguishes text from numbers; CSV does not.
    """

    name: str
    again: bool = True
    typed: bool = True
    n_rows: int | None = None
    position: int = 0
    size: int | None = None

    def schema(self) -> Schema:
        """Return the columns and their arrow types, as determined by the first rows."""
        raise NotImplementedError

    def read_as(self, kind: ArrowType, number: bool) -> ArrowType:
        """Return the arrow type to read a column as, given its type in the first rows."""
        return kind

    def read_label_as(self, kind: ArrowType) -> ArrowType:
        """Return the arrow type to read the label as, given its type in the first rows."""
        return self.read_as(kind, False)

    def first(self, columns: Schema) -> Piece:
        """Return the first rows; `pieces` returns them again."""
        raise NotImplementedError

    def pieces(self, columns: Schema) -> Iterator[Piece]:
        """Yield all rows, with these columns read as these types."""
        raise NotImplementedError


class Table(Stream):
    """A table as a stream; see `read` and `frame`."""

    encoder: Encoder  # that of the current or last pass

    def __init__(
        self,
        reader: Reader,
        target: str | int | None,
        *,
        encoder: Encoder,
        known: bool,
        learn: bool,
        classes: Iterable[object] | None,
        scan: bool,
        wishes: Wishes,
        ignore: Iterable[str],
        block: int,
        limit: int | None,
        optional_target: bool,
        task: str,
        targets: Targets | None,
    ) -> None:
        check_block(block)
        if known and not encoder.columns:
            raise ValueError("encoder has no columns yet; give the encoder of a stream that was read")
        self._reader, self._learn, self._block, self._limit = reader, learn, int(block), limit
        self.name, self.size, self.n_rows = reader.name, reader.size, reader.n_rows
        schema = reader.schema()
        self.target = find_target(reader.name, target, list(schema), optional=optional_target)
        columns = encoder.columns if known else self._decide(schema, wishes, _names(ignore), encoder)
        self._used = [column for column in columns if column.kind != "none"]
        self._na_values = frozenset(encoder.na_values)
        self._na_numbers = _numbers_in(encoder.na_values)
        self._types = {column.name: self._type(column, schema) for column in self._used}
        if self.target is not None:
            _check_type(self.name, self.target, schema[self.target])
            self._types[self.target] = reader.read_label_as(schema[self.target])
            self._used = [column for column in self._used if column.name != self.target]
        first = reader.first(self._types)
        if first.table.num_rows == 0:
            raise StreamError(f"{self.name}: no rows; the file has only a header")
        self._labels: Labels | Targets | None = None
        if self.target is not None:
            if task != "classification" and classes is None:
                decimal = wishes.decimal or _decimal_mark(columns)
                self.targets = targets or self._find_targets(first, encoder.na_values, decimal, task)
            if self.targets is None:
                labels = self._find_labels(first, classes, scan)
                self._labels, self.classes = labels, labels.classes
            else:
                self.task = "regression"
                missing = frozenset(encoder.na_values)
                self._labels = replace(self.targets, missing=missing, optional=not self._learn)
                if reader.typed and is_number(schema[self.target]):  # later rows may have decimals
                    self._types[self.target] = reader.read_as(schema[self.target], True)
        if not known:
            try:
                values = self._columns(first._replace(table=first.table.slice(0, FIRST_ROWS)))
            except Fault as fault:
                raise fault.at(first.locate(fault.row)) from None
            encoder.start(values, columns)
        self._start, self.encoder = encoder, encoder
        self.n_rows = self.n_rows if limit is None or self.n_rows is None else min(limit, self.n_rows)
        self.feature_names = encoder.feature_names
        self.n_features = encoder.n_features

    def __iter__(self) -> Iterator[Block]:
        return ((X, y) for X, _, y in self._blocks(with_unscaled=False))

    def with_unscaled(self) -> Iterator[tuple[Rows, Rows, LabelArray | None]]:
        return self._blocks(with_unscaled=True)

    def _blocks(self, with_unscaled: bool) -> Iterator[tuple[Rows, Rows, LabelArray | None]]:
        # A copy, so that a second pass starts from the first row and does not change the state of the first.
        encoder = self.encoder = self._start.copy()
        remaining = self._limit
        # Small blocks are cut from larger ones: encoding has a cost per call, and cuts do not change it.
        most = FIRST_ROWS if encoder.sparse else max(1, min(FIRST_ROWS, BLOCK_VALUES // self.n_features))
        size = min(self._block, most)
        step = size * (most // size)
        for piece in self._reader.pieces(self._types):
            self.position = self._reader.position
            if remaining is not None:  # before encoding, which updates the encoder
                piece = piece._replace(table=piece.table.slice(0, remaining))
                remaining -= piece.table.num_rows
            for X, unscaled, y in self._encoded(piece, encoder, step, with_unscaled):
                for block in row_blocks(X.shape[0], size):
                    yield X[block], unscaled[block], None if y is None else y[block]
            if remaining == 0:
                break
        self.position = self._reader.position

    def _encoded(
        self, piece: Piece, encoder: Encoder, step: int, with_unscaled: bool
    ) -> Iterator[tuple[Rows, Rows, LabelArray | None]]:
        """Yield the features and labels of a piece, `step` rows at a time.

        If several rows are wrong, the error is that of the first one.
        """
        try:
            columns = self._columns(piece)
        except Fault as fault:
            if fault.row > 0:  # these rows may have unknown labels, or numbers that are too large
                before = piece._replace(table=piece.table.slice(0, fault.row))
                yield from self._encoded(before, encoder, step, with_unscaled)
            raise fault.at(piece.locate(fault.row)) from None
        labels = None if self.target is None else label_codes(piece, self.target)
        for rows in row_blocks(piece.table.num_rows, step):
            part = {name: _slice(values, rows) for name, values in columns.items()}
            y, faults = None, []
            try:
                if labels is not None and self._labels is not None:
                    y = self._labels.lookup(labels[0][rows], labels[1])
            except Fault as fault:
                faults.append(fault)
            try:
                if with_unscaled:
                    X, unscaled = encoder.transform_both(part, learn=self._learn)
                else:
                    X = unscaled = encoder.transform(part, learn=self._learn)
            except Fault as fault:
                faults.append(fault)
            if faults:
                first = min(faults, key=lambda fault: fault.row)
                raise first.at(piece.locate(rows.start + first.row))
            yield X, unscaled, y

    def _decide(self, schema: Schema, wishes: Wishes, ignore: list[str], encoder: Encoder) -> list[Column]:
        """Decide from the first rows how each column is read."""
        for name in [*wishes.categorical, *wishes.numeric, *wishes.keep, *ignore]:
            if name not in schema:
                raise no_column(self.name, name, schema)
        chosen = [name for name in schema if name != self.target and name not in ignore]
        if not chosen:
            raise StreamError(f"{self.name}: no column besides the target; at least one feature is needed")
        for name in chosen:
            _check_type(self.name, name, schema[name])
        reader = self._reader
        first = reader.first({name: reader.read_as(schema[name], False) for name in chosen})
        values = {name: first.table[name].slice(0, FIRST_ROWS) for name in chosen}
        try:
            return decide(values, encoder.na_values, wishes, reader.typed)
        except Fault as fault:
            raise fault.at(first.locate(fault.row)) from None

    def count_missing(self) -> tuple[int, dict[str, int]]:
        first = self._reader.first(self._types)
        first = first._replace(table=first.table.slice(0, FIRST_ROWS))
        counts = {}
        for name, values in self._columns(first).items():
            gone = np.isnan(values) if isinstance(values, np.ndarray) else values[0] < 0
            counts[name] = int(gone.sum())
        return first.table.num_rows, counts

    def _type(self, column: Column, schema: Schema) -> ArrowType:
        """Return the type to read a column as; raise an error if the file does not have the column."""
        if column.name not in schema:
            problem = f'{self.name}: column "{column.name}" is missing; the columns are {listed(schema)}'
            raise StreamError(problem, Advice.SAME_COLUMNS)
        _check_type(self.name, column.name, schema[column.name])
        plain = column.kind == "number" and not column.form and not column.unit
        return self._reader.read_as(schema[column.name], plain or _times.is_unit(column.form))

    def _find_targets(
        self, first: Piece, na_values: Sequence[str], decimal: str | None, task: str
    ) -> Targets | None:
        """Return how numbers in the target column are written; None if they are classes."""
        assert self.target is not None
        try:
            return find_targets(
                self.target,
                first.table[self.target],
                na_values=na_values,
                decimal=decimal,
                typed=self._reader.typed,
                task=task,
            )
        except Fault as fault:
            raise fault.at(first.locate(fault.row)) from None

    def _find_labels(self, first: Piece, classes: Iterable[object] | None, scan: bool) -> Labels:
        target, typed = self.target, self._reader.typed
        assert target is not None
        try:
            if classes is not None:
                like = labels_in(first, target) if typed else ()
                return Labels(classes, like=like, typed=typed, optional=not self._learn)
            if not self._reader.again or (not scan and self._has_classes(first)):
                return Labels(labels_in(first, target), typed=typed, optional=not self._learn)
            found: dict[object, None] = {}
            rows = 0
            for piece in self._reader.pieces({target: self._types[target]}):
                found.update(dict.fromkeys(labels_in(piece, target)))
                rows += piece.table.num_rows
                if len(found) > MAX_CLASSES:
                    check_classes(len(found))
            self.n_rows = rows
            return Labels(found, typed=typed, optional=not self._learn)
        except StreamError:
            raise
        except ValueError as error:
            raise StreamError(f'{self.name}, column "{target}": {error}') from error

    def _has_classes(self, first: Piece) -> bool:
        """Return whether the first rows have several classes; otherwise the file may be sorted by class."""
        assert self.target is not None
        return len(labels_in(first, self.target)) > 1

    def _columns(self, piece: Piece) -> Columns:
        """Return the values of all columns; raise the `Fault` of the first bad row."""
        found: Columns = {}
        faults: list[Fault] = []
        for column in self._used:
            try:
                found[column.name] = self._values(piece, column)
            except Fault as fault:
                faults.append(fault)
        if faults:
            raise min(faults, key=lambda fault: fault.row)
        return found

    def _values(self, piece: Piece, column: Column) -> Floats | Category:
        """Return the numbers, days or categories of a column."""
        values = piece.table[column.name]
        if column.kind == "number":
            return self._floats(piece, column)
        if column.kind != "time":
            return category(piece, values, self._na_values)
        if _times.is_unit(column.form):
            return _times.from_numbers(self._floats(piece, column), column.form)
        if not is_text(values.type):
            kind = values.type
            if not is_temporal(kind):
                problem = f'column "{column.name}" is of type {kind}, but dates were learned'
                raise StreamError(f"{piece.locate(0)}: {problem}; give dates")
            return _times.typed_days(whole(values))
        return _times.parse(whole(values), column.form or "year-month-day", column.name, self._na_values)

    def _floats(self, piece: Piece, column: Column) -> Floats:
        """Return the numbers of a column, NaN if missing."""
        import pyarrow as pa

        array = whole(piece.table[column.name])
        if is_string(array.type) and not self._reader.typed:
            values = _numbers.parse(array, column.form, column.unit, column.name, self._na_values)
        elif is_number(array.type):
            if array.type != pa.float64():  # casts import pyarrow.compute, which takes long
                array = array.cast(pa.float64(), safe=False)
            values = np.asarray(array.to_numpy(zero_copy_only=False), np.float64)
        else:
            problem = f'column "{column.name}" is of type {array.type}, but was numeric in the rows that were'
            raise StreamError(f"{piece.locate(0)}: {problem} learned; give numbers")
        if len(self._na_numbers):
            values = np.where(np.isin(values, self._na_numbers), np.nan, values)
        return values


def _decimal_mark(columns: Sequence[Column]) -> str | None:
    """Return the decimal mark of the columns whose numbers are not written in the plain form."""
    marks = {column.form[:1] for column in columns if column.kind == "number" and column.form}
    return marks.pop() if len(marks) == 1 else None


def _numbers_in(texts: Iterable[str]) -> Floats:
    """Return the texts that are finite numbers, as numbers."""
    found = []
    for text in texts:
        try:
            found.append(float(text))
        except ValueError:
            continue
    values = np.array(found, np.float64)
    return values[np.isfinite(values)]


def check_columns(name: str, count: int) -> None:
    """Raise an error if a table has too many columns."""
    if count > MAX_COLUMNS:
        raise StreamError(
            f"{name}: {count:,} columns take about {format_bytes(count * COLUMN_BYTES)} of memory; at most "
            f"{MAX_COLUMNS:,} columns are read; remove some, or give sparse rows in a LIBSVM file"
        )


def _names(given: Iterable[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _check_type(name: str, column: str, kind: ArrowType) -> None:
    from pyarrow import types

    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        problem = f'{name}: column "{column}" is of type {kind}, neither number nor category'
        raise StreamError(problem, Advice.IGNORE_COLUMN)


def _slice(values: Floats | Category, rows: slice) -> Floats | Category:
    return values[rows] if isinstance(values, np.ndarray) else (values[0][rows], values[1])
