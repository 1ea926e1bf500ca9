cdef class Projection:
    cdef readonly object factor, z
    cdef readonly Py_ssize_t n
    cdef double* _factor
    cdef double* _z

    cdef void point(self)
    cdef double project(self, double* k) noexcept nogil
    cdef double* coefficients(self) noexcept nogil
    cdef void append(self, double delta2) noexcept nogil
