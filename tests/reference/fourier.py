"""Gradient descent on random Fourier features, Lu et al. (2016), Algorithm 1 and section 4 (more classes)."""

from math import cos, exp, log, sin, sqrt

import numpy as np


class FOGD:
    """One weight vector, or one for each of more than two classes, over the features of a row.

    The frequencies of a feature are drawn when its number comes up, one after the other. A hinge loss of at
    most `tie` counts as 0. Of classes whose scores differ by at most `tie`, the first one is lowered.
    """

    tie = 1e-9

    def __init__(
        self, rng, d, n_components, gamma, eta, decay=0.0, loss="hinge", schedule="constant", classes=2
    ):
        self.U = [[sqrt(2 * gamma) * rng.standard_normal() for _ in range(n_components)] for _ in range(d)]
        self.n, self.eta, self.decay, self.loss, self.schedule = n_components, eta, decay, loss, schedule
        self.classes = classes
        self.W = np.zeros((1 if classes == 2 else classes, 2 * n_components))
        self.t = self.mistakes = 0
        self.gap, self.entry = np.inf, {}

    def features(self, x):
        angles = [sum(xj * u[i] for xj, u in zip(x, self.U, strict=True)) for i in range(self.n)]
        return np.array([cos(a) for a in angles] + [sin(a) for a in angles]) / sqrt(self.n)

    def scores(self, x):
        return self.W @ self.features(x)

    def gradients(self, s, y):
        """Return the derivative of the loss by each score."""
        if self.classes == 2:
            m = y * s[0]
            if self.loss == "hinge":
                self.gap = abs(1 - m - self.tie)
                return np.array([-y if 1 - m > self.tie else 0.0])
            return np.array([-y / (1 + exp(m)) if self.loss == "logistic" else s[0] - y])
        if self.loss == "squared":
            return np.array([s[c] - (1 if c == y else -1) for c in range(self.classes)])
        if self.loss == "logistic":
            odds = np.exp(s)
            return odds / odds.sum() - np.eye(self.classes)[y]
        worst = None
        for c in range(self.classes):
            if c != y and (worst is None or s[c] > s[worst] + self.tie):
                worst = c
        self.gap = abs(1 - (s[y] - s[worst]) - self.tie)
        if 1 - (s[y] - s[worst]) <= self.tie:
            return np.zeros(self.classes)
        return np.eye(self.classes)[worst] - np.eye(self.classes)[y]

    def play(self, x, y):
        """Play a round with the label -1 or +1, or the number of the class; return the scores before it."""
        self.t += 1
        eta = {"constant": self.eta, "sqrt": self.eta / sqrt(self.t), "inverse": self.eta / self.t}[
            self.schedule
        ]
        s = self.scores(x)
        right = y * s[0] if self.classes == 2 else s[y] - max(s[c] for c in range(self.classes) if c != y)
        self.mistakes += right <= 0
        slopes = self.gradients(s, y)
        learns = bool(slopes.any()) or (self.decay > 0 and bool(self.W.any()))
        self.W = (1 - eta * self.decay) * self.W - eta * np.outer(slopes, self.features(x))
        tau = eta * float(np.linalg.norm(slopes)) if learns else np.nan
        self.entry = {"tau": tau, "norm": float(np.linalg.norm(self.W))}
        return s

    def loss_of(self, s, y):
        """Return the loss whose derivatives `gradients` has."""
        if self.classes == 2:
            m = y * s[0]
            return {"hinge": max(0, 1 - m), "logistic": log(1 + exp(-m)), "squared": (1 - m) ** 2 / 2}[
                self.loss
            ]
        if self.loss == "squared":
            return sum((s[c] - (1 if c == y else -1)) ** 2 for c in range(self.classes)) / 2
        if self.loss == "logistic":
            return log(sum(exp(v) for v in s)) - s[y]
        return max(0, 1 - s[y] + max(s[c] for c in range(self.classes) if c != y))
