from libc.stdint cimport int32_t


cdef class Covariance:
    cdef readonly Py_ssize_t d
    cdef readonly object columns, variances, direction, projections
    cdef double* _columns
    cdef double* _variances
    cdef double* _direction
    cdef double* _projections

    cdef void set_pointers(self)
    cdef double variance(self, double* x, int32_t* index, Py_ssize_t n) noexcept nogil
    cdef void narrow(self, double r) noexcept nogil
