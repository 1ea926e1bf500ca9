from libc.stdint cimport int64_t, uint32_t, uint64_t
from numpy.random cimport bitgen_t

from budgetron._core.block_layout cimport BlockLayout, Parts
from budgetron._core.block_store cimport BlockStore
from budgetron._core.fleet_states cimport FleetStates, KeyRecord
from budgetron._core.one_round cimport SingleRound
from budgetron._core.pcg cimport Pcg
from budgetron._core.rounds cimport Learner
from budgetron._core.rows cimport BatchRows
from budgetron._core.rule cimport Rule
from budgetron._core.supports cimport Supports

# What is kept of each key besides its supports. `shrinking` is the sum of (1 - phi) / (1 + phi), and `free_square` the
# squared norm that is left in the free slot below `top`.
ctypedef struct Record:
    KeyRecord key
    double damage, shrinking, free_square
    uint32_t block, m, top, unused


cdef class KernelFleet(FleetStates):
    # The learner into which the state of one key at a time is loaded, and its parts
    cdef readonly Learner learner
    cdef Rule rule
    cdef Supports supports
    cdef SingleRound single
    cdef Py_ssize_t loaded
    # The blocks
    cdef readonly BlockLayout layout
    cdef readonly BlockStore store
    cdef Py_ssize_t page
    cdef Py_ssize_t d, itemsize, budget
    cdef bint draws, shrinks
    # The generator of the learner's rule; of each key the words that change: two, and the spare one with its flag
    cdef bitgen_t bits
    cdef Pcg pcg, first_pcg
    cdef uint64_t* words
    cdef object backup  # the states before a batch, to be restored after an error

    cdef inline Record* record(self, Py_ssize_t number) noexcept nogil:
        return <Record*> self.records + number

    cdef inline char* block_of(self, Py_ssize_t number) noexcept nogil:
        """Return the block of a key, which has supports."""
        return self.store.block(self.layout.class_of(self.record(number).m), self.record(number).block)

    cdef void release(self, Py_ssize_t size_class, Py_ssize_t block) noexcept nogil
    cdef void load_words(self, Py_ssize_t number, Pcg* pcg) noexcept nogil
    cdef void store_words(self, Py_ssize_t number, Pcg* pcg) noexcept nogil
    cdef int load(self, Py_ssize_t number) except -1 nogil
    cdef void unpack(self, Py_ssize_t number, Supports supports, Rule rule) noexcept nogil
    cdef int pack(self, Py_ssize_t number, bint compact) except -1 nogil
    cdef int open_row(self, BatchRows rows, Py_ssize_t i) except -1 nogil

    # Defined by a fleet with a limit of memory
    cdef int observe(self, Py_ssize_t number, double label, double offset) except -1 nogil
    cdef void forget_statistics(self, Py_ssize_t number) noexcept nogil
