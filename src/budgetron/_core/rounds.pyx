# cython: cdivision=True
"""The learner: a kernel, a slab of supports and a rule, and the rounds that they play.

Batches are played by `blocks`, single rounds by `one_round`, and predictions are computed by `prediction`.
"""

from libc.math cimport fabs, isfinite
from libc.stdint cimport int64_t

from copy import deepcopy

import numpy as np

from budgetron._core.blocks cimport Batch, shares_rows
from budgetron._core.kernel cimport Kernel
from budgetron._core.one_round cimport SingleRound
from budgetron._core.rows cimport BatchRows
from budgetron._core.rule cimport Rule
from budgetron._core.supports cimport Supports

from budgetron._core.prediction import sums, values

cdef Py_ssize_t FIRST_SLOTS = 64


cdef class Learner:
    """One hypothesis that learns from a stream of labelled rows.

    With one output, labels are -1 and +1, and a margin is one number. With an output for each class, the label of a row
    is the index of its class, and its margins are the values of all outputs.

    Parameters
    ----------
    kernel : Kernel
    rule : Rule
    d : int
        Number of features.
    dtype : numpy.float32 or numpy.float64
        Type of the rows and of the kernel values.
    sparse : bool
        Whether the slab stores only the non-zeros of its rows.
    """

    def __init__(self, Kernel kernel, Rule rule, Py_ssize_t d, dtype, bint sparse=False):
        self.kernel, self.rule = kernel, rule
        self.supports = Supports(kernel, d, dtype, rule.capacity() or FIRST_SLOTS, sparse)
        rule.attach(self.supports)
        self.single_round = SingleRound(self.supports)

    def __getstate__(self):
        return {"kernel": self.kernel, "rule": self.rule}

    def __setstate__(self, state):
        self.set_rule(state["kernel"], state["rule"])

    cdef set_rule(self, Kernel kernel, Rule rule):
        self.kernel, self.rule, self.supports = kernel, rule, rule.supports
        self.single_round = SingleRound(self.supports)

    def __reduce__(self):
        return Learner.__new__, (Learner,), self.__getstate__()

    @property
    def nbytes(self):
        """Bytes of rows, coefficients and all other numbers that outlive a call."""
        return self.single_round.nbytes + self.supports.nbytes + self.rule.nbytes

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

    @property
    def n_outputs(self):
        """Number of functions that the hypothesis consists of."""
        return self.rule.outputs

    @property
    def shares_rows(self):
        """Whether each support is a row of the stream, so that learners may share its kernel values."""
        return shares_rows(self.rule)

    def add_output(self, Py_ssize_t place):
        """Add an output that is 0 at this place. The one output of two classes first becomes one for each."""
        self.rule.add_output(place)

    def state(self):
        """Return the state of the hypothesis: numbers, arrays, and tables of these."""
        return self.rule.state()

    def restore_from(self, Learner copy):
        """Return to the state of a copy that was made earlier; the copy must not be used afterwards."""
        self.set_rule(copy.kernel, copy.rule)

    def set_round_count(self, int64_t rounds):
        """Continue as if this many rounds had been played without an update."""
        self.rule.set_round_count(rounds)

    def add_features(self, Py_ssize_t d):
        """Accept rows of d features from now on; the new features were 0 in all rows so far."""
        self.rule.add_features(d)
        self.single_round = SingleRound(self.supports)

    def truncate(self, Py_ssize_t budget):
        """Keep the first `budget` supports, and at most that many from now on; second-order rules only."""
        self.rule.truncate(budget)
        self.single_round = SingleRound(self.supports)

    def mirrored(self, generator=None):
        """Return -f, the hypothesis that opposite labels would have led to, or None if its history is kept.

        If the rule draws random numbers, the copy starts with the state of `generator`.
        """
        if self.average is not None or self.journal is not None:
            return None
        mirrored = deepcopy(self)
        mirrored.rule.mirror()
        if generator is not None and mirrored.rule.generator is not None:
            mirrored.rule.generator.bit_generator.state = generator.bit_generator.state
        return mirrored

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
        """Return whether rows of at most this squared norm cannot make a kernel value or a step overflow."""
        own = self.supports.square[self.supports.order[:self.supports.m]]
        if self.rule.divides and not self.kernel.has_unit_length():
            return False
        if self.rule.gaussian is not None and not self.is_bounded(square):
            return False
        if not np.abs(self.rule.coef).max(initial=0.0) * fabs(self.rule.factor) < 1e20:
            return False
        return self.kernel.is_safe(max(square, own.max(initial=0.0)), self.supports.d, self.supports.single)

    cdef bint is_bounded(self, double square):
        """Return whether squares and products of the coordinates of rows of this squared norm cannot overflow."""
        cdef double scale = self.rule.gaussian.scale ** 2 * max(1.0, self.rule.gaussian.prior)
        return self.kernel.has_unit_length() and square * scale < 1e30

    cpdef bint may_fail(self):
        """Return whether closing the open round might fail: by overflow, or in a kernel that is a Python function."""
        cdef double own = self.kernel.self_value(self.single_round.block.rows.own[0])
        cdef bint sane = own == 0.0 or 1e-60 < own < 1e60
        cdef Py_ssize_t c
        if self.rule.gaussian is not None and not self.is_bounded(self.single_round.square()):
            return True
        for c in range(self.rule.outputs if self.rule.outputs > 1 else 0):
            sane = sane and fabs(self.rule._scores[c]) < 1e60
        return self.kernel.function is not None or not (sane and fabs(self.rule.margin) < 1e60)

    def learn(self, X, y, margins=None, int64_t[::1] sizes=None, double[:, ::1] ledger=None, int threads=1,
              double[::1] importances=None):
        """Play one round per row of X, in order.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, d), in the learner's dtype
            A matrix in canonical form.
        y : ndarray of shape (n,), float64
            Labels, -1.0 or +1.0; with several outputs, the output of each row's class.
        margins, sizes, ledger : arrays to fill, optional
            f_t(x_t) before the label is seen, with several outputs one column for each; the number of supports after
            the round; and one column for each name in the rule's ledger.
        threads : int
            Largest number of threads that compute kernel values.
        importances : ndarray of shape (n,), float64, optional
            Weights of the rows.
        """
        cdef BatchRows rows = BatchRows(X, self.supports.square.dtype)
        cdef Batch batch
        if ledger is not None:
            self.rule.refresh_norm()
        if rows.n == 0:
            return
        if margins is not None:
            if margins.size != rows.n * self.rule.outputs or not margins.flags.c_contiguous:
                raise ValueError("margins must have one number per row and output, row by row")
            margins = margins.reshape(-1)
        if self.rule.outputs > 1 and not ((y >= 0.0) & (y < self.rule.outputs)).all():
            raise ValueError("labels must be outputs of the learner")
        batch = Batch(self, self.rule, rows, y, importances, margins, sizes, ledger, threads)
        self.rule.recording = ledger is not None
        try:
            batch.play()
        finally:
            self.rule.recording = False
            batch.close()

    def extend(self, Py_ssize_t budget):
        """Increase the budget."""
        if not 0 < self.rule.budget <= budget:
            raise ValueError(f"a budget can only grow; it is {self.rule.budget}, got {budget}")
        before = self.rule.budget
        self.rule.set_budget(budget)
        try:
            self.reserve(self.rule.capacity())
        except BaseException:
            self.rule.set_budget(before)
            raise

    def reserve(self, Py_ssize_t capacity):
        """Make room for `capacity` slots in the slab, in the rule and for single rounds."""
        self.supports.reserve(capacity)
        self.rule.reserve(capacity)
        self.single_round = SingleRound(self.supports)

    def play(self, x, double y, double importance=1.0):
        """Play one round on a row of weight `importance`; return the margin before the label y is seen.

        With several outputs, y is the output of the row's class, and the margins of all outputs are returned.
        """
        cdef double first = self.begin(x)
        margin = first if self.rule.outputs == 1 else self.rule.scores.copy()
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
        """Play the first half of a round: check the row and return the margin, or those of all outputs."""
        cdef double margin = self.begin(x)
        return margin if self.rule.outputs == 1 else self.rule.scores.copy()

    def close_round(self, double y, double importance=1.0):
        """Play the second half of the open round: learn from the label y."""
        self.end(y, importance)

    def make_slots(self, Py_ssize_t n):
        """Make room for n more supports if there is no budget."""
        cdef Supports supports = self.supports
        if self.rule.budget == 0 and supports.m + n > supports.capacity:
            self.reserve(max(supports.m + n, supports.capacity * 3 // 2))

    cdef double begin(self, x) except? -1:
        cdef double margin = self.single_round.open(x, self.rule)
        # The slab grows only now, because it must not grow for a row that is refused.
        if self.rule.budget == 0 and self.supports.m == self.supports.capacity and isfinite(margin):
            self.make_slots(1)  # with a new `single_round`
            margin = self.single_round.open(x, self.rule)
        return margin

    cdef int end(self, double y, double importance) except -1:
        if self.rule.outputs > 1 and not 0.0 <= y < self.rule.outputs:
            raise ValueError("the label must be an output of the learner")
        return self.single_round.finish(self.rule, y, importance)

    def decide(self, X, coef=None, int threads=1):
        """Return f(x) for each row of X, or of all outputs. `coef` are other coefficients to use, in slot order."""
        return sums(self.supports, X, self.rule.factor * self.rule.coef if coef is None else coef, threads,
                    self.rule if coef is None else None)

    def kernel_values(self, X):
        """Return k(x, s) for each row x of X and each support s from oldest to newest."""
        return values(self.supports, X)

    def keep_average(self, Py_ssize_t limit=0):
        """Keep the average of the hypotheses from the first round on, with at most `limit` removed supports."""
        self.rule.keep_average(limit)

    def keep_journal(self):
        """Keep every hypothesis from the first round on."""
        self.rule.keep_journal()

    @property
    def average(self):
        """The average of the hypotheses of all rounds, if it is kept."""
        return self.rule.average

    def decide_average(self, X):
        """Return the value of the average of the hypotheses of all rounds at each row of X."""
        cdef Rule rule = self.rule
        now = rule.average.total(rule.coef)
        return (sums(self.supports, X, now) + sums(rule.departed, X, rule.departed_sums)) / rule.rounds

    @property
    def journal(self):
        """The changes of the hypothesis, if they are kept; a support is identified by its round."""
        return self.rule.journal

    def basis(self, X):
        """Return the kernel values of each row of X, one column per support there ever was, in order of rounds."""
        by_slab = [values(slab, X) for slab in (self.supports, self.rule.departed)]
        return np.hstack(by_slab)[:, np.argsort(self._rounds_of_supports(), kind="stable")]

    def columns(self, places):
        """Return the column of `basis` for each place of the journal."""
        return np.searchsorted(np.sort(self._rounds_of_supports()), places)

    def _rounds_of_supports(self):
        return np.concatenate([slab.rounds[slab.order[:slab.m]] for slab in (self.supports, self.rule.departed)])
