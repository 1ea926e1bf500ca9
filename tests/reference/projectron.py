"""The Projectron, 002 Algorithm 2 with eqs. 8-10 and 13, and Projectron++, eqs. 14-17."""

from math import sqrt

import numpy as np

from reference.perceptron import Reference


class Projectron(Reference):
    names = ("delta", "threshold", "norm")

    def __init__(self, K, y, eta=None, U=None, budget=None):
        super().__init__(K, y)
        self.eta, self.U, self.budget = eta, U, budget

    def project(self, t):
        """d* (8), ||P k||^2 and ||delta||^2 (9); below 1e-12 k(x, x) the latter is 0."""
        S = list(self.alpha)
        if not S:
            return np.zeros(0), 0.0, self.K[t, t]
        k = self.K[S, t]
        d = np.linalg.solve(self.K[np.ix_(S, S)], k)
        square, own = float(k @ d), self.K[t, t]
        delta2 = own - square
        return d, square, delta2 if delta2 >= 1e-12 * own else 0.0

    def update(self, t, margin):
        d, square, delta2 = self.project(t)
        loss = 1 - self.y[t] * margin
        threshold = self.eta
        if threshold is None:
            threshold = (2 * loss - square - 0.5) / (2 * self.U)  # (13)
        self.entry["delta"], self.entry["threshold"] = sqrt(delta2), threshold
        if delta2 > 0:
            self.near(sqrt(delta2) - threshold)
        full = self.budget is not None and len(self.alpha) == self.budget
        if sqrt(delta2) <= threshold or delta2 == 0 or full:
            self.move(self.y[t], d)  # (10)
        else:
            self.alpha[t] = self.y[t]

    def move(self, c, d):
        for i, di in zip(self.alpha, d, strict=True):
            self.alpha[i] += c * di


class ProjectronPlusPlus(Projectron):
    names = ("delta", "threshold", "tau", "beta", "norm")

    def learn(self, t, margin):
        self.near(1 - self.y[t] * margin)
        if self.y[t] * margin <= 0:
            self.entry["tau"] = 1.0
            self.update(t, margin)
        elif self.y[t] * margin < 1:
            d, square, delta2 = self.project(t)
            loss = 1 - self.y[t] * margin
            tau = min(loss / square, 1)  # (17)
            beta = tau * (2 * loss - tau * square - 2 * self.U * sqrt(delta2))  # (16)
            self.near(beta)
            self.entry.update(delta=sqrt(delta2), tau=0.0, beta=0.0)
            if beta >= 0:
                self.entry.update(tau=tau, beta=beta)
                self.move(self.y[t] * tau, d)  # (14)
