# cython: cdivision=True
"""Blocks of memory in several sizes, for objects that change their size.

The blocks of one size class have the numbers 0, 1, ... without gaps: when one is given back, the last one moves to its
place. So memory is never fragmented: at most one page of each class is partly used. Nothing is unused at the end of a
page. The first four bytes of each block are the number of its owner, so that the user of the store can correct a
reference to a block that was moved.
"""

from libc.stdint cimport uint32_t
from libc.string cimport memcpy

cdef extern from "Python.h" nogil:
    void* PyMem_RawCalloc(size_t, size_t)
    void* PyMem_RawRealloc(void*, size_t)
    void PyMem_RawFree(void*)


cdef class BlockStore:
    """Room for blocks of these sizes in bytes, in pages of `page` bytes or slightly more."""

    def __cinit__(self, sizes, Py_ssize_t page):
        cdef Py_ssize_t c, n = max(1, len(sizes))
        self.classes = len(sizes)
        self.sizes, self.counts, self.page_bytes = numbers(n), numbers(n), numbers(n)
        self.n_pages, self.page_rooms = numbers(n), numbers(n)
        self.per_page = <uint32_t*> PyMem_RawCalloc(n, sizeof(uint32_t))
        self.pages = <char***> PyMem_RawCalloc(n, sizeof(char**))
        if self.per_page == NULL or self.pages == NULL:
            raise MemoryError("cannot allocate the tables of a fleet")
        for c in range(self.classes):
            self.sizes[c] = sizes[c]
            self.per_page[c] = <uint32_t> max(1, (page + self.sizes[c] - 1) // self.sizes[c])
            self.page_bytes[c] = self.per_page[c] * self.sizes[c]
        self.held = self.classes * (6 * sizeof(Py_ssize_t) + sizeof(uint32_t))

    def __dealloc__(self):
        cdef Py_ssize_t c, i
        for c in range(self.classes if self.pages != NULL and self.n_pages != NULL else 0):
            for i in range(self.n_pages[c]):
                PyMem_RawFree(self.pages[c][i])
            PyMem_RawFree(self.pages[c])
        PyMem_RawFree(self.sizes)
        PyMem_RawFree(self.counts)
        PyMem_RawFree(self.per_page)
        PyMem_RawFree(self.page_bytes)
        PyMem_RawFree(self.n_pages)
        PyMem_RawFree(self.page_rooms)
        PyMem_RawFree(self.pages)

    @property
    def slack(self):
        """Bytes that pages may take in addition to `used`: in each class one is partly used."""
        cdef Py_ssize_t c, total = 0
        for c in range(self.classes):
            total += self.page_bytes[c] if self.per_page[c] > 1 else 0
        return total

    def cost(self, Py_ssize_t size_class):
        """Return the bytes that a block of a class takes."""
        return self.sizes[size_class]

    def copy_blocks(self, BlockStore other):
        """Take the blocks of another store of the same sizes; they keep their numbers."""
        cdef Py_ssize_t c, i
        for c in range(self.classes):
            for i in range(other.counts[c]):
                self.take(c, 0)
                memcpy(self.block(c, i), other.block(c, i), self.sizes[c])

    cdef Py_ssize_t take(self, Py_ssize_t size_class, uint32_t owner) except -1 nogil:
        """Return the number of a new block of this class. Its contents are arbitrary, except the owner."""
        cdef Py_ssize_t c = size_class, i = self.counts[c], room
        cdef void* fresh
        if i == self.n_pages[c] * self.per_page[c]:
            if self.n_pages[c] == self.page_rooms[c]:
                room = self.page_rooms[c] + self.page_rooms[c] // 16 + 4
                fresh = PyMem_RawRealloc(self.pages[c], room * sizeof(char*))
                if fresh == NULL:
                    with gil:
                        raise MemoryError("cannot allocate the table of pages of a fleet")
                self.held += (room - self.page_rooms[c]) * sizeof(char*)
                self.pages[c], self.page_rooms[c] = <char**> fresh, room
            fresh = PyMem_RawRealloc(NULL, self.page_bytes[c])
            if fresh == NULL:
                with gil:
                    raise MemoryError(f"cannot allocate {self.page_bytes[c]:,} bytes for a fleet")
            self.pages[c][self.n_pages[c]] = <char*> fresh
            self.n_pages[c] += 1
            self.held += self.page_bytes[c]
        self.counts[c] += 1
        self.used += self.sizes[c]
        (<uint32_t*> self.block(c, i))[0] = owner
        return i

    cdef Py_ssize_t give_back(self, Py_ssize_t size_class, Py_ssize_t i) noexcept nogil:
        """Free block i of a class. Return the owner of the block that has this number now, or -1 if there is none."""
        cdef Py_ssize_t c = size_class, last = self.counts[c] - 1, owner = -1, needed, room
        cdef void* shorter
        if i != last:
            memcpy(self.block(c, i), self.block(c, last), self.sizes[c])
            owner = (<uint32_t*> self.block(c, i))[0]
        self.counts[c] = last
        self.used -= self.sizes[c]
        needed = (last + self.per_page[c] - 1) // self.per_page[c]
        while self.n_pages[c] > needed:
            self.n_pages[c] -= 1
            PyMem_RawFree(self.pages[c][self.n_pages[c]])
            self.held -= self.page_bytes[c]
        if self.page_rooms[c] > self.n_pages[c] + self.n_pages[c] // 8 + 16:
            room = self.n_pages[c] + self.n_pages[c] // 16 + 4
            shorter = PyMem_RawRealloc(self.pages[c], room * sizeof(char*))
            if shorter != NULL:
                self.held -= (self.page_rooms[c] - room) * sizeof(char*)
                self.pages[c], self.page_rooms[c] = <char**> shorter, room
        return owner


cdef Py_ssize_t* numbers(Py_ssize_t n) except NULL:
    """Return n numbers, all 0."""
    cdef void* fresh = PyMem_RawCalloc(n, sizeof(Py_ssize_t))
    if fresh == NULL:
        raise MemoryError("cannot allocate the tables of a fleet")
    return <Py_ssize_t*> fresh
