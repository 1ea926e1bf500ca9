from libc.stdint cimport int32_t, int64_t

from budgetron._core.covariance cimport Covariance
from budgetron._core.history cimport Average, Journal
from budgetron._core.kernel_values cimport real
from budgetron._core.rule cimport ENTRIES, Entry


cdef class LinearRule:
    # How it was made, and what it may keep
    cdef readonly tuple args, ledger
    cdef readonly dict options
    cdef readonly Py_ssize_t d, outputs
    cdef readonly Py_ssize_t constant  # 1 if the first weight is an intercept, otherwise 0
    cdef readonly bint single
    cdef double reach
    cdef readonly Average average
    cdef readonly Journal journal
    cdef readonly Covariance covariance

    # The hypothesis: factor * weights, one row per output if there are several, and what is known about it
    cdef readonly object weights
    cdef readonly dict extra
    cdef double* _weights
    cdef readonly double factor, norm2, peak
    cdef readonly int64_t rounds, mistakes, updates

    # The round being played: n features with their values, at places of their own if sparse
    cdef readonly object row, places, shifted, wide
    cdef int32_t* _shifted
    cdef Py_ssize_t n
    cdef int32_t* index
    cdef double* x
    cdef double y, margin, value, square
    # With several outputs: w . x of each, and the output of the row's class; y is 1
    cdef readonly object scores
    cdef double* _scores
    cdef Py_ssize_t target
    cdef double importance  # the weight of the row: 1 by default
    cdef double offset  # the part of the margin that is not w . x; 0 by default
    cdef bint updated
    cdef double entry[<int> ENTRIES]

    cdef void set_pointers(self)
    cdef double* buffer(self) noexcept

    # Defined by the learner
    cdef bint needs_update(self) noexcept nogil
    cdef int update(self) except? -1 nogil

    # Available to the learner
    cdef Py_ssize_t place(self, Py_ssize_t k) noexcept nogil
    cdef double norm(self) noexcept nogil
    cdef int add(self, double c) except? -1 nogil
    cdef int add_vectors(self, double* steps, double* direction) except? -1 nogil
    cdef int shrink(self, double phi) except? -1 nogil
    cdef int set_weight(self, Py_ssize_t place, double weight) except? -1 nogil
    cdef int clear(self) except? -1 nogil
    cdef int check(self, double step, double after) except -1 nogil
    cdef void moved(self, double norm2) noexcept nogil
    cdef Py_ssize_t journal_place(self, Py_ssize_t place) noexcept nogil
    cdef void note(self, Entry name, double value) noexcept nogil


cdef bint score_row(LinearRule rule, real* x) noexcept nogil
cdef void set_label(LinearRule rule, double y) noexcept nogil
cdef int finish_round(LinearRule rule, real* x, double* wide) except -1 nogil
