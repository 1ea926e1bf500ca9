# cython: cdivision=True
"""The comparison of a block of rows with the slots of a slab, in tasks that threads can share."""

from budgetron._core.kernel_values cimport over_columns, over_nonzeros, real


cdef void compare(void* data, Py_ssize_t number, int worker) noexcept nogil:
    """Compute the kernel values of chunk `number`; `data` is a Comparison."""
    cdef Comparison* c = <Comparison*> data
    if c.single:
        compare_chunk(c, number, worker, <float*> c.out)
    else:
        compare_chunk(c, number, worker, <double*> c.out)


cdef void compare_chunk(Comparison* c, Py_ssize_t number, int worker, real* out) noexcept nogil:
    cdef Py_ssize_t start = number * c.chunk, stop = min((number + 1) * c.chunk, c.top)
    if c.sparse:
        over_nonzeros(c.kernel, c.kind, c.rows, c.index, <real*> c.spread, c.begins, c.lengths, c.features,
                      <real*> c.values, <real*> c.square, c.own, start, stop, out, c.ld)
    else:
        over_columns(c.kernel, c.kind, c.rows, <real*> c.columns, c.stride, <real*> c.square, c.own, start, stop, out,
                     c.ld, c.tiles + worker * c.tile)
