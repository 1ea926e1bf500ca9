# cython: cdivision=True
"""Many kernel learners of one kind: the state of each is packed into a block of memory.

A row is played by loading the state of its key into one ordinary learner, playing the round there, and packing the
state again if it has changed. So every key learns exactly as a learner of its own would, with the same operations in the
same order. Loading copies the supports of one key. It takes less time than their kernel values.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from budgetron._core.fleet_states cimport resized
from budgetron._core.one_round cimport finish_round, margin_of
from budgetron._core.pcg cimport connect, read_state, write_state
from budgetron._core.rows cimport address, open_dense, open_sparse
from budgetron._core.rule cimport PHI

cdef extern from "Python.h" nogil:
    void PyMem_RawFree(void*)

cdef extern from "prefetch.h" nogil:
    void bt_prefetch(const void*)

# Numbers that the generator of a key changes
cdef Py_ssize_t WORDS = 3

# Bytes of a page of blocks; of a large fleet, whose blocks take at least LARGE_STORE bytes, LARGE_PAGE
cdef Py_ssize_t PAGE = 1 << 13, LARGE_PAGE = 1 << 16, LARGE_STORE = 1 << 23


cdef class KernelFleet(FleetStates):
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
        self.learner, self.idle, self.record_size = learner, idle, sizeof(Record)
        self.connect_parts()
        self.layout = BlockLayout(self.supports, self.rule)
        self.d, self.itemsize, self.budget = self.layout.d, self.layout.itemsize, self.layout.budget
        self.draws, self.shrinks = self.rule.generator is not None, "phi" in self.rule.ledger
        self.page = page
        self.store = BlockStore(self.layout.block_bytes, page)
        if self.draws:
            read_state(&self.first_pcg, self.rule.generator)
            self.pcg = self.first_pcg
            connect(&self.bits, &self.pcg)
            self.rule.bits = &self.bits

    def __dealloc__(self):
        PyMem_RawFree(self.words)

    def connect_parts(self):
        """Use the parts of the learner, which are other ones after it has grown."""
        self.rule, self.supports, self.single = self.learner.rule, self.learner.supports, self.learner.single_round
        self.supports.own[:] = 1.0  # packed for kernels only whose self values may differ from 1
        self.loaded = -1

    @property
    def support_bytes(self):
        """Bytes of one support."""
        return self.layout.support_bytes

    @property
    def record_bytes(self):
        """Bytes of each key besides its supports."""
        return sizeof(Record) + (8 * WORDS if self.draws else 0)

    @property
    def nbytes(self):
        """Bytes that the fleet keeps."""
        return self.room * self.record_bytes + self.store.held + 8 * self.layout.classes + self.learner.nbytes

    def enlarge_pages(self):
        """Use larger pages, of which a smaller part is unused, if the fleet has grown."""
        if self.page < LARGE_PAGE and self.store.held > LARGE_STORE:
            self.page = LARGE_PAGE
            store = BlockStore(self.layout.block_bytes, self.page)
            store.copy_blocks(self.store)
            self.store = store

    def copy_to(self, Py_ssize_t number, Learner learner):
        """Give another learner of the same kind, before its first round, the state of a key."""
        cdef Py_ssize_t j
        cdef Pcg pcg
        cdef Supports supports = learner.supports
        if self.budget == 0 and self.record(number).m >= supports.capacity:
            learner.reserve(self.record(number).m + 1)
        self.unpack(number, supports, learner.rule)
        for j in range(supports.m + 1, supports.capacity):
            supports._order[j] = <int> j
        if not self.layout.keeps_own:
            supports.own[:supports.top] = 1.0
        if self.draws:
            pcg = self.first_pcg
            self.load_words(number, &pcg)  # not into the generator of the fleet: other threads may read it now
            write_state(&pcg, learner.rule.generator)

    def guarantees(self, int64_t[::1] numbers):
        """Return the damage by removals and the sum of the shrinking of these keys, as an array with two columns."""
        cdef Py_ssize_t i
        cdef double[:, ::1] out = np.empty((numbers.shape[0], 2))
        for i in range(numbers.shape[0]):
            out[i, 0], out[i, 1] = self.record(numbers[i]).damage, self.record(numbers[i]).shrinking
        return np.asarray(out)

    # ------------------------------------------------------------------ state

    def state(self, int64_t[::1] numbers):
        """Return the states of these keys as arrays: one row per key, and one per support of all keys in turn."""
        cdef Py_ssize_t i, total = 0, n = numbers.shape[0]
        cdef Record* record
        cdef Parts parts, arrays
        for i in range(n):
            total += self.record(numbers[i]).m
        dtype = self.supports.square.dtype
        state = {
            "counts": np.empty((n, 3), np.int64), "sizes": np.empty((n, 3), np.int64), "values": np.empty((n, 6)),
            "words": np.empty((n, WORDS if self.draws else 0), np.uint64), "coef": np.empty(total),
            "tail": np.empty(total if self.layout.keeps_tail else 0),
            "own": np.empty(total if self.layout.keeps_own else 0), "stamps": np.empty((total, 2), np.int64),
            "square": np.empty(total, dtype), "rows": np.empty((total, self.d), dtype),
        }
        cdef int64_t[:, ::1] count = state["counts"], size = state["sizes"]
        cdef double[:, ::1] value = state["values"]
        cdef uint64_t* words = <uint64_t*> address(state["words"])
        arrays, total = parts_in(state), 0
        for i in range(n):
            record = self.record(numbers[i])
            count[i, 0], count[i, 1], count[i, 2] = record.key.rounds, record.key.mistakes, record.key.last
            size[i, 0], size[i, 1], size[i, 2] = record.m, record.top, record.block
            value[i, 0], value[i, 1], value[i, 2] = record.key.factor, record.key.norm2, record.key.peak
            value[i, 3], value[i, 4], value[i, 5] = record.damage, record.shrinking, record.free_square
            if self.draws:
                memcpy(words + i * WORDS, self.words + numbers[i] * WORDS, 8 * WORDS)
            if record.m:
                parts = self.layout.parts_of(self.block_of(numbers[i]), self.layout.class_of(record.m))
                self.layout.read(&parts, record.m, &arrays, total)
                total += record.m
        return state

    def append(self, dict state):
        """Add keys with these states at the end. The state must have been checked.

        Blocks get their numbers in the order that they had: a fleet with a limit of memory samples by number.
        """
        cdef Py_ssize_t i, c, first = self.n, n = len(state["counts"])
        cdef int64_t[:, ::1] count = state["counts"], size = state["sizes"]
        cdef int64_t[::1] order = np.argsort(state["sizes"][:, 2], kind="stable")
        cdef int64_t[::1] starts = np.cumsum(state["sizes"][:, 0]) - state["sizes"][:, 0]
        cdef double[:, ::1] value = state["values"]
        cdef uint64_t* words = <uint64_t*> address(state["words"])
        cdef Record* record
        cdef Parts parts, arrays = parts_in(state)
        self.resize(first + n)
        for i in order:
            record = self.record(first + i)
            record.key.rounds, record.key.mistakes, record.key.last = count[i, 0], count[i, 1], count[i, 2]
            record.key.factor, record.key.norm2, record.key.peak = value[i, 0], value[i, 1], value[i, 2]
            record.damage, record.shrinking, record.free_square = value[i, 3], value[i, 4], value[i, 5]
            if self.draws:
                memcpy(self.words + (first + i) * WORDS, words + i * WORDS, 8 * WORDS)
            if size[i, 0]:
                c = self.layout.class_of(size[i, 0])
                record.block = <uint32_t> self.store.take(c, <uint32_t> (first + i))
                record.m, record.top = <uint32_t> size[i, 0], <uint32_t> size[i, 1]
                parts = self.layout.parts_of(self.block_of(first + i), c)
                self.layout.write(&parts, record.m, &arrays, starts[i])

    def is_safe(self, double square):
        """Return whether rows of at most this squared norm cannot make a kernel value or a step of any key overflow."""
        return not self.rule.divides and self.supports.kernel.is_safe(square, self.d, self.supports.single)

    def save_before(self, numbers):
        """Keep the states of all keys, so that `restore` can return to them."""
        self.backup = self.state(np.arange(self.n))

    def restore(self):
        """Return to the states of the last `save_before`."""
        self.truncate(0)
        self.append(self.backup)

    def drop_backup(self):
        """Free the memory of the last `save_before`."""
        self.backup = None

    # ------------------------------------------------------------------ keys

    cdef int make_room(self, Py_ssize_t room) except -1:
        if self.draws:
            self.words = <uint64_t*> resized(self.words, room * WORDS * 8)
        return 0

    cdef void move(self, Py_ssize_t number, Py_ssize_t to) noexcept nogil:
        if self.draws:
            memcpy(self.words + to * WORDS, self.words + number * WORDS, WORDS * 8)
        if self.record(to).m:
            (<uint32_t*> self.block_of(to))[0] = <uint32_t> to
        self.loaded = -1

    cdef void start(self, Py_ssize_t number) noexcept nogil:
        FleetStates.start(self, number)
        if self.draws:
            self.store_words(number, &self.first_pcg)

    cdef int reset(self, Py_ssize_t number) except -1 nogil:
        cdef Record* record = self.record(number)
        if record.key.rounds:
            self.forget_statistics(number)
        if record.m:
            self.release(self.layout.class_of(record.m), record.block)
        if self.loaded == number:
            self.loaded = -1
        return FleetStates.reset(self, number)

    cdef Py_ssize_t size_of(self, Py_ssize_t number) noexcept nogil:
        return self.record(number).m

    cdef void prefetch(self, Py_ssize_t number) noexcept nogil:
        cdef Py_ssize_t i, c
        cdef char* block
        if self.record(number).m:
            c = self.layout.class_of(self.record(number).m)
            block = self.store.block(c, self.record(number).block)
            for i in range(0, self.store.sizes[c], 64):
                bt_prefetch(block + i)

    cdef void release(self, Py_ssize_t size_class, Py_ssize_t block) noexcept nogil:
        """Give a block back, and correct the record of the key whose block is moved there."""
        cdef Py_ssize_t owner = self.store.give_back(size_class, block)
        if owner >= 0:
            self.record(owner).block = <uint32_t> block

    cdef void load_words(self, Py_ssize_t number, Pcg* pcg) noexcept nogil:
        """Load the state of a key's generator."""
        cdef uint64_t* words = self.words + number * WORDS
        pcg.high, pcg.low = words[0], words[1]
        pcg.spare, pcg.has_spare = <uint32_t> words[2], <uint32_t> (words[2] >> 32)

    cdef void store_words(self, Py_ssize_t number, Pcg* pcg) noexcept nogil:
        """Store the state of a key's generator."""
        cdef uint64_t* words = self.words + number * WORDS
        words[0], words[1] = pcg.high, pcg.low
        words[2] = pcg.spare | (<uint64_t> pcg.has_spare << 32)

    cdef int load(self, Py_ssize_t number) except -1 nogil:
        """Load the state of a key into the learner."""
        cdef Py_ssize_t m = self.record(number).m
        if self.budget == 0 and m + 1 > self.supports.capacity:
            with gil:
                self.learner.reserve(m + 1 + m // 2)
                self.connect_parts()
        if self.loaded == number:
            return 0
        self.unpack(number, self.supports, self.rule)
        if self.draws:
            self.load_words(number, &self.pcg)
        self.loaded = number
        return 0

    cdef void unpack(self, Py_ssize_t number, Supports supports, Rule rule) noexcept nogil:
        """Copy the state of a key into a slab and a rule."""
        cdef Record* record = self.record(number)
        cdef Parts parts
        supports.m, supports.top = record.m, record.top
        rule.factor, rule.norm2, rule.peak = record.key.factor, record.key.norm2, record.key.peak
        rule.damage_sum = record.damage
        rule.rounds, rule.mistakes = record.key.rounds, record.key.mistakes
        if record.m:
            parts = self.layout.parts_of(self.block_of(number), self.layout.class_of(record.m))
            self.layout.unpack(&parts, record.free_square, supports, rule)
        elif supports.capacity:
            supports._order[0] = 0

    cdef int pack(self, Py_ssize_t number, bint compact) except -1 nogil:
        """Store the supports and coefficients of the learner as the state of a key.

        With `compact`, slots are numbered again, so that none below the top is free.
        """
        cdef Record* record = self.record(number)
        cdef Py_ssize_t m = self.supports.m, old_m = record.m, new_class = -1, old_class = -1, block = 0
        cdef Parts old, new
        memset(&old, 0, sizeof(Parts))
        memset(&new, 0, sizeof(Parts))
        if old_m:
            old_class = self.layout.class_of(old_m)
        if m:
            new_class = self.layout.class_of(m)
            block = record.block if new_class == old_class else self.store.take(new_class, <uint32_t> number)
            new = self.layout.parts_of(self.store.block(new_class, block), new_class)
        if old_m:
            old = self.layout.parts_of(self.store.block(old_class, record.block), old_class)
        self.layout.pack(&old, &new, compact, self.supports, self.rule)
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
        record.key.factor, record.key.norm2, record.key.peak = self.rule.factor, self.rule.norm2, self.rule.peak
        record.damage = self.rule.damage_sum
        if self.draws:
            self.store_words(number, &self.pcg)
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
        self.load(number)
        self.open_row(rows, i)
        if self.supports.single:
            self.rule.margin = margin_of(self.single, self.rule, <float*> self.single.values)
        else:
            self.rule.margin = margin_of(self.single, self.rule, <double*> self.single.values)
        return self.rule.margin

    cdef int learn(self, Py_ssize_t number, BatchRows rows, Py_ssize_t i, double label, double offset,
                   double importance) except -1 nogil:
        cdef Record* record = self.record(number)
        cdef double phi
        self.observe(number, label, offset)
        self.rule.importance, self.rule.offset = importance, offset
        self.rule.margin += offset
        if self.supports.single:
            finish_round(self.rule, label, self.single.wide, &self.single.block.rows, 0, <float*> self.single.values)
        else:
            finish_round(self.rule, label, <double*> self.single.values, &self.single.block.rows, 0,
                         <double*> self.single.values)
        record.key.rounds, record.key.mistakes, record.key.last = self.rule.rounds, self.rule.mistakes, self.rows
        if self.rule.added >= 0:
            self.pack(number, False)
            if self.shrinks:
                phi = self.rule.entry[<int> PHI]
                record.shrinking += (1.0 - phi) / (1.0 + phi)
        return 0

    cdef int observe(self, Py_ssize_t number, double label, double offset) except -1 nogil:
        """See a row before it is learned."""
        return 0

    cdef void forget_statistics(self, Py_ssize_t number) noexcept nogil:
        """Forget what is known about a key besides its learner."""


cdef Parts parts_in(dict state):
    """Return where the arrays of the supports of a state are."""
    cdef Parts parts
    parts.coef, parts.tail = <double*> address(state["coef"]), <double*> address(state["tail"])
    parts.own, parts.stamps = <double*> address(state["own"]), <uint64_t*> address(state["stamps"])
    parts.square, parts.rows = <char*> address(state["square"]), <char*> address(state["rows"])
    return parts
