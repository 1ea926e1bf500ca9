# cython: cdivision=True
"""Running sums of columns, row by row: standardise rows, or fill their gaps, by the rows so far.

The columns of a state are those of `budgetron.streams._running.Running`. The sums are updated in place.
"""

from libc.math cimport sqrt

cimport numpy as cnp

cnp.import_array()

# The rows of a state, in this order.
cdef enum:
    ORIGIN
    REFERENCE
    COUNT
    SQUARES
    SINCE
    SUM1
    SUM2


def standardise(const double[:, ::1] rows not None, double[:, ::1] state not None, double[:, ::1] out not None):
    """Write (x - mean) / std of each row, where both include it; 0 where std is 0 or x is NaN."""
    check(rows, state, out)
    cdef Py_ssize_t i, j, width = rows.shape[1]
    cdef double distance, n, deviation
    with nogil:
        for i in range(rows.shape[0]):
            for j in range(width):
                distance = add(rows[i, j], &state[0, j], width)
                n = values_so_far(&state[0, j], width)
                deviation = (state[SUM2, j] - state[SUM1, j] * state[SUM1, j] / n) + state[SQUARES, j]
                deviation = sqrt(max(deviation, 0.0) / n)
                distance = (distance - state[SUM1, j] / n) / (1.0 if deviation == 0.0 else deviation)
                out[i, j] = 0.0 if deviation == 0.0 or rows[i, j] != rows[i, j] else distance


def fill(const double[:, ::1] rows not None, double[:, ::1] state not None, double[:, ::1] out not None):
    """Write the rows, with the mean of the earlier rows where a value is NaN; 0 if there is no earlier value."""
    check(rows, state, out)
    cdef Py_ssize_t i, j, width = rows.shape[1]
    cdef double mean
    with nogil:
        for i in range(rows.shape[0]):
            for j in range(width):
                out[i, j] = rows[i, j]
                if rows[i, j] != rows[i, j]:
                    mean = state[REFERENCE, j] + state[SUM1, j] / values_so_far(&state[0, j], width)
                    out[i, j] = 0.0 if state[COUNT, j] + state[SINCE, j] == 0.0 else state[ORIGIN, j] + mean
                add(rows[i, j], &state[0, j], width)


cdef check(const double[:, ::1] rows, double[:, ::1] state, double[:, ::1] out):
    if state.shape[0] != 7 or state.shape[1] != rows.shape[1]:
        raise ValueError("the state is not that of these columns")
    if out.shape[0] != rows.shape[0] or out.shape[1] != rows.shape[1]:
        raise ValueError("the results do not have the shape of the rows")


cdef inline double add(double x, double* state, Py_ssize_t width) noexcept nogil:
    """Add a value to the sums of a column, unless it is NaN; return its distance from the reference, or 0."""
    cdef bint gap = x != x
    cdef double distance = 0.0 if gap else x - state[ORIGIN * width] - state[REFERENCE * width]
    state[SINCE * width] += 0.0 if gap else 1.0
    state[SUM1 * width] += distance
    state[SUM2 * width] += distance * distance
    return distance


cdef inline double values_so_far(const double* state, Py_ssize_t width) noexcept nogil:
    return max(state[COUNT * width] + state[SINCE * width], 1.0)
