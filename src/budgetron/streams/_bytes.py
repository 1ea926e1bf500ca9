"""Read bytes from files and pipes: decompress them and cut them into chunks of whole lines."""

from __future__ import annotations

import bz2
import errno
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
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeAlias

from budgetron._util.units import format_bytes
from budgetron.streams._errors import StreamError

__all__ = ["Chunk", "Opened", "Source", "need_pyarrow", "records"]

# The pyarrow module, which has no types.
Arrow: TypeAlias = Any

CHUNK = 1 << 20
FIRST_CHUNK_SECONDS = 5.0  # how long to wait until the first chunk of a pipe is full
BOM = b"\xef\xbb\xbf"
MAX_LINE = 1 << 26  # bytes
XZ_MEMORY = 1 << 28  # bytes; `xz -9` needs a quarter of it
_HEAD = 1 << 16
DAMAGED = "the compressed file is cut short or damaged; get it again"
_BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


class ByteReader(Protocol):
    """A file of bytes, decompressed if necessary."""

    def read(self, size: int, /) -> bytes: ...


class Chunk(NamedTuple):
    """Whole lines of text, and the line number of the first, counted from 1."""

    data: bytes
    line: int


def need_pyarrow(what: str) -> Arrow:
    """Return the pyarrow module; raise an ImportError that says how to install it if it is missing."""
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
        The name in messages.
    suffixes : list of str
        The suffixes of the path, without those of compressed files.
    again : bool
        Whether it can be read more than once.
    size : int or None
        Size in bytes, before decompression.
    """

    def __init__(self, source: str | os.PathLike[str] | IO[bytes]) -> None:
        self.size: int | None = None
        self.again = False
        self.file: IO[bytes] | None = None
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
                raise StreamError(f"{self.name}: the file was opened as text; open it in binary mode")
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
            raise StreamError(f"{path}: this is a directory; give a file")
        self.again = stat.S_ISREG(status.st_mode)
        self.size = status.st_size if self.again else None

    def head(self) -> bytes:
        """Return the first bytes, decompressed; `open` returns them again."""
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
        """Open the source at its first byte."""
        if self.again:
            return self._open()
        if self._used:
            raise StreamError(
                f"{self.name}: a pipe can be read only once; write it to a file to read it again"
            )
        self._used = True
        return self._opened or self._open()

    def _open(self) -> Opened:
        if self.file is not None:
            if self.again:
                self.file.seek(self._start)
            return Opened(self.file, self.name, lambda: None)
        assert self.path is not None
        try:
            file = open(self.path, "rb")  # noqa: SIM115 - closed by Opened
        except OSError as error:
            raise StreamError(_os_text(self.path, error)) from error
        return Opened(file, self.name, file.close)


class Opened:
    """One pass over the bytes of a source; `position` counts bytes before decompression."""

    def __init__(self, file: IO[bytes], name: str, close: Callable[[], None]) -> None:
        self.name, self.close = name, close
        self._counted = _CountingReader(file)
        self._unread = b""
        buffered = io.BufferedReader(self._counted, _HEAD)
        try:
            self._file = _decompressed(buffered, buffered.peek(6)[:6])
        except OSError as error:
            raise StreamError(_os_text(name, error)) from error

    @property
    def position(self) -> int:
        """Bytes read so far."""
        return self._counted.count

    def unread(self, data: bytes) -> None:
        """Put back bytes, to be read next."""
        self._unread = data + self._unread

    def head(self) -> bytes:
        """Return the first line, and whatever was read with it."""
        head = b""
        while b"\n" not in head and (data := self.read_some(_HEAD - len(head), 0.0)):
            head += data
        return head

    def read_some(self, size: int, seconds: float) -> bytes:
        """Return the bytes that arrive within some seconds, at most `size`; none only at the end."""
        parts, self._unread = [self._unread[:size]], self._unread[size:]
        remaining = size - len(parts[0])
        read = getattr(self._file, "read1", self._file.read)
        end = time.monotonic() + seconds
        try:
            # Bytes that were put back hold at least one line, so there is no need to wait for more.
            while remaining and (not parts[0] or self._counted.is_ready(end)) and (data := read(remaining)):
                parts.append(data)
                remaining -= len(data)
                if not self._counted.is_ready(end):
                    break
        except _BROKEN as error:
            raise StreamError(f"{self.name}: {DAMAGED}") from error
        except OSError as error:
            # Errors of bz2 and zst have no class of their own, and no number.
            text = f"{self.name}: {DAMAGED}" if error.errno is None else _os_text(self.name, error)
            raise StreamError(text) from error
        return b"".join(parts)

    def chunks(self, delimiter: str | None = None) -> Iterator[Chunk]:
        """Yield whole lines, about a megabyte at a time; with a delimiter, whole CSV records."""
        line, rest, size = 1, b"", CHUNK
        # Wait for a full first chunk, because it decides types and classes. Later chunks of a slow pipe are
        # returned as they arrive.
        while data := self.read_some(size, FIRST_CHUNK_SECONDS if line == 1 else 0.0):
            data = data if line > 1 or rest else data.removeprefix(BOM)
            if delimiter is not None and (b'"' in rest or b'"' in data):
                rest, data = b"", rest + data
            end = _cut(data, delimiter)  # in the new bytes only: the rest has no line break outside of quotes
            if end:
                chunk = Chunk(b"".join((rest, memoryview(data)[:end])), line)
                yield chunk
                line += chunk.data.count(b"\n")
                rest, size = data[end:], CHUNK
                continue
            rest += data
            if len(rest) >= MAX_LINE:
                quoted = "" if delimiter is None else ", or a quote that is not closed"
                problem = f"{self.name}:{line}: a line of more than {format_bytes(MAX_LINE)}{quoted}"
                raise StreamError(f"{problem}; check that this is a text file")
            else:
                size = len(rest)  # doubled each time, so that a long line is searched in linear time
        if rest:
            yield Chunk(rest, line)


class _CountingReader(io.RawIOBase):
    """A file that counts the bytes read from it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.count = 0

    def readable(self) -> bool:
        return True

    def is_ready(self, end: float) -> bool:
        """Return whether more bytes arrive before `end`; true if that cannot be determined."""
        if not hasattr(self._file, "read1"):
            return True
        try:
            return bool(select.select([self._file], [], [], max(0.0, end - time.monotonic()))[0])
        except (OSError, ValueError, TypeError):  # not a file descriptor, or select does not support it
            return True

    def readinto(self, buffer: Any) -> int:  # a writable buffer, which has no type before Python 3.12
        if hasattr(self._file, "readinto1"):
            count = int(self._file.readinto1(buffer))
        else:
            data = getattr(self._file, "read1", self._file.read)(len(buffer))
            count = len(data)
            buffer[:count] = data
        self.count += count
        return count


class _XzReader(io.RawIOBase):
    """The bytes of an .xz file. Unlike `lzma.LZMAFile`, it limits the memory that the file can request."""

    def __init__(self, file: io.BufferedReader[_CountingReader]) -> None:
        self._file = file
        self._decompressor = lzma.LZMADecompressor(memlimit=XZ_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            if self._decompressor.eof:
                compressed = self._decompressor.unused_data.lstrip(b"\0")
                while not compressed:  # skip padding
                    if not (more := self._file.read1(_HEAD)):
                        return 0
                    compressed = more.lstrip(b"\0")
                self._decompressor = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
            elif not self._decompressor.needs_input:
                compressed = b""
            elif not (compressed := self._file.read1(_HEAD)):
                raise EOFError
            data = self._decompress(compressed, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _decompress(self, compressed: bytes, size: int) -> bytes:
        try:
            return self._decompressor.decompress(compressed, size)
        except lzma.LZMAError as error:
            if "limit" not in str(error):  # there is no class for this error
                raise
            limit = format_bytes(XZ_MEMORY)
            reason = f"decompressing it takes more than {limit} of memory; compress it with another tool"
            raise OSError(errno.ENOMEM, reason) from error


def _decompressed(file: io.BufferedReader[_CountingReader], magic: bytes) -> ByteReader:
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)
    if re.match(rb"BZh[1-9]1A", magic):
        return bz2.BZ2File(file)
    if magic == b"\xfd7zXZ\x00":
        return io.BufferedReader(_XzReader(file), _HEAD)
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        reader: ByteReader = need_pyarrow("a .zst file").CompressedInputStream(file, "zstd")
        return reader
    return file


def _os_text(name: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{name}: no such file"
    if isinstance(error, PermissionError):
        return f"{name}: permission denied; make it readable"
    return f"{name}: cannot be read: {error.strerror or error}"


def _cut(data: bytes, delimiter: str | None) -> int:
    """Return the end of the last whole record; 0 if there is none."""
    end = data.rfind(b"\n") + 1
    if delimiter is None or data.count(b'"', 0, end) % 2 == 0:
        return end
    # The last line break may be inside quotes: go through the quoted fields.
    last = at = 0
    for field in _quoted(delimiter).finditer(data):
        last = data.rfind(b"\n", at, field.start()) + 1 or last
        at = field.end()
        if not field["end"]:
            return last
    return data.rfind(b"\n", at) + 1 or last


def _quoted(delimiter: str) -> re.Pattern[bytes]:
    start = rb"(?:(?<=[%b\n])|\A)" % re.escape(delimiter.encode())
    return re.compile(start + rb'"[^"]*+(?:""[^"]*+)*+(?P<end>"|\Z)')


def records(chunk: Chunk, delimiter: str | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the lines, or CSV records, that are not blank, each with its line number."""
    start, line = 0, chunk.line
    for end in _ends(chunk.data, delimiter):
        record = chunk.data[start:end]
        if record.strip(b"\r\n"):
            yield line, record
        start, line = end, line + record.count(b"\n")


def _ends(data: bytes, delimiter: str | None) -> Iterator[int]:
    """Yield the end of each line; with a delimiter, of each CSV record: it may have line breaks in quotes."""
    quoted = () if delimiter is None or b'"' not in data else _quoted(delimiter).finditer(data)
    at = last = 0
    for start, end in chain((field.span() for field in quoted), [(len(data), len(data))]):
        while line_end := data.find(b"\n", at, start) + 1:
            yield line_end
            at = last = line_end
        at = end
    if last < len(data):
        yield len(data)
