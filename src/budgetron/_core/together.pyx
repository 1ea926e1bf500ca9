# cython: cdivision=True
"""Many learners with one kernel over the same rows: each kernel row is computed once.

The rows that any of the learners keeps stand once in a pool. For a block of rows, their
kernel values over the pool and over the block itself are one matrix product, and then each
learner plays the block on its own, reading its kernel row out of that table: `places` says for each of
its slots where in the pool that support is. Learners keep slabs of their own, so that
each ends exactly as if it had been alone.
"""

from libc.stdint cimport int32_t, int64_t

from time import perf_counter

import numpy as np

from budgetron._core.kernel cimport Kernel, Kind, cross, finish, kind_for, real, self_values, squares
from budgetron._core.rounds cimport Learner, block_length, longest_block, settle
from budgetron._core.rule cimport Rule
from budgetron._core.supports cimport Supports

cdef extern from "simd.h" nogil:
    double bt_dot_at_d(const double*, const int32_t*, const double*, ptrdiff_t)
    double bt_dot_at_f(const float*, const int32_t*, const double*, ptrdiff_t)

# Rows that no learner keeps any more are cleared away when they may be this share of the pool.
cdef double STALE = 0.1
cdef Py_ssize_t STALE_ROWS = 256


cdef class Together:
    """Learners with one kernel and type of rows.

    `kernel_values` counts the values computed so far, `block_values` those of them between rows of one
    block, `kernel_seconds` is the time they took, and `seconds` that of each learner's rounds.
    """

    cdef readonly list learners, places
    cdef readonly Supports pool
    cdef readonly int64_t kernel_values, block_values
    cdef readonly double kernel_seconds
    cdef readonly object seconds
    cdef list stood
    cdef Py_ssize_t sweep_at

    def __init__(self, list learners):
        cdef Learner first = learners[0], learner
        for learner in learners:
            if not learner.kernel.equals(first.kernel):
                raise ValueError("learners that share kernel rows must have the same kernel")
            if learner.supports.d != first.supports.d or learner.row.dtype != first.row.dtype:
                raise ValueError("learners that share kernel rows must have rows of one width and type")
        self.learners = learners
        if len(set(map(id, learners))) < len(learners):
            raise ValueError("a learner cannot share kernel rows with itself")
        self.seconds = np.zeros(len(learners))
        self.gather()
        self.stood = self.standing()

    cdef list standing(self):
        return [(id(learner.supports), learner.supports.capacity, learner.rounds) for learner in self.learners]

    cdef gather(self):
        """Fill the pool with what the learners keep already."""
        cdef Learner first = self.learners[0], learner
        cdef Supports pool = Supports(first.kernel, first.supports.d, first.row.dtype, 4 * longest_block()), supports
        cdef Py_ssize_t n, p, slot
        self.pool = pool
        self.places = [np.zeros(learner.supports.capacity, np.int32) for learner in self.learners]
        known = {}
        for n, learner in enumerate(self.learners):
            supports = learner.supports
            for p in range(supports.m):
                slot = supports._order[p]
                row = supports.rows[slot].tobytes()
                place = known.get(row)
                if place is None:
                    if pool.m == pool.capacity:
                        pool.reserve(pool.capacity * 3 // 2)
                    place = known[row] = pool.open(0)
                    pool.copy_from(place, supports, slot)
                self.places[n][slot] = place
        self.sweep_at = pool.m + max(STALE_ROWS, <Py_ssize_t> (STALE * pool.m))

    @property
    def nbytes(self):
        """Bytes of the pool and of the places in it."""
        return sum(array.nbytes for array in [*self.pool.arrays().values(), *self.places])

    def learn(self, X, list labels, list margins, list sizes):
        """Play one round per row of X with each learner.

        Parameters
        ----------
        X : ndarray of shape (n, d), C-contiguous, in the learners' dtype
        labels : list of ndarray of shape (n,), float64
            For each learner, labels of -1.0 and +1.0.
        margins, sizes : lists of ndarray of shape (n,), float64 and int64, to fill
            For each learner f_t(x_t) before the label, and the supports after the round.
        """
        cdef const double[:, ::1] rows
        cdef const float[:, ::1] single
        # The table is good for learners as it left them: one that learned on its own since, or was brought
        # back to an earlier state, has other slots.
        if self.stood != self.standing():
            self.gather()
        self.stood = None
        if self.pool.single:
            single = X
            if len(single):
                learn_blocks(self, <float*> &single[0, 0], len(single), labels, margins, sizes)
        else:
            rows = X
            if len(rows):
                learn_blocks(self, <double*> &rows[0, 0], len(rows), labels, margins, sizes)
        self.stood = self.standing()

    cdef make_room(self, Py_ssize_t b):
        """Room for a block in the pool and, where learners grow, in their slabs; the longest slab."""
        cdef Py_ssize_t n, longest = 0
        cdef Learner learner
        if self.pool.m + b > self.pool.capacity:
            self.pool.reserve(max(self.pool.m + b, self.pool.capacity * 3 // 2))
        for n, learner in enumerate(self.learners):
            if learner.rule.capacity() == 0 and learner.supports.m + b > learner.supports.capacity:
                learner.reserve(max(learner.supports.m + b, learner.supports.capacity * 3 // 2))
                places = np.zeros(learner.supports.capacity, np.int32)
                places[:len(self.places[n])] = self.places[n]
                self.places[n] = places
            longest = max(longest, learner.supports.capacity)
        return longest

    cdef sweep(self, Py_ssize_t start):
        """Clear the pool, from `start` on, of rows that no learner keeps."""
        cdef Supports pool = self.pool, supports
        cdef Py_ssize_t p, n = pool.m - start, kept = 0
        cdef int32_t[::1] moved = np.full(n, -1, np.int32), places
        cdef int32_t place
        cdef Learner learner
        for learner, own in zip(self.learners, self.places):
            supports, places = learner.supports, own
            for p in range(supports.m):
                place = places[supports._order[p]]
                if place >= start:
                    moved[place - start] = 0
        for p in range(n):
            if moved[p] == 0:
                moved[p] = <int32_t> (start + kept)
                if kept < p:
                    pool.copy_from(start + kept, pool, start + p)
                kept += 1
        for learner, own in zip(self.learners, self.places):
            supports, places = learner.supports, own
            for p in range(supports.top):
                place = places[p]
                if place >= start:  # a slot that is free may read anything that is there
                    places[p] = max(moved[place - start], 0)
        pool.m = pool.top = start + kept


cdef int learn_blocks(Together group, real* X, Py_ssize_t n, list labels, list margins, list sizes) except -1:
    cdef Supports pool = group.pool
    cdef Kernel kernel = pool.kernel
    cdef Py_ssize_t d = pool.d, start = 0, b, i, before, ld = 0, c
    dtype = pool.rows.dtype
    cdef real[:, ::1] table
    cdef real[::1] square = np.empty(longest_block(), dtype)
    cdef double[::1] own = np.empty(longest_block()), row = np.empty(0), y, margin
    cdef int32_t[::1] places
    cdef int64_t[::1] size
    cdef real* K = NULL
    cdef Kind kind
    cdef Learner learner
    cdef Rule rule
    cdef Supports supports
    cdef double[::1] seconds = group.seconds
    cdef double now = perf_counter(), then

    while start < n:
        b = min(block_length(pool.top + longest_block(), sizeof(real)), n - start)
        longest = group.make_room(b)
        if len(row) < longest:
            row = np.empty(longest)
        if ld < pool.capacity:
            ld = pool.capacity
            table = np.empty((longest_block(), ld), dtype)
            K = &table[0, 0]
        before = pool.m
        with nogil:
            # The block joins the pool, so that rows which become supports are in the table already.
            squares(X, b, d, &square[0])
            for i in range(b):
                pool.open(0)
                pool.store(before + i, X + i * d, square[i], 0.0)
            kind = kind_for(kernel, &square[0], b, <real*> pool._square, pool.top)
            cross(kernel, kind, X, b, <real*> pool._rows, pool.top, d, K, ld)
            self_values(kernel, X, b, d, &square[0], &own[0], K + before, ld)
            for i in range(b):
                pool._own[before + i] = own[i]
            for i in range(b):
                finish(kernel, kind, K + i * ld, square[i], own[i], <real*> pool._square, pool._own, pool.top)
        then, now = now, perf_counter()
        group.kernel_seconds += now - then
        group.kernel_values += b * pool.top
        group.block_values += b * b
        for c in range(len(group.learners)):
            learner, places, y, margin, size = group.learners[c], group.places[c], labels[c], margins[c], sizes[c]
            rule, supports = learner.rule, learner.supports
            with nogil:
                play_block(rule, supports, X, b, &square[0], &own[0], K, ld, &row[0], &places[0], before, &y[start],
                           &margin[start], &size[start])
            then, now = now, perf_counter()
            seconds[c] += now - then
        group.sweep(before)
        if pool.m > group.sweep_at:
            group.sweep(0)
            group.sweep_at = pool.m + max(STALE_ROWS, <Py_ssize_t> (STALE * pool.m))
        X += b * d
        start += b
    return 0


cdef int play_block(Rule rule, Supports supports, real* X, Py_ssize_t b, real* square, double* own, real* K, Py_ssize_t ld,
                    double* k, int32_t* places, Py_ssize_t before, double* y, double* margins,
                    int64_t* sizes) except -1 nogil:
    """The rounds of one block for one learner, on the table of kernel values."""
    cdef Py_ssize_t i, j, d = supports.d
    cdef real* row
    for i in range(b):
        row = K + i * ld
        if real is double:
            margins[i] = rule.margin = rule.factor * bt_dot_at_d(row, places, rule._coef, supports.top)
        else:
            margins[i] = rule.margin = rule.factor * bt_dot_at_f(row, places, rule._coef, supports.top)
        rule.y = y[i]
        if rule.wants_update():
            for j in range(supports.top):
                k[j] = row[places[j]]
        settle(rule, y[i], k, X + i * d, square[i], own[i], <real*> NULL)
        if rule.added >= 0:
            places[rule.added] = <int32_t> (before + i)
        sizes[i] = supports.m
    return 0
