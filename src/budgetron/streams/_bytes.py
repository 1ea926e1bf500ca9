"""Bytes to read: files again and again, pipes once, decompressed, in pieces of whole lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import select
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from budgetron.streams._base import StreamError

__all__ = ["Chunk", "Source", "need_pyarrow", "records"]

CHUNK = 1 << 20
PATIENCE = 5.0  # seconds that the first chunk of a pipe may take to fill
BOM = b"\xef\xbb\xbf"
LONGEST = 1 << 26  # of one line
_HEAD = 1 << 16
_BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


class Chunk(NamedTuple):
    """Whole lines of text, and the number of the first, from 1."""

    data: bytes
    line: int


def need_pyarrow(what: str) -> Any:
    """The pyarrow module, or an ImportError that says how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"reading {what} needs pyarrow: pip install 'budgetron[cli]'") from error
    return pyarrow


class Source:
    """A path, "-" for standard input, or an open binary file.

    Attributes
    ----------
    name : str
        For messages.
    suffixes : list of str
        Of the path, without those of a compression.
    again : bool
        Whether it can be read more than once.
    size : int or None
        Bytes in all, before decompression.
    """

    def __init__(self, source: Any) -> None:
        self.size: int | None = None
        self.again = False
        self.file: Any = None
        self.path: str | None = None
        self._opened: Opened | None = None
        self._used = False
        if isinstance(source, str) and source == "-":
            self.name, self.file = "standard input", sys.stdin.buffer
        elif isinstance(source, str | os.PathLike):
            self.name = self.path = os.fspath(source)
            self._stat(self.path)
        elif hasattr(source, "read"):
            name = getattr(source, "name", None)
            self.name, self.file = name if isinstance(name, str) else "stream", source
            if isinstance(source, io.TextIOBase):
                raise StreamError(f"{self.name}: opened as text; open it in binary mode")
            self.again = bool(getattr(source, "seekable", bool)())
            self._start = source.tell() if self.again else 0
        else:
            raise TypeError(f'source must be a path, "-" or a binary file; got {type(source).__name__}')
        names = Path(self.path or self.name).name.lower().split(".")[1:]
        self.suffixes = [name for name in names if name not in ("gz", "bz2", "xz", "zst")]

    def _stat(self, path: str) -> None:
        try:
            status = os.stat(path)
        except OSError as error:
            raise StreamError(_os_text(path, error)) from error
        if stat.S_ISDIR(status.st_mode):
            raise StreamError(f"{path}: a directory; give a file")
        self.again = stat.S_ISREG(status.st_mode)
        self.size = status.st_size if self.again else None

    def head(self) -> bytes:
        """The first bytes, decompressed, which stay to be read."""
        if self.again:
            opened = self._open()
            try:
                return opened.head()
            finally:
                opened.close()
        self._opened = self._open()
        head = self._opened.head()
        self._opened.unread(head)
        return head

    def open(self) -> Opened:
        """The bytes from the beginning."""
        if self.again:
            return self._open()
        if self._used:
            raise StreamError(
                f"{self.name}: a pipe can be read only once; save it to a file to read it again"
            )
        self._used = True
        return self._opened or self._open()

    def _open(self) -> Opened:
        if self.path is None:
            if self.again:
                self.file.seek(self._start)
            return Opened(self.file, self.name, lambda: None)
        try:
            file = open(self.path, "rb")  # noqa: SIM115 - closed by Opened
        except OSError as error:
            raise StreamError(_os_text(self.path, error)) from error
        return Opened(file, self.name, file.close)


class Opened:
    """One pass over the bytes of a source; `position` counts them as they are in the source."""

    def __init__(self, file: Any, name: str, close: Callable[[], None]) -> None:
        self.name, self.close = name, close
        self._counted = _Counted(file)
        self._back = b""
        buffered = io.BufferedReader(self._counted, _HEAD)
        try:
            self._file = _decompressed(buffered, buffered.peek(6)[:6])
        except OSError as error:
            raise StreamError(_os_text(name, error)) from error

    @property
    def position(self) -> int:
        return self._counted.count

    def unread(self, data: bytes) -> None:
        self._back = data + self._back

    def head(self) -> bytes:
        """The first line, and more as it comes."""
        head = b""
        while b"\n" not in head and (data := self.read_some(_HEAD - len(head), 0.0)):
            head += data
        return head

    def read_some(self, size: int, patience: float) -> bytes:
        """As many bytes as come within some seconds, at the most those asked for; none only at the end."""
        parts, self._back = [self._back[:size]], self._back[size:]
        wanted = size - len(parts[0])
        read = getattr(self._file, "read1", self._file.read)
        end = time.monotonic() + patience
        try:
            # What was read before was a whole line or more: it need not wait for others.
            while wanted and (not parts[0] or self._counted.is_ready(end)) and (data := read(wanted)):
                parts.append(data)
                wanted -= len(data)
                if not self._counted.is_ready(end):
                    break
        except _BROKEN as error:
            raise StreamError(
                f"{self.name}: the compressed file is cut short or damaged; get it again"
            ) from error
        except OSError as error:
            # bz2 and zst have no error class of their own, and their errors no number.
            what = "the compressed file is cut short or damaged; get it again"
            text = f"{self.name}: {what}" if error.errno is None else _os_text(self.name, error)
            raise StreamError(text) from error
        return b"".join(parts)

    def chunks(self, delimiter: str | None = None) -> Iterator[Chunk]:
        """Pieces of whole lines, of about a megabyte; with a delimiter, of whole CSV records."""
        line, rest, size = 1, b"", CHUNK
        # The first is a full one if it comes soon, for it decides the types and classes; after that a slow
        # pipe is not waited for.
        while data := self.read_some(size, PATIENCE if line == 1 else 0.0):
            rest += data if line > 1 or rest else data.removeprefix(BOM)
            end = _cut(rest, delimiter)
            if end:
                yield Chunk(rest[:end], line)
                line += rest.count(b"\n", 0, end)
                rest, size = rest[end:], CHUNK
            elif len(rest) >= LONGEST:
                quoted = "" if delimiter is None else ", or a quote that is not closed"
                raise StreamError(
                    f"{self.name}:{line}: a line of more than {LONGEST >> 20} MB{quoted}; is it text?"
                )
            else:
                size = len(rest)  # doubling, so that a long line is searched in linear time
        if rest:
            yield Chunk(rest, line)


class _Counted(io.RawIOBase):
    """Counts what is read."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.count = 0

    def readable(self) -> bool:
        return True

    def is_ready(self, end: float) -> bool:
        """Whether more can be read until then, as far as can be told."""
        if not hasattr(self._file, "read1"):
            return True
        try:
            return bool(select.select([self._file], [], [], max(0.0, end - time.monotonic()))[0])
        except (OSError, ValueError, TypeError):  # not a file of the system's, or not on this system
            return True

    def readinto(self, buffer: Any) -> int:
        read = getattr(self._file, "read1", self._file.read)
        data = read(len(buffer))
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)


def _decompressed(file: Any, magic: bytes) -> Any:
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)
    if re.match(rb"BZh[1-9]1A", magic):
        return bz2.BZ2File(file)
    if magic == b"\xfd7zXZ\x00":
        return lzma.LZMAFile(file)
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return need_pyarrow("a .zst file").CompressedInputStream(file, "zstd")
    return file


def _os_text(name: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{name}: no such file"
    if isinstance(error, PermissionError):
        return f"{name}: permission denied; it must be readable"
    return f"{name}: cannot be read: {error.strerror or error}"


def _cut(data: bytes, delimiter: str | None) -> int:
    """Where the last whole record ends; 0 if there is none."""
    end = data.rfind(b"\n") + 1
    if delimiter is None or data.count(b'"', 0, end) % 2 == 0:
        return end
    # Perhaps the last line break is inside quotes: walk over the quoted fields.
    last = at = 0
    for field in _quoted(delimiter).finditer(data):
        last = data.rfind(b"\n", at, field.start()) + 1 or last
        at = field.end()
        if not field["end"]:
            return last
    return data.rfind(b"\n", at) + 1 or last


def _quoted(delimiter: str) -> re.Pattern[bytes]:
    return re.compile(rb'(?:(?<=[%b\n])|\A)"[^"]*(?:""[^"]*)*(?P<end>"|\Z)' % re.escape(delimiter.encode()))


def records(chunk: Chunk, delimiter: str | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines, or CSV records, that are not blank, each with its number. Slow: for what is rare."""
    pending, start = b"", chunk.line
    for number, line in enumerate(BytesIO(chunk.data), chunk.line):
        if not pending:
            start = number
        pending += line
        if delimiter is not None and pending.count(b'"') % 2 and _cut(pending, delimiter) < len(pending):
            continue
        if pending.strip(b"\r\n"):
            yield start, pending
        pending = b""
    if pending.strip(b"\r\n"):
        yield start, pending
