"""The SVM without intercept, which is the best competitor of most bounds."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from budgetron._core.dual import descend
from budgetron._core.kernel import Kernel
from budgetron._util.threads import one_thread

__all__ = ["Dual"]

# Kernel rows that are kept take at most this many bytes; others are computed in every pass.
CACHE_BYTES = 1 << 30
ROWS_AT_ONCE = 256


class Dual:
    """min 1/2 ||g||^2 + C sum of hinge losses, by coordinate descent on its dual.

    Kernel values are float32 while it searches: any g is a competitor, and what is claimed of
    the one found is computed anew. They are divided by the largest k(x, x), and alpha is multiplied
    by it, so that none overflows. Successive calls of `solve` start from where the last ended.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
        Labels, -1.0 or +1.0.
    """

    def __init__(self, kernel: Kernel, X: NDArray[np.float64], y: NDArray[np.float64]) -> None:
        self._kernel, self._X, self._y = kernel, X, y
        diagonal = kernel.diagonal(X)
        self._scale = float(diagonal.max()) or 1.0
        self._diagonal = diagonal / self._scale
        self._alpha = np.zeros(len(y))
        self.f = np.zeros(len(y))
        self._cached = min(len(y), CACHE_BYTES // (4 * len(y)))
        self._cache = np.empty((self._cached, len(y)), np.float32)
        with one_thread():
            for start in range(0, self._cached, ROWS_AT_ONCE):
                rows = np.arange(start, min(start + ROWS_AT_ONCE, self._cached))
                self._cache[rows] = self._values(rows)
        if not np.isfinite(self._cache).all():
            raise ValueError("kernel values of the stream are not finite; scale the features")

    def _values(self, points: NDArray[np.int64]) -> NDArray[np.float32]:
        values = self._kernel.matrix(self._X[points], self._X)
        values /= self._scale
        return values.astype(np.float32)

    def _rows(self, which: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Kernel rows of these points, some at a time."""
        kept = which < self._cached
        for points in (which[kept], which[~kept]):
            for start in range(0, len(points), ROWS_AT_ONCE):
                part = points[start : start + ROWS_AT_ONCE]
                yield part, self._cache[part] if part[0] < self._cached else self._values(part)

    @property
    def alpha(self) -> NDArray[np.float64]:
        """The dual variables."""
        return self._alpha / self._scale

    def norm2(self) -> float:
        """||g||^2."""
        return max(0.0, float((self.alpha * self._y) @ self.f))

    def losses(self) -> float:
        """The sum of the hinge losses."""
        return float(np.maximum(0.0, 1.0 - self._y * self.f).sum())

    def solve(self, C: float, tol: float = 1e-3, passes: int = 2000, verbose: bool = False) -> float:
        """Descend until the duality gap is at most `tol` of the objective; the gap is returned."""
        rng = np.random.default_rng(0)
        most = C * self._scale
        if np.any(self._alpha > most):
            self._restart(np.minimum(self._alpha, most))
        gap = np.inf
        active = everyone = np.arange(len(self._y))
        with one_thread():
            for step in range(passes):
                for part, rows in self._rows(rng.permutation(active)):
                    descend(rows, part, self._y, self._diagonal, most, self._alpha, self.f)
                square, losses = self.norm2(), self.losses()
                primal = 0.5 * square + C * losses
                gap = primal - (float(self.alpha.sum()) - 0.5 * square)
                if verbose:
                    share = gap / primal if primal else 0.0
                    print(f"\rbest competitor: pass {step + 1}, gap {share:8.1e}", end="", file=sys.stderr)
                done = not gap > tol * primal
                if done and len(active) == len(everyone):
                    break
                # Points at a bound that want to stay there rest, but for every tenth pass.
                slope = self._y * self.f - 1.0
                rests = ((self._alpha == 0.0) & (slope > 0)) | ((self._alpha == most) & (slope < 0))
                active = everyone if done or step % 10 == 8 or rests.all() else np.flatnonzero(~rests)
        if verbose:
            print(file=sys.stderr)
        return gap

    def _restart(self, alpha: NDArray[np.float64]) -> None:
        """Start from other dual variables."""
        self._alpha = alpha
        self.f = np.zeros(len(alpha))
        for part, rows in self._rows(np.flatnonzero(alpha)):
            self.f += (alpha[part] * self._y[part]) @ rows

    def within(self, C: float, limit: float, tol: float = 1e-3, verbose: bool = False) -> None:
        """Solve for C, or if ||g|| exceeds `limit` for the smaller C at which it does not.

        The smaller C, the smaller the norm; what is left over the limit is scaled off. From small
        values up, for each solution is a good start for the next.
        """
        low, high = 0.0, np.inf  # norms below and above the limit were found at these
        now = min(C, 1 / 64)
        for _ in range(60):
            self.solve(now, tol, verbose=verbose)
            norm = float(np.sqrt(self.norm2()))
            if norm <= limit:
                if now == C or norm >= 0.999 * limit or self.losses() == 0.0:
                    return
                low = now
                if high < 1.001 * low:
                    return
            else:
                high = now
                if norm <= 1.002 * limit or high < 1.001 * low:
                    break
            now = (
                min(C, 4 * now) if high == np.inf else (float(np.sqrt(low * high)) if low > 0.0 else high / 4)
            )
        if norm > limit:
            self._alpha *= limit / norm
            self.f *= limit / norm
