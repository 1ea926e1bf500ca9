# cython: cdivision=True
"""Kernels on blocks of rows: a raw part per pair of rows, and an elementwise finish.

The raw part is what costs: inner products (`linear`, `poly`, `rbf`), L1 distances
(`laplacian`), products of 1 + x_i x'_i (`allsubsets`), or whatever a Python callable
returns. `finish` turns a row of raw values into kernel values, given each row's
squared norm (`square`) and raw self value k(x, x) (`own`).

Rows come in as a matrix or by their non-zeros (`Rows`); what they are compared with is kept
feature by feature (`over_columns`: a matrix product, or one step for each non-zero
of a row) or by its own non-zeros (`over_nonzeros`).

The RBF kernel has two ways to its distances. Inner products and norms are a matrix
product, but far from the origin their difference loses all digits; there
(`kind_for`) coordinates are subtracted one by one, which is slower and always right.
"""

from libc.float cimport DBL_EPSILON, DBL_MAX, FLT_EPSILON, FLT_MAX
from libc.math cimport fabs, log, pow, sqrt
from libc.string cimport memset
from scipy.linalg.cython_blas cimport dgemm, sgemm

import numpy as np

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    double bt_dot_f(const float*, const double*, ptrdiff_t)
    void bt_combine_d(const double*, const int32_t*, ptrdiff_t, const double*, ptrdiff_t, ptrdiff_t, double*)
    void bt_combine_f(const float*, const int32_t*, ptrdiff_t, const float*, ptrdiff_t, ptrdiff_t, float*)
    ptrdiff_t BT_TILE_BYTES
    void bt_sparse_products_d(const int64_t*, const int32_t*, const double*, ptrdiff_t, const double*, ptrdiff_t,
                              ptrdiff_t, ptrdiff_t, double*, ptrdiff_t, double*)
    void bt_sparse_products_f(const int64_t*, const int32_t*, const float*, ptrdiff_t, const float*, ptrdiff_t,
                              ptrdiff_t, ptrdiff_t, float*, ptrdiff_t, float*)
    void bt_sparse_rbf_d(const int64_t*, const int32_t*, const double*, ptrdiff_t, const double*, ptrdiff_t, ptrdiff_t,
                         ptrdiff_t, double*, ptrdiff_t, double*, double, const double*, const double*)
    void bt_sparse_rbf_f(const int64_t*, const int32_t*, const float*, ptrdiff_t, const float*, ptrdiff_t, ptrdiff_t,
                         ptrdiff_t, float*, ptrdiff_t, float*, float, const float*, const float*)
    void bt_few_rbf_d(const double*, ptrdiff_t, const double*, ptrdiff_t, ptrdiff_t, double*, double, double, const double*)
    void bt_few_rbf_f(const float*, ptrdiff_t, const float*, ptrdiff_t, ptrdiff_t, float*, float, float, const float*)
    void bt_l2_columns_d(const double*, ptrdiff_t, const double*, ptrdiff_t, ptrdiff_t, double*)
    void bt_l2_columns_f(const float*, ptrdiff_t, const float*, ptrdiff_t, ptrdiff_t, float*)
    void bt_l1_columns_d(const double*, ptrdiff_t, const double*, ptrdiff_t, ptrdiff_t, double*)
    void bt_l1_columns_f(const float*, ptrdiff_t, const float*, ptrdiff_t, ptrdiff_t, float*)
    void bt_allsubsets_columns_d(const double*, ptrdiff_t, const double*, ptrdiff_t, ptrdiff_t, double*)
    void bt_allsubsets_columns_f(const float*, ptrdiff_t, const float*, ptrdiff_t, ptrdiff_t, float*)
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
        cdef Kind kind = CALLABLE if callable(kernel) else _KINDS[kernel]
        self.function = kernel if callable(kernel) else None
        self.name = "callable" if callable(kernel) else kernel
        self.form.kind, self.form.gamma, self.form.degree, self.form.coef0 = kind, gamma, degree, coef0
        # These two have k(x, x) = 1 as they are.
        self.form.normalized = normalized and kind not in (RBF, LAPLACIAN)

    def __reduce__(self):
        kernel = self.name if self.function is None else self.function
        return Kernel, (kernel, self.form.gamma, self.form.degree, self.form.coef0, self.form.normalized)

    @property
    def gamma(self):
        """Width, or factor."""
        return self.form.gamma

    @property
    def degree(self):
        """The power of "poly"."""
        return self.form.degree

    @property
    def coef0(self):
        """Constant term."""
        return self.form.coef0

    @property
    def normalized(self):
        """Whether values are divided so that k(x, x) = 1."""
        return self.form.normalized

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
                matrix_of[float](self, A, B, np.ascontiguousarray(B.T), out)
            else:
                matrix_of[double](self, A, B, np.ascontiguousarray(B.T), out)
        return out

    def diagonal(self, A):
        """k(a, a) for each row a of A."""
        cdef double[:, ::1] dense = np.ascontiguousarray(A, np.float64)
        cdef double[::1] square = np.empty(len(A)), own = np.empty(len(A))
        cdef Py_ssize_t i
        if len(A):
            describe[double](self, dense, square, own)
        return np.array([self.self_value(own[i]) for i in range(len(A))])

    cdef bint has_unit_length(self):
        """Whether k(x, x) is 1, or 0, for every row."""
        return self.form.normalized or self.form.kind in (RBF, LAPLACIAN)

    cdef bint is_safe(self, double square, Py_ssize_t d, bint single):
        """Whether no value between rows of this squared norm or less can overflow."""
        # With room for sums of very many values with large coefficients.
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
    """The rows of an array, with their squared norms and self values filled in."""
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


cdef double dot(real* row, double* coef, Py_ssize_t m) noexcept nogil:
    if real is double:
        return bt_dot_d(row, coef, m)
    else:
        return bt_dot_f(row, coef, m)


cdef Py_ssize_t tile_bytes(Py_ssize_t d) noexcept nogil:
    """Room that products by the non-zeros of several rows need."""
    return BT_TILE_BYTES * d


cdef bint is_product(Kind kind) noexcept nogil:
    """Whether the raw values are inner products."""
    return kind == LINEAR or kind == POLY or kind == RBF


cdef Kind kind_for(Form* kernel, real* a_square, Py_ssize_t n, real* b_square, Py_ssize_t m) noexcept nogil:
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
    """The raw value of two rows, for the kinds that are no inner product."""
    if real is double:
        if kind == RBF_BY_DIFFERENCES:
            return bt_l2_d(a, b, d)
        return bt_l1_d(a, b, d) if kind == LAPLACIAN else bt_allsubsets_d(a, b, d)
    else:
        if kind == RBF_BY_DIFFERENCES:
            return bt_l2_f(a, b, d)
        return bt_l1_f(a, b, d) if kind == LAPLACIAN else bt_allsubsets_f(a, b, d)


cdef double sparse_pair(Kind kind, int32_t* f, real* a, Py_ssize_t n, int32_t* g, real* b, Py_ssize_t m) noexcept nogil:
    """The same by the non-zeros of both, in one walk along their features."""
    cdef Py_ssize_t i = 0, j = 0
    cdef double x, y, total = 1.0 if kind == ALLSUBSETS else 0.0
    while i < n or j < m:
        x = y = 0.0
        if j == m or (i < n and f[i] <= g[j]):
            x = a[i]
            if j < m and f[i] == g[j]:
                y = b[j]
                j += 1
            i += 1
        else:
            y = b[j]
            j += 1
        if kind == RBF_BY_DIFFERENCES:
            total += (x - y) * (x - y)
        elif kind == LAPLACIAN:
            total += fabs(x - y)
        else:
            total *= 1.0 + x * y
    return total


cdef int call(Kernel kernel, real* a, Py_ssize_t n, Py_ssize_t d, others, real* out, Py_ssize_t ld) except -1:
    """Raw values of n rows against others (or, if None, among themselves), from the caller's function."""
    cdef Py_ssize_t m = n if others is None else len(others), i, j
    # Copies: the function may keep what it is given.
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


cdef void over_columns(Form* kernel, Kind kind, Rows* rows, real* columns, Py_ssize_t stride, real* square, double* own,
                       Py_ssize_t start, Py_ssize_t stop, real* out, Py_ssize_t ld, void* tile) noexcept nogil:
    """out[i, j] = k(row i, support j) for supports from start to stop, kept feature by feature.

    `tile` is room for `tile_bytes`, or NULL where products by the non-zeros of several rows are not asked for. The
    kinds that are no inner product need rows.dense.
    """
    cdef Py_ssize_t i, n = rows.n, d = rows.d, m = stop - start
    cdef int supports = <int> m, count = <int> n, features = <int> d, column = <int> stride, step = <int> ld
    cdef real alpha = 1, beta = 0
    cdef real* dense = <real*> rows.dense
    cdef real* values = <real*> rows.values
    cdef real* first = columns + start
    cdef real* row
    out += start
    if n == 0 or m <= 0:
        return
    if not is_product(kind):
        for i in range(n):
            row = out + i * ld
            if real is double:
                if kind == RBF_BY_DIFFERENCES:
                    bt_l2_columns_d(dense + i * d, d, first, stride, m, row)
                elif kind == LAPLACIAN:
                    bt_l1_columns_d(dense + i * d, d, first, stride, m, row)
                else:
                    bt_allsubsets_columns_d(dense + i * d, d, first, stride, m, row)
            else:
                if kind == RBF_BY_DIFFERENCES:
                    bt_l2_columns_f(dense + i * d, d, first, stride, m, row)
                elif kind == LAPLACIAN:
                    bt_l1_columns_f(dense + i * d, d, first, stride, m, row)
                else:
                    bt_allsubsets_columns_f(dense + i * d, d, first, stride, m, row)
    elif kind == RBF and d <= NARROW and dense != NULL:
        for i in range(n):
            if real is double:
                bt_few_rbf_d(dense + i * d, d, first, stride, m, out + i * ld, kernel.gamma, (<double*> rows.square)[i],
                             square + start)
            else:
                bt_few_rbf_f(dense + i * d, d, first, stride, m, out + i * ld, <float> kernel.gamma,
                             (<float*> rows.square)[i], square + start)
        return
    elif rows.sparse and n > 1 and kind == RBF:
        if real is double:
            bt_sparse_rbf_d(rows.starts, rows.features, values, n, first, stride, d, m, out, ld, <double*> tile,
                            kernel.gamma, <double*> rows.square, square + start)
        else:
            bt_sparse_rbf_f(rows.starts, rows.features, values, n, first, stride, d, m, out, ld, <float*> tile,
                            <float> kernel.gamma, <float*> rows.square, square + start)
        return
    elif rows.sparse and n > 1:
        if real is double:
            bt_sparse_products_d(rows.starts, rows.features, values, n, first, stride, d, m, out, ld, <double*> tile)
        else:
            bt_sparse_products_f(rows.starts, rows.features, values, n, first, stride, d, m, out, ld, <float*> tile)
    elif rows.sparse:
        i = rows.starts[0]
        if real is double:
            bt_combine_d(values + i, rows.features + i, rows.starts[1] - i, first, stride, m, out)
        else:
            bt_combine_f(values + i, rows.features + i, rows.starts[1] - i, first, stride, m, out)
    elif n == 1:  # past BLAS, which would wake its threads for it
        if real is double:
            bt_combine_d(dense, NULL, d, first, stride, m, out)
        else:
            bt_combine_f(dense, NULL, d, first, stride, m, out)
    else:
        if real is double:
            dgemm("N", "N", &supports, &count, &features, &alpha, first, &column, dense, &features, &beta, out, &step)
        else:
            sgemm("N", "N", &supports, &count, &features, &alpha, first, &column, dense, &features, &beta, out, &step)
    for i in range(n):
        finish(kernel, kind, out + i * ld, (<real*> rows.square)[i], rows.own[i], square + start, own + start, m)


cdef void over_nonzeros(Form* kernel, Kind kind, Rows* rows, Index* index, real* spread, int64_t* begins, int32_t* lengths,
                        int32_t* features, real* values, real* square, double* own, Py_ssize_t start, Py_ssize_t stop,
                        real* out, Py_ssize_t ld) noexcept nogil:
    """The same for supports kept by their non-zeros.

    Each of a support's non-zeros meets those of the rows with that feature (`index`), or, of a single row, the
    value there (`spread`).
    """
    cdef Py_ssize_t i, j, e, t, n = rows.n
    cdef int32_t* f
    cdef real* v
    cdef real* row_values = <real*> rows.values
    cdef real* theirs
    cdef real value
    if not is_product(kind):
        for i in range(n):
            for j in range(start, stop):
                e = rows.starts[i]
                out[i * ld + j] = <real> sparse_pair(kind, rows.features + e, row_values + e, rows.starts[i + 1] - e,
                                                     features + begins[j], values + begins[j], lengths[j])
    elif n == 1:
        for j in range(start, stop):
            f, v, value = features + begins[j], values + begins[j], 0
            for e in range(lengths[j]):
                value += v[e] * spread[f[e]]
            out[j] = value
    else:
        theirs = <real*> index.values
        for i in range(n):
            memset(out + i * ld + start, 0, (stop - start) * sizeof(real))
        for j in range(start, stop):
            f, v = features + begins[j], values + begins[j]
            for e in range(lengths[j]):
                value = v[e]
                for t in range(index.heads[f[e]], index.heads[<Py_ssize_t> f[e] + 1]):
                    out[index.rows[t] * ld + j] += value * theirs[t]
    for i in range(n):
        finish(kernel, kind, out + i * ld + start, (<real*> rows.square)[i], rows.own[i], square + start, own + start,
               stop - start)


cdef void between(Form* kernel, Kind kind, Rows* rows, Py_ssize_t i, Py_ssize_t start, Py_ssize_t stop, real* out,
                  real* spread) noexcept nogil:
    """k(row i, row j) of one block for j from start to stop; `spread` is a row of zeros, and is again afterwards.

    Not for callables, which are asked about a whole block at once.
    """
    cdef Py_ssize_t j, e, d = rows.d
    cdef real* dense = <real*> rows.dense
    cdef real* values = <real*> rows.values
    cdef real value
    if stop <= start:
        return
    if rows.starts != NULL and not is_product(kind):
        e = rows.starts[i]
        for j in range(start, stop):
            out[j - start] = <real> sparse_pair(kind, rows.features + e, values + e, rows.starts[i + 1] - e,
                                                rows.features + rows.starts[j], values + rows.starts[j],
                                                rows.starts[j + 1] - rows.starts[j])
    elif not is_product(kind):
        for j in range(start, stop):
            out[j - start] = <real> pair(kind, dense + i * d, dense + j * d, d)
    elif rows.sparse:
        for e in range(rows.starts[i], rows.starts[i + 1]):
            spread[rows.features[e]] = values[e]
        for j in range(start, stop):
            value = 0
            for e in range(rows.starts[j], rows.starts[j + 1]):
                value += values[e] * spread[rows.features[e]]
            out[j - start] = value
        for e in range(rows.starts[i], rows.starts[i + 1]):
            spread[rows.features[e]] = 0
    else:
        if real is double:
            bt_products_d(dense + start * d, dense + i * d, stop - start, d, out)
        else:
            bt_products_f(dense + start * d, dense + i * d, stop - start, d, out)
    finish(kernel, kind, out, (<real*> rows.square)[i], rows.own[i], <real*> rows.square + start, rows.own + start,
           stop - start)


cdef void squares(Rows* rows, real* square) noexcept nogil:
    """Squared norms of the rows."""
    cdef Py_ssize_t i, e, n
    for i in range(rows.n):
        e = i * rows.d if rows.dense != NULL else rows.starts[i]
        n = rows.d if rows.dense != NULL else rows.starts[i + 1] - e
        if real is double:
            square[i] = bt_square_d((<double*> rows.dense if rows.dense != NULL else <double*> rows.values) + e, n)
        else:
            square[i] = <float> bt_square_f((<float*> rows.dense if rows.dense != NULL else <float*> rows.values) + e, n)


cdef void self_values(Form* kernel, Rows* rows, real* square, double* own) noexcept nogil:
    """Raw k(x, x) of the rows. Not for callables."""
    cdef Py_ssize_t i, e, d = rows.d
    cdef real* dense = <real*> rows.dense
    cdef real* values = <real*> rows.values
    for i in range(rows.n):
        if kernel.kind == LINEAR:
            own[i] = square[i]
        elif kernel.kind == POLY:
            own[i] = pow(kernel.gamma * square[i] + kernel.coef0, kernel.degree)
        elif kernel.kind != ALLSUBSETS:
            own[i] = 1.0
        elif dense != NULL:
            own[i] = pair(ALLSUBSETS, dense + i * d, dense + i * d, d)
        else:
            e = rows.starts[i]
            own[i] = pair(ALLSUBSETS, values + e, values + e, rows.starts[i + 1] - e)


cdef void finish(Form* kernel, Kind kind, real* raw, real a_square, double a_own,
                 real* b_square, double* b_own, Py_ssize_t m) noexcept nogil:
    """Raw values of one row against m others become kernel values, in place; distances for a kernel without, stay."""
    cdef Py_ssize_t j
    if real is double:
        if kind == RBF:
            bt_rbf_d(raw, a_square, b_square, kernel.gamma, m)
        elif kind == LAPLACIAN or (kind == RBF_BY_DIFFERENCES and kernel.kind == RBF):
            bt_decay_d(raw, kernel.gamma, m)
        elif kind == POLY:
            bt_poly_d(raw, kernel.gamma, kernel.coef0, kernel.degree, m)
    else:
        if kind == RBF:
            bt_rbf_f(raw, a_square, b_square, <float> kernel.gamma, m)
        elif kind == LAPLACIAN or (kind == RBF_BY_DIFFERENCES and kernel.kind == RBF):
            bt_decay_f(raw, <float> kernel.gamma, m)
        elif kind == POLY:
            bt_poly_f(raw, <float> kernel.gamma, <float> kernel.coef0, kernel.degree, m)
    if kernel.normalized:
        for j in range(m):  # root by root: the product of self values may overflow where they do not
            if a_own > 0.0 and b_own[j] > 0.0:
                raw[j] = <real> (raw[j] / (sqrt(a_own) * sqrt(b_own[j])))
            else:
                raw[j] = 0
