# cython: cdivision=True
"""The rounds: blocks with lookahead, single rounds, and prediction.

`Learner` joins the three rooms, kernel, slab and rule, and plays rounds. What a
batch does is told at the head of the package.
"""

from libc.math cimport NAN, fabs, isfinite
from libc.stdint cimport int64_t
from libc.string cimport memcpy

cimport numpy as cnp

from copy import deepcopy

import numpy as np
from scipy.sparse import issparse

from budgetron._core.crew cimport Crew
from budgetron._core.distances cimport Distances
from budgetron._core.gaussian cimport Gaussian, rows_ahead
from budgetron._core.kernel cimport NARROW, Kernel, Kind, Rows, dot, real
from budgetron._core.projection cimport Foresight, Projection, solve_many
from budgetron._core.rows cimport Block, Feed, address, open_dense, open_sparse, others_of
from budgetron._core.rule cimport ENTRIES, NORM, Q, REMOVED, Rule
from budgetron._core.supports cimport Supports

from budgetron._core.rows import one_row, sparse_row
from budgetron._core.rule import ENTRY_NAMES

# A block's kernel values should stay in the cache; shorter ones waste the matrix product's packing. Where several
# threads share them, blocks are longer, so that they are woken less often.
cdef Py_ssize_t LONGEST_BLOCK = 128, SHORTEST_BLOCK = 16, LONGEST_SHARED = 256
cdef Py_ssize_t BLOCK_BYTES = 1 << 23
# Narrow rows have no packing to waste, and their values come so fast that the nearest cache is worth shorter blocks.
cdef Py_ssize_t NARROW_BYTES = 1 << 17
cdef Py_ssize_t FIRST_SLOTS = 64

cnp.import_array()


cdef class Learner:
    """One hypothesis that learns from a stream of rows labelled -1 or +1.

    Parameters
    ----------
    kernel : Kernel
    rule : Rule
    d : int
        Number of features.
    dtype : numpy.float32 or numpy.float64
        Type of the rows and of all that is computed from them.
    sparse : bool
        Whether the slab keeps the non-zeros of its rows and nothing else.
    """

    def __init__(self, Kernel kernel, Rule rule, Py_ssize_t d, dtype, bint sparse=False):
        self.kernel, self.rule = kernel, rule
        self.supports = Supports(kernel, d, dtype, rule.capacity() or FIRST_SLOTS, sparse)
        rule.attach(self.supports)
        self.make_rows()

    def __getstate__(self):
        return {"kernel": self.kernel, "rule": self.rule}

    def __setstate__(self, state):
        self.set_rule(state["kernel"], state["rule"])

    cdef set_rule(self, Kernel kernel, Rule rule):
        self.kernel, self.rule, self.supports = kernel, rule, rule.supports
        self.make_rows()

    cdef make_rows(self):
        cdef Supports supports = self.supports
        dtype = supports.square.dtype
        self.row = np.zeros(0 if supports.sparse else supports.d, dtype)
        self.block = Block(self.kernel, supports.d, dtype, 1, supports.sparse)
        if not supports.sparse:
            self.block.make_room(supports.d + 1)
            self.block.make_matrix()
        self.values = np.zeros(supports.capacity, dtype)
        self.wide = np.zeros(self.supports.capacity if self.supports.single else 0)

    def __reduce__(self):
        return Learner.__new__, (Learner,), self.__getstate__()

    @property
    def nbytes(self):
        """Bytes of all arrays that outlive a call."""
        arrays = [self.row, self.values, self.wide, *self.block.arrays(), *self.supports.arrays().values(),
                  *self.rule.arrays().values()]
        return sum(array.nbytes for array in arrays)

    @property
    def dtype(self):
        """Type of the rows."""
        return self.supports.square.dtype

    @property
    def n_features(self):
        """Number of features of the rows."""
        return self.supports.d

    @property
    def n_supports(self):
        """Number of supports."""
        return self.supports.m

    @property
    def budget(self):
        """The largest number of supports after a round; 0 if there is no limit."""
        return self.rule.budget

    def state(self):
        """Return all that the hypothesis must remember: numbers, arrays, and tables of these."""
        return self.rule.state()

    def restore_from(self, Learner copy):
        """Return to the state of a copy that was made earlier; the copy must not be used afterwards."""
        self.set_rule(copy.kernel, copy.rule)

    def set_round_count(self, int64_t rounds):
        """Continue as if this many rounds had been played without an update."""
        self.rule.set_round_count(rounds)

    def add_features(self, Py_ssize_t d):
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
        self.rule.add_features(d)
        self.make_rows()

    def truncate(self, Py_ssize_t budget):
        """Keep the first supports, as many as `budget`, and from now on no more; second-order rules only."""
        self.rule.truncate(budget)
        self.make_rows()

    def mirrored(self, generator=None):
        """Return -f, the hypothesis that opposite labels would have made, or None if it cannot be known.

        `generator` gives a copy that draws random numbers a state of its own.
        """
        if self.average is not None or self.journal is not None:
            return None
        twin = deepcopy(self)
        twin.rule.mirror()
        if generator is not None and twin.rule.generator is not None:
            twin.rule.generator.bit_generator.state = generator.bit_generator.state
        return twin

    @property
    def rounds(self):
        """Rounds played."""
        return self.rule.rounds

    @property
    def mistakes(self):
        """Rounds that were mistakes."""
        return self.rule.mistakes

    @property
    def ledger(self):
        """Names of the columns that `learn` fills in a ledger."""
        return self.rule.ledger

    def is_safe(self, double square):
        """Whether rows of at most this squared norm cannot make a kernel value or a step overflow."""
        own = self.supports.square[self.supports.order[:self.supports.m]]
        if self.rule.divides and not self.kernel.has_unit_length():
            return False
        if self.rule.gaussian is not None and not self.tame(square):
            return False
        if not np.abs(self.rule.coef).max(initial=0.0) * fabs(self.rule.factor) < 1e20:
            return False
        return self.kernel.is_safe(max(square, own.max(initial=0.0)), self.supports.d, self.supports.single)

    cdef bint tame(self, double square):
        """Whether rows of this squared norm have coordinates whose squares and products cannot overflow."""
        return self.kernel.has_unit_length() and square * self.rule.gaussian.scale ** 2 < 1e30

    cpdef bint may_fail(self):
        """Whether the second half of the round that was opened might overflow, or call a kernel that fails."""
        cdef double own = self.kernel.self_value(self.block.rows.own[0])
        cdef bint sane = own == 0.0 or 1e-60 < own < 1e60
        if self.rule.gaussian is not None and not self.tame(square_of(self.block)):
            return True
        return self.kernel.function is not None or not (sane and fabs(self.rule.margin) < 1e60)

    def learn(self, X, y, double[::1] margins=None, int64_t[::1] sizes=None, double[:, ::1] ledger=None, int threads=1,
              double[::1] importances=None, Distances distances=None):
        """Play one round per row of X, in order.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, d), in the learner's dtype
            A matrix in canonical form.
        y : ndarray of shape (n,), float64
            Labels, -1.0 or +1.0.
        margins, sizes, ledger : arrays to fill, optional
            f_t(x_t) before the label; supports after the round; and one column
            for each name in the rule's ledger.
        threads : int
            How many may share the kernel values.
        importances : ndarray of shape (n,), float64, optional
            Weights of the rows.
        distances : Distances, optional
            Those of these rows, where they are known.
        """
        cdef double[::1] labels = y
        cdef Feed feed = Feed(X, self.supports.square.dtype)
        if distances is not None:
            if self.rule.budget == 0:
                raise ValueError("a learner that shares distances must have a budget")
            distances.check(self.supports, feed.n)
        if ledger is not None:
            self.rule.refresh_norm()
        self.rule.recording = ledger is not None
        try:
            if feed.n == 0:
                return
            if self.supports.single:
                play_blocks(self, feed, &labels[0], importances, margins, sizes, ledger, Crew(threads), distances, <float> 0)
            else:
                play_blocks(self, feed, &labels[0], importances, margins, sizes, ledger, Crew(threads), distances, <double> 0)
        finally:
            self.rule.recording = False
            if self.rule.gaussian is not None:
                self.rule.gaussian.forget_block()
                self.rule.gaussian.coefficients(self.rule.projection, self.rule._coef)
            if self.rule.projection is not None:
                self.rule.projection.foresight = None

    def extend(self, Py_ssize_t budget):
        """From here on, keep up to `budget` supports, which are more than before."""
        if not 0 < self.rule.budget <= budget:
            raise ValueError(f"a budget can only grow; it is {self.rule.budget}, got {budget}")
        before, self.rule.budget = self.rule.budget, budget
        try:
            self.reserve(self.rule.capacity())
        except BaseException:
            self.rule.budget = before
            raise

    def reserve(self, Py_ssize_t capacity):
        """Room for `capacity` slots in the slab, in the rule and for single rounds."""
        self.supports.reserve(capacity)
        self.rule.reserve(capacity)
        self.make_rows()

    def play(self, x, double y, double importance=1.0):
        """One round on one row of this weight: the margin before y is seen; then learn."""
        cdef double margin = self.begin(x)
        if not self.may_fail():
            self.end(y, importance)
            return margin
        before = deepcopy(self.rule)
        try:
            self.end(y, importance)
        except BaseException:
            self.set_rule(self.kernel, before)
            raise
        return margin

    def open_round(self, x):
        """The first half of a round: check the row and predict."""
        return self.begin(x)

    def close_round(self, double y, double importance=1.0):
        """The second half: the label is seen, and perhaps an update follows."""
        self.end(y, importance)

    cdef int make_slots(self, Py_ssize_t n) except -1:
        """Room for n more supports, where there is no budget."""
        cdef Supports supports = self.supports
        if self.rule.budget == 0 and supports.m + n > supports.capacity:
            self.reserve(max(supports.m + n, supports.capacity * 3 // 2))
        return 0

    cdef double begin(self, x) except? -1:
        cdef Supports supports = self.supports
        cdef cnp.ndarray own
        cdef Py_ssize_t n = supports.d
        if self.rule.budget == 0 and supports.m == supports.capacity and is_finite(x):
            self.make_slots(1)
        own = self.row
        # Into a row of our own: a round may end long after x was changed.
        if not supports.sparse and is_plain(x, own):
            memcpy(own.data, (<cnp.ndarray> x).data, supports.d * (4 if supports.single else 8))
        elif issparse(x) or supports.sparse:
            if issparse(x):
                features, values = sparse_row(x, supports.d)
            else:
                row = one_row(x, supports.d)
                features = np.flatnonzero(row).astype(np.int32)
                values = row[features]
            n = len(values)
            self.block.hold(features, values)
            return self.open_held(n, True)
        else:
            own[:] = one_row(x, supports.d)
        return self.open_held(n, False)

    cdef double open_held(self, Py_ssize_t n, bint sparse) except? -1:
        """Predict the row that was put aside, as a row or by its n non-zeros."""
        cdef Supports supports = self.supports
        cdef Block block = self.block
        cdef void* row = address(self.row)
        if supports.single:
            check_finite(block, <float*> (block._values if sparse else row), n, sparse)
        else:
            check_finite(block, <double*> (block._values if sparse else row), n, sparse)
        if supports.single and sparse:
            open_sparse(block, block._starts, block._features, <float*> block._values, 1)
            self.rule.margin = open_row(self, <float*> address(self.values))
        elif supports.single:
            open_dense(block, <float*> row, 1)
            self.rule.margin = open_row(self, <float*> address(self.values))
        elif sparse:
            open_sparse(block, block._starts, block._features, <double*> block._values, 1)
            self.rule.margin = open_row(self, <double*> address(self.values))
        else:
            open_dense(block, <double*> row, 1)
            self.rule.margin = open_row(self, <double*> address(self.values))
        return self.rule.margin

    cdef int end(self, double y, double importance) except -1:
        cdef Rule rule = self.rule
        cdef Rows* rows = &self.block.rows
        cdef void* values = address(self.values)
        rule.importance = importance
        if self.supports.sparse:
            self.supports.need(rows.starts[1] - rows.starts[0])
        if self.supports.single:
            settle(rule, y, <double*> address(self.wide), rows, 0, <float*> values)
        else:
            settle(rule, y, <double*> values, rows, 0, <double*> values)
        if rule.due:
            rule.exchange()
        return 0

    def decide(self, X, coef=None, int threads=1, Distances distances=None):
        """f(x) for each row of X; with other coefficients, in slot order, if given."""
        return sums(self.supports, X, self.rule.factor * self.rule.coef if coef is None else coef, threads,
                    self.rule if coef is None else None, distances)

    def kernel_values(self, X):
        """k(x, s) for each row x of X and each support s from oldest to newest."""
        return values(self.supports, X)

    def keep_average(self):
        """Keep the average of the hypotheses from the first round on."""
        self.rule.keep_average()

    def keep_journal(self):
        """Keep every hypothesis from the first round on."""
        self.rule.keep_journal()

    @property
    def average(self):
        """What is kept of the average, if it is."""
        return self.rule.average

    def decide_average(self, X):
        """What the average of the hypotheses of all rounds says of each row of X."""
        cdef Rule rule = self.rule
        now = rule.average.total(rule.coef)
        return (sums(self.supports, X, now) + sums(rule.departed, X, rule.departed_sums)) / rule.rounds

    @property
    def journal(self):
        """The changes of the hypothesis, if they are kept: a place is the round of a support."""
        return self.rule.journal

    def basis(self, X):
        """Kernel values of each row of X, a column for each support that there ever was, by round."""
        values_ = [values(slab, X) for slab in (self.supports, self.rule.departed)]
        return np.hstack(values_)[:, np.argsort(self._supports_ever(), kind="stable")]

    def columns(self, places):
        """The column of `basis` for each place of the journal."""
        return np.searchsorted(np.sort(self._supports_ever()), places)

    def _supports_ever(self):
        return np.concatenate([slab.rounds[slab.order[:slab.m]] for slab in (self.supports, self.rule.departed)])


def sums(Supports supports, X, const double[::1] coef, int threads=1, Rule rule=None, Distances distances=None):
    """Kernel values of each row of X over the slots, summed with these coefficients; and what the rule has beside."""
    out = np.zeros((X.shape[0], 1))
    in_blocks(supports, X, coef, out, threads, rule, distances)
    return out[:, 0]


def values(Supports supports, X, int threads=1):
    """k(x, s) for each row x of X and each support s from oldest to newest."""
    out = np.zeros((X.shape[0], supports.top))
    in_blocks(supports, X, None, out, threads, None, None)
    return out[:, supports.order[:supports.m]]


cdef in_blocks(Supports supports, X, const double[::1] coef, double[:, ::1] out, int threads, Rule rule,
               Distances distances):
    cdef Feed feed = Feed(X, supports.square.dtype)
    if distances is not None:
        distances.check(supports, feed.n)
    if rule is not None and rule.gaussian is None:
        rule = None
    if feed.n == 0 or (supports.top == 0 and rule is None):
        return
    if supports.single:
        predict_blocks(supports, feed, coef, out, Crew(threads), rule, distances, <float> 0)
    else:
        predict_blocks(supports, feed, coef, out, Crew(threads), rule, distances, <double> 0)


cdef double square_of(Block block):
    """The squared norm of the row that the block holds."""
    return (<float*> block.rows.square)[0] if block.single else (<double*> block.rows.square)[0]


cdef raise_overflow(int64_t round_number):
    raise ValueError(
        f"the margin of round {round_number} is not finite: kernel values overflow; "
        "scale the features or choose smaller kernel parameters"
    )


cdef int play_blocks(Learner learner, Feed feed, double* y, double[::1] importances, double[::1] margins,
                     int64_t[::1] sizes, double[:, ::1] ledger, Crew crew, Distances distances, real zero) except -1:
    """All rounds of a batch, block by block; `zero` is of the type of the rows."""
    cdef Rule rule = learner.rule
    cdef Supports supports = learner.supports
    cdef Py_ssize_t start = 0, b, i, j, ld = 0, n = feed.n, longest = min(longest_block(crew), feed.n), known = 0
    # A slab without a budget grows by the block, and should come out the same when its learner is not alone.
    cdef bint recording = ledger is not None, narrow = supports.d <= NARROW and rule.budget > 0
    dtype = supports.square.dtype
    cdef int[::1] columns = np.array([ENTRY_NAMES[name] for name in rule.ledger], np.intc)
    cdef Block block = Block(learner.kernel, supports.d, dtype, longest, supports.sparse)
    cdef Rows* rows = &block.rows
    cdef real[:, ::1] cross_block
    cdef real[::1] others = np.empty(longest, dtype)
    cdef double[::1] wide
    cdef Projection projection = rule.projection
    cdef Gaussian gaussian = rule.gaussian
    cdef Foresight foresight = None if projection is None or gaussian is not None else Foresight(projection, longest)
    cdef real* K = NULL
    cdef real* row
    cdef double* k
    cdef Kind kind

    with nogil:
        while start < n:
            b = min(block_length(crew, narrow, supports.top, sizeof(real)), n - start)
            if gaussian is not None:
                b = min(b, rows_ahead(gaussian))
            if ld < supports.capacity or (rule.budget == 0 and supports.m + b > supports.capacity):
                with gil:
                    learner.make_slots(b)
                    ld = supports.capacity
                    cross_block = np.empty((longest, ld), dtype)
                    wide = np.empty(ld)
                K = &cross_block[0, 0]

            # Everything that can be known before the labels, at the speed of matrix products.
            feed.open(block, start, b)
            kind = supports.kind_with(block)
            if distances is None:
                supports.values_of(block, kind, K, ld, crew)
            else:
                distances.values_of(start, b, supports.top, K, ld)
            if supports.sparse:
                supports.need(rows.starts[b] - rows.starts[0])
            if gaussian is not None:
                known = projection.refactorised
                with gil:
                    gaussian.open(b)
                coordinates(gaussian, projection, rows, K, ld, supports.single)
                gaussian.look_ahead(y + start, b, rows, supports.single)
            elif projection is not None:
                with gil:
                    foresight.open(b)
                    projection.foresight = foresight
                foresee(rule, foresight, rows, y + start, K, ld)

            # The rounds, one after the other, on those numbers.
            for i in range(b):
                row = K + i * ld
                if gaussian is None:
                    rule.margin = rule.factor * dot(row, rule._coef, supports.top)
                else:
                    rule.margin = gaussian.margin(i, rows, supports.single)
                    gaussian.row = i
                rule.importance = 1.0 if importances is None else importances[start + i]
                if margins is not None:
                    margins[start + i] = rule.margin
                if recording:
                    for j in range(<int> ENTRIES):
                        rule.entry[j] = NAN
                    rule.entry[<int> REMOVED] = -1.0
                    rule.entry[<int> Q] = rule.tally
                if real is double:
                    k = row
                else:
                    k = &wide[0]
                if foresight is not None:
                    projection.row = i
                if not passes(rule, y[start + i], rows.own[i]):
                    settle(rule, y[start + i], k, rows, i, row)
                if rule.added >= 0 and distances is not None:
                    distances.store(rule.added, start + i, b - i - 1, &others[0])
                elif rule.added >= 0 and i + 1 < b:
                    others_of(block, kind, i, &others[0])
                if rule.added >= 0 and i + 1 < b:
                    for j in range(i + 1, b):
                        K[j * ld + rule.added] = others[j - i - 1]
                    if gaussian is not None:
                        for j in range(i + 1, b):
                            gaussian.extend(j, projection, others[j - i - 1])
                    elif projection is not None:
                        for j in range(i + 1, b):
                            if foresight.place[j] >= 0:
                                foresight.extend(foresight.place[j], others[j - i - 1])
                if sizes is not None:
                    sizes[start + i] = supports.m
                if recording:
                    rule.entry[<int> NORM] = rule.norm()
                    for j in range(columns.shape[0]):
                        ledger[start + i, j] = rule.entry[columns[j]]
                # The block ends where its other rows will meet other supports, or a span that was found anew.
                if rule.due or (gaussian is not None and projection.refactorised > known):
                    b = i + 1
                    break
            if gaussian is not None:
                gaussian.close()
            start += b
            if rule.due:
                with gil:
                    kept = rule.exchange()
                    if kept is not None and distances is not None:
                        distances.keep(kept)
                    if sizes is not None:
                        sizes[start - 1] = supports.m
                    if recording and "norm" in rule.ledger:
                        ledger[start - 1, rule.ledger.index("norm")] = rule.norm()
    return 0


cdef void coordinates(Gaussian gaussian, Projection projection, Rows* rows, real* K, Py_ssize_t ld,
                      bint single) noexcept nogil:
    """The coordinates of all rows of a block, solved for together."""
    cdef Py_ssize_t i, j
    cdef double* z
    for i in range(rows.n):
        z = gaussian.expect(rows, i, single)
        for j in range(projection.n):
            z[j] = K[i * ld + j]
    solve_many(projection._factor, projection.n, gaussian._phis + gaussian.fixed, rows.n, gaussian.ld)


cdef void foresee(Rule rule, Foresight foresight, Rows* rows, double* y, real* K, Py_ssize_t ld) noexcept nogil:
    """Solve together for the rows of a block that the rule may want to update on.

    Those are rows that it would update on if the margin, by the hypothesis as it is before the block, were worse
    by some slack.
    """
    cdef Py_ssize_t i, j, n = foresight.projection.n
    cdef double* z
    for i in range(rows.n):
        rule.y, rule.margin = y[i], rule.factor * dot(K + i * ld, rule._coef, rule.supports.top) - y[i] * foresight.slack
        if rule.wants_update():
            z = foresight.expect(i)
            for j in range(n):
                z[j] = K[i * ld + j]
    foresight.solve()
    for i in range(rows.n):
        if foresight.place[i] >= 0:
            z = foresight.z_at(foresight.place[i])
            rule.y, rule.margin = y[i], rule.factor * dot(K + i * ld, rule._coef, rule.supports.top) - y[i] * foresight.slack
            rule.kxx = rule.supports.kernel.self_value(rows.own[i])
            if rule.moves(dot(z, z, n)):
                foresight.expect_move(foresight.place[i])
    foresight.solve_back()


cdef Py_ssize_t longest_block(Crew crew) noexcept nogil:
    """Rows that a block may have at most; `block_length` says how many the next one should have."""
    return LONGEST_BLOCK if crew.most == 1 else LONGEST_SHARED


cdef Py_ssize_t block_length(Crew crew, bint narrow, Py_ssize_t top, size_t itemsize) noexcept nogil:
    cdef Py_ssize_t room = NARROW_BYTES if narrow and not crew.busy else BLOCK_BYTES
    cdef Py_ssize_t fitting = room // <Py_ssize_t> ((top + 1) * itemsize)
    return min(LONGEST_SHARED if crew.busy else LONGEST_BLOCK, max(SHORTEST_BLOCK, fitting))


cdef int settle(Rule rule, double y, double* k, Rows* rows, Py_ssize_t i, real* row) except -1 nogil:
    """What follows the prediction of row i: the label is seen, and perhaps an update.

    `row` holds its kernel values over the slots; `k` is where the rule gets
    them as float64 (the same place if they are, and then `row` is not looked at).
    """
    cdef Py_ssize_t j
    cdef double own = rows.own[i]
    cdef double elapsed = 0.0
    cdef bint failed = True
    if not isfinite(rule.margin) or not isfinite(own):
        with gil:
            raise_overflow(rule.rounds)
    rule.y = y
    rule.added = -1
    if y * rule.margin <= 0.0:
        rule.mistakes += 1
    if rule.average is not None:
        elapsed = rule.average.elapsed
        rule.average.tick(rule.factor, rule.norm2, rule.supports.kernel.self_value(own))
    try:
        if rule.wants_update():
            if real is float and row != NULL:
                for j in range(rule.supports.top):
                    k[j] = row[j]
            rule.value = rule.margin
            rule.k, rule.rows, rule.row = k, rows, i
            rule.kxx = rule.supports.kernel.self_value(own)
            rule.update()
        failed = False
    finally:
        if failed and rule.average is not None:
            rule.average.elapsed = elapsed
    if rule.journal is not None:
        rule.journal.close(rule.rounds, rule.factor, y * rule.margin <= 0.0)
    rule.rounds += 1
    return 0


cdef bint is_plain(x, cnp.ndarray own):
    """Whether x is a row like our own, that can be copied as it is."""
    cdef cnp.ndarray row
    if not cnp.PyArray_CheckExact(x):
        return False
    row = x
    return (row.ndim == 1 and row.shape[0] == own.shape[0] and cnp.PyArray_TYPE(row) == cnp.PyArray_TYPE(own)
            and cnp.PyArray_ISCARRAY_RO(row))


cdef bint is_finite(x):
    """Whether a row is worth making room for; what is wrong with one that is not, is said later."""
    values = x.data if issparse(x) else np.asarray(x)
    return values.dtype.kind in "fiub" and bool(np.isfinite(values).all())


cdef int check_finite(Block block, real* x, Py_ssize_t n, bint sparse) except -1:
    """Refuse a row with NaN or infinity."""
    cdef Py_ssize_t j
    for j in range(n):
        if not isfinite(x[j]):
            raise ValueError(f"x must be finite; feature {block._features[j] if sparse else j} is {x[j]}")
    return 0


cdef double open_row(Learner learner, real* values) except? -1:
    """The margin of the row that the learner's block holds, leaving its kernel values in `values`."""
    cdef Supports supports = learner.supports
    cdef double margin
    supports.values_of(learner.block, supports.kind_with(learner.block), values, supports.top, None)
    margin = learner.rule.factor * dot(values, learner.rule._coef, supports.top)
    margin += learner.rule.beside(&learner.block.rows, 0)
    if not isfinite(margin) or not isfinite(learner.block.rows.own[0]):
        raise_overflow(learner.rule.rounds)
    return margin


cdef int predict_blocks(Supports supports, Feed feed, const double[::1] coef, double[:, ::1] out, Crew crew,
                        Rule rule, Distances distances, real zero) except -1:
    """Sums of kernel values, weighted by `coef`, with what a rule has beside; or with coef None the values themselves."""
    cdef Py_ssize_t start = 0, b, i, j, top = supports.top, n = feed.n, longest = min(longest_block(crew), feed.n)
    dtype = supports.square.dtype
    cdef Block block = Block(supports.kernel, supports.d, dtype, longest, supports.sparse, True)
    cdef real[:, ::1] cross_block = np.empty((longest, max(top, 1)), dtype)
    cdef real* K = &cross_block[0, 0]
    cdef real* row
    with nogil:
        while start < n:
            b = min(block_length(crew, supports.d <= NARROW, top, sizeof(real)), n - start)
            feed.open(block, start, b)
            if top and distances is not None:
                distances.values_of(start, b, top, K, top)
            elif top:
                supports.values_of(block, supports.kind_with(block), K, top, crew)
            for i in range(b):
                row = K + i * top
                if coef is not None:
                    out[start + i, 0] = dot(row, <double*> &coef[0], top) if top else 0.0
                    if rule is not None:
                        out[start + i, 0] += rule.beside(&block.rows, i)
                else:
                    for j in range(top):
                        out[start + i, j] = row[j]
            start += b
    return 0
