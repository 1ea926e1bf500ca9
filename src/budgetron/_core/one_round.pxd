from libc.math cimport isfinite

from budgetron._core.kernel_values cimport Rows, real
from budgetron._core.rows cimport Block
from budgetron._core.rule cimport Rule
from budgetron._core.supports cimport Supports


cdef class SingleRound:
    cdef readonly Block block
    cdef readonly Supports supports
    # The kernel values of the row over the slots, and these in float64 if they are float32
    cdef void* values
    cdef double* wide

    cdef double open(self, x, Rule rule) except? -1
    cdef double predict(self, Rule rule, Py_ssize_t n, bint sparse) except? -1
    cdef double square(self)
    cdef int finish(self, Rule rule, double label, double importance) except -1
    cdef int learn_label(self, Rule rule, double label, double importance) except -1


cdef double margin_of(SingleRound self, Rule rule, real* values) except? -1 nogil
cdef int finish_round(Rule rule, double label, double* k, Rows* rows, Py_ssize_t i, real* row) except -1 nogil

cdef bint is_plain(x, Py_ssize_t d, int type_number)


cdef inline bint skip_round(Rule rule, double label, double own) noexcept nogil:
    """If the round cannot change the hypothesis, count it and return True; otherwise return False.

    The margin, or the scores of all outputs, are known. `own` is the raw k(x, x).
    """
    rule.set_label(label)
    if rule.y * rule.margin <= 0.0 or rule.needs_update() or rule.average is not None or rule.journal is not None:
        return False
    if not isfinite(rule.margin) or not isfinite(own):
        return False
    rule.added = -1
    rule.rounds += 1
    return True
