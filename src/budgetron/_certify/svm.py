"""The SVM without intercept: the best competitor for most bounds."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from budgetron._core.dual import descend
from budgetron._core.kernel import Kernel
from budgetron._util.blocks import row_blocks
from budgetron._util.threads import one_thread

__all__ = ["Dual"]

# Stored kernel rows use at most this many bytes; others are computed in every pass.
CACHE_BYTES = 1 << 30
ROWS_AT_ONCE = 256


class Dual:
    """Minimizes 1/2 ||g||^2 + C (sum of hinge losses) by coordinate descent on the dual problem.

    The search uses float32 kernel values. That is enough, because any g is a valid competitor, and its norm
    and losses are computed in float64 afterwards. Kernel values are divided by the largest k(x, x), and alpha
    is multiplied by it, so that nothing overflows. Each call of `solve` starts from the previous solution.

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
            for block in row_blocks(self._cached, ROWS_AT_ONCE):
                self._cache[block] = self._values(np.arange(block.start, block.stop))
        if not np.isfinite(self._cache).all():
            raise ValueError("kernel values of the stream are not finite; scale the features")

    def _values(self, points: NDArray[np.int64]) -> NDArray[np.float32]:
        values = self._kernel.matrix(self._X[points], self._X)
        values /= self._scale
        return values.astype(np.float32)

    def _rows(self, which: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Yield the kernel rows of these points in blocks."""
        cached = which < self._cached
        for points in (which[cached], which[~cached]):
            for block in row_blocks(len(points), ROWS_AT_ONCE):
                part = points[block]
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
        """Descend until the duality gap is at most `tol` times the objective; return the gap."""
        rng = np.random.default_rng(0)
        largest = C * self._scale
        if np.any(self._alpha > largest):
            self._restart(np.minimum(self._alpha, largest))
        gap = np.inf
        active = all_points = np.arange(len(self._y))
        with one_thread():
            for step in range(passes):
                for part, rows in self._rows(rng.permutation(active)):
                    descend(rows, part, self._y, self._diagonal, largest, self._alpha, self.f)
                square, losses = self.norm2(), self.losses()
                primal = 0.5 * square + C * losses
                gap = primal - (float(self.alpha.sum()) - 0.5 * square)
                if verbose:
                    share = gap / primal if primal else 0.0
                    print(f"\rbest competitor: pass {step + 1}, gap {share:8.1e}", end="", file=sys.stderr)
                done = not gap > tol * primal
                if done and len(active) == len(all_points):
                    break
                # Skip points whose alpha would stay at its bound, except in every tenth pass.
                slope = self._y * self.f - 1.0
                at_rest = ((self._alpha == 0.0) & (slope > 0)) | ((self._alpha == largest) & (slope < 0))
                active = all_points if done or step % 10 == 8 or at_rest.all() else np.flatnonzero(~at_rest)
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
        """Solve for C, or for the largest smaller C whose ||g|| is at most `limit`.

        A smaller C gives a smaller norm. The search goes from small values up, because each solution is a
        good start for the next. If the last norm exceeds the limit, the solution is scaled down.
        """
        low, high = 0.0, np.inf  # values of C with norms below and above the limit
        current = min(C, 1 / 64)
        for _ in range(60):
            self.solve(current, tol, verbose=verbose)
            norm = float(np.sqrt(self.norm2()))
            if norm <= limit:
                if current == C or norm >= 0.999 * limit or self.losses() == 0.0:
                    return
                low = current
                if high < 1.001 * low:
                    return
            else:
                high = current
                if norm <= 1.002 * limit or high < 1.001 * low:
                    break
            current = (
                min(C, 4 * current)
                if high == np.inf
                else (float(np.sqrt(low * high)) if low > 0.0 else high / 4)
            )
        if norm > limit:
            self._alpha *= limit / norm
            self.f *= limit / norm
