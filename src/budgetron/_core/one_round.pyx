# cython: cdivision=True
"""One round: read the row, predict, see the label, perhaps update.

`SingleRound` plays a round on its own, in two halves. `finish_round` is the second half of every round: blocks
call it too.
"""

from libc.math cimport isfinite
from libc.stdint cimport int64_t
from libc.string cimport memcpy

cimport numpy as cnp

import numpy as np
from scipy.sparse import issparse

from budgetron._core.kernel_values cimport dot
from budgetron._core.rows cimport allocate, open_dense, open_sparse

from budgetron._core.rows import one_row, sparse_row

cdef extern from "Python.h" nogil:
    void PyMem_RawFree(void*)

cnp.import_array()


cdef class SingleRound:
    """Space for one row and its kernel values over the slots of a slab."""

    def __init__(self, Supports supports not None):
        self.supports = supports
        self.block = Block(supports.kernel, supports.d, supports.square.dtype, 1, supports.sparse)
        if not supports.sparse:
            self.block.make_room(supports.d + 1)
            self.block.make_matrix()
        self.values = allocate(supports.capacity * self.block.itemsize)
        if supports.single:
            self.wide = <double*> allocate(supports.capacity * sizeof(double))

    def __dealloc__(self):
        PyMem_RawFree(self.values)
        PyMem_RawFree(self.wide)

    @property
    def nbytes(self):
        """Bytes that the object keeps."""
        return self.block.nbytes + self.supports.capacity * (12 if self.supports.single else 8)

    cdef double open(self, x, Rule rule) except? -1:
        """Copy and check the row x, and return its margin. With several outputs, leave their values in `rule.scores`."""
        cdef Supports supports = self.supports
        cdef cnp.ndarray row
        # A copy, because the caller may change x before the round is finished.
        if not supports.sparse and is_plain(x, supports.d, cnp.NPY_FLOAT32 if supports.single else cnp.NPY_FLOAT64):
            row = x
        elif issparse(x) or supports.sparse:
            if issparse(x):
                features, values = sparse_row(x, supports.d)
            else:
                given = one_row(x, supports.d)
                features = np.flatnonzero(given)
                values = given[features]
            self.block.set_nonzeros(features, values)
            return self.predict(rule, len(values), True)
        else:
            row = np.ascontiguousarray(one_row(x, supports.d), supports.square.dtype)
        memcpy(self.block._dense, row.data, supports.d * self.block.itemsize)
        return self.predict(rule, supports.d, False)

    cdef double predict(self, Rule rule, Py_ssize_t n, bint sparse) except? -1:
        """Return the margin of the copied row, which is a row of n features or has n non-zeros."""
        cdef Block block = self.block
        if self.supports.single:
            check_finite(block, <float*> (block._values if sparse else block._dense), n, sparse)
        else:
            check_finite(block, <double*> (block._values if sparse else block._dense), n, sparse)
        if self.supports.single and sparse:
            open_sparse(block, block._starts, block._features, <float*> block._values, 1)
            rule.margin = margin_of(self, rule, <float*> self.values)
        elif self.supports.single:
            open_dense(block, <float*> block._dense, 1)
            rule.margin = margin_of(self, rule, <float*> self.values)
        elif sparse:
            open_sparse(block, block._starts, block._features, <double*> block._values, 1)
            rule.margin = margin_of(self, rule, <double*> self.values)
        else:
            open_dense(block, <double*> block._dense, 1)
            rule.margin = margin_of(self, rule, <double*> self.values)
        if not isfinite(self.square()):  # a support is stored with its squared norm
            raise ValueError("the squared norm of x is not finite; scale the features")
        return rule.margin

    cdef double square(self):
        """Return the squared norm of the row."""
        if self.block.single:
            return (<float*> self.block.rows.square)[0]
        return (<double*> self.block.rows.square)[0]

    cdef int finish(self, Rule rule, double label, double importance) except -1:
        """Play the second half of the round."""
        self.learn_label(rule, label, importance)
        if rule.prune_due:
            rule.exchange()
        return 0

    cdef int learn_label(self, Rule rule, double label, double importance) except -1:
        """Play the second half of the round; `rule.prune_due` says whether an exchange must follow."""
        cdef Rows* rows = &self.block.rows
        rule.importance = importance
        if self.supports.sparse and rule.adds_supports:
            self.supports.reserve_entries(rows.starts[1] - rows.starts[0])
        if self.supports.single:
            finish_round(rule, label, self.wide, rows, 0, <float*> self.values)
        else:
            finish_round(rule, label, <double*> self.values, rows, 0, <double*> self.values)
        return 0


cdef int finish_round(Rule rule, double label, double* k, Rows* rows, Py_ssize_t i, real* row) except -1 nogil:
    """Play the second half of the round of row i: see the label, and let the rule update.

    `row` holds its kernel values over the slots. `k` is where the rule gets them in float64. If `row` is float64 or
    NULL, they are already there.
    """
    cdef Py_ssize_t j
    cdef double own = rows.own[i]
    cdef double elapsed = 0.0
    cdef bint failed = True
    cdef bint mistake
    rule.set_label(label)
    if not isfinite(rule.margin) or not isfinite(own):
        with gil:
            raise_overflow(rule.rounds)
    rule.added = -1
    mistake = rule.y * rule.margin <= 0.0
    rule.mistakes += mistake
    if rule.average is not None:
        elapsed = rule.average.elapsed
        rule.average.add_round(rule.factor, rule.norm2, rule.supports.kernel.self_value(own))
    try:
        if rule.needs_update():
            if real is float and row != NULL:
                for j in range(rule.supports.top):
                    k[j] = row[j]
            rule.value = rule.margin - rule.offset
            rule.k, rule.rows, rule.row = k, rows, i
            rule.kxx = rule.supports.kernel.self_value(own)
            rule.update()
        failed = False
    finally:
        if failed and rule.average is not None:
            rule.average.elapsed = elapsed
    if rule.journal is not None:
        rule.journal.close(rule.rounds, rule.factor, mistake)
    rule.rounds += 1
    return 0


cdef raise_overflow(int64_t round_number):
    raise ValueError(
        f"the margin of round {round_number} is not finite: kernel values overflow; "
        "scale the features or choose smaller kernel parameters"
    )


cdef bint is_plain(x, Py_ssize_t d, int type_number):
    """Return whether x is an array of d numbers of this type that can be copied byte by byte."""
    cdef cnp.ndarray row
    if not cnp.PyArray_CheckExact(x):
        return False
    row = x
    return (row.ndim == 1 and row.shape[0] == d and cnp.PyArray_TYPE(row) == type_number
            and cnp.PyArray_ISCARRAY_RO(row))


cdef int check_finite(Block block, real* x, Py_ssize_t n, bint sparse) except -1:
    """Raise an error if the row has NaN or infinity."""
    cdef Py_ssize_t j
    for j in range(n):
        if not isfinite(x[j]):
            raise ValueError(f"x must be finite; feature {block._features[j] if sparse else j} is {x[j]}")
    return 0


cdef double margin_of(SingleRound self, Rule rule, real* values) except? -1 nogil:
    """Return the margin of the row in the block, and leave its kernel values in `values`."""
    cdef double margin
    cdef Py_ssize_t c
    self.supports.values_of(self.block, self.supports.kind_with(self.block), values, self.supports.top, None)
    margin = rule.factor * dot(values, rule._coef, self.supports.top)
    margin += rule.linear_part(0, &self.block.rows, 0)
    if rule.outputs > 1:
        rule._scores[0] = margin
        for c in range(1, rule.outputs):
            rule._scores[c] = dot(values, rule._coef + c * self.supports.capacity, self.supports.top)
            rule._scores[c] += rule.linear_part(c, &self.block.rows, 0)
            if not isfinite(rule._scores[c]):
                with gil:
                    raise_overflow(rule.rounds)
    if not isfinite(margin) or not isfinite(self.block.rows.own[0]):
        with gil:
            raise_overflow(rule.rounds)
    return margin
