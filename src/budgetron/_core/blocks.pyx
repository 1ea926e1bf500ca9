# cython: cdivision=True
"""The rounds of a batch, block by block.

For each block, everything that does not depend on the labels is computed first, with matrix products: the kernel
values K of its rows over the slots, and what the kind of rule needs beyond them.

- Plain rules need K only. The margin of a row is the sum of its kernel values, weighted by the coefficients.
- Rules with a projection (`Batch.projections`) also solve for all rows where an update is likely.
- Rules with a Gaussian (`Batch.gaussians`) have coordinates of all rows. The margin is the mean of the Gaussian
  at the row. Rows where an update is likely are multiplied by the covariance.

Then the rounds are played one after the other on these numbers (`play_block`). When a row becomes a support, it is
compared with the later rows of its block (`add_support`).
"""

from libc.math cimport NAN
from libc.string cimport memcpy

cimport cython

import numpy as np

from budgetron._core.gaussian cimport Gaussian
from budgetron._core.gaussian_round cimport GaussianRound
from budgetron._core.kernel_values cimport NARROW, Rows, dot, real
from budgetron._core.one_round cimport finish_round, skip_round
from budgetron._core.panels cimport solve_many
from budgetron._core.projection cimport FACTOR_PANEL, Projection
from budgetron._core.rows cimport address, later_values
from budgetron._core.rule cimport ENTRIES, NORM, Q, REMOVED

from budgetron._core.rule import ENTRY_NAMES

# The kernel values of a block should stay in the cache, but short blocks make matrix products slow. Blocks that
# several threads share are longer, so that the threads are woken less often.
cdef Py_ssize_t LONGEST_BLOCK = 128, SHORTEST_BLOCK = 16, LONGEST_SHARED = 256
cdef Py_ssize_t BLOCK_BYTES = 1 << 23
# Rows of few features use no matrix products, so their blocks can be short enough for the first cache.
cdef Py_ssize_t NARROW_BYTES = 1 << 17


@cython.final
cdef class Batch:
    """One call of `Learner.learn`: rows and labels, arrays to fill, and the block being played.

    Parameters are those of `Learner.learn`. `learner` grows its slab where there is no budget.
    """

    def __init__(self, learner, Rule rule, BatchRows rows, double[::1] y, double[::1] importances, double[::1] margins,
                 int64_t[::1] sizes, double[:, ::1] ledger, int threads):
        cdef Supports supports = rule.supports
        dtype = supports.square.dtype
        self.learner, self.rule, self.supports, self.rows = learner, rule, supports, rows
        self.workers = Workers(threads)
        self.longest = min(longest_block(self.workers), rows.n)
        # A slab without a budget grows by blocks, and its growth should not depend on how the rows are compared.
        self.narrow = supports.d <= NARROW and rule.budget > 0
        self.block = Block(supports.kernel, supports.d, dtype, self.longest, supports.sparse)
        self.later_array = np.empty(self.longest, dtype)
        self.later = address(self.later_array)
        # The views keep the arrays alive that the pointers refer to.
        self.y_view, self.importances_view, self.margins_view = y, importances, margins
        self.sizes_view, self.ledger_view = sizes, ledger
        self.y = &y[0]
        self.importances = NULL if importances is None else &importances[0]
        self.margins = NULL if margins is None else &margins[0]
        self.sizes = NULL if sizes is None else &sizes[0]
        self.entries = np.array([ENTRY_NAMES[name] for name in rule.ledger], np.intc)
        self.columns = len(rule.ledger)
        if ledger is not None and self.columns:
            self.ledger = &ledger[0, 0]
        if not shares_rows(rule):
            self.merging = rule
            self.merging.changed = -1  # a single round before this batch may have set it
        if rule.gaussian is not None:
            keep = rule.gaussian_round.keep
            self.gaussians = GaussianBlock(rule.gaussian, keep, rule.projection, self.longest)
            rule.gaussian_round = self.gaussians
        elif rule.projection is not None:
            self.projections = ProjectionBlock(rule.projection, self.longest)
            rule.projection.block = self.projections

    cdef int play(self) except -1:
        """Play all rounds."""
        with nogil:
            if self.supports.single:
                play_blocks(self, <float> 0)
            else:
                play_blocks(self, <double> 0)
        return 0

    cdef Py_ssize_t next_length(self) noexcept nogil:
        """Return the number of rows of the next block."""
        cdef size_t itemsize = sizeof(float) if self.supports.single else sizeof(double)
        cdef Py_ssize_t b = block_length(self.workers, self.narrow, self.supports.top, itemsize)
        cdef Py_ssize_t left = self.rows.n - self.start
        if self.gaussians is None:
            return min(b, left)
        b = min(b, self.gaussians.room)
        # Blocks of equal lengths: each one reads the whole covariance, so a short one costs more per row.
        return (left + (left + b - 1) // b - 1) // ((left + b - 1) // b)

    cdef int make_room(self, Py_ssize_t b) except -1:
        """Make room for b more supports, and for the kernel values of a block."""
        self.learner.make_slots(b)
        self.ld = self.supports.capacity
        self.values_array = np.empty((self.longest, self.ld), self.supports.square.dtype)
        self.row_array = np.empty(self.ld)
        self.K, self.row = address(self.values_array), <double*> address(self.row_array)
        return 0

    cdef int open_block(self, Py_ssize_t b) except -1 nogil:
        """Compute the kernel values of the next b rows."""
        if self.ld < self.supports.capacity or (self.rule.budget == 0 and self.supports.m + b > self.supports.capacity):
            with gil:
                self.make_room(b)
        self.rows.open(self.block, self.start, b)
        self.kind = self.supports.kind_with(self.block)
        self.supports.values_of(self.block, self.kind, self.K, self.ld, self.workers)
        if self.supports.sparse and self.rule.adds_supports:
            self.supports.reserve_entries(self.block.rows.starts[b] - self.block.rows.starts[0])
        return 0

    cdef int prune(self) except -1:
        """Let the rule exchange supports after the round before `start`."""
        self.rule.exchange()
        if self.sizes != NULL:
            self.sizes[self.start - 1] = self.supports.m
        if self.ledger != NULL and "norm" in self.rule.ledger:
            self.ledger_view[self.start - 1, self.rule.ledger.index("norm")] = self.rule.norm()
        return 0

    cdef void close(self):
        """End the batch, also after an error: apply what is pending, and play single rounds from now on."""
        if self.gaussians is not None:
            self.gaussians.close()
            self.rule.gaussian_round = GaussianRound(self.rule.gaussian, self.gaussians.keep)
            self.rule.set_coefficients()
        if self.projections is not None:
            self.rule.projection.block = None


cdef bint shares_rows(Rule rule) noexcept:
    """Return whether each support is a row of the stream, so that learners may share its kernel values."""
    return not (isinstance(rule, MergingRule) and (<MergingRule> rule).merges)


cdef int play_blocks(Batch batch, real zero) except -1 nogil:
    """Play all rounds of a batch. `zero` gives the type of the rows."""
    cdef Py_ssize_t b
    while batch.start < batch.rows.n:
        b = batch.next_length()
        batch.open_block(b)
        if batch.gaussians is not None:
            prepare_gaussians(batch.gaussians, batch, batch.rule, <real*> batch.K)
        elif batch.projections is not None:
            prepare_projections(batch.projections, batch, batch.rule, <real*> batch.K)
        b = play_block(batch, batch.rule, b, <real*> batch.K)
        if batch.gaussians is not None:
            batch.gaussians.close()
        batch.start += b
        if batch.rule.prune_due:
            with gil:
                batch.prune()
    return 0


cdef Py_ssize_t play_block(Batch batch, Rule rule, Py_ssize_t b, real* K) except -1 nogil:
    """Play the rounds of a block of b rows, and return how many were played.

    A block ends early if its supports are about to change, or the coordinates of its rows are outdated.
    """
    cdef Py_ssize_t i, t
    cdef Rows* rows = &batch.block.rows
    cdef real* row
    cdef double* k
    for i in range(b):
        t, row = batch.start + i, K + i * batch.ld
        begin_round(batch, rule, i, row)
        rule.importance = 1.0 if batch.importances == NULL else batch.importances[t]
        if batch.margins != NULL:
            write_margins(batch, rule, t)
        if batch.ledger != NULL:
            clear_entries(rule)
        if not skip_round(rule, batch.y[t], rows.own[i]):
            if real is double:
                k = row
            else:
                k = batch.row
            finish_round(rule, batch.y[t], k, rows, i, row)
            if rule.added >= 0:
                add_support(batch, rule.added, i, b, K)
            if batch.merging is not None and batch.merging.changed >= 0:
                batch.merging.compare(batch.block, i, K, batch.ld)
        if batch.sizes != NULL:
            batch.sizes[t] = batch.supports.m
        if batch.ledger != NULL:
            write_entries(batch, rule, t)
        if rule.prune_due or (batch.gaussians is not None and batch.gaussians.is_outdated()):
            return i + 1
    return b


cdef inline void begin_round(Batch batch, Rule rule, Py_ssize_t i, real* row) noexcept nogil:
    """Predict row i of the block, whose kernel values are in `row`."""
    cdef Py_ssize_t c
    if batch.gaussians is not None:
        batch.gaussians.row = i
        set_scores(batch.gaussians, rule, i, &batch.block.rows)
        return
    if batch.projections is not None:
        rule.projection.row = i
    if rule.outputs == 1:
        rule.margin = rule.factor * dot(row, rule._coef, batch.supports.top)
    else:
        for c in range(rule.outputs):
            rule._scores[c] = dot(row, rule._coef + c * batch.supports.capacity, batch.supports.top)


cdef inline void set_scores(GaussianBlock gaussians, Rule rule, Py_ssize_t i, Rows* rows) noexcept nogil:
    """Compute the margin of row i, or the scores of all outputs."""
    gaussians.scores(i, rows, rule.supports.single, &rule.margin if rule.outputs == 1 else rule._scores)


cdef inline void write_margins(Batch batch, Rule rule, Py_ssize_t t) noexcept nogil:
    """Write the margin of round t of the batch, or the scores of all outputs."""
    if rule.outputs == 1:
        batch.margins[t] = rule.margin
    else:
        memcpy(batch.margins + t * rule.outputs, rule._scores, rule.outputs * sizeof(double))


cdef void add_support(Batch batch, Py_ssize_t slot, Py_ssize_t i, Py_ssize_t b, real* K) noexcept nogil:
    """Compare row i, which is now in this slot, with the later rows of its block."""
    cdef real* later = <real*> batch.later
    cdef Py_ssize_t j
    if i + 1 < b:
        later_values(batch.block, batch.kind, i, later)
    for j in range(i + 1, b):
        K[j * batch.ld + slot] = later[j - i - 1]
    if batch.gaussians is not None:
        for j in range(i + 1, b):
            batch.gaussians.extend(j, later[j - i - 1])
    elif batch.projections is not None:
        for j in range(i + 1, b):
            if batch.projections.place[j] >= 0:
                batch.projections.extend(batch.projections.place[j], later[j - i - 1])


cdef void prepare_gaussians(GaussianBlock gaussians, Batch batch, Rule rule, real* K) noexcept nogil:
    """Compute the coordinates of all rows of a block, and the products that updates will probably need.

    An update is likely if the rule would update if the scores, by the hypothesis before the block, were worse by a
    slack.
    """
    cdef Rows* rows = &batch.block.rows
    cdef Py_ssize_t i, j, n = gaussians.projection.n
    cdef bint single = batch.supports.single
    cdef double* images = gaussians._phis + gaussians.gaussian.fixed
    cdef double* z
    gaussians.open()
    for i in range(rows.n):
        z = gaussians.coordinates(rows, i, single)
        for j in range(n):
            z[j] = K[i * batch.ld + j]
    solve_many(gaussians.projection._factor, FACTOR_PANEL, n, images, rows.n, gaussians.ld)
    gaussians.score_all(rows, single)
    rule.importance = 1.0
    for i in range(rows.n):
        gaussians._places[i] = -1
        set_scores(gaussians, rule, i, rows)
        worsen_scores(rule, batch.y[batch.start + i], gaussians.slack)
        if rule.needs_update():
            gaussians.expect(i)
    gaussians.multiply_ahead()


cdef inline void worsen_scores(Rule rule, double label, double slack) noexcept nogil:
    """Set the label, and change each score by the slack in the wrong direction."""
    cdef Py_ssize_t c
    if rule.outputs == 1:
        rule.margin -= label * slack
    else:
        for c in range(rule.outputs):
            rule._scores[c] += slack
        rule._scores[<Py_ssize_t> label] -= 2.0 * slack
    rule.set_label(label)


cdef int prepare_projections(ProjectionBlock projections, Batch batch, Rule rule, real* K) except -1 nogil:
    """Solve together for the rows of a block that the rule will probably project.

    These are the rows that it would update on if the margin, by the hypothesis before the block, were worse by a
    slack.
    """
    cdef Rows* rows = &batch.block.rows
    cdef double* y = batch.y + batch.start
    cdef Py_ssize_t i, j, n = projections.projection.n
    cdef double* z
    with gil:
        projections.open(rows.n)
    for i in range(rows.n):
        set_worse_margin(projections, rule, y[i], K + i * batch.ld)
        if rule.needs_update():
            z = projections.expect(i)
            for j in range(n):
                z[j] = K[i * batch.ld + j]
    projections.solve()
    for i in range(rows.n):
        if projections.place[i] >= 0:
            z = projections.z_at(projections.place[i])
            set_worse_margin(projections, rule, y[i], K + i * batch.ld)
            rule.kxx = rule.supports.kernel.self_value(rows.own[i])
            if rule.update_is_likely(dot(z, z, n)):
                projections.expect_coefficients(projections.place[i])
    projections.solve_coefficients()
    return 0


cdef inline void set_worse_margin(ProjectionBlock projections, Rule rule, double y, real* row) noexcept nogil:
    rule.y, rule.margin = y, rule.factor * dot(row, rule._coef, rule.supports.top) - y * projections.slack


cdef inline void clear_entries(Rule rule) noexcept nogil:
    """Prepare the ledger's entries for a round."""
    cdef Py_ssize_t j
    for j in range(<int> ENTRIES):
        rule.entry[j] = NAN
    rule.entry[<int> REMOVED] = -1.0
    rule.entry[<int> Q] = rule.damage_sum


cdef inline void write_entries(Batch batch, Rule rule, Py_ssize_t t) noexcept nogil:
    """Write the entries of round t of the batch to the ledger."""
    cdef Py_ssize_t j
    rule.entry[<int> NORM] = rule.norm()
    for j in range(batch.columns):
        batch.ledger[t * batch.columns + j] = rule.entry[batch.entries[j]]


cdef Py_ssize_t longest_block(Workers workers) noexcept nogil:
    """Return the largest number of rows of a block."""
    return LONGEST_BLOCK if workers.limit == 1 else LONGEST_SHARED


cdef Py_ssize_t block_length(Workers workers, bint narrow, Py_ssize_t top, size_t itemsize) noexcept nogil:
    """Return how many rows the next block should have, if the slab has `top` slots in use."""
    cdef Py_ssize_t room = NARROW_BYTES if narrow and not workers.busy else BLOCK_BYTES
    cdef Py_ssize_t fitting = room // <Py_ssize_t> ((top + 1) * itemsize)
    return min(LONGEST_SHARED if workers.busy else LONGEST_BLOCK, max(SHORTEST_BLOCK, fitting))
