# cython: cdivision=True
"""Kernels: a raw value per pair of rows, and an elementwise function of it.

The raw values take almost all of the time. They are inner products (`linear`, `poly`, `rbf`), L1 distances
(`laplacian`), products of 1 + x_i x'_i (`allsubsets`), or values of a Python function. Kernel values are computed from
them, the squared norms of the rows (`square`) and their raw self values k(x, x) (`own`).

The loops are in `kernel_values`.
"""

from libc.float cimport DBL_MAX, FLT_MAX
from libc.math cimport fabs, log, sqrt
from libc.string cimport memset

import numpy as np

from budgetron._core.kernel_values cimport (
    ALLSUBSETS, CALLABLE, LAPLACIAN, LINEAR, POLY, RBF, Rows, finish, kind_for, over_columns, self_values, squares,
)

_KINDS = {
    "linear": LINEAR,
    "poly": POLY,
    "rbf": RBF,
    "laplacian": LAPLACIAN,
    "allsubsets": ALLSUBSETS,
}


cdef class Kernel:
    """A kernel with its parameters: a name, or a Python function of two arrays of rows."""

    def __init__(self, kernel, double gamma=1.0, int degree=3, double coef0=0.0, bint normalized=False):
        cdef Kind kind = CALLABLE if callable(kernel) else _KINDS[kernel]
        self.function = kernel if callable(kernel) else None
        self.name = "callable" if callable(kernel) else kernel
        self.form.kind, self.form.gamma, self.form.degree, self.form.coef0 = kind, gamma, degree, coef0
        # These two always have k(x, x) = 1.
        self.form.normalized = normalized and kind not in (RBF, LAPLACIAN)

    def __reduce__(self):
        kernel = self.name if self.function is None else self.function
        return Kernel, (kernel, self.form.gamma, self.form.degree, self.form.coef0, self.form.normalized)

    @property
    def gamma(self):
        """The width of "rbf" and "laplacian", or the factor of "poly"."""
        return self.form.gamma

    @property
    def degree(self):
        """The power of "poly"."""
        return self.form.degree

    @property
    def coef0(self):
        """The constant term of "poly"."""
        return self.form.coef0

    @property
    def normalized(self):
        """Whether values are divided so that k(x, x) = 1."""
        return self.form.normalized

    def __deepcopy__(self, memo):
        return self  # it never changes, and a function of the caller may not be copyable

    def equals(self, Kernel other):
        """Return whether the other kernel is the same function."""
        return self.__reduce__() == other.__reduce__()

    def matrix(self, A, B):
        """Return k(a, b) for each row a of A and each row b of B, in float32 if both are float32."""
        dtype = np.float32 if A.dtype == B.dtype == np.float32 else np.float64
        A, B = np.ascontiguousarray(A, dtype), np.ascontiguousarray(B, dtype)
        out = np.empty((len(A), len(B)), dtype)
        if out.size:
            if dtype == np.float32:
                matrix_of[float](self, A, B, np.ascontiguousarray(B.T), out)
            else:
                matrix_of[double](self, A, B, np.ascontiguousarray(B.T), out)
        return out

    def diagonal(self, A):
        """Return k(a, a) for each row a of A."""
        cdef double[:, ::1] dense = np.ascontiguousarray(A, np.float64)
        cdef double[::1] square = np.empty(len(A)), own = np.empty(len(A))
        cdef Py_ssize_t i
        if len(A):
            describe[double](self, dense, square, own)
        return np.array([self.self_value(own[i]) for i in range(len(A))])

    cdef bint has_unit_length(self) noexcept nogil:
        """Return whether k(x, x) is 1 or 0 for every row."""
        return self.form.normalized or self.form.kind in (RBF, LAPLACIAN)

    cdef bint is_safe(self, double square, Py_ssize_t d, bint single):
        """Return whether no value between rows of at most this squared norm can overflow."""
        # Leave room for sums of very many values with large coefficients.
        cdef double most = FLT_MAX * 1e-3 if single else DBL_MAX * 1e-30
        if not square < most:
            return False
        if self.form.kind == LINEAR:
            return True
        if self.form.kind == RBF:
            return self.form.gamma < most
        if self.form.kind == LAPLACIAN:
            return self.form.gamma < most and 2 * sqrt(d * square) < most
        if self.form.kind == POLY:
            return self.form.degree * log(fabs(self.form.gamma) * square + fabs(self.form.coef0) + 1) < log(most)
        if self.form.kind == ALLSUBSETS:
            return square < log(most)  # prod(1 + |x_i x'_i|) <= exp(|x||x'|)
        return False


cdef Rows describe(Kernel kernel, real[:, ::1] A, real[::1] square, double[::1] own):
    """Return the rows of an array, and fill in their squared norms and self values."""
    cdef Rows rows
    cdef Py_ssize_t i
    cdef real value
    memset(&rows, 0, sizeof(Rows))
    rows.n, rows.d, rows.dense = A.shape[0], A.shape[1], &A[0, 0]
    rows.square, rows.own = &square[0], &own[0]
    squares(&rows, &square[0])
    if kernel.form.kind == CALLABLE:
        for i in range(rows.n):
            call(kernel, &A[i, 0], 1, rows.d, None, &value, 1)
            own[i] = value
    else:
        self_values(&kernel.form, &rows, &square[0], &own[0])
    return rows


cdef int matrix_of(Kernel kernel, real[:, ::1] A, real[:, ::1] B, real[:, ::1] columns, real[:, ::1] out) except -1:
    cdef Py_ssize_t n = A.shape[0], m = B.shape[0], i
    dtype = np.float32 if real is float else np.float64
    cdef real[::1] a_square = np.empty(n, dtype), b_square = np.empty(m, dtype)
    cdef double[::1] a_own = np.empty(n), b_own = np.empty(m)
    cdef Rows rows = describe(kernel, A, a_square, a_own)
    describe(kernel, B, b_square, b_own)
    cdef Kind kind = kind_for(&kernel.form, &a_square[0], n, &b_square[0], m)
    if kind == CALLABLE:
        call(kernel, &A[0, 0], n, rows.d, np.array(B), &out[0, 0], m)
        for i in range(n):
            finish(&kernel.form, kind, &out[i, 0], a_square[i], a_own[i], &b_square[0], &b_own[0], m)
    else:
        over_columns(&kernel.form, kind, &rows, &columns[0, 0], m, &b_square[0], &b_own[0], 0, m, &out[0, 0], m, NULL)
    return 0


cdef int call(Kernel kernel, real* a, Py_ssize_t n, Py_ssize_t d, others, real* out, Py_ssize_t ld) except -1:
    """Write raw values of n rows with others (with each other if None) to `out`, from the caller's function."""
    cdef Py_ssize_t m = n if others is None else len(others), i, j
    # Copies, because the function may keep its arguments.
    rows = np.array(<real[:n, :d]> a)
    values = np.asarray(kernel.function(rows, rows.copy() if others is None else others))
    if values.shape != (n, m):
        raise ValueError(
            f"the kernel function returned an array of shape {values.shape} "
            f"for {n} and {m} rows; it must return shape ({n}, {m})"
        )
    if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
        raise ValueError("the kernel function returned NaN, infinity or values that are not real numbers")
    cdef double[:, :] view = values.astype(np.float64)
    for i in range(n):
        for j in range(m):
            out[i * ld + j] = <real> view[i, j]
    return 0
