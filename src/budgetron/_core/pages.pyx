"""Large arrays in memory pages of their own, which return to the system when the array is freed.

The C library may keep memory that is freed, so that a growing model would take twice its bytes. This module is
compiled, so that no interrupt can come between moving pages and updating pointers to them.
"""

import mmap

import numpy as np

# Arrays of at least this many bytes have pages of their own.
LARGE = 1 << 14


def zeros(shape, dtype=np.float64):
    """Return an array of zeros."""
    cdef Py_ssize_t size = np.dtype(dtype).itemsize, n
    for n in (shape if isinstance(shape, tuple) else (shape,)):
        size *= n
    if size < LARGE or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(shape, dtype)
    try:
        # Private, so that a forked process has its own copy.
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:  # the number of maps per process is limited
        return np.zeros(shape, dtype)
    # np.ndarray(shape, dtype, pages) would allow resizing the map while the array uses it.
    return np.frombuffer(pages, dtype).reshape(shape) if isinstance(shape, tuple) else np.frombuffer(pages, dtype)


def lengthen(list holder, Py_ssize_t n):
    """Replace the array in `holder`, a list of one array, by one of n numbers that ends with zeros.

    If nothing else refers to the array, it grows in place where the system allows it. After an error, `holder` still
    has the old numbers. In any case they may be at another address.
    """
    array = holder[0]
    view = array.base
    if isinstance(view, memoryview) and isinstance(view.obj, mmap.mmap):
        pages = view.obj
        del array, view
        holder[0] = None
        try:
            pages.resize(8 * n)
        except (BufferError, OSError, SystemError):  # in use elsewhere, or not supported by the system
            pass
        finally:
            holder[0] = array = np.frombuffer(pages, np.float64)
        if len(array) == n:
            return
    out = zeros(n)
    out[:len(array)] = array
    holder[0] = out
