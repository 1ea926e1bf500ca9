"""The bound of second-order learners, computed literally in the space of the reference learner.

Nothing is assumed about coordinates: rows are vectors with the right inner products, spans are projectors.
"""

from math import exp, log, log1p, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from reference.second_order import JointSecondOrder


class RecordedRun(JointSecondOrder):
    """A run of the reference that records the image of each round, and the spans around exchanges.

    `budgets` maps rounds to budgets: after such a round, this is the budget, and the oldest supports stay.
    """

    def __init__(self, K, y, *, r=1.0, prior=1.0, loss="hinge", budgets=None, **options):
        super().__init__(K, (y > 0).astype(int), 2, r=r, prior=prior, loss=loss, **options)
        self.y, self.images, self.exchanges, self.stored = y, {}, [], []
        self.margins, self.learned, self.gains, self.potentials = [], [], [], []
        self.slopes = {}
        for t in range(len(y)):
            self.margins.append(y[t] * self.play(t)[0])
            self.learned.append(not np.isnan(self.entry["variance"]))
            if budgets and t in budgets:
                self.change_budget(budgets[t])

    def phi(self, t):
        self.images[t] = super().phi(t)  # the last time in a round: after a support was added
        return self.images[t]

    def update(self, t, y, s, margin_error):
        before = list(self.supports)
        super().update(t, y, s, margin_error)
        self.stored += [s for s in self.supports if s not in before]
        v, m = self.entry["variance"], y[0] * s[0]
        self.slopes[t] = self.r * self.entry["tau"]
        self.gains.append(1.0 - self.r * (1.0 - m) ** 2 / (v + self.r))
        self.potentials.append(self.r * float(self.w[0] @ np.linalg.solve(self.sigma, self.w[0])))

    def exchange(self):
        before, old = self.projector(self.supports), list(self.supports)
        super().exchange()
        if old != self.supports:
            self.exchanges.append((before, self.projector(self.supports)))

    def change_budget(self, budget):
        """Keep the oldest supports, and the Gaussian within their span; reset it outside of the span."""
        before = self.projector(self.supports)
        self.supports, self.budget = self.supports[:budget], max(budget, 1)
        self.usage, self.refused = {}, 0
        after = self.projector(self.supports)
        self.w = self.w @ after
        self.sigma = after @ self.sigma @ after + self.prior * (np.eye(len(after)) - after)
        self.exchanges.append((before, after))

    def projector(self, supports):
        """Return the projector to the span of supports, and to the linear part."""
        P = np.eye(len(self.sigma))
        V = self.vectors[supports]
        P[: len(self.K), : len(self.K)] = (
            V.T @ np.linalg.lstsq(V @ V.T, V, rcond=None)[0] if supports else 0.0
        )
        return P

    def vector(self, coef):
        """Return the function with these coefficients over all rows, in the span of all supports ever."""
        u = np.zeros(len(self.sigma))
        u[: len(self.K)] = coef @ self.vectors
        return self.projector(self.stored) @ u

    def sums(self, u):
        """Return the sums of the bound: squares, hinge losses, gains, margin errors, exchanged squares."""
        values = np.array([self.images[t] @ u for t in range(len(self.y))])
        margins, learned = np.array(self.margins), np.array(self.learned)
        squares = sum(value**2 for value, used in zip(values, learned, strict=True) if used)
        losses = sum(max(0.0, 1.0 - y * value) for y, value in zip(self.y, values, strict=True))
        exchanged = sum(float(np.square((before - after) @ u).sum()) for before, after in self.exchanges)
        return squares, losses, sum(self.gains), int(np.sum(learned & (margins > 0.0))), exchanged

    def bound(self, u, exchange_term=True):
        squares, losses, gain, correct_updates, exchanged = self.sums(u)
        square = self.r / self.prior * (u @ u + exchange_term * exchanged) + squares
        return sqrt(square) * sqrt(gain) + losses - correct_updates

    def logistic_terms(self, u):
        """Return, of the logistic bound: losses over A, over all rounds, remainder, gain, correct losses."""
        over_learned = over_all = remainder = gain = correct = 0.0
        for t, y in enumerate(self.y):
            of_u, m = y * float(self.images[t] @ u), self.margins[t]
            over_all += logistic(of_u)
            if self.learned[t]:
                g = self.slopes[t]
                after = log((1.0 - g) / g)  # the margin after the step
                tangent = logistic(after) - g * (of_u - after)
                remainder += g * (1.0 - g) * (of_u - after) ** 2 / 2 - (logistic(of_u) - tangent)
                gain += logistic(m) - logistic(after) - g * (after - m) / 2
                over_learned += logistic(of_u)
                correct += logistic(m) if m > 0.0 else 0.0
        return over_learned, over_all, remainder, gain, correct

    def logistic_bound(self, u, exchange_term=True):
        _, losses, remainder, gain, correct = self.logistic_terms(u)
        exchanged = sum(float(np.square((before - after) @ u).sum()) for before, after in self.exchanges)
        square = self.r / (2 * self.prior) * (u @ u + exchange_term * exchanged)
        return (losses + square + remainder + gain - correct) / log(2.0)

    def bound_at_rows(self, u, values, coef_norm, deltas, exchanges):
        """The bound for a competitor known by its values at the rows, its norm, and the distances."""
        learned = np.array(self.learned)
        squares = float(np.square(values[learned]).sum())
        losses = float(np.maximum(0.0, 1.0 - self.y * values).sum())
        _, _, gain, correct_updates, _ = self.sums(np.zeros(len(self.sigma)))
        square = self.r / self.prior * (1 + exchanges) * coef_norm**2 + squares
        more = coef_norm * (sqrt(gain) * np.linalg.norm(deltas) + np.sum(deltas))
        return sqrt(square) * sqrt(gain) + losses - correct_updates + more


def logistic(margin):
    return log1p(exp(-margin)) if margin > -30.0 else -margin


def logistic_arow(X, y, diagonal, r, prior):
    """Run AROW with the logistic loss; return the same as `arow`."""
    w, sigma = np.zeros(X.shape[1]), prior * np.eye(X.shape[1])
    steps, mistakes, constant = [], 0, 0.0
    for x, label in zip(X, y, strict=True):
        m = label * (w @ x)
        mistakes += m <= 0.0
        if 1.0 - expit(m) < 0.03:
            continue
        v = float(x @ sigma @ x)
        g = brentq(lambda g, m=m, v=v: g - expit(-m - v * g / r), 0.0, 1.0, xtol=1e-15, rtol=1e-14)
        w = w + label * g / r * sigma @ x
        after = label * (w @ x)
        observed = g * (1.0 - g) * (np.diag(x * x) if diagonal else np.outer(x, x))
        sigma = np.linalg.inv(np.linalg.inv(sigma) + observed / r)
        steps.append((label * x, g, after, w, observed))
        constant += logistic(m) - logistic(after) - g * (after - m) / 2 - (logistic(m) if m > 0.0 else 0.0)

    def bound(u):
        total = constant + r / (2 * prior) * (u @ u) + sum(map(logistic, y * (X @ u)))
        for signed, g, after, w_t, observed in steps:
            d = float(signed @ u) - after
            total += (u - w_t) @ observed @ (u - w_t) / 2 - (logistic(after + d) - logistic(after) + g * d)
        return total / log(2.0)

    return mistakes, bound, w


def arow(X, y, diagonal, r=1.0, prior=1.0):
    """Run AROW; return the mistakes, the bound as a function of u, and the last mean."""
    d = X.shape[1]
    w, sigma = np.zeros(d), prior * np.eye(d)
    learned, dropped, gain, mistakes, correct_updates = [], np.zeros(d), 0.0, 0, 0
    for x, label in zip(X, y, strict=True):
        m = label * (w @ x)
        mistakes += m <= 0.0
        if m >= 1.0:
            continue
        correct_updates += m > 0.0
        v = float(x @ sigma @ x)
        w = w + label * (1.0 - m) / (v + r) * sigma @ x
        observed = np.diag(x * x) if diagonal else np.outer(x, x)
        sigma = np.linalg.inv(np.linalg.inv(sigma) + observed / r)
        learned.append(observed)
        dropped += (np.outer(x, x) - observed) @ w
        gain += 1.0 - r * (1.0 - m) ** 2 / (v + r)
    if diagonal:
        gain = r * float(w @ np.linalg.solve(sigma, w))

    def bound(u):
        square = r / prior * (u @ u) + sum(float(u @ observed @ u) for observed in learned)
        losses = float(np.maximum(0.0, 1.0 - y * (X @ u)).sum())
        return sqrt(square) * sqrt(gain) + float(u @ dropped) + losses - correct_updates

    return mistakes, bound, w
