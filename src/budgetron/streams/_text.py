"""CSV and JSON lines, read in chunks of whole lines, so that every error message names its line."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from io import BytesIO
from itertools import chain, islice

import numpy as np

from budgetron._util.blocks import row_blocks
from budgetron._util.units import format_bytes
from budgetron.streams import _numbers
from budgetron.streams._ahead import parsed
from budgetron.streams._arrow import ArrowTable, ArrowType, Piece, Schema
from budgetron.streams._bytes import Chunk, Opened, Source, need_pyarrow, records
from budgetron.streams._errors import Advice, Fault, StreamError
from budgetron.streams._table import Reader, check_columns

__all__ = ["Csv", "JsonLines"]

MAX_DEPTH = 100
TABLE_VALUES = 1 << 24  # the largest number of values, missing ones included, in a table of JSON lines
COLUMNS = 4096  # parsed at once, because pyarrow's CSV reader takes about 8 kB per column
_NAME = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"\s*+:')
_NOT_BLANK = re.compile(rb"[^\r\n]")
_NULL = re.compile(rb"\s*null")
_NOT_UTF8 = "not UTF-8; save the file as UTF-8, or convert it, as by `iconv -f windows-1252 -t utf-8`"
_NO_MARKS = bytes(set(range(256)) - set(b'[]{}"'))


class _UnreadableError(StreamError):
    """A line that cannot be read, and the lines before it in the same chunk."""

    def __init__(self, problem: str, advice: Advice | None, before: Chunk) -> None:
        super().__init__(problem, advice)
        self.before = before


class Text(Reader):
    """The common part of CSV and JSON lines.

    Pyarrow parses about a megabyte of whole lines at a time, not the whole file. If it fails, the bytes are
    still in memory, so that the line can be found and named.
    """

    delimiter: str | None = None
    columns_ahead = 0  # parse the next chunks in advance if the table has at most so many columns

    def __init__(self, source: Source) -> None:
        self.name, self.again, self.size = source.name, source.again, source.size
        self._source = source
        opened = source.open()
        chunks = self._body(opened)
        # `pieces` continues a pipe from here, and opens a file again.
        self._pipe: Iterator[Chunk] | None = None
        try:
            self._first = next(chunks)
        except StopIteration:
            raise StreamError(f"{self.name}: no rows; the file is empty") from None
        finally:
            if self.again:
                opened.close()
        if not self.again:
            self._pipe, self._opened = chain([self._first], chunks), opened

    def first(self, columns: Schema) -> Piece:
        return next(self._pieces_of(partial(self._piece, self._first, columns), columns))

    def pieces(self, columns: Schema) -> Iterator[Piece]:
        if self._pipe is None:
            opened = self._source.open()  # raises an error if this is a pipe that was already read
            chunks = self._body(opened)
        else:
            chunks, opened = self._pipe, self._opened
            self._pipe = None
        parts = self._all_parts(opened, chunks, len(columns))
        # A pipe may be slow: its rows are returned without waiting for the next ones.
        ahead = self.again and len(columns) <= self.columns_ahead
        with closing(opened), closing(parsed(partial(self._piece, columns=columns), parts, ahead)) as pieces:
            for _, piece in pieces:
                yield from self._pieces_of(piece, columns)

    def _all_parts(self, opened: Opened, chunks: Iterator[Chunk], n_columns: int) -> Iterator[Chunk]:
        for chunk in chunks:
            self.position = opened.position
            yield from self._parts(chunk, n_columns)

    def _body(self, opened: Opened) -> Iterator[Chunk]:
        """Return the chunks that have rows."""
        return (chunk for chunk in opened.chunks(self.delimiter) if _NOT_BLANK.search(chunk.data))

    def _parts(self, chunk: Chunk, n_columns: int) -> Iterator[Chunk]:
        """Cut a chunk whose table would take much more memory than its text."""
        yield chunk

    def _pieces_of(self, parse: Callable[[], Piece], columns: Schema) -> Iterator[Piece]:
        """Yield the rows; if a line cannot be read, first those before it, in which values may be wrong."""
        try:
            piece = parse()
        except _UnreadableError as error:
            if _NOT_BLANK.search(error.before.data):
                yield self._piece(error.before, columns)
            raise
        yield piece

    def _piece(self, chunk: Chunk, columns: Schema | None) -> Piece:
        import pyarrow as pa

        try:
            if not chunk.data.isascii():
                str(chunk.data, "utf-8")
        except UnicodeDecodeError as error:
            line = chunk.line + chunk.data.count(b"\n", 0, error.start)
            raise StreamError(f"{self.name}:{line}: {_NOT_UTF8}") from error
        try:
            table = self._parse(chunk.data, columns)
        except MemoryError:  # also an ArrowException
            raise
        except pa.ArrowException as error:
            raise self._explain(chunk, columns or {}) from error
        return Piece(table, lambda row: f"{self.name}:{self._line(chunk, row)}")

    def _line(self, chunk: Chunk, row: int) -> int:
        # Several JSON objects may be on one line, or one on several: then only the chunk is known.
        return next(islice(records(chunk, self.delimiter), row, None), (chunk.line, b""))[0]

    def _explain(self, chunk: Chunk, columns: Schema) -> _UnreadableError:
        """Find the first line that does not parse, by bisection, and return the error."""
        import pyarrow as pa

        lines = list(records(chunk, self.delimiter))
        good, bad = 0, len(lines)
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                self._parse(b"".join(line for _, line in lines[:middle]), columns or None)
                good = middle
            except pa.ArrowException:
                bad = middle
        number, line = lines[good]
        fault = self._fault(line.decode(), columns)
        before = b"".join(islice(BytesIO(chunk.data), number - chunk.line))
        return _UnreadableError(
            f"{self.name}:{number}: {fault.problem}", fault.advice, Chunk(before, chunk.line)
        )

    def _parse(self, data: bytes, columns: Schema | None) -> ArrowTable:
        """Return an arrow table; without columns, their types are inferred."""
        raise NotImplementedError

    def _fault(self, line: str, columns: Schema) -> Fault:
        """Return what is wrong with a line that does not parse."""
        raise NotImplementedError


class Csv(Text):
    """A CSV file, with a header or without."""

    typed = False
    columns_ahead = COLUMNS

    def __init__(self, source: Source, header: bool, delimiter: str, na_values: Iterable[str]) -> None:
        need_pyarrow("CSV")
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            raise ValueError(f"delimiter must be one character other than a quote; got {delimiter!r}")
        self.delimiter, self._header = delimiter, header
        # pyarrow compares before it removes spaces, as in `1, ?, 2`.
        self._na_values = [space + value for value in dict.fromkeys(na_values) for space in ("", " ")]
        # A short list is faster. The other values are not numbers, so that parsing by the short list fails.
        self._short_na_values = [
            value for value in self._na_values if not value.strip() or _numbers.is_plain([value])
        ]
        self._has_other_na_values = False
        self._names: list[str] = []
        super().__init__(source)

    def schema(self) -> Schema:
        import pyarrow as pa

        return dict.fromkeys(self._names, pa.string())

    def read_as(self, kind: ArrowType, number: bool) -> ArrowType:
        import pyarrow as pa

        return pa.float64() if number else pa.string()

    def read_label_as(self, kind: ArrowType) -> ArrowType:
        import pyarrow as pa

        return pa.dictionary(pa.int32(), pa.string())  # there are few labels

    def _body(self, opened: Opened) -> Iterator[Chunk]:
        chunks = super()._body(opened)
        chunk = next(chunks, None)
        if chunk is None:
            return
        line, record = next(records(chunk, self.delimiter))
        self._names = self._name(line, record)
        if self._header:
            end = chunk.data.index(record) + len(record)
            chunk = Chunk(chunk.data[end:], line + record.count(b"\n"))
        first = chunk if _NOT_BLANK.search(chunk.data) else next(chunks, None)
        if first is None:
            raise StreamError(f"{self.name}: no rows; the file has only a header")
        yield first
        yield from chunks

    def _name(self, line: int, record: bytes) -> list[str]:
        check_columns(self.name, record.count((self.delimiter or ",").encode()) + 1)
        try:
            names = next(csv.reader([record.decode().rstrip("\r\n")], delimiter=self.delimiter or ","))
        except UnicodeDecodeError as error:
            raise StreamError(f"{self.name}:{line}: {_NOT_UTF8}") from error
        except csv.Error as error:
            reason = "lines must end with a line feed, not only a carriage return"
            if b"\r" not in record:
                reason = f"a name in the first line has more than {csv.field_size_limit():,} characters"
            raise StreamError(f"{self.name}:{line}: not CSV; {reason}") from error
        if not self._header:
            return [f"c{i}" for i in range(1, len(names) + 1)]
        names = [name.strip() for name in names]
        if all(map(_is_float, names)):
            problem = f"{self.name}:{line}: the first line has numbers instead of column names"
            raise StreamError(problem, Advice.NO_HEADER)
        for name, count in Counter(names).items():
            if count > 1:
                problem = f'{self.name}:{line}: duplicate column "{name}"; names must differ'
                raise StreamError(problem, Advice.NO_HEADER)
        return names

    def _parse(self, data: bytes, columns: Schema | None) -> ArrowTable:
        import pyarrow as pa

        names = list(columns or self._names)
        parts = [self._parse_any(data, names[at], columns) for at in row_blocks(len(names), COLUMNS)]
        if len(parts) == 1:
            return parts[0]
        return pa.table([column for part in parts for column in part.columns], names)

    def _parse_any(self, data: bytes, names: list[str], columns: Schema | None) -> ArrowTable:
        import pyarrow as pa

        if not self._has_other_na_values:
            try:
                return self._parse_columns(data, names, columns, self._short_na_values)
            except pa.ArrowInvalid:
                pass
        table = self._parse_columns(data, names, columns, self._na_values)
        self._has_other_na_values = True
        return table

    def _parse_columns(
        self, data: bytes, names: list[str], columns: Schema | None, na_values: list[str]
    ) -> ArrowTable:
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        return pa_csv.read_csv(
            pa.BufferReader(data),
            read_options=pa_csv.ReadOptions(
                column_names=self._names, block_size=len(data) + 1, use_threads=False
            ),
            parse_options=pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=b'"' in data),
            convert_options=pa_csv.ConvertOptions(
                column_types=None if columns is None else {name: columns[name] for name in names},
                include_columns=names,
                null_values=na_values,
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )

    def _fault(self, line: str, columns: Schema) -> Fault:
        import pyarrow as pa

        try:
            fields = next(csv.reader([line.rstrip("\r\n")], delimiter=self.delimiter or ","))
        except csv.Error:
            return Fault(0, "not a row of CSV")
        if len(fields) != len(self._names):
            text = f"{len(fields)} field{'s' * (len(fields) != 1)}; the first line has {len(self._names)}"
            return Fault(0, text + ("; a quote is not closed" if line.count('"') % 2 else ""))
        for name, field in zip(self._names, fields, strict=True):
            missing = field in self._na_values
            if columns.get(name) == pa.float64() and not missing and not _is_float(field):
                return Fault(0, f'column "{name}" has {field!r}, but numbers before', Advice.CATEGORICAL)
        return Fault(0, "not a row of CSV")


class JsonLines(Text):
    """A file with one JSON object per line.

    Values may be nested `MAX_DEPTH` deep. Pyarrow parses them by recursion, so that deeply nested ones would
    exhaust the stack and end the process. So would `null` in place of the first object.
    """

    def __init__(self, source: Source) -> None:
        need_pyarrow("JSON lines")
        super().__init__(source)

    def schema(self) -> Schema:
        # Rows with different names make a table of mostly missing values, which take memory, too.
        data = self._first.data
        n_rows, n_columns = data.count(b"{"), len(set(_NAME.findall(data)))
        check_columns(self.name, n_columns)
        if n_rows * n_columns > TABLE_VALUES:
            raise StreamError(
                f"{self.name}: the first {n_rows:,} rows have {n_columns:,} different names, a table of "
                f"{format_bytes(8 * n_rows * n_columns)}; give sparse rows in a LIBSVM file"
            )
        schema = self._piece(self._first, None).table.schema
        return dict(zip(schema.names, schema.types, strict=True))

    def read_as(self, kind: ArrowType, number: bool) -> ArrowType:
        import pyarrow as pa

        if number:
            return pa.float64()
        # Pyarrow parses text that looks like a date as a date; here it is text.
        return pa.string() if pa.types.is_temporal(kind) or pa.types.is_null(kind) else kind

    def _parts(self, chunk: Chunk, n_columns: int) -> Iterator[Chunk]:
        most = max(1, TABLE_VALUES // n_columns)
        if chunk.data.count(b"{") <= most:
            yield chunk
            return
        lines: list[bytes] = []
        start, rows = chunk.line, 0
        for number, line in enumerate(BytesIO(chunk.data), chunk.line):
            more = line.count(b"{")
            if more > most:
                raise StreamError(f"{self.name}:{number}: {more:,} objects; give one object per line")
            if rows + more > most:
                yield Chunk(b"".join(lines), start)
                lines, start, rows = [], number, 0
            lines.append(line)
            rows += more
        yield Chunk(b"".join(lines), start)

    def _parse(self, data: bytes, columns: Schema | None) -> ArrowTable:
        import pyarrow as pa
        from pyarrow import json as pa_json

        if _depth(data) > MAX_DEPTH or _NULL.match(data):
            raise pa.ArrowInvalid("would end the process")  # explained by `_fault`
        options: dict[str, object] = {"newlines_in_values": False}
        if columns is not None:
            options |= {"explicit_schema": pa.schema(columns), "unexpected_field_behavior": "ignore"}
        return pa_json.read_json(
            pa.BufferReader(data),
            read_options=pa_json.ReadOptions(block_size=len(data) + 1, use_threads=False),
            parse_options=pa_json.ParseOptions(**options),
        )

    def _fault(self, line: str, columns: Schema) -> Fault:
        if _depth(line.encode()) > MAX_DEPTH:
            return Fault(0, f"values are nested more than {MAX_DEPTH} deep; give an object without nesting")
        try:
            row = json.loads(line)
        except ValueError:
            return Fault(0, "not JSON; JSON lines have one object, {...}, per line")
        if not isinstance(row, dict):
            return Fault(0, "not an object; JSON lines have one object, {...}, per line")
        for name, kind in columns.items():
            if name in row and not _fits(row[name], kind):
                return Fault(
                    0,
                    f'column "{name}" has {row[name]!r}, not of type {kind} as before; '
                    "a column must have one type",
                )
        problem = "a column changes its type or occurs twice, or a value is not valid"
        return Fault(0, f"{problem}; a column must have one type")


def _depth(data: bytes) -> int:
    """Return how deeply brackets outside of strings are nested."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Without empty strings, few strings are left to split at. The quotes of the others remain paired.
    marks = data.translate(None, _NO_MARKS).replace(b'""', b"")
    brackets = np.frombuffer(b"".join(marks.split(b'"')[::2]), np.uint8)
    opening = (brackets == ord("[")) | (brackets == ord("{"))
    return int(np.cumsum(np.where(opening, 1, -1)).max(initial=0))


def _fits(value: object, kind: ArrowType) -> bool:
    from pyarrow import types

    if value is None:
        return True
    if types.is_floating(kind):
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e308
    if types.is_integer(kind):
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, bool) if types.is_boolean(kind) else isinstance(value, str)


def _is_float(field: str) -> bool:
    try:
        float(field or "nan")
    except ValueError:
        return field.strip().lower() in ("na", "n/a", "null", "#n/a", "#na", "<na>", "-nan", "#n/a n/a")
    return "_" not in field
