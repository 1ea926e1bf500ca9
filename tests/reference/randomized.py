"""The Randomized Budget Perceptron: 003 section 8 ("CG"), and modified, 000 Algorithm 1."""

from math import sqrt

from reference.perceptron import Reference


class RandomizedBudget(Reference):
    names = ("removed", "norm")

    def __init__(self, K, y, budget, rng):
        super().__init__(K, y)
        self.budget, self.rng = budget, rng

    def update(self, t, margin):
        if len(self.alpha) == self.budget:
            self.remove(list(self.alpha)[self.rng.integers(self.budget)])
        self.alpha[t] = self.y[t]


class ModifiedRandomizedBudget(Reference):
    names = ("removed", "norm")

    def __init__(self, K, y, budget, rng, eta=None, radius=None):
        super().__init__(K, y)
        self.budget, self.rng = budget, rng
        self.eta = 1 / 16 if eta is None else eta
        self.radius = sqrt(budget) / 8 if radius is None else radius

    def update(self, t, margin):
        # w is a sum of B terms, the active ones in insertion order and then zeros (footnote 2)
        terms = list(self.alpha) + [None] * (self.budget - len(self.alpha))
        s = terms[self.rng.integers(self.budget)]
        if s is not None:
            self.remove(s)
        self.alpha[t] = self.eta * self.y[t]
        norm = self.norm()
        self.near(norm - self.radius)
        if norm > self.radius:
            self.alpha = {i: c * self.radius / norm for i, c in self.alpha.items()}
