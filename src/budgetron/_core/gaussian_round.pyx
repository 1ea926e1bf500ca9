# cython: cdivision=True
"""How rounds read and change a Gaussian: one by one, or in blocks.

`GaussianRound` plays single rounds: each product with Sigma is computed, and each change of Sigma applied, at once.

`GaussianBlock` plays the rounds of a block. The products of Sigma with all rows where an update is likely are computed
together, as matrix products. Inside the block Sigma stays as it was when the block began. Each update adds a vector
s to the list `losses`; the current covariance is Sigma - sum s s', and products with Sigma are corrected accordingly.
At the end of the block all losses are subtracted from Sigma together. What updates forget is applied then, too.
"""

from libc.math cimport sqrt
from libc.string cimport memcpy, memset

from scipy.linalg.cython_blas cimport dgemm

import numpy as np

from budgetron._core.gaussian cimport SIGMA_PANEL

from budgetron._core.panels cimport add_to_diagonal, downdate, downdate_many, multiply, multiply_all, multiply_many
from budgetron._core.projection cimport next_entry
from budgetron._core.rows cimport address

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    void bt_axpy(double, const double*, double*, ptrdiff_t)

# Rows in a block. With more coordinates it is longer, because Sigma is read once per block. The arrays of a
# block then take about half of the memory of Sigma.
cdef Py_ssize_t COORDINATES_PER_ROW = 12, MOST_ROWS = 128, FEWEST_ROWS = 24

# Rounding can leave a variance that is almost 0 below 0, and a step along such a direction would make it worse. So
# each direction keeps at least this variance; at first it is 1. This is far below the variance that an update leaves, unless rows
# are very long.
cdef double LEAST_VARIANCE = 1e-15

# Inside a block, Sigma may be multiplied by this number at the least before it is stored again.
cdef double LEAST_FACTOR = 1e-50

# A product that is computed alone takes as long as this many that are computed together.
cdef Py_ssize_t COST_OF_A_MISS = 4


cdef Py_ssize_t rows_ahead(Gaussian gaussian) noexcept nogil:
    """Return how many rows a block should have at most."""
    return min(MOST_ROWS, max(FEWEST_ROWS, gaussian.capacity // COORDINATES_PER_ROW))


cdef class GaussianRound:
    """A single round. `phi` points to the coordinates of its row after `variance_at`.

    After an update, Sigma becomes keep Sigma + (1 - keep) prior, and means are multiplied by sqrt(keep).
    """

    def __init__(self, Gaussian gaussian, double keep):
        self.gaussian, self.keep = gaussian, keep

    cdef double project(self, Projection projection, double* k) noexcept nogil:
        """Return the squared norm of the image of the row with kernel values k."""
        return projection.project(k)

    cdef double variance_at(self, double* z, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """Return the variance at row i, whose image has the coordinates z. Leave Sigma phi in `gaussian.direction`."""
        cdef double* direction = self.gaussian._direction
        cdef Py_ssize_t n = self.gaussian.n
        cdef double v, square, ridge, least
        self.load_row(z, rows, i, single)
        v = bt_dot_d(direction, self.phi, n)
        square = bt_dot_d(self.phi, self.phi, n)
        least = LEAST_VARIANCE * self.gaussian.prior
        if v < least * square:
            ridge = least - v / square
            bt_axpy(ridge, self.phi, direction, n)
            self.add_to_sigma(ridge)
            v = max(bt_dot_d(direction, self.phi, n), least * square)
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
        """Add a coordinate, which is delta in the row of this round."""
        cdef Py_ssize_t n = self.gaussian.n
        self.gaussian.append(self.gaussian.prior)
        self.phi[n] = delta
        self.gaussian._direction[n] = self.gaussian.prior * delta

    cdef void step(self, double* steps, double noise, double v, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """Move each mean by its step times Sigma phi, and subtract Sigma phi phi' Sigma / (v + noise) from Sigma."""
        self.gaussian.move_means(steps, noise, rows, i, single)
        self.downdate(1.0 / sqrt(v + noise))
        if self.keep < 1.0:
            self.gaussian.forget_means(self.keep)
            self.forget()

    cdef void downdate(self, double c) noexcept nogil:
        """Subtract s s' from Sigma, with s = c Sigma phi."""
        cdef double* direction = self.gaussian._direction
        cdef Py_ssize_t j
        for j in range(self.gaussian.n):
            direction[j] = c * direction[j]
        downdate(self.gaussian._sigma, SIGMA_PANEL, self.gaussian.n, direction)

    cdef void forget(self) noexcept nogil:
        """Forget a part of Sigma."""
        multiply_all(self.gaussian._sigma, SIGMA_PANEL, self.gaussian.n, self.keep)
        self.add_to_sigma((1.0 - self.keep) * self.gaussian.prior)

    cdef bint changes_are_pending(self) noexcept nogil:
        """Return whether changes are applied later, by `close`."""
        return False

    cdef void close(self) noexcept nogil:
        """Apply all pending changes to Sigma."""


cdef class GaussianBlock(GaussianRound):
    """The rounds of blocks of at most `room` rows.

    For each block: `open`; `coordinates` of each row; `score_all`; `expect` each row where an update is likely;
    `multiply_ahead`; the rounds, with `row` set to the row of the round and `extend` called for each later row
    after a new support; `close`.

    Inside a block, Sigma is factor (S - sum of s s') + ridge, with S the stored matrix and s the losses.
    """

    def __init__(self, Gaussian gaussian, double keep, Projection projection, Py_ssize_t room):
        GaussianRound.__init__(self, gaussian, keep)
        self.projection, self.room, self.ld = projection, min(room, rows_ahead(gaussian)), gaussian.capacity
        self.phis, self.products, self.losses = (np.empty((self.room, self.ld)) for _ in range(3))
        self.places = np.empty(self.room, np.intc)
        self.first_scores = np.empty((self.room, gaussian.outputs))
        self._first_scores = <double*> address(self.first_scores)
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
        self.factor, self.ridge = 1.0, 0.0
        self.factor_version = self.projection.refactorised

    cdef double* coordinates(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil:
        """Compute the fixed coordinates of row i, and return where those of its image belong."""
        self.gaussian.fixed_coordinates(rows, i, single, self._phis + i * self.ld)
        return self._phis + i * self.ld + self.gaussian.fixed

    cdef void score_all(self, Rows* rows, bint single) noexcept nogil:
        """Compute the scores of all rows of the block, as a matrix product if there are several outputs."""
        cdef int n = <int> self.gaussian.n, columns = <int> rows.n, outputs = <int> self.gaussian.outputs
        cdef int step = <int> self.ld, capacity = <int> self.gaussian.capacity
        cdef double one = 1.0, zero = 0.0
        cdef Py_ssize_t i
        if n == 0:
            memset(self._first_scores, 0, rows.n * outputs * sizeof(double))
        elif outputs > 1:
            dgemm("T", "N", &outputs, &columns, &n, &one, self.gaussian._means, &capacity, self._phis, &step, &zero,
                  self._first_scores, &outputs)
        else:
            for i in range(rows.n):
                self._first_scores[i] = bt_dot_d(self.gaussian._means, self._phis + i * self.ld, n)
        for i in range(rows.n):
            self.gaussian.add_slopes(rows, i, single, self._first_scores + i * outputs)

    cdef void scores(self, Py_ssize_t i, Rows* rows, bint single, double* out) noexcept nogil:
        """Write the means of all outputs at row i to `out`."""
        cdef Py_ssize_t c, outputs = self.gaussian.outputs, n = self.gaussian.n
        if self.pending == 0:  # no mean has changed since the block began
            memcpy(out, self._first_scores + i * outputs, outputs * sizeof(double))
            return
        for c in range(outputs):
            out[c] = bt_dot_d(self.gaussian.mean(c), self._phis + i * self.ld, n)
        self.gaussian.add_slopes(rows, i, single, out)

    cdef void expect(self, Py_ssize_t i) noexcept nogil:
        """Expect an update at row i of the block; rows are given in order."""
        # The block has no losses yet, so their array is free for the factors of the product.
        memcpy(self._losses + self.expected * self.ld, self._phis + i * self.ld, self.gaussian.n * sizeof(double))
        self._places[i] = <int> self.expected
        self.expected += 1

    cdef void multiply_ahead(self) noexcept nogil:
        """Multiply Sigma by the coordinates of the rows where an update is expected."""
        if self.expected:
            multiply_many(self.gaussian._sigma, SIGMA_PANEL, self.gaussian.n, self._losses, self._products,
                          self.expected, self.ld)

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
        if self.factor != 1.0:
            for j in range(n):
                direction[j] *= self.factor
        if self.ridge > 0.0:
            bt_axpy(self.ridge, self.phi, direction, n)

    cdef void add_to_sigma(self, double ridge) noexcept nogil:
        self.ridge += ridge

    cdef void downdate(self, double c) noexcept nogil:
        cdef double* direction = self.gaussian._direction
        cdef double* loss = self._losses + self.pending * self.ld
        cdef Py_ssize_t j, n = self.gaussian.n
        c /= sqrt(self.factor)
        for j in range(n):
            loss[j] = c * direction[j]
        memset(loss + n, 0, (self.ld - n) * sizeof(double))
        self.pending += 1

    cdef void append(self, double delta) noexcept nogil:
        cdef Py_ssize_t n = self.gaussian.n
        GaussianRound.append(self, delta)
        self.gaussian.lower_row(n)[n] = self.new_entry()

    cdef double new_entry(self) noexcept nogil:
        """Return the entry of S on its diagonal for a coordinate whose variance is the prior's."""
        return (self.gaussian.prior - self.ridge) / self.factor

    cdef void forget(self) noexcept nogil:
        self.factor *= self.keep
        self.ridge = self.keep * self.ridge + (1.0 - self.keep) * self.gaussian.prior

    cdef bint changes_are_pending(self) noexcept nogil:
        return True

    cdef void extend(self, Py_ssize_t i, double k) noexcept nogil:
        """Add the coordinate of the newest support, whose kernel value with row i is k."""
        cdef Py_ssize_t last = self.gaussian.n - 1
        cdef double* phi = self._phis + i * self.ld
        phi[last] = next_entry(self.projection, phi + self.gaussian.fixed, k)
        if self._places[i] >= 0:
            self._products[self._places[i] * self.ld + last] = self.gaussian.lower_row(last)[last] * phi[last]

    cdef bint is_outdated(self) noexcept nogil:
        """Return whether the block must end: the other rows have wrong coordinates, or Sigma has a very small factor.

        Coordinates are wrong if the factor of the projection was computed again.
        """
        return self.projection.refactorised > self.factor_version or self.factor < LEAST_FACTOR

    cdef void close(self) noexcept nogil:
        if self.pending:
            downdate_many(self.gaussian._sigma, SIGMA_PANEL, self.gaussian.n, self._losses, self.pending, self.ld)
        if self.factor != 1.0:
            multiply_all(self.gaussian._sigma, SIGMA_PANEL, self.gaussian.n, self.factor)
        if self.ridge > 0.0:
            add_to_diagonal(self.gaussian._sigma, SIGMA_PANEL, self.gaussian.n, self.ridge)
        self.pending, self.factor, self.ridge = 0, 1.0, 0.0
