from libc.stdint cimport int64_t, uint32_t, uint64_t
from numpy.random cimport bitgen_t

from budgetron._core.block_store cimport BlockStore
from budgetron._core.one_round cimport SingleRound
from budgetron._core.pcg cimport Pcg
from budgetron._core.rounds cimport Learner
from budgetron._core.rows cimport BatchRows
from budgetron._core.rule cimport Rule
from budgetron._core.supports cimport Supports

# What is kept of each key besides its supports. `shrinking` is the sum of (1 - phi) / (1 + phi), `free_square` the
# squared norm that is left in the free slot below `top`, and `last` the row of the fleet that was the key's last one.
ctypedef struct Record:
    int64_t rounds, mistakes, last
    double factor, norm2, peak, damage, shrinking, free_square
    uint32_t block, m, top, unused

# The arrays of a block
ctypedef struct Parts:
    double* coef
    double* tail
    double* own
    uint64_t* stamps
    char* square
    char* rows


cdef class KernelFleet:
    # The learner into which the state of one key at a time is loaded, and its parts
    cdef readonly Learner learner
    cdef Rule rule
    cdef Supports supports
    cdef SingleRound single
    cdef Py_ssize_t loaded
    # The keys
    cdef readonly Py_ssize_t n
    cdef Py_ssize_t room
    cdef Record* records
    cdef readonly BlockStore store
    cdef readonly list block_bytes  # of the size classes
    cdef Py_ssize_t page
    cdef Py_ssize_t classes
    cdef Py_ssize_t* capacities
    # How a support is stored
    cdef Py_ssize_t d, itemsize, budget
    cdef bint keeps_tail, keeps_own, draws, shrinks
    # The generator of the learner's rule; of each key the words that change: two, and the spare one with its flag
    cdef bitgen_t bits
    cdef Pcg pcg, first_pcg
    cdef uint64_t* words
    # Rows that all keys have played, and keys that were forgotten
    cdef public int64_t rows
    cdef readonly int64_t idle
    cdef public int64_t expired
    cdef public int64_t next_scan

    cdef Py_ssize_t class_of(self, Py_ssize_t m) noexcept nogil
    cdef Parts parts_of(self, char* block, Py_ssize_t capacity) noexcept nogil
    cdef char* block_of(self, Py_ssize_t number) noexcept nogil
    cdef void start(self, Py_ssize_t number) noexcept nogil
    cdef int load(self, Py_ssize_t number) except -1 nogil
    cdef void unpack(self, Py_ssize_t number, Supports supports, Rule rule) noexcept nogil
    cdef int pack(self, Py_ssize_t number, bint compact) except -1 nogil
    cdef int reset(self, Py_ssize_t number) except -1 nogil
    cdef void release(self, Py_ssize_t size_class, Py_ssize_t block) noexcept nogil
    cdef int open_row(self, BatchRows rows, Py_ssize_t i) except -1 nogil
    cdef double margin(self, Py_ssize_t number, BatchRows rows, Py_ssize_t i) except? -1 nogil
    cdef int learn(self, Py_ssize_t number, double label, double offset) except -1 nogil
    cdef int scan(self) except -1 nogil
    cdef void prefetch(self, Py_ssize_t number) noexcept nogil

    # Defined by a fleet with a limit of memory
    cdef int observe(self, Py_ssize_t number, double label, double offset) except -1 nogil
    cdef int limit_memory(self, Py_ssize_t number) except -1 nogil
    cdef void forget_statistics(self, Py_ssize_t number) noexcept nogil
