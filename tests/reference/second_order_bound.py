"""The bound of second-order learners, computed literally in the space of the reference learner.

Nothing is assumed about coordinates: rows are vectors with the right inner products, spans are projectors.
"""

from math import sqrt

import numpy as np

from reference.second_order import JointSecondOrder


class RecordedRun(JointSecondOrder):
    """A run of the reference that records the image of each round, and the spans around exchanges."""

    def __init__(self, K, y, *, r=1.0, prior=1.0, **options):
        super().__init__(K, (y > 0).astype(int), 2, r=r, prior=prior, loss="hinge", **options)
        self.y, self.images, self.exchanges, self.stored = y, {}, [], []
        self.margins, self.learned, self.gains, self.potentials = [], [], [], []
        for t in range(len(y)):
            self.margins.append(y[t] * self.play(t)[0])
            self.learned.append(not np.isnan(self.entry["variance"]))

    def phi(self, t):
        self.images[t] = super().phi(t)  # the last time in a round: after a support was added
        return self.images[t]

    def update(self, t, y, s, margin_error):
        before = list(self.supports)
        super().update(t, y, s, margin_error)
        self.stored += [s for s in self.supports if s not in before]
        v, m = self.entry["variance"], y[0] * s[0]
        self.gains.append(1.0 - self.r * (1.0 - m) ** 2 / (v + self.r))
        self.potentials.append(self.r * float(self.w[0] @ np.linalg.solve(self.sigma, self.w[0])))

    def exchange(self):
        before, old = self.projector(self.supports), list(self.supports)
        super().exchange()
        if old != self.supports:
            self.exchanges.append((before, self.projector(self.supports)))

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

    def bound_at_rows(self, u, values, coef_norm, deltas, exchanges):
        """The bound for a competitor known by its values at the rows, its norm, and the distances."""
        learned = np.array(self.learned)
        squares = float(np.square(values[learned]).sum())
        losses = float(np.maximum(0.0, 1.0 - self.y * values).sum())
        _, _, gain, correct_updates, _ = self.sums(np.zeros(len(self.sigma)))
        square = self.r / self.prior * (1 + exchanges) * coef_norm**2 + squares
        more = coef_norm * (sqrt(gain) * np.linalg.norm(deltas) + np.sum(deltas))
        return sqrt(square) * sqrt(gain) + losses - correct_updates + more


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
