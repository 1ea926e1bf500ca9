"""Remove-Oldest (003 section 3), CKS (003 section 8), Stoptron (002 section 5), tighter, Ahpatron."""

from math import sqrt

import numpy as np

from reference.perceptron import Reference


def psi(lam, mu):
    """003 (15)."""
    return lam**2 + 2 * lam - 2 * lam * mu


class RemoveOldest(Reference):
    names = ("psi", "removed", "norm")

    def __init__(self, K, y, budget):
        super().__init__(K, y)
        self.budget = budget

    def update(self, t, margin):
        self.entry["psi"] = 0.0
        self.alpha[t] = self.y[t]  # (7), (8)
        if len(self.alpha) == self.budget + 1:  # (9)
            r = min(self.alpha)
            self.entry["psi"] = psi(1, self.y[r] * self.f(r))
            self.remove(r)


class CKS(Reference):
    """Removes the support with the largest margin without itself; of ties (see `Reference`), the oldest."""

    names = ("removed", "norm")

    def __init__(self, K, y, budget):
        super().__init__(K, y)
        self.budget = budget

    def update(self, t, margin):
        before = list(self.alpha)
        self.alpha[t] = self.y[t]
        if len(self.alpha) > self.budget:
            negative_margins = {}
            for i in before:
                without = {j: c for j, c in self.alpha.items() if j != i}
                negative_margins[i] = -self.y[i] * self.f(i, without)
            best, gap = self.smallest(negative_margins, self.tie_tolerance())
            self.near(gap)
            self.remove(best)


class Stoptron(Reference):
    names = ("norm",)

    def __init__(self, K, y, budget):
        super().__init__(K, y)
        self.budget = budget

    def update(self, t, margin):
        if len(self.alpha) < self.budget:
            self.alpha[t] = self.y[t]


class Tighter(Reference):
    """Weston, Bordes and Bottou (2005): removes the support whose removal causes the fewest errors.

    The errors are those on the supports. Of equally many, the support with the largest margin without itself
    is removed, of ties (see `Reference`) the oldest.
    """

    names = ("removed", "norm")

    def __init__(self, K, y, budget):
        super().__init__(K, y)
        self.budget = budget

    def update(self, t, margin):
        before = list(self.alpha)
        self.alpha[t] = self.y[t]
        if len(self.alpha) <= self.budget:
            return
        tolerance = self.tie_tolerance()
        errors, negative_margins = {}, {}
        for r in before:
            without = {j: c for j, c in self.alpha.items() if j != r}
            margins = {i: self.y[i] * self.f(i, without) for i in self.alpha}
            self.near(min(abs(m - tolerance) for m in margins.values()))
            errors[r] = sum(m <= tolerance for m in margins.values())
            negative_margins[r] = -margins[r]
        fewest = min(errors.values())
        best, gap = self.smallest({r: negative_margins[r] for r in before if errors[r] == fewest}, tolerance)
        self.near(gap)
        self.remove(best)


class Ahpatron(Reference):
    """Liao et al. (2024), Algorithm 2.

    The half with the largest coefficients stays, of ties the newest. A support whose squared distance from
    the span of those before it is at most 1e-4 k(x, x) is removed.
    """

    names = ("tau", "error", "norm")

    def __init__(self, K, y, budget, epsilon=0.5, eta=None, radius=None):
        super().__init__(K, y)
        self.budget, self.epsilon, self.radius = budget, epsilon, radius
        self.eta = epsilon if eta is None else eta

    def chosen(self):
        """Return the supports that stay."""
        largest = max(abs(c) for c in self.alpha.values())
        ascending = sorted(self.alpha, key=lambda i: abs(self.alpha[i]))
        rank, ranks = 0, {}
        for before, i in zip([None, *ascending], ascending, strict=False):
            if before is not None:
                step = abs(self.alpha[i]) - abs(self.alpha[before]) - self.tie * largest
                self.near_tie(step, self.tie * largest)
                rank += step > 0
            ranks[i] = rank
        stay, share = [], 1e-4 if self.tie < 1e-6 else 1e-3
        for i in sorted(self.alpha, key=lambda i: (ranks[i], i), reverse=True):
            if len(stay) == self.budget // 2:
                break
            _, square = self.projection(i, stay)
            left = self.K[i, i] - square - share * self.K[i, i]
            self.near_tie(left, share * self.K[i, i])
            if left > 0:
                stay.append(i)
        return stay

    def learn(self, t, margin):
        left = 1 - self.epsilon - self.y[t] * margin - self.tie
        self.near(left)
        if left <= 0:
            return
        if len(self.alpha) == self.budget:
            before, S = self.alpha, sorted(self.chosen())
            values = np.array([self.f(i) for i in S])
            coef = np.linalg.solve(self.K[np.ix_(S, S)], values) if S else []
            self.alpha = dict(zip(S, map(float, coef), strict=True))
            self.entry["error"] = self.norm({i: self.alpha.get(i, 0.0) - c for i, c in before.items()})
        self.entry["tau"] = self.eta
        self.alpha[t] = self.eta * self.y[t]
        norm = self.norm()
        if self.radius is not None and norm > self.radius:
            self.alpha = {i: c * self.radius / norm for i, c in self.alpha.items()}


class BudgetPA(Reference):
    """Wang and Vucetic (2010), for each candidate r the solution of their eq. 4 over V.

    A loss of at most `tie` counts as 0. The oldest of ties is removed. "projecting" does not store a row near
    the span; "nearest" does not use a neighbour whose angle to the new example is small.
    """

    names = ("tau", "error", "removed", "norm")

    def __init__(self, K, y, budget, variant="simple", C=1.0):
        super().__init__(K, y)
        self.budget, self.variant, self.C = budget, variant, C

    def span(self, r, t):
        """Return V for the candidate r."""
        if self.variant == "projecting":
            return [i for i in self.alpha if i != r]  # t is one of them
        if self.variant == "simple" or len(self.alpha) == 1:
            return [t]
        K = self.K
        distances = {i: K[r, r] + K[i, i] - 2 * K[r, i] for i in self.alpha if i != r}
        nearest = None
        for i, distance in distances.items():
            if nearest is None:
                nearest, largest = i, max(K[r, r], K[i, i])
                continue
            left = distances[nearest] - self.tie * largest - distance
            self.near_tie(left, self.tie * largest)
            if left > 0:
                nearest, largest = i, max(K[r, r], K[i, i])
        product = K[t, t] * K[nearest, nearest]
        det = product - K[t, nearest] ** 2
        self.near_tie(det - 0.01 * product, 0.01 * product)
        return [t, nearest] if det > 0.01 * product else [t]

    def learn(self, t, margin):
        loss = 1 - self.y[t] * margin
        self.near(loss - self.tie)
        if loss <= self.tie:
            return
        own = self.K[t, t]
        tau = min(self.C, loss / own) if own > 0 else 0.0
        self.entry["tau"] = tau
        if tau == 0:
            return
        full = len(self.alpha) == self.budget
        if full:
            self.entry["error"] = 0.0
        if self.variant == "projecting":
            candidates = list(self.alpha)
            if not self.store(t, tau * self.y[t]) or not full:
                return
        elif not full:
            self.alpha[t] = tau * self.y[t]
            return
        else:
            candidates = list(self.alpha)
        solutions, costs = {}, {}
        for r in candidates:
            V = self.span(r, t)
            d, square = self.projection(r, V)
            solutions[r] = dict(zip(V, d.tolist(), strict=True))
            costs[r] = self.alpha[r] ** 2 * (self.K[r, r] - square)
        largest = max(self.alpha[r] ** 2 * self.K[r, r] for r in candidates)
        r, gap = self.smallest(costs, self.tie * largest)
        self.near(gap / max(largest, 1e-300))
        self.entry["error"] = sqrt(max(costs[r], 0.0))
        alpha = self.alpha[r]
        if self.variant != "projecting":
            self.alpha[t] = tau * self.y[t]
        for i, share in solutions[r].items():
            self.alpha[i] += alpha * share
        self.remove(r)
