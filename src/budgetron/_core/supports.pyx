# cython: cdivision=True
"""The slab: a fixed number of slots, each holding one stored row.

A slot keeps its place as long as its support lives, so that a column of kernel
values means the same support from round to round. Age is kept apart: `order` is a
permutation of all slots whose first m entries are the supports from oldest to
newest and whose other entries are free. The slab knows rows and the kernel
between them; labels and coefficients are not its business.
"""

from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

import numpy as np

from budgetron._core.kernel cimport Kind, cross, finish, kind_for, real


def writeable(array):
    """The array, or a copy if it was loaded as a read-only map of a file: the core writes through pointers."""
    return np.require(array, requirements=("C", "W"))


cdef class Supports:
    """Slots for rows of `d` features in `dtype`, at first `capacity` of them."""

    def __init__(self, Kernel kernel, Py_ssize_t d, dtype, Py_ssize_t capacity):
        self.kernel, self.d, self.capacity = kernel, d, capacity
        self.single = np.dtype(dtype) == np.float32
        self.itemsize = np.dtype(dtype).itemsize
        self.rows = np.zeros((capacity, d), dtype)
        self.square = np.zeros(capacity, dtype)
        self.own = np.zeros(capacity)
        self.rounds = np.zeros(capacity, np.int64)
        self.order = np.arange(capacity, dtype=np.int32)
        self.m = self.top = 0
        self.point()

    cdef void point(self):
        cdef size_t rows = self.rows.ctypes.data, square = self.square.ctypes.data
        cdef size_t own = self.own.ctypes.data
        cdef size_t rounds = self.rounds.ctypes.data, order = self.order.ctypes.data
        self._rows, self._square, self._own = <void*> rows, <void*> square, <double*> own
        self._rounds, self._order = <int64_t*> rounds, <int32_t*> order

    def arrays(self):
        """Everything that takes memory."""
        return {"rows": self.rows, "square": self.square, "own": self.own,
                "rounds": self.rounds, "order": self.order}

    def __getstate__(self):
        return self.arrays() | {"m": self.m, "top": self.top}

    def __setstate__(self, state):
        self.rows, self.square, self.own = map(writeable, (state["rows"], state["square"], state["own"]))
        self.rounds, self.order = map(writeable, (state["rounds"], state["order"]))
        self.m, self.top, self.capacity = state["m"], state["top"], len(state["order"])
        self.point()

    def __reduce__(self):
        return Supports, (self.kernel, self.d, self.rows.dtype, 0), self.__getstate__()

    def reserve(self, Py_ssize_t capacity):
        """Make room for `capacity` slots; those in use keep their place."""
        cdef Py_ssize_t old = self.capacity
        if capacity <= old:
            return
        state = self.__getstate__()
        for name, array in self.arrays().items():
            state[name] = np.zeros((capacity, *array.shape[1:]), array.dtype)
            state[name][:old] = array
        state["order"][old:] = np.arange(old, capacity)
        self.__setstate__(state)

    cdef Py_ssize_t open(self, int64_t round_number) noexcept nogil:
        """Take a free slot for the newest support."""
        cdef Py_ssize_t slot = self._order[self.m]
        self._rounds[slot] = round_number
        self.m += 1
        if slot >= self.top:
            self.top = slot + 1
        return slot

    cdef Py_ssize_t close(self, Py_ssize_t position) noexcept nogil:
        """Free the slot of the support at this position, 0 being the oldest."""
        cdef Py_ssize_t slot = self._order[position]
        self.m -= 1
        memmove(self._order + position, self._order + position + 1, (self.m - position) * sizeof(int32_t))
        self._order[self.m] = <int32_t> slot
        return slot

    cdef void store(self, Py_ssize_t slot, void* row, double square, double own) noexcept nogil:
        memcpy(<char*> self._rows + slot * self.d * self.itemsize, row, self.d * self.itemsize)
        if self.single:
            (<float*> self._square)[slot] = <float> square
        else:
            (<double*> self._square)[slot] = square
        self._own[slot] = own

    cdef void copy_from(self, Py_ssize_t slot, Supports other, Py_ssize_t place) noexcept nogil:
        """Store what another slab holds at this place."""
        cdef double square
        if self.single:
            square = (<float*> other._square)[place]
        else:
            square = (<double*> other._square)[place]
        self.store(slot, <char*> other._rows + place * self.d * self.itemsize, square, other._own[place])

    cdef int kernel_row(self, Py_ssize_t slot, double* out) except -1 nogil:
        """Kernel values of one support against all slots up to `top`."""
        cdef Py_ssize_t j
        cdef float* single
        if not self.single:
            return row_of(self, <double*> self._rows, <double*> self._square, slot, out)
        single = <float*> malloc(self.top * sizeof(float))
        if single == NULL:
            with gil:
                raise MemoryError
        try:
            row_of(self, <float*> self._rows, <float*> self._square, slot, single)
            for j in range(self.top):
                out[j] = single[j]
        finally:
            free(single)
        return 0


cdef int row_of(Supports self, real* rows, real* square, Py_ssize_t slot, real* out) except -1 nogil:
    cdef Kind kind = kind_for(self.kernel, square, self.top, square, self.top)
    cross(self.kernel, kind, rows + slot * self.d, 1, rows, self.top, self.d, out, self.top)
    finish(self.kernel, kind, out, square[slot], self._own[slot], square, self._own, self.top)
    return 0
