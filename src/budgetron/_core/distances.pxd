from libc.stdint cimport int32_t

from budgetron._core.rows cimport Block, BatchRows
from budgetron._core.supports cimport Supports


cdef class Distances:
    cdef readonly Supports supports
    cdef readonly object table, places, compared
    cdef Block block
    cdef BatchRows batch  # keeps the rows alive that the block refers to
    cdef bint by_differences
    cdef Py_ssize_t kept, ld
    cdef void* _table
    cdef int32_t* _places
    cdef char* _compared

    cdef void values_of(self, Py_ssize_t start, Py_ssize_t n, Py_ssize_t top, void* out, Py_ssize_t ld) noexcept nogil
    cdef void store(self, Py_ssize_t slot, Py_ssize_t row, Py_ssize_t n, void* out) noexcept nogil
