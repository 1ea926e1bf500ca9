# cython: cdivision=True
"""Loops over kernel values: between the rows of a block and supports, and among the rows of a block.

Raw values are computed first: inner products, distances, or products of 1 + x_i x'_i. `finish` then turns them into
kernel values. Kernels that are Python functions are called by `kernel.call`.

Rows are a matrix or non-zeros (`Rows`). Supports are stored feature by feature (`over_columns`: a matrix product, or
one step per non-zero of a row) or as non-zeros (`over_nonzeros`).

Distances of the RBF kernel are computed in one of two ways (`kind_for`). Inner products and norms need only a matrix
product, but far from the origin their difference loses all digits. There the features are subtracted one by one, which
is slower but accurate.
"""

from libc.float cimport DBL_EPSILON, FLT_EPSILON
from libc.math cimport fabs, pow, sqrt
from libc.string cimport memset
from scipy.linalg.cython_blas cimport dgemm, sgemm

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


cdef double dot(real* row, double* coef, Py_ssize_t m) noexcept nogil:
    if real is double:
        return bt_dot_d(row, coef, m)
    else:
        return bt_dot_f(row, coef, m)


cdef Py_ssize_t tile_bytes(Py_ssize_t d) noexcept nogil:
    """Return the bytes that products over the non-zeros of several rows need."""
    return BT_TILE_BYTES * d


cdef bint is_product(Kind kind) noexcept nogil:
    """Return whether the raw values are inner products."""
    return kind == LINEAR or kind == POLY or kind == RBF


cdef Kind kind_for(Form* kernel, real* a_square, Py_ssize_t n, real* b_square, Py_ssize_t m) noexcept nogil:
    """Return how to compute the values between rows of these squared norms.

    The exponent gamma (|x|^2 + |s|^2 - 2 <x, s>) has an error of a few units in the last place of its terms. If that
    could change the value, return RBF_BY_DIFFERENCES.
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
    """Return the raw value of two rows, for kinds that are not inner products."""
    if real is double:
        if kind == RBF_BY_DIFFERENCES:
            return bt_l2_d(a, b, d)
        return bt_l1_d(a, b, d) if kind == LAPLACIAN else bt_allsubsets_d(a, b, d)
    else:
        if kind == RBF_BY_DIFFERENCES:
            return bt_l2_f(a, b, d)
        return bt_l1_f(a, b, d) if kind == LAPLACIAN else bt_allsubsets_f(a, b, d)


cdef double sparse_pair(Kind kind, int32_t* f, real* a, Py_ssize_t n, int32_t* g, real* b, Py_ssize_t m) noexcept nogil:
    """Return the raw value of two sparse rows, for kinds that are not inner products."""
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


cdef void elementwise_over_columns(Kind kind, real* x, Py_ssize_t d, real* columns, Py_ssize_t stride, Py_ssize_t m,
                                   real* out) noexcept nogil:
    """Write the raw values of one dense row against m supports to `out`, for kinds that are not inner products."""
    if real is double:
        if kind == RBF_BY_DIFFERENCES:
            bt_l2_columns_d(x, d, columns, stride, m, out)
        elif kind == LAPLACIAN:
            bt_l1_columns_d(x, d, columns, stride, m, out)
        else:
            bt_allsubsets_columns_d(x, d, columns, stride, m, out)
    else:
        if kind == RBF_BY_DIFFERENCES:
            bt_l2_columns_f(x, d, columns, stride, m, out)
        elif kind == LAPLACIAN:
            bt_l1_columns_f(x, d, columns, stride, m, out)
        else:
            bt_allsubsets_columns_f(x, d, columns, stride, m, out)


cdef void over_columns(Form* kernel, Kind kind, Rows* rows, real* columns, Py_ssize_t stride, real* square, double* own,
                       Py_ssize_t start, Py_ssize_t stop, real* out, Py_ssize_t ld, void* tile) noexcept nogil:
    """Write k(row i, support j) to out[i, j] for supports from start to stop, stored feature by feature.

    `tile` is room for `tile_bytes`, or NULL if there are no products over the non-zeros of several rows. Kinds that are not
    inner products need rows.dense.
    """
    cdef Py_ssize_t i, n = rows.n, d = rows.d, m = stop - start
    cdef int supports = <int> m, count = <int> n, features = <int> d, column = <int> stride, step = <int> ld
    cdef real alpha = 1, beta = 0
    cdef real* dense = <real*> rows.dense
    cdef real* values = <real*> rows.values
    cdef real* first = columns + start
    out += start
    if n == 0 or m <= 0:
        return
    if not is_product(kind):
        for i in range(n):
            elementwise_over_columns(kind, dense + i * d, d, first, stride, m, out + i * ld)
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
    elif n == 1:  # without BLAS, which might start its threads
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
    """Write k(row i, support j) to out[i, j] for supports from start to stop, stored as non-zeros.

    Each non-zero of a support is multiplied by those of the rows with the same feature (`index`), or, for a single row,
    by the value at that feature (`spread`).
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
    """Write k(row i, row j) of one block for j from start to stop to `out`. `spread` is a row of zeros, before and
    after.

    Not for Python functions, which are called once per block.
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
    """Write the squared norms of the rows to `square`."""
    cdef Py_ssize_t i, e, n
    for i in range(rows.n):
        e = i * rows.d if rows.dense != NULL else rows.starts[i]
        n = rows.d if rows.dense != NULL else rows.starts[i + 1] - e
        if real is double:
            square[i] = bt_square_d((<double*> rows.dense if rows.dense != NULL else <double*> rows.values) + e, n)
        else:
            square[i] = <float> bt_square_f((<float*> rows.dense if rows.dense != NULL else <float*> rows.values) + e, n)


cdef void self_values(Form* kernel, Rows* rows, real* square, double* own) noexcept nogil:
    """Write the raw k(x, x) of the rows to `own`. Not for Python functions."""
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
    """Turn raw values of one row with m others into kernel values, or leave them if the kernel is linear."""
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
        for j in range(m):  # two roots, because the product of the self values may overflow
            if a_own > 0.0 and b_own[j] > 0.0:
                raw[j] = <real> (raw[j] / (sqrt(a_own) * sqrt(b_own[j])))
            else:
                raw[j] = 0
