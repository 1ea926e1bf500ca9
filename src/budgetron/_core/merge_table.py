"""The best way to merge two terms of an expansion over the "rbf" kernel, in tables.

Two terms a k(x, .) + b k(x', .) of the same sign, |a| <= |b|, are replaced by one, c k(z, .), with
z = h x + (1 - h) x'. For this kernel k(x, z) = k(x, x')^((1 - h)^2) and k(x', z) = k(x, x')^(h^2). So the
best h depends on m = a / (a + b) and k = k(x, x') alone: it maximizes

    s(h) = m k^((1 - h)^2) + (1 - m) k^(h^2).

With c = (a + b) s(h) the square of the norm of the change is

    (a + b)^2 (m^2 + (1 - m)^2 + 2 m (1 - m) k - s(h)^2) = a^2 l(m, k).

The table contains l(m, k), which changes slowly: at m = 0 its limit is 1 - k^2 + 2 k^2 log k. A table of the
square itself could not be interpolated where m is small.

Because m <= 1/2, the derivative of s has one change of sign from + to - in [0, 1/2]. It is found by
bisection.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["CELLS_OF_KERNEL", "CELLS_OF_SHARE", "merge_tables"]

# The tables have this many cells from m = 0 to 1/2, and from k = 0 to 1.
CELLS_OF_SHARE, CELLS_OF_KERNEL = 200, 400

# The tables, after the first call. Computing them takes as long as thousands of rounds.
KEPT: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []


def merge_tables() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the best h, and the square of the norm of the change for a = 1, at the corners of the cells.

    A row of a table belongs to one m, and a column to one k. All callers get the same arrays.
    """
    if not KEPT:
        KEPT.append(computed_tables())
    return KEPT[0]


def computed_tables() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the tables."""
    m = np.linspace(0.0, 0.5, CELLS_OF_SHARE + 1)[:, None]
    k = np.linspace(0.0, 1.0, CELLS_OF_KERNEL + 1)[None, 1:]
    decay = -np.log(k)
    low, high = (
        np.zeros((CELLS_OF_SHARE + 1, CELLS_OF_KERNEL)),
        np.full((CELLS_OF_SHARE + 1, CELLS_OF_KERNEL), 0.5),
    )
    for _ in range(60):
        h = (low + high) / 2
        rises = m * (1 - h) * np.exp(-decay * (1 - 2 * h)) > (1 - m) * h
        low, high = np.where(rises, h, low), np.where(rises, high, h)
    share = np.hstack([np.zeros((CELLS_OF_SHARE + 1, 1)), (low + high) / 2])
    k = np.linspace(0.0, 1.0, CELLS_OF_KERNEL + 1)[None, :]
    sums = m * k ** ((1 - share) ** 2) + (1 - m) * k ** (share**2)
    change = m**2 + (1 - m) ** 2 + 2 * m * (1 - m) * k - sums**2
    loss = np.empty_like(change)
    loss[1:] = np.maximum(0.0, change[1:] / m[1:] ** 2)
    loss[0] = 1.0 - k**2 + 2.0 * k**2 * np.log(np.maximum(k, 1e-300))
    for table in (share, loss):
        table.setflags(write=False)
    return share, loss
