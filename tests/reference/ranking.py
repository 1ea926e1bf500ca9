"""Maximisation of the AUC on a budget, after Zhao et al. (2011) and Hu et al. (2015)."""

from math import sqrt

from reference.perceptron import Reference


class AUCMaximizer(Reference):
    """Gradient descent on the mean hinge loss of the row's pairs, with a reservoir of rows of each label.

    A row takes a step if one of its pairs with the supports of the other label has a loss. It is then stored
    if it is drawn, in place of a support, which is projected onto the span of the others. At last L(f), the
    mean of the mean values of f at the supports of each label, is moved towards 0.
    """

    names = ("tau", "error", "removed", "norm")

    def __init__(self, K, y, budget, rng, eta):
        super().__init__(K, y)
        self.budget, self.rng, self.eta = budget, rng, eta
        self.rows = {-1.0: 0, 1.0: 0}  # of each label, with a loss

    def of(self, label):
        """Return the supports with this label, the oldest first."""
        return [i for i in self.alpha if self.y[i] == label]

    def learn(self, t, margin):
        y, others = self.y[t], self.of(-self.y[t])
        losses = {i: 1 - y * (margin - self.f(i)) for i in others}
        for loss in losses.values():
            self.near(loss - self.tie)
        pairs = [i for i in others if losses[i] > self.tie]
        if not pairs and self.alpha:
            return
        self.rows = {label: n + (label == y) for label, n in self.rows.items()}
        for i in pairs:
            self.alpha[i] -= self.eta * y / len(others)
        c = self.eta * y * len(pairs) / len(others) if others else 0.0
        self.entry["tau"] = abs(c)
        removed = self.drawn(t) if len(self.alpha) == self.budget else None
        if removed == t:
            d, square = self.projection(t, list(self.alpha))
            self.alpha = {i: a + c * di for (i, a), di in zip(self.alpha.items(), d, strict=True)}
            self.entry["error"] = abs(c) * sqrt(max(self.K[t, t] - square, 0.0))
        elif self.store(t, c) and removed is not None:
            _, square = self.projection(removed, [i for i in self.alpha if i != removed])
            distance = sqrt(max(self.K[removed, removed] - square, 0.0))
            self.entry["error"] = abs(self.alpha[removed]) * distance
            self.spread(removed)
            self.remove(removed)
        if self.of(1.0) and self.of(-1.0):
            self.level()

    def drawn(self, t):
        """Return the support that the row replaces, or the row itself, which is then not stored."""
        y = self.y[t]
        own, others = self.of(y), self.of(-y)
        if len(others) >= len(own) + 2:
            return others[int(self.rng.random() * len(others))]
        place = int(self.rng.random() * self.rows[y])
        return own[place] if place < len(own) else t

    def level(self):
        """Step along the gradient of L(f)^2 / 2, but not beyond L(f) = 0."""
        g = {i: 0.5 / len(self.of(self.y[i])) for i in self.alpha}
        value = sum(weight * self.f(i) for i, weight in g.items())
        square = self.norm(g) ** 2
        step = min(self.eta, 1 / square) if square > 0 else self.eta
        self.alpha = {i: c - step * value * g[i] for i, c in self.alpha.items()}
