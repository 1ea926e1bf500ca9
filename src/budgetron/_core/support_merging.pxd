from budgetron._core.rows cimport Block
from budgetron._core.span cimport SpanRule
from budgetron._core.supports cimport Supports


cdef class MergingRule(SpanRule):
    cdef readonly bint merges
    # The slot whose row the last update changed, or -1, and a slab with this row alone
    cdef Py_ssize_t changed
    cdef Supports blended
    cdef Block mixture
    # What `find_partner` found: h, the coefficient, and the norm of the change
    cdef double share, coefficient, distance
    cdef object tables
    cdef const double* shares
    cdef const double* losses

    cdef Py_ssize_t find_partner(self, Py_ssize_t position) except? -1 nogil
    cdef int merge(self, Py_ssize_t position, Py_ssize_t partner) except? -1 nogil
    cdef int blend(self, Py_ssize_t slot, Py_ssize_t other) except -1 nogil
    cdef int compare(self, Block block, Py_ssize_t i, void* out, Py_ssize_t ld) except -1 nogil
