"""The change of basis where supports leave a span.

Coordinates z become M^-1 (z_kept + W z_removed), with M lower triangular and M M' = 1 + W W'. W has one
column for each support that leaves. These are few, so M is never stored: below the blocks D_j on its diagonal
it is a product of narrow matrices, M_ij = W_i G_j'. With S_j the inverse of 1 + sum W_i' W_i over i < j::

    D_j D_j' = 1 + W_j S_j W_j',     G_j = D_j^-1 W_j S_j
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cho_factor, cho_solve, lapack

from budgetron._core.pages import zeros
from budgetron._util.blocks import row_blocks

__all__ = ["BasisChange"]

Matrix = NDArray[np.float64]

# Rows of a block: enough for fast matrix products.
BLOCK = 64


class BasisChange:
    """The matrix M of a given W."""

    def __init__(self, W: Matrix) -> None:
        self.W, self.G = W, zeros(W.shape)
        self.parts = list(row_blocks(len(W), BLOCK))
        self.diagonal: list[Matrix] = []
        total = np.eye(W.shape[1])
        for part in self.parts:
            own = W[part]
            weighted = cho_solve(cho_factor(total), own.T).T
            D = lapack.dpotrf(np.eye(len(own)) + weighted @ own.T, lower=1)[0]
            self.G[part] = solve_lower(D, weighted)
            self.diagonal.append(D)
            total += own.T @ own

    def multiply_left(self, L: Matrix) -> Matrix:
        """Replace the lower triangular L by L M, and return it."""
        beyond = zeros((len(L), self.W.shape[1]))  # L times W, over the blocks to the right
        for part, D in reversed(list(zip(self.parts, self.diagonal, strict=True))):
            rows, columns = slice(part.start, None), L[part.start :, part].copy()
            L[rows, part] = columns @ D + beyond[rows] @ self.G[part].T
            beyond[rows] += columns @ self.W[part]
        return L

    def solve(self, B: Matrix) -> Matrix:
        """Replace B by M^-1 B, and return it."""
        above = zeros((self.W.shape[1], B.shape[1]))  # G' times the rows found so far
        for part, D in zip(self.parts, self.diagonal, strict=True):
            found = solve_lower(D, B[part] - self.W[part] @ above)
            B[part] = found
            above += self.G[part].T @ found
        return B

    def solve_both(self, A: Matrix) -> Matrix:
        """Replace the symmetric A by M^-1 A M^-T, and return it. Only the lower half is valid."""
        A = self.solve(A)
        left = zeros((len(A), self.W.shape[1]))  # the columns found so far times G
        for part, D in zip(self.parts, self.diagonal, strict=True):
            rows = slice(part.start, None)
            found = solve_lower(D, A[rows, part].T - self.W[part] @ left[rows].T).T
            A[rows, part] = found
            left[rows] += found @ self.G[part]
        return A


def solve_lower(D: Matrix, B: Matrix) -> Matrix:
    """Return D^-1 B for a lower triangular D. B is overwritten."""
    # B is stored by rows, and BLAS reads columns: pass the transpose.
    solution: Matrix = blas.dtrsm(1.0, D, B.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
    return solution
