"""Remove-Oldest (003 section 3), CKS (003 section 8) and Stoptron (002 section 5)."""

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
