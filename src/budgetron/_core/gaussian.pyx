# cython: cdivision=True
"""A Gaussian over functions, in coordinates: the hypothesis of a second-order learner.

The coordinates phi of a row are, if there is a linear part, the constant 1 and `scale` times each feature. They are
followed by the coordinates z = L^-1 k of the row's image in the span of the supports (see `Projection`). A function is
a vector over these coordinates. The Gaussian has a mean and a covariance Sigma over such vectors. A new support adds
one coordinate, with mean 0 and variance 1.

Sigma is stored as its lower half, in panels (see `panels`). Where rows have many features, each feature has only a
variance (`spreads`) and a mean (`slopes`), and no covariance with anything else.

How a round reads and changes the Gaussian is in `gaussian_round`.
"""

from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

import numpy as np
from scipy.linalg import blas

from budgetron._core.kernel_values cimport Rows
from budgetron._core.panels cimport packed_size, row_start, row_width, solve_one_transposed, unpack
from budgetron._core.projection cimport FACTOR_PANEL, Projection
from budgetron._core.rows cimport address

from budgetron._core.supports import writeable
from budgetron._core.pages import lengthen, zeros

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    void bt_axpy(double, const double*, double*, ptrdiff_t)


# One row: its non-zeros and their features, or all of its values if `features` is NULL.
ctypedef struct Row:
    Py_ssize_t n
    int32_t* features
    void* values
    Py_ssize_t start


cdef inline Row row_of(Rows* rows, Py_ssize_t i) noexcept nogil:
    cdef Row row
    if rows.starts != NULL:
        row.n, row.start = rows.starts[i + 1] - rows.starts[i], rows.starts[i]
        row.features, row.values = rows.features + row.start, rows.values
    else:
        row.n, row.start, row.features, row.values = rows.d, i * rows.d, NULL, rows.dense
    return row


cdef inline Py_ssize_t feature(Row* row, Py_ssize_t j) noexcept nogil:
    return j if row.features == NULL else row.features[j]


cdef inline double value(Row* row, Py_ssize_t j, bint single) noexcept nogil:
    return (<float*> row.values)[row.start + j] if single else (<double*> row.values)[row.start + j]


cdef class Gaussian:
    """A Gaussian over functions of d features; at first the standard Gaussian.

    Parameters
    ----------
    d : int
        Number of features.
    linear : bool
        Whether a constant and the features are coordinates.
    diagonal : bool
        Whether features have variances but no covariances.
    scale : float
        Factor of the features.

    Attributes
    ----------
    n, fixed : int
        Number of coordinates; how many of them belong to the linear part.
    sigma, mean : ndarray
        The covariance, in panels, and the mean.
    slopes, spreads : ndarray
        Means and variances of features without covariances.
    phi, direction : ndarray
        Scratch space of a round: the row's coordinates, and Sigma times these.
    """

    def __init__(self, Py_ssize_t d, bint linear, bint diagonal, double scale):
        self.d, self.linear, self.diagonal, self.scale = d, linear, diagonal and linear, scale
        self.fixed = (1 if diagonal else d + 1) if linear else 0
        self.sigma = self.mean = self.phi = self.direction = np.zeros(0)
        self.slopes = np.zeros(d if self.diagonal else 0)
        self.spreads = np.ones(d if self.diagonal else 0)
        self.reserve(0)
        for _ in range(self.fixed):
            self.append()

    def reserve(self, Py_ssize_t supports):
        """Make room for this many supports."""
        cdef Py_ssize_t capacity = self.fixed + supports
        if capacity <= self.capacity:
            return
        # `lengthen` can grow the array in place only if nothing else refers to it.
        holder, self.sigma = [self.sigma], None
        try:
            lengthen(holder, packed_size(capacity, SIGMA_PANEL))
        finally:
            self.sigma = holder[0]
            self.set_pointers()
        old, self.mean = self.mean, np.zeros(capacity)
        self.mean[:len(old)] = old
        self.phi, self.direction = np.zeros(capacity), np.zeros(capacity)
        self.capacity = capacity
        self.set_pointers()

    @staticmethod
    def bytes_for(Py_ssize_t n):
        """Return the bytes of the covariance of n coordinates."""
        return 8 * packed_size(n, SIGMA_PANEL)

    cdef void set_pointers(self):
        self._sigma, self._mean = <double*> address(self.sigma), <double*> address(self.mean)
        self._phi, self._direction = <double*> address(self.phi), <double*> address(self.direction)
        self._slopes, self._spreads = <double*> address(self.slopes), <double*> address(self.spreads)

    def arrays(self):
        """Return all arrays that take memory."""
        return {"sigma": self.sigma, "mean": self.mean, "phi": self.phi, "direction": self.direction,
                "slopes": self.slopes, "spreads": self.spreads}

    def covariance(self):
        """Return Sigma as a full matrix."""
        full = unpack(self.sigma, self.n, SIGMA_PANEL)
        for i in range(self.n):
            full[:i, i] = full[i, :i]
        return full

    def mirror(self):
        """Replace each function f by -f."""
        np.negative(self.mean, out=self.mean)
        np.negative(self.slopes, out=self.slopes)

    def restricted(self, const Py_ssize_t[::1] kept, const Py_ssize_t[::1] removed, change):
        """Return the Gaussian over functions of fewer supports: its mean, covariance, and covariance with the linear
        part.

        `kept` and `removed` are the positions of the supports, and `change` is the `BasisChange` of
        `Projection.restricted`. The variance of a function's part in the smaller span does not change.
        """
        cdef Py_ssize_t i, j, f = self.fixed, m = len(kept), q = len(removed)
        cdef double[::1, :] own = zeros((m, m)).T, cross = zeros((q, m)).T, removed_own = zeros((q, q)).T
        cdef double[::1, :] linear = zeros((f, m)).T, removed_linear = zeros((f, q)).T
        cdef double[::1] mean = np.zeros(m), removed_mean = np.zeros(q)
        cdef double* row
        for i in range(m):
            row, mean[i] = self.lower_row(f + kept[i]), self._mean[f + kept[i]]
            for j in range(i + 1):
                own[i, j] = row[f + kept[j]]
            for j in range(q):
                cross[i, j] = row[f + removed[j]] if removed[j] < kept[i] else self.lower_row(f + removed[j])[f + kept[i]]
            for j in range(f):
                linear[i, j] = row[j]
        for i in range(q):
            row, removed_mean[i] = self.lower_row(f + removed[i]), self._mean[f + removed[i]]
            for j in range(i + 1):
                removed_own[i, j] = removed_own[j, i] = 0.5 * row[f + removed[j]]
            for j in range(f):
                removed_linear[i, j] = row[j]
        # (1 W) Sigma (1 W)', then M^-1 from both sides
        W = change.W
        cross = blas.dgemm(1.0, W, removed_own.base, beta=1.0, c=cross.base, overwrite_c=1)
        own = blas.dsyr2k(1.0, W, cross.base, beta=1.0, c=own.base, lower=1, overwrite_c=1)
        for i in range(m):
            for j in range(i):
                own[j, i] = own[i, j]
        if f:
            linear = blas.dgemm(1.0, W, removed_linear.base, beta=1.0, c=linear.base, overwrite_c=1)
            change.solve(linear.base)
        mean = blas.dgemv(1.0, W, removed_mean.base, beta=1.0, y=mean.base, overwrite_y=1)
        change.solve(mean.base[:, None])
        return mean.base, change.solve_both(own.base), linear.base

    def set_support_part(self, const double[::1] mean, const double[::1, :] own, const double[::1, :] linear):
        """Replace the coordinates of the supports: mean, covariance, and covariance with the linear part."""
        cdef Py_ssize_t i, j, end, f = self.fixed, n = f + len(mean)
        cdef double* row
        # The numbers right of the diagonal, up to the width of the panel, mirror those below it.
        for i in range(f // SIGMA_PANEL * SIGMA_PANEL, n):
            row, end = self.lower_row(i), row_width(i, SIGMA_PANEL)
            for j in range(0 if i >= f else f, end):
                if j >= n:
                    row[j] = 0.0
                elif min(i, j) < f:
                    row[j] = linear[max(i, j) - f, min(i, j)]
                else:
                    row[j] = own[max(i, j) - f, min(i, j) - f]
        for i in range(n - f):
            self._mean[f + i] = mean[i]
        for i in range(n, self.n):
            self._mean[i] = 0.0
        self.n = n

    cdef double* lower_row(self, Py_ssize_t i) noexcept nogil:
        """Return row i of Sigma, up to the width of its panel."""
        return self._sigma + row_start(i, SIGMA_PANEL)

    def add_features(self, Py_ssize_t d):
        """Accept rows of d features from now on; the new features were 0 in all rows so far."""
        cdef Py_ssize_t more = 0 if self.diagonal or not self.linear else d - self.d
        cdef Py_ssize_t supports = self.capacity - self.fixed, n = self.n + more
        places = np.concatenate([np.arange(self.fixed), np.arange(self.fixed, self.n) + more])
        full, mean = np.eye(n), np.zeros(n)
        full[np.ix_(places, places)] = self.covariance()
        mean[places] = self.mean[:self.n]
        if self.diagonal:
            self.slopes = np.append(self.slopes, np.zeros(d - self.d))
            self.spreads = np.append(self.spreads, np.ones(d - self.d))
        self.d = d
        self.fixed += more
        self.set_coordinates(mean, full, supports)

    def truncate(self, Py_ssize_t m, Py_ssize_t supports):
        """Keep the coordinates of the first m supports, with room for `supports` supports."""
        cdef Py_ssize_t n = self.fixed + m
        self.set_coordinates(self.mean[:n].copy(), self.covariance()[:n, :n], supports)

    def set_coordinates(self, mean, full, Py_ssize_t supports):
        """Set the mean and the covariance, with room for the coordinates of `supports` supports."""
        cdef Py_ssize_t i, start, width, n = len(mean)
        self.n = self.capacity = 0
        self.sigma = self.mean = np.zeros(0)
        self.reserve(supports)
        self.mean[:n] = mean
        for i in range(n):
            start, width = row_start(i, SIGMA_PANEL), min(row_width(i, SIGMA_PANEL), n)
            self.sigma[start:start + width] = full[i, :width]
        self.n = n

    def __getstate__(self):
        # Row by row, so that model files do not depend on the panels.
        rows = np.zeros(self.capacity * (self.capacity + 1) // 2)
        rows[:self.n * (self.n + 1) // 2] = self.covariance()[np.tril_indices(self.n)]
        return {"sigma": rows, "mean": self.mean, "slopes": self.slopes, "spreads": self.spreads, "n": self.n,
                "d": self.d, "linear": bool(self.linear), "diagonal": bool(self.diagonal), "scale": self.scale}

    def __setstate__(self, state):
        cdef Py_ssize_t n = state["n"]
        full = np.zeros((n, n))
        full[np.tril_indices(n)] = state["sigma"][:n * (n + 1) // 2]
        full += np.tril(full, -1).T
        self.slopes, self.spreads = writeable(state["slopes"]), writeable(state["spreads"])
        self.set_coordinates(state["mean"][:n], full, len(state["mean"]) - self.fixed)

    def __reduce__(self):
        return Gaussian, (self.d, self.linear, self.diagonal, self.scale), self.__getstate__()

    def state(self):
        """Return the state as arrays and numbers."""
        return self.__getstate__()

    # ------------------------------------------------------------------ coordinates

    cdef void fixed_coordinates(self, Rows* rows, Py_ssize_t i, bint single, double* phi) noexcept nogil:
        """Write the coordinates of row i that belong to the linear part to `phi`."""
        cdef Row row
        cdef Py_ssize_t j
        if not self.linear:
            return
        phi[0] = 1.0
        if self.diagonal:
            return
        row = row_of(rows, i)
        if row.features != NULL:
            memset(phi + 1, 0, self.d * sizeof(double))
        for j in range(row.n):
            phi[1 + feature(&row, j)] = self.scale * value(&row, j, single)

    cdef double linear_part(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """Return the linear part of the mean at row i."""
        cdef double* weights = self._slopes if self.diagonal else self._mean + 1
        cdef Row row
        cdef double total = 0.0
        cdef Py_ssize_t j
        if not self.linear:
            return 0.0
        row = row_of(rows, i)
        for j in range(row.n):
            total += weights[feature(&row, j)] * value(&row, j, single)
        return self._mean[0] + self.scale * total

    cdef double feature_variance(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """Return the part of the variance at row i that comes from features without covariances."""
        cdef Row row
        cdef double total = 0.0, x
        cdef Py_ssize_t j
        if not self.diagonal:
            return 0.0
        row = row_of(rows, i)
        for j in range(row.n):
            x = self.scale * value(&row, j, single)
            total += self._spreads[feature(&row, j)] * x * x
        return total

    # ------------------------------------------------------------------ changes

    cdef void append(self) noexcept nogil:
        """Add a coordinate with mean 0 and variance 1."""
        cdef double* row = self.lower_row(self.n)
        memset(row, 0, row_width(self.n, SIGMA_PANEL) * sizeof(double))
        row[self.n] = 1.0
        self._mean[self.n] = 0.0
        self.n += 1

    cdef void move_mean(self, double alpha, double r, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """Move the mean by alpha Sigma phi, with Sigma phi in `direction`.

        Features without covariances are moved, and their variances reduced, in the same step.
        """
        cdef Row row
        cdef double x
        cdef Py_ssize_t j, f
        bt_axpy(alpha, self._direction, self._mean, self.n)
        if self.diagonal:
            row = row_of(rows, i)
            for j in range(row.n):
                x, f = self.scale * value(&row, j, single), feature(&row, j)
                self._slopes[f] += alpha * self._spreads[f] * x
                self._spreads[f] *= r / (r + self._spreads[f] * x * x)

    cdef double square(self) noexcept nogil:
        """Return the squared norm of the mean."""
        cdef Py_ssize_t d = self.d if self.diagonal else 0
        return bt_dot_d(self._mean, self._mean, self.n) + bt_dot_d(self._slopes, self._slopes, d)

    cdef void coefficients(self, Projection projection, double* coef) noexcept nogil:
        """Write the coefficients of the mean over the supports to `coef`: L^-T times its coordinates."""
        memcpy(coef, self._mean + self.fixed, projection.n * sizeof(double))
        solve_one_transposed(projection._factor, FACTOR_PANEL, projection.n, coef)
