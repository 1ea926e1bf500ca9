from budgetron._core.kernel cimport Kernel
from budgetron._core.one_round cimport SingleRound
from budgetron._core.rule cimport Rule
from budgetron._core.supports cimport Supports


cdef class Learner:
    cdef readonly Kernel kernel
    cdef readonly Rule rule
    cdef readonly Supports supports
    cdef readonly SingleRound single_round

    cdef set_rule(self, Kernel kernel, Rule rule)
    cdef bint is_bounded(self, double square)
    cpdef bint may_fail(self)
    cdef double begin(self, x) except? -1
    cdef int end(self, double y, double importance) except -1
