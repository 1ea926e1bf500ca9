from libc.stdint cimport int32_t, int64_t

from budgetron._core.workers cimport Workers
from budgetron._core.kernel cimport Kernel
from budgetron._core.kernel_values cimport Kind, Rows
from budgetron._core.rows cimport Block


cdef class Supports:
    cdef readonly Kernel kernel
    cdef readonly Py_ssize_t m, top, capacity, d
    cdef readonly bint single, sparse
    cdef readonly object square, own, rounds, order
    # Rows feature by feature, `stride` numbers per feature
    cdef readonly object columns
    cdef Py_ssize_t stride
    # or their non-zeros; the first `used` belong, or belonged, to a support
    cdef readonly object begins, lengths, features, values
    cdef readonly Py_ssize_t used
    cdef Py_ssize_t entries
    # One row, to be compared with the others
    cdef readonly Block one
    cdef int64_t ends[2]
    cdef void* _columns
    cdef void* _square
    cdef double* _own
    cdef int64_t* _rounds
    cdef int32_t* _order
    cdef int64_t* _begins
    cdef int32_t* _lengths
    cdef int32_t* _features
    cdef void* _values

    cdef void set_pointers(self)
    cdef Py_ssize_t open(self, int64_t round_number) noexcept nogil
    cdef Py_ssize_t close(self, Py_ssize_t position) noexcept nogil
    cdef void store(self, Py_ssize_t slot, Rows* rows, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t find(self, Rows* rows, Py_ssize_t i) noexcept nogil
    cdef int copy_from(self, Py_ssize_t slot, Supports other, Py_ssize_t place) except -1
    cdef void move(self, Py_ssize_t slot, Py_ssize_t to) noexcept nogil
    cdef void cut(self, Py_ssize_t n) noexcept nogil
    cdef int load_row(self, Py_ssize_t slot) except -1 nogil
    cdef int reserve_entries(self, Py_ssize_t entries) except -1 nogil
    cdef Kind kind_with(self, Block block) noexcept nogil
    cdef int values_of(self, Block block, Kind kind, void* out, Py_ssize_t ld, Workers workers) except -1 nogil
    cdef int kernel_row(self, Py_ssize_t slot, double* out) except -1 nogil
