# cython: cdivision=True
"""The losses of second-order learners: which rows are learned, and the step of each output.

With one output, y is -1 or +1, and `margin` is the score of the row; `scores` and `target` are not used. With several
outputs, `target` is the output of the row's class: its label is +1, and the labels of the others are -1.
"""

from libc.math cimport INFINITY, exp, fabs, log, sqrt

# In the order of the enumeration.
LOSSES = ("hinge", "logistic", "squared")

# With the logistic loss, a row is learned if the probability of the other classes is at least this.
cdef double LEAST_DOUBT = 0.03

# With the logistic loss and several outputs, the mean curvature is multiplied by this. Chosen on two streams.
cdef double CURVATURE = 3.0

# A larger noise changes no variance. If a curvature is rounded to 0, the noise would be infinite.
cdef double LARGEST_NOISE = 1e300


cdef bint is_learned(Loss loss, Py_ssize_t outputs, const double* scores, Py_ssize_t target, double y,
                     double margin) noexcept nogil:
    """Return whether the loss of a row is large enough to learn it; the squared loss always is."""
    cdef Py_ssize_t c
    if loss == SQUARED:
        return True
    if loss == LOGISTIC:
        return doubt(outputs, scores, target, y * margin) >= LEAST_DOUBT
    if outputs == 1:
        return y * margin < 1.0
    for c in range(outputs):
        if (scores[c] < 1.0) if c == target else (scores[c] > -1.0):
            return True
    return False


cdef double doubt(Py_ssize_t outputs, const double* scores, Py_ssize_t target, double margin) noexcept nogil:
    """Return the probability of the classes that are not the row's, by the scores."""
    cdef Py_ssize_t c
    cdef double others = 0.0
    if outputs == 1:
        return 1.0 - sigmoid(margin)
    for c in range(outputs):
        if c != target:
            others += exp(min(scores[c] - scores[target], 700.0))
    return others / (1.0 + others)


cdef double choose_steps(Loss loss, Py_ssize_t outputs, const double* scores, Py_ssize_t target, double y,
                         double margin, double v, double noise, double* steps) noexcept nogil:
    """Compute the step of each output, divided by Sigma x, at a row of variance v; return the noise for Sigma.

    `noise` is the noise variance of the losses. The noise for Sigma is `noise` divided by the mean curvature of the
    losses, over the outputs.
    """
    cdef Py_ssize_t c
    cdef double label = y, score = margin, g, curvature = 0.0
    for c in range(outputs):
        if outputs > 1:
            label, score = (1.0 if c == target else -1.0), scores[c]
        if loss == LOGISTIC:
            g = implicit_step(label * score, v / noise)
            steps[c] = label * g / noise
            curvature += g * (1.0 - g)
        elif loss == SQUARED or label * score < 1.0:
            steps[c] = (label - score) / (v + noise)
            curvature += 1.0
        else:
            steps[c] = 0.0
    if loss == LOGISTIC and outputs > 1:
        curvature *= CURVATURE
    return min(noise * outputs / curvature, LARGEST_NOISE)


cdef double length_of(const double* steps, Py_ssize_t outputs) noexcept nogil:
    """Return the norm of the steps of all outputs."""
    cdef Py_ssize_t c
    cdef double total = 0.0
    if outputs == 1:
        return fabs(steps[0])
    for c in range(outputs):
        total += steps[c] * steps[c]
    return sqrt(total)


cdef double sigmoid(double x) noexcept nogil:
    return 1.0 / (1.0 + exp(-x)) if x > -700.0 else exp(x)


cdef double implicit_step(double margin, double v) noexcept nogil:
    """Return the g in (0, 1) with g = sigmoid(-margin - v g).

    The equation is solved for u = margin + v g, the margin after the step, so that g has all digits if v is large.
    Newton's method alone may cycle. Bisection replaces a step that leaves the interval of the solution, or is not much
    shorter than the one before it.
    """
    cdef double low = margin, high = margin + v, u = margin, before = INFINITY, s, slope, error, step
    cdef int _
    if v > 4.0:
        # v sigmoid(-u) <= v / (1 + v) <= log(1 + v) at this upper bound, which is near the solution if v is large.
        high = min(high, max(margin, 0.0) + log(1.0 + v))
        u = high if margin < 0.0 else margin + 0.5 * (high - margin) / (1.0 + margin)
    for _ in range(200):
        s = sigmoid(-u)
        slope = s * (1.0 - s)
        error = u - margin - v * s
        if error > 0.0:
            high = u
        else:
            low = u
        step = -error / (1.0 + v * slope)
        if fabs(step) <= 1e-8:  # the error of the next u is about the square of this
            return s - slope * step
        if not low < u + step < high or fabs(step) > 0.5 * before:
            step = 0.5 * (low + high) - u
            if fabs(step) <= 1e-16 * fabs(u):  # rounding errors of large margins
                return s
        u += step
        before = fabs(step)
    return s
