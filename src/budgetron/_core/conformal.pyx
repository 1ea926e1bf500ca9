# cython: cdivision=True
"""Adaptive conformal inference: thresholds for scores whose share of misses is a given one on any stream.

In each round the threshold q is a quantile of the last W scores, at the level 1 - m. A score above q is a miss. After a
miss m falls, otherwise it rises: m = a + step (a t - misses) after t rounds, where a is the share of misses that is
aimed at. This is m += step (a - miss), written without a sum of rounding errors. If m <= 0, q is infinite and no
score is a miss; if m >= 1, q is minus infinity and every score is a miss. So m stays within a step of [0, 1].

Each function plays rounds on arrays, as a loop over single rounds would:

ring, ordered : ndarray of shape (W,), the last scores, by round and sorted
counts : ndarray of shape (2,), the rounds so far and the misses among them
"""

from libc.math cimport INFINITY, NAN, ceil, fabs
from libc.stdint cimport int64_t

from budgetron._core.score_window cimport insert_score

import numpy as np

# Larger scores are stored as this number.
cdef double MOST = 1e300


def limits(const double[::1] own, const double[::1] sizes, double tie, double aim, double step, double[::1] ring,
           double[::1] ordered, int64_t[::1] counts):
    """Return the largest score that is no miss, of each round; `own` are the scores of the labels.

    Numbers of the size `sizes`, and q, are known up to the share `tie` of them, which is added to q.
    """
    cdef double[::1] out = np.empty(own.shape[0])
    cdef Py_ssize_t t
    check(ring, ordered, counts)
    if sizes.shape[0] != own.shape[0]:
        raise ValueError("each score must have a size")
    with nogil:
        for t in range(own.shape[0]):
            out[t] = widened(threshold(ordered, counts, aim, step), sizes[t], tie)
            count(own[t], not own[t] <= out[t], ring, ordered, counts)
    return np.asarray(out)


def intervals(const double[::1] predictions, const double[::1] scales, const double[::1] targets, double tie,
              double aim, double step, double[::1] ring, double[::1] ordered, int64_t[::1] counts):
    """Return the interval of each round, of shape (n, 2). The score of a round is |y - prediction| / scale.

    An empty interval is (NaN, NaN).
    """
    cdef double[:, ::1] out = np.empty((predictions.shape[0], 2))
    cdef Py_ssize_t t
    check(ring, ordered, counts)
    if scales.shape[0] != predictions.shape[0] or targets.shape[0] != predictions.shape[0]:
        raise ValueError("each prediction must have a scale and a target")
    with nogil:
        for t in range(predictions.shape[0]):
            spread(predictions[t], scales[t], threshold(ordered, counts, aim, step), tie, &out[t, 0])
            count(
                fabs(targets[t] - predictions[t]) / scales[t],
                not (out[t, 0] <= targets[t] <= out[t, 1]), ring, ordered, counts,
            )
    return np.asarray(out)


def next_threshold(const double[::1] ordered, const int64_t[::1] counts, double aim, double step):
    """Return q of the next round."""
    return threshold(ordered, counts, aim, step)


def next_limits(double q, const double[::1] sizes, double tie):
    """Return the largest score that would be no miss in the next round, for rows of these sizes."""
    cdef double[::1] out = np.empty(sizes.shape[0])
    cdef Py_ssize_t t
    for t in range(sizes.shape[0]):
        out[t] = widened(q, sizes[t], tie)
    return np.asarray(out)


def next_intervals(double q, const double[::1] predictions, const double[::1] scales, double tie):
    """Return the interval that each prediction would have in the next round."""
    cdef double[:, ::1] out = np.empty((predictions.shape[0], 2))
    cdef Py_ssize_t t
    for t in range(predictions.shape[0]):
        spread(predictions[t], scales[t], q, tie, &out[t, 0])
    return np.asarray(out)


cdef int check(const double[::1] ring, const double[::1] ordered, const int64_t[::1] counts) except -1:
    if ring.shape[0] != ordered.shape[0] or not ring.shape[0] or counts.shape[0] != 2 or counts[0] < 0:
        raise ValueError("the scores must be stored twice, with two counts")
    return 0


cdef double threshold(const double[::1] ordered, const int64_t[::1] counts, double aim, double step) noexcept nogil:
    """Return the quantile of the stored scores at the level of the next round."""
    cdef Py_ssize_t stored = <Py_ssize_t> min(counts[0], <int64_t> ordered.shape[0])
    cdef double m = aim + step * (aim * counts[0] - counts[1])
    # The next score is one of stored + 1. Levels like 0.9 are rounded, so that a whole number may come out larger.
    cdef double place = ceil((1.0 - m) * (stored + 1.0) - 1e-9)
    return INFINITY if place > stored else -INFINITY if place < 1.0 else ordered[<Py_ssize_t> place - 1]


cdef inline double widened(double q, double size, double tie) noexcept nogil:
    return q + tie * (fabs(q) + size) if fabs(q) < INFINITY else q


cdef void spread(double p, double scale, double q, double tie, double* out) noexcept nogil:
    cdef double half = widened(q * scale, fabs(p), tie)
    if q == -INFINITY:
        out[0] = out[1] = NAN
    else:
        out[0], out[1] = p - half, p + half


cdef void count(double score, bint miss, double[::1] ring, double[::1] ordered, int64_t[::1] counts) noexcept nogil:
    """Count a round, and store its score."""
    insert_score(min(score, MOST), &ring[0], &ordered[0], ring.shape[0], <Py_ssize_t> counts[0])
    counts[0] += 1
    counts[1] += miss
