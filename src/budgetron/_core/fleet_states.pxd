from libc.stdint cimport int64_t

from budgetron._core.rows cimport BatchRows

# What is kept of each key of every fleet. `last` is the row of the fleet that was the key's last one.
ctypedef struct KeyRecord:
    int64_t rounds, mistakes, last
    double factor, norm2, peak


cdef class FleetStates:
    cdef readonly Py_ssize_t n
    # Records of `record_size` bytes, which begin with a KeyRecord, and how many there is room for
    cdef char* records
    cdef Py_ssize_t record_size, room
    # Rows that all keys have played, and keys that were forgotten
    cdef public int64_t rows
    cdef readonly int64_t idle
    cdef public int64_t expired
    cdef public int64_t next_scan

    cdef inline KeyRecord* key_record(self, Py_ssize_t number) noexcept nogil:
        return <KeyRecord*> (self.records + number * self.record_size)

    cdef inline bint is_overdue(self, Py_ssize_t number) noexcept nogil:
        """Return whether a key had none of the last `idle` rows."""
        return self.idle > 0 and self.key_record(number).last + self.idle < self.rows

    cdef int scan(self) except -1 nogil

    # Defined by a fleet of kernel or linear learners. The first two are for arrays besides the records.
    cdef int make_room(self, Py_ssize_t room) except -1
    cdef void move(self, Py_ssize_t number, Py_ssize_t to) noexcept nogil
    cdef void start(self, Py_ssize_t number) noexcept nogil
    cdef int reset(self, Py_ssize_t number) except -1 nogil
    cdef Py_ssize_t size_of(self, Py_ssize_t number) noexcept nogil
    cdef void prefetch(self, Py_ssize_t number) noexcept nogil
    cdef double margin(self, Py_ssize_t number, BatchRows rows, Py_ssize_t i) except? -1 nogil
    cdef int learn(self, Py_ssize_t number, BatchRows rows, Py_ssize_t i, double label, double offset,
                   double importance) except -1 nogil
    cdef int limit_memory(self, Py_ssize_t number) except -1 nogil


cdef void* resized(void* array, Py_ssize_t bytes) except NULL
