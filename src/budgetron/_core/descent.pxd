# Losses and steps of gradient descent. Their numbers are places in LOSSES and SCHEDULES of `_base.descent`.

from libc.math cimport exp, sqrt

cdef enum:
    HINGE_LOSS, LOGISTIC_LOSS, SQUARED_LOSS

cdef enum:
    CONSTANT_STEP, SQRT_STEP, INVERSE_STEP


cdef inline double slope_of(int loss, double margin, double rounding) noexcept nogil:
    """Return minus the derivative of the loss by the margin y f(x). A hinge loss up to `rounding` counts as 0."""
    if loss == LOGISTIC_LOSS:
        return 1.0 / (1.0 + exp(margin)) if margin < 700.0 else 0.0
    if loss == SQUARED_LOSS:
        return 1.0 - margin
    return 1.0 if 1.0 - margin > rounding else 0.0


cdef inline double step_of(int schedule, double eta, double t) noexcept nogil:
    """Return the step of round t, counted from 1."""
    if schedule == SQRT_STEP:
        return eta / sqrt(t)
    return eta / t if schedule == INVERSE_STEP else eta
