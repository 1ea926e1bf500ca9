# cython: cdivision=True
"""Projection onto the span of the supports, by a Cholesky factor that grows.

The Gram matrix of the supports is K = L L', with L kept by rows in one packed
array, so that a new support appends a row and moves nothing. For a row x with
kernel values k, z = L^-1 k gives ||P k(x, .)||^2 = ||z||^2, the coefficients of the
projection are d = L^-T z (002 eq. 8), and a support's own row of L is z followed
by ||delta||. This costs what the explicit inverse of 002 eq. 11 costs and keeps its
digits where the inverse loses them.
"""

from libc.math cimport sqrt
from libc.string cimport memcpy
from scipy.linalg.cython_blas cimport dtpsv

import numpy as np

from budgetron._core.supports import writeable

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)


cdef class Projection:
    """The span of the supports, in the order in which they were appended."""

    def __cinit__(self):
        self.factor = self.z = np.zeros(0)
        self.point()

    def reserve(self, Py_ssize_t capacity):
        """Room for `capacity` supports."""
        cdef Py_ssize_t used = self.n * (self.n + 1) // 2
        if capacity <= len(self.z):
            return
        old, self.factor = self.factor, np.zeros(capacity * (capacity + 1) // 2)
        self.factor[:used] = old[:used]
        self.z = np.zeros(capacity)
        self.point()

    cdef void point(self):
        cdef size_t factor = self.factor.ctypes.data, z = self.z.ctypes.data
        self._factor, self._z = <double*> factor, <double*> z

    def arrays(self):
        """Everything that takes memory."""
        return {"factor": self.factor, "z": self.z}

    def __getstate__(self):
        return self.arrays() | {"n": self.n}

    def __setstate__(self, state):
        self.factor, self.z, self.n = writeable(state["factor"]), writeable(state["z"]), state["n"]
        self.point()

    def __reduce__(self):
        return Projection, (), self.__getstate__()

    cdef double project(self, double* k) noexcept nogil:
        """||P k(x, .)||^2, leaving z = L^-1 k for `coefficients` and `append`."""
        cdef int n = <int> self.n, one = 1
        if n == 0:
            return 0.0
        memcpy(self._z, k, self.n * sizeof(double))
        # Rows of a lower triangle are columns of an upper one: L is U' to BLAS.
        dtpsv("U", "T", "N", &n, self._factor, self._z, &one)
        return bt_dot_d(self._z, self._z, self.n)

    cdef double* coefficients(self) noexcept nogil:
        """d = L^-T z of the row just projected; z is overwritten by it."""
        cdef int n = <int> self.n, one = 1
        if n > 0:
            dtpsv("U", "N", "N", &n, self._factor, self._z, &one)
        return self._z

    cdef void append(self, double delta2) noexcept nogil:
        """The row just projected becomes a support at distance^2 delta2 > 0."""
        cdef double* row = self._factor + self.n * (self.n + 1) // 2
        memcpy(row, self._z, self.n * sizeof(double))
        row[self.n] = sqrt(delta2)
        self.n += 1
