from libc.stdint cimport int32_t, int64_t

from budgetron._core.kernel cimport Kernel
from budgetron._core.kernel_values cimport Index, Kind, Rows, real


cdef class Block:
    cdef readonly Kernel kernel
    cdef readonly bint single, wide
    cdef readonly Py_ssize_t d, room, itemsize
    # Bytes of all that the pointers below refer to
    cdef readonly Py_ssize_t nbytes
    cdef Py_ssize_t entries, indexed
    cdef bint predicts
    cdef Rows rows
    cdef Index index
    cdef void* _dense
    cdef int64_t* _starts
    cdef int32_t* _features
    cdef void* _values
    cdef int64_t* _every_start
    cdef int32_t* _every_feature
    cdef void* _spread
    cdef void* _among

    cdef int renew(self, void** place, Py_ssize_t before, Py_ssize_t bytes) except -1 nogil
    cdef int make_matrix(self) except -1 nogil
    cdef int make_room(self, Py_ssize_t entries) except -1 nogil
    cdef int ensure_spread(self) except -1 nogil


cdef void* allocate(Py_ssize_t bytes) except NULL nogil
cdef void* address(array) noexcept


cdef class BatchRows:
    cdef readonly Py_ssize_t n, d
    cdef readonly bint sparse
    cdef bint single
    cdef object arrays  # keeps the rows alive
    cdef void* values
    cdef int64_t* starts
    cdef int32_t* features

    cdef int open(self, Block block, Py_ssize_t start, Py_ssize_t n) except -1 nogil


cdef int find_nonzeros(Block block, real* X, Py_ssize_t n) except -1 nogil
cdef int open_dense(Block block, real* X, Py_ssize_t n) except -1 nogil
cdef int open_sparse(Block block, int64_t* starts, int32_t* features, real* values, Py_ssize_t n) except -1 nogil
cdef int make_dense(Block block) except -1 nogil
cdef int make_index(Block block) except -1 nogil
cdef void later_values(Block block, Kind kind, Py_ssize_t i, real* out) noexcept nogil
