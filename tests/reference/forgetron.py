"""The Forgetron: 003 figures 2 and 3 and section 7; 000 Algorithm 2."""

from math import log, log2, sqrt

from reference.budget import psi
from reference.perceptron import Reference


class Forgetron(Reference):
    names = ("phi", "psi", "Q", "removed", "step_norm", "norm")

    def __init__(self, K, y, budget):
        super().__init__(K, y)
        self.budget = budget
        self.Q = 0.0
        self.U = 0.25 * sqrt((budget + 1) / log(budget + 1))  # (26)

    def play(self, t):
        Q = self.Q
        margin = super().play(t)
        self.entry["Q"] = Q
        return margin

    def update(self, t, margin):
        self.alpha[t] = self.y[t]  # step (1): I'_t, f'_t
        self.entry["step_norm"] = self.norm()
        over = len(self.alpha) > self.budget
        r, phi = self.choose(t, over)
        self.entry["phi"], self.entry["psi"] = phi, 0.0
        self.alpha = {i: phi * c for i, c in self.alpha.items()}  # step (2): f''_t
        if over:  # step (3)
            self.entry["psi"] = psi(abs(self.alpha[r]), self.y[r] * self.f(r))  # (29)
            self.Q += self.entry["psi"]
            self.remove(r)

    def choose(self, t, over):
        raise NotImplementedError


class BasicForgetron(Forgetron):
    def choose(self, t, over):
        constant = (self.budget + 1) ** (-1 / (2 * (self.budget + 1)))
        norm = self.norm()
        return min(self.alpha), min(constant, self.U / norm) if norm > 0 else constant  # (25)


class SelfTunedForgetron(Forgetron):
    def choose(self, t, over):
        r = min(self.alpha)
        return r, self.tuned(r) if over else 1.0

    def tuned(self, r):
        """(43) and (44), as printed."""
        sigma, mu = abs(self.alpha[r]), self.y[r] * self.f(r)
        a, b, c = sigma**2 - 2 * sigma * mu, 2 * sigma, self.Q - 15 / 32 * self.mistakes
        d = b**2 - 4 * a * c
        if a > 0 or (a < 0 and d > 0 and (-b - sqrt(d)) / (2 * a) > 1):
            return min(1, (-b + sqrt(d)) / (2 * a))
        if a == 0:
            return min(1, -c / b)
        return 1.0


class GreedyForgetron(SelfTunedForgetron):
    """Removes the support with the smallest damage psi; of ties (see `Reference`), the oldest."""

    def choose(self, t, over):
        if not over:
            return None, 1.0
        damages = {i: psi(abs(c), self.y[i] * self.f(i)) for i, c in self.alpha.items() if i != t}
        j, gap = self.smallest(damages, self.tie_tolerance(1.0))
        self.near(damages[j] - self.most())
        if damages[j] <= self.most():  # (52)
            self.near(gap)
            return j, 1.0
        r = min(self.alpha)
        return r, self.tuned(r)

    def most(self):
        """(51): the damage that needs no shrinking."""
        return 15 / 32


class CumulativeGreedyForgetron(GreedyForgetron):
    """Tests the sum of all damages, Psi_j + Q_t <= 15/32 M_t, instead of (51)."""

    def most(self):
        return 15 / 32 * self.mistakes - self.Q


class SimplifiedForgetron(Reference):
    names = ("grad_error", "removed", "norm")

    def __init__(self, K, y, budget, eta=None, decay=None, radius=None):
        super().__init__(K, y)
        U = sqrt(budget / (32 * log2(8 * budget)))  # (12)
        self.budget = budget
        self.eta = 1 / 32 if eta is None else eta
        self.decay = 1 / U**2 if decay is None else decay
        self.radius = U / 2 if radius is None else radius

    def update(self, t, margin):
        keep = 1 - self.decay * self.eta
        self.entry["grad_error"] = 0.0
        if len(self.alpha) == self.budget:
            smallest = min(self.alpha, key=lambda i: abs(self.alpha[i]))
            self.entry["grad_error"] = self.alpha[smallest] * keep / self.eta
            self.remove(smallest)
        self.alpha = {i: c - self.decay * self.eta * c for i, c in self.alpha.items()}
        self.alpha[t] = self.eta * self.y[t]
        norm = self.norm()
        self.near(norm - self.radius)
        if norm > self.radius:  # pi_C
            self.alpha = {i: c * self.radius / norm for i, c in self.alpha.items()}
