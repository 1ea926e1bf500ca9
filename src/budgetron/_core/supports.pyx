# cython: cdivision=True
"""The slab: a number of slots, each with one stored row.

A support stays in its slot, so that a column of kernel values belongs to the same support in all rounds. Ages
are stored separately: `order` is a permutation of all slots. Its first m entries are the supports from oldest to
newest, and the others are free slots. The slab has rows and the kernel between them, but no labels and no
coefficients.

Rows are stored feature by feature (`columns`): a block of dense rows is compared with them by one matrix product, and a
sparse row by one step per non-zero. A slab for sparse rows of very many features stores only non-zeros, so that
its memory is proportional to their number.
"""

from libc.stdlib cimport free, malloc
from libc.math cimport fabs
from libc.string cimport memcpy, memmove, memset

import numpy as np
from scipy.sparse import csr_array

from budgetron._core.kernel cimport call
from budgetron._core.comparison cimport Comparison, compare
from budgetron._core.kernel_values cimport CALLABLE, finish, is_product, kind_for, real, self_values, squares, tile_bytes
from budgetron._core.rows cimport address, allocate, find_nonzeros, make_dense, make_index

from budgetron._core.pages import zeros

cdef extern from "Python.h" nogil:
    void PyMem_RawFree(void*)

# Fewest rows and supports for which threads are used: with few supports, longer blocks cost more than threads save.
cdef Py_ssize_t SHARED_ROWS = 64, SHARED_SLOTS = 256
# Numbers in a cache line; fewest and most supports in one task.
cdef Py_ssize_t LINE = 16, SHORTEST_CHUNK = 64, LONGEST_CHUNK = 256
# Threads are used if a row takes at least this many multiplications, so that a block takes a millisecond or more. A
# kernel value takes as long as VALUE multiplications of a matrix product, and a product with a non-zero as long as
# NONZERO.
cdef double WORTH_WAKING = 5.5e4, VALUE = 20.0, NONZERO = 1.6


# Arrays without numbers, for all slabs that need none. Each array of its own would take 100 bytes.
NO_PLACES, NO_INDICES, NO_VALUES = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0)


def writeable(array):
    """Return the array, or a copy if it is read-only or not contiguous: the core writes through pointers."""
    return array if array.flags.carray else np.require(array, requirements=("C", "W"))


cdef Py_ssize_t stride_for(Py_ssize_t capacity, size_t itemsize) noexcept nogil:
    """Return the distance of two features in `columns`: whole cache lines, but no multiple of 4096 bytes.

    Numbers at multiples of 4096 bytes compete for the same few cache lines.
    """
    cdef Py_ssize_t stride = (capacity + LINE - 1) // LINE * LINE
    return stride + LINE if stride > 0 and stride * itemsize % 4096 == 0 else stride


cdef class Supports:
    """Room for `capacity` rows of `d` features in `dtype`; `sparse` stores only non-zeros."""

    def __init__(self, Kernel kernel, Py_ssize_t d, dtype, Py_ssize_t capacity, bint sparse=False):
        self.kernel, self.d, self.capacity, self.sparse = kernel, d, capacity, sparse
        self.single = np.dtype(dtype) == np.float32
        self.square = np.zeros(capacity, dtype)
        self.own = np.zeros(capacity)
        self.rounds = np.zeros(capacity, np.int64)
        self.order = np.arange(capacity, dtype=np.int32)
        self.stride = 0 if sparse else stride_for(capacity, self.square.itemsize)
        self.columns = zeros((0 if sparse else d, self.stride), dtype)
        self.begins, self.lengths, self.features, self.values = NO_PLACES, NO_INDICES, NO_INDICES, NO_VALUES
        if sparse:
            self.begins, self.lengths = np.zeros(capacity, np.int64), np.zeros(capacity, np.int32)
            self.values = np.zeros(0, dtype)
        self.one = Block(kernel, d, dtype, 1, sparse)
        if not sparse:
            self.one.make_matrix()
            self.one.make_room(d + 1)
        self.m = self.top = self.used = 0
        self.set_pointers()

    cdef void set_pointers(self):
        self._columns, self._square, self._own = address(self.columns), address(self.square), <double*> address(self.own)
        self._rounds, self._order = <int64_t*> address(self.rounds), <int32_t*> address(self.order)
        self._begins, self._lengths = <int64_t*> address(self.begins), <int32_t*> address(self.lengths)
        self._features, self._values = <int32_t*> address(self.features), address(self.values)
        self.entries = len(self.features)

    def arrays(self):
        """Return all arrays, by name."""
        names = ("begins", "lengths", "features", "values") if self.sparse else ("columns",)
        return {name: getattr(self, name) for name in (*names, "square", "own", "rounds", "order")}

    @property
    def nbytes(self):
        """Bytes that the slab keeps."""
        return self.one.nbytes + sum(array.nbytes for array in self.arrays().values())

    def __getstate__(self):
        state = {"square": self.square, "own": self.own, "rounds": self.rounds, "order": self.order, "m": self.m,
                 "top": self.top}
        if not self.sparse:
            return {"rows": self.rows(np.arange(self.capacity))} | state
        kept = self.rows(np.arange(self.capacity))
        return {"starts": kept.indptr.astype(np.int64), "features": kept.indices.astype(np.int32),
                "values": kept.data} | state

    def __setstate__(self, state):
        self.square, self.own = map(writeable, (state["square"], state["own"]))
        self.rounds, self.order = map(writeable, (state["rounds"], state["order"]))
        self.m, self.top, self.capacity = state["m"], state["top"], len(state["order"])
        if self.sparse:
            starts = np.asarray(state["starts"])
            self.begins, self.lengths = starts[:self.capacity].copy(), np.diff(starts).astype(np.int32)
            self.features, self.values = map(writeable, (state["features"], state["values"]))
            self.used = len(self.features)
        else:
            self.stride = stride_for(self.capacity, self.square.itemsize)
            self.columns = zeros((self.d, self.stride), self.square.dtype)
            self.columns[:, :self.capacity] = state["rows"].T
        self.set_pointers()

    def __reduce__(self):
        return Supports, (self.kernel, self.d, self.square.dtype, 0, self.sparse), self.__getstate__()

    def state(self):
        """Return the state as arrays and numbers."""
        return self.__getstate__()

    def check(self, int64_t rounds, bint in_order):
        """Raise `ValueError` if the slots contradict each other, or their rows are not of the first `rounds` rounds.

        For a slab whose state comes from outside. The types and lengths of its arrays must have been checked. With
        `in_order`, the rounds of the supports must be in ascending order.
        """
        cdef Py_ssize_t p, slot
        cdef char* seen = <char*> allocate(self.capacity)
        cdef bint right
        try:
            for p in range(self.capacity):
                slot = self._order[p]
                if slot < 0 or slot >= self.capacity or seen[slot]:
                    raise ValueError("the order should name each slot once")
                seen[slot] = 1
        finally:
            PyMem_RawFree(seen)
        for p in range(self.m):
            slot = self._order[p]
            if slot >= self.top:
                raise ValueError("slots of supports should be below the top")
            if self._rounds[slot] < 0 or self._rounds[slot] >= rounds:
                raise ValueError("rounds of supports should be below the number of rounds")
            if in_order and p > 0 and self._rounds[slot] <= self._rounds[self._order[p - 1]]:
                raise ValueError("supports should be in the order of their rounds")
            # Squares and self values follow from the rows; other values would make arbitrarily large steps.
            if self.single:
                right = has_right_lengths(self, slot, <float*> self._columns, (<float*> self._square)[slot], 1e-4)
            else:
                right = has_right_lengths(self, slot, <double*> self._columns, (<double*> self._square)[slot], 1e-9)
            if not right:
                raise ValueError("squares or self values are not those of the rows")

    def add_features(self, Py_ssize_t d):
        """Accept rows of d features from now on; the new features are 0 in all stored rows."""
        cdef Block one = Block(self.kernel, d, self.square.dtype, 1, self.sparse)
        if not self.sparse:
            one.make_matrix()
            one.make_room(d + 1)
            columns = zeros((d, self.stride), self.square.dtype)
            columns[:self.d] = self.columns
            self.columns = columns
        self.one, self.d = one, d
        self.set_pointers()

    def truncate(self, Py_ssize_t m, Py_ssize_t capacity):
        """Keep the supports in the first m slots, with room for `capacity` supports. Dense slabs only."""
        cdef Py_ssize_t kept = min(m, self.m)
        square, own, rounds = (np.zeros(capacity, a.dtype) for a in (self.square, self.own, self.rounds))
        square[:kept], own[:kept], rounds[:kept] = self.square[:kept], self.own[:kept], self.rounds[:kept]
        self.stride = stride_for(capacity, self.square.itemsize)
        columns = zeros((self.d, self.stride), self.square.dtype)
        columns[:, :kept] = self.columns[:, :kept]
        self.square, self.own, self.rounds, self.columns = square, own, rounds, columns
        self.order = np.arange(capacity, dtype=np.int32)
        self.m = self.top = kept
        self.capacity = capacity
        self.set_pointers()

    def rows(self, slots):
        """Return the rows in these slots: an array, or a CSR matrix if only non-zeros are stored."""
        if not self.sparse:
            return np.ascontiguousarray(self.columns[:, slots].T)
        lengths = self.lengths[slots]
        ends = np.cumsum(lengths, dtype=np.int64)
        within = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)
        places = np.repeat(self.begins[slots], lengths) + within
        starts = np.concatenate([np.zeros(1, np.int64), ends])
        return csr_array((self.values[places], self.features[places], starts), shape=(len(slots), self.d))

    def adopt(self, Supports other, slots):
        """Copy rows of another slab of the same kind into new slots at the end."""
        cdef Py_ssize_t n = len(slots), first = self.top
        if first + n > self.capacity:
            self.reserve(max(first + n, self.capacity * 3 // 2))
        if self.sparse:
            rows = other.rows(slots)
            self.reserve_entries(rows.nnz)
            self.features[self.used:self.used + rows.nnz], self.values[self.used:self.used + rows.nnz] = (
                rows.indices, rows.data)
            self.begins[first:first + n] = self.used + rows.indptr[:n]
            self.lengths[first:first + n] = np.diff(rows.indptr)
            self.used += rows.nnz
        else:
            self.columns[:, first:first + n] = other.columns[:, slots]
        self.square[first:first + n], self.own[first:first + n] = other.square[slots], other.own[slots]
        self.m = self.top = first + n

    def reserve(self, Py_ssize_t capacity):
        """Make room for `capacity` slots; those in use keep their place."""
        cdef Py_ssize_t old = self.capacity
        if capacity <= old:
            return
        self.square, self.own, self.rounds = (longer(a, capacity) for a in (self.square, self.own, self.rounds))
        self.order = longer(self.order, capacity)
        self.order[old:] = np.arange(old, capacity)
        if self.sparse:
            self.begins, self.lengths = longer(self.begins, capacity), longer(self.lengths, capacity)
        else:
            self.stride = stride_for(capacity, self.square.itemsize)
            columns, self.columns = self.columns, zeros((self.d, self.stride), self.square.dtype)
            self.columns[:, :old] = columns[:, :old]
        self.capacity = capacity
        self.set_pointers()

    cdef int reserve_entries(self, Py_ssize_t entries) except -1 nogil:
        """Make room for this many more non-zeros, if the slab stores non-zeros."""
        if self.sparse and self.used + entries > self.entries:
            with gil:
                self.gather(entries)
        return 0

    def gather(self, Py_ssize_t entries):
        """Close the gaps of removed supports, and grow by half if that is not enough."""
        kept = self.rows(np.arange(self.capacity))
        self.used = kept.nnz
        room = self.used + entries
        if room > len(self.features) or 3 * room < len(self.features):
            room += room // 2
            self.features, self.values = np.zeros(room, np.int32), np.zeros(room, self.square.dtype)
        self.features[:self.used], self.values[:self.used] = kept.indices, kept.data
        self.begins[:] = kept.indptr[:self.capacity]
        self.set_pointers()

    cdef Py_ssize_t open(self, int64_t round_number) noexcept nogil:
        """Take a free slot for the newest support."""
        cdef Py_ssize_t slot = self._order[self.m]
        self._rounds[slot] = round_number
        self.m += 1
        if slot >= self.top:
            self.top = slot + 1
        return slot

    cdef Py_ssize_t close(self, Py_ssize_t position) noexcept nogil:
        """Free the slot of the support at this position, 0 being the oldest."""
        cdef Py_ssize_t slot = self._order[position]
        self.m -= 1
        memmove(self._order + position, self._order + position + 1, (self.m - position) * sizeof(int32_t))
        self._order[self.m] = <int32_t> slot
        if self.sparse:
            self._lengths[slot] = 0
        return slot

    cdef void store(self, Py_ssize_t slot, Rows* rows, Py_ssize_t i) noexcept nogil:
        """Copy row i into a slot. `reserve_entries` must have made room."""
        if self.single:
            store_row(self, slot, rows, i, <float*> self._columns, <float*> self._values)
            (<float*> self._square)[slot] = (<float*> rows.square)[i]
        else:
            store_row(self, slot, rows, i, <double*> self._columns, <double*> self._values)
            (<double*> self._square)[slot] = (<double*> rows.square)[i]
        self._own[slot] = rows.own[i]

    cdef Py_ssize_t find(self, Rows* rows, Py_ssize_t i) noexcept nogil:
        """Return the slot of a support that equals row i, the oldest if there are several, or -1."""
        cdef Py_ssize_t p, slot
        for p in range(self.m):
            slot = self._order[p]
            if self.single:
                if equals_row(self, slot, rows, i, <float*> self._columns, <float*> self._values, <float*> self._square):
                    return slot
            elif equals_row(self, slot, rows, i, <double*> self._columns, <double*> self._values,
                            <double*> self._square):
                return slot
        return -1

    cdef int copy_from(self, Py_ssize_t slot, Supports other, Py_ssize_t place) except -1:
        """Copy the row in slot `place` of another slab of the same kind into a slot."""
        if self.sparse:
            self.reserve_entries(other._lengths[place])
        other.load_row(place)
        self.store(slot, &other.one.rows, 0)
        return 0

    cdef void move(self, Py_ssize_t slot, Py_ssize_t to) noexcept nogil:
        """Copy the row of one slot into another."""
        cdef Py_ssize_t k
        if self.single:
            (<float*> self._square)[to] = (<float*> self._square)[slot]
            for k in range(0 if self.sparse else self.d):
                (<float*> self._columns)[k * self.stride + to] = (<float*> self._columns)[k * self.stride + slot]
        else:
            (<double*> self._square)[to] = (<double*> self._square)[slot]
            for k in range(0 if self.sparse else self.d):
                (<double*> self._columns)[k * self.stride + to] = (<double*> self._columns)[k * self.stride + slot]
        if self.sparse:
            self._begins[to], self._lengths[to] = self._begins[slot], self._lengths[slot]
        self._own[to] = self._own[slot]

    cdef void cut(self, Py_ssize_t n) noexcept nogil:
        """Keep the first n slots, which are in use, and free the others."""
        cdef Py_ssize_t slot
        if self.sparse:
            for slot in range(n, self.top):
                self._lengths[slot] = 0
        self.m = self.top = n

    def keep(self, slots):
        """Move the rows in these slots, in ascending order, to the first slots; free the others."""
        cdef Py_ssize_t to = 0, slot
        for slot in slots.tolist():
            self.move(slot, to)
            self._rounds[to] = self._rounds[slot]
            to += 1
        self.order[:] = np.arange(self.capacity)
        self.cut(to)

    cdef int load_row(self, Py_ssize_t slot) except -1 nogil:
        """Load the row of this slot into the block `one`."""
        cdef Rows* rows = &self.one.rows
        rows.n = 1
        if self.sparse:
            self.one.ensure_spread()
            self.ends[0], self.ends[1] = self._begins[slot], self._begins[slot] + self._lengths[slot]
            rows.starts, rows.features, rows.values = self.ends, self._features, self._values
            rows.dense, rows.sparse = NULL, True
        else:
            if self.single:
                collect(<float*> self._columns + slot, self.stride, self.d, <float*> self.one._dense)
                find_nonzeros(self.one, <float*> self.one._dense, 1)
            else:
                collect(<double*> self._columns + slot, self.stride, self.d, <double*> self.one._dense)
                find_nonzeros(self.one, <double*> self.one._dense, 1)
        if self.single:
            (<float*> rows.square)[0] = (<float*> self._square)[slot]
        else:
            (<double*> rows.square)[0] = (<double*> self._square)[slot]
        rows.own[0] = self._own[slot]
        return 0

    cdef Kind kind_with(self, Block block) noexcept nogil:
        """Return how values between this block and the slots are computed."""
        if self.single:
            return kind_for(&self.kernel.form, <float*> block.rows.square, block.rows.n, <float*> self._square, self.top)
        return kind_for(&self.kernel.form, <double*> block.rows.square, block.rows.n, <double*> self._square, self.top)

    cdef int values_of(self, Block block, Kind kind, void* out, Py_ssize_t ld, Workers workers) except -1 nogil:
        """Write k(row i, slot j) to out[i, j] for all rows of a block and all slots up to `top`."""
        if self.top == 0 or block.rows.n == 0:
            return 0
        if self.single:
            return fill(self, block, kind, <float*> out, ld, workers)
        return fill(self, block, kind, <double*> out, ld, workers)

    cdef int kernel_row(self, Py_ssize_t slot, double* out) except -1 nogil:
        """Write the kernel values of one support with all slots up to `top` to `out`."""
        cdef Py_ssize_t j
        cdef float* single
        self.load_row(slot)
        if not self.single:
            return self.values_of(self.one, self.kind_with(self.one), out, self.top, None)
        single = <float*> malloc(self.top * sizeof(float))
        if single == NULL:
            with gil:
                raise MemoryError
        try:
            self.values_of(self.one, self.kind_with(self.one), single, self.top, None)
            for j in range(self.top):
                out[j] = single[j]
        finally:
            free(single)
        return 0


cdef longer(array, Py_ssize_t n):
    out = np.zeros(n, array.dtype)
    out[:len(array)] = array
    return out


cdef bint has_right_lengths(Supports self, Py_ssize_t slot, real* columns, real kept, double share) noexcept nogil:
    """Return whether the square and the self value of a slot differ from those of its row by at most this share."""
    cdef Rows rows
    cdef real square
    cdef double own
    memset(&rows, 0, sizeof(Rows))
    rows.n, rows.d = 1, self.d
    if self.sparse:
        self.ends[0], self.ends[1] = self._begins[slot], self._begins[slot] + self._lengths[slot]
        rows.starts, rows.features, rows.values, rows.sparse = self.ends, self._features, self._values, True
    else:
        collect(columns + slot, self.stride, self.d, <real*> self.one._dense)
        rows.dense = self.one._dense
    squares(&rows, &square)
    if not fabs(kept - square) <= share * square:
        return False
    if self.kernel.form.kind == CALLABLE:
        return True
    self_values(&self.kernel.form, &rows, &square, &own)
    return fabs(self._own[slot] - own) <= share * fabs(own)


cdef void collect(real* column, Py_ssize_t stride, Py_ssize_t d, real* out) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(d):
        out[k] = column[k * stride]


cdef void store_row(Supports self, Py_ssize_t slot, Rows* rows, Py_ssize_t i, real* columns, real* values) noexcept nogil:
    cdef Py_ssize_t k, e, n, stride = self.stride
    cdef real* x
    if self.sparse:
        e = rows.starts[i]
        n = rows.starts[i + 1] - e
        memcpy(self._features + self.used, rows.features + e, n * sizeof(int32_t))
        memcpy(values + self.used, <real*> rows.values + e, n * sizeof(real))
        self._begins[slot], self._lengths[slot] = self.used, <int32_t> n
        self.used += n
    elif rows.dense != NULL:
        x = <real*> rows.dense + i * self.d
        for k in range(self.d):
            columns[k * stride + slot] = x[k]
    else:
        for k in range(self.d):
            columns[k * stride + slot] = 0
        for e in range(rows.starts[i], rows.starts[i + 1]):
            columns[rows.features[e] * stride + slot] = (<real*> rows.values)[e]


cdef bint equals_row(Supports self, Py_ssize_t slot, Rows* rows, Py_ssize_t i, real* columns, real* values,
                     real* square) noexcept nogil:
    """Return whether all features of a slot are those of row i."""
    cdef Py_ssize_t k, e, n, stride = self.stride
    cdef real* x
    # Squares of equal rows may differ by rounding, because they may be summed in another order.
    if not fabs(square[slot] - (<real*> rows.square)[i]) <= 1e-3 * square[slot]:
        return False
    if self.sparse:
        e = rows.starts[i]
        n = rows.starts[i + 1] - e
        if n != self._lengths[slot]:
            return False
        for k in range(n):
            if self._features[self._begins[slot] + k] != rows.features[e + k]:
                return False
            if values[self._begins[slot] + k] != (<real*> rows.values)[e + k]:
                return False
        return True
    if rows.dense != NULL:
        x = <real*> rows.dense + i * self.d
        for k in range(self.d):
            if columns[k * stride + slot] != x[k]:
                return False
        return True
    e = rows.starts[i]
    for k in range(self.d):
        if e < rows.starts[i + 1] and rows.features[e] == k:
            if columns[k * stride + slot] != (<real*> rows.values)[e]:
                return False
            e += 1
        elif columns[k * stride + slot] != 0:
            return False
    return True


cdef int fill(Supports self, Block block, Kind kind, real* out, Py_ssize_t ld, Workers workers) except -1 nogil:
    cdef Rows* rows = &block.rows
    cdef Comparison c
    cdef Py_ssize_t i, e
    cdef int threads = 1
    cdef double work
    cdef char* tiles = NULL
    if kind == CALLABLE:
        make_dense(block)
        with gil:
            call(block.kernel, <real*> rows.dense, rows.n, self.d, self.rows(np.arange(self.top)), out, ld)
        for i in range(rows.n):
            finish(&self.kernel.form, kind, out + i * ld, (<real*> rows.square)[i], rows.own[i], <real*> self._square,
                   self._own, self.top)
        return 0
    if not self.sparse and not is_product(kind):
        make_dense(block)
    if workers is not None and workers.limit > 1:
        work = NONZERO * (rows.starts[rows.n] - rows.starts[0]) / rows.n if rows.sparse else <double> self.d
        workers.busy = self.top >= SHARED_SLOTS and self.top * (work + VALUE) > WORTH_WAKING
        if workers.busy and rows.n >= SHARED_ROWS:
            workers.start()
            threads = workers.count
    c.kernel, c.kind, c.rows, c.index, c.spread = &self.kernel.form, kind, rows, &block.index, block._spread
    c.sparse, c.single, c.columns, c.stride = self.sparse, self.single, self._columns, self.stride
    c.begins, c.lengths, c.features, c.values = self._begins, self._lengths, self._features, self._values
    c.square, c.own, c.top, c.ld, c.out = self._square, self._own, self.top, ld, out
    c.tiles, c.tile = NULL, 0
    if self.sparse and is_product(kind):
        if rows.n > 1:
            make_index(block)
        else:
            for e in range(rows.starts[0], rows.starts[1]):
                (<real*> block._spread)[rows.features[e]] = (<real*> rows.values)[e]
    elif not self.sparse and is_product(kind) and rows.sparse and rows.n > 1:
        c.tile = (tile_bytes(self.d) + 63) // 64 * 64
        tiles = <char*> malloc(c.tile * threads + 64)
        if tiles == NULL:
            with gil:
                raise MemoryError
        c.tiles = <char*> ((<size_t> tiles + 63) // 64 * 64)
    # Several chunks per thread, so that no thread waits long for another.
    c.chunk = LONGEST_CHUNK
    if threads > 1:
        c.chunk = max(SHORTEST_CHUNK, min(LONGEST_CHUNK, self.top // (3 * threads) // LINE * LINE + LINE))
    e = (self.top + c.chunk - 1) // c.chunk
    if threads > 1 and e > 1:
        workers.run(compare, &c, e)
    else:
        for i in range(e):
            compare(&c, i, 0)
    if self.sparse and is_product(kind) and rows.n == 1:
        for e in range(rows.starts[0], rows.starts[1]):
            (<real*> block._spread)[rows.features[e]] = 0
    free(tiles)
    return 0
