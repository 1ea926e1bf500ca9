# cython: cdivision=True
"""Lower triangles that grow by rows, stored in panels, and linear algebra on them.

A panel is `panel` consecutive rows. All rows of a panel are as wide as its last row. So a new row is appended
without moving the others, and a panel is a matrix to BLAS. A triangle is a triangular matrix L, or the lower
half of a symmetric matrix S. In a symmetric matrix the panels also hold the numbers right of the diagonal, up to
their width.

Vectors are rows of `ld` numbers.
"""

from scipy.linalg.cython_blas cimport dgemm, dtrsm

import numpy as np

cdef extern from "simd.h" nogil:
    double bt_dot_d(const double*, const double*, ptrdiff_t)
    void bt_axpy(double, const double*, double*, ptrdiff_t)


cdef unpack(packed, Py_ssize_t n, Py_ssize_t panel):
    """Return a triangle of n rows as a full matrix, with zeros above the diagonal."""
    cdef Py_ssize_t i, start
    full = np.zeros((n, n))
    for i in range(n):
        start = row_start(i, panel)
        full[i, :i + 1] = packed[start:start + i + 1]
    return full


cdef void solve_one(double* L, Py_ssize_t panel, Py_ssize_t n, double* z) noexcept nogil:
    """Replace z by L^-1 z."""
    cdef Py_ssize_t i
    cdef double* row
    for i in range(n):
        row = L + row_start(i, panel)
        z[i] = (z[i] - bt_dot_d(row, z, i)) / row[i]


cdef void solve_one_transposed(double* L, Py_ssize_t panel, Py_ssize_t n, double* z) noexcept nogil:
    """Replace z by L^-T z."""
    cdef Py_ssize_t i
    cdef double* row
    for i in range(n - 1, -1, -1):
        row = L + row_start(i, panel)
        z[i] /= row[i]
        bt_axpy(-z[i], row, z, i)


cdef void solve_many(double* L, Py_ssize_t panel, Py_ssize_t n, double* z, Py_ssize_t count, Py_ssize_t ld) noexcept nogil:
    """Replace each of `count` vectors z by L^-1 z."""
    cdef int rows, above, columns = <int> count, width, step = <int> ld
    cdef double one = 1.0, minus = -1.0
    cdef double* block
    cdef Py_ssize_t p, first
    for p in range(panel_count(n, panel)):
        first = p * panel
        block = L + panel_start(p, panel)
        rows, above, width = <int> min(panel, n - first), <int> first, <int> ((p + 1) * panel)
        # BLAS reads rows as columns, so the lower triangle L is the upper triangle U' to it.
        if above:
            dgemm("T", "N", &rows, &columns, &above, &minus, block, &width, z, &step, &one, z + first, &step)
        dtrsm("L", "U", "T", "N", &rows, &columns, &one, block + first, &width, z + first, &step)


cdef void solve_many_transposed(double* L, Py_ssize_t panel, Py_ssize_t n, double* z, Py_ssize_t count,
                                Py_ssize_t ld) noexcept nogil:
    """Replace each of `count` vectors z by L^-T z."""
    cdef int rows, above, columns = <int> count, width, step = <int> ld
    cdef double one = 1.0, minus = -1.0
    cdef double* block
    cdef Py_ssize_t p, first
    for p in range(panel_count(n, panel) - 1, -1, -1):
        first = p * panel
        block = L + panel_start(p, panel)
        rows, above, width = <int> min(panel, n - first), <int> first, <int> ((p + 1) * panel)
        dtrsm("L", "U", "N", "N", &rows, &columns, &one, block + first, &width, z + first, &step)
        if above:
            dgemm("N", "N", &above, &columns, &rows, &minus, block, &width, z + first, &step, &one, z, &step)


cdef void multiply(double* S, Py_ssize_t panel, Py_ssize_t n, double* x, double* out) noexcept nogil:
    """Write S x to `out`."""
    cdef Py_ssize_t p, first, width, i, end
    cdef double* row
    for p in range(panel_count(n, panel)):
        first, width = p * panel, (p + 1) * panel
        end = min(width, n)
        for i in range(first, end):
            row = S + panel_start(p, panel) + (i - first) * width
            out[i] = bt_dot_d(row, x, end)
            bt_axpy(x[i], row, out, first)


cdef void multiply_many(double* S, Py_ssize_t panel, Py_ssize_t n, double* x, double* out, Py_ssize_t count,
                        Py_ssize_t ld) noexcept nogil:
    """Write S x to `out` for each of `count` vectors x."""
    cdef int rows, first, end, width, columns = <int> count, step = <int> ld
    cdef double one = 1.0, zero = 0.0
    cdef double* block
    cdef Py_ssize_t p
    for p in range(panel_count(n, panel)):
        block = S + panel_start(p, panel)
        first, width = <int> (p * panel), <int> ((p + 1) * panel)
        end = <int> min(<Py_ssize_t> width, n)
        rows = end - first
        dgemm("T", "N", &rows, &columns, &end, &one, block, &width, x, &step, &zero, out + first, &step)
        if first:  # the upper half of S, which is the lower half transposed
            dgemm("N", "N", &first, &columns, &rows, &one, block, &width, x + first, &step, &one, out, &step)


cdef void downdate(double* S, Py_ssize_t panel, Py_ssize_t n, double* s) noexcept nogil:
    """Replace S by S - s s'."""
    cdef Py_ssize_t p, first, width, i, end
    for p in range(panel_count(n, panel)):
        first, width = p * panel, (p + 1) * panel
        end = min(width, n)
        for i in range(first, end):
            bt_axpy(-s[i], s, S + panel_start(p, panel) + (i - first) * width, end)


cdef void downdate_many(double* S, Py_ssize_t panel, Py_ssize_t n, double* s, Py_ssize_t count,
                        Py_ssize_t ld) noexcept nogil:
    """Subtract s s' from S for each of `count` vectors s."""
    cdef int rows, end, width, columns = <int> count, step = <int> ld
    cdef double one = 1.0, minus = -1.0
    cdef double* block
    cdef Py_ssize_t p, i, j, first
    for p in range(panel_count(n, panel)):
        block, first, width = S + panel_start(p, panel), p * panel, <int> ((p + 1) * panel)
        end = <int> min(<Py_ssize_t> width, n)
        rows = end - <int> first
        dgemm("N", "T", &end, &rows, &columns, &minus, s, &step, s + first, &step, &one, block, &width)
        # BLAS may round the two halves differently. Model files keep the lower half, so it decides.
        for i in range(rows):
            for j in range(i):
                block[j * width + first + i] = block[i * width + first + j]


cdef void add_to_diagonal(double* S, Py_ssize_t panel, Py_ssize_t n, double value) noexcept nogil:
    """Add a number to each entry on the diagonal of S."""
    cdef Py_ssize_t i
    for i in range(n):
        S[row_start(i, panel) + i] += value


cdef void multiply_all(double* S, Py_ssize_t panel, Py_ssize_t n, double factor) noexcept nogil:
    """Multiply all entries of S by a number."""
    cdef Py_ssize_t i
    for i in range(packed_size(n, panel)):
        S[i] *= factor
