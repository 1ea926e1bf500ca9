"""Perceptrons, one for each class, that share one budget, literally."""

import numpy as np


class SharedBudget:
    """Each class has its own coefficients over the same supports, oldest first."""

    def __init__(self, K, codes, n_classes, budget):
        self.K, self.codes, self.budget = K, codes, budget
        self.alpha: list[dict[int, float]] = [{} for _ in range(n_classes)]
        self.supports: list[int] = []
        self.removed = -1
        self.gap = np.inf
        self.errors = [0] * n_classes  # of the function of each class
        self.damage = 0.0

    def scores(self, t):
        return np.array([sum(c * self.K[i, t] for i, c in one.items()) for one in self.alpha])

    def play(self, t):
        """Play round t; return the scores before the label was seen."""
        scores, self.removed = self.scores(t), -1
        y = np.where(np.arange(len(scores)) == self.codes[t], 1.0, -1.0)
        self.gap = np.abs(scores).min() if self.supports else np.inf
        wrong = [c for c in range(len(scores)) if y[c] * scores[c] <= 0]
        if wrong:
            self.supports.append(t)
            for c in wrong:
                self.alpha[c][t] = y[c]
                self.errors[c] += 1
            if len(self.supports) > self.budget:
                self.removed = self.supports.pop(0)
                f = self.scores(self.removed)
                for c, one in enumerate(self.alpha):
                    a = one.get(self.removed, 0.0)
                    self.damage += a * a + 2 * abs(a) - 2 * a * f[c]  # (15) of the Forgetron paper
                for one in self.alpha:
                    one.pop(self.removed, None)
        return scores
