from libc.stdint cimport int64_t

from budgetron._core.gaussian_round cimport GaussianBlock
from budgetron._core.kernel_values cimport Kind
from budgetron._core.projection cimport ProjectionBlock
from budgetron._core.rows cimport BatchRows, Block
from budgetron._core.rule cimport Rule
from budgetron._core.support_merging cimport MergingRule
from budgetron._core.supports cimport Supports
from budgetron._core.workers cimport Workers


cdef class Batch:
    cdef object learner
    cdef Rule rule
    cdef Supports supports
    cdef BatchRows rows
    cdef Workers workers
    # How rules with a projection, and rules with a Gaussian, look ahead; None for others
    cdef ProjectionBlock projections
    cdef GaussianBlock gaussians
    cdef MergingRule merging  # the rule, if it changes the rows of supports; None for others
    # One number per row of the batch: labels, weights, and results to fill; NULL where not given
    cdef double[::1] y_view, importances_view, margins_view
    cdef int64_t[::1] sizes_view
    cdef double[:, ::1] ledger_view
    cdef double* y
    cdef double* importances
    cdef double* margins
    cdef int64_t* sizes
    # `columns` numbers per row, with the entries of the rule that they show
    cdef double* ledger
    cdef int[::1] entries
    cdef Py_ssize_t columns
    # The block being played: its rows from `start` on, and their kernel values, `ld` numbers per row
    cdef Block block
    cdef Kind kind
    cdef bint narrow
    cdef Py_ssize_t start, longest, ld
    cdef object values_array, row_array, later_array
    cdef void* K
    cdef double* row
    cdef void* later

    cdef int play(self) except -1
    cdef Py_ssize_t next_length(self) noexcept nogil
    cdef int make_room(self, Py_ssize_t b) except -1
    cdef int open_block(self, Py_ssize_t b) except -1 nogil
    cdef int prune(self) except -1
    cdef void close(self)


cdef Py_ssize_t longest_block(Workers workers) noexcept nogil
cdef Py_ssize_t block_length(Workers workers, bint narrow, Py_ssize_t top, size_t itemsize) noexcept nogil
cdef bint shares_rows(Rule rule) noexcept
