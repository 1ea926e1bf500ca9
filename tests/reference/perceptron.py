"""The kernel Perceptron, 002 Algorithm 1; its shrinking (003 section 4) and voted (004 8.3.1) forms."""

from math import inf, nan, sqrt

import numpy as np


class Reference:
    """A hypothesis as a dict from round to coefficient, oldest first, and the rounds over it.

    `gap` tells how close the decisions of the last round were: the smallest difference between two compared
    quantities. The tests leave out rounds in which rounding could change a decision.

    Some algorithms choose the support with the smallest or largest value. Values are ties if they differ by
    at most `tie` times the largest term, which is the largest |coefficient| times the largest k(x, x) of the
    supports. Of ties the oldest support is chosen: a newer one is preferred only if its value is better by
    more than the tolerance. `tie` is 1e-9, and 1e-4 for float32 rows.
    """

    names: tuple[str, ...] = ("norm",)
    tie = 1e-9

    def __init__(self, K, y):
        self.K, self.y = K, y
        self.alpha: dict[int, float] = {}
        self.mistakes = 0
        self.gap = inf
        self.entry: dict[str, float] = {}

    def terms(self, alpha=None):
        """Return the rounds of a hypothesis and their coefficients."""
        alpha = self.alpha if alpha is None else alpha
        return np.fromiter(alpha, int, len(alpha)), np.fromiter(alpha.values(), float, len(alpha))

    def f(self, t, alpha=None):
        rounds, c = self.terms(alpha)
        return float(c @ self.K[rounds, t])

    def norm(self, alpha=None):
        rounds, c = self.terms(alpha)
        square = c @ self.K[np.ix_(rounds, rounds)] @ c
        return sqrt(max(square, 0.0))

    def tie_tolerance(self, term=0.0):
        """Return the difference up to which values are ties; other terms of their sums are at most `term`."""
        rounds, c = self.terms()
        return self.tie * max(term, np.abs(c).max() * self.K[rounds, rounds].max())

    def smallest(self, values, tolerance):
        """Return the round with the smallest value, of ties the oldest, and the gap of that choice."""
        best, gap = None, inf
        for i, value in values.items():
            if best is not None:
                gap = min(gap, abs(values[best] - tolerance - value))
            if best is None or value < values[best] - tolerance:
                best = i
        return best, gap

    def near(self, difference):
        self.gap = min(self.gap, abs(difference))

    def near_tie(self, difference, tolerance):
        """Note how far a difference of coefficients is from the tolerance, as a part of the tolerance.

        Many coefficients are equal. Their difference, 0, is as far from the tolerance as it can be.
        """
        if tolerance > 0:
            self.near(difference / tolerance / 5)

    def play(self, t):
        """Play round t; return the margin before the label was seen."""
        self.gap = inf
        self.entry = {name: -1 if name == "removed" else nan for name in self.names}
        margin = self.f(t)
        if any(self.alpha.values()):  # otherwise f is exactly 0
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

    def projection(self, t, S):
        """Return the coefficients of the projection of k(x_t, .) onto the span of S, and its square."""
        if not S:
            return np.zeros(0), 0.0
        d = np.linalg.solve(self.K[np.ix_(S, S)], self.K[S, t])
        return d, float(d @ self.K[S, t])

    def store(self, t, c):
        """Add c k(x_t, .); project it if its squared distance from the span is at most a share of k(x, x)."""
        share = 1e-4 if self.tie < 1e-6 else 1e-3
        d, square = self.projection(t, list(self.alpha))
        left = self.K[t, t] - square - share * self.K[t, t]
        self.near_tie(left, share * self.K[t, t])
        if left > 0:
            self.alpha[t] = c
            return True
        self.alpha = {i: a + c * di for (i, a), di in zip(self.alpha.items(), d, strict=True)}
        return False

    def spread(self, r):
        """Add the projection of the term r onto the span of the other supports to their coefficients."""
        S = [i for i in self.alpha if i != r]
        d, _ = self.projection(r, S)
        for i, share in zip(S, d, strict=True):
            self.alpha[i] += self.alpha[r] * share


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


class ShiftingPerceptron(Reference):
    """Cavallanti, Cesa-Bianchi and Gentile: w <- (1 - a) w + a y x, a = rate / (rate + mistakes before).

    `w` holds the coefficients of the paper. The learner stores a multiple of w, in which a new support has
    the coefficient y before it is shrunk: w times (1 - a') / a', where a' is that of the next mistake.
    """

    names = ("phi", "norm")

    def __init__(self, K, y, rate):
        super().__init__(K, y)
        self.rate = rate
        self.w: dict[int, float] = {}

    def update(self, t, margin):
        k = self.mistakes - 1
        a = self.rate / (self.rate + k)
        self.w = {i: (1 - a) * c for i, c in self.w.items()} | {t: a * self.y[t]}
        following = self.rate / (self.rate + k + 1)
        self.alpha = {i: c * (1 - following) / following for i, c in self.w.items()}
        self.entry["phi"] = abs(self.alpha[t])


class VotedPerceptron(KernelPerceptron):
    """Stores the hypothesis that predicted each round."""

    def __init__(self, K, y):
        super().__init__(K, y)
        self.predictors = []

    def play(self, t):
        self.predictors.append(dict(self.alpha))
        return super().play(t)

    def average(self, t):
        return float(np.mean([self.f(t, alpha) for alpha in self.predictors]))

    def majority(self, t):
        return float(np.mean([np.sign(self.f(t, alpha)) for alpha in self.predictors]))
