"""Streams over tables: find the columns of labels, numbers and categories, and encode the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from budgetron._util.blocks import row_blocks
from budgetron._util.units import format_bytes
from budgetron.streams._base import MAX_CLASSES, Block, LabelArray, Rows, Stream, check_block, check_classes
from budgetron.streams._encoder import Category, Columns, Encoder
from budgetron.streams._errors import Advice, Fault, StreamError
from budgetron.streams._labels import Labels
from budgetron.streams._running import Floats

__all__ = ["FIRST_ROWS", "ArrowTable", "ArrowType", "Piece", "Reader", "Schema", "Table", "check_columns"]

# pyarrow has no types. A schema maps the names of columns to their arrow types.
ArrowTable: TypeAlias = Any
ArrowColumn: TypeAlias = Any
ArrowType: TypeAlias = Any
Schema: TypeAlias = dict[str, ArrowType]

_TRUTH = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
FIRST_ROWS = 4096  # the encoder determines the features from these, regardless of the blocks

# The largest number of features in a block, 64 MB. Blocks of wide rows have fewer rows, so that a small file
# with very many columns or levels does not take much memory.
BLOCK_VALUES = 1 << 23
MAX_LABEL = 1000  # characters; an array of labels has the width of the longest for every row
MAX_COLUMNS = 1 << 17
COLUMN_BYTES = 4096  # what reading one column takes, measured

# A column in which more than this share of the values look like numbers may contain nothing but numbers.
MOSTLY = 0.5
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


class Piece(NamedTuple):
    """Some rows as an arrow table, and a function that says where a row is, for messages."""

    table: ArrowTable
    locate: Callable[[int], str]


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
        frozen: bool,
        classes: Iterable[object] | None,
        categorical: Iterable[str] | None,
        ignore: Iterable[str],
        block: int,
        limit: int | None,
    ) -> None:
        check_block(block)
        self._reader, self._frozen, self._block, self._limit = reader, frozen, int(block), limit
        self.name, self.size, self.n_rows = reader.name, reader.size, reader.n_rows
        schema = reader.schema()
        self.target = _find_target(reader.name, target, list(schema), optional=frozen)
        if frozen and not encoder.columns:
            raise ValueError("encoder has no columns yet; give the encoder of a stream that was read")
        categories = _names(categorical)
        numbers = self._numbers(schema, categories, _names(ignore), encoder)
        for name in [*numbers, *([] if self.target is None else [self.target])]:
            _check_type(self.name, name, schema[name])
        self._types = {name: reader.read_as(schema[name], number) for name, number in numbers.items()}
        features = dict(numbers)
        if self.target is not None:
            self._types[self.target] = reader.read_as(schema[self.target], False)
            features.pop(self.target, None)
        self._is_number = features
        first = reader.first(self._types)
        if first.table.num_rows == 0:
            raise StreamError(f"{self.name}: no rows; the file has only a header")
        self._labels = None if self.target is None else self._find_labels(first, classes)
        self.classes = None if self._labels is None else self._labels.classes
        if not frozen:
            if not reader.typed:
                _check_mixed(first, [name for name, number in features.items() if not number], categories)
            first = first._replace(table=first.table.slice(0, FIRST_ROWS))
            encoder.start(self._columns(first))
        self.encoder = encoder
        self.n_rows = self.n_rows if limit is None or self.n_rows is None else min(limit, self.n_rows)
        self.feature_names = encoder.feature_names
        self.n_features = len(self.feature_names)

    def __iter__(self) -> Iterator[Block]:
        return ((X, y) for X, _, y in self._blocks(with_unscaled=False))

    def with_unscaled(self) -> Iterator[tuple[Rows, Rows, LabelArray | None]]:
        return self._blocks(with_unscaled=True)

    def _blocks(self, with_unscaled: bool) -> Iterator[tuple[Floats, Floats, LabelArray | None]]:
        # A copy, so that a second pass starts from the first row and does not change the state of the first.
        encoder = self.encoder = copy(self.encoder) if self._frozen else copy(self.encoder).reset()
        remaining = self._limit
        # Small blocks are cut from larger ones: encoding has a cost per call, and cuts do not change it.
        most = max(1, min(FIRST_ROWS, BLOCK_VALUES // self.n_features))
        size = min(self._block, most)
        step = size * (most // size)
        for piece in self._reader.pieces(self._types):
            self.position = self._reader.position
            if remaining is not None:  # before encoding, which updates the encoder
                piece = piece._replace(table=piece.table.slice(0, remaining))
                remaining -= piece.table.num_rows
            columns = self._columns(piece)
            labels = None if self.target is None else _codes(piece, piece.table[self.target])
            for rows in row_blocks(piece.table.num_rows, step):
                part = {name: _slice(values, rows) for name, values in columns.items()}
                try:
                    y = None
                    if labels is not None and self._labels is not None:
                        y = self._labels.lookup(labels[0][rows], labels[1])
                    if with_unscaled:
                        X, unscaled = encoder.transform_both(part, learn=not self._frozen)
                    else:
                        X = unscaled = encoder.transform(part, learn=not self._frozen)
                except Fault as fault:
                    raise fault.at(piece.locate(rows.start + fault.row)) from None
                for block in row_blocks(len(X), size):
                    yield X[block], unscaled[block], None if y is None else y[block]
            if remaining == 0:
                break
        self.position = self._reader.position

    def _numbers(
        self, schema: Schema, categorical: list[str], ignore: list[str], encoder: Encoder
    ) -> dict[str, bool]:
        """Return the columns to encode, and whether each is numeric."""
        if self._frozen:
            for name in encoder.columns:
                if name not in schema:
                    problem = f'{self.name}: column "{name}" is missing; the columns are {_list(schema)}'
                    raise StreamError(problem, Advice.SAME_COLUMNS)
            return encoder.columns
        for name in [*categorical, *ignore]:
            if name not in schema:
                raise StreamError(f'{self.name}: no column "{name}"; the columns are {_list(schema)}')
        chosen = [name for name in schema if name != self.target and name not in ignore]
        if not chosen:
            raise StreamError(f"{self.name}: no column besides the target; at least one feature is needed")
        return {name: _is_number(schema[name]) and name not in categorical for name in chosen}

    def _find_labels(self, first: Piece, classes: Iterable[object] | None) -> Labels:
        target, typed = self.target, self._reader.typed
        assert target is not None
        try:
            if classes is not None:
                like = _labels_in(first, target) if typed else ()
                return Labels(classes, like=like, typed=typed, optional=self._frozen)
            if not self._reader.again:
                return Labels(_labels_in(first, target), typed=typed, optional=self._frozen)
            found: dict[object, None] = {}
            rows = 0
            for piece in self._reader.pieces({target: self._types[target]}):
                found.update(dict.fromkeys(_labels_in(piece, target)))
                rows += piece.table.num_rows
                if len(found) > MAX_CLASSES:
                    check_classes(len(found))
            self.n_rows = rows
            return Labels(found, typed=typed, optional=self._frozen)
        except StreamError:
            raise
        except ValueError as error:
            raise StreamError(f'{self.name}, column "{target}": {error}') from error

    def _columns(self, piece: Piece) -> Columns:
        return {
            name: _floats(piece, name) if number else _category(piece, piece.table[name])
            for name, number in self._is_number.items()
        }


def check_columns(name: str, count: int) -> None:
    """Raise an error if a table has too many columns."""
    if count > MAX_COLUMNS:
        raise StreamError(
            f"{name}: {count:,} columns take about {format_bytes(count * COLUMN_BYTES)} of memory; at most "
            f"{MAX_COLUMNS:,} columns are read; remove some, or give sparse rows in a LIBSVM file"
        )


def _find_target(name: str, target: str | int | None, columns: list[str], optional: bool) -> str | None:
    if target is None:
        if optional:
            return None
        problem = f"{name}: no target column given; the columns are {_list(columns)}"
        raise StreamError(problem, Advice.NAME_TARGET)
    if str(target) in columns:  # names go first, because the columns of a data frame may be called 0, 1...
        return str(target)
    try:
        number = int(target)
        return columns[number - 1 if number > 0 else number if number < 0 else len(columns)]
    except (ValueError, IndexError):
        if optional:
            return None
        raise StreamError(f'{name}: no column "{target}"; the columns are {_list(columns)}') from None


def _names(given: Iterable[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _list(names: Iterable[str]) -> str:
    shown = [f'"{name}"' for name in names]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:11], "...", shown[-1]])


def _is_number(kind: ArrowType) -> bool:
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def _check_mixed(first: Piece, columns: list[str], categorical: list[str]) -> None:
    """Raise an error if a column of numbers contains some text: that is a mistake, not a category."""
    from pyarrow import compute

    for name in columns:
        is_number = compute.match_substring_regex(first.table[name], NUMBER)
        share = compute.mean(is_number.drop_null()).as_py()
        if name not in categorical and share is not None and MOSTLY < share < 1.0:
            row = is_number.to_pylist().index(False)
            value = first.table[name][row].as_py()
            problem = f'{first.locate(row)}: column "{name}" has {value!r} among numbers'
            raise StreamError(problem, Advice.CATEGORICAL)


def _check_type(name: str, column: str, kind: ArrowType) -> None:
    from pyarrow import types

    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        problem = f'{name}: column "{column}" is of type {kind}, neither number nor category'
        raise StreamError(problem, Advice.IGNORE_COLUMN)


def _slice(values: Floats | Category, rows: slice) -> Floats | Category:
    return values[rows] if isinstance(values, np.ndarray) else (values[0][rows], values[1])


def _whole(column: ArrowColumn) -> ArrowColumn:
    """Return a column as one array; arrow may store it in chunks."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _floats(piece: Piece, name: str) -> Floats:
    """Return the numbers of a column, NaN if missing."""
    import pyarrow as pa

    column = _whole(piece.table[name])
    if not _is_number(column.type):
        problem = f'column "{name}" is of type {column.type}, but was numeric in the rows that were learned'
        raise StreamError(f"{piece.locate(0)}: {problem}; give numbers")
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(values, np.float64)


def _codes(piece: Piece, column: ArrowColumn) -> tuple[NDArray[np.int64], list[object]]:
    """Return the index of each row's value, -1 if missing, and the values."""
    import pyarrow as pa

    array = _whole(column)
    if not pa.types.is_dictionary(array.type):
        if pa.types.is_string_view(array.type):
            array = array.cast(pa.large_string())
        array = array.dictionary_encode()
    codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    dictionary = array.dictionary
    if len(dictionary) > len(array):  # a few rows of a column with very many levels
        present = np.unique(codes[codes >= 0])
        codes = np.where(codes < 0, -1, np.searchsorted(present, codes))
        dictionary = dictionary.take(pa.array(present))
    try:
        values = dictionary.to_pylist()
    except UnicodeDecodeError as error:
        problem = f"{piece.locate(0)}: text in this row or a later one is not UTF-8"
        raise StreamError(f"{problem}; write the file with valid text") from error
    gaps = [i for i, value in enumerate(values) if value is None or value != value]
    return (np.where(np.isin(codes, gaps), -1, codes) if gaps else codes), values


def _labels_in(piece: Piece, target: str) -> list[object]:
    """Return the labels that occur; raise an error if one is missing."""
    codes, values = _codes(piece, piece.table[target])
    if (gap := codes < 0).any():
        raise StreamError(f"{piece.locate(int(gap.argmax()))}: the label is missing; every row needs a label")
    present = np.unique(codes)
    for code in present:
        if problem := _label_problem(str(values[code])):
            raise StreamError(f"{piece.locate(int((codes == code).argmax()))}: {problem}")
    return [values[code] for code in present]


def _label_problem(label: str) -> str:
    """Return why a label cannot be stored in an array; empty if it can."""
    if len(label) > MAX_LABEL:
        return f"a label of {len(label):,} characters, above {MAX_LABEL:,}; choose another column"
    return "a label that ends with a null character; remove this character" if label.endswith("\0") else ""


def _category(piece: Piece, column: ArrowColumn) -> Category:
    """Return a categorical column with its levels as text."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type) and pa.types.is_temporal(column.type):
        column = column.cast(pa.string())
    codes, values = _codes(piece, column)
    return codes, [_text(value) for value in values]


def _text(value: object) -> str:
    """Return the level of a value; the same in every format: "true" and "1", not "True" and "1.0"."""
    if isinstance(value, str):
        return _TRUTH.get(value, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
