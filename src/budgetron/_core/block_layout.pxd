from libc.stdint cimport uint64_t

from budgetron._core.rule cimport Rule
from budgetron._core.supports cimport Supports

cdef enum:
    # Up to so many supports there is a size class for each number of them.
    EXACT = 64

# The arrays of a block
ctypedef struct Parts:
    double* coef
    double* tail
    double* own
    uint64_t* stamps
    char* square
    char* rows


cdef class BlockLayout:
    cdef Py_ssize_t d, itemsize, budget
    cdef bint keeps_tail, keeps_own
    # The size classes: the most supports of a block, and its bytes
    cdef readonly Py_ssize_t classes
    cdef Py_ssize_t* capacities
    cdef readonly list block_bytes

    cdef inline Py_ssize_t class_of(self, Py_ssize_t m) noexcept nogil:
        """Return the smallest size class for m supports, m > 0."""
        return m - 1 if m <= EXACT else self.search(m)

    cdef inline Parts parts_of(self, char* block, Py_ssize_t size_class) noexcept nogil:
        """Return where the arrays of a block are. Its first 8 bytes are for the owner."""
        cdef Parts parts
        cdef Py_ssize_t capacity = self.capacities[size_class]
        parts.coef = <double*> (block + 8)
        parts.tail = parts.coef + capacity
        parts.own = parts.tail + (capacity if self.keeps_tail else 0)
        parts.stamps = <uint64_t*> (parts.own + (capacity if self.keeps_own else 0))
        parts.square = <char*> (parts.stamps + capacity)
        parts.rows = parts.square + capacity * self.itemsize
        return parts

    cdef Py_ssize_t search(self, Py_ssize_t m) noexcept nogil
    cdef void unpack(self, Parts* parts, double free_square, Supports supports, Rule rule) noexcept nogil
    cdef void pack(self, Parts* old, Parts* new, bint compact, Supports supports, Rule rule) noexcept nogil
    cdef void read(self, Parts* parts, Py_ssize_t m, Parts* arrays, Py_ssize_t first) noexcept nogil
    cdef void write(self, Parts* parts, Py_ssize_t m, Parts* arrays, Py_ssize_t first) noexcept nogil
