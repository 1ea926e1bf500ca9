"""Zero-sum games by regret minimization: 004 section 8.5."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

__all__ = ["Solution", "solve"]


@dataclass(frozen=True)
class Solution:
    """Mixed strategies for a zero-sum game, and how good they are at the least.

    Attributes
    ----------
    row, column : ndarray
        Strategies of the row player, who pays, and of the column player, who is paid.
    lower, upper : float
        What the column strategy gets at the least, and the row strategy pays at the most. The
        value of the game lies between.
    rounds : int
        Rounds played.
    """

    row: NDArray[np.float64]
    column: NDArray[np.float64]
    lower: float
    upper: float
    rounds: int

    @property
    def gap(self) -> float:
        """max_q p'Mq - min_p p'Mq of the two strategies: the duality gap, exactly."""
        return self.upper - self.lower

    @property
    def value(self) -> float:
        """The middle of what is known: within gap / 2 of the game's value."""
        return (self.lower + self.upper) / 2


def solve(matrix: Any, rounds: int | None = None, tol: float | None = None) -> Solution:
    """Mixed strategies for the zero-sum game in which the row player pays `matrix` to the column player.

    The row player follows exponential weights and the column player answers each of its
    strategies with the best column; the averages of both are returned. Good for a quick answer
    with a certificate, also for large games; for many digits of a small one, use linear programming.

    Parameters
    ----------
    matrix : array-like or sparse matrix of shape (m, n)
    rounds : int, optional
        The most rounds. By default 10,000, or as many as it takes if `tol` is given: a tenth of
        the gap takes a hundred times the rounds, so give both unless `tol` is modest.
    tol : float, optional
        Stop when the duality gap is at most this. If the rounds end first, `gap` says so.

    Returns
    -------
    Solution

    Notes
    -----
    A round costs O(m n). With losses scaled to [0, 1] the gap is at most R_T / T for the row
    player's regret R_T, and falls like (largest - smallest entry) * sqrt(log m / T).

    Examples
    --------
    >>> from budgetron.games import solve
    >>> rock_paper_scissors = [[0, 1, -1], [-1, 0, 1], [1, -1, 0]]
    >>> solution = solve(rock_paper_scissors, tol=0.01)
    >>> abs(solution.value) < 0.005, solution.gap <= 0.01
    (True, True)
    """
    M = np.asarray(matrix.toarray() if issparse(matrix) else matrix, np.float64)
    if M.ndim != 2 or M.size == 0:
        raise ValueError(f"matrix must have shape (m, n) with at least one row and column; got {M.shape}")
    if not np.isfinite(M).all() or not M.max() / 2 - M.min() / 2 < 1e307:
        raise ValueError("matrix must be finite, and so must the differences of its entries")
    if rounds is not None and (int(rounds) != rounds or rounds < 1):
        raise ValueError(f"rounds must be a whole number of at least 1; got {rounds}")
    if tol is not None and not (isinstance(tol, Real) and tol > 0):
        raise ValueError(f"tol must be above 0; got {tol!r}")
    if rounds is None and tol is None:
        rounds = 10_000

    smallest, spread = M.min(), np.ptp(M) or 1.0
    losses = (M - smallest) / spread  # in [0, 1], as Theorem 8.6 asks
    by_column = np.ascontiguousarray(losses.T)
    m, n = M.shape
    paid = np.zeros(m)  # sum of M q_t: each row's total loss
    got = np.zeros(n)  # sum of p_t' M
    row, column = np.zeros(m), np.zeros(n)
    t = 0
    while True:
        t += 1
        # A known horizon fixes eta; an open one lets it fall with t.
        eta = np.sqrt(8.0 * np.log(m) / (rounds if rounds is not None and tol is None else t))
        p = np.exp(-eta * (paid - paid.min()))
        p /= p.sum()
        answer = p @ losses
        best = int(answer.argmax())  # the first of equals
        row += p
        column[best] += 1.0
        got += answer
        paid += by_column[best]
        upper, lower = got.max() / t, paid.min() / t
        if t == rounds or (tol is not None and (upper - lower) * spread <= tol):
            break
    row, column = row / row.sum(), column / t
    # From the strategies themselves, so that the gap is theirs to the last digit.
    return Solution(row, column, float((M @ column).min()), float((row @ M).max()), t)
