"""Checks of the numbers in an array, for arrays that are too short for NumPy's functions to be fast."""

from libc.math cimport INFINITY, fabs, isfinite

cimport numpy as cnp

import numpy as np

cnp.import_array()

ctypedef fused real:
    float
    double


def largest(cnp.ndarray values not None):
    """Return the largest absolute value of an array of numbers; infinity if one is not finite."""
    if cnp.PyArray_TYPE(values) == cnp.NPY_FLOAT32 and cnp.PyArray_ISCARRAY_RO(values):
        return largest_of(<float*> values.data, cnp.PyArray_SIZE(values))
    if cnp.PyArray_TYPE(values) != cnp.NPY_FLOAT64 or not cnp.PyArray_ISCARRAY_RO(values):
        values = np.ascontiguousarray(values, np.float64)
    return largest_of(<double*> values.data, cnp.PyArray_SIZE(values))


cdef double largest_of(real* values, Py_ssize_t n) noexcept nogil:
    cdef double most = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        if not isfinite(values[i]):
            return INFINITY
        most = max(most, fabs(values[i]))
    return most
