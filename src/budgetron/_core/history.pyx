# cython: cdivision=True
"""The past of a hypothesis: the average of the hypotheses of all rounds, or all of them.

A hypothesis is `factor` times stored weights, one weight per place (a slot of the slab, or a feature). Rounds that
change nothing must cost nothing, so nothing is stored per round.

The *average* is computed from sums that change only with a weight. Let A be the sum of the factors of all rounds so
far. The sum of the hypotheses is A times the weights, minus their lag. A weight that changes by delta adds A delta to
its lag, because it did not have this delta in the rounds before.

The *journal* is the list of the changes. Each entry leads from one hypothesis to the next, so that the margins of all
hypotheses at one row are a running sum.
"""

import numpy as np

from budgetron._core.supports import writeable

cdef extern from "simd.h" nogil:
    void bt_axpy(double, const double*, double*, ptrdiff_t)


cdef class Average:
    """The sum of the hypotheses of all rounds, over `n` places."""

    def __init__(self, Py_ssize_t n, Py_ssize_t limit=0):
        self.lag = np.zeros(n)
        self.elapsed = self.norm2 = self.own = self.residual = 0.0
        self.limit = limit
        self.set_pointers()

    cdef void set_pointers(self):
        cdef size_t lag = self.lag.ctypes.data
        self._lag = <double*> lag

    def __reduce__(self):
        return Average, (0,), self.state()

    def state(self):
        """Return the state as arrays and numbers."""
        return {"lag": self.lag, "elapsed": self.elapsed, "norm2": self.norm2, "own": self.own,
                "limit": self.limit, "residual": self.residual}

    def __setstate__(self, state):
        self.lag, self.elapsed = writeable(state["lag"]), state["elapsed"]
        self.norm2, self.own = state["norm2"], state["own"]
        self.limit, self.residual = state["limit"], state["residual"]
        self.set_pointers()

    def reserve(self, Py_ssize_t n, Py_ssize_t rows=1):
        """Make room for `n` places, in each of the rows that the places consist of."""
        lag = np.zeros((rows, n))
        lag[:, :len(self.lag) // rows] = self.lag.reshape(rows, -1)
        self.lag = lag.ravel()
        self.set_pointers()

    def total(self, weights):
        """Return the sum of the hypotheses of all rounds, given the weights stored now."""
        return self.elapsed * weights - self.lag

    cdef void add_round(self, double factor, double norm2, double own) noexcept nogil:
        """Add a round: the factor and the squared norm of its hypothesis, and k(x, x) of its row."""
        self.elapsed += factor
        self.norm2 = max(self.norm2, norm2)
        self.own = max(self.own, own)

    cdef void note_change(self, Py_ssize_t place, double delta) noexcept nogil:
        """Add delta to a weight, from the next round on."""
        self._lag[place] += self.elapsed * delta

    cdef void note_changes(self, double c, double* delta, Py_ssize_t start, Py_ssize_t n) noexcept nogil:
        """Add c delta to n weights, from the next round on."""
        bt_axpy(self.elapsed * c, delta, self._lag + start, n)

    cdef double remove_weight(self, Py_ssize_t place, double weight) noexcept nogil:
        """Set a weight to 0 for all later rounds; return its part of the sum of the hypotheses."""
        cdef double total = self.elapsed * weight - self._lag[place]
        self._lag[place] = 0.0
        return total

    cdef void fold_weights(self, double* weights, Py_ssize_t n) noexcept nogil:
        """Move the sum so far into the lag, before the factor is multiplied into the weights."""
        cdef Py_ssize_t j
        for j in range(n):
            self._lag[j] -= self.elapsed * weights[j]
        self.elapsed = 0.0


cdef class Journal:
    """The changes that led from each hypothesis to the next.

    The first entry, of round -1, is the hypothesis before all rounds. Entry i says that round `rounds[i]` was a mistake
    or an update. In it the weights were multiplied by `scales[i]`, and then `deltas[j]` was added to the weight at
    `places[j]`, for j from `ends[i - 1]` to `ends[i]`. After round `factor_rounds[j]`, up to the next of these, the
    hypothesis is `factors[j]` times the weights.
    """

    def __cinit__(self):
        self.n = self.size = self.steps = 0
        self.scale = 1.0
        self.rounds, self.ends, self.places, self.factor_rounds = (np.zeros(16, np.int64) for _ in range(4))
        self.scales, self.deltas, self.factors = (np.zeros(16) for _ in range(3))
        self.set_pointers()

    cdef void set_pointers(self):
        cdef size_t rounds = self.rounds.ctypes.data, ends = self.ends.ctypes.data
        cdef size_t places = self.places.ctypes.data, deltas = self.deltas.ctypes.data
        cdef size_t factors = self.factors.ctypes.data, scales = self.scales.ctypes.data
        cdef size_t factor_rounds = self.factor_rounds.ctypes.data
        self._rounds, self._ends, self._places = <int64_t*> rounds, <int64_t*> ends, <int64_t*> places
        self._deltas, self._factors, self._scales = <double*> deltas, <double*> factors, <double*> scales
        self._factor_rounds = <int64_t*> factor_rounds
        self.room, self.room_for_moves = len(self.rounds), len(self.places)
        self.room_for_factors = len(self.factors)

    def arrays(self):
        """Return all arrays that take memory."""
        return {"rounds": self.rounds, "ends": self.ends, "scales": self.scales, "places": self.places,
                "deltas": self.deltas, "factor_rounds": self.factor_rounds, "factors": self.factors}

    def __reduce__(self):
        return Journal, (), self.state()

    def state(self):
        """Return the state as arrays and numbers."""
        counts = {"n": self.n, "size": self.size, "steps": self.steps, "scale": self.scale}
        return self.arrays() | counts

    def __setstate__(self, state):
        self.rounds, self.ends, self.scales = map(writeable, (state["rounds"], state["ends"], state["scales"]))
        self.places, self.deltas = map(writeable, (state["places"], state["deltas"]))
        self.factor_rounds, self.factors = map(writeable, (state["factor_rounds"], state["factors"]))
        self.n, self.size, self.steps, self.scale = (state[name] for name in ("n", "size", "steps", "scale"))
        self.set_pointers()

    cdef int note(self, int64_t place, double delta) except -1 nogil:
        """Note that delta was added to the weight at this place."""
        if self.size == self.room_for_moves:
            with gil:
                self.places, self.deltas = (np.resize(a, 2 * len(a)) for a in (self.places, self.deltas))
                self.set_pointers()
        self._places[self.size] = place
        self._deltas[self.size] = delta
        self.size += 1
        return 0

    cdef int close(self, int64_t round_number, double factor, bint mistake) except -1 nogil:
        """End a round, after all its changes were noted."""
        if self.steps == 0 or factor != self._factors[self.steps - 1]:
            if self.steps == self.room_for_factors:
                with gil:
                    self.factors = np.resize(self.factors, 2 * self.steps)
                    self.factor_rounds = np.resize(self.factor_rounds, 2 * self.steps)
                    self.set_pointers()
            self._factors[self.steps], self._factor_rounds[self.steps] = factor, round_number
            self.steps += 1
        if not mistake and self.size == self.closed() and self.scale == 1.0:
            return 0
        if self.n == self.room:
            with gil:
                self.rounds, self.ends = (np.resize(a, 2 * len(a)) for a in (self.rounds, self.ends))
                self.scales = np.resize(self.scales, 2 * len(self.scales))
                self.set_pointers()
        self._rounds[self.n], self._ends[self.n], self._scales[self.n] = round_number, self.size, self.scale
        self.scale = 1.0
        self.n += 1
        return 0

    cdef Py_ssize_t closed(self) noexcept nogil:
        """Return the number of changes of the rounds that have ended."""
        return self._ends[self.n - 1] if self.n else 0

    cdef void rescale(self, double by) noexcept nogil:
        """Note that all weights were multiplied by a number, and the factor divided by it."""
        cdef Py_ssize_t j
        for j in range(self.closed(), self.size):
            self._deltas[j] *= by
        self.scale *= by

    cdef void clear(self) noexcept nogil:
        """Note that all weights were set to 0."""
        self.size = self.closed()
        self.scale = 0.0
