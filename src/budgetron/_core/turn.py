"""What coordinates are turned by where supports leave a span.

Coordinates z become M^-1 (z_kept + W z_left), with M lower triangular and M M' = 1 + W W'. W has a column for
each support that leaves. These are few, so M is never made as a whole: below the blocks D_j on its diagonal
it is a product of narrow matrices, M_ij = W_i G_j'. With S_j the inverse of 1 + sum W_i' W_i over i < j::

    D_j D_j' = 1 + W_j S_j W_j',     G_j = D_j^-1 W_j S_j
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cho_factor, cho_solve, lapack

from budgetron._core.pages import zeros

__all__ = ["Turn"]

Matrix = NDArray[np.float64]

# Rows of a block: so many that products of blocks are as fast as those of matrices.
BLOCK = 64


class Turn:
    """The matrix M that belongs to W."""

    def __init__(self, W: Matrix) -> None:
        self.W, self.G = W, zeros(W.shape)
        self.parts = [slice(start, min(start + BLOCK, len(W))) for start in range(0, len(W), BLOCK)]
        self.diagonal: list[Matrix] = []
        known = np.eye(W.shape[1])
        for part in self.parts:
            own = W[part]
            weighed = cho_solve(cho_factor(known), own.T).T
            D = lapack.dpotrf(np.eye(len(own)) + weighed @ own.T, lower=1)[0]
            self.G[part] = over(D, weighed)
            self.diagonal.append(D)
            known += own.T @ own

    def after(self, L: Matrix) -> Matrix:
        """L M, for a lower triangular L, in its place."""
        beyond = zeros((len(L), self.W.shape[1]))  # L times W, for the blocks to the right
        for part, D in reversed(list(zip(self.parts, self.diagonal, strict=True))):
            rows, columns = slice(part.start, None), L[part.start :, part].copy()
            L[rows, part] = columns @ D + beyond[rows] @ self.G[part].T
            beyond[rows] += columns @ self.W[part]
        return L

    def solve(self, B: Matrix) -> Matrix:
        """M^-1 B, in its place."""
        above = zeros((self.W.shape[1], B.shape[1]))  # G' times what was found, for the blocks above
        for part, D in zip(self.parts, self.diagonal, strict=True):
            found = over(D, B[part] - self.W[part] @ above)
            B[part] = found
            above += self.G[part].T @ found
        return B

    def solve_both(self, A: Matrix) -> Matrix:
        """M^-1 A M^-T for a symmetric A, in its place: the lower half is right."""
        A = self.solve(A)
        left = zeros((len(A), self.W.shape[1]))  # what was found times G, for the blocks to the left
        for part, D in zip(self.parts, self.diagonal, strict=True):
            rows = slice(part.start, None)
            found = over(D, A[rows, part].T - self.W[part] @ left[rows].T).T
            A[rows, part] = found
            left[rows] += found @ self.G[part]
        return A


def over(D: Matrix, B: Matrix) -> Any:
    """D^-1 B, for a lower triangular D; B is written over."""
    # By rows, as B lies: BLAS would have it by columns, and is given its transpose.
    return blas.dtrsm(1.0, D, B.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
