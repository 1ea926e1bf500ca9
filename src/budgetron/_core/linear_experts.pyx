# cython: cdivision=True
"""Linear experts of first order, for any number of classes: passive-aggressive steps, and logistic gradient steps.

With two classes there is one output, and labels are -1 and +1. With more classes there is an output for each, and labels
are the indices of the classes. Each output learns to separate its class from the others. With y = +1 or -1 for an
output, s = w . x, and the weight b of the row:

    passive-aggressive    w += y min(b rate, (1 - y s) / ||x||^2) x,  if y s < 1
    logistic              w += b rate y / (1 + exp(y s)) x
"""

from libc.math cimport exp, fabs
from libc.stdint cimport int32_t, int64_t

cimport numpy as cnp

import numpy as np

from budgetron._core.kernel_values cimport real

from budgetron._core.linear import parts
from budgetron._core.supports import writeable

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    void bt_axpy(double, const double*, double*, ptrdiff_t)

cnp.import_array()


cdef class LinearExperts:
    """Experts over d features.

    Parameters
    ----------
    kinds : sequence of (bool, float)
        For each expert, whether it takes logistic steps, and its rate.
    d : int
        Number of features.
    dtype : dtype
        Type of the rows, float32 or float64.
    outputs : int
        One for two classes, otherwise one for each class.
    """

    def __init__(self, kinds, Py_ssize_t d, dtype, Py_ssize_t outputs):
        self.kinds, self.d, self.outputs, self.dtype = tuple(kinds), d, outputs, np.dtype(dtype)
        self.n_experts = len(self.kinds)
        if self.n_experts > 16:
            raise ValueError("there may be at most 16 linear experts")
        for e, (logistic, rate) in enumerate(self.kinds):
            self.logistic[<Py_ssize_t> e], self.rates[<Py_ssize_t> e] = logistic, rate
        self.set_weights(np.zeros((len(self.kinds), outputs, d)))

    def set_weights(self, weights):
        """Replace the weights, of shape (n_experts, n_outputs, d)."""
        self.weights = writeable(np.ascontiguousarray(weights, np.float64))
        self.outputs, self.d = self.weights.shape[1], self.weights.shape[2]
        self.row = np.zeros(self.d)
        self._weights = <double*> (<cnp.ndarray> self.weights).data
        self._row = <double*> (<cnp.ndarray> self.row).data

    def add_output(self, Py_ssize_t place):
        """Add an output with weights 0 at this place. The one output of two classes first becomes one for each."""
        weights = self.weights
        weights = np.concatenate([-weights, weights], axis=1) if weights.shape[1] == 1 else weights
        self.set_weights(np.insert(weights, place, 0.0, axis=1))

    def add_features(self, Py_ssize_t d):
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
        self.set_weights(np.pad(self.weights, ((0, 0), (0, 0), (0, d - self.d))))

    def __reduce__(self):
        return rebuild, (self.kinds, self.weights, self.dtype)

    @property
    def nbytes(self):
        """Bytes of all arrays."""
        return self.weights.nbytes + self.row.nbytes

    @property
    def largest_weight(self):
        """The largest absolute value of a weight."""
        return float(np.abs(self.weights).max(initial=0.0))

    def learn(self, X, const double[::1] labels, double[:, :, ::1] scores, const double[::1] importances=None):
        """Play one round per row of X. `scores`, of shape (n, n_experts, n_outputs), gets w . x before the label."""
        self.play(X, labels, scores, importances)

    def decide(self, X, double[:, :, ::1] scores):
        """Write w . x of each row, expert and output to `scores`."""
        self.play(X, None, scores, None)

    def play(self, X, const double[::1] labels, double[:, :, ::1] scores, const double[::1] importances):
        """Predict each row and, if there are labels, learn it."""
        cdef cnp.ndarray values, places, starts
        values, places, starts = parts(X, self.dtype)
        cdef int32_t* index = <int32_t*> places.data if places is not None else NULL
        cdef int64_t* start = <int64_t*> starts.data if starts is not None else NULL
        cdef Py_ssize_t n = X.shape[0]
        if scores.shape[0] != n or scores.shape[1] != len(self.kinds) or scores.shape[2] != self.outputs:
            raise ValueError("scores must have one number per row, expert and output")
        if X.shape[1] != self.d:
            raise ValueError(f"rows must have {self.d} features")
        if n == 0 or not self.kinds:
            return
        if self.dtype == np.float32:
            play_rows(self, <float*> values.data, index, start, n, labels, scores, importances)
        else:
            play_rows(self, <double*> values.data, index, start, n, labels, scores, importances)

    cdef int play_row(self, void* x, double label, double weight, bint learn, double* scores) except -1:
        """Predict one row of d numbers of the experts' type and, if `learn`, learn it."""
        if self.dtype.itemsize == 4:
            play_one(self, <float*> x, NULL, self.d, label, weight, learn, scores)
        else:
            play_one(self, <double*> x, NULL, self.d, label, weight, learn, scores)
        return 0


def rebuild(kinds, weights, dtype):
    """Return experts from their pickled parts."""
    experts = LinearExperts(kinds, weights.shape[2], dtype, weights.shape[1])
    experts.set_weights(weights)
    return experts


cdef int play_rows(LinearExperts self, real* values, int32_t* index, int64_t* starts, Py_ssize_t n,
                   const double[::1] labels, double[:, :, ::1] scores, const double[::1] importances) except -1:
    cdef Py_ssize_t i, d = self.d
    cdef bint learn = labels is not None
    cdef double label = 0.0, weight = 1.0
    with nogil:
        for i in range(n):
            if learn:
                label = labels[i]
                weight = 1.0 if importances is None else importances[i]
            if index == NULL:
                play_one(self, values + i * d, NULL, d, label, weight, learn, &scores[i, 0, 0])
            else:
                play_one(self, values + starts[i], index + starts[i], starts[i + 1] - starts[i], label, weight, learn,
                         &scores[i, 0, 0])
    return 0


cdef void play_one(LinearExperts self, real* x, int32_t* places, Py_ssize_t m, double label, double weight, bint learn,
                   double* scores) noexcept nogil:
    """Predict a row of m numbers and, if `learn`, learn it; `scores` has a number per expert and output."""
    cdef Py_ssize_t e, c, k, outputs = self.outputs
    cdef double square, y, step
    cdef double* w
    for k in range(m):
        self._row[k] = x[k]
    square = bt_dot_d(self._row, self._row, m)
    for e in range(self.n_experts):
        for c in range(outputs):
            w = self._weights + (e * outputs + c) * self.d
            scores[e * outputs + c] = product(self._row, places, m, w)
            if not learn or weight == 0.0:
                continue
            y = label if outputs == 1 else 1.0 if <Py_ssize_t> label == c else -1.0
            step = step_size(self.logistic[e], self.rates[e] * weight, y * scores[e * outputs + c], square)
            if step > 0.0:
                add(self._row, places, m, y * step, w)


cdef inline double step_size(bint logistic, double rate, double margin, double square) noexcept nogil:
    if logistic:
        return rate / (1.0 + exp(min(margin, 700.0)))
    if margin >= 1.0 or square == 0.0:
        return 0.0
    return min(rate, (1.0 - margin) / square)


cdef inline double product(double* x, int32_t* places, Py_ssize_t m, double* w) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t k
    if places == NULL:
        return bt_dot_d(x, w, m)
    for k in range(m):
        total += x[k] * w[places[k]]
    return total


cdef inline void add(double* x, int32_t* places, Py_ssize_t m, double step, double* w) noexcept nogil:
    cdef Py_ssize_t k
    if places == NULL:
        bt_axpy(step, x, w, m)
        return
    for k in range(m):
        w[places[k]] += step * x[k]
