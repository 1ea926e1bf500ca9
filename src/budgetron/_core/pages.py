"""Large arrays in pages of their own, which go back to the system as soon as the arrays do.

What the C library is given back it may keep, so that a model that grows by and by would take twice its bytes.
"""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray

__all__ = ["zeros"]

# Bytes from which on pages of its own are worth it.
LARGE = 1 << 16


def zeros(n: int) -> NDArray[np.float64]:
    """So many zeros, in float64."""
    if 8 * n < LARGE or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(n)
    # Private, so that a process that is forked from this one has its own.
    pages = mmap.mmap(-1, 8 * n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, np.float64, n)
