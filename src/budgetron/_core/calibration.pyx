# cython: cdivision=True
"""A probability for a margin: a sigmoid that follows the stream.

P(y = +1 | f(x)) = 1 / (1 + exp(-(a z + b))), where z is the margin divided by its root mean square. a and b are
those of logistic regression on (z, y), found by one Newton step per round. Old rounds are forgotten, because
margins grow with the hypothesis and streams drift. a is never negative: a larger margin
never has a smaller probability.

A sigmoid is a row of seven numbers.
"""

from libc.math cimport exp, fabs, sqrt

import numpy as np

cdef enum:
    SLOPE, OFFSET  # a and b
    SQUARE  # the mean square of the margins
    STEEP, LEVEL, MIXED  # the curvature of the loss: of the slope, of the offset, and between them
    ROUNDS
    NUMBERS

# About how many rounds are remembered; z is limited to this range.
cdef double MEMORY = 1000.0, FARTHEST = 10.0


def sigmoids(Py_ssize_t n):
    """Return n sigmoids before the first round, with a curvature as if one round each had set slope and offset."""
    numbers = np.zeros((n, NUMBERS))
    numbers[:, [SLOPE, STEEP, LEVEL]] = 1.0
    return numbers


def mirror(numbers):
    """Return the sigmoid of the opposite label, for margins of the opposite sign."""
    other = np.array(numbers)
    other[[OFFSET, MIXED]] *= -1.0
    return other


def sound(numbers, Py_ssize_t n):
    """Return whether these are n valid sigmoids, in an array that can be changed in place."""
    if type(numbers) is not np.ndarray or numbers.shape != (n, NUMBERS) or numbers.dtype != np.float64:
        return False
    if not numbers.flags.c_contiguous or not numbers.flags.writeable:
        return False
    steep, level, mixed = numbers[:, STEEP], numbers[:, LEVEL], numbers[:, MIXED]
    return bool(
        np.isfinite(numbers).all() and (numbers[:, [SLOPE, SQUARE, ROUNDS]] >= 0.0).all()
        and (steep > 0.0).all() and (level > 0.0).all() and (steep * level > mixed * mixed).all()
    )


def calibrate(double[::1] numbers, const double[:] margins, const double[:] signs):
    """Learn from rounds, in order: the margins before the labels were seen, and the labels, -1 or +1."""
    cdef Py_ssize_t i
    if numbers.shape[0] != NUMBERS or signs.shape[0] != margins.shape[0]:
        raise ValueError(f"a sigmoid must have {NUMBERS} numbers, and each margin a sign")
    with nogil:
        for i in range(margins.shape[0]):
            see(&numbers[0], margins[i], 1.0 if signs[i] > 0.0 else 0.0)


def log_odds(const double[::1] numbers, const double[:] margins):
    """Return a z + b for each margin: the logarithm of P(y = +1) / P(y = -1)."""
    cdef double[::1] values = np.empty(margins.shape[0])
    cdef Py_ssize_t i
    if numbers.shape[0] != NUMBERS:
        raise ValueError(f"a sigmoid must have {NUMBERS} numbers")
    with nogil:
        for i in range(margins.shape[0]):
            values[i] = numbers[SLOPE] * place(&numbers[0], margins[i]) + numbers[OFFSET]
    return np.asarray(values)


cdef double place(const double* numbers, double margin) noexcept nogil:
    """Return z, limited so that a single margin has little influence."""
    cdef double z
    if numbers[SQUARE] <= 0.0:
        return 0.0
    z = margin / sqrt(numbers[SQUARE])
    return -FARTHEST if z < -FARTHEST else FARTHEST if z > FARTHEST else z


cdef void see(double* numbers, double margin, double target) noexcept nogil:
    cdef double z, p, weight, error, determinant, keep = 1.0 - 1.0 / MEMORY
    cdef double size = fabs(margin) if fabs(margin) < 1e150 else 1e150
    numbers[ROUNDS] = min(numbers[ROUNDS] + 1.0, MEMORY)
    numbers[SQUARE] += (size * size - numbers[SQUARE]) / numbers[ROUNDS]
    z = place(numbers, margin)
    p = logistic(numbers[SLOPE] * z + numbers[OFFSET])
    weight, error = p * (1.0 - p), target - p
    # Forgotten rounds are replaced by the initial curvature, so that it never becomes 0.
    numbers[STEEP] = keep * numbers[STEEP] + (1.0 - keep) + weight * z * z
    numbers[LEVEL] = keep * numbers[LEVEL] + (1.0 - keep) + weight
    numbers[MIXED] = keep * numbers[MIXED] + weight * z
    determinant = numbers[STEEP] * numbers[LEVEL] - numbers[MIXED] * numbers[MIXED]
    numbers[SLOPE] += error * (numbers[LEVEL] * z - numbers[MIXED]) / determinant
    numbers[OFFSET] += error * (numbers[STEEP] - numbers[MIXED] * z) / determinant
    if numbers[SLOPE] < 0.0:
        numbers[SLOPE] = 0.0


cdef double logistic(double x) noexcept nogil:
    cdef double e
    if x >= 0.0:
        return 1.0 / (1.0 + exp(-x))
    e = exp(x)
    return e / (1.0 + e)
