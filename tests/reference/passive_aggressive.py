"""Kernel PA, PA-I and PA-II (002 section 5 cites PA-I)."""

from reference.perceptron import Reference


class PassiveAggressive(Reference):
    """A loss of at most `tie` (see `Reference`) counts as 0."""

    def __init__(self, K, y, C, variant, budget=None):
        super().__init__(K, y)
        self.C, self.variant, self.budget = C, variant, budget
        self.names = ("tau", "norm") if budget is None else ("tau", "removed", "norm")

    def learn(self, t, margin):
        loss = 1 - self.y[t] * margin
        self.near(loss - self.tie)
        if loss > self.tie:
            square = self.K[t, t]
            if self.variant == "PA-II":
                tau = loss / (square + 1 / (2 * self.C))
            elif square == 0:  # no step can change f(x)
                tau = 0.0
            elif self.variant == "PA-I":
                tau = min(self.C, loss / square)
            else:
                tau = loss / square
            self.entry["tau"] = tau
            if tau > 0:
                self.alpha[t] = tau * self.y[t]
            if self.budget is not None and len(self.alpha) > self.budget:
                self.remove(next(iter(self.alpha)))
