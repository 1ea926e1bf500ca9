# cython: cdivision=True
"""A covariance matrix that only shrinks, in a form that always stays positive.

Sigma = U D U', with U upper triangular with ones on its diagonal, and D diagonal. Observing x with
variance r replaces Sigma by Sigma - Sigma x x' Sigma / (x' Sigma x + r). As a difference of large numbers,
this could become negative. Here D is multiplied by factors below 1 instead (Bierman's update of a
Kalman filter). The cost is the same, and U takes half the memory.
"""

import numpy as np

from budgetron._core.supports import writeable

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    void bt_exchange(double*, double*, double, double, ptrdiff_t)


cdef class Covariance:
    """A covariance matrix of d dimensions; at first the identity."""

    def __init__(self, Py_ssize_t d):
        self.d = d
        self.columns = np.zeros(d * (d - 1) // 2)  # of U, above the diagonal, one after the other
        self.variances = np.ones(d)
        self.direction = np.zeros(d)
        self.projections = np.zeros(d)
        self.set_pointers()

    cdef void set_pointers(self):
        cdef size_t columns = self.columns.ctypes.data, variances = self.variances.ctypes.data
        cdef size_t direction = self.direction.ctypes.data, projections = self.projections.ctypes.data
        self._columns, self._variances = <double*> columns, <double*> variances
        self._direction, self._projections = <double*> direction, <double*> projections

    def arrays(self):
        """Return all arrays that take memory."""
        return {"columns": self.columns, "variances": self.variances, "direction": self.direction,
                "projections": self.projections}

    def __reduce__(self):
        return Covariance, (0,), self.state()

    def state(self):
        """Return the state as arrays and numbers."""
        return self.arrays() | {"d": self.d}

    def add_features(self, Py_ssize_t d):
        """Extend to d dimensions; the new ones have variance 1 and no covariance with the others."""
        cdef Covariance wider = Covariance(d)
        parts = wider.arrays()
        for name, array in self.arrays().items():
            parts[name][:len(array)] = array
        self.columns, self.variances = wider.columns, wider.variances
        self.direction, self.projections, self.d = wider.direction, wider.projections, d
        self.set_pointers()

    def __setstate__(self, state):
        self.d = state["d"]
        self.columns, self.variances = map(writeable, (state["columns"], state["variances"]))
        self.direction, self.projections = map(writeable, (state["direction"], state["projections"]))
        self.set_pointers()

    def matrix(self):
        """Return Sigma."""
        U = np.eye(self.d)
        U.T[np.tril_indices(self.d, -1)] = self.columns
        return (U * self.variances) @ U.T

    cdef double variance(self, double* x, int32_t* index, Py_ssize_t n) noexcept nogil:
        """Return x' Sigma x, for x with n entries at the places `index`, or at the first n places if it is NULL."""
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
        """Observe the x of the last `variance`, with variance r. Leave Sigma x, with Sigma before, in `direction`."""
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
