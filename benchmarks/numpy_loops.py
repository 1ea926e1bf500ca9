"""The learners as NumPy loops over rows: each round is a few vectorised lines.

This is what one would write without Budgetron, with care: arrays are allocated once, products use BLAS,
rows are dense, their squared norms are computed in advance, and updates follow the paper. Each loop counts
mistakes and supports, so that a comparison can show that both sides did the same work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


class Loop:
    """Supports, coefficients, and the kernel row from inner products."""

    def __init__(self, X: np.ndarray, y: np.ndarray, gamma: float, room: int) -> None:
        self.X, self.y, self.gamma = X, y.tolist(), gamma
        self.squares = gamma * np.einsum("ij,ij->i", X, X)
        self.rows = np.zeros((room, X.shape[1]), X.dtype)
        self.own = np.zeros(room, X.dtype)  # gamma ||x||^2 of each support
        self.coef = np.zeros(room, X.dtype)
        self.row = np.zeros(room, X.dtype)
        self.m = 0
        self.mistakes = 0

    def kernel(self, t: int) -> np.ndarray:
        """Return k(x_t, .) at the supports."""
        k = self.row[: self.m]
        np.dot(self.rows[: self.m], self.X[t], out=k)
        k *= 2.0 * self.gamma
        k -= self.own[: self.m]
        k -= self.squares[t]
        return np.exp(k, out=k)

    def put(self, slot: int, t: int, coef: float) -> None:
        """Store row t in a slot."""
        self.rows[slot], self.own[slot], self.coef[slot] = self.X[t], self.squares[t], coef

    def update(self, t: int, y: float, margin: float, k: np.ndarray) -> None:
        raise NotImplementedError

    def __call__(self) -> None:
        for t, y in enumerate(self.y):
            k = self.kernel(t)
            margin = float(k @ self.coef[: self.m])
            if y * margin <= 0.0:
                self.mistakes += 1
                self.update(t, y, margin, k)


class Randomized(Loop):
    """The Randomized Budget Perceptron, with the same random numbers as Budgetron for the same seed."""

    def __init__(self, X: np.ndarray, y: np.ndarray, gamma: float, budget: int, seed: int = 0) -> None:
        super().__init__(X, y, gamma, budget)
        words = check_random_state(seed).randint(0, 2**32, size=4, dtype=np.uint64).tolist()
        self.rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(words).spawn(1)[0]))
        self.order: list[int] = []  # slots by age
        self.budget = budget

    def update(self, t: int, y: float, margin: float, k: np.ndarray) -> None:
        if self.m == self.budget:
            slot = self.order.pop(int(self.rng.integers(self.budget)))
        else:
            slot, self.m = self.m, self.m + 1
        self.order.append(slot)
        self.put(slot, t, y)


class Forgetron(Loop):
    """The self-tuned Forgetron (Forgetron paper, figure 3).

    `tail` has, for each support, the part of f there that comes from this support and all newer ones. For the
    oldest support this is f itself. It is updated with the kernel row that is computed anyway.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, gamma: float, budget: int) -> None:
        super().__init__(X, y, gamma, budget)
        self.budget, self.Q = budget, 0.0
        self.tail = np.zeros(budget, X.dtype)

    def update(self, t: int, y: float, margin: float, k: np.ndarray) -> None:
        self.tail[: self.m] += y * k
        if self.m < self.budget:
            slot, self.m, coef = self.m, self.m + 1, y
        else:
            slot = (self.mistakes - 1) % self.budget  # the oldest
            sigma, sign = abs(float(self.coef[slot])), np.sign(float(self.coef[slot]))
            mu = sign * float(self.tail[slot])
            phi = self.gentlest(sigma, mu, self.Q - 15 / 32 * self.mistakes)
            lam = phi * sigma
            self.Q += lam * lam + 2 * lam - 2 * lam * phi * mu  # (15)
            coef = phi * y
            if phi < 1.0:
                self.coef *= phi
                self.tail *= phi
        self.put(slot, t, coef)
        self.tail[slot] = coef  # k(x, x) = 1

    @staticmethod
    def gentlest(sigma: float, mu: float, c: float) -> float:
        """Return phi of equation (43)."""
        a, b = sigma * sigma - 2 * sigma * mu, 2 * sigma
        d = b * b - 4 * a * c
        phi = 1.0
        if a > 0 or (a < 0 and d > 0 and (-b - d**0.5) / (2 * a) > 1):
            phi = -2 * c / (b + d**0.5)
        elif a == 0 and b > 0:
            phi = -c / b
        return min(phi, 1.0)


class Projectron(Loop):
    """The Projectron with the explicit inverse of the Gram matrix (Projectron paper, eqs. 8-11 and 13).

    The inverse is stored in the corner of a larger matrix, whose size doubles when it is full. A new support
    adds an outer product in place.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, gamma: float, bound: float) -> None:
        super().__init__(X, y, gamma, 256)
        self.bound = bound
        self.inverse, self.outer = np.zeros((256, 256)), np.zeros((256, 256))

    def grow(self) -> None:
        """Double the number of slots."""
        size = 2 * len(self.own)
        for name in ("rows", "own", "coef", "row", "inverse", "outer"):
            old = getattr(self, name)
            new = np.zeros((size, *((size,) if name in ("inverse", "outer") else old.shape[1:])), old.dtype)
            new[tuple(slice(0, n) for n in old.shape)] = old
            setattr(self, name, new)

    def project(self, k: np.ndarray) -> tuple[np.ndarray, float, float]:
        """Return d* (8), ||P k||^2 and ||delta||^2 (9), which is set to 0 below 1e-12."""
        d = np.dot(self.inverse[: self.m, : self.m], k)
        square = float(k @ d)
        delta2 = 1.0 - square
        return d, square, delta2 if delta2 >= 1e-12 else 0.0

    def update(self, t: int, y: float, margin: float, k: np.ndarray) -> None:
        d, square, delta2 = self.project(k)
        threshold = (2.0 * (1.0 - y * margin) - square - 0.5) / (2.0 * self.bound)  # (13)
        m = self.m
        if delta2 == 0.0 or delta2**0.5 <= threshold:
            self.coef[:m] += y * d  # (10)
            return
        if m == len(self.own):
            self.grow()
        outer, inverse = self.outer[:m, :m], self.inverse
        np.multiply(d[:, None], d / delta2, out=outer)
        inverse[:m, :m] += outer  # (11)
        inverse[:m, m] = inverse[m, :m] = -d / delta2
        inverse[m, m] = 1.0 / delta2
        self.put(m, t, y)
        self.m += 1


class ProjectronPlusPlus(Projectron):
    """Projectron++ with the explicit inverse (Projectron paper, eqs. 14-17)."""

    def __call__(self) -> None:
        for t, y in enumerate(self.y):
            k = self.kernel(t)
            margin = float(k @ self.coef[: self.m])
            if y * margin <= 0.0:
                self.mistakes += 1
                self.update(t, y, margin, k)
            elif y * margin < 1.0:
                d, square, delta2 = self.project(k)
                loss = 1.0 - y * margin
                tau = min(loss / square, 1.0)  # (17)
                if tau * (2.0 * loss - tau * square - 2.0 * self.bound * delta2**0.5) >= 0.0:  # (16)
                    self.coef[: self.m] += (y * tau) * d  # (14)


def loop_job(kind: type[Loop], *arguments: Any) -> Any:
    """Return a job for `measure.in_turn` that stores its most recent loop in `last`."""

    def prepare() -> Loop:
        prepare.last = kind(*arguments)
        return prepare.last

    return prepare
