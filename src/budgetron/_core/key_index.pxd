from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef class KeyIndex:
    cdef readonly bint text  # whether keys are text; otherwise they are integers
    cdef readonly Py_ssize_t n  # number of keys
    cdef Py_ssize_t room
    # The key of each number: an integer, or where its text starts in `pool`
    cdef int64_t* keys
    # Texts as their length (4 bytes) and UTF-8
    cdef char* pool
    cdef Py_ssize_t pool_used, pool_room, pool_unused
    # Open addressing: a number + 1 in each used slot, 0 in free ones
    cdef uint32_t* table
    cdef uint64_t mask
    cdef uint64_t seed

    cdef uint64_t hash_text(self, const char* text, Py_ssize_t length) noexcept nogil
    cdef uint64_t hash_of(self, Py_ssize_t number) noexcept nogil
    cdef Py_ssize_t find_int(self, int64_t key) noexcept nogil
    cdef Py_ssize_t find_text(self, const char* text, Py_ssize_t length) noexcept nogil
    cdef int make_room(self, Py_ssize_t more) except -1 nogil
    cdef uint64_t slots_for(self, Py_ssize_t n) noexcept nogil
    cdef int make_table(self, uint64_t slots) except -1 nogil
    cdef void enter(self, Py_ssize_t number) noexcept nogil
    cdef int add_text(self, const char* text, Py_ssize_t length) except -1 nogil
    cdef Py_ssize_t slot_of(self, Py_ssize_t number) noexcept nogil
