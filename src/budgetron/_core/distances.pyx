# cython: cdivision=True
"""Squared distances, computed once for RBF kernels of several widths.

Learners that see the same rows have many supports in common. The rows of a batch are compared once with each support of
any learner, and with each row of the batch that becomes a support. The result is a table with one row per row of the
batch, and one column per support, followed by one column per row of the batch. Each learner reads the table on its own:
`places` gives the column for each of its slots, and the exponential with its width turns distances into kernel values.

The table exists while the batch is learned. It is made only if it saves time: rows must have several dozens of
features, because shorter products are faster than reading the table; the learners must share enough supports, because
these are copied into one matrix; and the batch must not be short.
"""

import numpy as np

from budgetron._core.kernel cimport Kernel
from budgetron._core.kernel_values cimport (
    LINEAR, RBF, RBF_BY_DIFFERENCES, Kind, Rows, between, over_columns, real, tile_bytes,
)
from budgetron._core.rows cimport Block, BatchRows, address
from budgetron._core.supports cimport Supports

cdef extern from "simd.h" nogil:
    void bt_decay_d(double*, double, ptrdiff_t)
    void bt_decay_f(float*, float, ptrdiff_t)
    void bt_decay_at_d(const double*, const int32_t*, double, ptrdiff_t, double*)
    void bt_decay_at_f(const float*, const int32_t*, float, ptrdiff_t, float*)
    void bt_distances_d(double*, double, const double*, ptrdiff_t)
    void bt_distances_f(float*, float, const float*, ptrdiff_t)

# Costs, in multiplications of a matrix product: to copy a number; to write a distance to the table and read it; to make
# a table at all; to subtract a number and square the difference.
cdef double COPY = 25.0, READ = 12.0, MAKE = 2e6, DIFFERENCE = 8.0

# The kernel of the block: only raw values are used.
PLAIN = Kernel("linear")


cdef class Distances:
    """A table of distances, as one learner reads it. Made by `shared`."""

    def check(self, Supports supports, Py_ssize_t n):
        """Raise an error unless this was made for this slab, with its present capacity, and for n rows."""
        if supports is not self.supports or supports.capacity != len(self.places) or n != self.block.rows.n:
            raise ValueError("these distances are of other rows, or for another learner")

    def keep(self, slots):
        """Update the places after the slab moved the rows in these slots to its first slots."""
        self.places[:len(slots)] = self.places[slots]

    cdef void values_of(self, Py_ssize_t start, Py_ssize_t n, Py_ssize_t top, void* out, Py_ssize_t ld) noexcept nogil:
        """Write k(row start + i, slot j) to out[i, j] for n rows of the batch and all slots up to `top`."""
        if self.block.single:
            read(self, start, n, top, <float*> out, ld)
        else:
            read(self, start, n, top, <double*> out, ld)

    cdef void store(self, Py_ssize_t slot, Py_ssize_t row, Py_ssize_t n, void* out) noexcept nogil:
        """Update the places after the slab stored a row of the batch in this slot; write its values with the next n rows to `out`."""
        self._places[slot] = <int32_t> (self.kept + row)
        if self.block.single:
            later_values(self, row, n, <float*> out)
        else:
            later_values(self, row, n, <double*> out)


cdef void read(Distances self, Py_ssize_t start, Py_ssize_t n, Py_ssize_t top, real* out, Py_ssize_t ld) noexcept nogil:
    cdef Py_ssize_t i
    cdef double gamma = self.supports.kernel.form.gamma
    cdef real* row = <real*> self._table + start * self.ld
    for i in range(n):
        if real is double:
            bt_decay_at_d(row + i * self.ld, self._places, gamma, top, out + i * ld)
        else:
            bt_decay_at_f(row + i * self.ld, self._places, <float> gamma, top, out + i * ld)


cdef void later_values(Distances self, Py_ssize_t row, Py_ssize_t n, real* out) noexcept nogil:
    cdef Rows* rows = &self.block.rows
    cdef Py_ssize_t i
    # The column of this row, which other learners and later blocks read too
    cdef real* column = <real*> self._table + row * self.ld + self.kept + row
    if not self._compared[row]:
        self._compared[row] = True
        # First into the row of the table, where nothing right of the diagonal is read
        between(&self.block.kernel.form, RBF_BY_DIFFERENCES if self.by_differences else LINEAR, rows, row, row + 1, rows.n,
                column + 1, <real*> self.block._spread)
        if not self.by_differences:
            from_products(column + 1, (<real*> rows.square)[row], <real*> rows.square + row + 1, rows.n - row - 1)
        for i in range(1, rows.n - row):
            column[i * self.ld] = column[i]
    for i in range(n):
        out[i] = column[(i + 1) * self.ld]
    if real is double:
        bt_decay_d(out, self.supports.kernel.form.gamma, n)
    else:
        bt_decay_f(out, <float> self.supports.kernel.form.gamma, n)


cdef void from_products(real* products, real square, real* squares, Py_ssize_t n) noexcept nogil:
    """Turn inner products of a row with others into squared distances."""
    if real is double:
        bt_distances_d(products, square, squares, n)
    else:
        bt_distances_f(products, square, squares, n)


def shared(X, list slabs, births, double room=float("inf")):
    """Return, for each slab, the distances of its supports to the rows of X, or None if sharing does not save time.

    Parameters
    ----------
    X : ndarray of shape (n, d), in the slabs' dtype
    slabs : list of Supports
        With RBF kernels, over dense rows.
    births : sequence of int
        For each slab, the number of rows of the stream before its learner's first. It identifies rows that are the
        same.
    room : float
        Largest number of bytes of a table and of the rows that are copied for it.
    """
    cdef Supports slab, first
    cdef Block block
    cdef BatchRows batch
    found, members = [None] * len(slabs), {RBF: [], RBF_BY_DIFFERENCES: []}
    if len(slabs) < 2 or len(X) < 2:
        return found
    first = slabs[0]
    block, batch = Block(PLAIN, first.d, first.square.dtype, len(X), False), BatchRows(X, first.square.dtype)
    batch.open(block, 0, len(X))
    for i, slab in enumerate(slabs):
        if slab.sparse or slab.kernel.form.kind != RBF:
            raise ValueError("slabs that share distances must have RBF kernels and dense rows")
        if slab.d != batch.d or slab.single != block.single:
            raise ValueError("slabs that share distances must have rows of the same width and type")
        members[slab.kind_with(block)].append(i)
    for kind, group in members.items():
        if len(group) > 1:
            tables = share_between([slabs[i] for i in group], [births[i] for i in group], block, batch, kind, room)
            for i, table in zip(group, tables):
                found[i] = table
    return found


cdef list share_between(list slabs, list births, Block block, BatchRows batch, Kind kind, double room):
    """Return the distances for slabs that compute them in the same way, or Nones if sharing does not save time."""
    cdef Distances distances
    cdef Py_ssize_t n = block.rows.n, kept
    slots = [slab.order[:slab.m] for slab in slabs]
    names = np.concatenate([slab.rounds[own] + birth for slab, own, birth in zip(slabs, slots, births)])
    names, first, columns = np.unique(names, return_index=True, return_inverse=True)
    kept = len(names)
    each = DIFFERENCE if kind == RBF_BY_DIFFERENCES else 1.0
    if (len(columns) - kept) * each * n * block.d < COPY * kept * block.d + READ * (len(columns) + kept) * n + MAKE:
        return [None] * len(slabs)
    if ((kept + n) * n + kept * block.d) * <double> block.itemsize > room:
        return [None] * len(slabs)
    ends = np.cumsum([slab.m for slab in slabs])
    table, compared = np.empty((n, kept + n), slabs[0].square.dtype), np.zeros(n, np.int8)
    owners, places = np.searchsorted(ends, first, side="right"), np.concatenate(slots)[first].astype(np.intp)
    if block.single:
        fill[float](table, block, kind, slabs, owners, places)
    else:
        fill[double](table, block, kind, slabs, owners, places)
    tables = []
    for slab, own, end in zip(slabs, slots, ends):
        distances = Distances.__new__(Distances)
        distances.supports, distances.table, distances.compared = slab, table, compared
        distances.places = np.zeros(slab.capacity, np.int32)
        distances.places[own] = columns[end - slab.m:end]
        distances.block, distances.batch, distances.by_differences = block, batch, kind == RBF_BY_DIFFERENCES
        distances.kept, distances.ld = kept, kept + n
        distances._table, distances._places = address(table), <int32_t*> address(distances.places)
        distances._compared = <char*> address(compared)
        tables.append(distances)
    return tables


cdef int fill(real[:, ::1] table, Block block, Kind kind, list slabs, Py_ssize_t[::1] owners, Py_ssize_t[::1] slots) except -1:
    """Fill the table: compare the block with the rows in these slots of these slabs."""
    cdef Supports slab
    cdef Rows* rows = &block.rows
    cdef Py_ssize_t i, k, n = rows.n, d = rows.d, kept = len(slots)
    cdef real[:, ::1] columns = np.empty((d, kept), slabs[0].square.dtype)
    cdef real[::1] squares = np.empty(kept, slabs[0].square.dtype)
    cdef size_t[::1] sources = np.empty(kept, np.uintp)
    cdef Py_ssize_t[::1] strides = np.empty(kept, np.intp)
    cdef double[::1] own = np.zeros(kept)
    cdef char[::1] tile = np.empty(tile_bytes(d) + 64 if rows.sparse else 64, np.int8)
    for i in range(kept):
        slab = slabs[owners[i]]
        sources[i], strides[i] = <size_t> (<real*> slab._columns + slots[i]), slab.stride
        squares[i] = (<real*> slab._square)[slots[i]]
    with nogil:
        for k in range(d):
            for i in range(kept):
                columns[k, i] = (<real*> sources[i])[k * strides[i]]
        over_columns(&block.kernel.form, kind if kind == RBF_BY_DIFFERENCES else LINEAR, rows, &columns[0, 0], kept,
                     &squares[0], &own[0], 0, kept, &table[0, 0], table.shape[1],
                     <void*> ((<size_t> &tile[0] + 63) // 64 * 64))
        if kind == RBF:
            for i in range(n):
                from_products(&table[i, 0], (<real*> rows.square)[i], &squares[0], kept)
    return 0
