# cython: cdivision=True
"""Kernels on blocks of rows: a raw part per pair of rows, and an elementwise finish.

The raw part is what costs: inner products (`linear`, `poly`, `rbf`: one matrix
product), L1 distances (`laplacian`), products of 1 + x_i x'_i (`allsubsets`), or
whatever a Python callable returns. `finish` turns a row of raw values into kernel
values, given each row's squared norm (`square`) and raw self value k(x, x)
(`own`). Keeping the two apart lets the lookahead exchange raw columns cheaply and
take each exponential once, when its round comes.
"""

from libc.float cimport DBL_MAX, FLT_MAX
from libc.math cimport fabs, log, pow, sqrt
from scipy.linalg.cython_blas cimport dgemm, dgemv, dsyrk, sgemm, sgemv, ssyrk

import numpy as np

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    double bt_dot_f(const float*, const double*, ptrdiff_t)
    void bt_rbf_d(double*, double, const double*, double, ptrdiff_t)
    void bt_rbf_f(float*, float, const float*, float, ptrdiff_t)
    void bt_decay_d(double*, double, ptrdiff_t)
    void bt_decay_f(float*, float, ptrdiff_t)
    void bt_poly_d(double*, double, double, int, ptrdiff_t)
    void bt_poly_f(float*, float, float, int, ptrdiff_t)
    double bt_l1_d(const double*, const double*, ptrdiff_t)
    double bt_l1_f(const float*, const float*, ptrdiff_t)
    double bt_allsubsets_d(const double*, const double*, ptrdiff_t)
    double bt_allsubsets_f(const float*, const float*, ptrdiff_t)
    double bt_square_d(const double*, ptrdiff_t)
    double bt_square_f(const float*, ptrdiff_t)

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

    cdef double self_value(self, double raw) noexcept nogil:
        """k(x, x), given the raw one. A row that the kernel maps to 0 stays at 0."""
        if self.normalized:
            return 1.0 if raw > 0.0 else 0.0
        return raw

    cdef bint is_safe(self, double square, Py_ssize_t d, bint single):
        """Whether no value between rows of this squared norm or less can overflow."""
        cdef double most = FLT_MAX if single else DBL_MAX
        if not square < most / 8:
            return False
        if self.kind == LINEAR:
            return True
        if self.kind == RBF:
            return self.gamma < most
        if self.kind == LAPLACIAN:
            return self.gamma < most and 2 * sqrt(d * square) < most / 8
        if self.kind == POLY:
            return self.degree * log(fabs(self.gamma) * square + fabs(self.coef0) + 1) < log(most) - 1
        if self.kind == ALLSUBSETS:
            return square < log(most) - 1  # prod(1 + |x_i x'_i|) <= exp(|x||x'|)
        return False


cdef double dot(real* row, double* coef, Py_ssize_t m) noexcept nogil:
    if real is double:
        return bt_dot_d(row, coef, m)
    else:
        return bt_dot_f(row, coef, m)


cdef double pair(Kernel kernel, real* a, real* b, Py_ssize_t d) noexcept nogil:
    """The raw value of the kernels that are no inner product."""
    if real is double:
        return bt_l1_d(a, b, d) if kernel.kind == LAPLACIAN else bt_allsubsets_d(a, b, d)
    else:
        return bt_l1_f(a, b, d) if kernel.kind == LAPLACIAN else bt_allsubsets_f(a, b, d)


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


cdef int cross(Kernel kernel, real* a, Py_ssize_t n, real* b, Py_ssize_t m,
               Py_ssize_t d, real* out, Py_ssize_t ld) except -1 nogil:
    """out[i, j] = raw value of row i of a (n x d) and row j of b (m x d)."""
    cdef Py_ssize_t i, j
    cdef int rows = <int> m, columns = <int> n, features = <int> d, step = <int> ld, one = 1
    cdef real alpha = 1, beta = 0
    if n == 0 or m == 0:
        return 0
    if kernel.kind == CALLABLE:
        return call(kernel, a, n, b, m, d, out, ld)
    if kernel.kind == LAPLACIAN or kernel.kind == ALLSUBSETS:
        for i in range(n):
            for j in range(m):
                out[i * ld + j] = <real> pair(kernel, a + i * d, b + j * d, d)
        return 0
    # Row-major a b' is column-major b a' with everything transposed.
    if real is double:
        if n == 1:
            dgemv("T", &features, &rows, &alpha, b, &features, a, &one, &beta, out, &one)
        else:
            dgemm("T", "N", &rows, &columns, &features, &alpha, b, &features, a, &features, &beta, out, &step)
    else:
        if n == 1:
            sgemv("T", &features, &rows, &alpha, b, &features, a, &one, &beta, out, &one)
        else:
            sgemm("T", "N", &rows, &columns, &features, &alpha, b, &features, a, &features, &beta, out, &step)
    return 0


cdef int among(Kernel kernel, real* a, Py_ssize_t n, Py_ssize_t d,
               real* out, Py_ssize_t ld) except -1 nogil:
    """out[i, j] for i <= j: raw value of rows i and j of the same block."""
    cdef Py_ssize_t i, j
    cdef int rows = <int> n, features = <int> d, step = <int> ld
    cdef real alpha = 1, beta = 0
    if kernel.kind == CALLABLE:
        return call(kernel, a, n, a, n, d, out, ld)
    if kernel.kind == LAPLACIAN or kernel.kind == ALLSUBSETS:
        for i in range(n):
            for j in range(i, n):
                out[i * ld + j] = <real> pair(kernel, a + i * d, a + j * d, d)
        return 0
    # The upper triangle by rows is the lower one by columns.
    if real is double:
        dsyrk("L", "T", &rows, &features, &alpha, a, &features, &beta, out, &step)
    else:
        ssyrk("L", "T", &rows, &features, &alpha, a, &features, &beta, out, &step)
    return 0


cdef int describe(Kernel kernel, real* a, Py_ssize_t n, Py_ssize_t d,
                  real* square, double* own, real* among, Py_ssize_t ld) except -1 nogil:
    """Squared norms and raw self values of n rows.

    `among`, if not NULL, holds their raw values among themselves, which saves a callable
    from being asked again.
    """
    cdef Py_ssize_t i
    cdef double norm
    cdef real value
    for i in range(n):
        if real is double:
            norm = bt_square_d(a + i * d, d)
        else:
            norm = bt_square_f(a + i * d, d)
        square[i] = <real> norm
        if kernel.kind == LINEAR:
            own[i] = norm
        elif kernel.kind == POLY:
            own[i] = pow(kernel.gamma * norm + kernel.coef0, kernel.degree)
        elif kernel.kind == ALLSUBSETS:
            own[i] = pair(kernel, a + i * d, a + i * d, d)
        elif kernel.kind == CALLABLE and among != NULL:
            own[i] = among[i * ld + i]
        elif kernel.kind == CALLABLE:
            call(kernel, a + i * d, 1, a + i * d, 1, d, &value, 1)
            own[i] = value
        else:
            own[i] = 1.0
    return 0


cdef void finish(Kernel kernel, real* raw, real a_square, double a_own,
                 real* b_square, double* b_own, Py_ssize_t m) noexcept nogil:
    """Raw values of one row against m others become kernel values, in place."""
    cdef Py_ssize_t j
    cdef double product
    if real is double:
        if kernel.kind == RBF:
            bt_rbf_d(raw, a_square, b_square, kernel.gamma, m)
        elif kernel.kind == LAPLACIAN:
            bt_decay_d(raw, kernel.gamma, m)
        elif kernel.kind == POLY:
            bt_poly_d(raw, kernel.gamma, kernel.coef0, kernel.degree, m)
    else:
        if kernel.kind == RBF:
            bt_rbf_f(raw, a_square, b_square, <float> kernel.gamma, m)
        elif kernel.kind == LAPLACIAN:
            bt_decay_f(raw, <float> kernel.gamma, m)
        elif kernel.kind == POLY:
            bt_poly_f(raw, <float> kernel.gamma, <float> kernel.coef0, kernel.degree, m)
    if kernel.normalized:
        for j in range(m):
            product = a_own * b_own[j]
            raw[j] = <real> (raw[j] / sqrt(product)) if product > 0.0 else 0
