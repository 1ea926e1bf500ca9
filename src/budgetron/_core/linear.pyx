# cython: cdivision=True
"""Linear hypotheses: one weight per feature, and rounds over dense or sparse rows.

A linear learner is a subclass of `LinearRule` that defines *when* to update (`needs_update`, by default on a
mistake) and *how* (`update`). It can use these quantities of the current round:

    y, margin        the label (-1 or +1) and w_t . x_t
    importance       the weight of the row; 1 if the caller gave none
    value            w . x_t of the current hypothesis, in the middle of an update
    square           ||x_t||^2
    n, x, place(k)   the features of x_t that may differ from 0: how many, their values,
                     and which they are
    norm()           ||w||

and these operations:

    add(c)                 w += c x_t
    add_vectors(c, v)      w += c v, with a c for each output
    shrink(phi)            w *= phi
    set_weight(i, v)       the stored weight of feature i becomes v; `factor` times it is w_i
    clear()                set all stored weights to 0, before setting them again
    note(NAME, v)          enter v in the ledger

A rule may consist of several functions, one for each class (`outputs`), if it is made with this number. Then `scores`
has w . x_t of each, `target` is the output of the row's class, y is 1, and margin is the score of the target minus the
largest other score. The weights are a matrix with one row per output, and a place i of `set_weight` is one in this
matrix. Such rules may use `add_vectors`, `set_weight` and `shrink`.

With an intercept, the rule learns rows (1, x): a constant feature of 1 comes before those of the row, so that the first
weight is the intercept. A rule sees no difference: d, n, x, place(k) and square are those of (1, x).

A round without an update reads only the features of its row, also with decay and with averages: w is `factor`
times the stored weights, and the average changes with them (see `budgetron._core.history`). Weights and sums are
float64 for rows of any type.
"""

from libc.math cimport INFINITY, NAN, fabs, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

cimport numpy as cnp

from copy import deepcopy

import numpy as np
from scipy.sparse import hstack, issparse

from budgetron._core.kernel_values cimport dot
from budgetron._core.rule cimport NORM

from budgetron._core.rows import one_row, sparse_row
from budgetron._core.rule import ENTRY_NAMES, rebuild
from budgetron._core.supports import writeable

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    void bt_axpy(double, const double*, double*, ptrdiff_t)
    double bt_square_d(const double*, ptrdiff_t)
    double bt_square_f(const float*, ptrdiff_t)

# The common factor is multiplied into the weights before it underflows. With averages this happens earlier, because
# the sum of the hypotheses is a difference that loses as many digits as the factor does.
cdef double SMALLEST_FACTOR = 1e-100, SMALLEST_AVERAGED = 1e-4

# Features must be smaller, so that weights and their squares cannot overflow.
cdef double LARGEST = 1e75

# A norm below this share of its peak has lost too many digits, and is recomputed.
cdef double CANCELLED = 1e-7

cnp.import_array()


cdef class LinearRule:
    """An online algorithm over a weight vector.

    Parameters
    ----------
    d : int
        Number of features.
    single : bool
        Whether rows are float32.
    ledger : tuple of str
        Names of the quantities of the algorithm's proof.
    reach : float
        A number that |c| ||x|| / max(1, ||x||) never exceeds in `add`; 0 if there is none.
    outputs : int
        Number of functions: 1 for two classes, otherwise one per class.
    intercept : bool
        Whether a constant feature of 1 comes before those of the rows. Then `d` of the rule is one more.
    """

    def __cinit__(self, *args, **options):
        self.args, self.options = args, options
        self.factor = 1.0
        self.extra = {}

    def __init__(self, Py_ssize_t d, bint single, *, tuple ledger=("tau", "norm"), double reach=0.0,
                 Py_ssize_t outputs=1, bint intercept=False):
        self.d, self.constant = d + intercept, intercept
        self.single, self.ledger, self.reach, self.outputs = single, ledger, reach, outputs
        self.weights, self.scores = zeros(self.d, outputs), np.zeros(outputs if outputs > 1 else 0)
        # The constant feature is never overwritten. float64 rows with an intercept are copied to `row` to be learned.
        self.row = np.zeros(self.d, np.float32 if single else np.float64)
        self.wide = np.zeros(self.d if single else 0)
        self.row[:self.constant] = self.wide[:self.constant] = 1.0
        self.places, self.shifted = np.zeros(0, np.int32), np.zeros(self.d if intercept else 0, np.int32)
        self.set_pointers()

    cdef void set_pointers(self):
        cdef size_t weights = self.weights.ctypes.data, scores = self.scores.ctypes.data
        cdef size_t shifted = self.shifted.ctypes.data
        self._weights, self._scores, self._shifted = <double*> weights, <double*> scores, <int32_t*> shifted

    cdef double* buffer(self) noexcept:
        """Return where rows are copied to that cannot be learned in place: those of float32, or with an intercept."""
        return <double*> (<cnp.ndarray> (self.wide if self.single else self.row)).data

    def arrays(self):
        """Return all arrays that outlive a round, by name."""
        arrays = {"weights": self.weights} | self.extra
        if self.covariance is not None:
            arrays |= self.covariance.arrays()
        if self.average is not None:
            arrays["lag"] = self.average.lag
        return arrays if self.journal is None else arrays | self.journal.arrays()

    def __getstate__(self):
        return {
            "weights": self.weights, "extra": dict(self.extra), "factor": self.factor, "norm2": self.norm2,
            "peak": self.peak, "rounds": self.rounds, "mistakes": self.mistakes, "updates": self.updates,
            "average": self.average, "journal": self.journal, "covariance": self.covariance,
        }

    def __setstate__(self, state):
        self._set_state(state)

    def _set_state(self, state):
        self.weights = writeable(state["weights"])
        self.extra = {name: writeable(array) for name, array in state["extra"].items()}
        self.factor, self.norm2, self.peak = state["factor"], state["norm2"], state["peak"]
        self.rounds, self.mistakes, self.updates = state["rounds"], state["mistakes"], state["updates"]
        self.average, self.journal, self.covariance = state["average"], state["journal"], state["covariance"]
        self.set_pointers()

    def __reduce__(self):
        return rebuild, (type(self), self.args, self.options, self.__getstate__())

    def state(self):
        """Return all that the hypothesis must remember: numbers, arrays, and tables of these."""
        parts = (Average, Journal, Covariance)
        return {name: value.state() if isinstance(value, parts) else value
                for name, value in self.__getstate__().items()}

    def check_own_state(self, dict extra):
        """Check the arrays in `extra`, whose shapes are right; raise `ValueError` where a value is invalid.

        A rule whose arrays must satisfy more than being moderate overrides this.
        """

    def restore_from(self, LinearRule copy):
        """Return to the state of a copy that was made earlier; the copy must not be used afterwards."""
        self._set_state(copy.__getstate__())

    def set_round_count(self, int64_t rounds):
        """Continue as if this many rounds had been played without an update."""
        self.rounds = rounds

    def add_features(self, Py_ssize_t d):
        """Take rows of d features from now on; the new features were 0 in all rows so far.

        The entries of a new feature have the values that they have in a rule before its first round.
        """
        cdef Py_ssize_t old = self.d
        cdef LinearRule fresh = type(self)(d, *self.args[1:], **self.options)
        self.weights = np.append(self.weights, fresh.weights[..., old:], axis=-1)
        self.extra = {name: np.append(array, fresh.extra[name][old:]) if len(fresh.extra[name]) > len(array) else array
                      for name, array in self.extra.items()}
        if self.covariance is not None:
            self.covariance.add_features(fresh.d)
        if self.average is not None:
            self.average.reserve(fresh.d, self.outputs)
        self.args = (d, *self.args[1:])
        self.d, self.row, self.wide, self.shifted = fresh.d, fresh.row, fresh.wide, fresh.shifted
        self.set_pointers()

    def set_outputs(self, Py_ssize_t outputs):
        """Consist of this many functions from now on. A rule that can extends this by its own arrays."""
        self.outputs = outputs
        self.scores = np.zeros(outputs if outputs > 1 else 0)

    def set_argument(self, Py_ssize_t place, value):
        """Replace an argument of the constructor, with which copies are made."""
        self.args = (*self.args[:place], value, *self.args[place + 1:])

    def add_output(self, Py_ssize_t place):
        """Add a function that is 0. The single function of two classes first becomes one for each of them."""
        if self.average is not None or self.journal is not None:
            raise ValueError("a hypothesis that keeps its past cannot get a new class")
        rows = self.weights if self.outputs > 1 else np.stack([-self.weights, self.weights])
        self.norm2 *= 1.0 if self.outputs > 1 else 2.0
        self.peak *= 1.0 if self.outputs > 1 else 2.0
        self.weights = np.insert(rows, place, 0.0, axis=0)
        self.set_outputs(len(self.weights))
        self.set_pointers()

    def truncate(self, Py_ssize_t budget):
        """Do nothing: linear rules store no rows."""

    def mirrored(self, generator=None):
        """Return -f, the hypothesis that opposite labels would have made, or None if it cannot be known."""
        if self.average is not None or self.journal is not None:
            return None
        mirrored = deepcopy(self)
        np.negative(mirrored.weights, out=mirrored.weights)
        return mirrored

    def set_weights(self, weights):
        """Replace the stored weights; the hypothesis is `factor` times them."""
        self.weights[:] = weights
        flat = self.weights.ravel()
        self.norm2 = self.peak = self.factor * self.factor * float(flat @ flat)

    @property
    def dtype(self):
        """Type of the rows."""
        return self.row.dtype

    @property
    def n_features(self):
        """Number of features of the rows."""
        return self.d - self.constant

    @property
    def n_outputs(self):
        """Number of functions that the hypothesis consists of."""
        return self.outputs

    @property
    def n_supports(self):
        """0: linear rules store no rows."""
        return 0

    @property
    def budget(self):
        """0: linear rules store no rows."""
        return 0

    @property
    def nbytes(self):
        """Bytes of all arrays that outlive a call."""
        arrays = [self.row, self.places, self.shifted, self.wide, self.scores, *self.arrays().values()]
        return sum(array.nbytes for array in arrays)

    def keep_average(self):
        """Keep the average of the hypotheses from the first round on."""
        self.average = Average(self.outputs * self.d)

    def keep_journal(self):
        """Keep every hypothesis from the first round on."""
        cdef Py_ssize_t i
        self.journal = Journal()
        for i in range(self.outputs * self.d):
            if self._weights[i] != 0.0:
                self.journal.note(self.journal_place(i), self._weights[i])
        self.journal.close(-1, self.factor, True)

    def is_safe(self, double square):
        """Return whether rows of at most this squared norm cannot make a margin or a weight overflow."""
        cdef double length = max(1.0, sqrt(square + self.constant))
        return self.reach > 0.0 and (sqrt(self.norm2) + 1e15 * self.reach * length) * length < 1e150

    def may_fail(self):
        """Return whether closing the round that was opened might overflow."""
        cdef char* row = (<cnp.ndarray> self.row).data
        cdef Py_ssize_t n = self.n + self.constant
        cdef double square = bt_square_f(<float*> row, n) if self.single else bt_square_d(<double*> row, n)
        cdef double most = fabs(self.margin) if self.outputs == 1 else float(np.abs(self.scores).max())
        return not (self.norm2 < 1e60 and most < 1e60 and (square == 0.0 or 1e-60 < square < 1e60))

    def learn(self, X, y, margins=None, int64_t[::1] sizes=None, double[:, ::1] ledger=None,
              double[::1] importances=None):
        """Play one round per row of X, in order.

        Parameters
        ----------
        X : ndarray of shape (n, d), C-contiguous, or CSR without duplicates; in the rows' dtype
        y : ndarray of shape (n,), float64
            Labels, -1.0 or +1.0; with several outputs, the output of each row's class.
        margins, sizes, ledger : arrays to fill, optional
            w_t . x_t before the label is seen, with several outputs one column for each; the number of supports, which
            is 0; and one column for each name in the ledger.
        importances : ndarray of shape (n,), float64, optional
            Weights of the rows.
        """
        if sizes is not None:
            sizes[:] = 0
        cdef cnp.ndarray values, places, starts
        values, places, starts = parts(X, self.row.dtype)
        cdef int32_t* index = <int32_t*> places.data if places is not None else NULL
        cdef int64_t* start = <int64_t*> starts.data if starts is not None else NULL
        cdef double[::1] labels = y, flat = None
        cdef Py_ssize_t n = X.shape[0]
        if margins is not None:
            if margins.size != n * self.outputs or not margins.flags.c_contiguous:
                raise ValueError("margins must have one number per row and output, row by row")
            flat = margins.reshape(-1)
        if self.outputs > 1 and not ((y >= 0.0) & (y < self.outputs)).all():
            raise ValueError("labels must be outputs of the rule")
        if self.single:
            play_rows(self, <float*> values.data, index, start, n, labels, flat, ledger, importances)
        else:
            play_rows(self, <double*> values.data, index, start, n, labels, flat, ledger, importances)

    def play(self, x, double y, double importance=1.0):
        """Play one round; return the margin before y was seen, or with several outputs all scores."""
        margin = self.open_round(x)
        self.close_round(y, importance)
        return margin

    def open_round(self, x):
        """Play the first half of a round: check the row and return the margin, or all scores."""
        cdef cnp.ndarray places
        # The row is copied, because x may change before the round is closed.
        if issparse(x):
            places, values = sparse_row(x, self.n_features)
            self.n = len(values)
            self.row[self.constant:self.constant + self.n] = values
            self.places = places
            self.index = <int32_t*> places.data
        else:
            self.row[self.constant:] = one_row(x, self.n_features)
            self.n, self.index = self.d - self.constant, NULL
        cdef char* row = (<cnp.ndarray> self.row).data
        if self.single:
            open_row(self, <float*> row + self.constant)
        else:
            open_row(self, <double*> row + self.constant)
        return self.margin if self.outputs == 1 else self.scores.copy()

    def close_round(self, double y, double importance=1.0):
        """Play the second half of the round that was opened: learn from the label."""
        cdef char* row = (<cnp.ndarray> self.row).data
        if self.outputs > 1 and not 0.0 <= y < self.outputs:
            raise ValueError("the label must be an output of the rule")
        self.importance = importance
        set_label(self, y)
        if self.single:
            finish_round(self, <float*> row + self.constant, self.buffer())
        else:
            finish_round(self, <double*> row + self.constant, self.buffer())

    def decide(self, X, weights=None):
        """Return w . x for each row of X, with several outputs one column for each; with other weights, if given."""
        cdef Py_ssize_t n = X.shape[0], outputs = self.outputs
        cdef cnp.ndarray values, places, starts, margins = np.empty(n * outputs)
        cdef cnp.ndarray used = self.factor * self.weights if weights is None else weights
        values, places, starts = parts(X, self.row.dtype)
        cdef int32_t* index = <int32_t*> places.data if places is not None else NULL
        cdef int64_t* start = <int64_t*> starts.data if starts is not None else NULL
        cdef char* x = values.data
        cdef char* w = used.data
        cdef char* out = margins.data
        with nogil:
            if self.single:
                decide_rows(self, <float*> x, index, start, n, <double*> w, <double*> out)
            else:
                decide_rows(self, <double*> x, index, start, n, <double*> w, <double*> out)
        return margins if outputs == 1 else margins.reshape(n, outputs)

    def averaged(self):
        """Return the average of the weights of all rounds."""
        total = self.average.total(self.weights.ravel()) / self.rounds
        return total.reshape(self.weights.shape)

    def decide_average(self, X):
        """Return the value of the average at each row of X."""
        return self.decide(X, self.averaged())

    def basis(self, X):
        """Return the values that the journal's changes multiply, one column per place, for each row of X."""
        return with_constant(X) if self.constant else X

    def columns(self, places):
        """Return the column of `basis` for each place of the journal.

        With several outputs, column i of `basis` belongs to the places from i times the outputs on, one for each.
        """
        return places

    cdef bint needs_update(self) noexcept nogil:
        return self.y * self.margin <= 0.0

    cdef int update(self) except? -1 nogil:
        return self.add(self.y)

    cdef Py_ssize_t place(self, Py_ssize_t k) noexcept nogil:
        return k if self.index == NULL else self.index[k]

    cdef double norm(self) noexcept nogil:
        return sqrt(self.norm2) if self.norm2 > 0.0 else 0.0

    cdef int add(self, double c) except? -1 nogil:
        cdef double step = c / self.factor, after = self.norm2 + c * (2.0 * self.value + c * self.square)
        cdef Py_ssize_t k
        self.check(step, after)
        if self.index == NULL:
            bt_axpy(step, self.x, self._weights, self.n)
            if self.average is not None:
                self.average.note_changes(step, self.x, 0, self.n)
        else:
            for k in range(self.n):
                self._weights[self.index[k]] += step * self.x[k]
            if self.average is not None:
                for k in range(self.n):
                    self.average.note_change(self.index[k], step * self.x[k])
        if self.journal is not None:
            for k in range(self.n):
                if self.x[k] != 0.0:
                    self.journal.note(self.place(k), step * self.x[k])
        self.moved(after)
        self.value += c * self.square
        return 1

    cdef int add_vectors(self, double* steps, double* direction) except? -1 nogil:
        cdef double step, along, after = self.norm2, square = bt_square_d(direction, self.d), total = 0.0
        cdef Py_ssize_t c, i
        for c in range(self.outputs):
            along = self.factor * bt_dot_d(direction, self._weights + c * self.d, self.d)
            after += steps[c] * (2.0 * along + steps[c] * square)
            total += steps[c] / self.factor
        self.check(total, after)
        for c in range(self.outputs):
            step = steps[c] / self.factor
            if step == 0.0:
                continue
            bt_axpy(step, direction, self._weights + c * self.d, self.d)
            if self.average is not None:
                self.average.note_changes(step, direction, c * self.d, self.d)
            if self.journal is not None:
                for i in range(self.d):
                    self.journal.note(i * self.outputs + c, step * direction[i])
        self.moved(after)
        return 1

    cdef int check(self, double step, double after) except -1 nogil:
        if not isfinite(step) or not isfinite(after):
            with gil:
                raise ValueError(f"the step of round {self.rounds} is not finite: scale the features")
        return 0

    cdef void moved(self, double norm2) noexcept nogil:
        """Set ||w||^2 after an update; recompute it if the sums may have cancelled."""
        self.norm2 = norm2
        self.peak = max(self.peak, norm2)
        if norm2 < CANCELLED * self.peak:
            self.norm2 = self.peak = self.factor * self.factor * bt_square_d(self._weights, self.outputs * self.d)
        self.updated = True

    cdef int shrink(self, double phi) except? -1 nogil:
        cdef Py_ssize_t i
        self.factor *= phi
        self.norm2 *= phi * phi
        self.peak *= phi * phi
        self.value *= phi
        if fabs(self.factor) < (SMALLEST_FACTOR if self.average is None else SMALLEST_AVERAGED):
            if self.average is not None:
                self.average.fold_weights(self._weights, self.outputs * self.d)
            if self.journal is not None:
                self.journal.rescale(self.factor)
            for i in range(self.outputs * self.d):
                self._weights[i] *= self.factor
            self.factor = 1.0
        return 1

    cdef int set_weight(self, Py_ssize_t place, double weight) except? -1 nogil:
        cdef double delta = weight - self._weights[place]
        if self.average is not None:
            self.average.note_change(place, delta)
        if self.journal is not None:
            self.journal.note(self.journal_place(place), delta)
        self._weights[place] = weight
        self.updated = True
        return 1

    cdef int clear(self) except? -1 nogil:
        if self.average is not None:
            self.average.fold_weights(self._weights, self.outputs * self.d)
        if self.journal is not None:
            self.journal.clear()
        memset(self._weights, 0, self.outputs * self.d * sizeof(double))
        return 1

    cdef Py_ssize_t journal_place(self, Py_ssize_t place) noexcept nogil:
        """Return the place in the journal of a place in the weights; it stays when features are added."""
        return place if self.outputs == 1 else place % self.d * self.outputs + place // self.d

    cdef void note(self, Entry name, double value) noexcept nogil:
        self.entry[<int> name] = value


def parts(X, dtype):
    """Return the values, places and starts of sparse rows; of dense rows only the values."""
    if not issparse(X):
        return np.ascontiguousarray(X, dtype), None, None
    return (
        np.ascontiguousarray(X.data, dtype),
        np.ascontiguousarray(X.indices, np.int32),
        np.ascontiguousarray(X.indptr, np.int64),
    )


cdef inline double dot_row(real* x, int32_t* index, Py_ssize_t n, double* weights) noexcept nogil:
    # Two sums, so that an addition need not wait for the previous one.
    cdef double even = 0.0, odd = 0.0
    cdef Py_ssize_t k
    if index == NULL:
        return dot(x, weights, n)
    for k in range(0, n - 1, 2):
        even += x[k] * weights[index[k]]
        odd += x[k + 1] * weights[index[k + 1]]
    if n % 2:
        even += x[n - 1] * weights[index[n - 1]]
    return even + odd


def with_constant(X):
    """Return rows, dense or sparse, with a constant feature of 1 before the others."""
    ones = np.ones((X.shape[0], 1), X.dtype)
    return hstack([ones, X], format="csr") if issparse(X) else np.hstack([ones, X])


def zeros(Py_ssize_t d, Py_ssize_t outputs):
    """Return weights that are 0."""
    return np.zeros(d) if outputs == 1 else np.zeros((outputs, d))


cdef inline double product(LinearRule rule, real* x, int32_t* index, Py_ssize_t n, double* weights) noexcept nogil:
    """Return the product of the weights of one output and a row; the intercept is the first weight."""
    if rule.constant:
        return weights[0] + dot_row(x, index, n, weights + 1)
    return dot_row(x, index, n, weights)


cdef bint score_row(LinearRule rule, real* x) noexcept nogil:
    """Compute the margin of a row, or with several outputs the scores; return whether they are finite.

    `rule.n` and `rule.index` are those of the row without the constant feature.
    """
    cdef Py_ssize_t c
    cdef bint finite = True
    if rule.outputs == 1:
        rule.margin = rule.factor * product(rule, x, rule.index, rule.n, rule._weights)
        return isfinite(rule.margin)
    for c in range(rule.outputs):
        rule._scores[c] = rule.factor * product(rule, x, rule.index, rule.n, rule._weights + c * rule.d)
        finite = finite and isfinite(rule._scores[c])
    return finite


cdef void set_label(LinearRule rule, double y) noexcept nogil:
    """Set the label of a row whose scores are known; with several outputs, it is the output of the row's class."""
    cdef Py_ssize_t c
    cdef double other = -INFINITY
    rule.y = y
    if rule.outputs > 1:
        rule.y, rule.target = 1.0, <Py_ssize_t> y
        for c in range(rule.outputs):
            if c != rule.target:
                other = max(other, rule._scores[c])
        rule.margin = rule._scores[rule.target] - other


cdef raise_overflow(int64_t round_number):
    raise ValueError(f"the margin of round {round_number} is not finite: scale the features")


cdef void set_row(LinearRule rule, real* x, double* wide) noexcept nogil:
    """Let the rule learn a row: as it is, or as a copy in `wide` if it is float32 or gets a constant feature."""
    cdef Py_ssize_t k
    cdef int32_t* shifted
    cdef double* values = wide + rule.constant
    if real is double:
        rule.x = x
    if real is float or rule.constant and <void*> x != <void*> values:
        for k in range(rule.n):
            values[k] = x[k]
    if real is float or rule.constant:
        rule.x = wide
    if rule.constant:
        if rule.index != NULL:
            shifted = rule._shifted  # the place of the constant feature is 0
            for k in range(rule.n):
                shifted[k + 1] = rule.index[k] + 1
            rule.index = shifted
        rule.n += 1
    rule.square = bt_square_d(rule.x, rule.n)


cdef int finish_round(LinearRule rule, real* x, double* wide) except -1 nogil:
    """Finish a round after the prediction: see the label and update if `needs_update`.

    `wide` is the rule's `buffer`. `rule.n` and `rule.index` must be set again before the next round.
    """
    cdef double elapsed = 0.0
    cdef bint mistake = rule.y * rule.margin <= 0.0, learns = rule.needs_update(), failed = True
    rule.updated = False
    if rule.average is not None or learns:
        set_row(rule, x, wide)
    if rule.average is not None:
        elapsed = rule.average.elapsed
        rule.average.add_round(rule.factor, rule.norm2, rule.square)
    try:
        if learns:
            rule.value = rule.margin - rule.offset
            rule.update()
        failed = False
    finally:
        if failed and rule.average is not None:
            rule.average.elapsed = elapsed
    if rule.journal is not None:
        rule.journal.close(rule.rounds, rule.factor, mistake)
    rule.mistakes += mistake
    rule.updates += rule.updated
    rule.rounds += 1
    return 0


cdef int play_rows(LinearRule rule, real* values, int32_t* places, int64_t* starts, Py_ssize_t n,
                   double[::1] y, double[::1] margins, double[:, ::1] ledger, double[::1] importances) except -1:
    """Play all rounds of a batch."""
    cdef bint recording = ledger is not None
    cdef int[::1] columns = np.array([ENTRY_NAMES[name] for name in rule.ledger], np.intc)
    cdef double* wide = rule.buffer()
    cdef real* x
    cdef Py_ssize_t i, j, d = rule.d - rule.constant
    with nogil:
        for i in range(n):
            if places == NULL:
                x, rule.index, rule.n = values + i * d, NULL, d
            else:
                x, rule.index, rule.n = values + starts[i], places + starts[i], starts[i + 1] - starts[i]
            if not score_row(rule, x):
                with gil:
                    raise_overflow(rule.rounds)
            set_label(rule, y[i])
            rule.importance = 1.0 if importances is None else importances[i]
            if margins is not None and rule.outputs == 1:
                margins[i] = rule.margin
            elif margins is not None:
                for j in range(rule.outputs):
                    margins[i * rule.outputs + j] = rule._scores[j]
            if recording:
                for j in range(<int> ENTRIES):
                    rule.entry[j] = NAN
            finish_round(rule, x, wide)
            if recording:
                rule.entry[<int> NORM] = rule.norm()
                for j in range(columns.shape[0]):
                    ledger[i, j] = rule.entry[columns[j]]
    return 0


cdef int open_row(LinearRule rule, real* x) except -1:
    """Compute the scores of the row of a single round, after checking it."""
    cdef Py_ssize_t k
    for k in range(rule.n):
        if not fabs(x[k]) < LARGEST:
            if isfinite(x[k]):
                raise ValueError(f"absolute values of features must be below {LARGEST:g}; scale them")
            raise ValueError(f"x must be finite; feature {rule.place(k)} is {x[k]}")
    if not score_row(rule, x):
        raise_overflow(rule.rounds)
    return 0


cdef void decide_rows(LinearRule rule, real* values, int32_t* places, int64_t* starts, Py_ssize_t n,
                      double* weights, double* out) noexcept nogil:
    cdef Py_ssize_t i, c, outputs = rule.outputs, d = rule.d - rule.constant
    for i in range(n):
        for c in range(outputs):
            if places == NULL:
                out[i * outputs + c] = product(rule, values + i * d, NULL, d, weights + c * rule.d)
            else:
                out[i * outputs + c] = product(rule, values + starts[i], places + starts[i],
                                               starts[i + 1] - starts[i], weights + c * rule.d)
