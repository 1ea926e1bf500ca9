from cpython.pythread cimport PyThread_type_lock

ctypedef void (*Task)(void* data, Py_ssize_t number, int worker) noexcept nogil

ctypedef struct Shared:
    Task task
    void* data
    Py_ssize_t next, count
    bint over
    PyThread_type_lock claim

ctypedef struct Helper:
    Shared* shared
    int number
    PyThread_type_lock go, done


cdef class Crew:
    cdef readonly int most, workers
    cdef bint busy  # whether the last block had work for them all
    cdef Shared shared
    cdef Helper* helpers

    cdef int hire(self) except -1 nogil
    cdef void run(self, Task task, void* data, Py_ssize_t count) noexcept nogil
