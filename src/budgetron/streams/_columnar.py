"""Tables that are stored by columns: data frames and Parquet files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, TypeAlias

from budgetron._util.blocks import row_blocks
from budgetron._util.units import format_bytes
from budgetron.streams._arrow import ArrowType, Piece, Schema, is_string
from budgetron.streams._bytes import Source, need_pyarrow
from budgetron.streams._errors import StreamError
from budgetron.streams._table import FIRST_ROWS, Reader, check_columns

__all__ = ["Frame", "Parquet"]

# pyarrow has no types.
ParquetFile: TypeAlias = Any

# Decompressed sizes in a Parquet file: of the rows read at a time, and of a row group that is accepted in any
# file. In a large file, a row group may be `MAX_RATIO` times the size of the file.
BATCH_BYTES = 1 << 26
GROUP_BYTES = 1 << 28
MAX_RATIO = 1000


class Frame(Reader):
    """A table in memory."""

    def __init__(self, df: object, name: str) -> None:
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
                f"{name}: {type(df).__name__} cannot become an arrow table; each column must have one type"
            ) from error
        self.n_rows = self._table.num_rows

    def schema(self) -> Schema:
        return _schema(self.name, self._table.schema)

    def first(self, columns: Schema) -> Piece:
        return self._piece(0, columns)

    def pieces(self, columns: Schema) -> Iterator[Piece]:
        for rows in row_blocks(self._table.num_rows, FIRST_ROWS):
            yield self._piece(rows.start, columns)

    def _piece(self, start: int, columns: Schema) -> Piece:
        table = self._table.select(list(columns)).slice(start, FIRST_ROWS)
        return Piece(table, partial(_row_name, self.name, start))


class Parquet(Reader):
    """A Parquet file.

    Text is read as indices into a dictionary, and wide rows in smaller batches. So a small file with long
    repeated text does not take much memory.
    """

    def __init__(self, source: Source) -> None:
        need_pyarrow("Parquet")
        self.name = source.name
        if not source.again:
            raise StreamError(
                f"{self.name}: a Parquet file has its index at the end and cannot be piped; give a file"
            )
        self._source = source
        self._text: list[str] = []
        file = self._open()
        self._text = [field.name for field in file.schema_arrow if is_string(field.type)]
        self._schema = file.schema_arrow
        check_columns(self.name, len(self._schema))
        self.n_rows = file.metadata.num_rows
        self._batch = _batch_rows(file, self.name, source.size)
        file.close()

    def schema(self) -> Schema:
        return _schema(self.name, self._schema)

    def first(self, columns: Schema) -> Piece:
        import pyarrow as pa

        batches, rows = [], 0
        for piece in self.pieces(columns):
            batches.append(piece.table)
            rows += piece.table.num_rows
            if rows >= self._batch:
                break
        table = pa.concat_tables(batches) if batches else self._schema.empty_table()
        return Piece(table, partial(_row_name, self.name, 0))

    def pieces(self, columns: Schema) -> Iterator[Piece]:
        import pyarrow as pa

        file, rows = self._open(), 0
        try:
            for batch in file.iter_batches(self._batch, columns=list(columns), use_threads=False):
                yield Piece(pa.Table.from_batches([batch]), partial(_row_name, self.name, rows))
                rows += batch.num_rows
        except MemoryError:  # also an ArrowException
            raise
        except (pa.ArrowException, OSError) as error:
            raise StreamError(f"{self.name}, after row {rows}: the file is damaged; get it again") from error
        finally:
            file.close()

    def _open(self) -> ParquetFile:
        import pyarrow as pa
        import pyarrow.parquet as pq

        opened = self._source.open()  # its error messages are clearer than those of pyarrow
        opened.close()
        try:
            return pq.ParquetFile(self._source.path or self._source.file, read_dictionary=self._text)
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise StreamError(
                f"{self.name}: not a Parquet file, or it is damaged or cut short; get it again"
            ) from error


def _batch_rows(file: ParquetFile, name: str, size: int | None) -> int:
    """Return how many rows to read at a time; raise an error if the file expands enormously."""
    groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
    largest = max((group.total_byte_size for group in groups), default=0)
    if size is not None and largest > max(GROUP_BYTES, MAX_RATIO * size):
        raise StreamError(
            f"{name}: a row group expands to {format_bytes(largest)}, more than {MAX_RATIO} times the size "
            "of the file; write the file with smaller row groups"
        )
    widest = max((group.total_byte_size / max(1, group.num_rows) for group in groups), default=0.0)
    return int(max(1, min(FIRST_ROWS, BATCH_BYTES / max(1.0, widest))))


def _row_name(name: str, start: int, row: int) -> str:
    return f"{name}, row {start + row + 1}"


def _schema(name: str, schema: ArrowType) -> Schema:
    for column, count in Counter(schema.names).items():
        if count > 1:
            raise StreamError(f'{name}: duplicate column "{column}"; names must differ')
    return dict(zip(schema.names, schema.types, strict=True))
