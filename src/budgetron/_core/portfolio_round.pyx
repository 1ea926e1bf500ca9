# cython: cdivision=True
"""One round of a portfolio in compiled code: all experts and the combination see one row.

The result is the same as that of a batch of one row (`budgetron.portfolio._portfolio`), without its cost. A round is
played here only if it is an ordinary one: no expert starts, ends or needs more room after it, and no number can
overflow. Otherwise nothing has changed, and the caller plays it as a batch.

No Python code runs between the first change and the last one, so that an interrupt cannot leave a round half done.
"""

from libc.math cimport fabs
from libc.stdint cimport int64_t

cimport numpy as cnp

import numpy as np

from budgetron._core.calibration cimport see
from budgetron._core.combination cimport Combination, learn_label, predict
from budgetron._core.kernel_values cimport real
from budgetron._core.linear_experts cimport LinearExperts
from budgetron._core.one_round cimport is_plain
from budgetron._core.rounds cimport Learner
from budgetron._core.scaling cimport scaled

cnp.import_array()

# A row is refused if its squared norm, a score of an expert, or its weight is not below these.
cdef double LARGEST_SQUARE = 1e30, LARGEST_SCORE = 1e60, LARGEST_WEIGHT = 1e6


cdef class PortfolioRound:
    """Plays single rounds of a portfolio, as long as its experts stay the same.

    Parameters
    ----------
    portfolio : Portfolio
    chunk : int
        After each round whose number is a multiple of this, the schedule of the pool must run.
    spare : int
        Experts that grow must have room for more supports than this.
    """

    cdef object portfolio, pool, scaler
    cdef LinearExperts first_order
    cdef Combination combination
    # The experts with a hypothesis: objects, hypotheses, places, and factors of their scores
    cdef list experts, learners
    cdef int64_t[::1] places
    cdef double[::1] factors
    # For each of them, which row it learns: 0 raw, 1 standardised, 2 or more with scales; and the scaled rows
    cdef int64_t[::1] forms
    cdef list scales, scaled_rows
    cdef double[::1] first_factors
    cdef cnp.uint8_t[::1] active
    # Of the round: the standardised row after a constant, and the same without the constant; scores; margins
    cdef object with_constant, standardised
    cdef double[:, ::1] scores
    cdef double[::1] margins
    cdef double[::1] repeated  # scores of the first-order experts, computed again when they learn
    cdef int64_t chunk, spare
    cdef Py_ssize_t d
    cdef int type_number

    def __init__(self, portfolio, int64_t chunk, int64_t spare, first_factors):
        pool = portfolio.pool
        self.portfolio, self.pool, self.scaler, self.chunk, self.spare = portfolio, pool, pool.scaler, chunk, spare
        self.first_order, self.combination, self.d = pool.first_order_experts, portfolio.combination, pool.d
        dtype = pool.row.dtype
        self.type_number = cnp.NPY_FLOAT32 if dtype == np.float32 else cnp.NPY_FLOAT64
        self.with_constant = np.ones(self.d + 1, dtype)
        self.standardised = self.with_constant[1:]
        learning = [(i, expert) for i, expert in enumerate(pool.experts) if expert.learner is not None]
        self.experts, self.learners = [expert for _, expert in learning], [expert.learner for _, expert in learning]
        self.places = np.array([i for i, _ in learning], np.int64)
        self.factors = np.array([expert.score_factor for _, expert in learning], np.float64)
        self.first_factors = np.ascontiguousarray(first_factors, np.float64).ravel()
        self.forms, self.scales, self.scaled_rows = np.zeros(len(learning), np.int64), [], []
        for k, (_, expert) in enumerate(learning):
            if len(expert.scales):
                self.forms[k] = 2 + len(self.scales)
                self.scales.append(expert.scales.astype(dtype))
                self.scaled_rows.append(np.zeros(self.d, dtype))
            elif expert.design.standardised:
                self.forms[k] = 1
        self.active = np.array([expert.active for expert in pool.experts], np.uint8)
        self.scores = np.zeros((len(pool.experts), pool.outputs))
        self.margins = np.zeros(pool.outputs)
        self.repeated = np.zeros(self.first_order.n_experts * pool.outputs)

    @staticmethod
    def is_possible(portfolio):
        """Return whether single rounds of a portfolio can be played here: its rows must be dense."""
        pool = portfolio.pool
        learners = [expert.learner for expert in pool.experts if expert.learner is not None]
        return pool.scaler is not None and not any(learner.supports.sparse for learner in learners)

    def play(self, x, double y, double weight, double[::1] sigmoid):
        """Play a round; return the margins before the label was seen, or None if it must be played as a batch.

        Unless the round `is_ordinary`, the schedule of the pool must run after it.

        Parameters
        ----------
        x : ndarray of shape (d,)
        y : float
            -1 or +1, or the index of the class if there are more than two.
        weight : float
            The weight of the row.
        sigmoid : ndarray
            Learns from the margins (`calibration`).
        """
        cdef Py_ssize_t k, outputs = self.combination.outputs
        cdef cnp.ndarray row
        cdef bint ready
        if not is_plain(x, self.d, self.type_number) or not weight < LARGEST_WEIGHT:
            return None
        if self.pool.seen < len(self.pool.reservoir):
            return None
        row = x
        if self.type_number == cnp.NPY_FLOAT32:
            ready = self.standardise(<float*> row.data)
        else:
            ready = self.standardise(<double*> row.data)
        if not ready or not self.predict_row(row):
            return None
        self.learn_row(row, y, weight)
        for k in range(outputs):
            see(&sigmoid[0], self.margins[k], (y > 0.0) if outputs == 1 else (<Py_ssize_t> y == k))
        result = self.margins[0] if outputs == 1 else np.array(self.margins)
        self.exchange_supports()
        return result

    def is_ordinary(self):
        """Return whether the next round is followed by no event of the schedule, and no expert may need more room."""
        cdef int64_t after = self.pool.seen + 1
        if after % self.chunk == 0:
            return False
        for expert in self.experts:
            if expert.room <= self.spare:
                return False
        return True

    cdef bint standardise(self, real* x) except -1:
        """Compute all forms of the row; return whether its numbers are of moderate size."""
        cdef real* out = <real*> (<cnp.ndarray> self.standardised).data
        cdef double* mean = <double*> (<cnp.ndarray> self.scaler.mean).data
        cdef double* spread = <double*> (<cnp.ndarray> self.scaler.spread).data
        cdef int64_t count = self.scaler.count
        cdef double share = 1.0 / (count + 1), center, square, total = 0.0
        cdef Py_ssize_t j, k
        cdef real* factor
        cdef real* target
        for j in range(self.d):
            total += <double> x[j] * x[j]
            center, square = mean[j], spread[j]
            out[j] = <real> scaled(x[j], &center, &square, share)
        for k in range(len(self.scales)):
            factor = <real*> (<cnp.ndarray> self.scales[k]).data
            target = <real*> (<cnp.ndarray> self.scaled_rows[k]).data
            for j in range(self.d):
                target[j] = out[j] * factor[j]
        return total < LARGEST_SQUARE  # False for NaN

    cdef bint predict_row(self, cnp.ndarray row) except -1:
        """Fill the scores of all experts; return whether learning the row cannot fail."""
        cdef Py_ssize_t k, c, place, outputs = self.combination.outputs
        cdef Learner learner
        cdef double score
        self.first_order.play_row(self.constant(), 0.0, 1.0, False, &self.scores[0, 0])
        for k in range(self.first_order.n_experts):
            for c in range(outputs):
                self.scores[k, c] = self.first_factors[k] * self.scores[k, c]
                if not fabs(self.scores[k, c]) < LARGEST_SCORE:
                    return False
        for k in range(len(self.learners)):
            learner, place = self.learners[k], self.places[k]
            learner.begin(self.form(k, row))
            if learner.may_fail():
                return False
            for c in range(outputs):
                score = learner.rule.margin if outputs == 1 else learner.rule._scores[c]
                self.scores[place, c] = self.factors[k] * score
        return True

    cdef void* constant(self):
        return (<cnp.ndarray> self.with_constant).data

    cdef object form(self, Py_ssize_t k, cnp.ndarray row):
        """Return the row as the expert in place k of the list learns it."""
        if self.forms[k] == 0:
            return row
        return self.standardised if self.forms[k] == 1 else self.scaled_rows[self.forms[k] - 2]

    cdef int learn_row(self, cnp.ndarray row, double y, double weight) except -1:
        """Let all experts and the combination learn the row, and count the round."""
        cdef Py_ssize_t k, label = <Py_ssize_t> y if self.combination.outputs > 1 else y > 0.0
        cdef Learner learner
        if self.type_number == cnp.NPY_FLOAT32:
            self.advance(<float*> row.data)
        else:
            self.advance(<double*> row.data)
        self.first_order.play_row(self.constant(), y, weight, True, &self.repeated[0])
        for k in range(len(self.learners)):
            learner = self.learners[k]
            learner.single_round.learn_label(learner.rule, y, weight)
        predict(self.combination, &self.scores[0, 0], &self.active[0], self.combination.recency, &self.margins[0])
        learn_label(self.combination, label, weight)
        self.count(label, weight)
        self.portfolio.rounds += 1
        self.portfolio.mistakes += self.is_mistake(label)
        self.keep_row(row, y, weight)
        return 0

    cdef int advance(self, real* x) except -1:
        """Add the row to the means and spreads of the features."""
        cdef double* mean = <double*> (<cnp.ndarray> self.scaler.mean).data
        cdef double* spread = <double*> (<cnp.ndarray> self.scaler.spread).data
        cdef int64_t count = self.scaler.count
        cdef double share = 1.0 / (count + 1)
        cdef Py_ssize_t j
        for j in range(self.d):
            scaled(x[j], &mean[j], &spread[j], share)
        self.scaler.count = count + 1
        return 0

    cdef int count(self, Py_ssize_t label, double weight) except -1:
        """Count the round and the mistakes of each expert; a row of weight 0 counts no mistakes."""
        cdef Py_ssize_t i, j, n = self.combination.n_experts, combiners = self.combination.n_combiners
        cdef int64_t* chosen = self.combination._chosen + combiners
        cdef int64_t* only_first_wrong = <int64_t*> (<cnp.ndarray> self.pool.only_first_wrong).data
        for i in range(n):
            if not self.active[i]:
                continue
            expert = self.pool.experts[i]
            expert.rounds += 1
            if chosen[i] == label or weight == 0.0:
                continue
            expert.mistakes += 1
            expert.recent_mistakes += 1
            for j in range(n):
                only_first_wrong[i * n + j] += self.active[j] and chosen[j] == label
            if self.pool.watched == i:
                self.pool.chunk_errors += 1
        return 0

    cdef bint is_mistake(self, Py_ssize_t label) noexcept:
        cdef Py_ssize_t c
        if self.combination.outputs == 1:
            return (self.margins[0] if label else -self.margins[0]) <= 0.0
        for c in range(self.combination.outputs):
            if c != label and self.margins[c] >= self.margins[label]:
                return True
        return False

    cdef int keep_row(self, cnp.ndarray row, double y, double weight) except -1:
        """Keep the reservoir a random sample of all rows, and the window the last ones."""
        pool = self.pool
        cdef int64_t seen = pool.seen, rows = len(pool.reservoir), length = len(pool.window)
        cdef double place
        if rows:
            place = pool.generator.random() * (seen + 1)
            if place < rows:
                pool.reservoir[<int64_t> place] = row
        if length:
            pool.window[seen % length] = row
            pool.window_labels[seen % length] = y
            pool.window_weights[seen % length] = weight
        pool.seen = seen + 1
        return 0

    cdef int exchange_supports(self) except -1:
        """Let the experts exchange supports if it is time. The round is complete before."""
        cdef Learner learner
        for learner in self.learners:
            if learner.rule.prune_due:
                learner.rule.exchange()
        return 0
