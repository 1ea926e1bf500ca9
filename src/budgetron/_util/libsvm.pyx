# cython: cdivision=True
"""Parse lines of LIBSVM files: a label, then `index:value` pairs with ascending indices.

Numbers are those of Python's `float`: short ones are exact products of a whole number and a power of ten, and the
others are converted by Python. A line that is not valid stops the parser; its reader then explains the line.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memchr, memcpy

cimport numpy as cnp

import numpy as np

cnp.import_array()

cdef extern from "Python.h":
    double PyOS_string_to_double(const char*, char**, object) except? -1.0

# Whole numbers below 2^53 and these powers of ten are exact, and so is the rounding of one product or quotient.
cdef double[23] POWERS
POWERS[:] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
             1e19, 1e20, 1e21, 1e22]
# Up to this many different labels are found without the interpreter lock.
cdef enum:
    FEW_LABELS = 64
# Digits are written as differences from 48, the code of "0".
cdef uint64_t LARGEST_EXACT = 1 << 53
# Indices are stored in 32 bits.
cdef int64_t TOO_LARGE = 2147483648
# No number that is written in a file needs more characters than this.
cdef Py_ssize_t LONGEST = 1000


def parse(bytes data not None, bint zero_based, int64_t width=-1, bint constant=False):
    """Return (labels, ends, indices, values) of the rows in whole lines; None if a line is not valid.

    Row i has the entries from ends[i] to ends[i + 1]. Indices count from 0. If `width` is not negative, indices must be
    below it. With `constant`, each row then ends with the value 1 at the index `width`.
    """
    cdef const char* text = data
    cdef Py_ssize_t size = len(data)
    cdef Py_ssize_t most_rows, most_entries
    with nogil:
        most_rows, most_entries = occurrences(text, size, b"\n") + 1, occurrences(text, size, b":")
    if constant:
        if width < 0:
            raise ValueError("the constant needs the number of features")
        if width >= TOO_LARGE:
            raise ValueError(f"rows of {width:,} features need too much memory; the most are {TOO_LARGE - 1:,}")
        most_entries += most_rows
    cdef cnp.ndarray labels = np.empty(most_rows), values = np.empty(most_entries)
    cdef cnp.ndarray ends = np.zeros(most_rows + 1, np.int64), indices = np.empty(most_entries, np.int32)
    cdef int64_t n_rows
    with nogil:
        n_rows = parse_lines(text, size, zero_based, width, constant, <double*> labels.data, <int64_t*> ends.data,
                             <int32_t*> indices.data, <double*> values.data)
    if n_rows < 0:
        return None
    entries = int(ends[n_rows])
    return labels[:n_rows], ends[: n_rows + 1], indices[:entries], values[:entries]


def survey(bytes data not None):
    """Return the distinct labels, the largest last index of a line, and the number of rows; None if unsure.

    Reads only the first and the last field of each line, so that it is much faster than `parse`. Lines are not checked,
    except that labels and last indices must be numbers.
    """
    cdef const char* text = data
    cdef Py_ssize_t size = len(data), at = 0, end, last
    cdef double label = 0.0
    cdef double[FEW_LABELS] first
    cdef int64_t largest = -1, index, n_rows = 0
    cdef int i, n_first = 0
    cdef bint unsure = False
    others = set()
    with nogil:
        while at < size:
            end = line_end(text, at, size)
            at = skip_spaces(text, at, end)
            if at < end and text[at] != b"#":
                if memchr(text + at, b"#", end - at) != NULL:
                    unsure = True
                    break
                at = number(text, at, end, &label)
                if at < 0 or not isfinite(label):
                    unsure = True
                    break
                i = 0
                while i < n_first and first[i] != label:
                    i += 1
                if i == n_first and n_first < FEW_LABELS:
                    first[n_first] = label
                    n_first += 1
                elif i == n_first:
                    with gil:
                        others.add(label)
                n_rows += 1
                last = end - 1
                while last >= at and text[last] != b":":
                    last -= 1
                if last >= at:
                    index = index_before(text, at, last)
                    if index < 0:
                        unsure = True
                        break
                    largest = max(largest, index)
            at = end + 1
    if unsure:
        return None
    return sorted(others.union([first[i] for i in range(n_first)])), largest, n_rows


cdef Py_ssize_t occurrences(const char* text, Py_ssize_t size, char c) noexcept nogil:
    cdef Py_ssize_t i, found = 0
    for i in range(size):
        found += text[i] == c
    return found


cdef int64_t parse_lines(const char* text, Py_ssize_t size, bint zero_based, int64_t width, bint constant, double* labels,
                         int64_t* ends, int32_t* indices, double* values) noexcept nogil:
    """Return the number of rows; -1 if a line is not valid."""
    cdef Py_ssize_t at = 0, end
    cdef int64_t n_rows = 0, entry = 0, index, last, first = 0 if zero_based else 1
    while at < size:
        end = line_end(text, at, size)
        at = skip_spaces(text, at, end)
        if at < end and text[at] != b"#":
            at = number(text, at, end, &labels[n_rows])
            if at < 0 or not isfinite(labels[n_rows]):
                return -1
            last = first - 1
            while True:
                if at < end and not is_space(text[at]) and text[at] != b"#":
                    return -1  # something follows a number without a space
                at = skip_spaces(text, at, end)
                if at == end or text[at] == b"#":
                    break
                if end - at > 4 and text[at] == b"q" and text[at + 1] == b"i" and text[at + 2] == b"d" \
                        and text[at + 3] == b":":
                    at += 4
                    while at < end and b"0" <= text[at] <= b"9":
                        at += 1
                    continue
                index = 0
                if not b"0" <= text[at] <= b"9":
                    return -1
                while at < end and b"0" <= text[at] <= b"9":
                    index = 10 * index + text[at] - 48
                    if index >= TOO_LARGE:
                        return -1
                    at += 1
                if at == end or text[at] != b":" or index <= last:
                    return -1
                last = index
                at = number(text, at + 1, end, &values[entry])
                if at < 0 or not isfinite(values[entry]):
                    return -1
                if 0 <= width <= index - first:
                    return -1
                indices[entry] = <int32_t> (index - first)
                entry += 1
            if constant:
                indices[entry], values[entry] = <int32_t> width, 1.0
                entry += 1
            n_rows += 1
            ends[n_rows] = entry
        at = end + 1
    return n_rows


cdef Py_ssize_t line_end(const char* text, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    cdef const char* found = <const char*> memchr(text + at, b"\n", size - at)
    return size if found == NULL else found - text


cdef bint is_space(char c) noexcept nogil:
    return c == b" " or c == b"\t" or c == b"\r" or c == b"\v" or c == b"\f"


cdef Py_ssize_t skip_spaces(const char* text, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    while at < end and is_space(text[at]):
        at += 1
    return at


cdef int64_t index_before(const char* text, Py_ssize_t start, Py_ssize_t colon) noexcept nogil:
    """Return the whole number that ends at a colon; -1 if there is none."""
    cdef int64_t index = 0, power = 1
    cdef Py_ssize_t at = colon - 1
    while at >= start and b"0" <= text[at] <= b"9":
        if colon - at > 10:
            return -1
        index += power * (text[at] - 48)
        power *= 10
        at -= 1
    return index if at < colon - 1 and at >= start and is_space(text[at]) else -1


cdef Py_ssize_t number(const char* text, Py_ssize_t at, Py_ssize_t end, double* value) noexcept nogil:
    """Read a number; return the place after it, or -1 if there is no number."""
    cdef Py_ssize_t start = at
    cdef uint64_t whole = 0
    cdef int digits = 0, exponent = 0, written = 0
    cdef bint negative = False, below = False, seen = False
    if at < end and (text[at] == b"-" or text[at] == b"+"):
        negative = text[at] == b"-"
        at += 1
    while at < end and b"0" <= text[at] <= b"9":
        seen = True
        if digits < 19:
            whole = 10 * whole + <uint64_t> (text[at] - 48)
            digits += whole > 0
        else:
            return slow_number(text, start, end, value)
        at += 1
    if at < end and text[at] == b".":
        at += 1
        while at < end and b"0" <= text[at] <= b"9":
            seen = True
            if digits >= 19 or exponent < -1000:
                return slow_number(text, start, end, value)
            whole = 10 * whole + <uint64_t> (text[at] - 48)
            digits += whole > 0
            exponent -= 1
            at += 1
    if not seen:
        return slow_number(text, start, end, value)  # perhaps a word, such as inf, which is refused later
    if at < end and (text[at] == b"e" or text[at] == b"E"):
        at += 1
        if at < end and (text[at] == b"-" or text[at] == b"+"):
            below = text[at] == b"-"
            at += 1
        if at == end or not b"0" <= text[at] <= b"9":
            return -1
        while at < end and b"0" <= text[at] <= b"9":
            if written > 10000:
                return slow_number(text, start, end, value)
            written = 10 * written + (text[at] - 48)
            at += 1
        exponent += -written if below else written
    if whole > LARGEST_EXACT or exponent > 22 or exponent < -22:
        return slow_number(text, start, end, value)
    value[0] = <double> whole
    if exponent < 0:
        value[0] /= POWERS[-exponent]
    else:
        value[0] *= POWERS[exponent]
    if negative:
        value[0] = -value[0]
    return at


cdef Py_ssize_t slow_number(const char* text, Py_ssize_t start, Py_ssize_t end, double* value) noexcept nogil:
    """Read a number by Python's own function."""
    cdef Py_ssize_t stop = start
    while stop < end and stop - start < LONGEST and not is_space(text[stop]) and text[stop] != b"#":
        stop += 1
    with gil:
        return python_number(text + start, stop - start, start, value)


cdef Py_ssize_t python_number(const char* text, Py_ssize_t size, Py_ssize_t start, double* value) noexcept:
    cdef char* copied = <char*> PyMem_Malloc(size + 1)
    cdef char* after = NULL
    cdef Py_ssize_t end = -1
    if copied == NULL:
        return -1
    try:
        memcpy(copied, text, size)
        copied[size] = 0
        value[0] = PyOS_string_to_double(copied, &after, OverflowError)
        end = start + (after - copied)
    except (ValueError, OverflowError):
        end = -1
    finally:
        PyMem_Free(copied)
    return end
