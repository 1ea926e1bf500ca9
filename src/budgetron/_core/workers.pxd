from cpython.pythread cimport PyThread_type_lock

ctypedef void (*Task)(void* data, Py_ssize_t number, int worker) noexcept nogil

ctypedef struct Shared:
    Task task
    void* data
    Py_ssize_t next, count
    bint over
    PyThread_type_lock claim

ctypedef struct Worker:
    Shared* shared
    int number
    PyThread_type_lock go, done


cdef class Workers:
    cdef readonly int limit, count
    cdef bint busy  # whether the last block had enough work for all threads
    cdef Shared shared
    cdef Worker* threads

    cdef int start(self) except -1 nogil
    cdef void run(self, Task task, void* data, Py_ssize_t n) noexcept nogil
