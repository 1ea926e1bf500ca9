# cython: cdivision=True
"""A fleet of kernel learners with one limit of memory: when it is full, the key that benefits least loses a support.

Each key has three numbers, which decay over half as many rows as the pool has supports: its rows r, its mistakes m,
and the mistakes h that it would have made with only the newer half of its supports. h - m estimates what the older half is
worth. The value of a support of a key with n supports is

    (max(h - m, 0) + 0.05 r + 0.1) decay / n,

where `decay` is for the rows since the key's last. Keys with one or two supports are exceptions: the values of "rbf" are
positive, so that a single support predicts one class only. The second one is worth more than any other. So n = 2 divides
by 1, and n = 1 by 2. If there is no room, some supports are sampled, one of them a support of the key that asks for room;
of their owners the one with the lowest value loses its oldest support.

If none of these owners is much busier than the average key, traffic is even. Then the rows since the last one of a key
are only chance, and nothing is gained by breaking up a pair. So if there is room for about two supports per key, the
values of keys with one or two are doubled, and do not decay.

The self-tuned Forgetron is shrunk before a support is removed, as it does itself when its budget is full. So the damage of
all removals stays within its share of the mistakes, unless a key that makes no mistakes loses several supports. `removal`
has the formulas. A key that loses several supports between two mistakes may be shrunk to nearly 0. Its predictions are
still the same, because only their sign counts, until its next mistake adds a support with the coefficient 1. Then supports
whose coefficients are negligible are removed, because they would only take memory.
"""

from libc.math cimport exp, fabs
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from budgetron._core.fleet_states cimport FleetStates, resized
from budgetron._core.kernel_fleet cimport KernelFleet, Record
from budgetron._core.kernel_values cimport real
from budgetron._core.key_index cimport KeyIndex
from budgetron._core.removal cimport allowed_damage, damage, largest_phi
from budgetron._core.rounds cimport Learner

cdef extern from "Python.h" nogil:
    void PyMem_RawFree(void*)

cdef extern from "prefetch.h" nogil:
    void bt_prefetch(const void*)

cdef enum:
    SAMPLES = 16

# The value of a row, and of a key, in mistakes
cdef double PER_ROW = 0.05, PER_KEY = 0.1

# Traffic is even if no owner of a sampled support has more recent rows than this multiple of the average key. It
# matters only if the pool has room for this many supports per key.
cdef double EVEN = 3.0, ROOM_FOR_PAIRS = 1.7

# A hypothesis is never shrunk to 0.
cdef double LEAST_PHI = 1e-6

# Coefficients below this are negligible beside that of a new support, which is 1.
cdef double NEGLIGIBLE = 0.01

ctypedef struct Statistics:
    float rows, mistakes, half_mistakes


cdef class PooledFleet(KernelFleet):
    """The states of many kernel learners with a budget, in at most `memory` bytes.

    Parameters
    ----------
    learner, idle, page
        As for `KernelFleet`.
    index : KeyIndex
        The keys.
    memory : int
        Bytes of the keys, their supports, and everything else.
    seed : int
        Seed of the samples.
    """

    cdef Statistics* statistics
    cdef readonly KeyIndex index
    cdef readonly Py_ssize_t memory
    cdef Py_ssize_t fixed, taken  # bytes that do not depend on the keys, and bytes of keys that have rows
    cdef Py_ssize_t known  # keys that have rows
    cdef public int64_t evicted
    cdef public uint64_t random

    def __init__(self, Learner learner, int64_t idle, Py_ssize_t page, KeyIndex index, Py_ssize_t memory,
                 uint64_t seed):
        self.index, self.memory, self.random = index, memory, seed
        # Arrays have room for 16 more keys, and the table of each class for 16 more pages.
        self.fixed = self.learner.nbytes + 136 * self.layout.classes + self.store.held + self.store.slack
        self.fixed += 16 * (8 + self.record_bytes) + 256

    def __dealloc__(self):
        PyMem_RawFree(self.statistics)

    @property
    def record_bytes(self):
        return KernelFleet.record_bytes.__get__(self) + sizeof(Statistics)

    @property
    def least_memory(self):
        """Bytes below which one key could not have its whole budget."""
        return self.fixed + 2 * self.store.sizes[self.layout.classes - 1] + self.bytes_of_key(0)

    def bytes_of_keys(self, Py_ssize_t n, Py_ssize_t text_bytes):
        """Return the bytes of n keys without supports, whose texts have this many bytes in all."""
        return self.fixed + n * self.bytes_of_key(0) + text_bytes * 17 // 16

    def enlarge_pages(self):
        """Do nothing: pages are as large as the memory allows."""

    def state(self, int64_t[::1] numbers):
        cdef Py_ssize_t i
        cdef float[:, ::1] out = np.empty((numbers.shape[0], 3), np.float32)
        for i in range(numbers.shape[0]):
            memcpy(&out[i, 0], self.statistics + numbers[i], sizeof(Statistics))
        return KernelFleet.state(self, numbers) | {"statistics": np.asarray(out)}

    def append(self, dict state):
        """Add keys with these states at the end, which must have been checked; the index must have their keys."""
        cdef Py_ssize_t i, first = self.n
        cdef float[:, ::1] given = state["statistics"]
        KernelFleet.append(self, state)
        for i in range(given.shape[0]):
            memcpy(self.statistics + first + i, &given[i, 0], sizeof(Statistics))
            if self.record(first + i).key.rounds:
                self.taken += self.bytes_of_key(self.text_length(first + i))
                self.known += 1
        while self.store.used > self.limit():
            self.evict(-1)

    cdef int make_room(self, Py_ssize_t room) except -1:
        KernelFleet.make_room(self, room)
        self.statistics = <Statistics*> resized(self.statistics, room * sizeof(Statistics))
        memset(self.statistics + self.room, 0, (room - self.room) * sizeof(Statistics))
        return 0

    cdef void move(self, Py_ssize_t number, Py_ssize_t to) noexcept nogil:
        KernelFleet.move(self, number, to)
        self.statistics[to] = self.statistics[number]
        memset(self.statistics + number, 0, sizeof(Statistics))

    cdef Py_ssize_t bytes_of_key(self, Py_ssize_t text) noexcept nogil:
        """Return the bytes of a key without supports: with room for growth, and a table of which 2/5 are used."""
        cdef Py_ssize_t each = sizeof(Record) + sizeof(Statistics) + 8 + (24 if self.draws else 0) + (
            text + 4 if self.index.text else 0)
        return each + each // 16 + 11

    cdef Py_ssize_t text_length(self, Py_ssize_t number) noexcept nogil:
        cdef uint32_t length
        if not self.index.text:
            return 0
        memcpy(&length, self.index.pool + self.index.keys[number], 4)
        return length

    cdef Py_ssize_t limit(self) noexcept nogil:
        """Return the bytes that blocks may take; the rest is for the tables of their pages."""
        return max(0, self.memory - self.fixed - self.taken) // 64 * 63

    cdef double decay_time(self) noexcept nogil:
        """Return the rows over which statistics decay: half of the supports of the pool."""
        cdef double supports = <double> self.limit() * self.budget / self.store.sizes[self.layout.classes - 1]
        return max(0.5 * supports, 1.0)

    cdef int observe(self, Py_ssize_t number, double label, double offset) except -1 nogil:
        cdef Record* record = self.record(number)
        cdef Statistics* statistics = self.statistics + number
        cdef double decay, half
        if record.key.rounds == 0:
            self.taken += self.bytes_of_key(self.text_length(number))
            self.known += 1
        decay = exp(<double> (record.key.last - self.rows) / self.decay_time())
        if self.supports.single:
            half = newer_half(self, <float*> self.single.values)
        else:
            half = newer_half(self, <double*> self.single.values)
        statistics.rows = <float> (statistics.rows * decay + 1.0)
        statistics.mistakes = <float> (statistics.mistakes * decay + (label * (self.rule.margin + offset) <= 0.0))
        statistics.half_mistakes = <float> (statistics.half_mistakes * decay + (label * (half + offset) <= 0.0))
        return 0

    cdef int limit_memory(self, Py_ssize_t number) except -1 nogil:
        if self.evicted and self.shrinks and self.rule.added >= 0:
            self.remove_negligible(number)
        while self.store.used > self.limit():
            self.evict(number)
        return 0

    cdef void forget_statistics(self, Py_ssize_t number) noexcept nogil:
        self.taken -= self.bytes_of_key(self.text_length(number))
        self.known -= 1
        memset(self.statistics + number, 0, sizeof(Statistics))

    cdef int scan(self) except -1 nogil:
        # Blocks are freed in the order of their numbers, by which supports are sampled. The numbers of the keys
        # depend on how the rows were cut into batches; those of the blocks do not.
        cdef Py_ssize_t c, i, owner
        for c in range(self.layout.classes):
            for i in range(self.store.counts[c] - 1, -1, -1):
                owner = (<uint32_t*> self.store.block(c, i))[0]
                if self.is_overdue(owner):
                    self.reset(owner)
        return FleetStates.scan(self)

    cdef uint64_t draw(self) noexcept nogil:
        """Return a random number of 64 bits (SplitMix64)."""
        cdef uint64_t x
        self.random += 0x9E3779B97F4A7C15ULL
        x = self.random
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL
        return x ^ (x >> 31)

    cdef double value_of_support(self, Py_ssize_t number, double decay, bint even) noexcept nogil:
        cdef Statistics* statistics = self.statistics + number
        cdef Py_ssize_t m = self.record(number).m
        cdef double worth = max(<double> statistics.half_mistakes - statistics.mistakes, 0.0)
        worth += PER_ROW * statistics.rows + PER_KEY
        if m > 2:
            return worth * decay / m
        worth *= 0.5 * m
        return 2.0 * worth if even else worth * decay

    cdef int evict(self, Py_ssize_t asking) except -1 nogil:
        """Remove a support of the key that benefits least from it; `asking` is a candidate, -1 for none."""
        cdef char* blocks[<int> SAMPLES]
        cdef uint32_t owners[<int> SAMPLES]
        cdef Py_ssize_t i, c, place, total = 0, n = 0, victim = -1
        cdef double decays[<int> SAMPLES]
        cdef double value, least = 0.0, most = 0.0, time = self.decay_time()
        cdef bint even
        for c in range(self.layout.classes):
            total += self.store.counts[c] * self.layout.capacities[c]
        if asking >= 0 and self.record(asking).m:
            blocks[0] = self.block_of(asking)
            n = 1
        for i in range(n, SAMPLES):
            place, c = <Py_ssize_t> (self.draw() % <uint64_t> total), 0
            while place >= self.store.counts[c] * self.layout.capacities[c]:
                place -= self.store.counts[c] * self.layout.capacities[c]
                c += 1
            blocks[i] = self.store.block(c, place // self.layout.capacities[c])
            bt_prefetch(blocks[i])
        for i in range(SAMPLES):
            owners[i] = (<uint32_t*> blocks[i])[0]
            bt_prefetch(self.record(owners[i]))
            bt_prefetch(self.statistics + owners[i])
        for i in range(SAMPLES):
            decays[i] = exp(<double> (self.record(owners[i]).key.last - self.rows) / time)
            most = max(most, self.statistics[owners[i]].rows * decays[i])
        even = most < EVEN * (1.0 + time / self.known) and 2.0 * time > ROOM_FOR_PAIRS * self.known
        for i in range(SAMPLES):
            value = self.value_of_support(owners[i], decays[i], even)
            if victim < 0 or value < least:
                victim, least = owners[i], value
        self.remove_oldest(victim)
        self.evicted += 1
        return 0

    cdef int remove_oldest(self, Py_ssize_t number) except -1 nogil:
        """Remove the oldest support of a key; shrink its hypothesis before, if it is a Forgetron."""
        self.load(number)
        self.shrink_and_remove(self.record(number))
        return self.pack(number, True)

    cdef int remove_negligible(self, Py_ssize_t number) except -1 nogil:
        """Remove the oldest supports of a key, which is loaded, as long as their coefficients are negligible."""
        cdef int64_t before = self.evicted
        while self.supports.m > 1 and fabs(self.rule.weight(0)) < NEGLIGIBLE:
            self.shrink_and_remove(self.record(number))
            self.evicted += 1
        return self.pack(number, True) if self.evicted > before else 0

    cdef int shrink_and_remove(self, Record* record) except -1 nogil:
        """Remove the oldest support of the loaded key."""
        cdef double phi = 1.0, mu
        # The rule updates the value at its last row, which does not matter here but must be readable.
        self.rule.k = self.single.wide if self.supports.single else <double*> self.single.values
        if self.shrinks:
            mu = self.rule.label(0) * self.rule.value_at(0)
            phi = largest_phi(fabs(self.rule.weight(0)), mu, self.rule.damage_sum - allowed_damage(record.key.mistakes))
            phi = max(phi, LEAST_PHI)
            self.rule.shrink(phi)
            self.rule.damage_sum += damage(fabs(self.rule.weight(0)), self.rule.label(0) * self.rule.value_at(0))
        self.rule.remove(0)
        self.rule.added = -1
        if self.supports.m == 0:
            self.rule.factor, self.rule.norm2, self.rule.peak = 1.0, 0.0, 0.0
        record.shrinking += (1.0 - phi) / (1.0 + phi)
        return 0


cdef double newer_half(PooledFleet self, real* values) noexcept nogil:
    """Return the value at the open row of the newer half of the supports."""
    cdef Py_ssize_t p, slot, m = self.supports.m
    cdef double total = 0.0
    for p in range(m - (m + 1) // 2, m):
        slot = self.supports._order[p]
        total += self.rule._coef[slot] * values[slot]
    return self.rule.factor * total
