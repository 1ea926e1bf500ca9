from libc.math cimport sqrt


cdef inline double scaled(double x, double* mean, double* spread, double share) noexcept nogil:
    """Add a value to the mean and the spread, and return it standardised; `share` is 1 / (number of values)."""
    cdef double delta = x - mean[0], variance
    mean[0] += delta * share
    spread[0] += delta * (x - mean[0])
    variance = spread[0] * share
    # A feature that changed by no more than rounding carries no information.
    return (x - mean[0]) / sqrt(variance) if variance > 1e-24 * mean[0] * mean[0] else 0.0
