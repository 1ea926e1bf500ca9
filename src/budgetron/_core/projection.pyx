# cython: cdivision=True
"""Projection onto the span of the supports, by a Cholesky factor that grows.

The Gram matrix of the supports is K = L L'. For a row x with kernel values k and z = L^-1 k, the projection of k(x, .)
has the squared norm ||z||^2 and the coefficients d = L^-T z (002 eq. 8). If x becomes a support, its row of L is z
followed by ||delta||, the distance of k(x, .) from the span. This costs as much as updating the inverse of K
(002 eq. 11), and is more accurate where K is nearly singular.

L is stored in panels (see `panels`). The rows of a block that will probably be projected are solved for together
(`ProjectionBlock`), as matrix products. A support that is added inside the block appends one entry to each of their
solutions.
"""

from libc.math cimport fabs, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np
from scipy.linalg import lapack

from budgetron._core.panels cimport (
    packed_size, panel_count, panel_start, row_start, solve_many, solve_many_transposed, solve_one,
    solve_one_transposed, unpack,
)
from budgetron._core.rows cimport address

from budgetron._core.basis_change import BasisChange
from budgetron._core.pages import lengthen, zeros
from budgetron._core.supports import writeable

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    void bt_axpy(double, const double*, double*, ptrdiff_t)

# After each so many new supports, a projection is compared with kernel values computed again.
cdef Py_ssize_t CHECK_INTERVAL = 64
# Largest error of K d, relative to k, before the factor is computed again.
cdef double LARGEST_DRIFT = 1e-9
# A solution is extended by a new support only if ||delta||^2 is at least this part of k(x, x). Otherwise it is computed
# again.
cdef double LEAST_DELTA = 1e-6
# A change of basis loses digits with the square of its largest entry.
cdef double LARGEST_ENTRY = 1e3
# A solution that is computed alone takes as long as this many that are computed together.
cdef Py_ssize_t COST_OF_A_MISS = 3


cdef class Projection:
    """The span of the supports, in the order in which they were appended."""

    def __cinit__(self):
        self.factor = self.z = self.d = np.zeros(0)
        self.set_pointers()

    def reserve(self, Py_ssize_t capacity):
        """Make room for `capacity` supports."""
        if capacity <= self.capacity:
            return
        # `lengthen` can grow the array in place only if nothing else refers to it.
        holder, self.factor = [self.factor], None
        try:
            lengthen(holder, packed_size(capacity, FACTOR_PANEL))
        finally:
            self.factor = holder[0]
            self.set_pointers()
        self.z, self.d = np.zeros(capacity), np.zeros(capacity)
        self.capacity = capacity
        self.set_pointers()

    @staticmethod
    def bytes_for(Py_ssize_t n):
        """Return the bytes of the factor of n supports."""
        return 8 * packed_size(n, FACTOR_PANEL)

    cdef void set_pointers(self):
        self._factor, self._z = <double*> address(self.factor), <double*> address(self.z)
        self._d = <double*> address(self.d)

    def arrays(self):
        """Return all arrays that take memory."""
        return {"factor": self.factor, "z": self.z, "d": self.d}

    def rows(self):
        """Return L as a full matrix."""
        return unpack(self.factor, self.n, FACTOR_PANEL)

    def __getstate__(self):
        # Row by row, so that model files do not depend on the panels.
        cdef Py_ssize_t i, start
        packed = np.zeros(self.capacity * (self.capacity + 1) // 2)
        for i in range(self.n):
            start = row_start(i, FACTOR_PANEL)
            packed[i * (i + 1) // 2:(i + 1) * (i + 2) // 2] = self.factor[start:start + i + 1]
        return {"factor": packed, "z": self.z, "n": self.n}

    def __setstate__(self, state):
        cdef Py_ssize_t i, start
        self.capacity = self.n = 0
        self.factor = np.zeros(0)
        self.reserve(len(state["z"]))
        self.z = writeable(state["z"])
        self.set_pointers()
        for i in range(state["n"]):
            start = row_start(i, FACTOR_PANEL)
            self.factor[start:start + i + 1] = state["factor"][i * (i + 1) // 2:(i + 1) * (i + 2) // 2]
        self.n = state["n"]

    def __reduce__(self):
        return Projection, (), self.__getstate__()

    def state(self):
        """Return the state as arrays and numbers."""
        return self.__getstate__()

    def truncate(self, Py_ssize_t m, Py_ssize_t capacity):
        """Keep the span of the first m supports, with room for `capacity` supports."""
        cdef Py_ssize_t end = row_start(m, FACTOR_PANEL)
        factor = self.factor
        self.factor, self.capacity = np.zeros(0), 0
        self.reserve(capacity)
        self.factor[:min(end, len(factor))] = factor[:end]
        self.n = m

    def restricted(self, const Py_ssize_t[::1] kept, const Py_ssize_t[::1] removed):
        """Return the factor of the span of fewer supports, and the change of basis to it.

        `kept` and `removed` are positions of the supports. The new factor is L_kept,kept M, with M of `BasisChange`.
        Return None if an entry of W is so large that this would lose too many digits.
        """
        cdef Py_ssize_t i, j, m = len(kept)
        cdef double[::1, :] own = zeros((m, m)).T, other = zeros((len(removed), m)).T
        cdef double* row
        for i in range(m):
            row = self._factor + row_start(kept[i], FACTOR_PANEL)
            for j in range(i + 1):
                own[i, j] = row[kept[j]]
            for j in range(len(removed)):
                if removed[j] < kept[i]:
                    other[i, j] = row[removed[j]]
        W = lapack.dtrtrs(own.base, other.base, lower=1, overwrite_b=1)[0]
        if not max(W.max(), -W.min()) < LARGEST_ENTRY:
            return None
        change = BasisChange(W)
        return change.multiply_left(own.base), change

    def set_factor(self, const double[::1, :] L):
        """Replace the factor by L."""
        cdef Py_ssize_t i, j
        cdef double* row
        self.n = L.shape[0]
        for i in range(self.n):
            row = self._factor + row_start(i, FACTOR_PANEL)
            for j in range(i + 1):
                row[j] = L[i, j]

    cdef double project(self, double* k) noexcept nogil:
        """Return ||P k(x, .)||^2, and leave z = L^-1 k for `coefficients` and `append`."""
        cdef Py_ssize_t place = -1
        if self.block is not None:
            place = self.block.place[self.row]
            self.block.used += place >= 0
            self.block.missed += place < 0
        if place >= 0:
            self.row_z, self.row_d = self.block.z_at(place), self.block.d_at(place)
        else:
            memcpy(self._z, k, self.n * sizeof(double))
            solve_one(self._factor, FACTOR_PANEL, self.n, self._z)
            self.row_z, self.row_d = self._z, NULL
        return bt_dot_d(self.row_z, self.row_z, self.n)

    cdef double use_solution(self, double* z) noexcept nogil:
        """Return ||P k(x, .)||^2 of a row whose z is already known, and leave z as `project` does."""
        self.row_z, self.row_d = z, NULL
        return bt_dot_d(z, z, self.n)

    cdef double* coefficients(self) noexcept nogil:
        """Return d = L^-T z of the row projected last."""
        if self.row_d == NULL:
            memcpy(self._d, self.row_z, self.n * sizeof(double))
            solve_one_transposed(self._factor, FACTOR_PANEL, self.n, self._d)
            self.row_d = self._d
        return self.row_d

    cdef int append(self, double delta2, double* k, Supports supports) except -1 nogil:
        """Add the row projected last as a support, with kernel values k and squared distance delta2 > 0 from the span."""
        cdef double* row = self._factor + row_start(self.n, FACTOR_PANEL)
        if self.n > 0 and self.n % CHECK_INTERVAL == 0 and self.check(k, supports):
            delta2 = max(k[self.n] - bt_dot_d(self.row_z, self.row_z, self.n), 1e-14 * k[self.n])
        memcpy(row, self.row_z, self.n * sizeof(double))
        row[self.n] = sqrt(delta2)
        self.nearly_dependent = delta2 < LEAST_DELTA * (delta2 + bt_dot_d(row, row, self.n))
        if self.block is not None and self.block.count_d > 0 and not self.nearly_dependent:
            self.coefficients()  # `ProjectionBlock.extend` needs them
        self.n += 1
        return 0

    cdef int check(self, double* k, Supports supports) except -1 nogil:
        """Compare K d with k at a few supports, with kernel values computed again. Return 1 if L was computed again."""
        cdef double* row = <double*> malloc(max(1, supports.top) * sizeof(double))
        cdef double* d = self.coefficients()
        cdef double size = sqrt(bt_dot_d(k, k, self.n)), rounding = 1e-5 if supports.single else 1e-12, terms
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
                # An error that rounding of the kernel values explains is not drift.
                drifted = drifted or not fabs(bt_dot_d(row, d, self.n) - k[s]) <= LARGEST_DRIFT * size + rounding * terms
        finally:
            free(row)
        if not drifted:
            return 0
        self.refactorise(supports)
        if self.block is not None:
            self.block.clear()
        memcpy(self._z, k, self.n * sizeof(double))
        solve_one(self._factor, FACTOR_PANEL, self.n, self._z)
        self.row_z, self.row_d = self._z, NULL
        return 1

    cdef int refactorise(self, Supports supports) except -1 nogil:
        """Compute L again from the rows of the supports, one panel at a time."""
        cdef Py_ssize_t p, first, rows, i, j, width, n = self.n
        cdef double* values = <double*> malloc(FACTOR_PANEL * max(1, supports.top) * sizeof(double))
        cdef double* row
        cdef double* other
        cdef double square
        if values == NULL:
            with gil:
                raise MemoryError
        try:
            for p in range(panel_count(n, FACTOR_PANEL)):
                first, width = p * FACTOR_PANEL, (p + 1) * FACTOR_PANEL
                rows = min(<Py_ssize_t> FACTOR_PANEL, n - first)
                for i in range(rows):
                    supports.kernel_row(first + i, values + i * supports.top)
                solve_many(self._factor, FACTOR_PANEL, first, values, rows, supports.top)
                for i in range(rows):
                    row = self._factor + panel_start(p, FACTOR_PANEL) + i * width
                    memcpy(row, values + i * supports.top, (first + i + 1) * sizeof(double))
                    for j in range(i):
                        other = self._factor + panel_start(p, FACTOR_PANEL) + j * width
                        row[first + j] = (row[first + j] - bt_dot_d(row, other, first + j)) / other[first + j]
                    square = row[first + i] - bt_dot_d(row, row, first + i)
                    row[first + i] = sqrt(max(square, 1e-14 * row[first + i]))
        finally:
            free(values)
        self.refactorised += 1
        return 0

    def rebuild(self, Supports supports):
        """Compute L again from the rows of the supports."""
        self.refactorise(supports)


cdef double next_entry(Projection projection, double* z, double k) noexcept nogil:
    """Return the last entry of a row's z, given the others, if its kernel value with the newest support is k."""
    cdef Py_ssize_t n = projection.n - 1
    cdef double* row = projection._factor + row_start(n, FACTOR_PANEL)
    return (k - bt_dot_d(row, z, n)) / row[n]


cdef class ProjectionBlock:
    """Solutions z and d, computed together, for the rows of a block that will probably be projected.

    `expect` a row, `solve`, `expect_coefficients` of a row, `solve_coefficients`. Then `Projection.project` finds them.
    """

    def __init__(self, Projection projection, Py_ssize_t room):
        self.projection, self.room, self.slack = projection, room, 0.5
        self.place, self.place_d = np.full(room, -1, np.int32), np.full(room, -1, np.int32)

    cdef int open(self, Py_ssize_t rows) except -1:
        """Begin a block of this many rows; each may become a support."""
        cdef Py_ssize_t needed = self.projection.n + rows
        if self.ld < needed:
            self.ld = needed + needed // 4
            self.z, self.d = np.empty((self.room, self.ld)), np.empty((self.room, self.ld))
            self._z, self._d = <double*> address(self.z), <double*> address(self.d)
        if self.missed * COST_OF_A_MISS > self.count - self.used:
            self.slack *= 1.2
        elif self.slack > 1e-3:
            self.slack /= 1.1
        self.missed = self.used = 0
        self.clear()
        return 0

    cdef void clear(self) noexcept nogil:
        """Drop all solutions."""
        cdef Py_ssize_t i
        self.count = self.count_d = 0
        for i in range(self.room):
            self.place[i] = self.place_d[i] = -1

    cdef double* expect(self, Py_ssize_t row) noexcept nogil:
        """Add this row of the block, and return where its kernel values belong."""
        self.place[row] = <int32_t> self.count
        self.count += 1
        return self.z_at(self.count - 1)

    cdef void solve(self) noexcept nogil:
        """Compute z of all rows that were added."""
        if self.count:
            solve_many(self.projection._factor, FACTOR_PANEL, self.projection.n, self._z, self.count, self.ld)

    cdef void expect_coefficients(self, Py_ssize_t place) noexcept nogil:
        """Add this solution to those whose d is computed."""
        self.place_d[place] = <int32_t> self.count_d
        memcpy(self.d_at(place), self.z_at(place), self.projection.n * sizeof(double))
        self.count_d += 1

    cdef void solve_coefficients(self) noexcept nogil:
        """Compute d of all solutions that were added."""
        if self.count_d:
            solve_many_transposed(self.projection._factor, FACTOR_PANEL, self.projection.n, self._d, self.count_d, self.ld)

    cdef void extend(self, Py_ssize_t place, double k) noexcept nogil:
        """Append an entry to this solution for the newest support, whose kernel value with the row is k."""
        cdef Py_ssize_t n = self.projection.n - 1
        cdef double* z = self.z_at(place)
        cdef double* d = self.d_at(place)
        cdef double* row = self.projection._factor + row_start(n, FACTOR_PANEL)
        z[n] = next_entry(self.projection, z, k)
        if d == NULL:
            return
        if self.projection.nearly_dependent:
            self.place_d[place] = -1
            return
        d[n] = z[n] / row[n]
        bt_axpy(-d[n], self.projection.row_d, d, n)

    cdef double* z_at(self, Py_ssize_t place) noexcept nogil:
        return self._z + place * self.ld

    cdef double* d_at(self, Py_ssize_t place) noexcept nogil:
        return NULL if self.place_d[place] < 0 else self._d + self.place_d[place] * self.ld
