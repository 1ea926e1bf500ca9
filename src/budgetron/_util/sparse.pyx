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
    are in ascending order, each once.
    """
    if X.format in MAJOR:
        return check_compressed(X) and X.format == "csr"
    if X.format == "coo":
        check_coordinates(X)
    elif X.format == "dia":
        require_array(X.data, 2, "data")
        require_indices(X.offsets, "offsets")
        if len(X.offsets) != len(X.data):
            raise ValueError(f"offsets of X must have {len(X.data)} entries, one per diagonal; it has {len(X.offsets)}")
    elif X.format == "lil":
        check_lists(X)
    elif X.format == "dok":
        check_keys(X)
    else:
        raise ValueError(f"X must be a sparse matrix in a format of SciPy, such as CSR; got {X.format!r}")
    return False


cdef int require_array(array, int ndim, str name) except -1:
    if not isinstance(array, np.ndarray) or array.ndim != ndim:
        raise ValueError(f"{name} of X must be an array of {ndim} dimension{'s' if ndim > 1 else ''}")
    return 0


cdef int require_indices(array, str name) except -1:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} of X must be a one-dimensional array of integers")
    return 0


cdef int check_coordinates(X) except -1:
    """Check a matrix in COO format."""
    require_array(X.data, 1, "data")
    for axis, (places, n) in enumerate(zip(X.coords, X.shape, strict=True)):
        require_indices(places, "coordinates")
        wrong = np.flatnonzero((places < 0) | (places >= n))
        if len(wrong):
            raise ValueError(f"X must have indices from 0 to {n - 1} along axis {axis}; entry {wrong[0]} of its "
                             f"coordinates is {places[wrong[0]]}")
        if len(places) != len(X.data):
            raise ValueError(f"X must have one index per value; it has {len(places)} along axis {axis}, and "
                             f"{len(X.data)} values")
    return 0


cdef int check_lists(X) except -1:
    """Check a matrix in LIL format: a list of indices and a list of values for each row."""
    rows, columns = X.shape
    for name, lists in (("rows", X.rows), ("data", X.data)):
        if not isinstance(lists, np.ndarray) or lists.shape != (rows,):
            raise ValueError(f"{name} of X must be an array of {rows} lists")
    for i, (indices, values) in enumerate(zip(X.rows, X.data)):
        if type(indices) is not list or type(values) is not list or len(indices) != len(values):
            raise ValueError(f"row {i} of X must have a list of indices and one of values, of the same length")
        for index in indices:
            if not isinstance(index, (int, np.integer)) or not 0 <= index < columns:
                raise ValueError(f"X must have indices from 0 to {columns - 1}; row {i} has the index {index!r}")
    return 0


cdef int check_keys(X) except -1:
    """Check a matrix in DOK format: a dict from places to values."""
    for key in X.keys():
        places = key if isinstance(key, tuple) else (key,)
        if len(places) != X.ndim or not all(
            isinstance(place, (int, np.integer)) and 0 <= place < n for place, n in zip(places, X.shape)
        ):
            raise ValueError(f"X must have places within its shape {X.shape}; it has {key!r}")
    return 0


cdef bint check_compressed(X) except -1:
    """Check a matrix in a compressed format, and return whether its indices are in order, each once."""
    cdef int64_t major, minor, k
    cdef Py_ssize_t stored
    what, starts, indices = MAJOR[X.format], X.indptr, X.indices
    require_array(X.data, 3 if X.format == "bsr" else 1, "data")
    require_indices(starts, "indptr")
    require_indices(indices, "indices")
    stored = min(len(indices), len(X.data))
    rows, columns = (1, *X.shape) if X.ndim == 1 else X.shape
    if X.format == "bsr":
        height, width = X.data.shape[1:]
        if not height or not width or rows % height or columns % width:
            raise ValueError(f"blocks of X must divide its shape {X.shape}; they have the shape {(height, width)}")
        rows, columns = rows // height, columns // width
    major, minor = (columns, rows) if X.format == "csc" else (rows, columns)
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
