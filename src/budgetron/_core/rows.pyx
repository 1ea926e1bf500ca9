# cython: cdivision=True
"""A block of rows to learn or predict: as a matrix, as non-zeros, or both.

Rows come in either form. Which form is multiplied is chosen for each block. If at most one number in `FEWEST` is not
zero, products over the non-zeros are faster than a matrix product. They are also faster for rows of few features, for
which BLAS has no good loops.
"""

from libc.string cimport memset

cimport numpy as cnp

import numpy as np
from scipy.sparse import issparse

from budgetron._core.kernel cimport call
from budgetron._core.kernel_values cimport CALLABLE, between, finish, self_values, squares

from budgetron._util.sparse import check_sparse

cdef extern from "simd.h" nogil:
    ptrdiff_t bt_count_d(const double*, ptrdiff_t)
    ptrdiff_t bt_count_f(const float*, ptrdiff_t)
    ptrdiff_t bt_nonzeros_d(const double*, ptrdiff_t, ptrdiff_t, int32_t*, double*)
    ptrdiff_t bt_nonzeros_f(const float*, ptrdiff_t, ptrdiff_t, int32_t*, float*)

# Products over the non-zeros are used if at most one number in FEWEST is not zero, or with at most FEW_FEATURES
# features.
cdef Py_ssize_t FEWEST = 3, FEW_FEATURES = 8

cnp.import_array()


cdef void* address(array) noexcept:
    return (<cnp.ndarray> array).data


def one_row(x, Py_ssize_t d):
    """Return the row x as an array of d numbers; x may also be an array with one row."""
    cdef cnp.ndarray row
    if not isinstance(x, np.ndarray):
        x = np.asarray(x)
    row = x if x.ndim != 2 or x.shape[0] != 1 else x[0]
    if row.ndim != 1 or row.shape[0] != d:
        raise ValueError(f"x must be one row of {d} features; got an array of shape {x.shape}")
    if row.dtype.kind not in "fiub":
        raise ValueError(f"x must hold numbers; got an array of dtype {row.dtype}")
    return row


def sparse_row(x, Py_ssize_t d):
    """Return the features and the values of the non-zeros of one sparse row."""
    width = x.shape[x.ndim - 1]
    if width != d or (x.ndim == 2 and x.shape[0] != 1):
        raise ValueError(f"x must be one row of {d} features; got an array of shape {x.shape}")
    if x.dtype.kind not in "fiub":
        raise ValueError(f"x must hold numbers; got an array of dtype {x.dtype}")
    if check_sparse(x):
        stored = slice(x.indptr[1])
        return x.indices[stored].astype(np.int32), x.data[stored]
    x = x.tocoo(copy=True)
    x.has_canonical_format = False  # what the matrix says of itself may not be true
    x.sum_duplicates()
    return np.ascontiguousarray(x.coords[x.ndim - 1], np.int32), x.data


cdef class Block:
    """Room for `room` rows of `d` features.

    `wide` is True if supports are stored as non-zeros, so that the non-zeros of the rows are always needed. `predicts`
    is True if no row will become a support.
    """

    def __init__(self, Kernel kernel, Py_ssize_t d, dtype, Py_ssize_t room, bint wide, bint predicts=False):
        self.kernel, self.d, self.room, self.wide, self.predicts = kernel, d, room, wide, predicts
        self.single = np.dtype(dtype) == np.float32
        self.square, self.own = np.zeros(room, dtype), np.zeros(room)
        self.dense = self.values = self.among = self.index_values = np.zeros(0, dtype)
        if kernel.function is not None and not predicts:
            self.among = np.zeros((room, room), dtype)
        # Allocated with the first row: a damaged file may ask for more features than fit into memory.
        self.spread, self.has_spread = np.zeros(0 if wide else d, dtype), not wide
        self.starts, self.features = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self.heads = self.index_rows = self.every_feature = np.zeros(0, np.int32)
        self.every_start = np.zeros(0, np.int64)
        if d <= FEW_FEATURES and not wide:
            self.every_start = np.arange(0, room * d + 1, d, dtype=np.int64)
            self.every_feature = np.tile(np.arange(d, dtype=np.int32), room)
        memset(&self.rows, 0, sizeof(Rows))
        self.rows.d = d
        self.entries = self.indexed = 0
        self.has_dense = False
        self.set_pointers()

    cdef void set_pointers(self):
        self.rows.square, self.rows.own = address(self.square), <double*> address(self.own)
        self._dense, self._spread, self._among = address(self.dense), address(self.spread), address(self.among)
        self._starts, self._features = <int64_t*> address(self.starts), <int32_t*> address(self.features)
        self._values = address(self.values)
        self._every_start = <int64_t*> address(self.every_start)
        self._every_feature = <int32_t*> address(self.every_feature)
        self.index.heads = <int32_t*> address(self.heads)
        self.index.rows, self.index.values = <int32_t*> address(self.index_rows), address(self.index_values)

    def arrays(self):
        """Return all arrays that take memory."""
        return [self.square, self.own, self.among, self.dense, self.starts, self.features, self.values, self.every_start,
                self.every_feature, self.spread, self.heads, self.index_rows, self.index_values]

    def set_nonzeros(self, features, values):
        """Store the non-zeros of one row."""
        if self.entries < len(values) or len(self.starts) < 2:
            self.make_room(max(len(values), 3 * self.entries // 2))
        self.features[:len(values)], self.values[:len(values)] = features, values
        self.starts[0], self.starts[1] = 0, len(values)

    def make_matrix(self):
        """Make room for the rows as a matrix."""
        self.dense, self.has_dense = np.zeros(self.room * self.d, self.square.dtype), True
        self.set_pointers()

    cdef int ensure_spread(self) except -1 nogil:
        """Allocate the row of zeros that products over non-zeros need."""
        if not self.has_spread:
            with gil:
                self.spread, self.has_spread = np.zeros(self.d, self.square.dtype), True
                self.set_pointers()
        return 0

    def make_room(self, Py_ssize_t entries):
        """Make room for this many non-zeros."""
        if len(self.starts) < self.room + 1:
            self.starts = np.zeros(self.room + 1, np.int64)
        if len(self.features) < entries:
            self.features, self.values = np.zeros(entries, np.int32), np.zeros(entries, self.square.dtype)
        self.entries = entries
        self.set_pointers()


cdef class BatchRows:
    """The rows of a batch: an array or a CSR matrix in canonical form."""

    def __init__(self, X, dtype):
        self.n, self.d = X.shape
        self.single = np.dtype(dtype) == np.float32
        self.sparse = issparse(X)
        if X.dtype != dtype:
            raise ValueError(f"rows must be {np.dtype(dtype)}; got {X.dtype}")
        if self.sparse:
            values, features = np.ascontiguousarray(X.data), np.ascontiguousarray(X.indices, np.int32)
            starts = np.ascontiguousarray(X.indptr, np.int64)
            self.arrays = values, features, starts
            self.starts, self.features = <int64_t*> address(starts), <int32_t*> address(features)
        else:
            self.arrays = values = np.ascontiguousarray(X)
        self.values = address(values)

    cdef int open(self, Block block, Py_ssize_t start, Py_ssize_t n) except -1 nogil:
        """Let the block refer to the n rows from `start` on."""
        if self.single:
            if self.sparse:
                return open_sparse(block, self.starts + start, self.features, <float*> self.values, n)
            return open_dense(block, <float*> self.values + start * self.d, n)
        if self.sparse:
            return open_sparse(block, self.starts + start, self.features, <double*> self.values, n)
        return open_dense(block, <double*> self.values + start * self.d, n)


cdef int open_dense(Block block, real* X, Py_ssize_t n) except -1 nogil:
    """Let the block refer to these n rows of an array, which must stay valid."""
    find_nonzeros(block, X, n)
    return describe(block, <real*> block.rows.square)


cdef int find_nonzeros(Block block, real* X, Py_ssize_t n) except -1 nogil:
    """Let the block refer to n rows of an array, and find their non-zeros if products over them are faster."""
    cdef Rows* rows = &block.rows
    cdef Py_ssize_t d = block.d, count, i, most
    cdef int64_t* starts
    cdef int32_t* features
    cdef real* values
    rows.n, rows.dense, rows.starts, rows.sparse = n, X, NULL, False
    block.ensure_spread()
    if real is double:
        count = bt_count_d(X, n * d)
    else:
        count = bt_count_f(X, n * d)
    if d <= FEW_FEATURES and not block.wide:
        rows.starts, rows.features, rows.values, rows.sparse = block._every_start, block._every_feature, X, True
    elif block.wide or count * FEWEST <= n * d:
        most = count + 1  # bt_nonzeros writes one entry past the last non-zero
        if block.entries < most:
            with gil:
                block.make_room(most if block.wide else max(most, block.room * d // FEWEST + 1))
        starts, features, values = block._starts, block._features, <real*> block._values
        starts[0] = 0
        for i in range(n):
            most = count + 1 - starts[i]
            if real is double:
                starts[i + 1] = starts[i] + bt_nonzeros_d(X + i * d, d, most, features + starts[i], values + starts[i])
            else:
                starts[i + 1] = starts[i] + bt_nonzeros_f(X + i * d, d, most, features + starts[i], values + starts[i])
        rows.starts, rows.features, rows.values, rows.sparse = starts, features, values, True
    return 0


cdef int open_sparse(Block block, int64_t* starts, int32_t* features, real* values, Py_ssize_t n) except -1 nogil:
    """Let the block refer to n rows of a CSR matrix in canonical form, which must stay valid."""
    cdef Rows* rows = &block.rows
    rows.n, rows.dense, rows.starts, rows.features, rows.values = n, NULL, starts, features, values
    block.ensure_spread()
    rows.sparse = block.wide or (starts[n] - starts[0]) * FEWEST <= n * block.d or block.d <= FEW_FEATURES
    if not rows.sparse or block.kernel.form.kind == CALLABLE:
        make_dense(block)
    return describe(block, <real*> rows.square)


cdef int describe(Block block, real* square) except -1 nogil:
    """Compute squared norms and self values of the rows."""
    cdef Py_ssize_t i, n = block.rows.n
    cdef real* dense = <real*> block.rows.dense
    cdef real* among
    cdef real value
    squares(&block.rows, square)
    if block.kernel.form.kind != CALLABLE:
        self_values(&block.kernel.form, &block.rows, square, block.rows.own)
        return 0
    with gil:
        if block.predicts:
            for i in range(n if block.kernel.form.normalized else 0):
                call(block.kernel, dense + i * block.d, 1, block.d, None, &value, 1)
                block.rows.own[i] = value
            return 0
        among = <real*> block._among
        call(block.kernel, dense, n, block.d, None, among, block.room)
    for i in range(n):
        block.rows.own[i] = among[i * block.room + i]
    return 0


cdef int make_dense(Block block) except -1 nogil:
    """Make the matrix of the rows, if they came as non-zeros."""
    if block.rows.dense != NULL:
        return 0
    if not block.has_dense:
        with gil:
            block.make_matrix()
    block.rows.dense = block._dense
    if block.single:
        spread_out(&block.rows, <float*> block.rows.dense)
    else:
        spread_out(&block.rows, <double*> block.rows.dense)
    return 0


cdef void spread_out(Rows* rows, real* out) noexcept nogil:
    cdef Py_ssize_t i, e
    memset(out, 0, rows.n * rows.d * sizeof(real))
    for i in range(rows.n):
        for e in range(rows.starts[i], rows.starts[i + 1]):
            out[i * rows.d + rows.features[e]] = (<real*> rows.values)[e]


cdef int make_index(Block block) except -1 nogil:
    """Sort the non-zeros of the rows by feature."""
    cdef Py_ssize_t n = block.rows.starts[block.rows.n] - block.rows.starts[0]
    if block.indexed < n + 1:  # n + 1, so that `heads` is allocated even without non-zeros
        with gil:
            block.heads = np.zeros(block.d + 2, np.int32)
            block.index_rows, block.index_values = np.zeros(n, np.int32), np.zeros(n, block.square.dtype)
            block.indexed = n + 1
            block.set_pointers()
    if block.single:
        sort_by_feature(&block.rows, &block.index, <float*> block.index.values)
    else:
        sort_by_feature(&block.rows, &block.index, <double*> block.index.values)
    return 0


cdef void sort_by_feature(Rows* rows, Index* index, real* values) noexcept nogil:
    # heads[k + 2] counts the non-zeros of feature k; then heads[k + 1] is where they start, and finally where they end.
    cdef Py_ssize_t i, e, k
    cdef int32_t* heads = index.heads
    memset(heads, 0, (rows.d + 2) * sizeof(int32_t))
    for e in range(rows.starts[0], rows.starts[rows.n]):
        heads[<Py_ssize_t> rows.features[e] + 2] += 1
    for k in range(rows.d):
        heads[k + 2] += heads[k + 1]
    for i in range(rows.n):
        for e in range(rows.starts[i], rows.starts[i + 1]):
            k = heads[<Py_ssize_t> rows.features[e] + 1]
            index.rows[k], values[k] = <int32_t> i, (<real*> rows.values)[e]
            heads[<Py_ssize_t> rows.features[e] + 1] += 1


cdef void later_values(Block block, Kind kind, Py_ssize_t i, real* out) noexcept nogil:
    """Write k(row i, row j) for all later rows j of the block to `out`."""
    cdef Rows* rows = &block.rows
    cdef Py_ssize_t j, n = rows.n
    cdef real* among
    if kind != CALLABLE:
        between(&block.kernel.form, kind, rows, i, i + 1, n, out, <real*> block._spread)
        return
    among = <real*> block._among
    for j in range(i + 1, n):
        out[j - i - 1] = among[i * block.room + j]
    finish(&block.kernel.form, kind, out, (<real*> rows.square)[i], rows.own[i], <real*> rows.square + i + 1,
           rows.own + i + 1, n - i - 1)
