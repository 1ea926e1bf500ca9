from libc.stdint cimport int32_t, int64_t

from budgetron._core.kernel_values cimport Form, Index, Kind, Rows

# What worker threads need to compare a block of rows with the slots of a slab. A task is one chunk of slots.
ctypedef struct Comparison:
    Form* kernel
    Kind kind
    Rows* rows
    Index* index
    void* spread
    bint sparse, single
    void* columns
    Py_ssize_t stride
    int64_t* begins
    int32_t* lengths
    int32_t* features
    void* values
    void* square
    double* own
    Py_ssize_t top, ld, chunk
    void* out
    char* tiles
    Py_ssize_t tile


cdef void compare(void* data, Py_ssize_t number, int worker) noexcept nogil
