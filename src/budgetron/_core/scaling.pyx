# cython: cdivision=True
"""Features on one scale: each row by the mean and deviation of all rows before it.

Row by row, so that a batch gives the same bits as its rows alone, and a row the same when it is predicted as when it is
learned.
"""

from libc.math cimport sqrt

import numpy as np

ctypedef fused real:
    float
    double


def advance(const real[:, ::1] X, double[::1] mean, double[::1] spread, long long count, real[:, ::1] out):
    """Standardise the rows of X into `out`, each by those before it; the number of rows seen.

    `mean` and `spread`, the sum of squared deviations, are of the `count` rows before, and are brought up to date.
    """
    cdef Py_ssize_t i, j, d = X.shape[1]
    cdef double x, delta, share, known
    with nogil:
        for i in range(X.shape[0]):
            known = 1.0 / count if count else 0.0
            count += 1
            share = 1.0 / count
            for j in range(d):
                x = X[i, j]
                delta = x - mean[j]
                out[i, j] = <real> scaled(delta, spread[j] * known)
                mean[j] += delta * share
                spread[j] += delta * (x - mean[j])
    return count


def apply(const real[:, ::1] X, const double[::1] mean, const double[::1] spread, long long count, real[:, ::1] out):
    """Standardise the rows of X into `out`, by what was seen."""
    cdef Py_ssize_t i, j, d = X.shape[1]
    cdef double share = 1.0 / count if count else 0.0
    with nogil:
        for i in range(X.shape[0]):
            for j in range(d):
                out[i, j] = <real> scaled(X[i, j] - mean[j], spread[j] * share)


cdef inline double scaled(double x, double variance) noexcept nogil:
    # A feature that has hardly moved says nothing by moving
    return x / sqrt(variance) if variance > 1e-18 else 0.0
