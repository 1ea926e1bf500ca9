"""Kernel PA, PA-I and PA-II (002 section 5 cites PA-I)."""

from reference.perceptron import Reference


class PassiveAggressive(Reference):
    names = ("tau", "norm")

    def __init__(self, K, y, C, variant):
        super().__init__(K, y)
        self.C, self.variant = C, variant

    def learn(self, t, margin):
        loss = max(0.0, 1 - self.y[t] * margin)
        self.near(1 - self.y[t] * margin)
        if loss > 0:
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
