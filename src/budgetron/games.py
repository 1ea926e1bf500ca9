"""Zero-sum games, solved by regret minimization (section 8.5 of Foundations of Machine Learning)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from budgetron._util.sparse import check_sparse

__all__ = ["Solution", "solve"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Solution:
    """Mixed strategies for a zero-sum game, and bounds of their payoff.

    Attributes
    ----------
    row, column : ndarray
        Strategies of the row player, who pays, and of the column player, who is paid.
    lower, upper : float
        The least that the column player gets, and the most that the row player pays. The value of the game is
        between them.
    rounds : int
        Number of rounds played.
    """

    row: Vector
    column: Vector
    lower: float
    upper: float
    rounds: int

    @property
    def gap(self) -> float:
        """The duality gap of the two strategies: max_q p'Mq - min_p p'Mq."""
        return self.upper - self.lower

    @property
    def value(self) -> float:
        """The mean of `lower` and `upper`, at most gap / 2 from the value of the game."""
        return (self.lower + self.upper) / 2


def solve(matrix: ArrayLike, rounds: int | None = None, tol: float | None = None) -> Solution:
    """Return mixed strategies for the zero-sum game in which the row player pays `matrix` to the column
    player.

    The row player uses exponential weights, and the column player always answers with the best column. The
    strategies are the averages over all rounds. Use it for an approximate solution with a guaranteed
    accuracy, also of large games. For a precise solution of a small game, use linear programming.

    Parameters
    ----------
    matrix : array-like or sparse matrix of shape (m, n)
    rounds : int, optional
        The largest number of rounds. The default is 10,000, or unlimited if `tol` is given. A gap ten times
        smaller needs a hundred times as many rounds, so set both for a small `tol`.
    tol : float, optional
        Stop when the duality gap is at most this. It may be larger if `rounds` is reached first; see `gap`.

    Returns
    -------
    Solution

    Notes
    -----
    A round costs O(m n). With losses scaled to [0, 1] the gap is at most R_T / T, where R_T is the row
    player's regret. It decreases like (largest - smallest entry) * sqrt(log m / T).

    Examples
    --------
    >>> from budgetron.games import solve
    >>> rock_paper_scissors = [[0, 1, -1], [-1, 0, 1], [1, -1, 0]]
    >>> solution = solve(rock_paper_scissors, tol=0.01)
    >>> abs(solution.value) < 0.005, solution.gap <= 0.01
    (True, True)
    """
    M = _check_matrix(matrix)
    if rounds is not None and (int(rounds) != rounds or rounds < 1):
        raise ValueError(f"rounds must be a whole number of at least 1; got {rounds}")
    if tol is not None and not (isinstance(tol, Real) and tol > 0):
        raise ValueError(f"tol must be above 0; got {tol!r}")
    if rounds is None and tol is None:
        rounds = 10_000
    row, column, played = _play(M, rounds, tol)
    # Computed from the strategies, so that the bounds hold for them without rounding of the averages.
    return Solution(row, column, float((M @ column).min()), float((row @ M).max()), played)


def _check_matrix(matrix: Any) -> Matrix:
    if issparse(matrix):
        check_sparse(matrix)
    M = np.asarray(matrix.toarray() if issparse(matrix) else matrix, np.float64)
    if M.ndim != 2 or M.size == 0:
        raise ValueError(f"matrix must have shape (m, n) with at least one row and column; got {M.shape}")
    if not np.isfinite(M).all() or not M.max() / 2 - M.min() / 2 < 1e307:
        raise ValueError("matrix must be finite, and so must the differences of its entries")
    return M


def _play(M: Matrix, rounds: int | None, tol: float | None) -> tuple[Vector, Vector, int]:
    """Return the average strategies of both players, and the number of rounds."""
    smallest, spread = M.min(), np.ptp(M) or 1.0
    losses = (M - smallest) / spread  # in [0, 1], as Theorem 8.6 requires
    by_column = np.ascontiguousarray(losses.T)
    m, n = M.shape
    row_losses = np.zeros(m)  # sum of M q_t: the total loss of each row
    column_gains = np.zeros(n)  # sum of p_t' M: the total gain of each column
    row, column = np.zeros(m), np.zeros(n)
    t = 0
    while True:
        t += 1
        # With a known number of rounds eta is constant, otherwise it decreases with t.
        eta = np.sqrt(8.0 * np.log(m) / (rounds if rounds is not None and tol is None else t))
        p = np.exp(-eta * (row_losses - row_losses.min()))
        p /= p.sum()
        gains = p @ losses
        best = int(gains.argmax())  # the first of equals
        row += p
        column[best] += 1.0
        column_gains += gains
        row_losses += by_column[best]
        upper, lower = column_gains.max() / t, row_losses.min() / t
        if t == rounds or (tol is not None and (upper - lower) * spread <= tol):
            return row / row.sum(), column / t, t
