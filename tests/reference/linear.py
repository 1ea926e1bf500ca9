"""The linear learners of 004 (figures 8.6, 8.10-8.12) and 001, PA and AROW: whole vectors, every round."""

from math import inf, nan, sqrt

import numpy as np


class Linear:
    """A weight vector and the rounds over it.

    `gap` tells how close the decisions of the last round were, as in the kernel references. `predictors`
    lists the hypothesis that predicted each round.
    """

    names: tuple[str, ...] = ("tau", "norm")

    def __init__(self, d):
        self.w = np.zeros(d)
        self.predictors = []
        self.mistakes = self.updates = 0
        self.gap = inf
        self.entry = {}

    def near(self, difference):
        self.gap = min(self.gap, abs(difference))

    def play(self, x, y):
        self.gap = inf
        self.entry = dict.fromkeys(self.names, nan)
        self.predictors = [*self.predictors, self.w]
        margin = float(self.w @ x)
        if np.any(self.w * x != 0):  # otherwise it is 0 without rounding
            self.near(margin)
        self.mistakes += y * margin <= 0
        self.learn(x, y, margin)
        if "norm" in self.names:
            self.entry["norm"] = sqrt(self.w @ self.w)
        return margin

    def learn(self, x, y, margin):
        if y * margin <= 0:
            self.update(x, y, margin)

    def step(self, tau, y, x):
        self.entry["tau"] = tau
        self.w = self.w + tau * y * x
        self.updates += 1


class Perceptron(Linear):
    def __init__(self, d, eta=1.0, normalize=False):
        super().__init__(d)
        self.eta, self.normalize = eta, normalize

    def update(self, x, y, margin):
        length = sqrt(x @ x) if self.normalize else 1.0
        self.step(self.eta / length if length > 0 else 0.0, y, x)


class MarginPerceptron(Linear):
    def __init__(self, d, margin):
        super().__init__(d)
        self.rho = margin

    def learn(self, x, y, margin):
        norm = sqrt(self.w @ self.w)
        if norm > 0:
            self.near(y * margin - self.rho / 2 * norm)
        if norm == 0 or y * margin / norm < self.rho / 2:
            self.step(1.0, y, x)


class OnlineSVM(Linear):
    names = ("phi", "tau", "norm")

    def __init__(self, d, eta, C):
        super().__init__(d)
        self.eta, self.C = eta, C

    def learn(self, x, y, margin):
        self.near(y * margin - 1)
        if y * margin < 1:
            self.w = self.w - self.eta * (self.w - self.C * y * x)
            self.entry["tau"] = self.eta * self.C
            self.updates += 1
        elif y * margin > 1:
            self.w = self.w - self.eta * self.w
        if y * margin != 1:
            self.entry["phi"] = 1 - self.eta


class PassiveAggressive(Linear):
    def __init__(self, d, C, variant):
        super().__init__(d)
        self.C, self.variant = C, variant

    def learn(self, x, y, margin):
        loss = 1 - y * margin
        self.near(loss)
        if loss > 0:
            square = x @ x
            if self.variant == "PA-II":
                tau = loss / (square + 1 / (2 * self.C))
            elif square == 0:
                tau = 0.0
            elif self.variant == "PA-I":
                tau = min(self.C, loss / square)
            else:
                tau = loss / square
            self.step(tau, y, x)


class AROW(Linear):
    """Full: by the rank-one update. Diagonal: the inverse variances grow by x^2 / r."""

    def __init__(self, d, r, covariance):
        super().__init__(d)
        self.r, self.diagonal = r, covariance == "diagonal"
        self.inverse = np.eye(d)

    def learn(self, x, y, margin):
        self.near(1 - y * margin)
        if y * margin < 1:
            sigma = np.linalg.inv(self.inverse)
            self.step((1 - y * margin) / (x @ sigma @ x + self.r), y, sigma @ x)
            gained = np.outer(x, x) / self.r
            self.inverse = self.inverse + (np.diag(np.diag(gained)) if self.diagonal else gained)


class Winnow(Linear):
    names = ("Z",)

    def __init__(self, d, eta, balanced=False):
        super().__init__(d)
        self.eta, self.balanced = eta, balanced
        self.full = np.ones(2 * d if balanced else d)
        self.full = self.full / self.full.sum()
        self.show()

    def show(self):
        d = len(self.w)
        self.w = self.full[:d] - self.full[d:] if self.balanced else self.full

    def update(self, x, y, margin):
        if self.balanced:
            x = np.concatenate([x, -x])
        grown = self.full * np.exp(self.eta * y * x)
        self.entry["Z"] = grown.sum()
        self.full = grown / grown.sum()
        self.show()
        self.updates += 1
