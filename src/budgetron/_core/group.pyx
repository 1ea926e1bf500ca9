# cython: cdivision=True
"""Several learners with the same kernel over the same rows: each kernel row is computed once.

The pool stores each row that is a support of any of the learners. The kernel values of a block of rows over the pool
are one matrix product. Each learner then plays the block on its own and reads its kernel rows from that table. `places`
gives the position in the pool for each of its slots. Learners have slabs of their own, so that each has the same result
as if it learned alone.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from time import perf_counter

import numpy as np
from scipy.sparse import issparse

from budgetron._core.blocks cimport block_length, longest_block
from budgetron._core.kernel_values cimport Kind, Rows, real
from budgetron._core.one_round cimport finish_round, skip_round
from budgetron._core.rounds cimport Learner
from budgetron._core.rows cimport Block, BatchRows, later_values
from budgetron._core.rule cimport Rule
from budgetron._core.supports cimport Supports
from budgetron._core.workers cimport Workers

cdef extern from "simd.h" nogil:
    double bt_dot_at_d(const double*, const int32_t*, const double*, ptrdiff_t)
    double bt_dot_at_f(const float*, const int32_t*, const double*, ptrdiff_t)

# Rows that no learner keeps are removed when they may be this part of the pool.
cdef double STALE = 0.1
cdef Py_ssize_t STALE_ROWS = 32
cdef Py_ssize_t FIRST_ROWS = 512


cdef class LearnerGroup:
    """Learners with the same kernel and type of rows.

    `of_one_model` says that all have played the same rounds from the first on: supports of the same round are the same
    row. `kernel_values` is the number of kernel values over the pool computed so far, `kernel_seconds` the time they
    took, and `seconds` the time of each learner's rounds.
    """

    cdef readonly list learners, places
    cdef readonly Supports pool
    cdef readonly int64_t kernel_values
    cdef readonly double kernel_seconds
    cdef readonly object seconds
    cdef list last_states
    cdef bint of_one_model
    cdef Py_ssize_t sweep_at

    def __init__(self, list learners, bint of_one_model=False):
        cdef Learner first = learners[0], learner
        for learner in learners:
            if learner.rule.outputs > 1:
                raise ValueError("a learner with several outputs has its own kernel rows and cannot share them")
            if not learner.shares_rows:
                raise ValueError("a learner that merges supports has rows of its own and cannot share kernel values")
            if not learner.kernel.equals(first.kernel):
                raise ValueError("learners that share kernel rows must have the same kernel")
            if (learner.supports.d, learner.supports.single, learner.supports.sparse) != (
                first.supports.d, first.supports.single, first.supports.sparse
            ):
                raise ValueError("learners that share kernel rows must store rows of the same width and type in the same way")
        self.learners, self.of_one_model = learners, of_one_model
        if len(set(map(id, learners))) < len(learners):
            raise ValueError("a learner cannot share kernel rows with itself")
        self.seconds = np.zeros(len(learners))
        self.gather()
        self.last_states = self.states()

    cdef list states(self):
        """Return what changes when a learner learns or is restored."""
        return [(id(learner.supports), learner.supports.capacity, learner.rounds) for learner in self.learners]

    cdef gather(self):
        """Fill the pool with the supports of the learners."""
        cdef Learner first = self.learners[0], learner
        cdef Supports supports = first.supports, pool
        pool = Supports(first.kernel, supports.d, supports.square.dtype, FIRST_ROWS, supports.sparse)
        self.pool = pool
        self.places = [np.zeros(learner.supports.capacity, np.int32) for learner in self.learners]
        positions = {}
        for n, learner in enumerate(self.learners):
            supports = learner.supports
            slots = supports.order[:supports.m]
            names = supports.rounds[slots].tolist() if self.of_one_model else contents(supports.rows(slots))
            new = []
            for p, name in enumerate(names):
                if name not in positions:
                    positions[name] = pool.m + len(new)
                    new.append(p)
            pool.adopt(supports, slots[new])
            self.places[n][slots] = [positions[name] for name in names]
        self.sweep_at = pool.m + max(STALE_ROWS, <Py_ssize_t> (STALE * pool.m))

    @property
    def nbytes(self):
        """Bytes of the pool and of `places`."""
        return self.pool.nbytes + sum(places.nbytes for places in self.places)

    def learn(self, X, list labels, list margins, list sizes, int threads=1, list importances=None):
        """Play one round per row of X with each learner.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, d), in the learners' dtype
            A matrix in canonical form.
        labels : list of ndarray of shape (n,), float64
            For each learner, labels of -1.0 and +1.0.
        margins, sizes : lists of ndarray of shape (n,), float64 and int64, to fill
            For each learner f_t(x_t) before the label is seen, and the number of supports after the round; or None.
        threads : int
            Largest number of threads that compute kernel values.
        importances : list of ndarray of shape (n,), float64, or None, optional
            For each learner, weights of the rows.
        """
        cdef BatchRows batch = BatchRows(X, self.pool.square.dtype)
        # A learner that learned on its own since, or was restored to an earlier state, may have other supports.
        if self.last_states != self.states():
            self.gather()
        self.last_states = None
        if importances is None:
            importances = [None] * len(self.learners)
        if batch.n and self.pool.single:
            learn_blocks(self, batch, labels, importances, margins, sizes, Workers(threads), <float> 0)
        elif batch.n:
            learn_blocks(self, batch, labels, importances, margins, sizes, Workers(threads), <double> 0)
        self.last_states = self.states()

    cdef make_room(self, Py_ssize_t b):
        """Make room for a block in the pool and in slabs without a budget; return the capacity of the largest slab."""
        cdef Py_ssize_t n, longest = 0
        cdef Learner learner
        if self.pool.m + b > self.pool.capacity:
            self.pool.reserve(max(self.pool.m + b, self.pool.capacity * 3 // 2))
        for n, learner in enumerate(self.learners):
            learner.make_slots(b)
            if len(self.places[n]) < learner.supports.capacity:
                places = np.zeros(learner.supports.capacity, np.int32)
                places[:len(self.places[n])] = self.places[n]
                self.places[n] = places
            longest = max(longest, learner.supports.capacity)
        return longest

    cdef add_rows(self, Py_ssize_t before, Rows* rows, char* compared):
        """Add the rows of a block to the pool, from `before` on, and remove rows that are no supports."""
        cdef Supports pool = self.pool
        cdef Py_ssize_t i
        for i in range(rows.n):
            pool.open(0)
            if compared[i]:
                pool.store(before + i, rows, i)
        self.sweep(before)
        if pool.m > self.sweep_at:
            self.sweep(0)
            self.sweep_at = pool.m + max(STALE_ROWS, <Py_ssize_t> (STALE * pool.m))

    cdef sweep(self, Py_ssize_t start):
        """Remove rows that no learner keeps from the pool, from `start` on."""
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
                    pool.move(start + p, start + kept)
                kept += 1
        for learner, own in zip(self.learners, self.places):
            supports, places = learner.supports, own
            for p in range(supports.top):
                place = places[p]
                if place >= start:  # the place of a free slot only has to be valid
                    places[p] = max(moved[place - start], 0)
        pool.cut(start + kept)


cdef list contents(rows):
    """Return one key per row; equal rows have equal keys."""
    if not issparse(rows):
        return [row.tobytes() for row in rows]
    ends = rows.indptr.tolist()
    return [rows.data[i:j].tobytes() + rows.indices[i:j].tobytes() for i, j in zip(ends, ends[1:])]


cdef int learn_blocks(LearnerGroup group, BatchRows batch, list labels, list importances, list margins, list sizes,
                      Workers workers, real zero) except -1:
    """Play all rounds of a batch with each learner. `zero` gives the type of the rows."""
    cdef Supports pool = group.pool
    cdef Py_ssize_t start = 0, b, before, ld = 0, c, n = batch.n, longest_row, entries
    cdef Py_ssize_t longest = min(longest_block(workers), n)
    dtype = pool.square.dtype
    cdef Block block = Block(pool.kernel, pool.d, dtype, longest, pool.sparse)
    cdef Rows* rows = &block.rows
    cdef Kind kind
    cdef real[::1] others = np.empty(longest, dtype)
    cdef char[::1] compared = np.zeros(longest, np.int8)
    cdef real[:, ::1] table
    cdef double[::1] row = np.empty(0), y, margin, importance
    cdef int32_t[::1] places
    cdef int64_t[::1] size
    cdef real* K = NULL
    cdef Learner learner
    cdef double[::1] seconds = group.seconds
    cdef double now = perf_counter(), then

    while start < n:
        b = min(block_length(workers, False, pool.top + longest, sizeof(real)), n - start)
        longest_row = group.make_room(b)
        if len(row) < longest_row:
            row = np.empty(longest_row)
        if ld < pool.capacity:
            ld = pool.capacity
            table = np.empty((longest, ld), dtype)
            K = &table[0, 0]
        before = pool.m
        batch.open(block, start, b)
        kind = pool.kind_with(block)
        with nogil:
            pool.values_of(block, kind, K, ld, workers)
        memset(&compared[0], 0, b)
        then, now = now, perf_counter()
        group.kernel_seconds += now - then
        group.kernel_values += b * pool.top
        entries = rows.starts[b] - rows.starts[0] if pool.sparse else 0
        for c in range(len(group.learners)):
            learner, places, y = group.learners[c], group.places[c], labels[c]
            margin = None if margins[c] is None else margins[c]
            size = None if sizes[c] is None else sizes[c]
            importance = None if importances[c] is None else importances[c]
            learner.supports.reserve_entries(entries)
            with nogil:
                play_block(learner.rule, learner.supports, block, kind, K, ld, &row[0], &places[0], before,
                           &compared[0], &others[0], &y[start], NULL if importance is None else &importance[start],
                           NULL if margin is None else &margin[start], NULL if size is None else &size[start])
            then, now = now, perf_counter()
            seconds[c] += now - then
        pool.reserve_entries(entries)
        group.add_rows(before, rows, &compared[0])
        start += b
    return 0


cdef int play_block(Rule rule, Supports supports, Block block, Kind kind, real* K, Py_ssize_t ld, double* k, int32_t* places,
                    Py_ssize_t before, char* compared, real* others, double* y, double* importances, double* margins,
                    int64_t* sizes) except -1 nogil:
    """Play the rounds of one block with one learner, with the table of kernel values.

    A row i that becomes a support is compared with the later rows, unless it was compared for another learner. The
    values are in column `before` + i of the table.
    """
    cdef Py_ssize_t i, j, n = block.rows.n
    cdef real* row
    for i in range(n):
        row = K + i * ld
        if real is double:
            rule.margin = rule.factor * bt_dot_at_d(row, places, rule._coef, supports.top)
        else:
            rule.margin = rule.factor * bt_dot_at_f(row, places, rule._coef, supports.top)
        rule.margin += rule.linear_part(0, &block.rows, i)
        rule.importance = 1.0 if importances == NULL else importances[i]
        if margins != NULL:
            margins[i] = rule.margin
        if not skip_round(rule, y[i], block.rows.own[i]):
            if rule.needs_update():
                for j in range(supports.top):
                    k[j] = row[places[j]]
            finish_round(rule, y[i], k, &block.rows, i, <real*> NULL)
            if rule.prune_due:
                with gil:
                    kept = rule.exchange()
                    for j, slot in enumerate([] if kept is None else kept.tolist()):
                        places[j] = places[<Py_ssize_t> slot]
        if rule.added >= 0:
            places[rule.added] = <int32_t> (before + i)
            if not compared[i]:
                compared[i] = True
                later_values(block, kind, i, others)
                for j in range(i + 1, n):
                    K[j * ld + before + i] = others[j - i - 1]
        if sizes != NULL:
            sizes[i] = supports.m
    return 0
