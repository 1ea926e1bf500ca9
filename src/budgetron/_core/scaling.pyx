# cython: cdivision=True
"""Standardised features: each row by the mean and the standard deviation of all rows up to and including it.

So no value exceeds the square root of the number of rows, even if a feature was constant for a long time. Rows are
standardised one by one: a batch gives the same bits as its rows alone, and a row the same bits in prediction and in
learning.
"""

import numpy as np

ctypedef fused real:
    float
    double


def advance(const real[:, ::1] X, double[::1] mean, double[::1] spread, long long count, real[:, ::1] out):
    """Standardise the rows of X into `out`, in order, and return the number of rows seen.

    `mean` and `spread`, the sum of squared deviations, are of the `count` rows before, and are updated.
    """
    cdef Py_ssize_t i, j, d = X.shape[1]
    cdef double share
    with nogil:
        for i in range(X.shape[0]):
            count += 1
            share = 1.0 / count
            for j in range(d):
                out[i, j] = <real> scaled(X[i, j], &mean[j], &spread[j], share)
    return count


def apply(const real[:, ::1] X, const double[::1] mean, const double[::1] spread, long long count, real[:, ::1] out):
    """Standardise the rows of X into `out`, each as if it were the next row."""
    cdef Py_ssize_t i, j, d = X.shape[1]
    cdef double share = 1.0 / (count + 1), center, square
    with nogil:
        for i in range(X.shape[0]):
            for j in range(d):
                center, square = mean[j], spread[j]
                out[i, j] = <real> scaled(X[i, j], &center, &square, share)
