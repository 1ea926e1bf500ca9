from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from numpy.random cimport bitgen_t

from budgetron._core.gaussian cimport Gaussian
from budgetron._core.gaussian_round cimport GaussianRound
from budgetron._core.history cimport Average, Journal
from budgetron._core.kernel_values cimport Rows
from budgetron._core.projection cimport Projection
from budgetron._core.supports cimport Supports

cdef enum Entry:
    NORM, REMOVED, PHI, PSI, Q, DELTA, THRESHOLD, TAU, BETA, GRAD_ERROR, Z, VARIANCE, STEP_NORM, ERROR, ENTRIES


cdef class Rule:
    # How it was made, and what it may keep
    cdef readonly tuple args, ledger
    cdef readonly dict options
    cdef readonly Py_ssize_t budget
    cdef readonly Py_ssize_t outputs  # functions that the hypothesis consists of: 1, or one for each class
    cdef bint keeps_tail, keeps_gram, keeps_norm
    cdef bint adds_supports  # False for a rule that never adds one: no space is made for their non-zeros
    cdef readonly bint divides
    cdef readonly object generator
    cdef readonly Projection projection
    cdef readonly Gaussian gaussian
    cdef GaussianRound gaussian_round  # how an update reads and changes the Gaussian
    cdef readonly Average average
    cdef readonly Journal journal
    # Supports that were removed, and what each weighs in the sum of the hypotheses
    cdef readonly Supports departed
    cdef readonly object departed_sums
    cdef bitgen_t* bits

    # The hypothesis: coefficients over the slots, and what is known about it
    cdef readonly Supports supports
    cdef readonly object coef, tail, values, gram, scratch
    cdef double* _coef
    cdef double* _tail
    cdef double* _values
    cdef double* _gram
    cdef double* _scratch
    cdef readonly double factor, norm2, peak, damage_sum
    cdef readonly int64_t rounds, mistakes

    # The round being played. With several outputs, `scores` has the value of each function at the row, `target` is the
    # output of the row's class, y is 1 and the margin is the score of the target minus the largest other one
    cdef double y, margin, value, kxx
    cdef readonly object scores
    cdef double* _scores
    cdef Py_ssize_t target
    cdef double importance  # the weight of the row: 1 by default
    cdef double offset  # the part of the margin that is not f(x); 0 by default
    cdef double* k
    cdef Rows* rows
    cdef Py_ssize_t row
    cdef Py_ssize_t added
    # Whether `exchange` is called before the next round
    cdef bint prune_due
    cdef bint recording
    cdef double entry[<int> ENTRIES]

    cdef void set_pointers(self)

    # Defined by the learner
    cdef bint needs_update(self) noexcept nogil
    cdef bint update_is_likely(self, double square) noexcept nogil
    cdef int update(self) except? -1 nogil

    # Available to the learner; inline, because they are called once per support.
    cdef inline Py_ssize_t size(self) noexcept nogil:
        return self.supports.m

    cdef inline double weight(self, Py_ssize_t position) noexcept nogil:
        return self.factor * self._coef[self.supports._order[position]]

    cdef inline double label(self, Py_ssize_t position) noexcept nogil:
        return 1.0 if self._coef[self.supports._order[position]] > 0.0 else -1.0

    cdef inline double own(self, Py_ssize_t position) noexcept nogil:
        return self.supports.kernel.self_value(self.supports._own[self.supports._order[position]])

    cdef inline double value_at(self, Py_ssize_t position) except? -1 nogil:
        if self.keeps_gram:
            return self.factor * self._values[self.supports._order[position]]
        return self.value_anywhere(position)

    cdef inline double tie_share(self) noexcept nogil:
        """The share of the largest term of a sum up to which a difference counts as rounding.

        Rounding errors are far smaller: about 1e-14 of a term for float64 rows and 1e-6 for float32 rows.
        """
        return 1e-4 if self.supports.single else 1e-9

    cdef inline double linear_part(self, Py_ssize_t output, Rows* rows, Py_ssize_t i) noexcept nogil:
        """Return the part of f(x) of an output at row i that is not a sum over the supports."""
        return 0.0 if self.gaussian is None else self.gaussian.linear_part(output, rows, i, self.supports.single)

    cdef inline void set_label(self, double label) noexcept nogil:
        """See the label of the round: -1 or +1, or the output of the row's class if there are several."""
        cdef Py_ssize_t c
        cdef double other
        if self.outputs == 1:
            self.y = label
            return
        self.y, self.target, other = 1.0, <Py_ssize_t> label, -INFINITY
        for c in range(self.outputs):
            if c != self.target and not self._scores[c] <= other:  # also if it is not a number
                other = self._scores[c]
        self.margin = self._scores[self.target] - other

    cdef double value_anywhere(self, Py_ssize_t position) except? -1 nogil
    cdef double tie_tolerance(self, double term) noexcept nogil
    cdef void set_coefficients(self) noexcept nogil
    cdef double norm(self) noexcept nogil
    cdef int measure_norm(self) except? -1 nogil
    cdef int add(self, double c) except? -1 nogil
    cdef Py_ssize_t repeated_slot(self) noexcept nogil
    cdef int increase(self, Py_ssize_t slot, double c) except? -1 nogil
    cdef int shrink(self, double phi) except? -1 nogil
    cdef int remove(self, Py_ssize_t position) except? -1 nogil
    cdef int shift(self, double c, double* d, double square) except? -1 nogil
    cdef int move(self, double c, double* d) except? -1 nogil
    cdef int change_coefficients(self, double c, double* d) except -1 nogil
    cdef Py_ssize_t draw(self, Py_ssize_t n) except? -1 nogil
    cdef double draw_fraction(self) except? -1 nogil
    cdef int require_generator(self) except -1 nogil
    cdef int keep_departed(self, Py_ssize_t slot) except -1 with gil
    cdef void note(self, Entry name, double value) noexcept nogil
