"""Online gradient descent with kernels: NORMA, BOGD, BSGD and NOGD."""

from functools import cache
from itertools import pairwise
from math import exp, log, sqrt

import numpy as np
from scipy.optimize import brentq

from reference.kernels import rbf
from reference.perceptron import Reference


class OGD(Reference):
    """NORMA, Kivinen, Smola and Williamson (2004), eqs. 8-11.

    A hinge loss of at most `tie` (see `Reference`) counts as 0.
    """

    def __init__(self, K, y, eta, decay=0.0, loss="hinge", schedule="constant", budget=None):
        super().__init__(K, y)
        self.eta, self.decay, self.loss, self.schedule, self.budget = eta, decay, loss, schedule, budget
        self.names = ("tau", "norm") if budget is None else ("tau", "error", "removed", "norm")
        self.t = 0

    def derivative(self, value, label):
        """l'(f(x), y), the derivative of the loss by f(x)."""
        if self.loss == "hinge":
            self.near(1 - label * value - self.tie)
            return -label if 1 - label * value > self.tie else 0.0
        if self.loss == "logistic":
            return -label / (1 + exp(label * value))
        return value - label

    def learn(self, t, margin):
        self.t += 1
        eta = {"constant": self.eta, "sqrt": self.eta / sqrt(self.t), "inverse": self.eta / self.t}
        eta = eta[self.schedule]
        slope = self.derivative(margin, self.y[t])
        if slope == 0 and (self.decay == 0 or not self.alpha):
            return
        self.alpha = {i: (1 - eta * self.decay) * c for i, c in self.alpha.items()}
        self.entry["tau"] = abs(eta * slope)
        if slope != 0:
            self.alpha[t] = -eta * slope
            if self.budget is not None and len(self.alpha) > self.budget:
                oldest = next(iter(self.alpha))
                self.entry["error"] = abs(self.alpha[oldest]) * sqrt(self.K[oldest, oldest])
                self.remove(oldest)


class BOGD(Reference):
    """Bounded gradient descent, Zhao et al. (2012), Algorithms 1 and 2, with the hinge loss.

    p_i is the probability that support i is removed. The paper's p_i = 1 - s |alpha_i| sqrt(k(x_i, x_i)) can
    be below 0. Then it is 0 here, and s is such that the others sum to 1.
    """

    names = ("tau", "variance", "error", "removed", "norm")

    def __init__(self, K, y, budget, rng, eta, decay=0.0, limit=10.0, variant="BOGD++"):
        super().__init__(K, y)
        self.budget, self.rng, self.eta, self.decay = budget, rng, eta, decay
        self.limit, self.variant = limit, variant

    def probabilities(self):
        sizes = {i: abs(c) * sqrt(self.K[i, i]) for i, c in self.alpha.items()}
        if self.variant == "uniform" or sum(sizes.values()) == 0:
            return dict.fromkeys(self.alpha, 1 / self.budget)
        certain = set()  # supports that are never removed
        while True:
            rest = {i: size for i, size in sizes.items() if i not in certain}
            s = (len(rest) - 1) / sum(rest.values())
            more = {i for i, size in rest.items() if s * size >= 1}
            if not more:
                return {i: 0.0 if i in certain else 1 - s * sizes[i] for i in sizes}
            certain |= more

    def learn(self, t, margin):
        loss = 1 - self.y[t] * margin
        self.near(loss - self.tie)
        if loss <= self.tie and (self.decay == 0 or not self.alpha):
            return
        self.entry["tau"] = 0.0
        self.alpha = {i: (1 - self.eta * self.decay) * c for i, c in self.alpha.items()}
        if loss <= self.tie:
            return
        self.entry["tau"] = self.eta
        lost = change = 0.0
        if len(self.alpha) == self.budget:
            p = self.probabilities()
            if self.budget == 1:  # the change has no mean of 0
                lost = self.entry["error"] = self.norm(self.alpha)
            if self.variant == "uniform":
                r = list(self.alpha)[self.rng.integers(self.budget)]
            else:
                u, below, r = self.rng.random(), 0.0, None
                for i, share in p.items():
                    below += share
                    if share > 0:
                        self.near(1e3 * (u - below))  # hardly depends on kernel values
                        r = i
                    if u < below:
                        break
            self.entry["variance"] = sum(
                p[i] * c**2 * self.K[i, i] / (1 - p[i]) ** 2 for i, c in self.alpha.items() if p[i] < 1
            )
            before = dict(self.alpha)
            self.remove(r)
            self.alpha = {i: c / (1 - p[i]) for i, c in self.alpha.items()}
            if self.budget > 1:
                change = self.norm({i: self.alpha.get(i, 0.0) - c for i, c in before.items()})
        self.alpha[t] = self.eta * self.y[t]
        most = self.limit * self.eta
        clipped = {i: max(-most, min(most, c)) for i, c in self.alpha.items()}
        changes = {i: clipped[i] - c for i, c in self.alpha.items() if clipped[i] != c}
        if changes:
            self.entry["error"] = lost + self.norm(changes)
            if change > 0:
                self.entry["variance"] += 2 * change * self.norm(changes)
        self.alpha = clipped


class BSGD(Reference):
    """Budgeted stochastic gradient descent, Wang, Crammer and Vucetic (2012), Algorithm 1.

    Projection does not store a row whose squared distance from the span is at most 1e-4 k(x, x).
    """

    names = ("tau", "error", "removed", "norm")

    def __init__(self, K, y, budget, decay, variant):
        super().__init__(K, y)
        self.budget, self.decay, self.variant, self.t = budget, decay, variant, 0

    def learn(self, t, margin):
        self.t += 1
        loss = 1 - self.y[t] * margin
        self.near(loss - self.tie)
        if loss <= self.tie and not self.alpha:
            return
        eta = 1 / (self.decay * self.t)
        self.entry["tau"] = 0.0
        self.alpha = {i: (1 - 1 / self.t) * c for i, c in self.alpha.items()}
        if loss <= self.tie:
            return
        self.entry["tau"] = eta
        if self.variant == "removal":
            self.alpha[t] = eta * self.y[t]
        else:
            self.store(t, eta * self.y[t])
        if len(self.alpha) > self.budget:
            sizes = {i: abs(c) * sqrt(self.K[i, i]) for i, c in self.alpha.items()}
            tolerance = self.tie * max(sizes.values())
            r, gap = self.smallest(sizes, tolerance)
            self.near_tie(gap, tolerance)
            self.entry["error"] = self.maintain(r)

    def maintain(self, r):
        """Remove or project the term r; return the norm of the change."""
        before = dict(self.alpha)
        if self.variant == "projection":
            self.spread(r)
        self.remove(r)
        return self.norm({i: self.alpha.get(i, 0.0) - c for i, c in before.items()})


class NOGD(Reference):
    """Nystroem gradient descent, Lu et al. (2016), Algorithm 2, with the hinge loss.

    The features of x are D^-1/2 V' k(x), and w is the weight vector over them. Eigenvalues are ties if they
    differ from the next by at most 1e-7 of the largest. If the rank divides ties, the unit vectors of the
    supports, oldest first, are projected onto the span of the ties and made orthonormal. Rests with a square
    of at most 1 / (2 B) are skipped.
    """

    names = ("tau", "norm")

    def __init__(self, K, y, budget, rank, eta):
        super().__init__(K, y)
        self.budget, self.rank, self.eta = budget, rank, eta
        self.w = self.features = None

    def learn(self, t, margin):
        loss = 1 - self.y[t] * margin
        self.near(loss - self.tie)
        if loss <= self.tie:
            return
        self.entry["tau"] = self.eta
        if self.w is None:
            self.alpha[t] = self.eta * self.y[t]
            if len(self.alpha) == self.budget:
                S = list(self.alpha)
                D, V = self.eigenvectors(self.K[np.ix_(S, S)])
                self.features = np.diag(D**-0.5) @ V.T
                self.w = np.diag(D**0.5) @ V.T @ np.array(list(self.alpha.values()))
        else:
            z = self.features @ self.K[list(self.alpha), t]
            self.w = self.w + self.eta * self.y[t] * z
        if self.w is not None:
            self.alpha = dict(zip(self.alpha, (self.features.T @ self.w).tolist(), strict=True))

    def eigenvectors(self, K):
        D, V = np.linalg.eigh(K)
        pairs = [(D[i], V[:, i]) for i in reversed(range(len(D))) if D[i] > 1e-6 * D[-1]]
        groups = [[pairs[0]]]
        for before, pair in pairwise(pairs):
            if before[0] - pair[0] > 1e-7 * D[-1]:
                groups.append([])
            groups[-1].append(pair)
        kept = []
        for group in groups:
            if len(kept) + len(group) <= self.rank:
                kept += group
                continue
            ties = np.array([v for _, v in group])
            basis = []
            for unit in np.eye(len(D)):
                rest = ties.T @ (ties @ unit)
                rest = rest - sum((b * (b @ rest) for b in basis), np.zeros(len(D)))
                if rest @ rest > 0.5 / len(D) and len(kept) < self.rank:
                    basis.append(rest / np.linalg.norm(rest))
                    kept.append((basis[-1] @ K @ basis[-1], basis[-1]))
            break
        return np.array([d for d, _ in kept]), np.array([v for _, v in kept]).T


def merge_gain(m, k, h):
    """The coefficient of the merged term for a + b = 1, Wang, Crammer and Vucetic (2012), eq. 22."""
    return m * k ** ((1 - h) ** 2) + (1 - m) * k ** (h**2)


def merge_loss(m, k, h):
    """The square of the norm of the change for a + b = 1."""
    return m**2 + (1 - m) ** 2 + 2 * m * (1 - m) * k - merge_gain(m, k, h) ** 2


def golden_section(m, k, accuracy=1e-9):
    """The h in [0, 1/2] with the largest gain, for m <= 1/2, by golden-section search."""
    ratio = (sqrt(5) - 1) / 2
    low, high = 0.0, 0.5
    while high - low > accuracy:
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if merge_gain(m, k, left) < merge_gain(m, k, right):
            low = left
        else:
            high = right
    return (low + high) / 2


@cache
def best_share(i, j):
    """The h of the corner of a cell of the table, where m = i / 400 and k = j / 400.

    The derivative of the gain is 0 there. A search by the gain itself would find only half of its digits.
    """
    m, k = i / 400, j / 400
    if m == 0 or k == 0:
        return 0.0

    def slope(h):
        return log(m * (1 - h)) + log(k) * (1 - 2 * h) - log((1 - m) * h)

    return brentq(slope, 1e-300, 0.5, xtol=1e-16) if slope(0.5) < 0 else symmetric_share(slope)


def symmetric_share(slope):
    """The h for m = 1/2, where h = 1/2 has no slope: a smaller one if there is one with a larger gain."""
    inner = 0.5 - 1e-7
    return brentq(slope, 1e-300, inner, xtol=1e-16) if slope(inner) < 0 else 0.5


def table_loss(i, j):
    """The square of the norm of the change for a = 1 at the corner of a cell."""
    m, k = i / 400, j / 400
    if m == 0:  # the limit for large b
        return 1 - k**2 + (2 * k**2 * log(k) if k else 0)
    return merge_loss(m, k, best_share(i, j)) / m**2


def from_table(value, m, k):
    """Bilinear interpolation of value(i, j) in the cell of (m, k)."""
    i, j = min(int(400 * m), 199), min(int(400 * k), 399)
    x, y = 400 * m - i, 400 * k - j
    low = (1 - y) * value(i, j) + y * value(i, j + 1)
    return (1 - x) * low + x * ((1 - y) * value(i + 1, j) + y * value(i + 1, j + 1))


class MergingBSGD(BSGD):
    """BSGD with merging. The smallest term is merged with the one for which the change is smallest.

    Only terms of the same sign are merged; if there is none, the smallest term is removed. The change and h
    are those of the table of Glasmachers and Qaurooni (2018). `K` and `rows` change with the supports.
    """

    def __init__(self, K, y, rows, gamma, budget, decay):
        super().__init__(K, y, budget, decay, "removal")
        self.rows, self.gamma = rows, gamma

    def maintain(self, r):
        """Merge the term r with another; return the norm of the change, computed from the rows."""
        a, losses = self.alpha[r], {}
        for q, b in self.alpha.items():
            if q != r and a * b > 0:
                losses[q] = a**2 * from_table(table_loss, a / (a + b), self.K[r, q])
        if not losses:
            return super().maintain(r)
        tolerance = self.tie * a**2
        q, gap = self.smallest(losses, tolerance)
        self.near_tie(gap, tolerance)
        b, k = self.alpha[q], self.K[r, q]
        h = from_table(best_share, a / (a + b), k)
        z = [h * xr + (1 - h) * xq for xr, xq in zip(self.rows[r], self.rows[q], strict=True)]
        c = a * rbf(self.rows[r], z, self.gamma) + b * rbf(self.rows[q], z, self.gamma)
        # ||a k(x_r, .) + b k(x_q, .) - c k(z, .)||^2; c is the inner product of the first two with k(z, .)
        square = a**2 + b**2 + 2 * a * b * k - c**2
        self.rows, self.K = self.rows.copy(), self.K.copy()
        self.rows[q], self.alpha[q] = z, c
        self.K[q] = self.K[:, q] = [rbf(row, z, self.gamma) for row in self.rows]
        self.remove(r)
        return sqrt(max(0.0, square))
