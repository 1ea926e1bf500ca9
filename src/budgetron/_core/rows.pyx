# cython: cdivision=True
"""A block of rows to learn or predict: as a matrix, as non-zeros, or both.

Rows come in either form. Which form is multiplied is chosen for each block. If at most one number in `FEWEST` is not
zero, products over the non-zeros are faster than a matrix product. They are also faster for rows of few features, for
which BLAS has no good loops.
"""

from libc.string cimport memcpy, memset

cimport numpy as cnp

import numpy as np
from scipy.sparse import issparse

from budgetron._core.kernel cimport call
from budgetron._core.kernel_values cimport CALLABLE, between, finish, self_values, squares

from budgetron._util.sparse import check_sparse

cdef extern from "Python.h" nogil:
    void* PyMem_RawCalloc(size_t, size_t)
    void PyMem_RawFree(void*)

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
    x.has_canonical_format = False  # the cached flag may be out of date
    x.sum_duplicates()
    return np.ascontiguousarray(x.coords[x.ndim - 1], np.int32), x.data


cdef void* allocate(Py_ssize_t bytes) except NULL nogil:
    """Return this many bytes, all 0; `PyMem_RawFree` returns them to the system."""
    cdef void* fresh = PyMem_RawCalloc(1, max(bytes, 1))
    if fresh == NULL:
        with gil:
            raise MemoryError(f"cannot allocate {bytes:,} bytes")
    return fresh


cdef class Block:
    """Room for `room` rows of `d` features.

    `wide` is True if supports are stored as non-zeros, so that the non-zeros of the rows are always needed. `predicts`
    is True if no row will become a support.

    Every model keeps two blocks of one row. Their memory is not in NumPy arrays, because the object of an array would
    be larger than the row.
    """

    def __init__(self, Kernel kernel, Py_ssize_t d, dtype, Py_ssize_t room, bint wide, bint predicts=False):
        cdef Py_ssize_t i, k
        self.kernel, self.d, self.room, self.wide, self.predicts = kernel, d, room, wide, predicts
        self.single = np.dtype(dtype) == np.float32
        self.itemsize = sizeof(float) if self.single else sizeof(double)
        self.rows.d = d
        self.renew(<void**> &self.rows.square, 0, room * self.itemsize)
        self.renew(<void**> &self.rows.own, 0, room * sizeof(double))
        if kernel.function is not None and not predicts:
            self.renew(&self._among, 0, room * room * self.itemsize)
        if not wide:  # otherwise with the first row: a damaged file may ask for more features than fit into memory
            self.ensure_spread()
        if d <= FEW_FEATURES and not wide:
            self.renew(<void**> &self._every_start, 0, (room + 1) * sizeof(int64_t))
            self.renew(<void**> &self._every_feature, 0, room * d * sizeof(int32_t))
            for i in range(room + 1):
                self._every_start[i] = i * d
            for i in range(room):
                for k in range(d):
                    self._every_feature[i * d + k] = <int32_t> k

    def __dealloc__(self):
        PyMem_RawFree(self.rows.square)
        PyMem_RawFree(self.rows.own)
        PyMem_RawFree(self._dense)
        PyMem_RawFree(self._starts)
        PyMem_RawFree(self._features)
        PyMem_RawFree(self._values)
        PyMem_RawFree(self._every_start)
        PyMem_RawFree(self._every_feature)
        PyMem_RawFree(self._spread)
        PyMem_RawFree(self._among)
        PyMem_RawFree(self.index.heads)
        PyMem_RawFree(self.index.rows)
        PyMem_RawFree(self.index.values)

    cdef int renew(self, void** place, Py_ssize_t before, Py_ssize_t bytes) except -1 nogil:
        """Let a pointer refer to new memory, all 0, in place of what it has."""
        cdef void* fresh = allocate(bytes)
        PyMem_RawFree(place[0])
        place[0] = fresh
        self.nbytes += bytes - before
        return 0

    def set_nonzeros(self, features, values):
        """Store the non-zeros of one row."""
        cdef Py_ssize_t n = len(values)
        cdef cnp.ndarray places = np.ascontiguousarray(features, np.int32)
        cdef cnp.ndarray numbers = np.ascontiguousarray(values, np.float32 if self.single else np.float64)
        if cnp.PyArray_SIZE(places) != n or cnp.PyArray_SIZE(numbers) != n:
            raise ValueError("a sparse row must have one feature per value")
        if self.entries < n or self._starts == NULL:
            self.make_room(max(n, 3 * self.entries // 2))
        memcpy(self._features, places.data, n * sizeof(int32_t))
        memcpy(self._values, numbers.data, n * self.itemsize)
        self._starts[0], self._starts[1] = 0, n

    cdef int make_matrix(self) except -1 nogil:
        """Make room for the rows as a matrix."""
        return self.renew(&self._dense, 0, self.room * self.d * self.itemsize)

    cdef int ensure_spread(self) except -1 nogil:
        """Allocate the row of zeros that products over non-zeros need."""
        if self._spread != NULL:
            return 0
        return self.renew(&self._spread, 0, self.d * self.itemsize)

    cdef int make_room(self, Py_ssize_t entries) except -1 nogil:
        """Make room for this many non-zeros."""
        if self._starts == NULL:
            self.renew(<void**> &self._starts, 0, (self.room + 1) * sizeof(int64_t))
        if self.entries < entries or self._features == NULL:
            self.renew(<void**> &self._features, self.entries * sizeof(int32_t), entries * sizeof(int32_t))
            self.renew(&self._values, self.entries * self.itemsize, entries * self.itemsize)
            self.entries = entries
        return 0


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
    if block._dense == NULL:
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
    if block.index.heads == NULL:
        block.renew(<void**> &block.index.heads, 0, (block.d + 2) * sizeof(int32_t))
    if block.indexed < n or block.index.rows == NULL:
        block.renew(<void**> &block.index.rows, block.indexed * sizeof(int32_t), n * sizeof(int32_t))
        block.renew(&block.index.values, block.indexed * block.itemsize, n * block.itemsize)
        block.indexed = n
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
