"""On-line to batch conversion, 004 section 8.4 and exercise 8.10: every hypothesis on every point.

`values[i, t]` is the value, at the row of round t, of the hypothesis that predicted round i.
"""

from math import log, sqrt

import numpy as np


def average(values):
    return values.mean(axis=0)


def averaged_risk_bound(values, y, M, delta):
    """(8.27) for the hinge loss."""
    T = len(y)
    losses = [max(0.0, 1 - y[t] * values[t, t]) for t in range(T)]
    return sum(losses) / T + M * sqrt(2 * log(1 / delta) / T)


def penalized_risks(wrong, delta):
    """m_i / (T - i + 1) + c_delta(T - i + 1), given whether hypothesis i errs on row t."""
    T = len(wrong)
    risks = []
    for i in range(T):  # T - i in place of T - i + 1, counting from 0
        m = sum(wrong[i, t] for t in range(i, T))
        risks.append(m / (T - i) + sqrt(log(T * (T + 1) / delta) / (2 * (T - i))))
    return np.array(risks)


def penalized_risk_bound(wrong, delta):
    """(8.31) for mistakes."""
    T = len(wrong)
    return sum(wrong[t, t] for t in range(T)) / T + 6 * sqrt(log(2 * (T + 1) / delta) / T)
