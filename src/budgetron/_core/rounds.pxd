from libc.math cimport isfinite

from budgetron._core.crew cimport Crew
from budgetron._core.kernel cimport Kernel, Rows, real
from budgetron._core.rows cimport Block
from budgetron._core.rule cimport Rule
from budgetron._core.supports cimport Supports


cdef class Learner:
    cdef readonly Kernel kernel
    cdef readonly Rule rule
    cdef readonly Supports supports
    # The row and the kernel values of a round that is played alone; and the latter in
    # float64, where they are not
    cdef readonly Block block
    cdef readonly object row, values, wide

    cdef make_rows(self)
    cdef set_rule(self, Kernel kernel, Rule rule)
    cdef int make_slots(self, Py_ssize_t n) except -1
    cdef bint tame(self, double square)
    cpdef bint may_fail(self)
    cdef double begin(self, x) except? -1
    cdef int end(self, double y, double importance) except -1
    cdef double open_held(self, Py_ssize_t n, bint sparse) except? -1


cdef Py_ssize_t longest_block(Crew crew) noexcept nogil
cdef Py_ssize_t block_length(Crew crew, bint narrow, Py_ssize_t top, size_t itemsize) noexcept nogil
cdef int settle(Rule rule, double y, double* k, Rows* rows, Py_ssize_t i, real* row) except -1 nogil


cdef inline bint passes(Rule rule, double y, double own) noexcept nogil:
    """Whether a round that was predicted changes nothing but the count of rounds; if so, it is over."""
    rule.y = y
    if y * rule.margin <= 0.0 or rule.wants_update() or rule.average is not None or rule.journal is not None:
        return False
    if not isfinite(rule.margin) or not isfinite(own):
        return False
    rule.added = -1
    rule.rounds += 1
    return True
