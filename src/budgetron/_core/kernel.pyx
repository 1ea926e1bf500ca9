# cython: cdivision=True
"""Kernels on blocks of rows: a raw part per pair of rows, and an elementwise finish.

The raw part is what costs: inner products (`linear`, `poly`, `rbf`: one matrix
product), L1 distances (`laplacian`), products of 1 + x_i x'_i (`allsubsets`), or
whatever a Python callable returns. `finish` turns a row of raw values into kernel
values, given each row's squared norm (`square`) and raw self value k(x, x)
(`own`). Keeping the two apart lets the lookahead exchange raw columns cheaply and
take each exponential once, when its round comes.

The RBF kernel has two ways to its distances. Inner products and norms are a matrix
product, but far from the origin their difference loses all digits; there
(`kind_for`) coordinates are subtracted one by one, which is slower and always right.
"""

from libc.float cimport DBL_EPSILON, DBL_MAX, FLT_EPSILON, FLT_MAX
from libc.math cimport fabs, log, pow, sqrt
from scipy.linalg.cython_blas cimport dgemm, dgemv, dsyrk, sgemm, sgemv, ssyrk

import numpy as np

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    double bt_dot_f(const float*, const double*, ptrdiff_t)
    void bt_products_d(const double*, const double*, ptrdiff_t, ptrdiff_t, double*)
    void bt_products_f(const float*, const float*, ptrdiff_t, ptrdiff_t, float*)
    void bt_rbf_d(double*, double, const double*, double, ptrdiff_t)
    void bt_rbf_f(float*, float, const float*, float, ptrdiff_t)
    void bt_decay_d(double*, double, ptrdiff_t)
    void bt_decay_f(float*, float, ptrdiff_t)
    void bt_poly_d(double*, double, double, int, ptrdiff_t)
    void bt_poly_f(float*, float, float, int, ptrdiff_t)
    double bt_largest_d(const double*, ptrdiff_t)
    double bt_largest_f(const float*, ptrdiff_t)
    double bt_l2_d(const double*, const double*, ptrdiff_t)
    double bt_l2_f(const float*, const float*, ptrdiff_t)
    double bt_l1_d(const double*, const double*, ptrdiff_t)
    double bt_l1_f(const float*, const float*, ptrdiff_t)
    double bt_allsubsets_d(const double*, const double*, ptrdiff_t)
    double bt_allsubsets_f(const float*, const float*, ptrdiff_t)
    double bt_square_d(const double*, ptrdiff_t)
    double bt_square_f(const float*, ptrdiff_t)

# From this many numbers on, OpenBLAS shares a matrix-vector product among threads.
cdef Py_ssize_t THREADED = 9216

_KINDS = {
    "linear": LINEAR,
    "poly": POLY,
    "rbf": RBF,
    "laplacian": LAPLACIAN,
    "allsubsets": ALLSUBSETS,
}


cdef class Kernel:
    """A kernel with its parameters fixed: a name, or a callable on two arrays of rows."""

    def __init__(self, kernel, double gamma=1.0, int degree=3, double coef0=0.0, bint normalized=False):
        self.kind = CALLABLE if callable(kernel) else _KINDS[kernel]
        self.function = kernel if callable(kernel) else None
        self.name = "callable" if callable(kernel) else kernel
        self.gamma, self.degree, self.coef0 = gamma, degree, coef0
        # These two have k(x, x) = 1 as they are.
        self.normalized = normalized and self.kind not in (RBF, LAPLACIAN)

    def __reduce__(self):
        kernel = self.name if self.function is None else self.function
        return Kernel, (kernel, self.gamma, self.degree, self.coef0, self.normalized)

    def __deepcopy__(self, memo):
        return self  # nothing in it changes, and a function of the caller's may not be copied

    def equals(self, Kernel other):
        """Whether the other is the same function."""
        return self.__reduce__() == other.__reduce__()

    def matrix(self, A, B):
        """k(a, b) for each row a of A and each row b of B, in float32 if both are, else float64."""
        dtype = np.float32 if A.dtype == B.dtype == np.float32 else np.float64
        A, B = np.ascontiguousarray(A, dtype), np.ascontiguousarray(B, dtype)
        out = np.empty((len(A), len(B)), dtype)
        if out.size:
            if dtype == np.float32:
                matrix_of[float](self, A, B, out)
            else:
                matrix_of[double](self, A, B, out)
        return out

    def diagonal(self, A):
        """k(a, a) for each row a of A."""
        cdef double[:, ::1] rows = np.ascontiguousarray(A, np.float64)
        cdef double[::1] square = np.empty(len(A)), own = np.empty(len(A))
        cdef Py_ssize_t i
        if len(A):
            squares(&rows[0, 0], len(A), rows.shape[1], &square[0])
            self_values(self, &rows[0, 0], len(A), rows.shape[1], &square[0], &own[0], <double*> NULL, 0)
        return np.array([self.self_value(own[i]) for i in range(len(A))])

    cdef double self_value(self, double raw) noexcept nogil:
        """k(x, x), given the raw one. A row that the kernel maps to 0 stays at 0."""
        if self.normalized:
            return 1.0 if raw > 0.0 else 0.0
        return raw

    cdef bint has_unit_length(self):
        """Whether k(x, x) is 1, or 0, for every row."""
        return self.normalized or self.kind in (RBF, LAPLACIAN)

    cdef bint is_safe(self, double square, Py_ssize_t d, bint single):
        """Whether no value between rows of this squared norm or less can overflow."""
        # With room for sums of very many values with large coefficients.
        cdef double most = FLT_MAX * 1e-3 if single else DBL_MAX * 1e-30
        if not square < most:
            return False
        if self.kind == LINEAR:
            return True
        if self.kind == RBF:
            return self.gamma < most
        if self.kind == LAPLACIAN:
            return self.gamma < most and 2 * sqrt(d * square) < most
        if self.kind == POLY:
            return self.degree * log(fabs(self.gamma) * square + fabs(self.coef0) + 1) < log(most)
        if self.kind == ALLSUBSETS:
            return square < log(most)  # prod(1 + |x_i x'_i|) <= exp(|x||x'|)
        return False


cdef int matrix_of(Kernel kernel, real[:, ::1] A, real[:, ::1] B, real[:, ::1] out) except -1:
    cdef Py_ssize_t n = A.shape[0], m = B.shape[0], d = A.shape[1], i
    dtype = np.float32 if real is float else np.float64
    cdef real[::1] a_square = np.empty(n, dtype), b_square = np.empty(m, dtype)
    cdef double[::1] a_own = np.empty(n), b_own = np.empty(m)
    cdef Kind kind
    squares(&A[0, 0], n, d, &a_square[0])
    squares(&B[0, 0], m, d, &b_square[0])
    self_values(kernel, &A[0, 0], n, d, &a_square[0], &a_own[0], <real*> NULL, 0)
    self_values(kernel, &B[0, 0], m, d, &b_square[0], &b_own[0], <real*> NULL, 0)
    kind = kind_for(kernel, &a_square[0], n, &b_square[0], m)
    cross(kernel, kind, &A[0, 0], n, &B[0, 0], m, d, &out[0, 0], m)
    for i in range(n):
        finish(kernel, kind, &out[i, 0], a_square[i], a_own[i], &b_square[0], &b_own[0], m)
    return 0


cdef double dot(real* row, double* coef, Py_ssize_t m) noexcept nogil:
    if real is double:
        return bt_dot_d(row, coef, m)
    else:
        return bt_dot_f(row, coef, m)


cdef Kind kind_for(Kernel kernel, real* a_square, Py_ssize_t n, real* b_square, Py_ssize_t m) noexcept nogil:
    """How to compute the values between rows of these squared norms.

    The exponent gamma (|x|^2 + |s|^2 - 2 <x, s>) is wrong by a few units in the last place of its
    terms; RBF_BY_DIFFERENCES where that would show.
    """
    cdef double largest
    if kernel.kind != RBF:
        return kernel.kind
    if real is double:
        largest = max(bt_largest_d(a_square, n), bt_largest_d(b_square, m))
        return RBF if kernel.gamma * largest * DBL_EPSILON < 2e-11 else RBF_BY_DIFFERENCES
    else:
        largest = max(bt_largest_f(a_square, n), bt_largest_f(b_square, m))
        return RBF if kernel.gamma * largest * FLT_EPSILON < 2e-5 else RBF_BY_DIFFERENCES


cdef double pair(Kind kind, real* a, real* b, Py_ssize_t d) noexcept nogil:
    """The raw value of the kinds that are no inner product."""
    if real is double:
        if kind == RBF_BY_DIFFERENCES:
            return bt_l2_d(a, b, d)
        return bt_l1_d(a, b, d) if kind == LAPLACIAN else bt_allsubsets_d(a, b, d)
    else:
        if kind == RBF_BY_DIFFERENCES:
            return bt_l2_f(a, b, d)
        return bt_l1_f(a, b, d) if kind == LAPLACIAN else bt_allsubsets_f(a, b, d)


cdef int call(Kernel kernel, real* a, Py_ssize_t n, real* b, Py_ssize_t m,
              Py_ssize_t d, real* out, Py_ssize_t ld) except -1 with gil:
    # Copies: the function may keep what it is given, and the slab moves on.
    rows = np.array(<real[:n, :d]> a)
    others = np.array(<real[:m, :d]> b)
    values = np.asarray(kernel.function(rows, others))
    if values.shape != (n, m):
        raise ValueError(
            f"the kernel function returned an array of shape {values.shape} "
            f"for {n} and {m} rows; it must return shape ({n}, {m})"
        )
    if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
        raise ValueError("the kernel function returned NaN, infinity or values that are not real numbers")
    cdef Py_ssize_t i, j
    cdef double[:, :] view = values.astype(np.float64)
    for i in range(n):
        for j in range(m):
            out[i * ld + j] = <real> view[i, j]
    return 0


cdef int cross(Kernel kernel, Kind kind, real* a, Py_ssize_t n, real* b, Py_ssize_t m,
               Py_ssize_t d, real* out, Py_ssize_t ld) except -1 nogil:
    """out[i, j] = raw value of row i of a (n x d) and row j of b (m x d)."""
    cdef Py_ssize_t i, j
    cdef int rows = <int> m, columns = <int> n, features = <int> d, step = <int> ld, one = 1
    cdef real alpha = 1, beta = 0
    if n == 0 or m == 0:
        return 0
    if kind == CALLABLE:
        return call(kernel, a, n, b, m, d, out, ld)
    if kind != LINEAR and kind != POLY and kind != RBF:
        for i in range(n):
            for j in range(m):
                out[i * ld + j] = <real> pair(kind, a + i * d, b + j * d, d)
        return 0
    # Row-major a b' is column-major b a' with everything transposed. A single row against a
    # large slab goes past BLAS, which would wake its threads for it.
    if real is double:
        if n > 1:
            dgemm("T", "N", &rows, &columns, &features, &alpha, b, &features, a, &features, &beta, out, &step)
        elif m * d < THREADED:
            dgemv("T", &features, &rows, &alpha, b, &features, a, &one, &beta, out, &one)
        else:
            bt_products_d(b, a, m, d, out)
    else:
        if n > 1:
            sgemm("T", "N", &rows, &columns, &features, &alpha, b, &features, a, &features, &beta, out, &step)
        elif m * d < THREADED:
            sgemv("T", &features, &rows, &alpha, b, &features, a, &one, &beta, out, &one)
        else:
            bt_products_f(b, a, m, d, out)
    return 0


cdef int among(Kernel kernel, Kind kind, real* a, Py_ssize_t n, Py_ssize_t d,
               real* out, Py_ssize_t ld) except -1 nogil:
    """out[i, j] for i <= j: raw value of rows i and j of the same block."""
    cdef Py_ssize_t i, j
    cdef int rows = <int> n, features = <int> d, step = <int> ld
    cdef real alpha = 1, beta = 0
    if kind == CALLABLE:
        return call(kernel, a, n, a, n, d, out, ld)
    if kind != LINEAR and kind != POLY and kind != RBF:
        for i in range(n):
            for j in range(i, n):
                out[i * ld + j] = <real> pair(kind, a + i * d, a + j * d, d)
        return 0
    # The upper triangle by rows is the lower one by columns.
    if real is double:
        dsyrk("L", "T", &rows, &features, &alpha, a, &features, &beta, out, &step)
    else:
        ssyrk("L", "T", &rows, &features, &alpha, a, &features, &beta, out, &step)
    return 0


cdef void squares(real* a, Py_ssize_t n, Py_ssize_t d, real* square) noexcept nogil:
    """Squared norms of n rows."""
    cdef Py_ssize_t i
    for i in range(n):
        if real is double:
            square[i] = bt_square_d(a + i * d, d)
        else:
            square[i] = <float> bt_square_f(a + i * d, d)


cdef int self_values(Kernel kernel, real* a, Py_ssize_t n, Py_ssize_t d, real* square,
                     double* own, real* among, Py_ssize_t ld) except -1 nogil:
    """Raw k(x, x) of n rows.

    `among`, if not NULL, holds their raw values among themselves, which saves a callable
    from being asked again.
    """
    cdef Py_ssize_t i
    cdef real value
    for i in range(n):
        if kernel.kind == LINEAR:
            own[i] = square[i]
        elif kernel.kind == POLY:
            own[i] = pow(kernel.gamma * square[i] + kernel.coef0, kernel.degree)
        elif kernel.kind == ALLSUBSETS:
            own[i] = pair(kernel.kind, a + i * d, a + i * d, d)
        elif kernel.kind == CALLABLE and among != NULL:
            own[i] = among[i * ld + i]
        elif kernel.kind == CALLABLE:
            call(kernel, a + i * d, 1, a + i * d, 1, d, &value, 1)
            own[i] = value
        else:
            own[i] = 1.0
    return 0


cdef void finish(Kernel kernel, Kind kind, real* raw, real a_square, double a_own,
                 real* b_square, double* b_own, Py_ssize_t m) noexcept nogil:
    """Raw values of one row against m others become kernel values, in place."""
    cdef Py_ssize_t j
    if real is double:
        if kind == RBF:
            bt_rbf_d(raw, a_square, b_square, kernel.gamma, m)
        elif kind == LAPLACIAN or kind == RBF_BY_DIFFERENCES:
            bt_decay_d(raw, kernel.gamma, m)
        elif kind == POLY:
            bt_poly_d(raw, kernel.gamma, kernel.coef0, kernel.degree, m)
    else:
        if kind == RBF:
            bt_rbf_f(raw, a_square, b_square, <float> kernel.gamma, m)
        elif kind == LAPLACIAN or kind == RBF_BY_DIFFERENCES:
            bt_decay_f(raw, <float> kernel.gamma, m)
        elif kind == POLY:
            bt_poly_f(raw, <float> kernel.gamma, <float> kernel.coef0, kernel.degree, m)
    if kernel.normalized:
        for j in range(m):  # root by root: the product of self values may overflow where they do not
            if a_own > 0.0 and b_own[j] > 0.0:
                raw[j] = <real> (raw[j] / (sqrt(a_own) * sqrt(b_own[j])))
            else:
                raw[j] = 0
