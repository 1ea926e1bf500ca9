from budgetron._core.rule cimport Rule


cdef class SpanRule(Rule):
    # The inverse of the Gram matrix over the slots, 0 at free slots; empty if it is not kept
    cdef readonly object inverse
    # A change of the coefficients, for `move`
    cdef readonly object direction
    cdef double* _inverse
    cdef double* _direction
    cdef bint keeps_inverse, full_rank

    cdef void clear_direction(self) noexcept nogil
    cdef double direction_norm(self) except? -1 nogil
    cdef double project_row(self) noexcept nogil
    cdef bint is_near_span(self, double square) noexcept nogil
    cdef int store_row(self, double c) except? -1 nogil
    cdef double distance2(self, Py_ssize_t position) noexcept nogil
    cdef double project_and_remove(self, Py_ssize_t position) except? -1 nogil
    cdef void remove_from_inverse(self, Py_ssize_t slot) noexcept nogil
    cdef int set_inverse(self) except -1 with gil
    cdef double keep_largest(self, Py_ssize_t count) except? -1 with gil
