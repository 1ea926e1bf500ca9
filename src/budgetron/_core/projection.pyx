# cython: cdivision=True
"""Projection onto the span of the supports, by a Cholesky factor that grows.

The Gram matrix of the supports is K = L L'. For a row x with kernel values k, z = L^-1 k gives
||P k(x, .)||^2 = ||z||^2, the coefficients of the projection are d = L^-T z (002 eq. 8), and
a support's own row of L is z followed by ||delta||. This costs what the explicit inverse of 002 eq. 11
costs and keeps its digits where the inverse loses them.

L lies in panels of PANEL rows, each as wide as its last row: a new support appends a row and moves nothing, and a panel is
a matrix to BLAS. So the rows of a block that look as if they will be projected are solved for together
(`Foresight`), at the speed of matrix products; a support that is added inside the block makes each of their
solutions one entry longer.
"""

from libc.math cimport fabs, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from scipy.linalg.cython_blas cimport dgemm, dtrsm

import numpy as np
from scipy.linalg import lapack

from budgetron._core.rows cimport address

from budgetron._core.supports import writeable
from budgetron._core.pages import lengthen, zeros
from budgetron._core.turn import Turn

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    void bt_axpy(double, const double*, double*, ptrdiff_t)

cdef Py_ssize_t PANEL = 64

# Each so many supports, a projection is compared with the kernel itself.
cdef Py_ssize_t CHECKED = 64
# K d may miss k by this share of it before the factor is made anew.
cdef double DRIFT = 1e-9
# The least ||delta||^2, relative to k(x, x), over which a solution may be extended and not solved for again.
cdef double STEEP = 1e-6
# What a smaller span is turned by loses digits by its square.
cdef double LARGEST_TURN = 1e3


# Rows that are solved for together in the time of one that is not.
cdef Py_ssize_t DEARER = 3


cdef Py_ssize_t panel_start(Py_ssize_t p) noexcept nogil:
    return PANEL * PANEL * (p * (p + 1) // 2)


cdef Py_ssize_t row_start(Py_ssize_t i) noexcept nogil:
    cdef Py_ssize_t p = i // PANEL
    return panel_start(p) + (i - p * PANEL) * (p + 1) * PANEL


cdef void solve_one(double* factor, Py_ssize_t n, double* z) noexcept nogil:
    """z becomes L^-1 z."""
    cdef Py_ssize_t i
    cdef double* row
    for i in range(n):
        row = factor + row_start(i)
        z[i] = (z[i] - bt_dot_d(row, z, i)) / row[i]


cdef void solve_one_back(double* factor, Py_ssize_t n, double* d) noexcept nogil:
    """d becomes L^-T d."""
    cdef Py_ssize_t i
    cdef double* row
    for i in range(n - 1, -1, -1):
        row = factor + row_start(i)
        d[i] /= row[i]
        bt_axpy(-d[i], row, d, i)


cdef void solve_many(double* factor, Py_ssize_t n, double* z, Py_ssize_t count, Py_ssize_t ld) noexcept nogil:
    """Each of `count` rows of z becomes L^-1 of it."""
    cdef int rows, above, columns = <int> count, width, step = <int> ld
    cdef double one = 1.0, minus = -1.0
    cdef double* panel
    cdef Py_ssize_t p, first
    for p in range((n + PANEL - 1) // PANEL):
        first = p * PANEL
        panel = factor + panel_start(p)
        rows, above, width = <int> min(PANEL, n - first), <int> first, <int> ((p + 1) * PANEL)
        # Rows of a lower triangle are columns of an upper one: L is U' to BLAS.
        if above:
            dgemm("T", "N", &rows, &columns, &above, &minus, panel, &width, z, &step, &one, z + first, &step)
        dtrsm("L", "U", "T", "N", &rows, &columns, &one, panel + first, &width, z + first, &step)


cdef void solve_many_back(double* factor, Py_ssize_t n, double* d, Py_ssize_t count, Py_ssize_t ld) noexcept nogil:
    """Each of `count` rows of d becomes L^-T of it."""
    cdef int rows, above, columns = <int> count, width, step = <int> ld
    cdef double one = 1.0, minus = -1.0
    cdef double* panel
    cdef Py_ssize_t p, first
    for p in range((n + PANEL - 1) // PANEL - 1, -1, -1):
        first = p * PANEL
        panel = factor + panel_start(p)
        rows, above, width = <int> min(PANEL, n - first), <int> first, <int> ((p + 1) * PANEL)
        dtrsm("L", "U", "N", "N", &rows, &columns, &one, panel + first, &width, d + first, &step)
        if above:
            dgemm("N", "N", &above, &columns, &rows, &minus, panel, &width, d + first, &step, &one, d, &step)


cdef class Projection:
    """The span of the supports, in the order in which they were appended."""

    def __cinit__(self):
        self.factor = self.z = self.d = np.zeros(0)
        self.point()

    def reserve(self, Py_ssize_t capacity):
        """Room for `capacity` supports."""
        if capacity <= self.capacity:
            return
        held, self.factor = [self.factor], None
        try:
            lengthen(held, panel_start((capacity + PANEL - 1) // PANEL))
        finally:
            self.factor = held[0]
            self.point()
        self.z, self.d = np.zeros(capacity), np.zeros(capacity)
        self.capacity = capacity
        self.point()

    cdef void point(self):
        self._factor, self._z = <double*> address(self.factor), <double*> address(self.z)
        self._d = <double*> address(self.d)

    def arrays(self):
        """Everything that takes memory."""
        return {"factor": self.factor, "z": self.z, "d": self.d}

    def rows(self):
        """L, as a full matrix."""
        cdef Py_ssize_t i, start
        L = np.zeros((self.n, self.n))
        for i in range(self.n):
            start = row_start(i)
            L[i, :i + 1] = self.factor[start:start + i + 1]
        return L

    def __getstate__(self):
        # By rows, one after the other: what a file holds does not depend on panels.
        cdef Py_ssize_t i, start
        packed = np.zeros(self.capacity * (self.capacity + 1) // 2)
        for i in range(self.n):
            start = row_start(i)
            packed[i * (i + 1) // 2:(i + 1) * (i + 2) // 2] = self.factor[start:start + i + 1]
        return {"factor": packed, "z": self.z, "n": self.n}

    def __setstate__(self, state):
        cdef Py_ssize_t i, start
        self.capacity = self.n = 0
        self.factor = np.zeros(0)
        self.reserve(len(state["z"]))
        self.z = writeable(state["z"])
        self.point()
        for i in range(state["n"]):
            start = row_start(i)
            self.factor[start:start + i + 1] = state["factor"][i * (i + 1) // 2:(i + 1) * (i + 2) // 2]
        self.n = state["n"]

    def __reduce__(self):
        return Projection, (), self.__getstate__()

    def state(self):
        """Return all that the projection must remember, as arrays and numbers."""
        return self.__getstate__()

    def truncate(self, Py_ssize_t m, Py_ssize_t capacity):
        """Project onto the span of the first m supports, with room for `capacity`."""
        cdef Py_ssize_t end = row_start(m)
        factor = self.factor
        self.factor, self.capacity = np.zeros(0), 0
        self.reserve(capacity)
        self.factor[:min(end, len(factor))] = factor[:end]
        self.n = m

    def without(self, const Py_ssize_t[::1] kept, const Py_ssize_t[::1] left):
        """The span of the supports at the places `kept`, without those at the places `left`: L, and how it was turned.

        The new L is L_kept,kept M, with M of `Turn`. None where W is so large that this would cost too many digits.
        """
        cdef Py_ssize_t i, j, m = len(kept)
        cdef double[::1, :] own = zeros((m, m)).T, other = zeros((len(left), m)).T
        cdef double* row
        for i in range(m):
            row = self._factor + row_start(kept[i])
            for j in range(i + 1):
                own[i, j] = row[kept[j]]
            for j in range(len(left)):
                if left[j] < kept[i]:
                    other[i, j] = row[left[j]]
        W = lapack.dtrtrs(own.base, other.base, lower=1, overwrite_b=1)[0]
        if not max(W.max(), -W.min()) < LARGEST_TURN:
            return None
        turn = Turn(W)
        return turn.after(own.base), turn

    def become(self, const double[::1, :] L):
        """Be the span of this factor."""
        cdef Py_ssize_t i, j
        cdef double* row
        self.n = L.shape[0]
        for i in range(self.n):
            row = self._factor + row_start(i)
            for j in range(i + 1):
                row[j] = L[i, j]

    cdef double project(self, double* k) noexcept nogil:
        """||P k(x, .)||^2, leaving z = L^-1 k for `coefficients` and `append`."""
        cdef Py_ssize_t place = -1
        if self.foresight is not None:
            place = self.foresight.place[self.row]
            self.foresight.used += place >= 0
            self.foresight.missed += place < 0
        if place >= 0:
            self.row_z, self.row_d = self.foresight.z_at(place), self.foresight.d_at(place)
        else:
            memcpy(self._z, k, self.n * sizeof(double))
            solve_one(self._factor, self.n, self._z)
            self.row_z, self.row_d = self._z, NULL
        return bt_dot_d(self.row_z, self.row_z, self.n)

    cdef double known(self, double* z) noexcept nogil:
        """The same for a row of which z is known."""
        self.row_z, self.row_d = z, NULL
        return bt_dot_d(z, z, self.n)

    cdef double* coefficients(self) noexcept nogil:
        """d = L^-T z of the row just projected."""
        if self.row_d == NULL:
            memcpy(self._d, self.row_z, self.n * sizeof(double))
            solve_one_back(self._factor, self.n, self._d)
            self.row_d = self._d
        return self.row_d

    cdef int append(self, double delta2, double* k, Supports supports) except -1 nogil:
        """The row just projected, of kernel values k, becomes a support at distance^2 delta2 > 0."""
        cdef double* row = self._factor + row_start(self.n)
        if self.n > 0 and self.n % CHECKED == 0 and self.check(k, supports):
            delta2 = max(k[self.n] - bt_dot_d(self.row_z, self.row_z, self.n), 1e-14 * k[self.n])
        memcpy(row, self.row_z, self.n * sizeof(double))
        row[self.n] = sqrt(delta2)
        self.steep = delta2 < STEEP * (delta2 + bt_dot_d(row, row, self.n))
        if self.foresight is not None and self.foresight.count_d > 0 and not self.steep:
            self.coefficients()  # which the others' are extended by
        self.n += 1
        return 0

    cdef int check(self, double* k, Supports supports) except -1 nogil:
        """Compare K d with k at a few supports, with values that the kernel gives now; whether L was made anew."""
        cdef double* row = <double*> malloc(max(1, supports.top) * sizeof(double))
        cdef double* d = self.coefficients()
        cdef double size = sqrt(bt_dot_d(k, k, self.n)), known = 1e-5 if supports.single else 1e-12, terms
        cdef Py_ssize_t s, i, j
        cdef bint drifted = False
        if row == NULL:
            with gil:
                raise MemoryError
        try:
            for i in range(4):
                s = self.n - 1 - i * (self.n // 4)
                supports.kernel_row(s, row)
                terms = 0.0
                for j in range(self.n):
                    terms += fabs(row[j] * d[j])
                # What the rounding of the kernel's own values explains is no drift.
                drifted = drifted or not fabs(bt_dot_d(row, d, self.n) - k[s]) <= DRIFT * size + known * terms
        finally:
            free(row)
        if not drifted:
            return 0
        self.refactorise(supports)
        if self.foresight is not None:
            self.foresight.forget()
        memcpy(self._z, k, self.n * sizeof(double))
        solve_one(self._factor, self.n, self._z)
        self.row_z, self.row_d = self._z, NULL
        return 1

    cdef int refactorise(self, Supports supports) except -1 nogil:
        """Make L anew from the rows of the supports, a panel at a time."""
        cdef Py_ssize_t p, first, rows, i, j, width, n = self.n
        cdef double* values = <double*> malloc(PANEL * max(1, supports.top) * sizeof(double))
        cdef double* row
        cdef double* other
        cdef double square
        if values == NULL:
            with gil:
                raise MemoryError
        try:
            for p in range((n + PANEL - 1) // PANEL):
                first, width = p * PANEL, (p + 1) * PANEL
                rows = min(PANEL, n - first)
                for i in range(rows):
                    supports.kernel_row(first + i, values + i * supports.top)
                solve_many(self._factor, first, values, rows, supports.top)
                for i in range(rows):
                    row = self._factor + panel_start(p) + i * width
                    memcpy(row, values + i * supports.top, (first + i + 1) * sizeof(double))
                    for j in range(i):
                        other = self._factor + panel_start(p) + j * width
                        row[first + j] = (row[first + j] - bt_dot_d(row, other, first + j)) / other[first + j]
                    square = row[first + i] - bt_dot_d(row, row, first + i)
                    row[first + i] = sqrt(max(square, 1e-14 * row[first + i]))
        finally:
            free(values)
        self.refactorised += 1
        return 0

    def rebuild(self, Supports supports):
        """Make L anew from the rows of the supports."""
        self.refactorise(supports)


cdef double next_entry(Projection projection, double* z, double k) noexcept nogil:
    """The last entry of a row's z, whose value with the newest support is k; the others are there."""
    cdef Py_ssize_t n = projection.n - 1
    cdef double* row = projection._factor + row_start(n)
    return (k - bt_dot_d(row, z, n)) / row[n]


cdef class Foresight:
    """Solutions, made together, for the rows of a block that look as if they will need them."""

    def __init__(self, Projection projection, Py_ssize_t room):
        self.projection, self.room, self.slack = projection, room, 0.5
        self.place, self.place_d = np.full(room, -1, np.int32), np.full(room, -1, np.int32)

    cdef int open(self, Py_ssize_t rows) except -1:
        """A new block, to which at most as many supports are added as it has rows."""
        cdef Py_ssize_t needed = self.projection.n + rows
        if self.ld < needed:
            self.ld = needed + needed // 4
            self.z, self.d = np.empty((self.room, self.ld)), np.empty((self.room, self.ld))
            self._z, self._d = <double*> address(self.z), <double*> address(self.d)
        # A row that was not expected is dearer than some that are in vain.
        if self.missed * DEARER > self.count - self.used:
            self.slack *= 1.2
        elif self.slack > 1e-3:
            self.slack /= 1.1
        self.missed = self.used = 0
        self.forget()
        return 0

    cdef void forget(self) noexcept nogil:
        cdef Py_ssize_t i
        self.count = self.count_d = 0
        for i in range(self.room):
            self.place[i] = self.place_d[i] = -1

    cdef double* expect(self, Py_ssize_t row) noexcept nogil:
        """Take this row of the block among them; where its kernel values belong."""
        self.place[row] = <int32_t> self.count
        self.count += 1
        return self.z_at(self.count - 1)

    cdef void solve(self) noexcept nogil:
        """z for all of them."""
        if self.count:
            solve_many(self.projection._factor, self.projection.n, self._z, self.count, self.ld)

    cdef void expect_move(self, Py_ssize_t place) noexcept nogil:
        """Take this one among those of which d is wanted."""
        self.place_d[place] = <int32_t> self.count_d
        memcpy(self.d_at(place), self.z_at(place), self.projection.n * sizeof(double))
        self.count_d += 1

    cdef void solve_back(self) noexcept nogil:
        """d for these."""
        if self.count_d:
            solve_many_back(self.projection._factor, self.projection.n, self._d, self.count_d, self.ld)

    cdef void extend(self, Py_ssize_t place, double k) noexcept nogil:
        """A support was appended, whose value with this row is k: one entry more."""
        cdef Py_ssize_t n = self.projection.n - 1
        cdef double* z = self.z_at(place)
        cdef double* d = self.d_at(place)
        cdef double* row = self.projection._factor + row_start(n)
        z[n] = next_entry(self.projection, z, k)
        if d == NULL:
            return
        if self.projection.steep:
            self.place_d[place] = -1
            return
        d[n] = z[n] / row[n]
        bt_axpy(-d[n], self.projection.row_d, d, n)

    cdef double* z_at(self, Py_ssize_t place) noexcept nogil:
        return self._z + place * self.ld

    cdef double* d_at(self, Py_ssize_t place) noexcept nogil:
        return NULL if self.place_d[place] < 0 else self._d + self.place_d[place] * self.ld
