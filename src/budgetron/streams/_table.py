"""Streams over tables: which columns are labels, numbers and categories, and the rows block by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetron.streams._base import MOST_CLASSES, Block, Stream, StreamError, check_block, check_classes
from budgetron.streams._bytes import Source, need_pyarrow
from budgetron.streams._encoder import Category, Encoder, Fault, Floats
from budgetron.streams._labels import Labels

__all__ = ["FIRST_ROWS", "Frame", "Parquet", "Piece", "Reader", "Table"]

_TRUTH = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
FIRST_ROWS = 4096  # the encoder looks at these, whatever the blocks are

# What looks like a number; and the share of them from which on a column must hold nothing else.
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
MOSTLY = 0.5


class Piece(NamedTuple):
    """Some rows as an arrow table, and how to say where a row of it stands."""

    table: Any
    locate: Callable[[int], str]


class Reader:
    """Pieces of a table, from some format.

    Attributes
    ----------
    again : bool
        Whether it can be read more than once.
    typed : bool
        Whether text in it is text; in CSV a number is text too.
    """

    name: str
    again: bool = True
    typed: bool = True
    n_rows: int | None = None
    position: int = 0
    size: int | None = None

    def schema(self) -> dict[str, Any]:
        """Columns and their arrow types, as far as the first rows tell."""
        raise NotImplementedError

    def read_as(self, kind: Any, number: bool) -> Any:
        """The arrow type to read a column as that has this type in the first rows."""
        return kind

    def first(self, columns: dict[str, Any]) -> Piece:
        """The first rows, which stay to be read."""
        raise NotImplementedError

    def pieces(self, columns: dict[str, Any]) -> Iterator[Piece]:
        """All rows, of these columns as these types."""
        raise NotImplementedError


class Table(Stream):
    """A table as a stream; see `read` and `frame`.

    Attributes
    ----------
    encoder : Encoder
        The one of the present (or last) pass, with what it has learned so far.
    target : str or None
        The column of the labels, if there is one.
    """

    def __init__(
        self,
        reader: Reader,
        target: str | int | None,
        *,
        encoder: Encoder,
        frozen: bool,
        classes: Iterable[Any] | None,
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
            raise ValueError("encoder knows no columns yet; give that of a stream that was read")
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
            raise StreamError(f"{self.name}: no rows; a header alone has nothing to learn from")
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
        # A copy, so that a second pass starts anew and leaves alone what the first has learned.
        encoder = self.encoder = copy(self.encoder) if self._frozen else copy(self.encoder).anew()
        left = self._limit
        for piece in self._reader.pieces(self._types):
            self.position = self._reader.position
            if left is not None:  # before they are encoded, for that is learning too
                piece = piece._replace(table=piece.table.slice(0, left))
                left -= piece.table.num_rows
            columns = self._columns(piece)
            label = None if self.target is None else _label(piece.table[self.target])
            # Small blocks are cut from larger ones: encoding has a cost per call, and cuts change nothing.
            step = self._block * max(1, FIRST_ROWS // self._block)
            for start in range(0, piece.table.num_rows, step):
                rows = slice(start, start + step)
                try:
                    y = None
                    if label is not None and self._labels is not None:
                        y = self._labels.lookup(label[0][rows], label[1])
                    part = {name: _rows(values, rows) for name, values in columns.items()}
                    X = encoder.transform(part, learn=not self._frozen)
                except Fault as fault:
                    raise _error(piece, fault, start) from None
                for at in range(0, len(X), self._block):
                    part_rows = slice(at, at + self._block)
                    yield X[part_rows], None if y is None else y[part_rows]
            if left == 0:
                break
        self.position = self._reader.position

    def _numbers(
        self, schema: dict[str, Any], categorical: list[str], ignore: list[str], encoder: Encoder
    ) -> dict[str, bool]:
        """The columns to encode, and whether each is a number."""
        if self._frozen:
            for name in encoder.columns:
                if name not in schema:
                    raise StreamError(f'{self.name}: column "{name}" is missing; there are {_list(schema)}')
            return encoder.columns
        for name in [*categorical, *ignore]:
            if name not in schema:
                raise StreamError(f'{self.name}: no column "{name}"; there are {_list(schema)}')
        chosen = [name for name in schema if name != self.target and name not in ignore]
        if not chosen:
            raise StreamError(f"{self.name}: no column besides the target; at least one is needed")
        return {name: _is_number(schema[name]) and name not in categorical for name in chosen}

    def _find_labels(self, first: Piece, classes: Iterable[Any] | None) -> Labels:
        target, typed = self.target, self._reader.typed
        assert target is not None
        try:
            if classes is not None:
                like = _seen(first, target) if typed else ()
                return Labels(classes, like=like, typed=typed, optional=self._frozen)
            if not self._reader.again:
                return Labels(_seen(first, target), typed=typed, optional=self._frozen)
            found: dict[Any, None] = {}
            rows = 0
            for piece in self._reader.pieces({target: self._types[target]}):
                found.update(dict.fromkeys(_seen(piece, target)))
                rows += piece.table.num_rows
                if len(found) > MOST_CLASSES:
                    check_classes(len(found))
            self.n_rows = rows
            return Labels(found, typed=typed, optional=self._frozen)
        except StreamError:
            raise
        except ValueError as error:
            raise StreamError(f'{self.name}, column "{target}": {error}') from error

    def _columns(self, piece: Piece) -> dict[str, Floats | Category]:
        return {
            name: _floats(piece, name) if number else _category(piece.table[name])
            for name, number in self._is_number.items()
        }


class Frame(Reader):
    """A table in memory."""

    def __init__(self, df: Any, name: str) -> None:
        pa = need_pyarrow("frames")
        self.name = name
        try:
            if isinstance(df, pa.Table):
                self._table = df
            elif hasattr(df, "iloc"):
                self._table = pa.Table.from_pandas(df, preserve_index=False)
            else:
                self._table = pa.table(df)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise StreamError(
                f"{name}: {type(df).__name__} cannot become an arrow table, which has one type a column"
            ) from error
        self.n_rows = self._table.num_rows

    def schema(self) -> dict[str, Any]:
        return _schema(self.name, self._table.schema)

    def first(self, columns: dict[str, Any]) -> Piece:
        return self._piece(0, columns)

    def pieces(self, columns: dict[str, Any]) -> Iterator[Piece]:
        for start in range(0, self._table.num_rows, FIRST_ROWS):
            yield self._piece(start, columns)

    def _piece(self, start: int, columns: dict[str, Any]) -> Piece:
        return Piece(
            self._table.select(list(columns)).slice(start, FIRST_ROWS),
            lambda row: f"{self.name}, row {start + row + 1}",
        )


class Parquet(Reader):
    """A Parquet file."""

    def __init__(self, source: Source) -> None:
        need_pyarrow("Parquet")
        self.name = source.name
        if not source.again:
            raise StreamError(
                f"{self.name}: Parquet keeps its index at the end and cannot be piped; give a file"
            )
        self._source = source
        file = self._open()
        self._schema = file.schema_arrow
        self.n_rows = file.metadata.num_rows
        file.close()

    def schema(self) -> dict[str, Any]:
        return _schema(self.name, self._schema)

    def first(self, columns: dict[str, Any]) -> Piece:
        import pyarrow as pa

        batches, rows = [], 0
        for piece in self.pieces(columns):
            batches.append(piece.table)
            rows += piece.table.num_rows
            if rows >= FIRST_ROWS:
                break
        table = pa.concat_tables(batches) if batches else self._schema.empty_table()
        return Piece(table, lambda row: f"{self.name}, row {row + 1}")

    def pieces(self, columns: dict[str, Any]) -> Iterator[Piece]:
        import pyarrow as pa

        file, rows = self._open(), 0
        try:
            for batch in file.iter_batches(FIRST_ROWS, columns=list(columns), use_threads=False):
                start = rows
                rows += batch.num_rows
                yield Piece(
                    pa.Table.from_batches([batch]),
                    lambda row, start=start: f"{self.name}, row {start + row + 1}",  # type: ignore[misc]
                )
        except (pa.ArrowException, OSError) as error:
            raise StreamError(f"{self.name}, after row {rows}: the file is damaged; get it again") from error
        finally:
            file.close()

    def _open(self) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        opened = self._source.open()  # for its errors, which are plainer
        opened.close()
        try:
            return pq.ParquetFile(self._source.path or self._source.file)
        except (pa.ArrowException, OSError) as error:
            raise StreamError(
                f"{self.name}: not a Parquet file, or damaged or cut short; get it again"
            ) from error


def _find_target(name: str, target: str | int | None, columns: list[str], optional: bool) -> str | None:
    if target is None:
        if optional:
            return None
        raise StreamError(f"{name}: which column is the target? There are {_list(columns)}")
    if str(target) in columns:  # first, for the columns of a frame may be called 0, 1...
        return str(target)
    try:
        number = int(target)
        return columns[number - 1 if number > 0 else number if number < 0 else len(columns)]
    except (ValueError, IndexError):
        if optional:
            return None
        raise StreamError(f'{name}: no column "{target}"; there are {_list(columns)}') from None


def _names(given: Iterable[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _list(names: Iterable[str]) -> str:
    shown = [f'"{name}"' for name in names]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:11], "...", shown[-1]])


def _schema(name: str, schema: Any) -> dict[str, Any]:
    for column, count in Counter(schema.names).items():
        if count > 1:
            raise StreamError(f'{name}: column "{column}" stands twice; names must differ')
    return dict(zip(schema.names, schema.types, strict=True))


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def _check_mixed(first: Piece, columns: list[str], categorical: list[str]) -> None:
    """Text here and there in a column of numbers is a fault, not a category."""
    from pyarrow import compute

    for name in columns:
        is_number = compute.match_substring_regex(first.table[name], NUMBER).drop_null()
        share = compute.mean(is_number).as_py()
        if name not in categorical and share is not None and MOSTLY < share < 1.0:
            looks = compute.match_substring_regex(first.table[name], NUMBER).to_pylist()
            row = looks.index(False)
            raise StreamError(
                f'{first.locate(row)}: column "{name}" has {first.table[name][row].as_py()!r} among numbers; '
                f'if these are categories, name "{name}" as categorical'
            )


def _check_type(name: str, column: str, kind: Any) -> None:
    from pyarrow import types

    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise StreamError(
            f'{name}: column "{column}" is of type {kind}, neither number nor category; '
            "if it is not the target, name it in ignore"
        )


def _rows(values: Floats | Category, rows: slice) -> Floats | Category:
    return values[rows] if isinstance(values, np.ndarray) else (values[0][rows], values[1])


def _error(piece: Piece, fault: Fault, start: int = 0) -> StreamError:
    return StreamError(f"{piece.locate(start + fault.row)}: {fault}")


def _whole(column: Any) -> Any:
    """One array of a column in chunks."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _floats(piece: Piece, name: str) -> Floats:
    """Numbers, NaN where missing."""
    import pyarrow as pa

    column = _whole(piece.table[name])
    if not _is_number(column.type):
        raise _error(
            piece, Fault(0, f'column "{name}" is of type {column.type}; the encoder knows it as numbers')
        )
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(values, np.float64)


def _codes(column: Any) -> tuple[NDArray[np.int64], list[Any]]:
    """The number of each row's value, -1 where missing, and the values."""
    import pyarrow as pa

    array = _whole(column)
    if pa.types.is_dictionary(array.type) and len(array.dictionary) > len(array):
        array = array.dictionary_decode()  # a few rows of a frame with very many levels
    if not pa.types.is_dictionary(array.type):
        if pa.types.is_string_view(array.type):
            array = array.cast(pa.large_string())
        array = array.dictionary_encode()
    codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    values = array.dictionary.to_pylist()
    gaps = [i for i, value in enumerate(values) if value is None or value != value]
    return (np.where(np.isin(codes, gaps), -1, codes) if gaps else codes), values


def _label(column: Any) -> tuple[NDArray[np.int64], list[Any]]:
    return _codes(column)


def _seen(piece: Piece, target: str) -> list[Any]:
    """The labels that occur, none missing."""
    codes, values = _label(piece.table[target])
    if (gap := codes < 0).any():
        raise _error(piece, Fault(int(gap.argmax()), "the label is missing; every row needs one"))
    return [values[code] for code in np.unique(codes)]


def _category(column: Any) -> Category:
    """Levels as text."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type) and pa.types.is_temporal(column.type):
        column = column.cast(pa.string())
    codes, values = _codes(column)
    return codes, [_text(value) for value in values]


def _text(value: Any) -> str:
    """The same level for the same value whatever the format: true and 1, not True and 1.0."""
    if isinstance(value, str):
        return _TRUTH.get(value, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
