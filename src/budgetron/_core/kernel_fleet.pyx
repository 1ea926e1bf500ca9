# cython: cdivision=True
"""Many kernel learners of one kind: the state of each is packed into a block of memory.

A row is played by loading the state of its key into one ordinary learner, playing the round there, and packing the
state again if it has changed. So every key learns exactly as a learner of its own would, with the same operations in the
same order. Loading copies the supports of one key. It takes less time than their kernel values.

A block has the supports from the oldest to the newest, in the smallest size class that they fit into. A stamp has the
round of a support in its upper 48 bits and its slot in the lower 16: sums over the supports run in the order of their
slots. Without a budget no support is ever removed, and slots are positions. At most one slot below `top` is free.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from budgetron._core.kernel_values cimport LAPLACIAN, RBF, real
from budgetron._core.one_round cimport finish_round, margin_of
from budgetron._core.pcg cimport connect, read_state, write_state
from budgetron._core.rows cimport open_dense, open_sparse
from budgetron._core.rule cimport PHI

cdef extern from "Python.h" nogil:
    void* PyMem_RawRealloc(void*, size_t)
    void PyMem_RawFree(void*)

cdef extern from "prefetch.h" nogil:
    void bt_prefetch(const void*)

# Rows between the one that is played and the ones whose records and whose blocks are prefetched
cdef Py_ssize_t RECORDS_AHEAD = 16, BLOCKS_AHEAD = 6

# Up to EXACT supports there is a size class for each number of them; then each class is an eighth larger than the last.
cdef Py_ssize_t EXACT = 64, WORDS = 3

# Bytes of a page of blocks; of a large fleet, whose blocks take at least LARGE_STORE bytes, LARGE_PAGE
cdef Py_ssize_t PAGE = 1 << 13, LARGE_PAGE = 1 << 16, LARGE_STORE = 1 << 23

# Stamps have room for this many rounds and slots.
MOST_ROUNDS, MOST_BUDGET = (1 << 47) - 1, (1 << 16) - 2


def capacities_for(Py_ssize_t budget):
    """Return the numbers of supports of the size classes, for a budget or, if it is 0, without a limit."""
    cdef Py_ssize_t most = budget if budget else 1LL << 40, size = 0
    sizes = []
    while size < most:
        size = min(most, size + 1 if size < EXACT else size + size // 8)
        sizes.append(size)
    return sizes


cdef class KernelFleet:
    """The states of many learners.

    Parameters
    ----------
    learner : Learner
        A learner before its first round. The fleet uses it as its own.
    idle : int
        A key is forgotten if it had none of the last `idle` rows of the fleet; 0 for never.
    page : int
        Bytes of a page of blocks.
    """

    def __cinit__(self, Learner learner, int64_t idle=0, Py_ssize_t page=PAGE, *args):
        cdef Py_ssize_t c
        self.learner, self.idle = learner, idle
        self.connect_parts()
        self.d, self.budget = self.supports.d, self.rule.budget
        self.itemsize = sizeof(float) if self.supports.single else sizeof(double)
        self.keeps_tail = self.rule.keeps_tail
        self.keeps_own = self.supports.kernel.form.kind not in (RBF, LAPLACIAN)
        self.draws, self.shrinks = self.rule.generator is not None, "phi" in self.rule.ledger
        sizes = capacities_for(self.budget)
        self.classes = len(sizes)
        self.capacities = <Py_ssize_t*> PyMem_RawRealloc(NULL, self.classes * sizeof(Py_ssize_t))
        if self.capacities == NULL:
            raise MemoryError("cannot allocate the tables of a fleet")
        for c in range(self.classes):
            self.capacities[c] = sizes[c]
        self.block_bytes = [(8 + size * self.support_bytes + 7) // 8 * 8 for size in sizes]
        self.page = page
        self.store = BlockStore(self.block_bytes, page)
        if self.draws:
            read_state(&self.first_pcg, self.rule.generator)
            self.pcg = self.first_pcg
            connect(&self.bits, &self.pcg)
            self.rule.bits = &self.bits
        self.loaded, self.next_scan = -1, 1024

    def __dealloc__(self):
        PyMem_RawFree(self.records)
        PyMem_RawFree(self.capacities)
        PyMem_RawFree(self.words)

    def connect_parts(self):
        """Use the parts of the learner, which are other ones after it has grown."""
        self.rule, self.supports, self.single = self.learner.rule, self.learner.supports, self.learner.single_round
        self.supports.own[:] = 1.0  # packed for kernels only whose self values may differ from 1
        self.loaded = -1

    @property
    def support_bytes(self):
        """Bytes of one support."""
        return 8 * (2 + self.keeps_tail + self.keeps_own) + self.itemsize * (1 + self.d)

    @property
    def record_bytes(self):
        """Bytes of each key besides its supports."""
        return sizeof(Record) + (8 * WORDS if self.draws else 0)

    @property
    def nbytes(self):
        """Bytes that the fleet keeps."""
        return self.room * self.record_bytes + self.store.held + 8 * self.classes + self.learner.nbytes

    def resize(self, Py_ssize_t n):
        """Have n keys: new ones, which have learned nothing, are added at the end. There must be at least as many."""
        cdef Py_ssize_t room, i
        cdef void* fresh
        if n > self.room:
            room = n + n // 16 + 16
            fresh = PyMem_RawRealloc(self.records, room * sizeof(Record))
            if fresh == NULL:
                raise MemoryError(f"cannot allocate {room * sizeof(Record):,} bytes for keys")
            self.records = <Record*> fresh
            if self.draws:
                fresh = PyMem_RawRealloc(self.words, room * WORDS * 8)
                if fresh == NULL:
                    raise MemoryError(f"cannot allocate {room * WORDS * 8:,} bytes for keys")
                self.words = <uint64_t*> fresh
            self.room = room
        for i in range(self.n, n):
            self.start(i)
        self.n = n

    def enlarge_pages(self):
        """Use larger pages, of which a smaller part is unused, if the fleet has grown."""
        if self.page < LARGE_PAGE and self.store.held > LARGE_STORE:
            self.page = LARGE_PAGE
            store = BlockStore(self.block_bytes, self.page)
            store.copy_blocks(self.store)
            self.store = store

    def remove(self, Py_ssize_t number):
        """Remove a key. The last key gets its number."""
        cdef Py_ssize_t last = self.n - 1
        self.reset(number)
        self.loaded = -1
        if number != last:
            self.records[number] = self.records[last]
            if self.draws:
                memcpy(self.words + number * WORDS, self.words + last * WORDS, WORDS * 8)
            if self.records[number].m:
                (<uint32_t*> self.block_of(number))[0] = <uint32_t> number
        self.n = last

    def truncate(self, Py_ssize_t n):
        """Remove all keys from number n on."""
        while self.n > n:
            self.remove(self.n - 1)

    def play(self, int64_t[::1] numbers, BatchRows rows, double[::1] labels, double[::1] margins,
             double[::1] offsets=None, int64_t[::1] sizes=None):
        """Play one round per row, with the learner of its key. `offsets` are added to the margins.

        `sizes` are filled with the numbers of supports before each round. All arguments must have been checked: numbers of keys, rows, and labels of -1 or +1.
        """
        cdef Py_ssize_t i, n = rows.n
        cdef double offset = 0.0
        with nogil:
            for i in range(n):
                if i + RECORDS_AHEAD < n:
                    bt_prefetch(self.records + numbers[i + RECORDS_AHEAD])
                    self.prefetch(numbers[i + BLOCKS_AHEAD])
                if self.idle and self.records[numbers[i]].last + self.idle < self.rows:
                    self.reset(numbers[i])
                if offsets is not None:
                    offset = offsets[i]
                if sizes is not None:
                    sizes[i] = self.records[numbers[i]].m
                margins[i] = self.margin(numbers[i], rows, i) + offset
                self.learn(numbers[i], labels[i], offset)

    def decide(self, int64_t[::1] numbers, BatchRows rows, double[::1] margins, double[::1] offsets=None):
        """Write the margin of each row. A key with the number -1 has the margin 0."""
        cdef Py_ssize_t i, n = rows.n
        with nogil:
            for i in range(n):
                margins[i] = 0.0
                if i + BLOCKS_AHEAD < n and numbers[i + BLOCKS_AHEAD] >= 0:
                    self.prefetch(numbers[i + BLOCKS_AHEAD])
                if numbers[i] >= 0 and not (self.idle and self.records[numbers[i]].last + self.idle < self.rows):
                    margins[i] = self.margin(numbers[i], rows, i)
                if offsets is not None:
                    margins[i] += offsets[i]

    def idle_keys(self):
        """Return the numbers of the keys that are to be forgotten, in descending order."""
        cdef Py_ssize_t i
        return [i for i in range(self.n - 1, -1, -1) if self.is_idle(i)]

    def is_idle(self, Py_ssize_t number):
        """Return whether a key is to be forgotten, or has been."""
        cdef Record* record = self.records + number
        return self.idle > 0 and (record.rounds == 0 or record.last + self.idle < self.rows)

    def copy_to(self, Py_ssize_t number, Learner learner):
        """Give another learner of the same kind, before its first round, the state of a key."""
        cdef Py_ssize_t j
        cdef Supports supports = learner.supports
        if self.budget == 0 and self.records[number].m >= supports.capacity:
            learner.reserve(self.records[number].m + 1)
        self.unpack(number, supports, learner.rule)
        for j in range(supports.m + 1, supports.capacity):
            supports._order[j] = <int> j
        if not self.keeps_own:
            supports.own[:supports.top] = 1.0
        if self.draws:
            self.set_words(number)
            write_state(&self.pcg, learner.rule.generator)
            self.loaded = -1

    def set_words(self, Py_ssize_t number):
        """Load the state of a key's generator."""
        self.pcg.high, self.pcg.low = self.words[number * WORDS], self.words[number * WORDS + 1]
        self.pcg.spare = <uint32_t> self.words[number * WORDS + 2]
        self.pcg.has_spare = <uint32_t> (self.words[number * WORDS + 2] >> 32)

    def counts(self, int64_t[::1] numbers):
        """Return rounds, mistakes, last row and supports of these keys as an array of int64 with four columns."""
        cdef Py_ssize_t i
        cdef Record* record
        cdef int64_t[:, ::1] out = np.empty((numbers.shape[0], 4), np.int64)
        for i in range(numbers.shape[0]):
            record = self.records + numbers[i]
            out[i, 0], out[i, 1] = record.rounds, record.mistakes
            out[i, 2], out[i, 3] = record.last, record.m
        return np.asarray(out)

    def guarantees(self, int64_t[::1] numbers):
        """Return the damage by removals and the sum of the shrinking of these keys, as an array with two columns."""
        cdef Py_ssize_t i
        cdef double[:, ::1] out = np.empty((numbers.shape[0], 2))
        for i in range(numbers.shape[0]):
            out[i, 0], out[i, 1] = self.records[numbers[i]].damage, self.records[numbers[i]].shrinking
        return np.asarray(out)

    # ------------------------------------------------------------------ state

    def state(self, int64_t[::1] numbers):
        """Return the states of these keys as arrays: one row per key, and one per support of all keys in turn."""
        cdef Py_ssize_t i, p, total = 0, n = numbers.shape[0], k
        cdef Record* record
        cdef Parts parts
        for i in range(n):
            total += self.records[numbers[i]].m
        dtype = self.supports.square.dtype
        counts, sizes = np.empty((n, 3), np.int64), np.empty((n, 3), np.int64)
        values, words = np.empty((n, 6)), np.empty((n, WORDS if self.draws else 0), np.uint64)
        coef, tail = np.empty(total), np.empty(total if self.keeps_tail else 0)
        own, stamps = np.empty(total if self.keeps_own else 0), np.empty((total, 2), np.int64)
        square, rows = np.empty(total, dtype), np.empty((total, self.d), dtype)
        cdef int64_t[:, ::1] count = counts, size = sizes, stamp = stamps
        cdef double[:, ::1] value = values
        cdef uint64_t[:, ::1] word = words
        cdef double[::1] coefs = coef, tails = tail, owns = own
        cdef char[::1] squares = square.view(np.int8), features = rows.reshape(-1).view(np.int8)
        cdef Py_ssize_t width = self.d * self.itemsize
        total = 0
        for i in range(n):
            record = self.records + numbers[i]
            count[i, 0], count[i, 1], count[i, 2] = record.rounds, record.mistakes, record.last
            size[i, 0], size[i, 1], size[i, 2] = record.m, record.top, record.block
            value[i, 0], value[i, 1], value[i, 2] = record.factor, record.norm2, record.peak
            value[i, 3], value[i, 4], value[i, 5] = record.damage, record.shrinking, record.free_square
            for k in range(WORDS if self.draws else 0):
                word[i, k] = self.words[numbers[i] * WORDS + k]
            if record.m == 0:
                continue
            parts = self.parts_of(self.block_of(numbers[i]), self.capacities[self.class_of(record.m)])
            for p in range(record.m):
                coefs[total + p] = parts.coef[p]
                if self.keeps_tail:
                    tails[total + p] = parts.tail[p]
                if self.keeps_own:
                    owns[total + p] = parts.own[p]
                stamp[total + p, 0] = <int64_t> (parts.stamps[p] >> 16)
                stamp[total + p, 1] = <int64_t> (parts.stamps[p] & 0xFFFF) if self.budget else p
            memcpy(&squares[total * self.itemsize], parts.square, record.m * self.itemsize)
            memcpy(&features[total * width], parts.rows, record.m * width)
            total += record.m
        return {"counts": counts, "sizes": sizes, "values": values, "words": words, "coef": coef, "tail": tail,
                "own": own, "stamps": stamps, "square": square, "rows": rows}

    def append(self, dict state):
        """Add keys with these states at the end. The state must have been checked.

        Blocks get their numbers in the order that they had: a fleet with a limit of memory samples by number.
        """
        cdef Py_ssize_t i, j, p, k, block, total, first = self.n, n = len(state["counts"])
        cdef int64_t[:, ::1] count = state["counts"], size = state["sizes"], stamp = state["stamps"]
        cdef int64_t[::1] order = np.argsort(state["sizes"][:, 2], kind="stable")
        cdef int64_t[::1] starts = np.cumsum(state["sizes"][:, 0]) - state["sizes"][:, 0]
        cdef double[:, ::1] value = state["values"]
        cdef uint64_t[:, ::1] word = state["words"]
        cdef double[::1] coefs = state["coef"], tails = state["tail"], owns = state["own"]
        cdef char[::1] squares = state["square"].view(np.int8), features = state["rows"].reshape(-1).view(np.int8)
        cdef Py_ssize_t width = self.d * self.itemsize
        cdef Record* record
        cdef Parts parts
        self.resize(first + n)
        for j in range(n):
            i = order[j]
            total = starts[i]
            record = self.records + first + i
            record.rounds, record.mistakes, record.last = count[i, 0], count[i, 1], count[i, 2]
            record.factor, record.norm2, record.peak = value[i, 0], value[i, 1], value[i, 2]
            record.damage, record.shrinking, record.free_square = value[i, 3], value[i, 4], value[i, 5]
            for k in range(WORDS if self.draws else 0):
                self.words[(first + i) * WORDS + k] = word[i, k]
            if size[i, 0] == 0:
                continue
            block = self.store.take(self.class_of(size[i, 0]), <uint32_t> (first + i))
            record.block, record.m, record.top = <uint32_t> block, <uint32_t> size[i, 0], <uint32_t> size[i, 1]
            parts = self.parts_of(self.block_of(first + i), self.capacities[self.class_of(record.m)])
            for p in range(record.m):
                parts.coef[p] = coefs[total + p]
                if self.keeps_tail:
                    parts.tail[p] = tails[total + p]
                if self.keeps_own:
                    parts.own[p] = owns[total + p]
                parts.stamps[p] = (<uint64_t> stamp[total + p, 0] << 16) | (
                    <uint64_t> stamp[total + p, 1] if self.budget else 0)
            memcpy(parts.square, &squares[total * self.itemsize], record.m * self.itemsize)
            memcpy(parts.rows, &features[total * width], record.m * width)

    # ------------------------------------------------------------------ blocks

    cdef Py_ssize_t class_of(self, Py_ssize_t m) noexcept nogil:
        """Return the smallest size class for m supports, m > 0."""
        cdef Py_ssize_t low = EXACT, high = self.classes - 1, middle
        if m <= EXACT:
            return m - 1
        while low < high:
            middle = (low + high) // 2
            if self.capacities[middle] < m:
                low = middle + 1
            else:
                high = middle
        return low

    cdef char* block_of(self, Py_ssize_t number) noexcept nogil:
        """Return the block of a key, which has supports."""
        return self.store.block(self.class_of(self.records[number].m), self.records[number].block)

    cdef Parts parts_of(self, char* block, Py_ssize_t capacity) noexcept nogil:
        cdef Parts parts
        parts.coef = <double*> (block + 8)
        parts.tail = parts.coef + capacity
        parts.own = parts.tail + (capacity if self.keeps_tail else 0)
        parts.stamps = <uint64_t*> (parts.own + (capacity if self.keeps_own else 0))
        parts.square = <char*> (parts.stamps + capacity)
        parts.rows = parts.square + capacity * self.itemsize
        return parts

    cdef void prefetch(self, Py_ssize_t number) noexcept nogil:
        cdef Py_ssize_t i, c
        cdef char* block
        if self.records[number].m:
            c = self.class_of(self.records[number].m)
            block = self.store.block(c, self.records[number].block)
            for i in range(0, self.store.sizes[c], 64):
                bt_prefetch(block + i)

    cdef void start(self, Py_ssize_t number) noexcept nogil:
        """Let a key be as before its first round."""
        memset(self.records + number, 0, sizeof(Record))
        self.records[number].factor = 1.0
        self.records[number].last = self.rows
        if self.draws:
            self.words[number * WORDS], self.words[number * WORDS + 1] = self.first_pcg.high, self.first_pcg.low
            self.words[number * WORDS + 2] = self.first_pcg.spare | (<uint64_t> self.first_pcg.has_spare << 32)

    cdef int reset(self, Py_ssize_t number) except -1 nogil:
        """Forget what a key has learned."""
        cdef Record* record = self.records + number
        if record.rounds:
            self.expired += 1
            self.forget_statistics(number)
        if record.m:
            self.release(self.class_of(record.m), record.block)
        if self.loaded == number:
            self.loaded = -1
        self.start(number)
        return 0

    cdef void release(self, Py_ssize_t size_class, Py_ssize_t block) noexcept nogil:
        """Give a block back, and correct the record of the key whose block is moved there."""
        cdef Py_ssize_t owner = self.store.give_back(size_class, block)
        if owner >= 0:
            self.records[owner].block = <uint32_t> block

    cdef int load(self, Py_ssize_t number) except -1 nogil:
        """Load the state of a key into the learner."""
        cdef Py_ssize_t m = self.records[number].m
        if self.budget == 0 and m + 1 > self.supports.capacity:
            with gil:
                self.learner.reserve(m + 1 + m // 2)
                self.connect_parts()
        if self.loaded == number:
            return 0
        self.unpack(number, self.supports, self.rule)
        if self.draws:
            self.pcg.high, self.pcg.low = self.words[number * WORDS], self.words[number * WORDS + 1]
            self.pcg.spare = <uint32_t> self.words[number * WORDS + 2]
            self.pcg.has_spare = <uint32_t> (self.words[number * WORDS + 2] >> 32)
        self.loaded = number
        return 0

    cdef void unpack(self, Py_ssize_t number, Supports supports, Rule rule) noexcept nogil:
        cdef Record* record = self.records + number
        cdef Parts parts
        supports.m, supports.top = record.m, record.top
        rule.factor, rule.norm2, rule.peak, rule.damage_sum = record.factor, record.norm2, record.peak, record.damage
        rule.rounds, rule.mistakes = record.rounds, record.mistakes
        if record.m:
            parts = self.parts_of(self.block_of(number), self.capacities[self.class_of(record.m)])
            if supports.single:
                unpack_supports(self, record, &parts, supports, rule, <float*> parts.rows)
            else:
                unpack_supports(self, record, &parts, supports, rule, <double*> parts.rows)
        elif supports.capacity:
            supports._order[0] = 0

    cdef int pack(self, Py_ssize_t number, bint compact) except -1 nogil:
        """Store the supports and coefficients of the learner as the state of a key.

        With `compact`, slots are numbered again, so that none below the top is free.
        """
        cdef Record* record = self.records + number
        cdef Py_ssize_t m = self.supports.m, old_m = record.m, new_class = -1, old_class = -1, block = 0
        cdef Parts old, new
        memset(&old, 0, sizeof(Parts))
        memset(&new, 0, sizeof(Parts))
        if old_m:
            old_class = self.class_of(old_m)
        if m:
            new_class = self.class_of(m)
            block = record.block if new_class == old_class else self.store.take(new_class, <uint32_t> number)
            new = self.parts_of(self.store.block(new_class, block), self.capacities[new_class])
        if old_m:
            old = self.parts_of(self.store.block(old_class, record.block), self.capacities[old_class])
        if self.supports.single:
            pack_supports(self, self.supports, &old, &new, compact, <float*> self.supports._columns)
        else:
            pack_supports(self, self.supports, &old, &new, compact, <double*> self.supports._columns)
        record.m, record.top = <uint32_t> m, <uint32_t> (m if compact else self.supports.top)
        record.free_square = 0.0
        if record.top > m:
            if self.supports.single:
                record.free_square = (<float*> self.supports._square)[self.supports._order[m]]
            else:
                record.free_square = (<double*> self.supports._square)[self.supports._order[m]]
        if new_class != old_class:
            if old_m:
                self.release(old_class, record.block)
            record.block = <uint32_t> block
        record.factor, record.norm2, record.peak = self.rule.factor, self.rule.norm2, self.rule.peak
        record.damage = self.rule.damage_sum
        if self.draws:
            self.words[number * WORDS], self.words[number * WORDS + 1] = self.pcg.high, self.pcg.low
            self.words[number * WORDS + 2] = self.pcg.spare | (<uint64_t> self.pcg.has_spare << 32)
        if compact:
            self.loaded = -1
        elif self.supports.top == m and m < self.supports.capacity:
            self.supports._order[m] = <int> m  # the slot that the next support gets
        return 0

    # ------------------------------------------------------------------ rounds

    cdef int open_row(self, BatchRows rows, Py_ssize_t i) except -1 nogil:
        """Copy a row into the block of single rounds."""
        cdef Py_ssize_t n, start
        if not rows.sparse:
            memcpy(self.single.block._dense, <char*> rows.values + i * self.d * self.itemsize, self.d * self.itemsize)
            if self.supports.single:
                return open_dense(self.single.block, <float*> self.single.block._dense, 1)
            return open_dense(self.single.block, <double*> self.single.block._dense, 1)
        start, n = rows.starts[i], rows.starts[i + 1] - rows.starts[i]
        self.single.block.make_room(max(n, 1))
        self.single.block._starts[0], self.single.block._starts[1] = 0, n
        memcpy(self.single.block._features, rows.features + start, n * sizeof(int))
        memcpy(self.single.block._values, <char*> rows.values + start * self.itemsize, n * self.itemsize)
        if self.supports.single:
            return open_sparse(self.single.block, self.single.block._starts, self.single.block._features,
                               <float*> self.single.block._values, 1)
        return open_sparse(self.single.block, self.single.block._starts, self.single.block._features,
                           <double*> self.single.block._values, 1)

    cdef double margin(self, Py_ssize_t number, BatchRows rows, Py_ssize_t i) except? -1 nogil:
        """Return f(x) of a key for row i, and leave both open."""
        self.load(number)
        self.open_row(rows, i)
        if self.supports.single:
            self.rule.margin = margin_of(self.single, self.rule, <float*> self.single.values)
        else:
            self.rule.margin = margin_of(self.single, self.rule, <double*> self.single.values)
        return self.rule.margin

    cdef int learn(self, Py_ssize_t number, double label, double offset) except -1 nogil:
        """Finish the round of the open row, whose key is loaded."""
        cdef Record* record = self.records + number
        cdef double phi
        self.observe(number, label, offset)
        self.rule.importance, self.rule.offset = 1.0, offset
        self.rule.margin += offset
        if self.supports.single:
            finish_round(self.rule, label, self.single.wide, &self.single.block.rows, 0, <float*> self.single.values)
        else:
            finish_round(self.rule, label, <double*> self.single.values, &self.single.block.rows, 0,
                         <double*> self.single.values)
        record.rounds, record.mistakes, record.last = self.rule.rounds, self.rule.mistakes, self.rows
        self.rows += 1
        if self.rule.added >= 0:
            self.pack(number, False)
            if self.shrinks:
                phi = self.rule.entry[<int> PHI]
                record.shrinking += (1.0 - phi) / (1.0 + phi)
        self.limit_memory(number)
        if self.idle and self.rows >= self.next_scan:
            self.scan()
        return 0

    cdef int scan(self) except -1 nogil:
        """Forget what idle keys have learned. This happens after the same rows, whatever the batches are."""
        cdef Py_ssize_t i, seen = 0
        for i in range(self.n):
            if self.records[i].rounds and self.records[i].last + self.idle < self.rows:
                self.reset(i)
            seen += self.records[i].rounds > 0
        self.next_scan = self.rows + max(1024, seen // 4)
        return 0

    cdef int observe(self, Py_ssize_t number, double label, double offset) except -1 nogil:
        """See a row before it is learned."""
        return 0

    cdef int limit_memory(self, Py_ssize_t number) except -1 nogil:
        """Remove supports if there are too many, after a round of a key."""
        return 0

    cdef void forget_statistics(self, Py_ssize_t number) noexcept nogil:
        """Forget what is known about a key besides its learner."""


cdef void unpack_supports(KernelFleet self, Record* record, Parts* parts, Supports supports, Rule rule,
                          real* rows) noexcept nogil:
    cdef Py_ssize_t p, k, slot, d = self.d, stride = supports.stride, free, m = record.m
    cdef real* columns = <real*> supports._columns
    cdef real* row = rows
    free = <Py_ssize_t> record.top * (<Py_ssize_t> record.top - 1) // 2
    for p in range(m):
        slot = <Py_ssize_t> (parts.stamps[p] & 0xFFFF) if self.budget else p
        free -= slot
        supports._order[p] = <int> slot
        supports._rounds[slot] = <int64_t> (parts.stamps[p] >> 16)
        rule._coef[slot] = parts.coef[p]
        if self.keeps_tail:
            rule._tail[slot] = parts.tail[p]
        if self.keeps_own:
            supports._own[slot] = parts.own[p]
        (<real*> supports._square)[slot] = (<real*> parts.square)[p]
        for k in range(d):
            columns[k * stride + slot] = row[k]
        row += d
    if record.top > m:  # its row is arbitrary, but must not overflow with the square that is left there
        supports._order[m] = <int> free
        rule._coef[free] = 0.0
        if self.keeps_tail:
            rule._tail[free] = 0.0
        if self.keeps_own:
            supports._own[free] = 0.0
        (<real*> supports._square)[free] = <real> record.free_square
        for k in range(d):
            columns[k * stride + free] = 0
    elif m < supports.capacity:
        supports._order[m] = <int> m


cdef void pack_supports(KernelFleet self, Supports supports, Parts* old, Parts* new, bint compact,
                        real* columns) noexcept nogil:
    cdef Py_ssize_t p, q = 0, k, slot, d = self.d
    cdef real* rows = <real*> new.rows
    cdef real* before = <real*> old.rows
    for p in range(supports.m):
        slot = supports._order[p]
        new.coef[p] = self.rule._coef[slot]
        if self.keeps_tail:
            new.tail[p] = self.rule._tail[slot]
        if self.keeps_own:
            new.own[p] = supports._own[slot]
        (<real*> new.square)[p] = (<real*> supports._square)[slot]
        if slot == self.rule.added:
            for k in range(d):
                rows[p * d + k] = columns[k * supports.stride + slot]
        else:  # the rows of the others are in the old block, in the same order
            while (<Py_ssize_t> (old.stamps[q] & 0xFFFF) if self.budget else q) != slot:
                q += 1
            if before + q * d != rows + p * d:
                memcpy(rows + p * d, before + q * d, d * sizeof(real))
            q += 1
        new.stamps[p] = (<uint64_t> supports._rounds[slot] << 16) | (
            (<uint64_t> (p if compact else slot)) if self.budget else 0)
