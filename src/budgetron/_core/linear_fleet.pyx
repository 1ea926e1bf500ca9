# cython: cdivision=True
"""Many linear learners of one kind: the weights of each, and its covariance if it has one, are one block of numbers.

A row is played by loading the weights of its key into one ordinary rule, playing the round there, and storing the state
again if it has changed. So every key learns exactly as a rule of its own would. The covariance is loaded only for a round
that changes it.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

import numpy as np

from budgetron._core.covariance cimport FactoredCovariance, ForgettingCovariance
from budgetron._core.linear cimport LinearRule, finish_round, score_row, set_label
from budgetron._core.rows cimport BatchRows, address

cdef extern from "Python.h" nogil:
    void* PyMem_RawRealloc(void*, size_t)
    void PyMem_RawFree(void*)

cdef extern from "prefetch.h" nogil:
    void bt_prefetch(const void*)

# Rows between the one that is played and the ones whose records and whose numbers are prefetched
cdef Py_ssize_t RECORDS_AHEAD = 16, BLOCKS_AHEAD = 6

# At most this many arrays belong to a rule.
cdef enum:
    MOST_ARRAYS = 4

ctypedef struct Record:
    int64_t rounds, mistakes, updates, last
    double factor, norm2, peak


cdef class LinearFleet:
    """The states of many linear learners.

    Parameters
    ----------
    rule : LinearRule
        A rule before its first round. The fleet uses it as its own.
    idle : int
        A key is forgotten if it had none of the last `idle` rows of the fleet; 0 for never.
    """

    cdef readonly LinearRule learner
    cdef readonly Py_ssize_t n
    cdef Py_ssize_t room
    cdef Record* records
    # Each key has `width` numbers: the arrays of the rule one after the other, and the factor of a covariance
    cdef double* blocks
    cdef double* first
    cdef Py_ssize_t width
    cdef int arrays
    cdef double* places[<int> MOST_ARRAYS]
    cdef Py_ssize_t lengths[<int> MOST_ARRAYS]
    cdef ForgettingCovariance forgetting
    cdef double* wide
    cdef public int64_t rows
    cdef readonly int64_t idle
    cdef public int64_t expired
    cdef public int64_t next_scan
    cdef double largest_norm2  # of all keys so far
    # The states before their first rounds in this batch, to be restored after an error
    cdef object backup_numbers, backup_records, backup_blocks

    def __cinit__(self, LinearRule rule, int64_t idle=0):
        cdef Py_ssize_t i
        self.learner, self.idle, self.next_scan = rule, idle, 1024
        kept = [rule.weights, *rule.extra.values()]
        if isinstance(rule.covariance, ForgettingCovariance):
            self.forgetting = rule.covariance
            kept.append(self.forgetting.reductions)
        elif rule.covariance is not None:
            kept += [(<FactoredCovariance> rule.covariance).columns, (<FactoredCovariance> rule.covariance).variances]
        self.arrays = len(kept)
        self.width = self.forgetting is not None
        for i, array in enumerate(kept):
            self.places[i], self.lengths[i] = <double*> address(array), array.size
            self.width += array.size
        self.wide = <double*> address(rule.wide)
        self.first = <double*> PyMem_RawRealloc(NULL, 8 * self.width)
        if self.first == NULL:
            raise MemoryError(f"cannot allocate {8 * self.width:,} bytes")
        self.store(self.first)

    def __dealloc__(self):
        PyMem_RawFree(self.records)
        PyMem_RawFree(self.blocks)
        PyMem_RawFree(self.first)

    @property
    def record_bytes(self):
        """Bytes of each key."""
        return sizeof(Record) + 8 * self.width

    @property
    def nbytes(self):
        """Bytes that the fleet keeps."""
        return self.room * self.record_bytes + 8 * self.width + self.learner.nbytes

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
            fresh = PyMem_RawRealloc(self.blocks, room * 8 * self.width)
            if fresh == NULL:
                raise MemoryError(f"cannot allocate {room * 8 * self.width:,} bytes for keys")
            self.blocks, self.room = <double*> fresh, room
        for i in range(self.n, n):
            self.start(i)
        self.n = n

    def remove(self, Py_ssize_t number):
        """Remove a key. The last key gets its number."""
        cdef Py_ssize_t last = self.n - 1
        self.reset(number)
        if number != last:
            self.records[number] = self.records[last]
            memcpy(self.blocks + number * self.width, self.blocks + last * self.width, 8 * self.width)
        self.n = last

    def truncate(self, Py_ssize_t n):
        """Remove all keys from number n on."""
        while self.n > n:
            self.remove(self.n - 1)

    def play(self, int64_t[::1] numbers, BatchRows rows, double[::1] labels, double[::1] margins,
             double[::1] offsets=None, double[::1] importances=None):
        """Play one round per row, with the rule of its key. `offsets` are added to the margins.

        All arguments must have been checked: numbers of keys, rows, labels of -1 or +1, and weights of the rows.
        """
        cdef Py_ssize_t i, n = rows.n
        cdef double offset = 0.0, importance = 1.0
        with nogil:
            for i in range(n):
                if i + RECORDS_AHEAD < n:
                    bt_prefetch(self.records + numbers[i + RECORDS_AHEAD])
                    self.prefetch(numbers[i + BLOCKS_AHEAD])
                if self.idle and self.records[numbers[i]].last + self.idle < self.rows:
                    self.reset(numbers[i])
                if offsets is not None:
                    offset = offsets[i]
                if importances is not None:
                    importance = importances[i]
                margins[i] = self.margin(numbers[i], rows, i) + offset
                self.learn(numbers[i], rows, i, labels[i], offset, importance)

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

    def copy_to(self, Py_ssize_t number, LinearRule rule):
        """Give another rule of the same kind, before its first round, the state of a key."""
        cdef LinearFleet other = LinearFleet(rule)
        cdef Record* record = self.records + number
        other.load(self.blocks + number * self.width, other.arrays)
        rule.rounds, rule.mistakes, rule.updates = record.rounds, record.mistakes, record.updates
        rule.factor, rule.norm2, rule.peak = record.factor, record.norm2, record.peak

    def counts(self, int64_t[::1] numbers):
        """Return rounds, mistakes, last row and supports of these keys as an array of int64 with four columns."""
        cdef Py_ssize_t i
        cdef Record* record
        cdef int64_t[:, ::1] out = np.empty((numbers.shape[0], 4), np.int64)
        for i in range(numbers.shape[0]):
            record = self.records + numbers[i]
            out[i, 0], out[i, 1] = record.rounds, record.mistakes
            out[i, 2], out[i, 3] = record.last, 0
        return np.asarray(out)

    def is_safe(self, double square):
        """Return whether rows of at most this squared norm cannot make a margin or a weight of any key overflow."""
        self.learner.norm2 = self.largest_norm2
        return self.learner.is_safe(square)

    def save_before(self, numbers):
        """Keep the states of these keys, so that `restore` can return to them."""
        cdef Py_ssize_t i
        cdef int64_t[::1] chosen
        self.backup_numbers = chosen = np.unique(numbers)
        self.backup_records = np.empty((len(self.backup_numbers), sizeof(Record)), np.int8)
        self.backup_blocks = np.empty((len(self.backup_numbers), self.width))
        cdef Record* records = <Record*> address(self.backup_records)
        cdef double* blocks = <double*> address(self.backup_blocks)
        for i in range(chosen.shape[0]):
            memcpy(records + i, self.records + chosen[i], sizeof(Record))
            memcpy(blocks + i * self.width, self.blocks + chosen[i] * self.width, 8 * self.width)

    def restore(self):
        """Return to the states of the last `save_before`."""
        cdef Py_ssize_t i
        cdef int64_t[::1] chosen = self.backup_numbers
        cdef Record* records = <Record*> address(self.backup_records)
        cdef double* blocks = <double*> address(self.backup_blocks)
        for i in range(chosen.shape[0]):
            memcpy(self.records + chosen[i], records + i, sizeof(Record))
            memcpy(self.blocks + chosen[i] * self.width, blocks + i * self.width, 8 * self.width)
        self.drop_backup()

    def drop_backup(self):
        """Free the memory of the last `save_before`."""
        self.backup_numbers = self.backup_records = self.backup_blocks = None

    # ------------------------------------------------------------------ state

    def state(self, int64_t[::1] numbers):
        """Return the states of these keys as arrays with one row per key."""
        cdef Py_ssize_t i, n = numbers.shape[0]
        cdef Record* record
        cdef int64_t[:, ::1] count = np.empty((n, 4), np.int64)
        cdef double[:, ::1] value = np.empty((n, 3)), block = np.empty((n, self.width))
        for i in range(n):
            record = self.records + numbers[i]
            count[i, 0], count[i, 1], count[i, 2] = record.rounds, record.mistakes, record.last
            count[i, 3] = record.updates
            value[i, 0], value[i, 1], value[i, 2] = record.factor, record.norm2, record.peak
            memcpy(&block[i, 0], self.blocks + numbers[i] * self.width, 8 * self.width)
        return {"counts": np.asarray(count), "values": np.asarray(value), "blocks": np.asarray(block)}

    def append(self, dict state):
        """Add keys with these states at the end. The state must have been checked."""
        cdef Py_ssize_t i, first = self.n, n = len(state["counts"])
        cdef Record* record
        cdef int64_t[:, ::1] count = state["counts"]
        cdef double[:, ::1] value = state["values"], block = state["blocks"]
        self.resize(first + n)
        for i in range(n):
            record = self.records + first + i
            record.rounds, record.mistakes, record.last = count[i, 0], count[i, 1], count[i, 2]
            record.updates = count[i, 3]
            record.factor, record.norm2, record.peak = value[i, 0], value[i, 1], value[i, 2]
            self.largest_norm2 = max(self.largest_norm2, record.norm2)
            memcpy(self.blocks + (first + i) * self.width, &block[i, 0], 8 * self.width)

    # ------------------------------------------------------------------ rounds

    cdef void prefetch(self, Py_ssize_t number) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(0, min(self.width, 128), 8):
            bt_prefetch(self.blocks + number * self.width + i)

    cdef void start(self, Py_ssize_t number) noexcept nogil:
        """Let a key be as before its first round."""
        memset(self.records + number, 0, sizeof(Record))
        self.records[number].factor = 1.0
        self.records[number].last = self.rows
        memcpy(self.blocks + number * self.width, self.first, 8 * self.width)

    cdef int reset(self, Py_ssize_t number) except -1 nogil:
        """Forget what a key has learned."""
        self.expired += self.records[number].rounds > 0
        self.start(number)
        return 0

    cdef void load(self, double* block, int arrays) noexcept nogil:
        """Load the first arrays of a block into the rule."""
        cdef int a
        for a in range(arrays):
            memcpy(self.places[a], block, 8 * self.lengths[a])
            block += self.lengths[a]
        if arrays == self.arrays and self.forgetting is not None:
            self.forgetting.factor = block[0]

    cdef void store(self, double* block) noexcept nogil:
        """Store the arrays of the rule in a block."""
        cdef int a
        for a in range(self.arrays):
            memcpy(block, self.places[a], 8 * self.lengths[a])
            block += self.lengths[a]
        if self.forgetting is not None:
            block[0] = self.forgetting.factor

    cdef double margin(self, Py_ssize_t number, BatchRows rows, Py_ssize_t i) except? -1 nogil:
        """Return w . x of a key."""
        cdef bint finite
        cdef Py_ssize_t start
        self.load(self.blocks + number * self.width, 1)
        self.learner.factor = self.records[number].factor
        if rows.sparse:
            start = rows.starts[i]
            self.learner.index, self.learner.n = rows.features + start, rows.starts[i + 1] - start
        else:
            start = i * self.learner.d
            self.learner.index, self.learner.n = NULL, self.learner.d
        if self.learner.single:
            finite = score_row(self.learner, <float*> rows.values + start)
        else:
            finite = score_row(self.learner, <double*> rows.values + start)
        if not finite:
            with gil:
                raise ValueError(f"the margin of row {i} is not finite: scale the features")
        return self.learner.margin

    cdef int learn(self, Py_ssize_t number, BatchRows rows, Py_ssize_t i, double label, double offset,
                   double importance) except -1 nogil:
        """Finish the round of row i, whose margin is known."""
        cdef Record* record = self.records + number
        cdef Py_ssize_t start = rows.starts[i] if rows.sparse else i * self.learner.d
        self.learner.rounds, self.learner.mistakes, self.learner.updates = (
            record.rounds, record.mistakes, record.updates)
        self.learner.norm2, self.learner.peak = record.norm2, record.peak
        self.learner.importance, self.learner.offset = importance, offset
        self.learner.margin += offset
        set_label(self.learner, label)
        if self.arrays > 1 and self.learner.needs_update():
            self.load(self.blocks + number * self.width, self.arrays)
        if self.learner.single:
            finish_round(self.learner, <float*> rows.values + start, self.wide)
        else:
            finish_round(self.learner, <double*> rows.values + start, self.wide)
        if self.learner.updated:
            self.store(self.blocks + number * self.width)
        record.rounds, record.mistakes, record.updates, record.last = (
            self.learner.rounds, self.learner.mistakes, self.learner.updates, self.rows)
        record.factor, record.norm2, record.peak = self.learner.factor, self.learner.norm2, self.learner.peak
        self.largest_norm2 = max(self.largest_norm2, record.norm2)
        self.rows += 1
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
