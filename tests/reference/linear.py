"""The linear learners of 004 (figures 8.6, 8.10-8.12) and 001, PA and AROW: whole vectors, every round."""

from math import inf, nan, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp


class Linear:
    """A weight vector and the rounds over it. With an intercept, all rows are (1, x).

    `gap` tells how close the decisions of the last round were, as in the kernel references. `predictors`
    lists the hypothesis that predicted each round.
    """

    names: tuple[str, ...] = ("tau", "norm")

    def __init__(self, d, fit_intercept=True):
        self.fit_intercept = fit_intercept
        self.w = np.zeros(d + fit_intercept)
        self.predictors = []
        self.mistakes = self.updates = 0
        self.gap = inf
        self.entry = {}

    def near(self, difference):
        self.gap = min(self.gap, abs(difference))

    def play(self, x, y):
        x = np.append(1.0, x) if self.fit_intercept else x
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
    def __init__(self, d, eta=1.0, normalize=False, fit_intercept=True):
        super().__init__(d, fit_intercept)
        self.eta, self.normalize = eta, normalize

    def update(self, x, y, margin):
        length = sqrt(x @ x) if self.normalize else 1.0
        self.step(self.eta / length if length > 0 else 0.0, y, x)


class MarginPerceptron(Linear):
    def __init__(self, d, margin, fit_intercept=True):
        super().__init__(d, fit_intercept)
        self.rho = margin

    def learn(self, x, y, margin):
        norm = sqrt(self.w @ self.w)
        if norm > 0:
            self.near(y * margin - self.rho / 2 * norm)
        if norm == 0 or y * margin / norm < self.rho / 2:
            self.step(1.0, y, x)


class OnlineSVM(Linear):
    names = ("phi", "tau", "norm")

    def __init__(self, d, eta, C, fit_intercept=True):
        super().__init__(d, fit_intercept)
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
    def __init__(self, d, C, variant, fit_intercept=True):
        super().__init__(d, fit_intercept)
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

    def __init__(self, d, r, covariance, fit_intercept=True):
        super().__init__(d, fit_intercept)
        self.r, self.diagonal = r, covariance == "diagonal"
        self.inverse = np.eye(d + fit_intercept)

    def learn(self, x, y, margin):
        self.near(1 - y * margin)
        if y * margin < 1:
            sigma = np.linalg.inv(self.inverse)
            self.step((1 - y * margin) / (x @ sigma @ x + self.r), y, sigma @ x)
            gained = np.outer(x, x) / self.r
            self.inverse = self.inverse + (np.diag(np.diag(gained)) if self.diagonal else gained)


class JointAROW:
    """AROW with any loss, prior, forgetting, weights and number of classes.

    With two classes there is one mean, of class 1; its score is that of class 0 with the opposite sign. The
    covariance is a whole matrix. If it is diagonal, the inverse variances grow, and nothing else.
    """

    def __init__(self, d, n_classes, r, covariance, *, loss, prior, forget=1.0, fit_intercept=True):
        self.outputs = n_classes if n_classes > 2 else 1
        self.r, self.diagonal, self.loss = r, covariance == "diagonal", loss
        self.prior, self.forget = prior, forget
        self.fit_intercept = fit_intercept
        self.w, self.sigma = np.zeros((self.outputs, d + fit_intercept)), prior * np.eye(d + fit_intercept)
        self.mistakes = self.updates = 0

    def play(self, x, code, weight=1.0):
        """Play a round; return the scores before the label was seen."""
        x = np.append(1.0, x) if self.fit_intercept else x
        if self.outputs == 1:
            y = np.array([1.0 if code == 1 else -1.0])
        else:
            y = np.where(np.arange(self.outputs) == code, 1.0, -1.0)
        s = self.w @ x
        lead = y[0] * s[0] if self.outputs == 1 else s[y > 0][0] - s[y < 0].max()
        self.mistakes += lead <= 0.0
        self.entry = {"tau": nan}
        if weight > 0.0 and self.learns(y, s, lead):
            self.update(x, y, s, self.r / weight)
        self.entry["norm"] = float(np.linalg.norm(self.w))
        return s

    def learns(self, y, s, lead):
        """Return whether a row with labels y and scores s is learned."""
        if self.loss == "hinge":
            return bool((y * s < 1.0).any())
        if self.loss == "squared":
            return True
        right = expit(lead) if self.outputs == 1 else np.exp(s[y > 0][0] - logsumexp(s))
        return 1.0 - right >= 0.03

    def update(self, x, y, s, r):
        direction = self.sigma @ x
        v = float(x @ direction)
        pairs = [self.step(y_c, s_c, v, r) for y_c, s_c in zip(y, s, strict=True)]
        steps, curvatures = np.array(pairs).T
        h = curvatures.mean() * (3.0 if self.loss == "logistic" and self.outputs > 1 else 1.0)
        self.w = sqrt(self.forget) * (self.w + np.outer(steps, direction))
        if self.diagonal:
            sigma = np.diag(1.0 / (1.0 / np.diag(self.sigma) + x**2 * h / r))
        else:
            sigma = self.sigma - np.outer(direction, direction) / (v + r / h)
        self.sigma = self.forget * sigma + (1.0 - self.forget) * self.prior * np.eye(len(x))
        self.entry["tau"] = float(np.linalg.norm(steps))
        self.updates += 1

    def step(self, y, s, v, r):
        """Return the step of a class and the curvature of its loss after the step, times r."""
        if self.loss == "logistic":
            # The margin after the step: u = y s + v g / r with g = sigmoid(-u)
            u = brentq(
                lambda u: u - y * s - v / r * expit(-u), y * s, y * s + v / r + 1e-9, xtol=1e-15, rtol=1e-14
            )
            g = expit(-u)
            return y * g / r, g * (1.0 - g)
        if self.loss == "hinge" and y * s >= 1.0:
            return 0.0, 0.0
        return (y - s) / (v + r), 1.0


class Winnow(Linear):
    names = ("Z",)

    def __init__(self, d, eta, balanced=False, fit_intercept=False):
        super().__init__(d, fit_intercept)
        self.eta, self.balanced = eta, balanced
        self.full = np.ones(len(self.w) * (2 if balanced else 1))
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
