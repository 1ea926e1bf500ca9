"""The kernel Perceptron, 002 Algorithm 1; its shrinking (003 section 4) and voted (004 8.3.1) forms."""

from math import inf, nan, sqrt

import numpy as np


class Reference:
    """A hypothesis as a dict from round to coefficient, oldest first, and the rounds over it.

    `gap` is how near the last round came to deciding otherwise: the smallest distance of
    a compared quantity from what it was compared with. The tests leave rounds out in
    which rounding alone could turn a decision.
    """

    names: tuple[str, ...] = ("norm",)

    def __init__(self, K, y):
        self.K, self.y = K, y
        self.alpha: dict[int, float] = {}
        self.mistakes = 0
        self.gap = inf
        self.entry: dict[str, float] = {}

    def terms(self, alpha=None):
        """The rounds of a hypothesis and their coefficients."""
        alpha = self.alpha if alpha is None else alpha
        return np.fromiter(alpha, int, len(alpha)), np.fromiter(alpha.values(), float, len(alpha))

    def f(self, t, alpha=None):
        rounds, c = self.terms(alpha)
        return float(c @ self.K[rounds, t])

    def norm(self, alpha=None):
        rounds, c = self.terms(alpha)
        square = c @ self.K[np.ix_(rounds, rounds)] @ c
        return sqrt(max(square, 0.0))

    def near(self, difference):
        self.gap = min(self.gap, abs(difference))

    def play(self, t):
        """Round t: the margin before the label is seen."""
        self.gap = inf
        self.entry = {name: -1 if name == "removed" else nan for name in self.names}
        margin = self.f(t)
        if self.alpha:
            self.near(margin)
        if self.y[t] * margin <= 0:
            self.mistakes += 1
        self.learn(t, margin)
        self.entry["norm"] = self.norm()
        return margin

    def learn(self, t, margin):
        if self.y[t] * margin <= 0:
            self.update(t, margin)

    def update(self, t, margin):
        raise NotImplementedError

    def remove(self, r):
        self.entry["removed"] = r
        del self.alpha[r]


class KernelPerceptron(Reference):
    def update(self, t, margin):
        self.alpha[t] = self.y[t]


class ShrinkingPerceptron(Reference):
    names = ("phi", "norm")

    def __init__(self, K, y, phi):
        super().__init__(K, y)
        self.phi = phi

    def update(self, t, margin):
        self.alpha[t] = self.y[t]
        self.alpha = {i: self.phi * c for i, c in self.alpha.items()}
        self.entry["phi"] = self.phi


class VotedPerceptron(KernelPerceptron):
    """Keeps every hypothesis that was asked to predict, one for each round."""

    def __init__(self, K, y):
        super().__init__(K, y)
        self.asked = []

    def play(self, t):
        self.asked.append(dict(self.alpha))
        return super().play(t)

    def average(self, t):
        return float(np.mean([self.f(t, alpha) for alpha in self.asked]))

    def majority(self, t):
        return float(np.mean([np.sign(self.f(t, alpha)) for alpha in self.asked]))
