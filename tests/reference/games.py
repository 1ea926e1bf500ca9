"""The algorithm of 004 section 8.5: exponential weights against best responses."""

from math import exp, log, sqrt


def play(M, rounds):
    """Return the average strategies after a known number of rounds."""
    m, n = len(M), len(M[0])
    low, high = min(map(min, M)), max(map(max, M))
    loss = [[(entry - low) / (high - low) for entry in row] for row in M]  # in [0, 1]
    eta = sqrt(8 * log(m) / rounds)
    total, rows, columns = [0.0] * m, [0.0] * m, [0.0] * n
    for _ in range(rounds):
        w = [exp(-eta * L) for L in total]
        p = [wi / sum(w) for wi in w]
        gains = [sum(p[i] * loss[i][j] for i in range(m)) for j in range(n)]
        q = gains.index(max(gains))  # the best response, the first of equals
        rows = [a + b for a, b in zip(rows, p, strict=True)]
        columns[q] += 1
        total = [total[i] + loss[i][q] for i in range(m)]
    return [a / rounds for a in rows], [c / rounds for c in columns]
