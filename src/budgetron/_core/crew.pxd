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
    cdef readonly int workers
    cdef Shared shared
    cdef Helper* helpers

    cdef void run(self, Task task, void* data, Py_ssize_t count) noexcept nogil
