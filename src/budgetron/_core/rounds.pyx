# cython: cdivision=True
"""The rounds: blocks with lookahead, single rounds, and prediction.

`Learner` joins the three rooms, kernel, slab and rule, and plays rounds. What a
batch does is told at the head of the package.
"""

from libc.math cimport NAN, fabs, isfinite
from libc.stdint cimport int64_t

cimport numpy as cnp

import numpy as np
from scipy.sparse import issparse

from budgetron._core.kernel cimport Kernel, Kind, among, cross, dot, finish, kind_for, real, self_values, squares
from budgetron._core.rule cimport ENTRIES, NORM, Q, REMOVED, Rule
from budgetron._core.supports cimport Supports

from budgetron._core.rule import ENTRY_NAMES

# A block's kernel values should stay in the cache; shorter ones waste the matrix product's packing.
cdef Py_ssize_t LONGEST_BLOCK = 128, SHORTEST_BLOCK = 16
cdef Py_ssize_t BLOCK_BYTES = 1 << 21
cdef Py_ssize_t FIRST_SLOTS = 64

cnp.import_array()


cpdef cnp.ndarray one_row(x, Py_ssize_t d):
    """The row x as an array of d numbers; it may also be the only row of an array."""
    cdef cnp.ndarray row
    if not isinstance(x, np.ndarray):
        x = x.toarray().reshape(-1) if issparse(x) else np.asarray(x)
    row = x if x.ndim != 2 or x.shape[0] != 1 else x[0]
    if row.ndim != 1 or row.shape[0] != d:
        raise ValueError(f"x must be one row of {d} features; got an array of shape {x.shape}")
    if row.dtype.kind not in "fiub":
        raise ValueError(f"x must hold numbers; got an array of dtype {row.dtype}")
    return row


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
    """

    def __init__(self, Kernel kernel, Rule rule, Py_ssize_t d, dtype):
        self.kernel, self.rule = kernel, rule
        self.supports = Supports(kernel, d, dtype, rule.capacity() or FIRST_SLOTS)
        rule.attach(self.supports)
        self.row = np.zeros(d, dtype)
        self.make_rows()

    def __getstate__(self):
        return {"kernel": self.kernel, "rule": self.rule}

    def __setstate__(self, state):
        self.kernel, self.rule = state["kernel"], state["rule"]
        self.supports = self.rule.supports
        self.row = np.zeros(self.supports.d, self.supports.rows.dtype)
        self.make_rows()

    cdef make_rows(self):
        self.values = np.zeros(self.supports.capacity, self.row.dtype)
        self.wide = np.zeros(self.supports.capacity if self.supports.single else 0)

    def __reduce__(self):
        return Learner.__new__, (Learner,), self.__getstate__()

    @property
    def nbytes(self):
        """Bytes of all arrays that outlive a call."""
        arrays = [self.row, self.values, self.wide, *self.supports.arrays().values(), *self.rule.arrays().values()]
        return sum(array.nbytes for array in arrays)

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
        return self.kernel.is_safe(max(square, own.max(initial=0.0)), self.supports.d, self.supports.single)

    def may_fail(self):
        """Whether the second half of the round that was opened might overflow, or call a kernel that fails."""
        own = self.kernel.self_value(self.row_own)
        sane = own == 0.0 or 1e-60 < own < 1e60
        return self.kernel.function is not None or not (sane and fabs(self.rule.margin) < 1e60)

    def learn(self, X, y, double[::1] margins=None, int64_t[::1] sizes=None, double[:, ::1] ledger=None):
        """Play one round per row of X, in order.

        Parameters
        ----------
        X : ndarray of shape (n, d), C-contiguous, in the learner's dtype
        y : ndarray of shape (n,), float64
            Labels, -1.0 or +1.0.
        margins, sizes, ledger : arrays to fill, optional
            f_t(x_t) before the label; supports after the round; and one column
            for each name in the rule's ledger.
        """
        cdef double[::1] labels = y
        cdef const double[:, ::1] rows
        cdef const float[:, ::1] single
        if ledger is not None:
            self.rule.refresh_norm()
        self.rule.recording = ledger is not None
        try:
            if self.supports.single:
                single = X
                if len(single):
                    play_blocks(self, <float*> &single[0, 0], len(single), &labels[0], margins, sizes, ledger)
            else:
                rows = X
                if len(rows):
                    play_blocks(self, <double*> &rows[0, 0], len(rows), &labels[0], margins, sizes, ledger)
        finally:
            self.rule.recording = False

    def reserve(self, Py_ssize_t capacity):
        """Room for `capacity` slots in the slab, in the rule and for single rounds."""
        self.supports.reserve(capacity)
        self.rule.reserve(capacity)
        self.make_rows()

    def play(self, x, double y):
        """One round on one row: the margin before y is seen; then learn."""
        cdef double margin = self.open_round(x)
        self.close_round(y)
        return margin

    def open_round(self, x):
        """The first half of a round: check the row and predict."""
        cdef Py_ssize_t d = self.supports.d
        cdef Rule rule = self.rule
        row = one_row(x, d)
        if rule.capacity() == 0 and self.supports.m == self.supports.capacity:
            self.reserve(self.supports.capacity * 3 // 2)
        # Into a row of our own: a round may end long after x was changed.
        cdef cnp.ndarray own = self.row
        own[:] = row
        if self.supports.single:
            rule.margin = open_row(self, <float*> own.data, <float*> (<cnp.ndarray> self.values).data)
        else:
            rule.margin = open_row(self, <double*> own.data, <double*> (<cnp.ndarray> self.values).data)
        return rule.margin

    def close_round(self, double y):
        """The second half: the label is seen, and perhaps an update follows."""
        cdef Rule rule = self.rule
        cdef char* x = (<cnp.ndarray> self.row).data
        cdef char* values = (<cnp.ndarray> self.values).data
        cdef char* wide = (<cnp.ndarray> self.wide).data
        if self.supports.single:
            settle(rule, y, <double*> wide, <float*> x, self.row_square, self.row_own, <float*> values)
        else:
            settle(rule, y, <double*> values, <double*> x, self.row_square, self.row_own, <double*> values)

    def decide(self, X, coef=None):
        """f(x) for each row of X; with other coefficients, in slot order, if given."""
        return sums(self.supports, X, self.rule.factor * self.rule.coef if coef is None else coef)

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


def sums(Supports supports, X, const double[::1] coef):
    """Kernel values of each row of X over the slots, summed with these coefficients."""
    out = np.zeros((len(X), 1))
    in_blocks(supports, X, coef, out)
    return out[:, 0]


def values(Supports supports, X):
    """k(x, s) for each row x of X and each support s from oldest to newest."""
    out = np.zeros((len(X), supports.top))
    in_blocks(supports, X, None, out)
    return out[:, supports.order[:supports.m]]


cdef in_blocks(Supports supports, X, const double[::1] coef, double[:, ::1] out):
    cdef const double[:, ::1] rows
    cdef const float[:, ::1] single
    if len(X) == 0 or supports.top == 0:
        return
    if supports.single:
        single = X
        predict_blocks(supports, <float*> &single[0, 0], len(X), coef, out)
    else:
        rows = X
        predict_blocks(supports, <double*> &rows[0, 0], len(X), coef, out)


cdef raise_overflow(int64_t round_number):
    raise ValueError(
        f"the margin of round {round_number} is not finite: kernel values overflow; "
        "scale the features or choose smaller kernel parameters"
    )


cdef int play_blocks(Learner learner, real* X, Py_ssize_t n, double* y, double[::1] margins,
                     int64_t[::1] sizes, double[:, ::1] ledger) except -1:
    """All rounds of a batch, block by block."""
    cdef Kernel kernel = learner.kernel
    cdef Rule rule = learner.rule
    cdef Supports supports = learner.supports
    cdef Py_ssize_t d = supports.d, start = 0, b, i, j, ld = 0
    cdef bint growing = rule.capacity() == 0
    cdef bint recording = ledger is not None
    dtype = learner.row.dtype
    cdef int[::1] columns = np.array([ENTRY_NAMES[name] for name in rule.ledger], np.intc)
    cdef real[:, ::1] among_block = np.empty((LONGEST_BLOCK, LONGEST_BLOCK), dtype), cross_block
    cdef real[::1] square = np.empty(LONGEST_BLOCK, dtype)
    cdef double[::1] own = np.empty(LONGEST_BLOCK), wide
    cdef real* C = &among_block[0, 0]
    cdef real* K = NULL
    cdef real* row
    cdef double* k
    cdef Kind kind

    with nogil:
        while start < n:
            b = min(block_length(supports.top, sizeof(real)), n - start)
            if ld < supports.capacity or (growing and supports.m + b > supports.capacity):
                with gil:
                    if growing and supports.m + b > supports.capacity:
                        learner.reserve(max(supports.m + b, supports.capacity * 3 // 2))
                    ld = supports.capacity
                    cross_block = np.empty((LONGEST_BLOCK, ld), dtype)
                    wide = np.empty(ld)
                K = &cross_block[0, 0]

            # Everything that can be known before the labels, as matrix products.
            squares(X, b, d, &square[0])
            kind = kind_for(kernel, &square[0], b, <real*> supports._square, supports.top)
            cross(kernel, kind, X, b, <real*> supports._rows, supports.top, d, K, ld)
            among(kernel, kind, X, b, d, C, LONGEST_BLOCK)
            self_values(kernel, X, b, d, &square[0], &own[0], C, LONGEST_BLOCK)

            # The rounds, one after the other, on those numbers.
            for i in range(b):
                row = K + i * ld
                finish(kernel, kind, row, square[i], own[i], <real*> supports._square, supports._own, supports.top)
                rule.margin = rule.factor * dot(row, rule._coef, supports.top)
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
                settle(rule, y[start + i], k, X + i * d, square[i], own[i], row)
                if rule.added >= 0:
                    for j in range(i + 1, b):
                        K[j * ld + rule.added] = C[i * LONGEST_BLOCK + j]
                if sizes is not None:
                    sizes[start + i] = supports.m
                if recording:
                    rule.entry[<int> NORM] = rule.norm()
                    for j in range(columns.shape[0]):
                        ledger[start + i, j] = rule.entry[columns[j]]
            X += b * d
            start += b
    return 0


cdef Py_ssize_t longest_block() noexcept nogil:
    return LONGEST_BLOCK


cdef Py_ssize_t block_length(Py_ssize_t top, size_t itemsize) noexcept nogil:
    cdef Py_ssize_t fitting = BLOCK_BYTES // <Py_ssize_t> ((top + 1) * itemsize)
    return min(LONGEST_BLOCK, max(SHORTEST_BLOCK, fitting))


cdef int settle(Rule rule, double y, double* k, real* x, double square, double own,
                real* row) except -1 nogil:
    """What follows a prediction: the label is seen, and perhaps an update.

    `row` holds the kernel values of x over the slots; `k` is where the rule gets
    them as float64 (the same place if they are, and then `row` is not looked at).
    """
    cdef Py_ssize_t j
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
            rule.k, rule.x, rule.x_square, rule.x_own = k, x, square, own
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


cdef double open_row(Learner learner, real* x, real* values) except? -1:
    """The margin of one row, leaving its kernel values in `values`."""
    cdef Supports supports = learner.supports
    cdef Py_ssize_t j
    cdef real square
    cdef double margin
    cdef Kind kind
    for j in range(supports.d):
        if not isfinite(x[j]):
            raise ValueError(f"x must be finite; feature {j} is {x[j]}")
    squares(x, 1, supports.d, &square)
    self_values(learner.kernel, x, 1, supports.d, &square, &learner.row_own, <real*> NULL, 0)
    learner.row_square = square
    kind = kind_for(learner.kernel, &square, 1, <real*> supports._square, supports.top)
    cross(learner.kernel, kind, x, 1, <real*> supports._rows, supports.top, supports.d, values, supports.top)
    finish(learner.kernel, kind, values, square, learner.row_own, <real*> supports._square, supports._own,
           supports.top)
    margin = learner.rule.factor * dot(values, learner.rule._coef, supports.top)
    if not isfinite(margin) or not isfinite(learner.row_own):
        raise_overflow(learner.rule.rounds)
    return margin


cdef int predict_blocks(Supports supports, real* X, Py_ssize_t n, const double[::1] coef,
                        double[:, ::1] out) except -1:
    """Sums of kernel values, weighted by `coef`, or with coef None the values themselves."""
    cdef Kernel kernel = supports.kernel
    cdef Py_ssize_t d = supports.d, start = 0, b, i, j, top = supports.top
    dtype = supports.rows.dtype
    cdef real[:, ::1] block = np.empty((LONGEST_BLOCK, top), dtype)
    cdef real[::1] square = np.empty(LONGEST_BLOCK, dtype)
    cdef double[::1] own = np.zeros(LONGEST_BLOCK)
    cdef real* K = &block[0, 0]
    cdef real* row
    cdef Kind kind
    cdef bint divided = kernel.normalized  # elsewhere self values do not matter
    with nogil:
        while start < n:
            b = min(block_length(top, sizeof(real)), n - start)
            squares(X, b, d, &square[0])
            if divided:
                self_values(kernel, X, b, d, &square[0], &own[0], <real*> NULL, 0)
            kind = kind_for(kernel, &square[0], b, <real*> supports._square, top)
            cross(kernel, kind, X, b, <real*> supports._rows, top, d, K, top)
            for i in range(b):
                row = K + i * top
                finish(kernel, kind, row, square[i], own[i], <real*> supports._square, supports._own, top)
                if coef is not None:
                    out[start + i, 0] = dot(row, <double*> &coef[0], top)
                else:
                    for j in range(top):
                        out[start + i, j] = row[j]
            X += b * d
            start += b
    return 0
