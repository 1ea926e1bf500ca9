"""A sum of kernel functions projected onto the span of a few of them, literally."""

import numpy as np


def chosen(K, limit):
    """Choose functions one after the other: each time the one farthest from the span of those before."""
    kept = []
    for _ in range(limit):
        distances = []
        for i in range(len(K)):
            d = np.linalg.lstsq(K[np.ix_(kept, kept)], K[kept, i], rcond=None)[0] if kept else np.zeros(0)
            distances.append(K[i, i] - 2 * d @ K[kept, i] + d @ K[np.ix_(kept, kept)] @ d)
        best = int(np.argmax(distances))
        if distances[best] <= 1e-10 * K.diagonal().max():
            break
        kept.append(best)
    return sorted(kept)


def projection(K, coef, kept):
    """Return the coefficients of the projection onto the span of `kept`, and the norm of the rest."""
    d = np.linalg.lstsq(K[np.ix_(kept, kept)], K[kept] @ coef, rcond=None)[0]
    rest = coef.copy()
    rest[kept] -= d
    return d, np.sqrt(max(rest @ K @ rest, 0.0))
