# cython: cdivision=True
"""Covariance matrices of weights, which observations make smaller.

Observing x with variance r replaces Sigma by Sigma - Sigma x x' Sigma / (x' Sigma x + r). As a difference of large
numbers, this could become negative. So there are two forms:

- `FactoredCovariance`: Sigma = U D U', with U upper triangular with ones on its diagonal, and D diagonal. D is
  multiplied by factors below 1 (Bierman's update of a Kalman filter), so that Sigma always stays positive.
- `ForgettingCovariance`: a part of what was observed is forgotten after each observation. Then no variance falls below
  the forgotten part of the prior, and a difference is accurate enough.

Both take about 4 d^2 bytes.
"""

from libc.string cimport memset

import numpy as np

from budgetron._core.supports import writeable

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    double bt_square_d(const double*, ptrdiff_t)
    void bt_axpy(double, const double*, double*, ptrdiff_t)
    void bt_exchange(double*, double*, double, double, ptrdiff_t)

# The common factor is multiplied into the reductions before it underflows.
cdef double SMALLEST_FACTOR = 1e-40

# With differences, rounding can leave a variance below 0 if almost nothing is forgotten. So each direction keeps at
# least this part of its first variance.
cdef double LEAST_VARIANCE = 1e-15


cdef class Covariance:
    """A covariance matrix of d dimensions; at first `prior` times the identity.

    An observation is a call of `variance` and then of `narrow`. `direction` then is Sigma x, with Sigma before.
    """

    def __init__(self, Py_ssize_t d, double prior=1.0):
        self.d, self.prior = d, prior
        self.direction = np.zeros(d)

    cdef void set_pointers(self):
        cdef size_t direction = self.direction.ctypes.data
        self._direction = <double*> direction

    def arrays(self):
        """Return all arrays that take memory."""
        return {"direction": self.direction}

    def __reduce__(self):
        return type(self), (0, self.prior), self.state()

    def state(self):
        """Return the state as arrays and numbers."""
        return self.arrays() | {"d": self.d}

    def add_features(self, Py_ssize_t d):
        """Extend to d dimensions; the new ones have the first variance and no covariance with the others."""
        cdef Covariance wider = type(self)(d, self.prior)
        parts = wider.state() | {name: value for name, value in self.state().items() if name != "d"}
        for name, array in wider.arrays().items():
            array[:len(parts[name])] = parts[name]
            parts[name] = array
        self.__setstate__(parts)

    def __setstate__(self, state):
        self.d, self.direction = state["d"], writeable(state["direction"])
        self.set_pointers()

    def matrix(self):
        """Return Sigma."""
        raise NotImplementedError("a covariance has a form")

    cdef double variance(self, double* x, int32_t* index, Py_ssize_t n) noexcept nogil:
        """Return x' Sigma x, for x with n entries at the places `index`, or at the first n places if it is NULL."""
        return 0.0

    cdef void narrow(self, double r) noexcept nogil:
        """Observe the x of the last `variance`, with variance r."""

    cdef void forget(self, double keep) noexcept nogil:
        """Replace Sigma by keep Sigma + (1 - keep) prior."""


cdef class FactoredCovariance(Covariance):
    """Sigma = U D U'. It cannot forget."""

    def __init__(self, Py_ssize_t d, double prior=1.0):
        Covariance.__init__(self, d, prior)
        self.columns = np.zeros(d * (d - 1) // 2)  # of U, above the diagonal, one after the other
        self.variances = np.full(d, prior)
        self.projections = np.zeros(d)
        self.set_pointers()

    cdef void set_pointers(self):
        cdef size_t columns = self.columns.ctypes.data, variances = self.variances.ctypes.data
        cdef size_t projections = self.projections.ctypes.data
        Covariance.set_pointers(self)
        self._columns, self._variances = <double*> columns, <double*> variances
        self._projections = <double*> projections

    def arrays(self):
        return {"columns": self.columns, "variances": self.variances, "direction": self.direction,
                "projections": self.projections}

    def __setstate__(self, state):
        self.columns, self.variances = map(writeable, (state["columns"], state["variances"]))
        self.projections = writeable(state["projections"])
        Covariance.__setstate__(self, state)

    def matrix(self):
        """Return Sigma."""
        U = np.eye(self.d)
        U.T[np.tril_indices(self.d, -1)] = self.columns
        return (U * self.variances) @ U.T

    cdef double variance(self, double* x, int32_t* index, Py_ssize_t n) noexcept nogil:
        cdef double total = 0.0, f
        cdef double* column = self._columns
        cdef Py_ssize_t j, k
        for j in range(self.d):  # f = U' x
            f = 0.0
            if index == NULL:
                f = x[j] + bt_dot_d(column, x, j)
            else:
                for k in range(n):
                    if index[k] < j:
                        f += column[index[k]] * x[k]
                    elif index[k] == j:
                        f += x[k]
            self._projections[j] = f
            total += self._variances[j] * f * f
            column += j
        return total

    cdef void narrow(self, double r) noexcept nogil:
        cdef double total = r, before, f, g
        cdef double* column = self._columns
        cdef Py_ssize_t j
        for j in range(self.d):
            f = self._projections[j]
            g = self._variances[j] * f
            if g != 0.0:
                before, total = total, total + f * g
                self._variances[j] *= before / total
                bt_exchange(column, self._direction, -f / before, g, j)
            self._direction[j] = g
            column += j


cdef class ForgettingCovariance(Covariance):
    """Sigma = prior - factor R, so that a part is forgotten by a change of the factor alone.

    `reductions` are the rows of R up to the diagonal, one after the other.
    """

    def __init__(self, Py_ssize_t d, double prior=1.0):
        Covariance.__init__(self, d, prior)
        self.reductions, self.factor = np.zeros(d * (d + 1) // 2), 1.0
        self.set_pointers()

    cdef void set_pointers(self):
        cdef size_t reductions = self.reductions.ctypes.data
        Covariance.set_pointers(self)
        self._reductions = <double*> reductions

    def arrays(self):
        return {"reductions": self.reductions, "direction": self.direction}

    def state(self):
        return Covariance.state(self) | {"factor": self.factor}

    def __setstate__(self, state):
        self.reductions, self.factor = writeable(state["reductions"]), state["factor"]
        Covariance.__setstate__(self, state)

    def matrix(self):
        """Return Sigma."""
        R = np.zeros((self.d, self.d))
        R[np.tril_indices(self.d)] = self.reductions
        R += np.tril(R, -1).T
        return self.prior * np.eye(self.d) - self.factor * R

    cdef double* row(self, Py_ssize_t i) noexcept nogil:
        """Return row i of R, up to the diagonal."""
        return self._reductions + i * (i + 1) // 2

    cdef double variance(self, double* x, int32_t* index, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t i, j, k
        cdef double square = bt_square_d(x, n), least = LEAST_VARIANCE * self.prior, v = 0.0, missing
        memset(self._direction, 0, self.d * sizeof(double))
        for k in range(n):  # R x
            i = k if index == NULL else index[k]
            if index == NULL:
                self._direction[i] += bt_dot_d(self.row(i), x, i)
            else:
                for j in range(i + 1, self.d):
                    self._direction[j] += x[k] * self.row(j)[i]
            bt_axpy(x[k], self.row(i), self._direction, i + 1)
        for i in range(self.d):
            self._direction[i] *= -self.factor
        for k in range(n):
            i = k if index == NULL else index[k]
            self._direction[i] += self.prior * x[k]
        for k in range(n):
            v += self._direction[k if index == NULL else index[k]] * x[k]
        if v < least * square:
            missing = least - v / square
            for i in range(self.d):
                self.row(i)[i] -= missing / self.factor
            for k in range(n):
                self._direction[k if index == NULL else index[k]] += missing * x[k]
            v = least * square
        self.last = v
        return v

    cdef void narrow(self, double r) noexcept nogil:
        cdef double c = 1.0 / ((self.last + r) * self.factor)
        cdef Py_ssize_t i
        for i in range(self.d):
            if self._direction[i] != 0.0:
                bt_axpy(c * self._direction[i], self._direction, self.row(i), i + 1)

    cdef void forget(self, double keep) noexcept nogil:
        cdef Py_ssize_t i
        self.factor *= keep
        if self.factor < SMALLEST_FACTOR:
            for i in range(self.d * (self.d + 1) // 2):
                self._reductions[i] *= self.factor
            self.factor = 1.0
