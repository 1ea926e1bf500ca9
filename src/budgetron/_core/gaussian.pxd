from budgetron._core.kernel_values cimport Rows
from budgetron._core.projection cimport Projection

# Rows in a panel of the covariance (see panels.pyx).
cdef enum:
    SIGMA_PANEL = 32


cdef class Gaussian:
    cdef readonly Py_ssize_t d, n, fixed, capacity, outputs
    cdef readonly bint linear, diagonal
    cdef readonly double scale, prior
    cdef readonly object sigma, means, phi, direction, slopes, spreads
    cdef double* _sigma
    cdef double* _means
    cdef double* _phi
    cdef double* _direction
    cdef double* _slopes
    cdef double* _spreads

    cdef void set_pointers(self)
    cdef double* mean(self, Py_ssize_t output) noexcept nogil
    cdef double* lower_row(self, Py_ssize_t i) noexcept nogil
    cdef void fixed_coordinates(self, Rows* rows, Py_ssize_t i, bint single, double* phi) noexcept nogil
    cdef double linear_part(self, Py_ssize_t output, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef void add_slopes(self, Rows* rows, Py_ssize_t i, bint single, double* scores) noexcept nogil
    cdef double feature_variance(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef void append(self, double variance) noexcept nogil
    cdef void move_means(self, double* steps, double noise, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef void forget_means(self, double keep) noexcept nogil
    cdef double square(self) noexcept nogil
    cdef void coefficients(self, Projection projection, double* coef, Py_ssize_t ld) noexcept nogil
    cdef void move_coefficients(self, Projection projection, double* steps, double* coef, Py_ssize_t ld, double* scratch) noexcept nogil
