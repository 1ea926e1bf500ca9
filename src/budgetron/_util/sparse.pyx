# cython: cdivision=True
"""Checks of sparse matrices, whose index arrays SciPy and the compiled core use without checking them.

Index arrays are ordinary attributes: they may have been changed after the matrix was made, also after SciPy has cached
that they are in order. So the flags of a matrix (`has_sorted_indices`, `has_canonical_format`) are not trusted.
"""

from libc.stdint cimport int32_t, int64_t

cimport numpy as cnp

import numpy as np

cnp.import_array()

ctypedef fused index_type:
    int32_t
    int64_t

# What one entry of `indptr` describes, by format.
MAJOR = {"csr": "row", "csc": "column", "bsr": "block row"}


def check_sparse(X):
    """Raise `ValueError`, naming the row, if an index array of a sparse matrix is invalid.

    Call it before anything else reads the matrix. Return whether it is CSR in canonical form: in each row, the features
    are in ascending order, each once. Formats that are not made of index arrays (LIL, DOK, DIA) are not checked.
    """
    if X.format in MAJOR:
        return check_compressed(X) and X.format == "csr"
    if X.format == "coo":
        for axis, (places, n) in enumerate(zip(X.coords, X.shape, strict=True)):
            wrong = np.flatnonzero((places < 0) | (places >= n))
            if len(wrong):
                raise ValueError(f"X must have indices from 0 to {n - 1} along axis {axis}; entry {wrong[0]} of its "
                                 f"coordinates is {places[wrong[0]]}")
            if len(places) != len(X.data):
                raise ValueError(f"X must have one index per value; it has {len(places)} along axis {axis}, and "
                                 f"{len(X.data)} values")
    return False


cdef bint check_compressed(X) except -1:
    """Check a matrix in a compressed format, and return whether its indices are in order, each once."""
    cdef int64_t major, minor, k
    cdef Py_ssize_t stored = min(len(X.indices), len(X.data))
    what = MAJOR[X.format]
    rows, columns = (1, *X.shape) if X.ndim == 1 else X.shape
    if X.format == "bsr":
        rows, columns = rows // X.blocksize[0], columns // X.blocksize[1]
    major, minor = (columns, rows) if X.format == "csc" else (rows, columns)
    starts, indices = X.indptr, X.indices
    for name, array in (("indptr", starts), ("indices", indices)):
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(f"{name} of X must be a one-dimensional array of integers")
    if len(starts) != major + 1:
        raise ValueError(f"indptr of X must have {major + 1} entries, one more than X has {what}s; it has {len(starts)}")
    # Unsigned indices are rare; those that do not fit into 64 bits become negative.
    common = np.int32 if starts.dtype == indices.dtype == np.int32 else np.int64
    starts, indices = np.ascontiguousarray(starts, common), np.ascontiguousarray(indices, common)
    if common is np.int32:
        k = first_wrong[int32_t](starts, indices, minor, stored)
    else:
        k = first_wrong[int64_t](starts, indices, minor, stored)
    if k >= 0:
        begin, end = starts[k].item(), starts[k + 1].item()
        if begin < 0 or end < begin or end > stored or (k == 0 and begin != 0):
            raise ValueError(f"indptr of X must ascend from 0 to at most {stored}, the number of stored values; {what} "
                             f"{k} goes from {begin} to {end}")
        wrong = next(index for index in indices[begin:end].tolist() if not 0 <= index < minor)
        raise ValueError(f"X must have indices from 0 to {minor - 1}; {what} {k} has the index {wrong}")
    return k == IN_ORDER


cdef enum:
    IN_ORDER = -1
    UNORDERED = -2


cdef int64_t first_wrong(const index_type[::1] starts, const index_type[::1] indices, int64_t minor,
                         int64_t stored) noexcept nogil:
    """Return the first row that is invalid; without one, IN_ORDER or UNORDERED."""
    cdef Py_ssize_t i, e, begin = 0, end
    cdef int64_t state = IN_ORDER
    cdef index_type unordered
    if starts[0] != 0:
        return 0
    for i in range(starts.shape[0] - 1):
        end = starts[i + 1]
        if end < begin or end > stored:
            return i
        if begin == end:
            continue
        unordered = 0  # of the type of the indices, so that the compiler can compare several at once
        for e in range(begin + 1, end):
            unordered |= indices[e - 1] >= indices[e]
        if unordered:
            state = UNORDERED
            for e in range(begin, end):
                if indices[e] < 0 or indices[e] >= minor:
                    return i
        elif indices[begin] < 0 or indices[end - 1] >= minor:
            return i
        begin = end
    return state
