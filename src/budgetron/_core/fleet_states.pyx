# cython: cdivision=True
"""What fleets of kernel and of linear learners have in common: a record for each key, and the loop over the rows.

Keys have the numbers 0, 1, ... without gaps. A subclass keeps the states of the learners and plays single rounds.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

import numpy as np

cdef extern from "Python.h" nogil:
    void* PyMem_RawRealloc(void*, size_t)
    void PyMem_RawFree(void*)

cdef extern from "prefetch.h" nogil:
    void bt_prefetch(const void*)

# Rows between the one that is played and the ones whose records and whose states are prefetched
cdef Py_ssize_t RECORDS_AHEAD = 16, STATES_AHEAD = 6


# Conditions of keys; see `FleetStates.conditions`
FORGOTTEN, IDLE, KNOWN = 0, 1, 2


cdef class FleetStates:
    """The states of many learners of one kind; a base class.

    A key is forgotten if it had none of the last `idle` rows of the fleet; 0 is for never.
    """

    def __cinit__(self, *args):
        self.next_scan = 1024

    def __dealloc__(self):
        PyMem_RawFree(self.records)

    def resize(self, Py_ssize_t n):
        """Have n keys: new ones, which have learned nothing, are added at the end. There must be at least as many."""
        cdef Py_ssize_t room, i
        if n > self.room:
            room = n + n // 16 + 16
            self.records = <char*> resized(self.records, room * self.record_size)
            self.make_room(room)
            self.room = room
        for i in range(self.n, n):
            self.start(i)
        self.n = n

    def release_room(self):
        """Free the memory for more keys, except as much as `resize` reserves."""
        cdef Py_ssize_t room = self.n + self.n // 16 + 16
        if room < self.room:
            self.room = room  # before the calls: if one fails, its array is only longer than needed
            self.records = <char*> resized(self.records, room * self.record_size)
            self.make_room(room)

    def remove(self, Py_ssize_t number):
        """Remove a key. The last key gets its number."""
        cdef Py_ssize_t last = self.n - 1
        self.reset(number)
        if number != last:
            memcpy(self.key_record(number), self.key_record(last), self.record_size)
            self.move(last, number)
        self.n = last

    def truncate(self, Py_ssize_t n):
        """Remove all keys from number n on."""
        while self.n > n:
            self.remove(self.n - 1)

    def enlarge_pages(self):
        """Store the states in larger pieces of memory if the fleet has grown."""

    def play(self, int64_t[::1] numbers, BatchRows rows, double[::1] labels, double[::1] margins,
             double[::1] offsets=None, double[::1] importances=None, int64_t[::1] sizes=None):
        """Play one round per row, with the learner of its key. `offsets` are added to the margins.

        `sizes` are filled with the numbers of supports before each round. All arguments must have been checked: numbers
        of keys, rows, labels of -1 or +1, and weights of the rows (`importances`).
        """
        cdef Py_ssize_t i, number, n = rows.n
        cdef double offset = 0.0, importance = 1.0
        with nogil:
            for i in range(n):
                number = numbers[i]
                if i + RECORDS_AHEAD < n:
                    bt_prefetch(self.key_record(numbers[i + RECORDS_AHEAD]))
                    self.prefetch(numbers[i + STATES_AHEAD])
                if self.is_overdue(number):
                    self.reset(number)
                if offsets is not None:
                    offset = offsets[i]
                if importances is not None:
                    importance = importances[i]
                if sizes is not None:
                    sizes[i] = self.size_of(number)
                margins[i] = self.margin(number, rows, i) + offset
                self.learn(number, rows, i, labels[i], offset, importance)
                self.rows += 1
                self.limit_memory(number)
                if self.idle and self.rows >= self.next_scan:
                    self.scan()

    def decide(self, int64_t[::1] numbers, BatchRows rows, double[::1] margins, double[::1] offsets=None):
        """Write the margin of each row. A key with the number -1 has the margin 0."""
        cdef Py_ssize_t i, number, n = rows.n
        with nogil:
            for i in range(n):
                number = numbers[i]
                if i + STATES_AHEAD < n and numbers[i + STATES_AHEAD] >= 0:
                    self.prefetch(numbers[i + STATES_AHEAD])
                margins[i] = 0.0
                if number >= 0 and not self.is_overdue(number):
                    margins[i] = self.margin(number, rows, i)
                if offsets is not None:
                    margins[i] += offsets[i]

    def conditions(self):
        """Return the condition of each key: FORGOTTEN, IDLE (to be forgotten by the next scan) or KNOWN."""
        cdef Py_ssize_t i
        cdef signed char[::1] out = np.full(self.n, KNOWN, np.int8)
        for i in range(self.n if self.idle else 0):
            if self.key_record(i).rounds == 0:
                out[i] = FORGOTTEN
            elif self.is_overdue(i):
                out[i] = IDLE
        return np.asarray(out)

    def forget_idle_keys(self):
        """Forget what idle keys have learned now, and not after the next scan."""
        self.scan()

    def is_idle(self, Py_ssize_t number):
        """Return whether a key is to be forgotten, or has been."""
        return self.idle > 0 and (self.key_record(number).rounds == 0 or self.is_overdue(number))

    def counts(self, int64_t[::1] numbers):
        """Return rounds, mistakes, last row and supports of these keys as an array of int64 with four columns."""
        cdef Py_ssize_t i
        cdef KeyRecord* record
        cdef int64_t[:, ::1] out = np.empty((numbers.shape[0], 4), np.int64)
        for i in range(numbers.shape[0]):
            record = self.key_record(numbers[i])
            out[i, 0], out[i, 1] = record.rounds, record.mistakes
            out[i, 2], out[i, 3] = record.last, self.size_of(numbers[i])
        return np.asarray(out)

    cdef int scan(self) except -1 nogil:
        """Forget what idle keys have learned. This happens after the same rows, whatever the batches are."""
        cdef Py_ssize_t i, seen = 0
        for i in range(self.n):
            if self.is_overdue(i) and self.key_record(i).rounds:
                self.reset(i)
            seen += self.key_record(i).rounds > 0
        self.next_scan = self.rows + max(1024, seen // 4)
        return 0

    cdef void start(self, Py_ssize_t number) noexcept nogil:
        """Let a key be as before its first round."""
        memset(self.key_record(number), 0, self.record_size)
        self.key_record(number).factor = 1.0
        self.key_record(number).last = self.rows

    cdef int reset(self, Py_ssize_t number) except -1 nogil:
        """Forget what a key has learned."""
        self.expired += self.key_record(number).rounds > 0
        self.start(number)
        return 0

    cdef int make_room(self, Py_ssize_t room) except -1:
        """Make room for this many keys."""
        return 0

    cdef void move(self, Py_ssize_t number, Py_ssize_t to) noexcept nogil:
        """Give a key another number; its record has been copied."""

    cdef Py_ssize_t size_of(self, Py_ssize_t number) noexcept nogil:
        """Return the number of supports of a key."""
        return 0

    cdef void prefetch(self, Py_ssize_t number) noexcept nogil:
        """Ask for the state of a key, which will be read soon."""

    cdef double margin(self, Py_ssize_t number, BatchRows rows, Py_ssize_t i) except? -1 nogil:
        """Return f(x) of a key for row i, and leave both open."""
        return 0.0

    cdef int learn(self, Py_ssize_t number, BatchRows rows, Py_ssize_t i, double label, double offset,
                   double importance) except -1 nogil:
        """Finish the round of row i, whose margin was the last one."""
        return 0

    cdef int limit_memory(self, Py_ssize_t number) except -1 nogil:
        """Remove supports if there are too many, after a round of a key."""
        return 0


cdef void* resized(void* array, Py_ssize_t bytes) except NULL:
    """Return an array of keys with another size."""
    cdef void* fresh = PyMem_RawRealloc(array, bytes)
    if fresh == NULL:
        raise MemoryError(f"cannot allocate {bytes:,} bytes for keys")
    return fresh
