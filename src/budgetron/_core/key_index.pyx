# cython: cdivision=True
"""An index of keys: each key has a number, and the numbers are 0, 1, ... without gaps.

Keys are 64-bit integers or texts. An integer takes 8 bytes and a text its UTF-8 bytes and 12 more; the table that finds
them takes 5 to 10 bytes per key. When a key is removed, the last one gets its number.

The hash function has a random seed, so that nobody can choose keys that all have the same hash value. The seed is not
part of a state: the order of the keys does not depend on it.
"""

from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

import os

import numpy as np

cdef extern from "Python.h" nogil:
    void* PyMem_RawCalloc(size_t, size_t)
    void* PyMem_RawRealloc(void*, size_t)
    void PyMem_RawFree(void*)

cdef extern from "prefetch.h" nogil:
    void bt_prefetch(const void*)

# How many keys ahead the table is prefetched.
cdef Py_ssize_t AHEAD = 16

# The longest text of a key in bytes, and the largest number of keys.
LONGEST_TEXT = 1 << 16
cdef Py_ssize_t LONGEST = LONGEST_TEXT, MOST_KEYS = (1LL << 32) - 2


cdef inline uint64_t mixed(uint64_t x) noexcept nogil:
    """Return a number all of whose bits depend on all bits of x."""
    x ^= x >> 30
    x *= 0xBF58476D1CE4E5B9ULL
    x ^= x >> 27
    x *= 0x94D049BB133111EBULL
    return x ^ (x >> 31)


cdef uint64_t text_hash(const char* text, Py_ssize_t length, uint64_t seed) noexcept nogil:
    cdef uint64_t state = mixed(seed + <uint64_t> length), word
    cdef Py_ssize_t i = 0
    while i < length:
        word = 0
        memcpy(&word, text + i, min(8, length - i))
        state = mixed(state ^ word)
        i += 8
    return state


def buckets(keys, Py_ssize_t n):
    """Return the bucket of each key, from 0 to n - 1: it depends on the key and on n only."""
    cdef Py_ssize_t i, length
    cdef const char* text
    cdef const int64_t[::1] numbers
    cdef int64_t[::1] out = np.empty(len(keys), np.int64)
    if isinstance(keys, np.ndarray):
        numbers = keys
        for i in range(len(keys)):
            out[i] = <int64_t> (mixed(<uint64_t> numbers[i]) % <uint64_t> n)
    else:
        for i, key in enumerate(keys):
            text = PyUnicode_AsUTF8AndSize(key, &length)
            out[i] = <int64_t> (portable_text_hash(text, length) % <uint64_t> n)
    return np.asarray(out)


cdef uint64_t portable_text_hash(const char* text, Py_ssize_t length) noexcept nogil:
    """Return a hash that is the same on machines of any byte order."""
    cdef uint64_t state = mixed(<uint64_t> length)
    cdef Py_ssize_t i
    for i in range(length):
        state = (state ^ <unsigned char> text[i]) * 0x100000001B3ULL
    return mixed(state)


cdef class KeyIndex:
    """The numbers of keys; `text` tells whether keys are texts."""

    def __cinit__(self, bint text=False):
        self.text = text
        self.seed = int.from_bytes(os.urandom(8), "little")

    def __dealloc__(self):
        PyMem_RawFree(self.keys)
        PyMem_RawFree(self.pool)
        PyMem_RawFree(self.table)

    def __len__(self):
        return self.n

    @property
    def nbytes(self):
        """Bytes that the index keeps."""
        return 8 * self.room + self.pool_room + (4 * (self.mask + 1) if self.table != NULL else 0)

    @property
    def text_bytes(self):
        """Bytes of the texts of all keys."""
        return self.pool_used - self.pool_unused

    def numbers(self, keys, bint add=False):
        """Return the number of each key as int64; -1 for unknown keys, unless `add`, which gives them numbers.

        `keys` is a contiguous array of int64, or a list of texts.
        """
        cdef Py_ssize_t i, n = len(keys), length, before = self.n
        cdef const int64_t[::1] given
        cdef int64_t[::1] found = np.empty(n, np.int64)
        cdef const char* text
        try:
            if not self.text:
                given = keys
                with nogil:
                    for i in range(n):
                        if i + AHEAD < n and self.table != NULL:
                            bt_prefetch(self.table + (mixed(<uint64_t> given[i + AHEAD] ^ self.seed) & self.mask))
                        found[i] = self.find_int(given[i])
                        if found[i] < 0 and add:
                            self.make_room(1)
                            self.keys[self.n] = given[i]
                            self.enter(self.n)
                            found[i] = self.n
                            self.n += 1
            else:
                for i in range(n):
                    text = PyUnicode_AsUTF8AndSize(keys[i], &length)
                    found[i] = self.find_text(text, length)
                    if found[i] < 0 and add:
                        if length > LONGEST:
                            raise ValueError(
                                f"keys must have at most {LONGEST:,} bytes; that of row {i} has {length:,}")
                        self.make_room(1)
                        self.add_text(text, length)
                        self.enter(self.n)
                        found[i] = self.n
                        self.n += 1
        except BaseException:
            self.truncate(before)
            raise
        return np.asarray(found)

    def key(self, Py_ssize_t number):
        """Return the key of a number."""
        cdef uint32_t length
        if not 0 <= number < self.n:
            raise IndexError(f"there is no key {number} of {self.n}")
        if not self.text:
            return self.keys[number]
        memcpy(&length, self.pool + self.keys[number], 4)
        return self.pool[self.keys[number] + 4:self.keys[number] + 4 + length].decode("utf-8")

    def all_keys(self):
        """Return all keys by number: an array of int64, or of Python texts."""
        cdef Py_ssize_t i
        cdef int64_t[::1] out
        if self.text:
            texts = np.empty(self.n, object)
            for i in range(self.n):
                texts[i] = self.key(i)
            return texts
        numbers = np.empty(self.n, np.int64)
        out = numbers
        for i in range(self.n):
            out[i] = self.keys[i]
        return numbers

    def state(self, numbers):
        """Return the keys of these numbers as arrays: integers, or the bytes of all texts and where each ends."""
        cdef Py_ssize_t i, total = 0
        cdef int64_t[::1] chosen = numbers, out = np.empty(len(numbers), np.int64)
        cdef uint32_t length
        cdef unsigned char[::1] pool
        if not self.text:
            for i in range(len(numbers)):
                out[i] = self.keys[chosen[i]]
            return {"keys": np.asarray(out)}
        for i in range(len(numbers)):
            memcpy(&length, self.pool + self.keys[chosen[i]], 4)
            total += length
            out[i] = total
        texts = np.empty(total, np.uint8)
        pool, total = texts, 0
        for i in range(len(numbers)):
            memcpy(&length, self.pool + self.keys[chosen[i]], 4)
            if length:
                memcpy(&pool[total], self.pool + self.keys[chosen[i]] + 4, length)
            total += length
        return {"texts": texts, "ends": np.asarray(out)}

    def remove(self, Py_ssize_t number):
        """Remove the key of a number. The last key gets the number."""
        cdef Py_ssize_t last = self.n - 1
        cdef uint32_t length
        cdef uint64_t slot, hole, home
        if not 0 <= number < self.n:
            raise IndexError(f"there is no key {number} of {self.n}")
        # Move later entries of the run into the gap, if they may be there.
        hole = slot = self.slot_of(number)
        while True:
            slot = (slot + 1) & self.mask
            if self.table[slot] == 0:
                break
            home = self.hash_of(self.table[slot] - 1) & self.mask
            if ((slot - home) & self.mask) >= ((slot - hole) & self.mask):
                self.table[hole] = self.table[slot]
                hole = slot
        self.table[hole] = 0
        if self.text:
            memcpy(&length, self.pool + self.keys[number], 4)
            self.pool_unused += length + 4
        if number != last:
            self.table[self.slot_of(last)] = <uint32_t> (number + 1)
            self.keys[number] = self.keys[last]
        self.n = last
        if self.text and self.pool_unused > 4096 and 2 * self.pool_unused > self.pool_used:
            self.gather()

    def truncate(self, Py_ssize_t n):
        """Remove all keys from number n on."""
        while self.n > n:
            self.remove(self.n - 1)

    def release_room(self):
        """Free the memory for more keys, except as much as new keys reserve."""
        cdef Py_ssize_t room = self.n + self.n // 16 + 16
        cdef void* shorter
        if room < self.room:
            shorter = PyMem_RawRealloc(self.keys, 8 * room)
            if shorter != NULL:
                self.keys, self.room = <int64_t*> shorter, room
        if self.table != NULL and self.slots_for(self.n) < self.mask + 1:
            self.make_table(self.slots_for(self.n))
        if self.text and self.pool_used - self.pool_unused < self.pool_room:
            self.gather()

    def gather(self):
        """Close the gaps between texts."""
        cdef char* fresh
        cdef Py_ssize_t i, used = 0, room = self.pool_used - self.pool_unused
        cdef uint32_t length
        fresh = <char*> PyMem_RawCalloc(1, max(room, 1))
        if fresh == NULL:
            raise MemoryError(f"cannot allocate {room:,} bytes for keys")
        for i in range(self.n):
            memcpy(&length, self.pool + self.keys[i], 4)
            memcpy(fresh + used, self.pool + self.keys[i], length + 4)
            self.keys[i] = used
            used += length + 4
        PyMem_RawFree(self.pool)
        self.pool, self.pool_used, self.pool_room, self.pool_unused = fresh, used, room, 0

    cdef uint64_t hash_text(self, const char* text, Py_ssize_t length) noexcept nogil:
        return text_hash(text, length, self.seed)

    cdef uint64_t hash_of(self, Py_ssize_t number) noexcept nogil:
        cdef uint32_t length
        if not self.text:
            return mixed(<uint64_t> self.keys[number] ^ self.seed)
        memcpy(&length, self.pool + self.keys[number], 4)
        return text_hash(self.pool + self.keys[number] + 4, length, self.seed)

    cdef Py_ssize_t find_int(self, int64_t key) noexcept nogil:
        cdef uint64_t slot
        if self.table == NULL:
            return -1
        slot = mixed(<uint64_t> key ^ self.seed) & self.mask
        while self.table[slot] != 0:
            if self.keys[self.table[slot] - 1] == key:
                return <Py_ssize_t> self.table[slot] - 1
            slot = (slot + 1) & self.mask
        return -1

    cdef Py_ssize_t find_text(self, const char* text, Py_ssize_t length) noexcept nogil:
        cdef uint64_t slot
        cdef uint32_t stored
        cdef char* entry
        if self.table == NULL:
            return -1
        slot = self.hash_text(text, length) & self.mask
        while self.table[slot] != 0:
            entry = self.pool + self.keys[self.table[slot] - 1]
            memcpy(&stored, entry, 4)
            if stored == length and memcmp(entry + 4, text, length) == 0:
                return <Py_ssize_t> self.table[slot] - 1
            slot = (slot + 1) & self.mask
        return -1

    cdef Py_ssize_t slot_of(self, Py_ssize_t number) noexcept nogil:
        """Return the slot of the table that has this number."""
        cdef uint64_t slot = self.hash_of(number) & self.mask
        while self.table[slot] != <uint32_t> (number + 1):
            slot = (slot + 1) & self.mask
        return slot

    cdef void enter(self, Py_ssize_t number) noexcept nogil:
        """Enter a number, whose key is known, into the table."""
        cdef uint64_t slot = self.hash_of(number) & self.mask
        while self.table[slot] != 0:
            slot = (slot + 1) & self.mask
        self.table[slot] = <uint32_t> (number + 1)

    cdef int add_text(self, const char* text, Py_ssize_t length) except -1 nogil:
        """Store a text as the key of number n."""
        cdef Py_ssize_t room
        cdef void* fresh
        cdef uint32_t stored = <uint32_t> length
        if self.pool_used + length + 4 > self.pool_room:
            room = self.pool_used + length + 4
            room += room // 16 + 64
            fresh = PyMem_RawRealloc(self.pool, room)
            if fresh == NULL:
                with gil:
                    raise MemoryError(f"cannot allocate {room:,} bytes for keys")
            self.pool, self.pool_room = <char*> fresh, room
        memcpy(self.pool + self.pool_used, &stored, 4)
        memcpy(self.pool + self.pool_used + 4, text, length)
        self.keys[self.n] = self.pool_used
        self.pool_used += length + 4
        return 0

    cdef int make_room(self, Py_ssize_t more) except -1 nogil:
        """Make room for more keys, and a table of which at most 4/5 are used."""
        cdef Py_ssize_t n = self.n + more, room
        cdef uint64_t slots
        cdef void* fresh
        if n > MOST_KEYS:
            with gil:
                raise ValueError(f"a fleet has at most {MOST_KEYS:,} keys; split it")
        if n > self.room:
            room = n + n // 16 + 16
            fresh = PyMem_RawRealloc(self.keys, 8 * room)
            if fresh == NULL:
                with gil:
                    raise MemoryError(f"cannot allocate {8 * room:,} bytes for keys")
            self.keys, self.room = <int64_t*> fresh, room
        slots = self.mask + 1 if self.table != NULL else 0
        if <uint64_t> n * 5 > slots * 4:
            self.make_table(self.slots_for(n))
        return 0

    cdef uint64_t slots_for(self, Py_ssize_t n) noexcept nogil:
        """Return the slots of a table for n keys."""
        cdef uint64_t slots = 8
        while <uint64_t> n * 5 > slots * 4:
            slots *= 2
        return slots

    cdef int make_table(self, uint64_t slots) except -1 nogil:
        """Enter all keys into a new table."""
        cdef Py_ssize_t i
        cdef void* fresh = PyMem_RawCalloc(slots, 4)
        if fresh == NULL:
            with gil:
                raise MemoryError(f"cannot allocate {4 * slots:,} bytes for keys")
        PyMem_RawFree(self.table)
        self.table, self.mask = <uint32_t*> fresh, slots - 1
        for i in range(self.n):
            self.enter(i)
        return 0
