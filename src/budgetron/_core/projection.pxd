from libc.stdint cimport int32_t

from budgetron._core.supports cimport Supports


# Rows in a panel of the factor (see panels.pyx).
cdef enum:
    FACTOR_PANEL = 64


cdef class Projection:
    cdef readonly object factor, z, d
    cdef readonly Py_ssize_t n, capacity
    cdef readonly Py_ssize_t refactorised
    cdef double* _factor
    cdef double* _z
    cdef double* _d
    # The row projected last: its z, and its d or NULL
    cdef double* row_z
    cdef double* row_d
    # Solutions of the block being played, and the row being played; None outside of blocks
    cdef ProjectionBlock block
    cdef Py_ssize_t row
    # Whether the newest support is close to the span of the others
    cdef bint nearly_dependent

    cdef void set_pointers(self)
    cdef double project(self, double* k) noexcept nogil
    cdef double use_solution(self, double* z) noexcept nogil
    cdef double* coefficients(self) noexcept nogil
    cdef int append(self, double delta2, double* k, Supports supports) except -1 nogil
    cdef int check(self, double* k, Supports supports) except -1 nogil
    cdef int refactorise(self, Supports supports) except -1 nogil


cdef class ProjectionBlock:
    cdef readonly Projection projection
    cdef object z, d
    # For each row of the block its position in z, and for each position there its position in d; or -1
    cdef int32_t[::1] place, place_d
    cdef Py_ssize_t ld, count, count_d, room
    # A row is solved for if a margin worse by this slack would cause an update. Projections with and without a
    # solution adjust the slack.
    cdef double slack
    cdef Py_ssize_t missed, used
    cdef double* _z
    cdef double* _d

    cdef int open(self, Py_ssize_t rows) except -1
    cdef double* expect(self, Py_ssize_t row) noexcept nogil
    cdef double* z_at(self, Py_ssize_t place) noexcept nogil
    cdef double* d_at(self, Py_ssize_t place) noexcept nogil
    cdef void solve(self) noexcept nogil
    cdef void expect_coefficients(self, Py_ssize_t place) noexcept nogil
    cdef void solve_coefficients(self) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef void extend(self, Py_ssize_t place, double k) noexcept nogil


cdef double next_entry(Projection projection, double* z, double k) noexcept nogil
