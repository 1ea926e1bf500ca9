"""Kernels of two rows, one number at a time."""

from math import exp, prod, sqrt

import numpy as np


def rbf(a, b, gamma):
    return exp(-gamma * sum((p - q) ** 2 for p, q in zip(a, b, strict=True)))


def linear(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))


def poly(a, b, gamma, degree, coef0):
    return (gamma * linear(a, b) + coef0) ** degree


def laplacian(a, b, gamma):
    return exp(-gamma * sum(abs(p - q) for p, q in zip(a, b, strict=True)))


def allsubsets(a, b):
    return prod(1 + p * q for p, q in zip(a, b, strict=True))


def cauchy(a, b):
    """A kernel that the library does not have, for tests of Python functions as kernels."""
    return 1 / (1 + sum((p - q) ** 2 for p, q in zip(a, b, strict=True)))


def normalized(kernel):
    def value(a, b, **parameters):
        lengths = sqrt(kernel(a, a, **parameters)) * sqrt(kernel(b, b, **parameters))
        return kernel(a, b, **parameters) / lengths if lengths > 0 else 0.0

    return value


def cauchy_rows(A, B):
    """`cauchy` for two arrays of rows, as a user would write it."""
    return 1 / (1 + ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))


def gram(kernel, X, **parameters):
    rows = X.tolist()
    K = np.empty((len(rows), len(rows)))
    for i, a in enumerate(rows):
        for j, b in enumerate(rows[: i + 1]):
            K[i, j] = K[j, i] = kernel(a, b, **parameters)
    return K


KERNELS = {
    "rbf": (rbf, {"gamma": 0.5}),
    "linear": (linear, {}),
    "poly": (poly, {"gamma": 0.3, "degree": 3, "coef0": 0.7}),
    "laplacian": (laplacian, {"gamma": 0.4}),
    "allsubsets": (allsubsets, {}),
    "callable": (cauchy, {}),
    "normalized poly": (normalized(poly), {"gamma": 0.3, "degree": 2, "coef0": 1.0}),
    "normalized linear": (normalized(linear), {}),
    "normalized callable": (normalized(cauchy), {}),
}
