# cython: cdivision=True
"""A Gaussian over functions: what a second-order learner believes, in coordinates.

A row has the coordinates 1 and `scale` times its features, if there is a linear part, and then those of its
image in the span of the supports, z = L^-1 k, which `Projection` gives. A function is a vector over these
coordinates, of which the learner knows the mean and the covariance Sigma. A support more is a coordinate more,
of which nothing is known yet: mean 0, variance 1.

Sigma is kept as its lower half, in panels of PANEL rows, each as wide as its last row, so that a coordinate is
appended without moving anything and a panel is a matrix to BLAS. Where rows are wide, each feature has a variance
of its own instead (`spreads`, with `slopes` for the mean), and no covariance with anything.

Inside a block Sigma stays as it was when the block began: what the rows of the block take from it is kept as a
list of `losses`, vectors s with Sigma - sum s s', by which products with Sigma, made for many rows at
once, are corrected; and taken from it at the end, all at once.
"""

from libc.math cimport sqrt
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport dgemm

import numpy as np
from scipy.linalg import blas

from budgetron._core.kernel cimport Rows
from budgetron._core.projection cimport Projection, next_entry, solve_one_back
from budgetron._core.rows cimport address

from budgetron._core.supports import writeable
from budgetron._core.pages import lengthen, zeros

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    void bt_axpy(double, const double*, double*, ptrdiff_t)

cdef Py_ssize_t PANEL = 32

# The more coordinates, the longer a block should be, lest Sigma be read for a few rows; what is kept of its rows is then
# a quarter of Sigma.
cdef Py_ssize_t SHARE_AHEAD = 16, MOST_AHEAD = 128, LEAST_AHEAD = 24

# What rounding leaves of a variance that is almost 0 may be below it, and a step along such a direction would make it
# worse. So the variance of a direction is at least this, where it was 1 at first: far below what a row can teach, unless
# rows are very long.
cdef double LEAST_VARIANCE = 1e-15

# Rows whose product is made together with others in the time of one that is made alone.
cdef Py_ssize_t DEARER = 4


cdef Py_ssize_t panel_start(Py_ssize_t p) noexcept nogil:
    return PANEL * PANEL * (p * (p + 1) // 2)


cdef Py_ssize_t diagonal_place(Py_ssize_t i) noexcept nogil:
    cdef Py_ssize_t p = i // PANEL
    return panel_start(p) + (i - p * PANEL) * (p + 1) * PANEL + i


cdef Py_ssize_t rows_ahead(Gaussian gaussian) noexcept nogil:
    """How many rows a block should have at most."""
    return min(MOST_AHEAD, max(LEAST_AHEAD, gaussian.capacity // SHARE_AHEAD))


# One row, by its non-zeros or, without features, as it is.
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


cdef void multiply(double* sigma, Py_ssize_t n, double* phi, double* out) noexcept nogil:
    """Sigma phi."""
    cdef Py_ssize_t p, first, width, i, end
    cdef double* row
    for p in range((n + PANEL - 1) // PANEL):
        first, width = p * PANEL, (p + 1) * PANEL
        end = min(width, n)
        for i in range(first, end):
            row = sigma + panel_start(p) + (i - first) * width
            out[i] = bt_dot_d(row, phi, end)
            bt_axpy(phi[i], row, out, first)


cdef void multiply_many(double* sigma, Py_ssize_t n, double* phis, double* out, Py_ssize_t count, Py_ssize_t ld) noexcept nogil:
    """The same for each of `count` rows."""
    cdef int rows, first, end, width, columns = <int> count, step = <int> ld
    cdef double one = 1.0, zero = 0.0
    cdef double* panel
    cdef Py_ssize_t p
    for p in range((n + PANEL - 1) // PANEL):
        panel = sigma + panel_start(p)
        first, width = <int> (p * PANEL), <int> ((p + 1) * PANEL)
        end = <int> min(<Py_ssize_t> width, n)
        rows = end - first
        dgemm("T", "N", &rows, &columns, &end, &one, panel, &width, phis, &step, &zero, out + first, &step)
        if first:  # the upper half is the lower one
            dgemm("N", "N", &first, &columns, &rows, &one, panel, &width, phis + first, &step, &one, out, &step)


cdef void lessen(double* sigma, Py_ssize_t n, double* loss) noexcept nogil:
    """Sigma - s s'."""
    cdef Py_ssize_t p, first, width, i, end
    for p in range((n + PANEL - 1) // PANEL):
        first, width = p * PANEL, (p + 1) * PANEL
        end = min(width, n)
        for i in range(first, end):
            bt_axpy(-loss[i], loss, sigma + panel_start(p) + (i - first) * width, end)


cdef void lessen_many(double* sigma, Py_ssize_t n, double* losses, Py_ssize_t count, Py_ssize_t ld) noexcept nogil:
    """Sigma less s s' for each of `count` vectors s."""
    cdef int rows, end, width, columns = <int> count, step = <int> ld
    cdef double one = 1.0, minus = -1.0
    cdef double* panel
    cdef Py_ssize_t p, i, j, first
    for p in range((n + PANEL - 1) // PANEL):
        panel, first, width = sigma + panel_start(p), p * PANEL, <int> ((p + 1) * PANEL)
        end = <int> min(<Py_ssize_t> width, n)
        rows = end - <int> first
        dgemm("N", "T", &end, &rows, &columns, &minus, losses, &step, losses + first, &step, &one, panel, &width)
        for i in range(rows):  # BLAS need not round both halves alike, and one is what a file holds
            for j in range(i):
                panel[j * width + first + i] = panel[i * width + first + j]


cdef class Gaussian:
    """The standard Gaussian over functions of d features, to begin with.

    Parameters
    ----------
    d : int
        Number of features.
    linear : bool
        Whether a constant and the features are coordinates.
    diagonal : bool
        Whether features have variances alone.
    scale : float
        What features are multiplied by.
    """

    def __init__(self, Py_ssize_t d, bint linear, bint diagonal, double scale):
        self.d, self.linear, self.diagonal, self.scale = d, linear, diagonal and linear, scale
        self.fixed = (1 if diagonal else d + 1) if linear else 0
        self.sigma = self.mean = self.phi = self.direction = np.zeros(0)
        self.slopes = np.zeros(d if self.diagonal else 0)
        self.spreads = np.ones(d if self.diagonal else 0)
        self.slack = 0.1
        self.reserve(0)
        for _ in range(self.fixed):
            self.append(0.0)

    def reserve(self, Py_ssize_t supports):
        """Room for so many supports."""
        cdef Py_ssize_t capacity = self.fixed + supports
        if capacity <= self.capacity:
            return
        held, self.sigma = [self.sigma], None
        try:
            lengthen(held, panel_start((capacity + PANEL - 1) // PANEL))
        finally:
            self.sigma = held[0]
            self.point()
        old, self.mean = self.mean, np.zeros(capacity)
        self.mean[:len(old)] = old
        self.phi, self.direction = np.zeros(capacity), np.zeros(capacity)
        self.capacity = capacity
        self.point()

    cdef void point(self):
        self._sigma, self._mean = <double*> address(self.sigma), <double*> address(self.mean)
        self._phi, self._direction = <double*> address(self.phi), <double*> address(self.direction)
        self._slopes, self._spreads = <double*> address(self.slopes), <double*> address(self.spreads)
        self.at = NULL

    def arrays(self):
        """Everything that takes memory."""
        return {"sigma": self.sigma, "mean": self.mean, "phi": self.phi, "direction": self.direction,
                "slopes": self.slopes, "spreads": self.spreads}

    def covariance(self):
        """Sigma, as a full matrix."""
        cdef Py_ssize_t i, p, start
        full = np.zeros((self.n, self.n))
        for i in range(self.n):
            p = i // PANEL
            start = panel_start(p) + (i - p * PANEL) * (p + 1) * PANEL
            full[i, :i + 1] = self.sigma[start:start + i + 1]
            full[:i, i] = full[i, :i]
        return full

    def plane(self):
        """The linear part of the mean: its constant, and a weight for each feature."""
        if not self.linear:
            return 0.0, np.zeros(self.d)
        return self.mean[0], self.scale * (self.slopes if self.diagonal else self.mean[1:self.fixed])

    def mirror(self):
        """Be the Gaussian that opposite labels would have led to."""
        np.negative(self.mean, out=self.mean)
        np.negative(self.slopes, out=self.slopes)

    def without(self, const Py_ssize_t[::1] kept, const Py_ssize_t[::1] left, turn):
        """The Gaussian over functions of fewer supports: its mean over them, covariance, and that with what is beside.

        `turn` is from `Projection.without`. A function's part in the smaller span is known as well as before.
        """
        cdef Py_ssize_t i, j, f = self.fixed, m = len(kept), q = len(left)
        cdef double[::1, :] own = zeros((m, m)).T, cross = zeros((q, m)).T, others = zeros((q, q)).T
        cdef double[::1, :] beside = zeros((f, m)).T, others_beside = zeros((f, q)).T
        cdef double[::1] mean = np.zeros(m), others_mean = np.zeros(q)
        cdef double* row
        for i in range(m):
            row, mean[i] = self.lower_row(f + kept[i]), self._mean[f + kept[i]]
            for j in range(i + 1):
                own[i, j] = row[f + kept[j]]
            for j in range(q):
                cross[i, j] = row[f + left[j]] if left[j] < kept[i] else self.lower_row(f + left[j])[f + kept[i]]
            for j in range(f):
                beside[i, j] = row[j]
        for i in range(q):
            row, others_mean[i] = self.lower_row(f + left[i]), self._mean[f + left[i]]
            for j in range(i + 1):
                others[i, j] = others[j, i] = 0.5 * row[f + left[j]]
            for j in range(f):
                others_beside[i, j] = row[j]
        # (1 W) Sigma (1 W)', and then M^-1 from both sides
        W = turn.W
        cross = blas.dgemm(1.0, W, others.base, beta=1.0, c=cross.base, overwrite_c=1)
        own = blas.dsyr2k(1.0, W, cross.base, beta=1.0, c=own.base, lower=1, overwrite_c=1)
        for i in range(m):
            for j in range(i):
                own[j, i] = own[i, j]
        if f:
            beside = blas.dgemm(1.0, W, others_beside.base, beta=1.0, c=beside.base, overwrite_c=1)
            turn.solve(beside.base)
        mean = blas.dgemv(1.0, W, others_mean.base, beta=1.0, y=mean.base, overwrite_y=1)
        turn.solve(mean.base[:, None])
        return mean.base, turn.solve_both(own.base), beside.base

    def become(self, const double[::1] mean, const double[::1, :] own, const double[::1, :] beside):
        """Be the one that `without` found; of what comes new, nothing is known."""
        cdef Py_ssize_t i, j, end, f = self.fixed, n = f + len(mean)
        cdef double* row
        # Panels are square at their ends: what is right of the diagonal there is what is below it.
        for i in range(f // PANEL * PANEL, n):
            row, end = self.lower_row(i), (i // PANEL + 1) * PANEL
            for j in range(0 if i >= f else f, end):
                if j >= n:
                    row[j] = 0.0
                elif min(i, j) < f:
                    row[j] = beside[max(i, j) - f, min(i, j)]
                else:
                    row[j] = own[max(i, j) - f, min(i, j) - f]
        for i in range(n - f):
            self._mean[f + i] = mean[i]
        for i in range(n, self.n):
            self._mean[i] = 0.0
        self.n = n

    cdef double* lower_row(self, Py_ssize_t i) noexcept nogil:
        """A row of Sigma: up to its diagonal, and to the end of the panel."""
        cdef Py_ssize_t p = i // PANEL
        return self._sigma + panel_start(p) + (i - p * PANEL) * (p + 1) * PANEL

    def add_features(self, Py_ssize_t d):
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
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
        """Keep the coordinates of the first m supports, with room for `supports`."""
        cdef Py_ssize_t n = self.fixed + m
        self.set_coordinates(self.mean[:n].copy(), self.covariance()[:n, :n], supports)

    def set_coordinates(self, mean, full, Py_ssize_t supports):
        """Take this mean and covariance, with room for the coordinates of `supports` supports."""
        cdef Py_ssize_t i, p, start, n = len(mean)
        self.n = self.capacity = 0
        self.sigma = self.mean = np.zeros(0)
        self.reserve(supports)
        self.mean[:n] = mean
        for i in range(n):
            p = i // PANEL
            start = panel_start(p) + (i - p * PANEL) * (p + 1) * PANEL
            width = min((p + 1) * PANEL, n)
            self.sigma[start:start + width] = full[i, :width]
        self.n = n

    def __getstate__(self):
        # By rows, one after the other: what a file holds does not depend on panels.
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
        """Return all that the Gaussian must remember, as arrays and numbers."""
        return self.__getstate__()

    # ------------------------------------------------------------------ coordinates

    cdef void fill(self, Rows* rows, Py_ssize_t i, bint single, double* phi) noexcept nogil:
        """The coordinates of row i that no support has part in."""
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

    cdef double beside(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """The linear part of the mean at row i."""
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

    # ------------------------------------------------------------------ a round

    cdef double measure(self, Projection projection, double* k) noexcept nogil:
        """The squared norm of the image of the row at hand, of kernel values k."""
        if self.ahead:
            return projection.known(self._phis + self.row * self.ld + self.fixed)
        return projection.project(k)

    cdef double aim(self, double* z, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """The variance at row i, whose image has the coordinates z; Sigma times its own is left in `direction`."""
        cdef Py_ssize_t j, place = -1
        cdef double c, v, square
        if self.ahead:
            self.at = self._phis + self.row * self.ld
            place = self._places[self.row]
            self.used += place >= 0
            self.missed += place < 0
        else:
            self.at = self._phi
            self.fill(rows, i, single, self.at)
            memcpy(self.at + self.fixed, z, (self.n - self.fixed) * sizeof(double))
        if place >= 0:
            memcpy(self._direction, self._products + place * self.ld, self.n * sizeof(double))
        else:
            multiply(self._sigma, self.n, self.at, self._direction)
        for j in range(self.count if self.ahead else 0):
            c = bt_dot_d(self._losses + j * self.ld, self.at, self.n)
            bt_axpy(-c, self._losses + j * self.ld, self._direction, self.n)
        if self.ridge > 0.0:
            bt_axpy(self.ridge, self.at, self._direction, self.n)
        v = bt_dot_d(self._direction, self.at, self.n)
        square = bt_dot_d(self.at, self.at, self.n)
        if v < LEAST_VARIANCE * square:
            v = self.lift(LEAST_VARIANCE - v / square, square)
        return v + self.spread(rows, i, single)

    cdef double lift(self, double more, double square) noexcept nogil:
        """Sigma grows by so much in every direction; the variance of the row at hand."""
        cdef Py_ssize_t i
        bt_axpy(more, self.at, self._direction, self.n)
        if self.ahead:
            self.ridge += more  # Sigma itself at the end of the block
        else:
            for i in range(self.n):
                self._sigma[diagonal_place(i)] += more
        return max(bt_dot_d(self._direction, self.at, self.n), LEAST_VARIANCE * square)

    cdef double spread(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """The variance at row i that comes from features with a variance of their own."""
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

    cdef void append(self, double delta) noexcept nogil:
        """A coordinate more, which the row at hand has as delta."""
        cdef Py_ssize_t p = self.n // PANEL
        cdef double* row = self.lower_row(self.n)
        memset(row, 0, (p + 1) * PANEL * sizeof(double))
        row[self.n] = 1.0
        self._mean[self.n] = 0.0
        self._direction[self.n] = delta
        if self.at != NULL:
            self.at[self.n] = delta
        self.n += 1

    cdef void step(self, double alpha, double r, double v, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """The mean moves by alpha along Sigma phi, and Sigma loses what the row, of variance v, made certain."""
        cdef double c = 1.0 / sqrt(v + r), x
        cdef double* loss
        cdef Row row
        cdef Py_ssize_t j, f
        bt_axpy(alpha, self._direction, self._mean, self.n)
        if self.diagonal:
            row = row_of(rows, i)
            for j in range(row.n):
                x, f = self.scale * value(&row, j, single), feature(&row, j)
                self._slopes[f] += alpha * self._spreads[f] * x
                self._spreads[f] *= r / (r + self._spreads[f] * x * x)
        loss = self._losses + self.count * self.ld if self.ahead else self._direction
        for j in range(self.n):
            loss[j] = c * self._direction[j]
        if self.ahead:
            memset(loss + self.n, 0, (self.ld - self.n) * sizeof(double))
            self.count += 1
        else:
            lessen(self._sigma, self.n, loss)

    cdef double square(self) noexcept nogil:
        """The squared length of the mean."""
        return bt_dot_d(self._mean, self._mean, self.n) + bt_dot_d(self._slopes, self._slopes, self.d if self.diagonal else 0)

    cdef void coefficients(self, Projection projection, double* coef) noexcept nogil:
        """Coefficients of the mean's image in the span: L^-T of its coordinates."""
        memcpy(coef, self._mean + self.fixed, projection.n * sizeof(double))
        solve_one_back(projection._factor, projection.n, coef)

    # ------------------------------------------------------------------ a block

    cdef int open(self, Py_ssize_t room) except -1:
        """Begin a block of at most so many rows."""
        if self.phis is None or self.ld != self.capacity or len(self.places) < room:
            self.ld = self.capacity
            self.phis, self.products = np.empty((room, self.ld)), np.empty((room, self.ld))
            self.losses, self.places = np.empty((room, self.ld)), np.empty(room, np.intc)
            self._phis, self._products = <double*> address(self.phis), <double*> address(self.products)
            self._losses, self._places = <double*> address(self.losses), <int*> address(self.places)
        # A row that was not expected is dearer than some that are in vain.
        if self.missed * DEARER > self.expected - self.used:
            self.slack = min(self.slack * 1.2, 10.0)
        elif self.slack > 1e-3:
            self.slack /= 1.1
        self.missed = self.used = self.expected = self.count = 0
        self.ahead, self.ridge = True, 0.0
        return 0

    cdef double* expect(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """Row i is in the block; where its image's coordinates belong."""
        self.fill(rows, i, single, self._phis + i * self.ld)
        return self._phis + i * self.ld + self.fixed

    cdef double margin(self, Py_ssize_t i, Rows* rows, bint single) noexcept nogil:
        """The mean at row i of the block."""
        cdef double value = bt_dot_d(self._mean, self._phis + i * self.ld, self.n)
        if self.diagonal:
            value += self.beside(rows, i, single) - self._mean[0]
        return value

    cdef void look_ahead(self, double* y, Py_ssize_t n, Rows* rows, bint single) noexcept nogil:
        """Multiply Sigma with the rows on which an update is likely."""
        cdef Py_ssize_t i
        for i in range(n):
            self._places[i] = -1
            if y[i] * self.margin(i, rows, single) < 1.0 + self.slack:
                # Where the losses will be, and none is yet
                memcpy(self._losses + self.expected * self.ld, self._phis + i * self.ld, self.n * sizeof(double))
                self._places[i] = <int> self.expected
                self.expected += 1
        if self.expected:
            multiply_many(self._sigma, self.n, self._losses, self._products, self.expected, self.ld)

    cdef void extend(self, Py_ssize_t i, Projection projection, double k) noexcept nogil:
        """A support was appended, whose value with row i of the block is k."""
        cdef double* phi = self._phis + i * self.ld
        phi[self.n - 1] = next_entry(projection, phi + self.fixed, k)
        if self._places[i] >= 0:
            self._products[self._places[i] * self.ld + self.n - 1] = phi[self.n - 1]

    cdef void close(self) noexcept nogil:
        """The block is over: Sigma loses what its rows took from it."""
        cdef Py_ssize_t i
        if self.ahead and self.count:
            lessen_many(self._sigma, self.n, self._losses, self.count, self.ld)
        if self.ahead and self.ridge > 0.0:
            for i in range(self.n):
                self._sigma[diagonal_place(i)] += self.ridge
        self.ahead, self.count, self.ridge = False, 0, 0.0
        self.at = NULL

    def forget_block(self):
        """Give the memory back that a block needs, and what was expected: a batch does not depend on those before."""
        self.close()
        self.slack = 0.1
        self.missed = self.used = self.expected = 0
        self.phis = self.products = self.losses = self.places = None
        self.ld = 0
