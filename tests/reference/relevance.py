"""Feature scales by the marginal likelihood of Gaussian process regression, one entry at a time."""

from math import ceil, exp, sqrt

import numpy as np

NOISE, WEIGHT, STEPS = 0.3, 10.0, 40


def targets(y):
    """Return one column for each class: its indicator, minus the mean and divided by the deviation."""
    columns = []
    for label in sorted(set(y)):
        indicator = [1.0 if other == label else 0.0 for other in y]
        mean = sum(indicator) / len(y)
        deviation = sqrt(sum((value - mean) ** 2 for value in indicator) / len(y))
        if deviation > 0:
            columns.append([(value - mean) / deviation for value in indicator])
    return np.array(columns).T.reshape(len(y), len(columns))


def kernel_matrix(X, gamma, t):
    n, d = X.shape
    K = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            K[i, j] = exp(-gamma * sum((exp(t[f]) * (X[i, f] - X[j, f])) ** 2 for f in range(d)))
    return K


def negative_log_likelihood(X, Y, gamma, t, noise=NOISE):
    """Return the mean over the columns of Y, without the constant n/2 log(2 pi)."""
    S = kernel_matrix(X, gamma, t) + 1.0 + noise * np.eye(len(X))
    fit = sum(Y[:, c] @ np.linalg.solve(S, Y[:, c]) for c in range(Y.shape[1])) / Y.shape[1]
    return (np.linalg.slogdet(S)[1] + fit) / 2


def objective(X, Y, gamma, t, noise=NOISE, weight=WEIGHT):
    return negative_log_likelihood(X, Y, gamma, t, noise) + weight / 2 * sum(v**2 for v in t)


def likelihood_gradient(X, Y, gamma, t, noise=NOISE):
    """Return the derivative by each t_f: 1/2 tr((S^-1 - A A'/q) dS/dt_f)."""
    n, d = X.shape
    K = kernel_matrix(X, gamma, t)
    inverse = np.linalg.inv(K + 1.0 + noise * np.eye(n))
    A = inverse @ Y
    M = inverse - A @ A.T / Y.shape[1]
    gradient = []
    for f in range(d):
        dS = np.empty((n, n))
        for i in range(n):
            for j in range(n):
                dS[i, j] = -2 * gamma * exp(2 * t[f]) * (X[i, f] - X[j, f]) ** 2 * K[i, j]
        gradient.append(np.trace(M @ dS) / 2)
    return np.array(gradient)


def between_share(column, y):
    """Return the share of the variance of a feature that is between the classes, or None for a constant."""
    mean = sum(column) / len(column)
    total = sum((value - mean) ** 2 for value in column)
    between = 0.0
    for label in set(y):
        own = [value for value, other in zip(column, y, strict=True) if other == label]
        between += len(own) * (sum(own) / len(own) - mean) ** 2
    return between / total if max(column) > min(column) else None


def groups(X, y, most):
    """Return a list of groups of features; the features of a group have one scale."""
    d = X.shape[1]
    if d <= most:
        return [[f] for f in range(d)]
    share = {f: between_share(X[:, f].tolist(), y) for f in range(d)}
    ranked = sorted((f for f in range(d) if share[f] is not None), key=lambda f: -share[f])
    count = min(most, len(ranked))
    result = [[] for _ in range(count)]
    for rank, feature in enumerate(ranked):
        result[rank * count // len(ranked)].append(feature)
    return result


def number_target(y):
    """Return one column: the numbers, minus the mean and divided by the deviation; none if they are equal."""
    mean = sum(y) / len(y)
    deviation = sqrt(sum((value - mean) ** 2 for value in y) / len(y))
    return np.array([[(value - mean) / deviation] for value in y]) if deviation > 0 else np.zeros((len(y), 0))


def feature_scales(
    X, y, gamma, max_rows=1000, max_scales=100, steps=STEPS, noise=NOISE, weight=WEIGHT, regression=False
):
    """Return the scales after all steps of Adam."""
    blocks = min(ceil(len(X) / max_rows), steps)
    m = min(len(X) // blocks, max_rows)
    X, y = X[len(X) - blocks * m :], y[len(y) - blocks * m :]  # the newest rows
    Y = number_target(y) if regression else targets(y)
    if Y.shape[1] == 0:
        return np.ones(X.shape[1])
    members = groups(X, y, max_scales)
    t, mean, square = [0.0] * len(members), [0.0] * len(members), [0.0] * len(members)

    def by_feature():
        values = [0.0] * X.shape[1]
        for g, features in enumerate(members):
            for f in features:
                values[f] = t[g]
        return values

    for step in range(1, steps + 1):
        first = (step - 1) % blocks * m
        rows = slice(first, first + m)
        gradient = likelihood_gradient(X[rows], Y[rows], gamma, by_feature(), noise)
        for g, features in enumerate(members):
            slope = blocks * sum(gradient[f] for f in features) + weight * t[g]
            mean[g] = 0.9 * mean[g] + 0.1 * slope
            square[g] = 0.99 * square[g] + 0.01 * slope**2
            size = sqrt(square[g] / (1 - 0.99**step)) + 0.1
            t[g] = min(max(t[g] - 0.15 * mean[g] / (1 - 0.9**step) / size, -4.0), 3.0)
    return np.exp(by_feature())
