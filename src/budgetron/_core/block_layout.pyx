# cython: cdivision=True
"""How the supports of one key are stored in a block of memory, and how they get there and back.

A block has the supports from the oldest to the newest, in the smallest size class that they fit into. A stamp has the
round of a support in its upper 48 bits and its slot in the lower 16: sums over the supports run in the order of their
slots. Without a budget no support is ever removed, and slots are positions. At most one slot below `top` is free.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from budgetron._core.kernel_values cimport LAPLACIAN, RBF, real

cdef extern from "Python.h" nogil:
    void* PyMem_RawRealloc(void*, size_t)
    void PyMem_RawFree(void*)

# Stamps have room for this many rounds and slots.
MOST_ROUNDS, MOST_BUDGET = (1 << 47) - 1, (1 << 16) - 2


def capacities_for(Py_ssize_t budget):
    """Return the numbers of supports of the size classes, for a budget or, if it is 0, without a limit.

    Above EXACT supports each class is an eighth larger than the last.
    """
    cdef Py_ssize_t most = budget if budget else 1LL << 40, size = 0
    sizes = []
    while size < most:
        size = min(most, size + 1 if size < EXACT else size + size // 8)
        sizes.append(size)
    return sizes


cdef class BlockLayout:
    """The layout of the blocks of a fleet whose learners have such a slab and such a rule."""

    def __cinit__(self, Supports supports, Rule rule):
        cdef Py_ssize_t c
        self.d, self.budget = supports.d, rule.budget
        self.itemsize = sizeof(float) if supports.single else sizeof(double)
        self.keeps_tail = rule.keeps_tail
        self.keeps_own = supports.kernel.form.kind not in (RBF, LAPLACIAN)  # of these kernels it is 1
        sizes = capacities_for(self.budget)
        self.classes = len(sizes)
        self.capacities = <Py_ssize_t*> PyMem_RawRealloc(NULL, self.classes * sizeof(Py_ssize_t))
        if self.capacities == NULL:
            raise MemoryError("cannot allocate the tables of a fleet")
        for c in range(self.classes):
            self.capacities[c] = sizes[c]
        self.block_bytes = [(8 + size * self.support_bytes + 7) // 8 * 8 for size in sizes]

    def __dealloc__(self):
        PyMem_RawFree(self.capacities)

    @property
    def support_bytes(self):
        """Bytes of one support."""
        return 8 * (2 + self.keeps_tail + self.keeps_own) + self.itemsize * (1 + self.d)

    cdef Py_ssize_t search(self, Py_ssize_t m) noexcept nogil:
        """Return the smallest size class for m supports, m > EXACT."""
        cdef Py_ssize_t low = EXACT, high = self.classes - 1, middle
        while low < high:
            middle = (low + high) // 2
            if self.capacities[middle] < m:
                low = middle + 1
            else:
                high = middle
        return low

    cdef void unpack(self, Parts* parts, double free_square, Supports supports, Rule rule) noexcept nogil:
        """Copy the supports of a block into their slots. Their number, and the highest slot, are set already.

        `free_square` is left in the free slot below it.
        """
        if supports.single:
            unpack_supports(self, parts, free_square, supports, rule, <float*> parts.rows)
        else:
            unpack_supports(self, parts, free_square, supports, rule, <double*> parts.rows)

    cdef void pack(self, Parts* old, Parts* new, bint compact, Supports supports, Rule rule) noexcept nogil:
        """Store supports in a block. All but the one that the rule has just added are in the old block.

        Both blocks may be the same. With `compact`, slots are numbered again, so that none below the top is free.
        """
        if supports.single:
            pack_supports(self, old, new, compact, supports, rule, <float*> supports._columns)
        else:
            pack_supports(self, old, new, compact, supports, rule, <double*> supports._columns)

    cdef void read(self, Parts* parts, Py_ssize_t m, Parts* arrays, Py_ssize_t first) noexcept nogil:
        """Copy the supports of a block into arrays of the supports of many keys, from place `first` on.

        There, a stamp is two numbers: the round and the slot.
        """
        cdef Py_ssize_t p, width = self.d * self.itemsize
        cdef int64_t* stamps = <int64_t*> arrays.stamps + 2 * first
        memcpy(arrays.coef + first, parts.coef, 8 * m)
        if self.keeps_tail:
            memcpy(arrays.tail + first, parts.tail, 8 * m)
        if self.keeps_own:
            memcpy(arrays.own + first, parts.own, 8 * m)
        for p in range(m):
            stamps[2 * p] = <int64_t> (parts.stamps[p] >> 16)
            stamps[2 * p + 1] = <int64_t> (parts.stamps[p] & 0xFFFF) if self.budget else p
        memcpy(arrays.square + first * self.itemsize, parts.square, m * self.itemsize)
        memcpy(arrays.rows + first * width, parts.rows, m * width)

    cdef void write(self, Parts* parts, Py_ssize_t m, Parts* arrays, Py_ssize_t first) noexcept nogil:
        """Copy supports from such arrays into a block."""
        cdef Py_ssize_t p, width = self.d * self.itemsize
        cdef int64_t* stamps = <int64_t*> arrays.stamps + 2 * first
        memcpy(parts.coef, arrays.coef + first, 8 * m)
        if self.keeps_tail:
            memcpy(parts.tail, arrays.tail + first, 8 * m)
        if self.keeps_own:
            memcpy(parts.own, arrays.own + first, 8 * m)
        for p in range(m):
            parts.stamps[p] = stamp(stamps[2 * p], stamps[2 * p + 1] if self.budget else 0)
        memcpy(parts.square, arrays.square + first * self.itemsize, m * self.itemsize)
        memcpy(parts.rows, arrays.rows + first * width, m * width)


cdef inline uint64_t stamp(int64_t round_number, Py_ssize_t slot) noexcept nogil:
    return (<uint64_t> round_number << 16) | <uint64_t> slot


cdef void unpack_supports(BlockLayout self, Parts* parts, double free_square, Supports supports, Rule rule,
                          real* row) noexcept nogil:
    cdef Py_ssize_t p, k, slot, d = self.d, stride = supports.stride, m = supports.m, free
    cdef bint keeps_tail = self.keeps_tail, keeps_own = self.keeps_own, numbered = self.budget > 0
    cdef real* columns = <real*> supports._columns
    cdef real* column
    free = supports.top * (supports.top - 1) // 2
    for p in range(m):
        slot = <Py_ssize_t> (parts.stamps[p] & 0xFFFF) if numbered else p
        free -= slot
        supports._order[p] = <int> slot
        supports._rounds[slot] = <int64_t> (parts.stamps[p] >> 16)
        rule._coef[slot] = parts.coef[p]
        if keeps_tail:
            rule._tail[slot] = parts.tail[p]
        if keeps_own:
            supports._own[slot] = parts.own[p]
        (<real*> supports._square)[slot] = (<real*> parts.square)[p]
        column = columns + slot
        for k in range(d):
            column[k * stride] = row[k]
        row += d
    if supports.top > m:  # its row is arbitrary, but must not overflow with the square that is left there
        supports._order[m] = <int> free
        rule._coef[free] = 0.0
        if keeps_tail:
            rule._tail[free] = 0.0
        if keeps_own:
            supports._own[free] = 0.0
        (<real*> supports._square)[free] = <real> free_square
        for k in range(d):
            columns[k * stride + free] = 0
    elif m < supports.capacity:
        supports._order[m] = <int> m


cdef void pack_supports(BlockLayout self, Parts* old, Parts* new, bint compact, Supports supports, Rule rule,
                        real* columns) noexcept nogil:
    cdef Py_ssize_t p, q = 0, k, slot, d = self.d
    cdef real* rows = <real*> new.rows
    cdef real* before = <real*> old.rows
    for p in range(supports.m):
        slot = supports._order[p]
        new.coef[p] = rule._coef[slot]
        if self.keeps_tail:
            new.tail[p] = rule._tail[slot]
        if self.keeps_own:
            new.own[p] = supports._own[slot]
        (<real*> new.square)[p] = (<real*> supports._square)[slot]
        if slot == rule.added:
            for k in range(d):
                rows[p * d + k] = columns[k * supports.stride + slot]
        else:  # the rows of the others are in the old block, in the same order
            while (<Py_ssize_t> (old.stamps[q] & 0xFFFF) if self.budget else q) != slot:
                q += 1
            if before + q * d != rows + p * d:
                memcpy(rows + p * d, before + q * d, d * sizeof(real))
            q += 1
        new.stamps[p] = stamp(supports._rounds[slot], (p if compact else slot) if self.budget else 0)
