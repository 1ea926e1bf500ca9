"""Models in files: no pickle, no code, exact, and safe to load from anywhere.

`save` keeps everything that a model knows, so that one which is loaded goes on exactly as
the one that was saved would have; `load` believes nothing that it reads.
"""

# The format
# ----------
# A file is a zip archive without compression, of
#
#     model.json       see below
#     arrays/0.npy     one member an array, as numpy.lib.format writes it, little-endian, in C order
#     arrays/1.npy     ...
#
# and nothing else. model.json is
#
#     {"format": "budgetron model", "protocol": 4, "version": <of the library that wrote it>,
#      "arrays": [<sha256 of arrays/0.npy>, ...], "model": <tree>, "extras": <tree or null>}
#
# where trees are told in `_file_tree` and the state of the compiled learners in
# `_file_states`. The same model always gives the same bytes.
#
# Nothing is compressed, so that no file can ask for much more memory than it takes on disk;
# every length is compared with the bytes that are there before it is used.
#
# A new learner that is in its register, `kernelized` or `linear`, needs nothing here: its rule is
# made by its own parameters, and its state is told by the core. What keeps more than the parts
# in `_file_states.PARTS`, or other attributes than those in `_file_tree.FITTED`, is told there.
#
# Raising the protocol
# --------------------
# A change that adds a class needs no new protocol: what does not know it says so. One that gives
# what old files hold another name, shape or meaning does:
#
# 1. Keep a small file of the present protocol: tests/data/protocol<N>.budgetron, and its test.
# 2. Raise PROTOCOL, and say here what changed.
# 3. In `_read`, before the tree is built, bring the JSON of older protocols into the new form, one
#    function a step (N to N + 1), so that all below knows the newest form only.
#
# What changed: in 2, slabs may keep the non-zeros of their rows alone, kernel learners have `n_jobs`, and the
# Gram matrix is gone where none is needed; in 3, learners with a C have
# `class_weight`, and there are models of river's face; in 4, the kernel PassiveAggressive may have a budget.
#
# Old files are read for ever. Newer ones are refused with the version that wrote them.

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from math import prod
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.weighted_classifier import WeightedClassifier
from budgetron._persistence.tree import CLASSES, KINDS, Reader, Writer, is_river
from budgetron._util.atomic import atomic_write
from budgetron._util.checks import require, require_int
from budgetron.kernelized import PassiveAggressive

__all__ = ["ModelFileError", "load", "load_extras", "save"]

Path = str | os.PathLike[str]

PROTOCOL = 4
FORMAT = "budgetron model"
HEAD = "model.json"

# The tables of a model are small; what is large stands in arrays.
LONGEST_HEAD = 1 << 24

# Members carry no time, so that the same model gives the same bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


class ModelFileError(ValueError):
    """A file that holds no model, or not a sound one."""


def save(model: Any, path: Path, *, extras: dict[str, Any] | None = None) -> None:
    """Write a model to a file.

    The file is complete or not there: it is written beside `path` under another name, and
    takes its place, and that of an older file, when all is on disk.

    Parameters
    ----------
    model : estimator
        Any learner of Budgetron's, fitted or not, a converter of `batch`, a `CalibratedClassifier`, an
        algorithm of `experts`, an `ExpertClassifier` over such, or a classifier of `budgetron.river`. Not one
        with a Python function as kernel or loss, nor over learners of other libraries: a file holds no code.
        Pickle these.
    path : str or path-like
    extras : dict, optional
        Plain values and numeric or text arrays, also in dicts and lists, to be kept beside the model;
        `load_extras` gives them back.

    Raises
    ------
    TypeError
        If a part of the model or the extras cannot be kept in a file.

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
    if type(model) not in CLASSES.values() and not is_river(model):
        raise TypeError(
            f"{type(model).__name__} is not a class of Budgetron's own, and a file holds no code; "
            "use pickle or joblib for it"
        )
    if extras is not None and not isinstance(extras, dict):
        raise TypeError(f"extras must be a dict; got {type(extras).__name__}")
    writer = Writer()
    head = {
        "format": FORMAT,
        "protocol": PROTOCOL,
        "version": version("budgetron"),
        "model": writer.tree(model),
        "extras": None if extras is None else writer.tree(extras, "the extras"),
    }
    with _as_model_file_error(path, "this model cannot be saved"):
        # What load would refuse is not written. This makes objects over the arrays at hand, and no copies.
        Reader(writer.arrays.__getitem__).value([head["model"], head["extras"]])
    with atomic_write(path) as file:
        _write(file, head, writer.arrays)


def load(path: Path) -> Any:
    """Read a model from a file.

    A file cannot run code, and one that is damaged or made with malice is refused, so that
    files of strangers may be loaded; whether their model is any good is another matter.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    estimator
        It goes on exactly where the saved one was: the same rounds give the same bits.

    Raises
    ------
    ModelFileError
        If the file holds no model, is damaged, or was written by a newer version than can be read.
    """
    return _read(path, "model")


def load_extras(path: Path) -> dict[str, Any] | None:
    """Read what was saved beside a model.

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
        If the file is damaged, or was written by a newer version than can be read.

    Examples
    --------
    >>> import tempfile, os
    >>> import budgetron
    >>> path = os.path.join(tempfile.mkdtemp(), "model.budgetron")
    >>> budgetron.save(budgetron.Stoptron(), path, extras={"columns": ["age", "height"]})
    >>> budgetron.files.load_extras(path)
    {'columns': ['age', 'height']}
    """
    extras: dict[str, Any] | None = _read(path, "extras")
    return extras


# ---------------------------------------------------------------------- writing


def _write(file: IO[bytes], head: dict[str, Any], arrays: list[NDArray[Any]]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        sums = []
        for i, values in enumerate(arrays):
            member = zipfile.ZipInfo(_member(i), EPOCH)
            with archive.open(member, "w", force_zip64=values.nbytes > 1 << 30) as stream:
                summed = _Summed(stream)
                npy.write_array(summed, values, version=(1, 0), allow_pickle=False)
            sums.append(summed.digest.hexdigest())
        text = json.dumps(head | {"arrays": sums}, allow_nan=False, separators=(",", ":")).encode()
        if len(text) > LONGEST_HEAD:
            raise ValueError(f"the model's tables take {len(text)} bytes; a file holds up to {LONGEST_HEAD}")
        archive.writestr(zipfile.ZipInfo(HEAD, EPOCH), text)


class _Summed:
    """A stream that keeps the sha256 of what is written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.digest = stream, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._stream.write(data)


def _member(i: int) -> str:
    return f"arrays/{i}.npy"


# ---------------------------------------------------------------------- reading


@contextmanager
def _as_model_file_error(path: Path, what: str) -> Iterator[None]:
    """Say whatever went wrong as an error of the file.

    The parsers below raise many kinds of exceptions over hostile bytes; at this boundary all
    mean the same.
    """
    try:
        yield
    except (ModelFileError, MemoryError):
        raise
    except Exception as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ModelFileError(f"{os.fspath(path)}: {what}: {reason[:500]}") from error


def _read(path: Path, part: str) -> Any:
    with open(path, "rb") as file, _as_model_file_error(path, "not a sound model file"):
        size = os.fstat(file.fileno()).st_size
        if not zipfile.is_zipfile(file):
            raise ModelFileError(f"{os.fspath(path)}: not a model file of budgetron.save, or cut short")
        with zipfile.ZipFile(file) as archive:
            members = _members(archive, size)
            head = _head(archive, members, path)
            for step in (_from_protocol_1, _from_protocol_2, _from_protocol_3)[head["protocol"] - 1 :]:
                head = step(head)
            sums = head["arrays"]
            require(
                isinstance(sums, list) and len(members) == len(sums) + 1, "arrays are missing or too many"
            )
            require(all(_member(i) in members for i in range(len(sums))), "arrays are missing")
            return Reader(_fetcher(archive, members, sums)).value(head[part])


def _with_parameter(node: Any, cls: type[Any], name: str) -> Any:
    """The same tree, where models of this class have one parameter more, which is None."""
    if isinstance(node, list):
        return [_with_parameter(item, cls, name) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: _with_parameter(item, cls, name) for key, item in node.items()}
    if node.get("#") == "model" and issubclass(CLASSES.get(str(node.get("class")), object), cls):
        learned = node.get("learned")
        started = learned.get("_started_with") if isinstance(learned, dict) else None
        for parameters in (node.get("parameters"), started):
            if isinstance(parameters, dict):
                parameters.setdefault(name, None)
    return node


def _from_protocol_1(head: Any) -> Any:
    return _with_parameter(head, KernelClassifier, "n_jobs")


def _from_protocol_2(head: Any) -> Any:
    return _with_parameter(head, WeightedClassifier, "class_weight")


def _from_protocol_3(head: Any) -> Any:
    return _with_parameter(head, PassiveAggressive, "budget")


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        require(info.filename not in members, f"{info.filename[:60]!r} stands in it twice")
        require(
            info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size,
            "members should not be compressed",
        )
        members[info.filename] = info
    # Members that overlap could otherwise make much of little.
    require(sum(info.file_size for info in members.values()) <= size, "members are larger than the file")
    return members


def _head(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], path: Path) -> dict[str, Any]:
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
    require(
        isinstance(head["model"], dict) and head["model"].get("#") in ("model", "river"),
        f"{HEAD} should have a model",
    )
    require(head["extras"] is None or isinstance(head["extras"], dict), "extras should be a table of names")
    return head


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _fetcher(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], sums: list[Any]
) -> Callable[[int], NDArray[Any]]:
    def fetch(i: int) -> NDArray[Any]:
        require(i < len(sums), f"there is no array {i}")
        data = archive.read(members[_member(i)])  # its CRC is checked there
        require(hashlib.sha256(data).hexdigest() == sums[i], f"array {i} is not the one that was saved")
        return _parse(data, i)

    return fetch


# Python 3.11 counts the depth of texts that it parses for all threads together, and may fail over two.
_one_header = threading.Lock()


def _parse(data: bytes, i: int) -> NDArray[Any]:
    """The array of a member; nothing is allocated before its header fits the bytes that follow."""
    stream = io.BytesIO(data)
    require(npy.read_magic(stream) == (1, 0), f"array {i} is not in version 1.0")
    try:
        with _one_header:
            shape, fortran, dtype = npy.read_array_header_1_0(stream)
    except MemoryError:  # Python's parser says so of too many brackets
        raise ValueError(f"array {i} has no sound header") from None
    require(dtype.kind in KINDS and dtype.itemsize > 0 and dtype.names is None, f"array {i} is of {dtype}")
    require(not fortran and len(shape) <= 2 and all(n >= 0 for n in shape), f"array {i} has shape {shape}")
    left = len(data) - stream.tell()
    require(prod(shape) * dtype.itemsize == left, f"array {i} of shape {shape} does not fit in {left} bytes")
    values = np.frombuffer(data, dtype, offset=stream.tell()).reshape(shape)
    return values.astype(dtype.newbyteorder("="), order="C", copy=True)
