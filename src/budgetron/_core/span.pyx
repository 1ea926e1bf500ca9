# cython: cdivision=True
"""Rules that replace a support, or several, by functions in the span of others.

The inverse of the Gram matrix K of the supports gives all projections that a removal needs. For a support p, let
s = (K^-1)_pp. Its squared distance from the span of the others is 1 / s, and the coefficients of its projection are
-(K^-1)_pj / s. A new row with kernel values k is added by d = K^-1 k and its squared distance from the span,
k(x, x) - k . d. Both take O(B^2) operations. A factor of K would be more accurate, but it cannot lose a row that cheaply.

The matrix must stay well-conditioned. So rows near the span are not stored (`is_near_span`): a rule projects its step
on them instead. Rounding errors of many changes add up; `project_and_remove` compares an entry of K K^-1 with 1, and
computes the inverse again where it differs.
"""

from libc.math cimport fabs, sqrt

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from budgetron._core.rows cimport address

from budgetron._core.supports import NO_VALUES, writeable
from budgetron._core.thinning import project
from budgetron._util.checks import require, require_array, require_moderate
from budgetron._util.numbers import largest

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    void bt_axpy(double, const double*, double*, ptrdiff_t)

# A row is near the span if its squared distance from it is below this share of k(x, x).
cdef double DOUBLE_TOLERANCE = 1e-4, SINGLE_TOLERANCE = 1e-3
# Largest error of an entry of K K^-1 before the inverse is computed again.
cdef double LARGEST_DRIFT = 1e-7
# Largest difference of two entries of an inverse that should be equal, relative to its largest entry.
cdef double LARGEST_ROUNDING = 1e-6


cdef class SpanRule(Rule):
    """A rule that changes the coefficients of several supports at once.

    Parameters
    ----------
    budget : int
    inverse : bool
        Whether to keep the inverse of the Gram matrix; the Gram matrix is then kept too.
    full_rank : bool
        Whether it is the inverse of the whole matrix. False: of its restriction to a subspace, or 0.
    options
        Those of `Rule`.
    """

    def __cinit__(self, *args, **options):
        self.inverse = self.direction = NO_VALUES

    def __init__(self, Py_ssize_t budget=0, *, bint inverse=False, bint full_rank=True, **options):
        if inverse:
            options["gram"] = True
        Rule.__init__(self, budget, **options)
        self.keeps_inverse = inverse
        self.full_rank = full_rank

    def reserve(self, Py_ssize_t capacity):
        """Make room for `capacity` slots."""
        if self.keeps_inverse:
            old, inverse = self.inverse, np.zeros((capacity, capacity))
            if old.ndim == 2:
                inverse[:len(old), :len(old)] = old
            self.inverse = inverse
        self.direction = np.zeros(capacity)
        Rule.reserve(self, capacity)

    cdef void set_pointers(self):
        Rule.set_pointers(self)
        self._inverse, self._direction = <double*> address(self.inverse), <double*> address(self.direction)

    def arrays(self):
        """Return all arrays, by name."""
        return Rule.arrays(self) | {"inverse": self.inverse, "direction": self.direction}

    def __getstate__(self):
        state = Rule.__getstate__(self)
        if self.keeps_inverse:
            state["inverse"] = self.inverse
        return state

    def __setstate__(self, state):
        if self.keeps_inverse:
            self.inverse = writeable(state["inverse"])
        self.direction = np.zeros(len(state["coef"]))
        Rule.__setstate__(self, state)

    def check_slots(self, dict state, supports):
        """Check the inverse of the Gram matrix: symmetric, positive at the supports, and 0 at free slots."""
        if not self.keeps_inverse:
            return
        capacity = supports.capacity
        inverse = require_array(state["inverse"], np.float64, (capacity, capacity), "inverse")
        require_moderate(inverse, 1.0, "inverse")
        rounding = LARGEST_ROUNDING * largest(inverse)
        require(bool(np.all(np.abs(inverse - inverse.T) <= rounding)), "inverse should be symmetric")
        used, free = supports.order[:supports.m], supports.order[supports.m:]
        require(largest(inverse[free]) == 0.0 == largest(inverse[:, free]),
                "inverse should be 0 at free slots")
        diagonal = inverse.diagonal()[used]
        positive = np.all(diagonal > 0.0) if self.full_rank else np.all(diagonal >= -rounding)
        require(bool(positive), "the diagonal of inverse should be positive at the supports")

    cdef void clear_direction(self) noexcept nogil:
        """Set the direction to 0."""
        cdef Py_ssize_t j
        for j in range(self.supports.capacity):
            self._direction[j] = 0.0

    cdef double direction_norm(self) except? -1 nogil:
        """Return the norm of the function with the coefficients `direction`."""
        cdef Py_ssize_t j
        cdef double* row
        cdef double square = 0.0
        for j in range(self.supports.top):
            if self._direction[j] != 0.0:
                row = self._gram + j * self.supports.capacity
                if not self.keeps_gram:
                    row = self._scratch
                    self.supports.kernel_row(j, row)
                square += self._direction[j] * bt_dot_d(row, self._direction, self.supports.top)
        return sqrt(square) if square > 0.0 else 0.0

    cdef double project_row(self) noexcept nogil:
        """Return ||P k(x_t, .)||^2, and leave the coefficients of the projection in `direction`."""
        cdef Py_ssize_t j, n = self.supports.capacity, top = self.supports.top
        self.clear_direction()
        for j in range(top):
            self._direction[j] = bt_dot_d(self._inverse + j * n, self.k, top)
        return bt_dot_d(self._direction, self.k, top)

    cdef bint is_near_span(self, double square) noexcept nogil:
        """Return whether the row, whose projection has this squared norm, is near the span of the supports."""
        cdef double tolerance = SINGLE_TOLERANCE if self.supports.single else DOUBLE_TOLERANCE
        return self.kxx - square <= tolerance * self.kxx

    cdef int store_row(self, double c) except? -1 nogil:
        """Add c k(x_t, .), and return 1 if the row became a support; if it is near the span, add its projection."""
        cdef double square = self.project_row(), delta2 = self.kxx - square
        cdef Py_ssize_t j, n = self.supports.capacity, slot
        cdef double* d = self._direction
        if self.is_near_span(square):
            self.move(c, d)
            return 0
        self.add(c)
        slot = self.added
        for j in range(self.supports.top):
            if d[j] != 0.0:
                bt_axpy(d[j] / delta2, d, self._inverse + j * n, self.supports.top)
                self._inverse[j * n + slot] = self._inverse[slot * n + j] = -d[j] / delta2
        self._inverse[slot * n + slot] = 1.0 / delta2
        return 1

    cdef double distance2(self, Py_ssize_t position) noexcept nogil:
        """Return the squared distance of a support from the span of the others."""
        cdef Py_ssize_t slot = self.supports._order[position]
        return 1.0 / self._inverse[slot * self.supports.capacity + slot]

    cdef double project_and_remove(self, Py_ssize_t position) except? -1 nogil:
        """Replace a support by its projection onto the span of the others. Return the norm of the change."""
        cdef Py_ssize_t j, n = self.supports.capacity, slot = self.supports._order[position], top = self.supports.top
        cdef double c = self.weight(position), distance
        cdef double* row = self._inverse + slot * n
        if not fabs(bt_dot_d(row, self._gram + slot * n, top) - 1.0) <= LARGEST_DRIFT:
            self.set_inverse()
        distance = sqrt(self.distance2(position))
        self.clear_direction()
        for j in range(top):
            self._direction[j] = -row[j] / row[slot]  # -1 at the slot itself
        self.move(c, self._direction)
        self.remove(position)
        self.remove_from_inverse(slot)
        return fabs(c) * distance

    cdef void remove_from_inverse(self, Py_ssize_t slot) noexcept nogil:
        """Remove a slot from the inverse."""
        cdef Py_ssize_t j, n = self.supports.capacity
        cdef double* row = self._inverse + slot * n
        cdef double own = row[slot]
        for j in range(n):
            if j != slot and row[j] != 0.0:
                bt_axpy(-row[j] / own, row, self._inverse + j * n, n)
        for j in range(n):
            row[j] = 0.0
            self._inverse[j * n + slot] = 0.0

    cdef int set_inverse(self) except -1 with gil:
        """Compute the inverse again from the Gram matrix."""
        slots = np.ix_(self.supports.order[:self.supports.m], self.supports.order[:self.supports.m])
        gram = self.gram[slots]
        self.inverse[:] = 0.0
        self.inverse[slots] = cho_solve(cho_factor(gram), np.eye(len(gram)))
        return 0

    cdef double keep_largest(self, Py_ssize_t count) except? -1 with gil:
        """Project f onto the span of the supports with the largest coefficients, at most `count` of them.

        Of equal coefficients the newest are kept. A support near the span of those that are kept already is not kept.
        Remove the other supports, and return the norm of the change. The Gram matrix is needed.
        """
        cdef Py_ssize_t p, slot, m = self.supports.m
        cdef double error
        slots = self.supports.order[:m].copy()
        coef = self.coefficients()
        sizes = np.abs(coef)
        # Sizes that differ by rounding only are equal: they get the same rank.
        order = np.argsort(sizes, kind="stable")
        steps = np.diff(sizes[order], prepend=0.0) > self.tie_share() * sizes.max(initial=0.0)
        ranks = np.empty(m, np.intp)
        ranks[order] = np.cumsum(steps)
        preferred = np.lexsort((-np.arange(m), -ranks))
        tolerance = SINGLE_TOLERANCE if self.supports.single else DOUBLE_TOLERANCE
        kept, projected, error = project(self.gram[np.ix_(slots, slots)], coef, preferred, count, tolerance)
        change = -coef
        change[kept] += projected
        self.direction[:] = 0.0
        self.direction[slots] = change
        self.move(1.0, self._direction)
        stays = np.zeros(m, bool)
        stays[kept] = True
        for p in range(m - 1, -1, -1):
            if not stays[p]:
                self.remove(p)
        return error
