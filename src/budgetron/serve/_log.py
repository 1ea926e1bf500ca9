"""The durable log: labelled rows that models learn, and rows that wait for labels, in one SQLite file.

A transaction is on disk when it ends: the journal is a write-ahead log with ``synchronous=FULL``. The
connection holds an exclusive lock, so that no second process can serve the same folder.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron._util.types import Floats
from budgetron.serve._clock import now
from budgetron.serve._waiting import Batch
from budgetron.streams._objects import PlainRows

__all__ = ["DiskFullError", "Log", "Record"]

VERSION = 3
READABLE = (2, VERSION)  # records and waiting rows of version 2 have no checksums
_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS records (
    number INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL, time REAL NOT NULL, block INTEGER NOT NULL,
    content BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS records_of_model ON records (model, number);
CREATE TABLE IF NOT EXISTS waiting (
    model TEXT NOT NULL, first INTEGER NOT NULL, time REAL NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (model, first));
-- Rows by number whose labels have arrived, and examples by the ids that clients gave them.
CREATE TABLE IF NOT EXISTS learned (
    model TEXT NOT NULL, row INTEGER NOT NULL, PRIMARY KEY (model, row)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS named (
    model TEXT NOT NULL, id TEXT NOT NULL, record INTEGER NOT NULL, PRIMARY KEY (model, id)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS named_by_record ON named (model, record);
"""
# How many numbers and ids of learned examples are remembered for each model, so that repeated ones are
# recognised.
REMEMBERED = 1_000_000
FIRST_HOUR = 1577836800  # the beginning of 2020, in seconds since 1970
MOST_HOURS = 1 << 22  # more than 400 years; the numbers of rows must fit in 63 bits
_HEADER = struct.Struct("<II")
# Parts of the second number of a header: labels are numbers, not indices of classes; a checksum follows.
_NUMBERS, _CHECKED = 1 << 31, 1 << 30
_CHECKSUM = struct.Struct("<I")


class DiskFullError(Exception):
    """The log cannot be written: the disk is full or fails, or the file was removed."""


@dataclass(frozen=True)
class Record:
    """Examples that one model learns together.

    Attributes
    ----------
    time : float
        When they were written, in seconds since 1970.
    ids : list of int, str or None
        The number of a predicted row, the id that the client gave a row, or None for a row without id.
    rows : PlainRows
    labels, predicted : ndarray of shape (n_rows,)
        As the task keeps them: indices of classes (int64), or numbers (float64). `predicted` is -1 or NaN
        for rows that nothing was predicted for.
    delays : ndarray of shape (n_rows,)
        Seconds from prediction to label, or NaN.
    block : int
        How many rows are learned at a time. The log keeps it, because sums over blocks of other sizes may be
        rounded differently.
    """

    time: float
    ids: list[int | str | None]
    rows: PlainRows
    labels: NDArray[Any]
    predicted: NDArray[Any]
    delays: Floats
    block: int

    def to_bytes(self) -> bytes:
        """Return everything except the time and the block as bytes."""
        ids = json.dumps(self.ids, separators=(",", ":")).encode()
        kind, flag = _stored(self.labels)
        arrays = [self.labels.astype(kind), self.predicted.astype(kind), self.delays.astype("<f8")]
        head = _HEADER.pack(len(self.labels), len(ids) | flag | _CHECKED)
        parts = [head, ids, *(array.tobytes() for array in arrays), self.rows.to_bytes()]
        return _with_checksum(b"".join(parts), self.time, self.block)

    @classmethod
    def from_bytes(cls, time: float, block: int, data: bytes) -> Record:
        """Return the record that `to_bytes` was called for."""
        data = _without_checksum(data, time, block)
        n, length = _HEADER.unpack_from(data)
        flag, length = length & _NUMBERS, length & ~(_NUMBERS | _CHECKED)
        place = _HEADER.size
        ids = json.loads(data[place : place + length])
        labels, place = _values(data, 2 * n, place + length, flag)
        delays = np.frombuffer(data, "<f8", n, place).astype(np.float64)
        rows = PlainRows.from_bytes(data[place + 8 * n :])
        return cls(time, ids, rows, labels[:n], labels[n:], delays, block)


def _with_checksum(data: bytes, time: float, number: int) -> bytes:
    return data + _CHECKSUM.pack(_checksum(data, time, number))


def _without_checksum(data: bytes, time: float, number: int) -> bytes:
    """Return data without their checksum; raise `ValueError` if it is wrong. SQLite itself has none."""
    if not _HEADER.unpack_from(data)[1] & _CHECKED:
        return data
    content = data[: -_CHECKSUM.size]
    if data[len(content) :] != _CHECKSUM.pack(_checksum(content, time, number)):
        raise ValueError("the checksum is wrong")
    return content


def _checksum(data: bytes, time: float, number: int) -> int:
    """Return the checksum of data and of the numbers that are stored next to them."""
    return zlib.crc32(data, zlib.crc32(struct.pack("<dq", time, number)))


def _stored(values: NDArray[Any]) -> tuple[str, int]:
    """Return the type that labels or predictions are stored as, and the flag for it in a header."""
    return ("<f8", _NUMBERS) if values.dtype == np.float64 else ("<i4", 0)


def _values(data: bytes, n: int, place: int, flag: int) -> tuple[NDArray[Any], int]:
    """Return labels or predictions that are stored at a place, and the place after them."""
    stored, kind = (np.dtype("<f8"), np.float64) if flag else (np.dtype("<i4"), np.int64)
    return np.frombuffer(data, stored, n, place).astype(kind), place + n * stored.itemsize


def _batch_bytes(batch: Batch) -> bytes:
    kind, flag = _stored(batch.predicted)
    head = _HEADER.pack(len(batch.rows), flag | _CHECKED)
    data = head + batch.predicted.astype(kind).tobytes() + batch.rows.to_bytes()
    return _with_checksum(data, batch.time, batch.first)


def _batch_of(first: int, time: float, data: bytes) -> Batch:
    data = _without_checksum(data, time, first)
    n, flag = _HEADER.unpack_from(data)
    predicted, place = _values(data, n, _HEADER.size, flag & _NUMBERS)
    return Batch(first, time, PlainRows.from_bytes(data[place:]), predicted)


def _hours() -> int:
    """Return the hours since 2020.

    The number of a run is at least this, so that a folder that is restored from a backup does not use the
    numbers of runs that began after the backup. This holds if runs begin at most once an hour.
    """
    return min(max(0, int(now() - FIRST_HOUR) // 3600), MOST_HOURS)


class Log:
    """The log of a folder; one thread may use it at a time.

    Parameters
    ----------
    path : Path
        The SQLite file; it is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # isolation_level=None: transactions begin and end only where this class says so.
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.2)
        try:
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA auto_vacuum=INCREMENTAL")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA wal_autocheckpoint=4000")
            self._db.executescript(_TABLES)
            version = self._value("version")
            if version not in (None, *READABLE):
                raise ValueError(f"{path}: format {version}; this version of Budgetron reads {VERSION}")
            (found,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            self._db.execute("INSERT OR REPLACE INTO about VALUES ('version', ?)", (VERSION,))
            self.run = max((self._value("run") or 0) + 1, _hours())
            self.write_run()
            # Open until the connection is closed: closing a file ends all locks that the process has on it.
            self._open_files = [os.open(file, os.O_RDONLY) for file in self._files()]
        except sqlite3.OperationalError as error:
            self._db.close()
            if "locked" in str(error):
                raise ValueError(
                    f"{path.parent}: another process serves this folder; stop it first"
                ) from None
            raise ValueError(f"{path}: the log cannot be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise ValueError(f"{path}: not a log of budgetron serve, or damaged: {error}") from error

    def _value(self, name: str) -> int | None:
        found = self._db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if found is None else int(found[0])

    def write_run(self) -> None:
        """Write the number of this run of the service."""
        self._db.execute("INSERT OR REPLACE INTO about VALUES ('run', ?)", (self.run,))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything in this context durably, or nothing; raises `DiskFullError`."""
        if any(not os.fstat(file).st_nlink for file in self._open_files):
            raise DiskFullError("a file of the log was removed while the service runs")
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise DiskFullError(str(error)) from error
            raise

    def _many(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:  # each statement gives the interpreter lock to another thread, which may keep it for a while
            self._db.executemany(statement, rows)

    def append(self, model: str, record: Record) -> int:
        """Add a record; return its number. Its ids are remembered."""
        number = self._db.execute(
            "INSERT INTO records (model, time, block, content) VALUES (?, ?, ?, ?)",
            (model, record.time, record.block, record.to_bytes()),
        ).lastrowid
        assert number is not None
        rows: list[tuple[Any, ...]] = [(model, id) for id in record.ids if isinstance(id, int)]
        self._many("INSERT INTO learned VALUES (?, ?)", rows)
        names: list[tuple[Any, ...]] = [(model, id, number) for id in record.ids if isinstance(id, str)]
        self._many("INSERT INTO named VALUES (?, ?, ?)", names)
        return number

    def count_from(self, number: int) -> bool:
        """Give all later records larger numbers than this; return whether they would not have had them.

        They have them already, except in a new log, or in one of another folder, next to an older model file.
        """
        found = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").fetchone()
        if number <= (0 if found is None else found[0]):
            return False
        with self.transaction():
            self._db.execute("DELETE FROM sqlite_sequence WHERE name = 'records'")
            self._db.execute("INSERT INTO sqlite_sequence VALUES ('records', ?)", (number,))
        return True

    @contextmanager
    def _damage(self, part: str) -> Iterator[None]:
        """Raise `ValueError` with the name of the file if a part of it cannot be read."""
        try:
            yield
        except (ValueError, TypeError, IndexError, struct.error) as error:
            raise ValueError(
                f"{self.path}: {part} is damaged ({error}); restore the folder from a backup"
            ) from error

    def records(self, model: str, after: int) -> Iterator[tuple[int, Record]]:
        """Yield the records of a model after this number, in order."""
        while True:
            found = self._db.execute(
                "SELECT number, time, block, content FROM records WHERE model = ? AND number > ? "
                "ORDER BY number LIMIT 1",
                (model, after),
            ).fetchone()
            if found is None:
                return
            after = found[0]
            with self._damage(f"record {after}"):
                record = Record.from_bytes(*found[1:])
            yield after, record

    def learned(self, model: str, rows: list[int], ids: list[str]) -> set[int | str]:
        """Return which rows, by number, and which ids were learned already."""
        queries = (("learned", "row", rows), ("named", "id", ids))
        found: set[int | str] = set()
        for table, column, wanted in queries:
            if wanted:
                query = (
                    f"SELECT {column} FROM {table} WHERE model = ? AND {column} IN "
                    "(SELECT value FROM json_each(?))"
                )
                found.update(row[0] for row in self._db.execute(query, (model, json.dumps(wanted))))
        return found

    def store(self, model: str, batches: Iterable[Batch]) -> None:
        """Add batches of waiting rows."""
        rows: list[tuple[Any, ...]] = [
            (model, batch.first, batch.time, _batch_bytes(batch)) for batch in batches
        ]
        self._many("INSERT INTO waiting VALUES (?, ?, ?, ?)", rows)

    def remove(self, model: str, firsts: Iterable[int]) -> None:
        """Remove batches of waiting rows."""
        rows: list[tuple[Any, ...]] = [(model, first) for first in firsts]
        self._many("DELETE FROM waiting WHERE model = ? AND first = ?", rows)

    def waiting(self, model: str) -> Iterator[Batch]:
        """Yield the batches of waiting rows, the oldest first."""
        query = "SELECT first, time, content FROM waiting WHERE model = ? ORDER BY first"
        for first, time, content in self._db.execute(query, (model,)).fetchall():
            with self._damage(f"the waiting row {first}"):
                batch = _batch_of(first, time, content)
            learned = self._db.execute(
                "SELECT row FROM learned WHERE model = ? AND row BETWEEN ? AND ?",
                (model, first, first + len(batch.rows) - 1),
            )
            for (row,) in learned.fetchall():
                batch.labelled[row - first] = 1
            batch.left = batch.labelled.count(0)
            yield batch

    def truncate(self, model: str, up_to: int, oldest: int, keep_records: bool) -> None:
        """Remove records up to a number, and forget old ids, but no row from `oldest` on."""
        if not keep_records:
            self._db.execute("DELETE FROM records WHERE model = ? AND number <= ?", (model, up_to))
            self._db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (f"truncated {model}", up_to))
        for table, column in (("learned", "row"), ("named", "record")):
            query = f"SELECT {column} FROM {table} WHERE model = ? ORDER BY {column} DESC LIMIT 1 OFFSET ?"
            found = self._db.execute(query, (model, REMEMBERED)).fetchone()
            if found is not None:
                last = min(found[0], oldest - 1) if table == "learned" else found[0]
                self._db.execute(f"DELETE FROM {table} WHERE model = ? AND {column} <= ?", (model, last))

    def truncated(self, model: str) -> int:
        """Return the number up to which the records of a model were removed."""
        return self._value(f"truncated {model}") or 0

    def shrink(self) -> None:
        """Return the space of removed records to the file system."""
        self._db.execute("PRAGMA incremental_vacuum").fetchall()

    def forget(self, model: str) -> None:
        """Remove everything of a model, and note that it was deleted."""
        for table in ("records", "waiting", "learned", "named"):
            self._db.execute(f"DELETE FROM {table} WHERE model = ?", (model,))
        self._db.execute("DELETE FROM about WHERE name = ?", (f"truncated {model}",))
        self._db.execute("INSERT INTO about VALUES (?, 1)", (f"deleted {model}",))

    def is_deleted(self, model: str) -> bool:
        """Return whether `forget` was called for a model."""
        return self._value(f"deleted {model}") is not None

    def records_by_model(self) -> dict[str, int]:
        """Return how many records there are of each model."""
        return dict(self._db.execute("SELECT model, count(*) FROM records GROUP BY model"))

    def _files(self) -> list[Path]:
        return [self.path, self.path.with_name(self.path.name + "-wal")]

    @property
    def nbytes(self) -> int:
        """Bytes of the files on disk."""
        return sum(os.fstat(file).st_size for file in self._open_files)

    def close(self) -> None:
        """Close the file; what was committed is kept."""
        self._db.close()
        for file in self._open_files:
            os.close(file)
        self._open_files = []
