# cython: cdivision=True
"""Gaussians over functions, in coordinates: the hypothesis of a second-order learner.

The coordinates phi of a row are, if there is a linear part, the constant 1 and `scale` times each feature. They are
followed by the coordinates z = L^-1 k of the row's image in the span of the supports (see `Projection`). A function is
a vector over these coordinates. Each output has a Gaussian over such vectors. It has a mean of its own; all outputs
have the same covariance Sigma. A new support adds one coordinate, with mean 0 and the variance `prior`.

Sigma is stored as its lower half, in panels (see `panels`). Where rows have many features, each feature has only a
variance (`spreads`) and a mean for each output (`slopes`), and no covariance with anything else.

How a round reads and changes the Gaussian is in `gaussian_round`.
"""

from libc.math cimport sqrt
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

import numpy as np
from scipy.linalg import blas

from budgetron._core.kernel_values cimport Rows
from budgetron._core.panels cimport (
    packed_size, row_start, row_width, solve_many_transposed, solve_one_transposed, unpack,
)
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
    """Gaussians over functions of d features; at first with mean 0 and variance `prior` in each coordinate.

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
    prior : float
        Variance of a coordinate before the first update.
    outputs : int
        Number of means.

    Attributes
    ----------
    n, fixed : int
        Number of coordinates; how many of them belong to the linear part.
    sigma : ndarray
        The covariance, in panels.
    means : ndarray of shape (outputs, capacity)
    slopes, spreads : ndarray of shape (outputs, d) and (d,), or without columns
        Means and variances of features without covariances.
    phi, direction : ndarray
        Scratch space of a round: the row's coordinates, and Sigma times these.
    """

    def __init__(self, Py_ssize_t d, bint linear, bint diagonal, double scale, double prior=1.0, Py_ssize_t outputs=1):
        self.d, self.linear, self.diagonal, self.scale = d, linear, diagonal and linear, scale
        self.prior, self.outputs = prior, outputs
        self.fixed = (1 if diagonal else d + 1) if linear else 0
        self.sigma = self.phi = self.direction = np.zeros(0)
        self.means = np.zeros((outputs, 0))
        self.slopes = np.zeros((outputs, d if self.diagonal else 0))
        self.spreads = np.full(d if self.diagonal else 0, prior)
        self.reserve(0)
        for _ in range(self.fixed):
            self.append(prior)

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
        old, self.means = self.means, np.zeros((self.outputs, capacity))
        self.means[:, :old.shape[1]] = old
        self.phi, self.direction = np.zeros(capacity), np.zeros(capacity)
        self.capacity = capacity
        self.set_pointers()

    @staticmethod
    def bytes_for(Py_ssize_t n):
        """Return the bytes of the covariance of n coordinates."""
        return 8 * packed_size(n, SIGMA_PANEL)

    cdef void set_pointers(self):
        self._sigma, self._means = <double*> address(self.sigma), <double*> address(self.means)
        self._phi, self._direction = <double*> address(self.phi), <double*> address(self.direction)
        self._slopes, self._spreads = <double*> address(self.slopes), <double*> address(self.spreads)

    def arrays(self):
        """Return all arrays that take memory."""
        return {"sigma": self.sigma, "means": self.means, "phi": self.phi, "direction": self.direction,
                "slopes": self.slopes, "spreads": self.spreads}

    def covariance(self):
        """Return Sigma as a full matrix."""
        full = unpack(self.sigma, self.n, SIGMA_PANEL)
        for i in range(self.n):
            full[:i, i] = full[i, :i]
        return full

    def mirror(self):
        """Replace each function f by -f."""
        np.negative(self.means, out=self.means)
        np.negative(self.slopes, out=self.slopes)

    def add_output(self, Py_ssize_t place):
        """Add an output with mean 0 at this place. A single output, of two classes, first becomes one for each."""
        for name in ("means", "slopes"):
            rows = getattr(self, name)
            rows = np.insert(np.concatenate([-rows, rows]) if len(rows) == 1 else rows, place, 0.0, axis=0)
            if name == "means":
                self.means = rows
            else:
                self.slopes = rows
        self.outputs = len(self.means)
        self.set_pointers()

    cdef double* mean(self, Py_ssize_t output) noexcept nogil:
        """Return the mean of an output."""
        return self._means + output * self.capacity

    def restricted(self, const Py_ssize_t[::1] kept, const Py_ssize_t[::1] removed, change):
        """Return the Gaussians over functions of fewer supports: means, covariance, and covariance with the linear
        part.

        `kept` and `removed` are the positions of the supports, and `change` is the `BasisChange` of
        `Projection.restricted`. The variance of a function's part in the smaller span does not change.
        """
        cdef Py_ssize_t i, j, f = self.fixed, m = len(kept), q = len(removed)
        cdef double[::1, :] own = zeros((m, m)).T, cross = zeros((q, m)).T, removed_own = zeros((q, q)).T
        cdef double[::1, :] linear = zeros((f, m)).T, removed_linear = zeros((f, q)).T
        means, removed_means = zeros((self.outputs, m)).T, zeros((self.outputs, q)).T
        means[:], removed_means[:] = self.means[:, f + np.asarray(kept)].T, self.means[:, f + np.asarray(removed)].T
        cdef double* row
        for i in range(m):
            row = self.lower_row(f + kept[i])
            for j in range(i + 1):
                own[i, j] = row[f + kept[j]]
            for j in range(q):
                cross[i, j] = row[f + removed[j]] if removed[j] < kept[i] else self.lower_row(f + removed[j])[f + kept[i]]
            for j in range(f):
                linear[i, j] = row[j]
        for i in range(q):
            row = self.lower_row(f + removed[i])
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
        means = blas.dgemm(1.0, W, removed_means, beta=1.0, c=means, overwrite_c=1)
        change.solve(means)
        return means, change.solve_both(own.base), linear.base

    def set_support_part(self, const double[::1, :] means, const double[::1, :] own, const double[::1, :] linear):
        """Replace the coordinates of the supports: means, covariance, and covariance with the linear part."""
        cdef Py_ssize_t i, j, end, f = self.fixed, n = f + len(means)
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
        for j in range(self.outputs):
            for i in range(n - f):
                self.mean(j)[f + i] = means[i, j]
            for i in range(n, self.n):
                self.mean(j)[i] = 0.0
        self.n = n

    cdef double* lower_row(self, Py_ssize_t i) noexcept nogil:
        """Return row i of Sigma, up to the width of its panel."""
        return self._sigma + row_start(i, SIGMA_PANEL)

    def add_features(self, Py_ssize_t d):
        """Accept rows of d features from now on; the new features were 0 in all rows so far."""
        cdef Py_ssize_t more = 0 if self.diagonal or not self.linear else d - self.d
        cdef Py_ssize_t supports = self.capacity - self.fixed, n = self.n + more
        places = np.concatenate([np.arange(self.fixed), np.arange(self.fixed, self.n) + more])
        full, means = self.prior * np.eye(n), np.zeros((self.outputs, n))
        full[np.ix_(places, places)] = self.covariance()
        means[:, places] = self.means[:, :self.n]
        if self.diagonal:
            self.slopes = np.pad(self.slopes, ((0, 0), (0, d - self.d)))
            self.spreads = np.append(self.spreads, np.full(d - self.d, self.prior))
        self.d = d
        self.fixed += more
        self.set_coordinates(means, full, supports)

    def truncate(self, Py_ssize_t m, Py_ssize_t supports):
        """Keep the coordinates of the first m supports, with room for `supports` supports."""
        cdef Py_ssize_t n = self.fixed + m
        self.set_coordinates(self.means[:, :n].copy(), self.covariance()[:n, :n], supports)

    def set_coordinates(self, means, full, Py_ssize_t supports):
        """Set the means and the covariance, with room for the coordinates of `supports` supports."""
        cdef Py_ssize_t i, start, width, n = len(full)
        self.n = self.capacity = 0
        self.sigma, self.means = np.zeros(0), np.zeros((self.outputs, 0))
        self.reserve(supports)
        self.means[:, :n] = means
        for i in range(n):
            start, width = row_start(i, SIGMA_PANEL), min(row_width(i, SIGMA_PANEL), n)
            self.sigma[start:start + width] = full[i, :width]
        self.n = n

    def __getstate__(self):
        # Row by row, so that model files do not depend on the panels.
        rows = np.zeros(self.capacity * (self.capacity + 1) // 2)
        rows[:self.n * (self.n + 1) // 2] = self.covariance()[np.tril_indices(self.n)]
        return {"sigma": rows, "means": self.means, "slopes": self.slopes, "spreads": self.spreads, "n": self.n,
                "d": self.d, "linear": bool(self.linear), "diagonal": bool(self.diagonal), "scale": self.scale,
                "prior": self.prior}

    def __setstate__(self, state):
        cdef Py_ssize_t n = state["n"]
        full = np.zeros((n, n))
        full[np.tril_indices(n)] = state["sigma"][:n * (n + 1) // 2]
        full += np.tril(full, -1).T
        self.slopes, self.spreads = writeable(state["slopes"]), writeable(state["spreads"])
        self.outputs = len(state["means"])
        self.set_coordinates(state["means"][:, :n], full, state["means"].shape[1] - self.fixed)

    def __reduce__(self):
        arguments = (self.d, self.linear, self.diagonal, self.scale, self.prior, self.outputs)
        return Gaussian, arguments, self.__getstate__()

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

    cdef double linear_part(self, Py_ssize_t output, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """Return the linear part of the mean of an output at row i."""
        cdef double* weights = self._slopes + output * self.d if self.diagonal else self.mean(output) + 1
        cdef Row row
        cdef double total = 0.0
        cdef Py_ssize_t j
        if not self.linear:
            return 0.0
        row = row_of(rows, i)
        for j in range(row.n):
            total += weights[feature(&row, j)] * value(&row, j, single)
        return self.mean(output)[0] + self.scale * total

    cdef void add_slopes(self, Rows* rows, Py_ssize_t i, bint single, double* scores) noexcept nogil:
        """Add to the scores of row i what comes from features without covariances."""
        cdef Py_ssize_t c
        if self.diagonal:
            for c in range(self.outputs):
                scores[c] += self.linear_part(c, rows, i, single) - self.mean(c)[0]

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

    cdef void append(self, double variance) noexcept nogil:
        """Add a coordinate with mean 0 and this entry on the diagonal of Sigma."""
        cdef double* row = self.lower_row(self.n)
        cdef Py_ssize_t c
        memset(row, 0, row_width(self.n, SIGMA_PANEL) * sizeof(double))
        row[self.n] = variance
        for c in range(self.outputs):
            self.mean(c)[self.n] = 0.0
        self.n += 1

    cdef void move_means(self, double* steps, double noise, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """Move the mean of each output by its step times Sigma phi, with Sigma phi in `direction`.

        Features without covariances are moved in the same way, and an observation with this noise reduces their
        variances.
        """
        cdef Row row
        cdef double x
        cdef Py_ssize_t j, f, c
        for c in range(self.outputs):
            if steps[c] != 0.0:
                bt_axpy(steps[c], self._direction, self.mean(c), self.n)
        if self.diagonal:
            row = row_of(rows, i)
            for j in range(row.n):
                x, f = self.scale * value(&row, j, single), feature(&row, j)
                for c in range(self.outputs):
                    self._slopes[c * self.d + f] += steps[c] * self._spreads[f] * x
                self._spreads[f] /= 1.0 + self._spreads[f] * x * x / noise

    cdef void forget_means(self, double keep) noexcept nogil:
        """Move the means towards 0, and the variances of features without covariances towards `prior`.

        Sigma itself is changed by the round.
        """
        cdef double root = sqrt(keep)
        cdef Py_ssize_t j, c, d = self.d if self.diagonal else 0
        for c in range(self.outputs):
            for j in range(self.n):
                self.mean(c)[j] *= root
        for j in range(self.outputs * d):
            self._slopes[j] *= root
        for j in range(d):
            self._spreads[j] = keep * self._spreads[j] + (1.0 - keep) * self.prior

    cdef double square(self) noexcept nogil:
        """Return the sum of the squared norms of the means."""
        cdef Py_ssize_t c, d = self.d if self.diagonal else 0
        cdef double total = 0.0
        for c in range(self.outputs):
            total += bt_dot_d(self.mean(c), self.mean(c), self.n)
            total += bt_dot_d(self._slopes + c * d, self._slopes + c * d, d)
        return total

    cdef void coefficients(self, Projection projection, double* coef, Py_ssize_t ld) noexcept nogil:
        """Write the coefficients of each mean over the supports to `coef`, `ld` numbers apart: L^-T times its coordinates."""
        cdef Py_ssize_t c
        for c in range(self.outputs):
            memcpy(coef + c * ld, self.mean(c) + self.fixed, projection.n * sizeof(double))
        if self.outputs == 1:
            solve_one_transposed(projection._factor, FACTOR_PANEL, projection.n, coef)
        else:
            solve_many_transposed(projection._factor, FACTOR_PANEL, projection.n, coef, self.outputs, ld)

    cdef void move_coefficients(self, Projection projection, double* steps, double* coef, Py_ssize_t ld,
                                double* scratch) noexcept nogil:
        """Move the coefficients of each mean as `move_means` moved the means. `scratch` has room for one mean."""
        cdef Py_ssize_t c
        memcpy(scratch, self._direction + self.fixed, projection.n * sizeof(double))
        solve_one_transposed(projection._factor, FACTOR_PANEL, projection.n, scratch)
        for c in range(self.outputs):
            if steps[c] != 0.0:
                bt_axpy(steps[c], scratch, coef + c * ld, projection.n)
