from libc.stdint cimport int32_t


cdef class Covariance:
    cdef readonly Py_ssize_t d
    cdef readonly double prior
    cdef readonly object direction
    cdef double* _direction

    cdef void set_pointers(self)
    cdef double variance(self, double* x, int32_t* index, Py_ssize_t n) noexcept nogil
    cdef void narrow(self, double r) noexcept nogil
    cdef void forget(self, double keep) noexcept nogil


cdef class FactoredCovariance(Covariance):
    cdef readonly object columns, variances, projections
    cdef double* _columns
    cdef double* _variances
    cdef double* _projections


cdef class ForgettingCovariance(Covariance):
    cdef readonly object reductions
    cdef readonly double factor
    cdef double* _reductions
    cdef double last  # the last variance

    cdef double* row(self, Py_ssize_t i) noexcept nogil
