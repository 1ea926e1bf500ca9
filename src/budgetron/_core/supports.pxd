from libc.stdint cimport int32_t, int64_t

from budgetron._core.kernel cimport Kernel


cdef class Supports:
    cdef readonly Kernel kernel
    cdef readonly object rows, square, own, rounds, order
    cdef readonly Py_ssize_t m, top, capacity, d
    cdef readonly bint single
    cdef size_t itemsize
    cdef void* _rows
    cdef void* _square
    cdef double* _own
    cdef int64_t* _rounds
    cdef int32_t* _order

    cdef void point(self)
    cdef Py_ssize_t open(self, int64_t round_number) noexcept nogil
    cdef Py_ssize_t close(self, Py_ssize_t position) noexcept nogil
    cdef void store(self, Py_ssize_t slot, void* row, double square, double own) noexcept nogil
    cdef void copy_from(self, Py_ssize_t slot, Supports other, Py_ssize_t place) noexcept nogil
    cdef int kernel_row(self, Py_ssize_t slot, double* out) except -1 nogil
