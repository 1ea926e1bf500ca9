"""Model files: no pickle, no code, exact, and safe to load from any source.

`save` stores everything that a model has learned: a loaded model continues exactly as the saved one would
have. `load` checks everything that it reads.
"""

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
#
# A new learner needs no code here. Its class is listed in `kernelized` or `linear`, its rule is made by
# its own parameters, and the rule declares and checks its state.
#
# Raising the protocol
# --------------------
# The protocol is the version of the file format. A new class needs no new protocol: older versions reject it
# by name. A change of the name, shape or meaning of anything in old files needs a new one:
#
# 1. Keep a small file of the present protocol: tests/data/protocol<N>.budgetron, and its test.
# 2. Raise PROTOCOL in `protocols`, and describe the change there.
# 3. In `upgraded`, bring the tree of older protocols into the new form, one step per protocol.
#
# Old files can always be read. Newer ones are rejected with an error that names the version that wrote them.

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
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy

from budgetron._persistence.pipelines import is_pipeline
from budgetron._persistence.protocols import PROTOCOL, upgraded
from budgetron._persistence.reader import Reader
from budgetron._persistence.registry import is_river_adapter, name_of
from budgetron._persistence.writer import DTYPE_KINDS, Array, Tree, Writer
from budgetron._util.atomic import atomic_write
from budgetron._util.blocks import row_blocks
from budgetron._util.checks import require, require_int
from budgetron._util.interrupts import defer_interrupts

__all__ = ["ModelFileError", "from_bytes", "load", "load_extras", "load_with_extras", "save", "to_bytes"]

Path = str | os.PathLike[str]

FORMAT = "budgetron model"
HEAD = "model.json"

# What bytes without a file are called in error messages.
BYTES = "<bytes>"

# The tables of a model are small; everything large is in arrays.
LONGEST_HEAD = 1 << 24

# Arrays are read in pieces of this many bytes.
PIECE = 1 << 20

# Members have no time stamp, so that the same model gives the same bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


class ModelFileError(ValueError):
    """A file that contains no model, or not a valid one."""


def save(model: object, path: Path, *, extras: dict[str, Tree] | None = None) -> None:
    """Write a model to a file, atomically.

    The model is written to a temporary file next to `path`, which replaces `path` when everything is on disk.
    If `path` exists, the new file has the same mode and, if possible, the same owner and group; otherwise the
    umask decides. Access control lists, extended attributes and hard links of the old file are not kept. If
    `path` is a symbolic link, the file it points to is replaced. A model may contain rows that it learned; to
    protect them, set the mode of the file.

    Parameters
    ----------
    model : estimator
        Any learner of Budgetron, fitted or not; a wrapper of `batch`; a `CalibratedClassifier`; an algorithm
        of `experts`; an `ExpertClassifier` over such learners; a classifier of `budgetron.river`; or a
        `Pipeline` of scikit-learn whose last step is a learner, after scalers and encoders of scikit-learn
        (`StandardScaler`, `MinMaxScaler`, `MaxAbsScaler`, `RobustScaler`, `Normalizer`, `OneHotEncoder` and
        `OrdinalEncoder` without infrequent categories). Models
        with a Python function as kernel or loss, or over learners of other libraries, are rejected, because a
        file contains no code. Use pickle for them.
    path : str or path-like
    extras : dict, optional
        Plain values and numeric or text arrays, also in dicts and lists, to be stored with the model.
        `load_extras` returns them. Dicts and lists may be nested up to 100 levels deep, and integers may have
        up to 2048 bits.

    Raises
    ------
    TypeError
        If a part of the model or of the extras cannot be stored in a file.
    ModelFileError
        If the state of the model is invalid, so that `load` would reject it, or if everything in the model
        and the extras that is not an array takes more than 16 MB.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, os
    >>> import budgetron
    >>> model = budgetron.Forgetron(budget=2).fit([[0.0], [1.0], [2.0]], ["no", "yes", "no"])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.budgetron")
    >>> budgetron.save(model, path)
    >>> budgetron.load(path)
    Forgetron(budget=2)
    """
    head, arrays = _head_and_arrays(model, extras)
    with _as_model_file_error(path, "this model cannot be saved"):
        # Do not write what load would reject. This builds objects over the existing arrays, without copies.
        for part in ("model", "extras"):
            Reader(arrays.__getitem__).value(head[part])
    with atomic_write(path) as file:
        _write(file, head, arrays)


def to_bytes(model: object, *, extras: dict[str, Tree] | None = None) -> bytes:
    """Return a model as the bytes of a file that `save` would write.

    Parameters
    ----------
    model : estimator
    extras : dict, optional
        Both as for `save`.

    Returns
    -------
    bytes

    Raises
    ------
    TypeError
        If a part of the model or of the extras cannot be stored in a file.

    Examples
    --------
    >>> import budgetron
    >>> budgetron.files.from_bytes(budgetron.files.to_bytes(budgetron.Stoptron(budget=7)))
    Stoptron(budget=7)
    """
    head, arrays = _head_and_arrays(model, extras)
    file = io.BytesIO()
    _write(file, head, arrays)
    return file.getvalue()


def from_bytes(data: bytes) -> Any:
    """Return the model that `to_bytes` was called for, after checking the bytes as `load` checks a file.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        As for `load`.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"data must be bytes; got {type(data).__name__}")
    with _as_model_file_error(BYTES, "not a valid model"):
        (model,) = _read_parts(_BytesOfModel(data), len(data), BYTES, "model")
        return model


def _head_and_arrays(model: object, extras: dict[str, Tree] | None) -> tuple[dict[str, Tree], list[Array]]:
    """Return the contents of model.json, without checksums, and the arrays."""
    if name_of(model) is None and not is_river_adapter(model) and not is_pipeline(model):
        raise TypeError(
            f"{type(model).__name__} is not a class of Budgetron, and a file contains no code; "
            "use pickle or joblib for it"
        )
    if extras is not None and not isinstance(extras, dict):
        raise TypeError(f"extras must be a dict; got {type(extras).__name__}")
    arrays: list[Array] = []
    head = {
        "format": FORMAT,
        "protocol": PROTOCOL,
        "version": version("budgetron"),
        # Each part has its own writer, because each is read alone.
        "model": Writer(arrays).tree(model),
        "extras": None if extras is None else Writer(arrays).tree(extras, "the extras"),
    }
    return head, arrays


def load(path: Path) -> Any:
    """Read a model from a file.

    A file cannot run code, and damaged or malicious files are rejected. So files from any source can be
    loaded. `load` does not check that the model is accurate.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    estimator
        It continues exactly where the saved one was: the same rounds give the same bits.

    Raises
    ------
    ModelFileError
        If the file contains no model, is damaged, is in a newer version of the file format, or is not a
        regular file but a device or a pipe.
    """
    (model,) = _read(path, "model")
    return model


def load_extras(path: Path) -> dict[str, Tree] | None:
    """Read the extras that were saved with a model.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    dict or None
        The extras that `save` was given.

    Raises
    ------
    ModelFileError
        As for `load`.

    Examples
    --------
    >>> import tempfile, os
    >>> import budgetron
    >>> path = os.path.join(tempfile.mkdtemp(), "model.budgetron")
    >>> budgetron.save(budgetron.Stoptron(), path, extras={"columns": ["age", "height"]})
    >>> budgetron.files.load_extras(path)
    {'columns': ['age', 'height']}
    """
    extras: dict[str, Tree] | None
    (extras,) = _read(path, "extras")
    return extras


def load_with_extras(path: Path) -> tuple[Any, dict[str, Tree] | None]:
    """Read a model and its extras from the same file, even if another process replaces it at this moment."""
    model, extras = _read(path, "model", "extras")
    return model, extras


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


# ---------------------------------------------------------------------- writing


def _write(file: IO[bytes], head: dict[str, Tree], arrays: list[Array]) -> None:
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
def _as_model_file_error(path: Path, what: str) -> Iterator[None]:
    """Turn every exception into a `ModelFileError`.

    The parsers raise many kinds of exceptions on malicious bytes. All of them mean that the file is invalid.
    """
    try:
        yield
    except (ModelFileError, MemoryError):
        raise
    except Exception as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ModelFileError(f"{os.fspath(path)}: {what}: {reason[:500]}") from error


def _read(path: Path, *parts: str) -> list[Tree]:
    with _open(path) as file, _as_model_file_error(path, "not a valid model file"):
        return _read_parts(file, os.fstat(file.fileno()).st_size, path, *parts)


def _read_parts(file: IO[bytes], size: int, path: Path, *parts: str) -> list[Tree]:
    """Read parts of a file of this size; `path` is its name in error messages."""
    if not zipfile.is_zipfile(file):
        raise ModelFileError(f"{os.fspath(path)}: not a model file of budgetron.save, or cut short")
    with _archive(file, "r") as archive:
        members = _members(archive, size)
        head = _head(archive, members, path)
        head = upgraded(head, head["protocol"])
        sums = head["arrays"]
        require(isinstance(sums, list) and len(members) == len(sums) + 1, "arrays are missing or unexpected")
        require(all(_member(i) in members for i in range(len(sums))), "arrays are missing")
        fetch = _fetcher(archive, members, sums)
        return [Reader(fetch).value(head[part]) for part in parts]


def _open(path: Path) -> _ModelFile:
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


class _BytesOfModel(io.BytesIO):
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
