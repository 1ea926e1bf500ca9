"""Online gradient descent with kernels: NORMA, BOGD, BSGD and NOGD."""

from itertools import pairwise
from math import exp, sqrt

import numpy as np

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
        if len(self.alpha) == self.budget:
            p = self.probabilities()
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
            self.remove(r)
            self.alpha = {i: c / (1 - p[i]) for i, c in self.alpha.items()}
        self.alpha[t] = self.eta * self.y[t]
        most = self.limit * self.eta
        clipped = {i: max(-most, min(most, c)) for i, c in self.alpha.items()}
        changes = {i: clipped[i] - c for i, c in self.alpha.items() if clipped[i] != c}
        if changes:
            self.entry["error"] = self.norm(changes)
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
            before = dict(self.alpha)
            if self.variant == "projection":
                self.spread(r)
            self.remove(r)
            changes = {i: self.alpha.get(i, 0.0) - c for i, c in before.items()}
            self.entry["error"] = self.norm(changes)


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
