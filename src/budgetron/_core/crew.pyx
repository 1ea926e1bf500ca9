"""Threads that share the work of one batch, and are gone when it is done.

A crew is hired for a batch and sleeps between its tasks: nothing spins, and nothing is left that a
fork could lose or an exit could wait for. Tasks are handed out one by one, so that a worker that is held up takes
fewer. They run without the interpreter, and one at a time in a crew of one.
"""

from cpython.pythread cimport (
    PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock, PyThread_start_new_thread,
)
from libc.stdlib cimport calloc, free

cdef unsigned long REFUSED = <unsigned long> -1


cdef void work(Shared* shared, int worker) noexcept nogil:
    cdef Py_ssize_t number
    while True:
        PyThread_acquire_lock(shared.claim, 1)
        number = shared.next
        shared.next += 1
        PyThread_release_lock(shared.claim)
        if number >= shared.count:
            return
        shared.task(shared.data, number, worker)


cdef void help_out(void* data) noexcept nogil:
    cdef Helper* helper = <Helper*> data
    while True:
        PyThread_acquire_lock(helper.go, 1)
        if helper.shared.over:
            PyThread_release_lock(helper.done)  # the last that is touched here
            return
        work(helper.shared, helper.number)
        PyThread_release_lock(helper.done)


cdef class Crew:
    """At most `most` threads, the caller's among them, hired when there is first work for them."""

    def __cinit__(self, int most):
        self.most, self.workers = max(most, 1), 1
        self.shared.claim = PyThread_allocate_lock()
        self.helpers = <Helper*> calloc(self.most, sizeof(Helper))
        if self.shared.claim == NULL or self.helpers == NULL:
            raise MemoryError

    cdef int hire(self) except -1 nogil:
        """Start the threads, if they are not there yet; fewer if the system refuses."""
        cdef Helper* helper
        if self.workers == self.most:
            return 0
        with gil:
            while self.workers < self.most:
                helper = &self.helpers[self.workers]
                helper.shared, helper.number = &self.shared, self.workers
                helper.go, helper.done = PyThread_allocate_lock(), PyThread_allocate_lock()
                if helper.go == NULL or helper.done == NULL:
                    forget(helper)
                    break
                PyThread_acquire_lock(helper.go, 1)
                PyThread_acquire_lock(helper.done, 1)
                if PyThread_start_new_thread(help_out, helper) == REFUSED:
                    forget(helper)
                    break
                self.workers += 1
            self.most = self.workers
        return 0

    def __dealloc__(self):
        cdef int i
        self.shared.over = True
        for i in range(1, self.workers):
            PyThread_release_lock(self.helpers[i].go)
            PyThread_acquire_lock(self.helpers[i].done, 1)
            forget(&self.helpers[i])
        free(self.helpers)
        if self.shared.claim != NULL:
            PyThread_free_lock(self.shared.claim)

    cdef void run(self, Task task, void* data, Py_ssize_t count) noexcept nogil:
        """Do tasks 0 to count - 1, and return when all are done."""
        cdef int i, called = <int> min(self.workers, count)
        self.shared.task, self.shared.data = task, data
        self.shared.next, self.shared.count = 0, count
        for i in range(1, called):
            PyThread_release_lock(self.helpers[i].go)
        work(&self.shared, 0)
        for i in range(1, called):
            PyThread_acquire_lock(self.helpers[i].done, 1)


cdef void forget(Helper* helper):
    if helper.go != NULL:
        PyThread_free_lock(helper.go)
    if helper.done != NULL:
        PyThread_free_lock(helper.done)
    helper.go = helper.done = NULL
