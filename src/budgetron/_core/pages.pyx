"""Large arrays in pages of their own, which go back to the system as soon as the arrays do.

What the C library is given back it may keep, so that a model that grows by and by would take twice its bytes.
Compiled, so that no interrupt comes in between: it would find a pointer to pages that are gone.
"""

import mmap

import numpy as np

# Bytes from which on pages of its own are worth it.
LARGE = 1 << 14


def zeros(shape, dtype=np.float64):
    """An array of zeros."""
    cdef Py_ssize_t size = np.dtype(dtype).itemsize, n
    for n in (shape if isinstance(shape, tuple) else (shape,)):
        size *= n
    if size < LARGE or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(shape, dtype)
    try:
        # Private, so that a process that is forked from this one has its own.
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:  # a process may have some ten thousand, and no more
        return np.zeros(shape, dtype)
    # Not np.ndarray(shape, dtype, pages), which would let others move the pages away under it
    return np.frombuffer(pages, dtype).reshape(shape) if isinstance(shape, tuple) else np.frombuffer(pages, dtype)


def lengthen(list held, Py_ssize_t n):
    """Make the array that a list holds n numbers long, with zeros at its end: in the same pages, if nobody else has it.

    Where that fails, the list still holds it; its numbers may be elsewhere in any case.
    """
    array = held[0]
    view = array.base
    if isinstance(view, memoryview) and isinstance(view.obj, mmap.mmap):
        pages = view.obj
        del array, view
        held[0] = None
        try:
            pages.resize(8 * n)
        except (BufferError, OSError, SystemError):  # in use elsewhere, or a system that cannot
            pass
        finally:
            held[0] = array = np.frombuffer(pages, np.float64)
        if len(array) == n:
            return
    out = zeros(n)
    out[:len(array)] = array
    held[0] = out
