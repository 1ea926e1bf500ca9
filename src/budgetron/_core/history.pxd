from libc.stdint cimport int64_t


cdef class Average:
    cdef readonly object lag
    cdef double* _lag
    cdef readonly double elapsed, norm2, own
    # The largest number of removed supports, 0 for no limit; and the norm of what projections left out
    cdef readonly Py_ssize_t limit
    cdef public double residual

    cdef void set_pointers(self)
    cdef void add_round(self, double factor, double norm2, double own) noexcept nogil
    cdef void note_change(self, Py_ssize_t place, double delta) noexcept nogil
    cdef void note_changes(self, double c, double* delta, Py_ssize_t start, Py_ssize_t n) noexcept nogil
    cdef double remove_weight(self, Py_ssize_t place, double weight) noexcept nogil
    cdef void fold_weights(self, double* weights, Py_ssize_t n) noexcept nogil


cdef class Journal:
    cdef readonly Py_ssize_t n, size, steps
    cdef readonly object rounds, scales, ends, places, deltas, factor_rounds, factors
    cdef int64_t* _rounds
    cdef int64_t* _factor_rounds
    cdef double* _factors
    cdef double* _scales
    cdef int64_t* _ends
    cdef int64_t* _places
    cdef double* _deltas
    cdef Py_ssize_t room, room_for_moves, room_for_factors
    cdef double scale

    cdef void set_pointers(self)
    cdef int note(self, int64_t place, double delta) except -1 nogil
    cdef int close(self, int64_t round_number, double factor, bint mistake) except -1 nogil
    cdef Py_ssize_t closed(self) noexcept nogil
    cdef void rescale(self, double by) noexcept nogil
    cdef void clear(self) noexcept nogil
