"""Threads that share the work of one batch, and end with it.

The threads are started when there is first work for them, and sleep between tasks. None of them outlives the batch, so
that a fork cannot lose one and the interpreter need not wait for one at exit. Tasks are handed out one at a time, so
that a slow thread gets fewer. They run without the interpreter lock. With a limit of one thread, the caller does all
tasks.
"""

from cpython.pythread cimport (
    PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock, PyThread_start_new_thread,
)
from libc.stdlib cimport calloc, free

cdef unsigned long REFUSED = <unsigned long> -1


cdef void do_tasks(Shared* shared, int worker) noexcept nogil:
    """Do tasks until there are no more."""
    cdef Py_ssize_t number
    while True:
        PyThread_acquire_lock(shared.claim, 1)
        number = shared.next
        shared.next += 1
        PyThread_release_lock(shared.claim)
        if number >= shared.count:
            return
        shared.task(shared.data, number, worker)


cdef void run_thread(void* data) noexcept nogil:
    """Wait for tasks and do them, until the workers end."""
    cdef Worker* thread = <Worker*> data
    while True:
        PyThread_acquire_lock(thread.go, 1)
        if thread.shared.over:
            PyThread_release_lock(thread.done)  # after this the worker may be freed
            return
        do_tasks(thread.shared, thread.number)
        PyThread_release_lock(thread.done)


cdef class Workers:
    """At most `limit` threads, including the caller's."""

    def __cinit__(self, int limit):
        self.limit, self.count = max(limit, 1), 1
        self.shared.claim = PyThread_allocate_lock()
        self.threads = <Worker*> calloc(self.limit, sizeof(Worker))
        if self.shared.claim == NULL or self.threads == NULL:
            raise MemoryError

    cdef int start(self) except -1 nogil:
        """Start the threads if they are not running; fewer if the system refuses."""
        cdef Worker* thread
        if self.count == self.limit:
            return 0
        with gil:
            while self.count < self.limit:
                thread = &self.threads[self.count]
                thread.shared, thread.number = &self.shared, self.count
                thread.go, thread.done = PyThread_allocate_lock(), PyThread_allocate_lock()
                if thread.go == NULL or thread.done == NULL:
                    free_locks(thread)
                    break
                PyThread_acquire_lock(thread.go, 1)
                PyThread_acquire_lock(thread.done, 1)
                if PyThread_start_new_thread(run_thread, thread) == REFUSED:
                    free_locks(thread)
                    break
                self.count += 1
            self.limit = self.count
        return 0

    def __dealloc__(self):
        cdef int i
        self.shared.over = True
        for i in range(1, self.count):
            PyThread_release_lock(self.threads[i].go)
            PyThread_acquire_lock(self.threads[i].done, 1)
            free_locks(&self.threads[i])
        free(self.threads)
        if self.shared.claim != NULL:
            PyThread_free_lock(self.shared.claim)

    cdef void run(self, Task task, void* data, Py_ssize_t n) noexcept nogil:
        """Do tasks 0 to n - 1, and return when all are done."""
        cdef int i, called = <int> min(self.count, n)
        self.shared.task, self.shared.data = task, data
        self.shared.next, self.shared.count = 0, n
        for i in range(1, called):
            PyThread_release_lock(self.threads[i].go)
        do_tasks(&self.shared, 0)
        for i in range(1, called):
            PyThread_acquire_lock(self.threads[i].done, 1)


cdef void free_locks(Worker* thread):
    if thread.go != NULL:
        PyThread_free_lock(thread.go)
    if thread.done != NULL:
        PyThread_free_lock(thread.done)
    thread.go = thread.done = NULL
