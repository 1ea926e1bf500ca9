"""The projection of a sum of kernel functions onto the span of a few of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

__all__ = ["project", "thin"]

Vector = NDArray[np.float64]

# A function whose distance from the span is below this share of the largest k(x, x) is taken to lie in it.
DEPENDENT = 1e-10


def thin(gram: Vector, coef: Vector, limit: int) -> tuple[NDArray[np.intp], Vector, float]:
    """Project the function sum_i coef_i k(x_i, .) onto the span of at most `limit` of the k(x_i, .).

    The functions are chosen one after the other: the next one is that with the largest distance from the span
    of those before, the first of several. This depends on the rows only, so that rounding of the coefficients
    does not decide. It is the pivoted Cholesky factorization of the Gram matrix.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The kernel values k(x_i, x_j).
    coef : ndarray of shape (n,)
    limit : int

    Returns
    -------
    kept : ndarray
        Indices of the functions that were chosen, in ascending order.
    coef : ndarray
        The coefficients of the projection over them.
    residual : float
        The norm of the function minus its projection.
    """
    n = len(gram)
    factor, left = np.zeros((n, min(limit, n))), gram.diagonal().copy()
    smallest, chosen = DEPENDENT * left.max(), []
    for j in range(min(limit, n)):
        p = int(np.argmax(left))
        if left[p] <= smallest:
            break
        factor[:, j] = _column(gram, factor[:, :j], p, left[p])
        left -= factor[:, j] ** 2
        left[p] = -np.inf
        chosen.append(p)
    return _projected(gram, coef, factor[:, : len(chosen)], chosen)


def project(
    gram: Vector, coef: Vector, order: NDArray[np.intp], limit: int, tolerance: float
) -> tuple[NDArray[np.intp], Vector, float]:
    """Project the function sum_i coef_i k(x_i, .) onto the span of the first of the k(x_i, .) in this order.

    At most `limit` are chosen. One whose squared distance from the span of those before is at most
    `tolerance` k(x_i, x_i) is skipped. The result is that of `thin`.
    """
    n, count = len(gram), 0
    factor, left = np.zeros((n, min(limit, n))), gram.diagonal().copy()
    smallest, chosen = tolerance * left, []
    for p in order.tolist():
        if count == min(limit, n):
            break
        if left[p] > smallest[p]:
            factor[:, count] = _column(gram, factor[:, :count], p, left[p])
            left -= factor[:, count] ** 2
            chosen.append(p)
            count += 1
    return _projected(gram, coef, factor[:, :count], chosen)


def _column(gram: Vector, factor: Vector, p: int, left: float) -> Vector:
    """Return the next column of the factor, for the function p, which has the squared distance `left`."""
    column: Vector = (gram[:, p] - factor @ factor[p]) / np.sqrt(left)
    return column


def _projected(
    gram: Vector, coef: Vector, factor: Vector, chosen: list[int]
) -> tuple[NDArray[np.intp], Vector, float]:
    """Return the functions that were chosen, the coefficients over them, and the norm of the residual."""
    # The rows of the chosen ones are a lower triangle T, their part of the Gram matrix is T T', and T factor'
    # is their product with all functions.
    projected = (
        solve_triangular(factor[chosen], factor.T @ coef, trans="T", lower=True) if chosen else coef[:0]
    )
    square = float(coef @ ((gram - factor @ factor.T) @ coef))
    order = np.argsort(chosen)
    return np.array(chosen, np.intp)[order], projected[order], float(np.sqrt(max(square, 0.0)))
