# cython: cdivision=True
"""Combinations of predictions of numbers: the leader, fixed share on the squared loss, and prediction intervals.

Each function plays rounds on arrays: it writes what was predicted before the target of a round is used, and then
updates the arrays that outlive the call. So a batch gives the same result as its rows one by one.
"""

from libc.math cimport ceil, exp, fabs, sqrt

from budgetron._core.score_window cimport insert_score


def lead(double[:, ::1] predictions, const unsigned char[::1] active, const double[::1] y, double keep,
         double[::1] recent, double[::1] out):
    """Predict by the expert with the smallest recent squared error; the first of equal ones.

    Parameters
    ----------
    predictions : ndarray of shape (n, N)
        Those of inactive experts are overwritten by the prediction of the leader.
    active : ndarray of shape (N,), uint8
        At least one is active.
    y : ndarray of shape (n,)
    keep : float
        The factor of earlier errors in each round.
    recent : ndarray of shape (N,)
        The sum of the squared errors, where earlier ones count less; updated.
    out : ndarray of shape (n,)
        The prediction of the leader in each round.
    """
    cdef Py_ssize_t t, i, best
    cdef double error
    with nogil:
        for t in range(predictions.shape[0]):
            best = leader(active, recent)
            out[t] = predictions[t, best]
            for i in range(predictions.shape[1]):
                if not active[i]:
                    predictions[t, i] = out[t]
                error = predictions[t, i] - y[t]
                recent[i] = keep * recent[i] + error * error


cdef Py_ssize_t leader(const unsigned char[::1] active, const double[::1] recent) noexcept nogil:
    cdef Py_ssize_t i, best = -1
    for i in range(active.shape[0]):
        if active[i] and (best < 0 or recent[i] < recent[best]):
            best = i
    return best


def current_leader(const unsigned char[::1] active, const double[::1] recent):
    """Return the place of the expert that `lead` would predict with."""
    return leader(active, recent)


def share(const double[:, ::1] predictions, const double[::1] y, const double[::1] prior, double a,
          const double[::1] importances, double[::1] weights, double[::1] reach, double[::1] out,
          double[:, ::1] losses):
    """Predict by the mean of the clipped predictions, weighted by fixed share on the squared loss.

    Let R be the largest error so far of a clipped prediction. A round whose target is in the range of the targets so
    far, and whose errors are at most R, multiplies weight i by exp(-l_i / (2 R^2)), normalizes the weights, and replaces
    them by (1 - a) w + a prior. Any other round leaves the weights, and extends the range and R.

    Parameters
    ----------
    predictions : ndarray of shape (n, N)
    y : ndarray of shape (n,)
    prior : ndarray of shape (N,)
        The first weights, above 0, whose sum is 1.
    a : float
        The part of the weights that is shared.
    importances : ndarray of shape (n,), or of length 0
        Weights of the rows: factors of the losses.
    weights : ndarray of shape (N,)
        Updated.
    reach : ndarray of shape (4,)
        The smallest and the largest target, R, and the sum of the squared errors of the combination in rounds that left
        the weights; updated. At first inf, -inf, 0, 0.
    out : ndarray of shape (n,)
        The prediction of each round: 0 if no target was seen before.
    losses : ndarray of shape (n, N), or without rows
        Gets the squared errors of the clipped predictions, if it has rows.
    """
    cdef Py_ssize_t t, i, n = predictions.shape[1]
    cdef double p, total, largest, error, importance
    with nogil:
        for t in range(predictions.shape[0]):
            out[t] = mean(predictions[t], weights, reach)
            importance = importances[t] if importances.shape[0] else 1.0
            largest = 0.0
            for i in range(n):
                error = clipped(predictions[t, i], reach) - y[t]
                largest = max(largest, fabs(error))
                if losses.shape[0]:
                    losses[t, i] = error * error
            if y[t] < reach[0] or y[t] > reach[1] or largest > reach[2]:
                reach[3] += (out[t] - y[t]) * (out[t] - y[t])
                reach[0], reach[1], reach[2] = min(reach[0], y[t]), max(reach[1], y[t]), max(reach[2], largest)
                continue
            if reach[2] == 0.0 or importance == 0.0:
                continue
            total = 0.0
            for i in range(n):
                p = (clipped(predictions[t, i], reach) - y[t]) / reach[2]
                weights[i] *= exp(-0.5 * importance * p * p)
                total += weights[i]
            for i in range(n):
                weights[i] = (1.0 - a) * weights[i] / total + a * prior[i]


cdef inline double clipped(double p, const double[::1] reach) noexcept nogil:
    """Return a prediction within the range of the targets so far; 0 if there are none."""
    if reach[0] > reach[1]:
        return 0.0
    return min(max(p, reach[0]), reach[1])


cdef inline double mean(const double[::1] predictions, const double[::1] weights, const double[::1] reach) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t i
    for i in range(predictions.shape[0]):
        total += weights[i] * clipped(predictions[i], reach)
    return total


def combined(const double[:, ::1] predictions, const double[::1] weights, const double[::1] reach, double[::1] out):
    """Write what `share` would predict for each row, as the next one."""
    cdef Py_ssize_t t
    with nogil:
        for t in range(predictions.shape[0]):
            out[t] = mean(predictions[t], weights, reach)


def intervals(const double[::1] predictions, const double[::1] y, double level, double rate, double keep,
              double[::1] scores, double[::1] ordered, double[::1] state, double[:, ::1] out):
    """Track prediction intervals by adaptive conformal inference on recent scores.

    The score of a round is |y - p| / s, where s is the root of the mean of recent squared errors. The interval is
    p +- q s with q the quantile of the stored scores at the level 1 - m, where m moves with each round:
    m += rate (1 - level - miss). Above all scores, q is twice the largest. Before there are 10 scores, the interval is
    the range of the targets so far.

    Parameters
    ----------
    predictions, y : ndarray of shape (n,)
    level : float
        The share of the targets that the intervals should contain.
    rate : float
        The step of m.
    keep : float
        The factor of earlier errors in s.
    scores, ordered : ndarray of shape (W,)
        The last scores, in a ring, and sorted; updated.
    state : ndarray of shape (6,)
        m, the number of scores so far, the sum of recent squared errors, the sum of their weights, and the smallest and
        the largest target; updated. At first 1 - level, 0, 0, 0, inf, -inf.
    out : ndarray of shape (n, 2)
    """
    cdef Py_ssize_t t, W = scores.shape[0], stored
    cdef double s, q, error, score, miss
    with nogil:
        for t in range(predictions.shape[0]):
            stored = <Py_ssize_t> min(state[1], <double> W)
            half_interval(predictions[t], ordered, stored, state, &out[t, 0], &out[t, 1])
            error = fabs(y[t] - predictions[t])
            miss = 0.0 if out[t, 0] <= y[t] <= out[t, 1] else 1.0
            if stored >= 10:
                state[0] += rate * (1.0 - level - miss)
            s = spread(state)
            score = error / s if s > 0.0 else (0.0 if error == 0.0 else 1e3)
            insert_score(min(score, 1e6), &scores[0], &ordered[0], W, <Py_ssize_t> state[1])
            state[1] += 1.0
            state[2], state[3] = keep * state[2] + error * error, keep * state[3] + 1.0
            state[4], state[5] = min(state[4], y[t]), max(state[5], y[t])


cdef inline double spread(const double[::1] state) noexcept nogil:
    return sqrt(state[2] / state[3]) if state[3] > 0.0 else 0.0


cdef void half_interval(double p, const double[::1] ordered, Py_ssize_t stored, const double[::1] state,
                        double* low, double* high) noexcept nogil:
    cdef double q, place, s = spread(state)
    if stored < 10:
        low[0], high[0] = min(state[4], p), max(state[5], p)
        return
    place = ceil((1.0 - state[0]) * (stored + 1.0)) - 1.0
    if place >= stored:
        q = 2.0 * ordered[stored - 1]
    elif place < 0.0:
        q = 0.0
    else:
        q = ordered[<Py_ssize_t> place]
    low[0], high[0] = p - q * s, p + q * s


def next_intervals(const double[::1] predictions, const double[::1] ordered, const double[::1] state,
                   double[:, ::1] out):
    """Write the interval that each prediction would have as the next one."""
    cdef Py_ssize_t t, stored = <Py_ssize_t> min(state[1], <double> ordered.shape[0])
    with nogil:
        for t in range(predictions.shape[0]):
            half_interval(predictions[t], ordered, stored, state, &out[t, 0], &out[t, 1])
