"""The second-order Projectron: AROW (Crammer, Kulesza, Dredze 2009) on images in the span of the supports.

This reference uses no coordinates of the span. Every round has a vector whose inner products are the kernel
values, and a second vector for the linear part. The Gaussian has a mean and a covariance over the whole space
of these vectors. A span is represented by its projector.
"""

from math import sqrt

import numpy as np

from reference.perceptron import Reference


def vectors(K):
    """Return vectors with these inner products, as rows."""
    values, directions = np.linalg.eigh(K)
    return directions * np.sqrt(np.maximum(values, 0.0))


class SecondOrderProjectron(Reference):
    names = ("delta", "variance", "tau", "norm")

    def __init__(self, K, y, budget, threshold, r, linear=None):
        super().__init__(K, y)
        self.budget, self.threshold, self.r = budget, threshold, r
        self.vectors = vectors(K)
        self.linear_vectors = np.zeros((len(K), 0)) if linear is None else vectors(linear)
        self.w = np.zeros(len(K) + self.linear_vectors.shape[1])
        self.sigma = np.eye(len(self.w))
        # Since the last exchange: sums of |k(x, s)| over margin errors, and the number of rows without space.
        self.usage, self.refused = {}, 0
        self.exchanged = 0

    def image(self, t):
        """Return d* (002 eq. 8) of round t over the supports, and ||delta||^2 (9)."""
        S = list(self.alpha)
        d = np.linalg.solve(self.K[np.ix_(S, S)], self.K[S, t]) if S else np.zeros(0)
        delta2 = self.K[t, t] - float(self.K[S, t] @ d)
        return d, delta2 if delta2 >= 1e-12 * self.K[t, t] else 0.0

    def phi(self, t):
        """Return the image of round t in the span, followed by its vector for the linear part."""
        return np.concatenate([self.image(t)[0] @ self.vectors[list(self.alpha)], self.linear_vectors[t]])

    def f(self, t, alpha=None):
        return float(self.w @ self.phi(t))

    def learn(self, t, margin):
        self.near(1 - self.y[t] * margin)
        if self.y[t] * margin < 1:
            self.update(t, margin)

    def update(self, t, margin):
        delta2 = self.image(t)[1]
        if delta2 > 0:
            self.near(delta2 - self.threshold)
        full = len(self.alpha) == self.budget
        if delta2 > self.threshold and not full:
            self.alpha[t] = 0.0
        phi = self.phi(t)
        direction = self.sigma @ phi
        v = float(phi @ direction)
        tau = (1 - self.y[t] * margin) / (v + self.r)
        self.entry.update(delta=sqrt(delta2), variance=v, tau=tau)
        self.w = self.w + tau * self.y[t] * direction
        self.sigma = self.sigma - np.outer(direction, direction) / (v + self.r)
        self.set_coefficients()
        if full:
            self.usage = {s: self.usage.get(s, 0.0) + abs(self.K[s, t]) for s in self.alpha}
            self.refused += delta2 > self.threshold
            if self.refused >= self.budget:
                self.exchange()

    def set_coefficients(self):
        """Set the coefficients to those of the image of the mean."""
        S = list(self.alpha)
        if S:
            values = self.vectors[S] @ self.w[: len(self.K)]
            self.alpha = dict(zip(S, np.linalg.solve(self.K[np.ix_(S, S)], values).tolist(), strict=True))

    def exchange(self):
        """Remove supports with less than a tenth of the mean share: the smallest first, at most a quarter."""
        shares = {s: abs(c) * self.usage[s] for s, c in self.alpha.items()}
        mean = sum(shares.values()) / len(shares)
        by_share = sorted(shares, key=shares.get)
        for s, after in zip(by_share, [*by_share[1:], None], strict=True):
            self.near(shares[s] - 0.1 * mean)
            self.near(1.0 if after is None else (shares[after] - shares[s]) / mean)
        removed = [s for s in by_share[: max(1, self.budget // 4)] if shares[s] < 0.1 * mean]
        self.usage, self.refused = {}, 0
        self.exchanged += len(removed)
        self.alpha = {s: c for s, c in self.alpha.items() if s not in removed}
        # Keep the Gaussian within the remaining span, and reset it outside of the span.
        V = self.vectors[list(self.alpha)]
        P = np.eye(len(self.w))
        P[: len(self.K), : len(self.K)] = V.T @ np.linalg.solve(V @ V.T, V)
        self.w = P @ self.w
        self.sigma = P @ self.sigma @ P + np.eye(len(P)) - P
        self.set_coefficients()

    def norm(self, alpha=None):
        return float(np.linalg.norm(self.w))
