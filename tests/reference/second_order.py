"""The second-order Projectron: AROW (Crammer, Kulesza, Dredze 2009) on images in the span of the supports.

This reference uses no coordinates of the span. Every round has a vector whose inner products are the kernel
values, and a second vector for the linear part. The Gaussian has a mean and a covariance over the whole space
of these vectors. A span is represented by its projector.
"""

from math import sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from reference.perceptron import Reference

# ||delta||^2 below this part of k(x, x) counts as 0.
FLOOR = 1e-9


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
        return d, delta2 if delta2 >= FLOOR * self.K[t, t] else 0.0

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


class JointSecondOrder:
    """The second-order Projectron with any loss, prior, forgetting, weights and number of classes.

    `codes` are the classes of the rows. With two classes there is one mean, of class 1; its score is that of
    class 0 with the opposite sign. Nothing is assumed about the geometry, as above.
    """

    def __init__(
        self, K, codes, n_classes, *, loss, budget, threshold, r, prior, forget=1.0, linear=None, weights=None
    ):
        self.K, self.codes, self.loss = K, codes, loss
        self.outputs = n_classes if n_classes > 2 else 1
        self.budget, self.threshold, self.r = budget, threshold, r
        self.prior, self.forget = prior, forget
        self.weights = np.ones(len(K)) if weights is None else weights
        self.vectors = vectors(K)
        self.linear_vectors = np.zeros((len(K), 0)) if linear is None else vectors(linear)
        n = len(K) + self.linear_vectors.shape[1]
        self.w, self.sigma = np.zeros((self.outputs, n)), prior * np.eye(n)
        self.supports, self.usage, self.refused = [], {}, 0
        self.exchanged = self.mistakes = 0

    def image(self, t):
        """Return the coefficients of the image of round t over the supports, and ||delta||^2."""
        S = self.supports
        d = np.linalg.solve(self.K[np.ix_(S, S)], self.K[S, t]) if S else np.zeros(0)
        delta2 = self.K[t, t] - float(self.K[S, t] @ d)
        return d, delta2 if delta2 >= FLOOR * self.K[t, t] else 0.0

    def phi(self, t):
        return np.concatenate([self.image(t)[0] @ self.vectors[self.supports], self.linear_vectors[t]])

    def labels(self, t):
        """Return y_c of round t: 1 for the class of the row and -1 for the others."""
        if self.outputs == 1:
            return np.array([1.0 if self.codes[t] == 1 else -1.0])
        return np.where(np.arange(self.outputs) == self.codes[t], 1.0, -1.0)

    def play(self, t):
        """Play round t; return the scores before the label was seen."""
        y, s = self.labels(t), self.w @ self.phi(t)
        lead = y[0] * s[0] if self.outputs == 1 else s[y > 0][0] - s[y < 0].max()
        self.mistakes += lead <= 0.0
        self.entry = {"delta": np.nan, "variance": np.nan, "tau": np.nan}
        if self.loss == "hinge":
            learns = bool((y * s < 1.0).any())
        elif self.loss == "logistic":
            right = 1.0 / (1.0 + np.exp(-lead)) if self.outputs == 1 else np.exp(s[y > 0][0] - logsumexp(s))
            learns = 1.0 - right >= 0.03
        else:
            learns = True
        if learns and self.weights[t] > 0.0:
            self.update(t, y, s, self.loss != "squared" or lead < 1.0)
        self.entry["norm"] = float(np.linalg.norm(self.w))
        return s

    def update(self, t, y, s, margin_error):
        delta2, full = self.image(t)[1], len(self.supports) == self.budget
        novel = margin_error and delta2 > self.threshold
        if novel and not full:
            self.supports.append(t)
        phi = self.phi(t)
        direction = self.sigma @ phi
        v, r = float(phi @ direction), self.r / self.weights[t]
        steps, curvatures = zip(
            *(self.step(y_c, s_c, v, r) for y_c, s_c in zip(y, s, strict=True)), strict=True
        )
        h = np.mean(curvatures) * (3.0 if self.loss == "logistic" and self.outputs > 1 else 1.0)
        self.entry = {"delta": sqrt(delta2), "variance": v, "tau": float(np.linalg.norm(steps))}
        self.w = self.w + np.outer(steps, direction)
        self.sigma = self.sigma - np.outer(direction, direction) / (v + r / h)
        self.w = sqrt(self.forget) * self.w
        self.sigma = self.forget * self.sigma + (1.0 - self.forget) * self.prior * np.eye(len(phi))
        if full and margin_error:
            self.usage = {s: self.usage.get(s, 0.0) + abs(self.K[s, t]) for s in self.supports}
            self.refused += novel
            if self.refused >= self.budget:
                self.exchange()

    def step(self, y, s, v, r):
        """Return the step of a class and the curvature of its loss after the step, times r."""
        if self.loss == "logistic":
            g = brentq(lambda g: g - expit(-y * s - v * g / r), 0.0, 1.0, xtol=1e-15, rtol=1e-14)
            return y * g / r, g * (1.0 - g)
        if self.loss == "hinge" and y * s >= 1.0:
            return 0.0, 0.0
        return (y - s) / (v + r), 1.0

    def coefficients(self):
        """Return the coefficients of the mean of each output over the supports."""
        S = self.supports
        if not S:
            return np.zeros((self.outputs, 0))
        values = self.vectors[S] @ self.w[:, : len(self.K)].T
        return np.linalg.solve(self.K[np.ix_(S, S)], values).T

    def exchange(self):
        """Remove supports with less than a tenth of the mean share: the smallest first, at most a quarter."""
        sizes = np.abs(self.coefficients()).sum(axis=0)
        shares = {s: size * self.usage[s] for s, size in zip(self.supports, sizes, strict=True)}
        mean = sum(shares.values()) / len(shares)
        smallest = sorted(shares, key=shares.get)[: max(1, self.budget // 4)]
        removed = [s for s in smallest if shares[s] < 0.1 * mean]
        self.usage, self.refused = {}, 0
        self.exchanged += len(removed)
        self.supports = [s for s in self.supports if s not in removed]
        V = self.vectors[self.supports]
        P = np.eye(len(self.sigma))
        P[: len(self.K), : len(self.K)] = V.T @ np.linalg.solve(V @ V.T, V)
        self.w = self.w @ P
        self.sigma = P @ self.sigma @ P + self.prior * (np.eye(len(P)) - P)
