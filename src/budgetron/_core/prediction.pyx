# cython: cdivision=True
"""Prediction: kernel values of many rows, or their sums, block by block."""

import numpy as np

from budgetron._core.blocks cimport block_length, longest_block
from budgetron._core.kernel_values cimport NARROW, dot, real
from budgetron._core.rows cimport BatchRows, Block
from budgetron._core.rule cimport Rule
from budgetron._core.supports cimport Supports
from budgetron._core.workers cimport Workers


def sums(Supports supports, X, coef, int threads=1, Rule rule=None):
    """Return, for each row of X, the sum of its kernel values over the slots, weighted by `coef`.

    `coef` of shape (n_slots,) gives one number per row. With one row of coefficients per output, the result has shape
    (n, n_outputs). With a rule, add the linear part of its hypothesis.
    """
    coefficients = np.ascontiguousarray(np.atleast_2d(coef))
    out = np.zeros((X.shape[0], len(coefficients)))
    in_blocks(supports, X, coefficients, out, threads, rule)
    return out[:, 0] if np.ndim(coef) == 1 else out


def values(Supports supports, X, int threads=1):
    """Return k(x, s) for each row x of X and each support s from oldest to newest."""
    out = np.zeros((X.shape[0], supports.top))
    in_blocks(supports, X, None, out, threads, None)
    return out[:, supports.order[:supports.m]]


cdef in_blocks(Supports supports, X, const double[:, ::1] coef, double[:, ::1] out, int threads, Rule rule):
    cdef BatchRows batch = BatchRows(X, supports.square.dtype)
    if rule is not None and rule.gaussian is None:
        rule = None
    if batch.n == 0 or (supports.top == 0 and rule is None):
        return
    if supports.single:
        predict_blocks(supports, batch, coef, out, Workers(threads), rule, <float> 0)
    else:
        predict_blocks(supports, batch, coef, out, Workers(threads), rule, <double> 0)


cdef int predict_blocks(Supports supports, BatchRows batch, const double[:, ::1] coef, double[:, ::1] out, Workers workers,
                        Rule rule, real zero) except -1:
    """Fill `out` with the sums, or if `coef` is None with the values. `zero` gives the type of the rows."""
    cdef Py_ssize_t start = 0, b, i, j, c, top = supports.top, n = batch.n, longest = min(longest_block(workers), batch.n)
    dtype = supports.square.dtype
    cdef Block block = Block(supports.kernel, supports.d, dtype, longest, supports.sparse, True)
    cdef real[:, ::1] cross_block = np.empty((longest, max(top, 1)), dtype)
    cdef real* K = &cross_block[0, 0]
    cdef real* row
    with nogil:
        while start < n:
            b = min(block_length(workers, supports.d <= NARROW, top, sizeof(real)), n - start)
            batch.open(block, start, b)
            if top:
                supports.values_of(block, supports.kind_with(block), K, top, workers)
            for i in range(b):
                row = K + i * top
                if coef is not None:
                    for c in range(out.shape[1]):
                        out[start + i, c] = dot(row, <double*> &coef[c, 0], top) if top else 0.0
                        if rule is not None:
                            out[start + i, c] += rule.linear_part(c, &block.rows, i)
                else:
                    for j in range(top):
                        out[start + i, j] = row[j]
            start += b
    return 0
