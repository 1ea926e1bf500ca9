"""The last W scores of a stream: in a ring, in the order of their rounds, and sorted.

Inline functions, so that each module that includes this file has its own copy.
"""

from libc.string cimport memmove


cdef inline Py_ssize_t position(const double* ordered, Py_ssize_t n, double score) noexcept nogil:
    """Return the first place of a sorted array whose number is not below the score."""
    cdef Py_ssize_t low = 0, high = n, middle
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < score:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline void insert_score(double score, double* ring, double* ordered, Py_ssize_t W,
                              Py_ssize_t count) noexcept nogil:
    """Store the next score, after `count` earlier ones; if all W places are in use, in place of the oldest."""
    cdef Py_ssize_t stored = min(count, W), slot = count % W, place
    if stored == W:
        place = position(ordered, stored, ring[slot])
        memmove(ordered + place, ordered + place + 1, (stored - place - 1) * sizeof(double))
        stored -= 1
    place = position(ordered, stored, score)
    memmove(ordered + place + 1, ordered + place, (stored - place) * sizeof(double))
    ordered[place] = score
    ring[slot] = score
