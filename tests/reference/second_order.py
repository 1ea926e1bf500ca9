"""The second-order Projectron: AROW (Crammer, Kulesza, Dredze 2009) on images in the span of the supports.

No coordinates of that span here: every round has a vector whose inner products are the kernel's (and what
stands beside it), and the Gaussian is a mean and a covariance over all of that space, in which a span is a
projector.
"""

from math import sqrt

import numpy as np

from reference.perceptron import Reference


def vectors(K):
    """Vectors with these inner products, as rows."""
    values, directions = np.linalg.eigh(K)
    return directions * np.sqrt(np.maximum(values, 0.0))


class SecondOrderProjectron(Reference):
    names = ("delta", "variance", "tau", "norm")

    def __init__(self, K, y, budget, threshold, r, linear=None):
        super().__init__(K, y)
        self.budget, self.threshold, self.r = budget, threshold, r
        self.vectors = vectors(K)
        self.beside = np.zeros((len(K), 0)) if linear is None else vectors(linear)
        self.w = np.zeros(len(K) + self.beside.shape[1])
        self.sigma = np.eye(len(self.w))
        # Since supports were looked over last: sums of |k(x, s)| over margin errors, and who found no room
        self.usage, self.refused = {}, 0
        self.exchanged = 0

    def image(self, t):
        """d* (002 eq. 8) of round t over the supports, and ||delta||^2 (9)."""
        S = list(self.alpha)
        d = np.linalg.solve(self.K[np.ix_(S, S)], self.K[S, t]) if S else np.zeros(0)
        delta2 = self.K[t, t] - float(self.K[S, t] @ d)
        return d, delta2 if delta2 >= 1e-12 * self.K[t, t] else 0.0

    def phi(self, t):
        """The image of round t in the span, and what stands beside it."""
        return np.concatenate([self.image(t)[0] @ self.vectors[list(self.alpha)], self.beside[t]])

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
        self.weigh()
        if full:
            self.usage = {s: self.usage.get(s, 0.0) + abs(self.K[s, t]) for s in self.alpha}
            self.refused += delta2 > self.threshold
            if self.refused >= self.budget:
                self.exchange()

    def weigh(self):
        """The coefficients: those of the mean's image."""
        S = list(self.alpha)
        if S:
            values = self.vectors[S] @ self.w[: len(self.K)]
            self.alpha = dict(zip(S, np.linalg.solve(self.K[np.ix_(S, S)], values).tolist(), strict=True))

    def exchange(self):
        """Supports that carry less than a tenth of the mean go, the faintest first and a quarter at most."""
        shares = {s: abs(c) * self.usage[s] for s, c in self.alpha.items()}
        mean = sum(shares.values()) / len(shares)
        faint = sorted(shares, key=shares.get)
        for s, after in zip(faint, [*faint[1:], None], strict=True):
            self.near(shares[s] - 0.1 * mean)
            self.near(1.0 if after is None else (shares[after] - shares[s]) / mean)
        gone = [s for s in faint[: max(1, self.budget // 4)] if shares[s] < 0.1 * mean]
        self.usage, self.refused = {}, 0
        self.exchanged += len(gone)
        self.alpha = {s: c for s, c in self.alpha.items() if s not in gone}
        # What is known is kept within the span that is left; outside of it, nothing is known.
        V = self.vectors[list(self.alpha)]
        P = np.eye(len(self.w))
        P[: len(self.K), : len(self.K)] = V.T @ np.linalg.solve(V @ V.T, V)
        self.w = P @ self.w
        self.sigma = P @ self.sigma @ P + np.eye(len(P)) - P
        self.weigh()

    def norm(self, alpha=None):
        return float(np.linalg.norm(self.w))
