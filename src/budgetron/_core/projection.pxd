from libc.stdint cimport int32_t

from budgetron._core.supports cimport Supports


cdef class Projection:
    cdef readonly object factor, z, d
    cdef readonly Py_ssize_t n, capacity
    cdef readonly Py_ssize_t refactorised
    cdef double* _factor
    cdef double* _z
    cdef double* _d
    # The row being played: where its z and d are, if they are known
    cdef double* row_z
    cdef double* row_d
    cdef Foresight foresight
    cdef Py_ssize_t row
    cdef bint steep

    cdef void point(self)
    cdef double project(self, double* k) noexcept nogil
    cdef double known(self, double* z) noexcept nogil
    cdef double* coefficients(self) noexcept nogil
    cdef int append(self, double delta2, double* k, Supports supports) except -1 nogil
    cdef int check(self, double* k, Supports supports) except -1 nogil
    cdef int refactorise(self, Supports supports) except -1 nogil


cdef class Foresight:
    cdef readonly Projection projection
    cdef object z, d
    # For each row of the block its place in z, and for each place there its place in d; or -1
    cdef int32_t[::1] place, place_d
    cdef Py_ssize_t ld, count, count_d, room
    # How far margins may be from an update for a row to be expected; what came of it
    cdef double slack
    cdef Py_ssize_t missed, used
    cdef double* _z
    cdef double* _d

    cdef int open(self, Py_ssize_t rows) except -1
    cdef double* expect(self, Py_ssize_t row) noexcept nogil
    cdef double* z_at(self, Py_ssize_t place) noexcept nogil
    cdef double* d_at(self, Py_ssize_t place) noexcept nogil
    cdef void solve(self) noexcept nogil
    cdef void expect_move(self, Py_ssize_t place) noexcept nogil
    cdef void solve_back(self) noexcept nogil
    cdef void forget(self) noexcept nogil
    cdef void extend(self, Py_ssize_t place, double k) noexcept nogil


cdef void solve_one_back(double* factor, Py_ssize_t n, double* d) noexcept nogil
cdef void solve_many(double* factor, Py_ssize_t n, double* z, Py_ssize_t count, Py_ssize_t ld) noexcept nogil
cdef double next_entry(Projection projection, double* z, double k) noexcept nogil
