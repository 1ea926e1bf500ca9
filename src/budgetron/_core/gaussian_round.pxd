from budgetron._core.gaussian cimport Gaussian
from budgetron._core.kernel_values cimport Rows
from budgetron._core.projection cimport Projection


cdef class GaussianRound:
    cdef readonly Gaussian gaussian
    # The part of the Gaussian that an update keeps; the rest is forgotten
    cdef readonly double keep
    cdef double* phi

    cdef double project(self, Projection projection, double* k) noexcept nogil
    cdef double variance_at(self, double* z, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef void load_row(self, double* z, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef void add_to_sigma(self, double ridge) noexcept nogil
    cdef void append(self, double delta) noexcept nogil
    cdef void step(self, double* steps, double noise, double v, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef void downdate(self, double c) noexcept nogil
    cdef void forget(self) noexcept nogil
    cdef bint changes_are_pending(self) noexcept nogil
    cdef void close(self) noexcept nogil


cdef class GaussianBlock(GaussianRound):
    cdef readonly Projection projection
    # Rows that fit; numbers per row; the row being played
    cdef readonly Py_ssize_t room
    cdef Py_ssize_t ld, row
    # Coordinates of the rows; Sigma times those of rows where an update is likely; downdates not yet applied
    cdef object phis, products, losses
    # For each row, the position of its product, or -1
    cdef object places
    cdef double* _phis
    cdef double* _products
    cdef double* _losses
    cdef int* _places
    cdef Py_ssize_t expected, pending
    # Since the block began, Sigma was multiplied by `factor`, and then `ridge` was added to its diagonal
    cdef double factor, ridge
    # The scores of each row at the beginning of the block
    cdef object first_scores
    cdef double* _first_scores
    # A row gets a product if its margin is below 1 + slack. Updates with and without a product adjust the slack.
    cdef double slack
    cdef Py_ssize_t used, missed
    cdef Py_ssize_t factor_version

    cdef void open(self) noexcept nogil
    cdef double* coordinates(self, Rows* rows, Py_ssize_t i, bint single) noexcept nogil
    cdef void score_all(self, Rows* rows, bint single) noexcept nogil
    cdef void scores(self, Py_ssize_t i, Rows* rows, bint single, double* out) noexcept nogil
    cdef void expect(self, Py_ssize_t i) noexcept nogil
    cdef void multiply_ahead(self) noexcept nogil
    cdef void extend(self, Py_ssize_t i, double k) noexcept nogil
    cdef bint is_outdated(self) noexcept nogil
    cdef double new_entry(self) noexcept nogil


cdef Py_ssize_t rows_ahead(Gaussian gaussian) noexcept nogil
