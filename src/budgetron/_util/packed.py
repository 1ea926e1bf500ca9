"""Values and arrays as bytes that are checked when they are read: no pickle, no code.

The bytes are: eight that name the kind of contents; the sha256 of the rest; the length of a head; the head,
which is JSON; and the arrays, one after the other, little-endian, in C order. The head has the version of the
layout, the table of values, and the name, type and shape of each array.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron._util.checks import require, require_int, require_names

__all__ = ["pack", "unpack"]

# Types of arrays that may be packed.
TYPES = ("<f4", "<f8", "<i4", "<i8", "|u1")
# The head is small; everything large is in arrays.
LONGEST_HEAD = 1 << 24
KIND, DIGEST, LENGTH = 8, 32, 8
START = KIND + DIGEST + LENGTH


def pack(kind: bytes, version: int, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of a table of JSON values and a table of arrays."""
    little = {name: np.asarray(array, array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    entries = [[name, array.dtype.str, list(array.shape)] for name, array in little.items()]
    head = {"version": version, "values": dict(values), "arrays": entries}
    text = json.dumps(head, allow_nan=False, separators=(",", ":")).encode()
    parts = [len(text).to_bytes(LENGTH, "little"), text, *(array.tobytes() for array in little.values())]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([kind, digest.digest(), *parts])


def unpack(
    kind: bytes, newest: int, what: str, data: bytes
) -> tuple[int, dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the version, the values and the arrays of packed bytes, after checking them.

    `what` names the contents in messages. Every problem raises `ValueError`. The arrays are copies.
    """
    require(isinstance(data, bytes | bytearray | memoryview), f"{what} should be read from bytes")
    view = memoryview(data).cast("B")
    require(len(view) >= START and bytes(view[:KIND]) == kind, f"these bytes are not {what}")
    digest = hashlib.sha256(view[KIND + DIGEST :]).digest()
    require(digest == bytes(view[KIND : KIND + DIGEST]), f"the bytes of {what} are damaged")
    length = int.from_bytes(view[KIND + DIGEST : START], "little")
    require(length <= min(LONGEST_HEAD, len(view) - START), f"the head of {what} is too long")
    try:
        head = json.loads(bytes(view[START : START + length]))
    except (ValueError, RecursionError):
        raise ValueError(f"the head of {what} is not valid JSON") from None
    head = require_names(head, {"version", "values", "arrays"}, f"the head of {what}")
    version = require_int(head["version"], 1, 2**31, f"the version of {what}")
    if version > newest:
        raise ValueError(
            f"{what} was written by a newer budgetron, in version {version}; this one reads up to {newest}: "
            "update it"
        )
    require(isinstance(head["values"], dict), f"the values of {what} should be a table of names")
    return version, head["values"], _arrays(head["arrays"], view[START + length :], what)


def _arrays(entries: Any, rest: memoryview, what: str) -> dict[str, NDArray[Any]]:
    require(isinstance(entries, list), f"the arrays of {what} should be a list")
    arrays: dict[str, NDArray[Any]] = {}
    place = 0
    for entry in entries:
        require(isinstance(entry, list) and len(entry) == 3, f"an array of {what} is not described")
        name, dtype, shape = entry
        require(isinstance(name, str) and name not in arrays, f"an array of {what} has no name of its own")
        require(dtype in TYPES, f"an array of {what} has an unknown type")
        require(
            isinstance(shape, list)
            and len(shape) <= 2
            and all(type(n) is int and 0 <= n <= len(rest) for n in shape),
            f"an array of {what} has an invalid shape",
        )
        size = prod(shape) * np.dtype(dtype).itemsize
        require(place + size <= len(rest), f"an array of {what} is cut short")
        array = np.frombuffer(rest[place : place + size], dtype).reshape(shape)
        arrays[name] = array.astype(array.dtype.newbyteorder("="), order="C")
        place += size
    require(place == len(rest), f"{what} has more bytes than its arrays")
    return arrays
