"""Large arrays in pages of their own, which go back to the system as soon as the arrays do.

What the C library is given back it may keep, so that a model that grows by and by would take twice its bytes.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["longer", "zeros"]

# Bytes from which on pages of its own are worth it.
LARGE = 1 << 16


def zeros(shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """An array of zeros."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size < LARGE or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(shape, dtype)
    try:
        # Private, so that a process that is forked from this one has its own.
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:  # a process may have some ten thousand, and no more
        return np.zeros(shape, dtype)
    # Not np.ndarray(shape, dtype, pages), which would let others move the pages away under it
    array = np.frombuffer(pages, dtype)
    return array if isinstance(shape, int) else array.reshape(shape)


def longer(held: list[NDArray[np.float64]], n: int) -> NDArray[np.float64]:
    """The array that a list holds, with zeros at its end: in the same pages, if nobody else has it.

    It is taken out of the list: where its pages move, nothing may still look at them.
    """
    array = held.pop()
    view, size = array.base, len(array)
    if isinstance(view, memoryview) and isinstance(view.obj, mmap.mmap):
        pages = view.obj
        del array, view
        try:
            pages.resize(8 * n)
        except (BufferError, OSError, SystemError):  # in use elsewhere, or a system that cannot
            array = np.frombuffer(pages, np.float64)
        else:
            return np.frombuffer(pages, np.float64)
    out = zeros(n)
    out[:size] = array
    return out
