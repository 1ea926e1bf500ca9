# cython: cdivision=True
"""How rounds read and change a Gaussian: one by one, or in blocks.

`GaussianRound` plays single rounds: each product with Sigma is computed, and each change of Sigma applied, at once.

`GaussianBlock` plays the rounds of a block. The products of Sigma with all rows where an update is likely are computed
together, as matrix products. Inside the block Sigma stays as it was when the block began. Each update adds a vector
s to the list `losses`; the current covariance is Sigma - sum s s', and products with Sigma are corrected accordingly.
At the end of the block all losses are subtracted from Sigma together.
"""

from libc.math cimport sqrt
from libc.string cimport memcpy, memset

import numpy as np

from budgetron._core.gaussian cimport SIGMA_PANEL
from budgetron._core.panels cimport add_to_diagonal, downdate, downdate_many, multiply, multiply_many
from budgetron._core.projection cimport next_entry
from budgetron._core.rows cimport address

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    void bt_axpy(double, const double*, double*, ptrdiff_t)

# Rows in a block. With more coordinates it is longer, because Sigma is read once per block. The arrays of a
# block then take about a quarter of the memory of Sigma.
cdef Py_ssize_t COORDINATES_PER_ROW = 16, MOST_ROWS = 128, FEWEST_ROWS = 24

# Rounding can leave a variance that is almost 0 below 0, and a step along such a direction would make it worse. So
# each direction keeps at least this variance; at first it is 1. This is far below the variance that an update leaves, unless rows
# are very long.
cdef double LEAST_VARIANCE = 1e-15

# A product that is computed alone takes as long as this many that are computed together.
cdef Py_ssize_t COST_OF_A_MISS = 4


cdef Py_ssize_t rows_ahead(Gaussian gaussian) noexcept nogil:
    """Return how many rows a block should have at most."""
    return min(MOST_ROWS, max(FEWEST_ROWS, gaussian.capacity // COORDINATES_PER_ROW))


cdef class GaussianRound:
    """A single round. `phi` points to the coordinates of its row after `variance_at`."""

    def __init__(self, Gaussian gaussian):
        self.gaussian = gaussian

    cdef double project(self, Projection projection, double* k) noexcept nogil:
        """Return the squared norm of the image of the row with kernel values k."""
        return projection.project(k)

    cdef double variance_at(self, double* z, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """Return the variance at row i, whose image has the coordinates z. Leave Sigma phi in `gaussian.direction`."""
        cdef double* direction = self.gaussian._direction
        cdef Py_ssize_t n = self.gaussian.n
        cdef double v, square, ridge
        self.load_row(z, rows, i, single)
        v = bt_dot_d(direction, self.phi, n)
        square = bt_dot_d(self.phi, self.phi, n)
        if v < LEAST_VARIANCE * square:
            ridge = LEAST_VARIANCE - v / square
            bt_axpy(ridge, self.phi, direction, n)
            self.add_to_sigma(ridge)
            v = max(bt_dot_d(direction, self.phi, n), LEAST_VARIANCE * square)
        return v + self.gaussian.feature_variance(rows, i, single)

    cdef void load_row(self, double* z, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """Compute phi and Sigma phi of row i."""
        cdef Py_ssize_t n = self.gaussian.n, fixed = self.gaussian.fixed
        self.phi = self.gaussian._phi
        self.gaussian.fixed_coordinates(rows, i, single, self.phi)
        memcpy(self.phi + fixed, z, (n - fixed) * sizeof(double))
        multiply(self.gaussian._sigma, SIGMA_PANEL, n, self.phi, self.gaussian._direction)

    cdef void add_to_sigma(self, double ridge) noexcept nogil:
        """Add `ridge` to the variance of every direction."""
        add_to_diagonal(self.gaussian._sigma, SIGMA_PANEL, self.gaussian.n, ridge)

    cdef void append(self, double delta) noexcept nogil:
        """Add a coordinate of variance 1, which is delta in the row of this round."""
        cdef Py_ssize_t n = self.gaussian.n
        self.gaussian.append()
        self.gaussian._direction[n] = self.phi[n] = delta

    cdef void step(self, double alpha, double r, double v, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """Move the mean by alpha Sigma phi, and subtract Sigma phi phi' Sigma / (v + r) from Sigma."""
        self.gaussian.move_mean(alpha, r, rows, i, single)
        self.downdate(1.0 / sqrt(v + r))

    cdef void downdate(self, double c) noexcept nogil:
        """Subtract s s' from Sigma, with s = c Sigma phi."""
        cdef double* direction = self.gaussian._direction
        cdef Py_ssize_t j
        for j in range(self.gaussian.n):
            direction[j] = c * direction[j]
        downdate(self.gaussian._sigma, SIGMA_PANEL, self.gaussian.n, direction)

    cdef bint changes_are_pending(self) noexcept nogil:
        """Return whether changes are applied later, by `close`."""
        return False

    cdef void close(self) noexcept nogil:
        """Apply all pending changes to Sigma."""


cdef class GaussianBlock(GaussianRound):
    """The rounds of blocks of at most `room` rows.

    For each block: `open`; `coordinates` of each row; `multiply_ahead`; the rounds, with `row` set to the row of
    the round and `extend` called for each later row after a new support; `close`.
    """

    def __init__(self, Gaussian gaussian, Projection projection, Py_ssize_t room):
        GaussianRound.__init__(self, gaussian)
        self.projection, self.room, self.ld = projection, min(room, rows_ahead(gaussian)), gaussian.capacity
        self.phis, self.products, self.losses = (np.empty((self.room, self.ld)) for _ in range(3))
        self.places = np.empty(self.room, np.intc)
        self._phis, self._products = <double*> address(self.phis), <double*> address(self.products)
        self._losses, self._places = <double*> address(self.losses), <int*> address(self.places)
        self.slack = 0.1

    cdef void open(self) noexcept nogil:
        """Begin a block."""
        if self.missed * COST_OF_A_MISS > self.expected - self.used:
            self.slack = min(self.slack * 1.2, 10.0)
        elif self.slack > 1e-3:
            self.slack /= 1.1
        self.missed = self.used = self.expected = self.pending = 0
        self.ridge = 0.0
        self.factor_version = self.projection.refactorised

    cdef double* coordinates(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """Compute the fixed coordinates of row i, and return where those of its image belong."""
        self.gaussian.fixed_coordinates(rows, i, single, self._phis + i * self.ld)
        return self._phis + i * self.ld + self.gaussian.fixed

    cdef double margin(self, Py_ssize_t i, Rows* rows, bint single) noexcept nogil:
        """Return the mean at row i."""
        cdef double value = bt_dot_d(self.gaussian._mean, self._phis + i * self.ld, self.gaussian.n)
        if self.gaussian.diagonal:
            value += self.gaussian.linear_part(rows, i, single) - self.gaussian._mean[0]
        return value

    cdef void multiply_ahead(self, double* y, Rows* rows, bint single) noexcept nogil:
        """Multiply Sigma by the coordinates of the rows where an update is likely."""
        cdef Py_ssize_t i, n = self.gaussian.n
        for i in range(rows.n):
            self._places[i] = -1
            if y[i] * self.margin(i, rows, single) < 1.0 + self.slack:
                # The block has no losses yet, so their array is free for the factors of the product.
                memcpy(self._losses + self.expected * self.ld, self._phis + i * self.ld, n * sizeof(double))
                self._places[i] = <int> self.expected
                self.expected += 1
        if self.expected:
            multiply_many(self.gaussian._sigma, SIGMA_PANEL, n, self._losses, self._products, self.expected, self.ld)

    cdef double project(self, Projection projection, double* k) noexcept nogil:
        return projection.use_solution(self._phis + self.row * self.ld + self.gaussian.fixed)

    cdef void load_row(self, double* z, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        cdef double* direction = self.gaussian._direction
        cdef Py_ssize_t j, n = self.gaussian.n, place = self._places[self.row]
        cdef double c
        self.phi = self._phis + self.row * self.ld
        if place >= 0:
            self.used += 1
            memcpy(direction, self._products + place * self.ld, n * sizeof(double))
        else:
            self.missed += 1
            multiply(self.gaussian._sigma, SIGMA_PANEL, n, self.phi, direction)
        for j in range(self.pending):
            c = bt_dot_d(self._losses + j * self.ld, self.phi, n)
            bt_axpy(-c, self._losses + j * self.ld, direction, n)
        if self.ridge > 0.0:
            bt_axpy(self.ridge, self.phi, direction, n)

    cdef void add_to_sigma(self, double ridge) noexcept nogil:
        self.ridge += ridge

    cdef void downdate(self, double c) noexcept nogil:
        cdef double* direction = self.gaussian._direction
        cdef double* loss = self._losses + self.pending * self.ld
        cdef Py_ssize_t j, n = self.gaussian.n
        for j in range(n):
            loss[j] = c * direction[j]
        memset(loss + n, 0, (self.ld - n) * sizeof(double))
        self.pending += 1

    cdef bint changes_are_pending(self) noexcept nogil:
        return True

    cdef void extend(self, Py_ssize_t i, double k) noexcept nogil:
        """Add the coordinate of the newest support, whose kernel value with row i is k."""
        cdef Py_ssize_t last = self.gaussian.n - 1
        cdef double* phi = self._phis + i * self.ld
        phi[last] = next_entry(self.projection, phi + self.gaussian.fixed, k)
        if self._places[i] >= 0:
            self._products[self._places[i] * self.ld + last] = phi[last]

    cdef bint is_outdated(self) noexcept nogil:
        """Return whether the factor was computed again, so that the coordinates of the other rows are wrong."""
        return self.projection.refactorised > self.factor_version

    cdef void close(self) noexcept nogil:
        if self.pending:
            downdate_many(self.gaussian._sigma, SIGMA_PANEL, self.gaussian.n, self._losses, self.pending, self.ld)
        if self.ridge > 0.0:
            add_to_diagonal(self.gaussian._sigma, SIGMA_PANEL, self.gaussian.n, self.ridge)
        self.pending, self.ridge = 0, 0.0
