from budgetron._core.kernel_values cimport Rows
from budgetron._core.projection cimport Projection

# Rows in a panel of the covariance (see panels.pyx).
cdef enum:
    SIGMA_PANEL = 32


cdef class Gaussian:
    cdef readonly Py_ssize_t d, n, fixed, capacity
    cdef readonly bint linear, diagonal
    cdef readonly double scale
    cdef readonly object sigma, mean, phi, direction, slopes, spreads
    cdef double* _sigma
    cdef double* _mean
    cdef double* _phi
    cdef double* _direction
    cdef double* _slopes
    cdef double* _spreads

    cdef void set_pointers(self)
    cdef double* lower_row(self, Py_ssize_t i) noexcept nogil
    cdef void fixed_coordinates(self, Rows* rows, Py_ssize_t i, bint single, double* phi) noexcept nogil
    cdef double linear_part(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef double feature_variance(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef void append(self) noexcept nogil
    cdef void move_mean(self, double alpha, double r, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef double square(self) noexcept nogil
    cdef void coefficients(self, Projection projection, double* coef) noexcept nogil
