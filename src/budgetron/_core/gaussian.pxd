from budgetron._core.kernel cimport Rows
from budgetron._core.projection cimport Projection


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
    # The row being played: its coordinates
    cdef double* at
    # A block: coordinates of its rows, Sigma times those of rows that are expected to matter, and by what Sigma
    # became less since the block began
    cdef bint ahead
    cdef Py_ssize_t row, count, expected, ld
    cdef object phis, products, losses, places
    cdef double* _phis
    cdef double* _products
    cdef double* _losses
    cdef int* _places
    cdef double slack
    # What Sigma grew by in every direction since the block began
    cdef double ridge
    cdef Py_ssize_t missed, used

    cdef void point(self)
    cdef double* lower_row(self, Py_ssize_t i) noexcept nogil
    cdef void fill(self, Rows* rows, Py_ssize_t i, bint single, double* phi) noexcept nogil
    cdef double beside(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef double measure(self, Projection projection, double* k) noexcept nogil
    cdef double aim(self, double* z, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef double lift(self, double more, double square) noexcept nogil
    cdef double spread(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef void append(self, double delta) noexcept nogil
    cdef void step(self, double alpha, double r, double v, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef double square(self) noexcept nogil
    cdef void coefficients(self, Projection projection, double* coef) noexcept nogil
    cdef int open(self, Py_ssize_t room) except -1
    cdef double* expect(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef double margin(self, Py_ssize_t i, Rows* rows, bint single) noexcept nogil
    cdef void look_ahead(self, double* y, Py_ssize_t n, Rows* rows, bint single) noexcept nogil
    cdef void extend(self, Py_ssize_t i, Projection projection, double k) noexcept nogil
    cdef void close(self) noexcept nogil


cdef Py_ssize_t rows_ahead(Gaussian gaussian) noexcept nogil
