"""The zip archive of a model file: one table, and arrays. Nothing is read before its length was checked."""

# The format
# ----------
# A file is a zip archive without compression. It contains
#
#     model.json       see below
#     arrays/0.npy     one member per array, as numpy.lib.format writes it, little-endian, in C order
#     arrays/1.npy     ...
#
# and nothing else. model.json is
#
#     {"format": "budgetron model", "protocol": 4, "version": <of the library that wrote it>,
#      "arrays": [<sha256 of arrays/0.npy>, ...], "model": <tree>, "extras": <tree or null>}
#
# `writer` describes trees. The same model always gives the same bytes.
#
# Nothing is compressed, so that no file can ask for much more memory than its size. Every length is compared
# with the size of the file before it is used. A file with holes may be large and take no space on disk;
# so an array is read only after its shape was compared with its length and its memory was allocated.

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from math import prod
from typing import IO, Literal

import numpy as np
from numpy.lib import format as npy

from budgetron._persistence.protocols import PROTOCOL
from budgetron._persistence.writer import DTYPE_KINDS, Array, Tree
from budgetron._util.blocks import row_blocks
from budgetron._util.checks import require, require_int
from budgetron._util.interrupts import defer_interrupts

__all__ = ["FORMAT", "BytesOfModel", "ModelFileError", "Path", "open_file", "opened_archive", "write_archive"]

Path = str | os.PathLike[str]

FORMAT = "budgetron model"
HEAD = "model.json"

# The tables of a model are small; everything large is in arrays.
LONGEST_HEAD = 1 << 24

# Arrays are read in pieces of this many bytes.
PIECE = 1 << 20

# Members have no time stamp, so that the same model gives the same bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


class ModelFileError(ValueError):
    """A file that contains no model, or not a valid one."""


@contextmanager
def _archive(file: IO[bytes], mode: Literal["r", "w"]) -> Iterator[zipfile.ZipFile]:
    """Open a file without compression.

    A signal is handled after `ZipFile` has opened the file. An object that was not made completely would
    print an error when it is deleted.
    """
    with ExitStack() as stack:
        with defer_interrupts():
            archive = stack.enter_context(zipfile.ZipFile(file, mode, zipfile.ZIP_STORED))
        yield archive


def write_archive(file: IO[bytes], head: dict[str, Tree], arrays: list[Array]) -> None:
    """Write a table, to which the checksums of the arrays are added, and the arrays."""
    with _archive(file, "w") as archive:
        sums = []
        for i, values in enumerate(arrays):
            member = zipfile.ZipInfo(_member(i), EPOCH)
            with archive.open(member, "w", force_zip64=values.nbytes > 1 << 30) as stream:
                hashed = _Hashed(stream)
                npy.write_array(hashed, values, version=(1, 0), allow_pickle=False)
            sums.append(hashed.digest.hexdigest())
        text = json.dumps(head | {"arrays": sums}, allow_nan=False, separators=(",", ":")).encode()
        if len(text) > LONGEST_HEAD:
            raise ModelFileError(
                f"the tables of the model and the extras take {len(text)} bytes; a file may have up to "
                f"{LONGEST_HEAD}; store long lists as arrays"
            )
        archive.writestr(zipfile.ZipInfo(HEAD, EPOCH), text)


class _Hashed:
    """A stream that computes the sha256 of all that is written or read, and counts the bytes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.digest, self.n_bytes = stream, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self._add(data)
        return self._stream.write(data)

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._add(data)
        return data

    def _add(self, data: bytes) -> None:
        self.digest.update(data)
        self.n_bytes += len(data)


def _member(i: int) -> str:
    return f"arrays/{i}.npy"


# ---------------------------------------------------------------------- reading


@contextmanager
def opened_archive(
    file: IO[bytes], size: int, path: Path
) -> Iterator[tuple[dict[str, Tree], Callable[[int], Array]]]:
    """Yield the table of a file of this size, and a function that reads an array, given its number.

    `path` is the name of the file in error messages.
    """
    if not zipfile.is_zipfile(file):
        raise ModelFileError(f"{os.fspath(path)}: not a model file of budgetron.save, or cut short")
    with _archive(file, "r") as archive:
        members = _members(archive, size)
        head = _head(archive, members, path)
        sums = head["arrays"]
        require(isinstance(sums, list) and len(members) == len(sums) + 1, "arrays are missing or unexpected")
        require(all(_member(i) in members for i in range(len(sums))), "arrays are missing")
        yield head, _fetcher(archive, members, sums)


def open_file(path: Path) -> _ModelFile:
    """Open a regular file. A device could be endless, and a pipe would wait for someone to write to it."""
    file = _ModelFile(io.FileIO(path, opener=_open_at_once))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ModelFileError(f"{os.fspath(path)}: not a regular file; give the name of a model file")
    return file


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting, which opening a pipe would do."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class _ModelFile(io.BufferedReader):
    """A file of which only short pieces are read at once.

    `zipfile` reads the table of contents at once, and the file states its length. Without a size, `zipfile`
    reads only the end of the file.
    """

    def read(self, size: int | None = -1) -> bytes:
        require(size is None or size <= LONGEST_HEAD, "the table of contents is too long")
        return super().read(size)


class BytesOfModel(io.BytesIO):
    """The same for bytes in memory."""

    def read(self, size: int | None = -1) -> bytes:
        require(size is None or size <= LONGEST_HEAD, "the table of contents is too long")
        return super().read(size)


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        require(info.filename not in members, f"{info.filename[:60]!r} occurs twice")
        require(
            info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size,
            "members should not be compressed",
        )
        members[info.filename] = info
    # Members that overlap could otherwise expand to more than the file.
    require(sum(info.file_size for info in members.values()) <= size, "members are larger than the file")
    return members


def _head(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], path: Path) -> dict[str, Tree]:
    if HEAD not in members:
        raise ModelFileError(f"{os.fspath(path)}: not a model file of budgetron.save: it has no {HEAD}")
    require(members[HEAD].file_size <= LONGEST_HEAD, f"{HEAD} is too long")
    head = json.loads(archive.read(HEAD), parse_constant=_no_constant)
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ModelFileError(f"{os.fspath(path)}: not a model file of budgetron.save")
    protocol = require_int(head.get("protocol"), 1, 2**31, "the protocol")
    if protocol > PROTOCOL:
        writer = str(head.get("version"))[:40]
        raise ModelFileError(
            f"{os.fspath(path)}: written by budgetron {writer} in protocol {protocol}; "
            f"this is budgetron {version('budgetron')}, which reads up to protocol {PROTOCOL}: "
            "update it to load this file"
        )
    require(
        set(head) == {"format", "protocol", "version", "arrays", "model", "extras"}, f"{HEAD} is incomplete"
    )
    kinds = ("model", "pipeline", "river", "river regressor")
    require(
        isinstance(head["model"], dict) and head["model"].get("#") in kinds,
        f"{HEAD} should have a model",
    )
    require(head["extras"] is None or isinstance(head["extras"], dict), "extras should be a table of names")
    return head


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def _fetcher(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], sums: list[str]
) -> Callable[[int], Array]:
    def fetch(i: int) -> Array:
        require(i < len(sums), f"there is no array {i}")
        member = members[_member(i)]
        with archive.open(member) as stream:  # its CRC is checked at the end
            hashed = _Hashed(stream)
            values = _allocate(hashed, member.file_size, i)
            contents = values.reshape(-1).view(np.uint8)
            for piece in row_blocks(len(contents), PIECE):
                contents[piece] = np.frombuffer(hashed.read(piece.stop - piece.start), np.uint8)
        require(hashed.digest.hexdigest() == sums[i], f"the contents of array {i} have changed")
        return values.astype(values.dtype.newbyteorder("="), copy=False)

    return fetch


# Python 3.11 counts the nesting of parsed text over all threads together, and may fail if two parse at once.
_header_lock = threading.Lock()


def _reset_lock() -> None:
    """Start without users: in a forked child, the thread that had the lock does not exist."""
    global _header_lock
    _header_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_lock)


def _allocate(stream: _Hashed, length: int, i: int) -> Array:
    """Read the header of a member of this length, and return an array for the contents that follow."""
    require(npy.read_magic(stream) == (1, 0), f"array {i} is not in version 1.0")
    try:
        with _header_lock:
            shape, fortran, dtype = npy.read_array_header_1_0(stream)
    except MemoryError:  # raised by Python's parser for too many brackets
        raise ValueError(f"array {i} has no valid header") from None
    require(
        dtype.kind in DTYPE_KINDS and dtype.itemsize > 0 and dtype.names is None, f"array {i} is of {dtype}"
    )
    require(not fortran and len(shape) <= 2 and all(n >= 0 for n in shape), f"array {i} has shape {shape}")
    left = length - stream.n_bytes
    require(prod(shape) * dtype.itemsize == left, f"array {i} of shape {shape} does not fit in {left} bytes")
    try:
        return np.empty(shape, dtype)
    except MemoryError as error:
        raise ValueError(f"array {i} does not fit in memory: {error}") from None
