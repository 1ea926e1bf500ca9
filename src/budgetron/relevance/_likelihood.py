"""The marginal likelihood of Gaussian process regression: its gradient by the logarithms of the scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from budgetron._util.types import Floats, Reals

__all__ = ["Likelihood"]

# The kernel is at least exp(-80): smaller numbers are slow in single precision.
LEAST_EXPONENT = -80.0
# LAPACK inverts triangular matrices with fewer rows than twice this number.
SMALL = 64


@dataclass
class _Routines:
    """Routines of BLAS and LAPACK for one type of numbers."""

    syrk: Any
    symm: Any
    symv: Any
    trmm: Any
    potrf: Any
    potrs: Any
    trtri: Any
    lauum: Any

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> _Routines:
        return cls(
            *get_blas_funcs(("syrk", "symm", "symv", "trmm"), dtype=dtype),
            *get_lapack_funcs(("potrf", "potrs", "trtri", "lauum"), dtype=dtype),
        )

    def inverse(self, L: Any) -> Any:
        """Invert a lower triangular matrix in place, by matrix products, which are faster than `trtri`."""
        half = len(L) // 2
        if half < SMALL:
            return self.trtri(L, lower=1, overwrite_c=1)[0]
        first, last = self.inverse(L[:half, :half].copy("F")), self.inverse(L[half:, half:].copy("F"))
        corner = self.trmm(-1.0, last, L[half:, :half], lower=1)
        L[half:, :half] = self.trmm(1.0, first, corner, lower=1, side=1, overwrite_b=1)
        L[:half, :half], L[half:, half:] = first, last
        return L


class Likelihood:
    """The gradient of the negative log marginal likelihood, with two matrices of m x m and two of m x d.

    It temporarily needs a third m x m matrix.
    """

    def __init__(self, m: int, d: int, noise: float, dtype: np.dtype[Any]) -> None:
        self.noise = noise
        self.lapack = _Routines.of(dtype)
        self.K, self.S = np.zeros((m, m), dtype, order="F"), np.empty((m, m), dtype, order="F")
        self.U, self.GU = np.empty((m, d), dtype), np.empty((m, d), dtype)
        self.ones = np.ones(m, dtype)

    def gradient(self, features: Floats, scales: Floats, Y: Reals) -> Floats | None:
        """Return dL/dt for each feature without the prior, or None if S is not positive definite.

        The routines read and write the lower triangles of symmetric matrices. The upper triangles of K and
        S are not used, but are finite.
        """
        U, GU, K, S, lapack = self.U, self.GU, self.K, self.S, self.lapack
        np.multiply(features, scales, out=U, casting="same_kind")
        K = lapack.syrk(1.0, U.T, c=K, trans=1, lower=1, overwrite_c=1)
        half = K.diagonal() / 2  # from K itself, so that the diagonal below is exactly 1
        K -= half
        K -= half[:, None]
        np.clip(K, LEAST_EXPONENT, 0.0, out=K)
        np.exp(K, out=K)
        np.add(K, K.dtype.type(1), out=S)
        np.einsum("ii->i", S)[:] += K.dtype.type(self.noise)
        S, failed = lapack.potrf(S, lower=1, clean=0, overwrite_a=1)
        if failed:
            return None
        A, _ = lapack.potrs(S, Y, lower=1, overwrite_b=1)
        S, _ = lapack.lauum(lapack.inverse(S), lower=1, overwrite_c=1)  # L^-T L^-1
        S = lapack.syrk(-1.0 / Y.shape[1], A, beta=1.0, c=S, lower=1, overwrite_c=1)
        np.multiply(S, K, out=S)  # G
        sums = lapack.symv(1.0, S, self.ones, lower=1)
        GU = lapack.symm(1.0, S, U.T, c=GU.T, side=1, lower=1, overwrite_c=1).T
        # u_f' G u_f - sum_i (G 1)_i u_if^2, in the matrices that are not needed any more
        np.multiply(U, GU, out=GU)
        np.multiply(U, U, out=U)
        gradient: Floats = GU.sum(axis=0, dtype=np.float64) - sums @ U
        return gradient
