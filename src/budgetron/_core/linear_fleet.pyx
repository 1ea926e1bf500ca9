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
from budgetron._core.fleet_states cimport FleetStates, KeyRecord, resized
from budgetron._core.linear cimport LinearRule, finish_round, score_row, set_label
from budgetron._core.rows cimport BatchRows, address

cdef extern from "Python.h" nogil:
    void PyMem_RawFree(void*)

cdef extern from "prefetch.h" nogil:
    void bt_prefetch(const void*)

# At most this many arrays belong to a rule.
cdef enum:
    MOST_ARRAYS = 4

ctypedef struct Record:
    KeyRecord key
    int64_t updates


cdef class LinearFleet(FleetStates):
    """The states of many linear learners.

    Parameters
    ----------
    rule : LinearRule
        A rule before its first round. The fleet uses it as its own.
    idle : int
        A key is forgotten if it had none of the last `idle` rows of the fleet; 0 for never.
    """

    cdef readonly LinearRule learner
    # Each key has `width` numbers: the arrays of the rule one after the other, and the factor of a covariance
    cdef double* blocks
    cdef double* first
    cdef Py_ssize_t width
    cdef int arrays
    cdef double* places[<int> MOST_ARRAYS]
    cdef Py_ssize_t lengths[<int> MOST_ARRAYS]
    cdef ForgettingCovariance forgetting
    cdef double* wide
    cdef double largest_norm2  # of all keys so far
    # The states before their first rounds in this batch, to be restored after an error
    cdef object backup_numbers, backup_records, backup_blocks

    def __cinit__(self, LinearRule rule, int64_t idle=0):
        cdef Py_ssize_t i
        self.learner, self.idle, self.record_size = rule, idle, sizeof(Record)
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
        self.wide = rule.buffer()
        self.first = <double*> resized(NULL, 8 * self.width)
        self.store(self.first)

    def __dealloc__(self):
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

    def copy_to(self, Py_ssize_t number, LinearRule rule):
        """Give another rule of the same kind, before its first round, the state of a key."""
        cdef LinearFleet other = LinearFleet(rule)
        cdef Record* record = self.record(number)
        other.load(self.blocks + number * self.width, other.arrays)
        rule.rounds, rule.mistakes, rule.updates = record.key.rounds, record.key.mistakes, record.updates
        rule.factor, rule.norm2, rule.peak = record.key.factor, record.key.norm2, record.key.peak

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
            memcpy(records + i, self.record(chosen[i]), sizeof(Record))
            memcpy(blocks + i * self.width, self.blocks + chosen[i] * self.width, 8 * self.width)

    def restore(self):
        """Return to the states of the last `save_before`."""
        cdef Py_ssize_t i
        cdef int64_t[::1] chosen = self.backup_numbers
        cdef Record* records = <Record*> address(self.backup_records)
        cdef double* blocks = <double*> address(self.backup_blocks)
        for i in range(chosen.shape[0]):
            memcpy(self.record(chosen[i]), records + i, sizeof(Record))
            memcpy(self.blocks + chosen[i] * self.width, blocks + i * self.width, 8 * self.width)

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
            record = self.record(numbers[i])
            count[i, 0], count[i, 1], count[i, 2] = record.key.rounds, record.key.mistakes, record.key.last
            count[i, 3] = record.updates
            value[i, 0], value[i, 1], value[i, 2] = record.key.factor, record.key.norm2, record.key.peak
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
            record = self.record(first + i)
            record.key.rounds, record.key.mistakes, record.key.last = count[i, 0], count[i, 1], count[i, 2]
            record.updates = count[i, 3]
            record.key.factor, record.key.norm2, record.key.peak = value[i, 0], value[i, 1], value[i, 2]
            self.largest_norm2 = max(self.largest_norm2, record.key.norm2)
            memcpy(self.blocks + (first + i) * self.width, &block[i, 0], 8 * self.width)

    # ------------------------------------------------------------------ rounds

    cdef inline Record* record(self, Py_ssize_t number) noexcept nogil:
        return <Record*> self.records + number

    cdef int make_room(self, Py_ssize_t room) except -1:
        self.blocks = <double*> resized(self.blocks, room * 8 * self.width)
        return 0

    cdef void move(self, Py_ssize_t number, Py_ssize_t to) noexcept nogil:
        memcpy(self.blocks + to * self.width, self.blocks + number * self.width, 8 * self.width)

    cdef void start(self, Py_ssize_t number) noexcept nogil:
        FleetStates.start(self, number)
        memcpy(self.blocks + number * self.width, self.first, 8 * self.width)

    cdef void prefetch(self, Py_ssize_t number) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(0, min(self.width, 128), 8):
            bt_prefetch(self.blocks + number * self.width + i)

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
        cdef bint finite
        cdef Py_ssize_t start
        self.load(self.blocks + number * self.width, 1)
        self.learner.factor = self.key_record(number).factor
        if rows.sparse:
            start = rows.starts[i]
            self.learner.index, self.learner.n = rows.features + start, rows.starts[i + 1] - start
        else:
            self.learner.index, self.learner.n = NULL, self.learner.d - self.learner.constant
            start = i * self.learner.n
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
        cdef Record* record = self.record(number)
        cdef Py_ssize_t start = rows.starts[i] if rows.sparse else i * self.learner.n
        self.learner.rounds, self.learner.mistakes, self.learner.updates = (
            record.key.rounds, record.key.mistakes, record.updates)
        self.learner.norm2, self.learner.peak = record.key.norm2, record.key.peak
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
        record.key.rounds, record.key.mistakes, record.updates, record.key.last = (
            self.learner.rounds, self.learner.mistakes, self.learner.updates, self.rows)
        record.key.factor, record.key.norm2, record.key.peak = self.learner.factor, self.learner.norm2, self.learner.peak
        self.largest_norm2 = max(self.largest_norm2, record.key.norm2)
        return 0
