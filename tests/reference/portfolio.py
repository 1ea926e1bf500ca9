"""The portfolio's rounds, computed literally, one by one: experts, combiner, weights, and removal of experts.

The experts themselves are tested elsewhere; here they are called row by row through their public methods.
"""

import numpy as np


class Portfolio:
    """A portfolio of linear experts and kernel experts.

    `linear` and `kernels` are lists of (model, standardised); in `kernels`, second-order models come first.
    The models already have the widths and budgets that the portfolio would choose. The kernel experts start
    at round `first`, with the rows seen so far. After `stage` rounds, the weaker half of the second-order
    experts is removed. Their weights in the combiner are added to the weight of the best remaining expert.
    """

    def __init__(self, linear, kernels, rates, first, stage):
        self.linear, self.kernels, self.rates = linear, kernels, np.array(rates)
        self.first, self.stage = first, stage
        self.active = [False] * len(kernels)
        self.mistakes = [0] * len(kernels)
        self.second_order = [i for i, (model, _) in enumerate(kernels) if hasattr(model, "threshold")]
        self.rows, self.labels = [], []
        n = len(linear) + len(kernels)
        # AROW, by the formulas of its paper; its inputs are the experts, the recent labels and a constant
        self.w, self.sigma = np.zeros(n + len(rates) + 1), np.eye(n + len(rates) + 1)
        self.recent_labels = np.zeros(len(rates))
        self.losses = np.zeros(n + 1)

    def standardised(self, x):
        seen = np.array([*self.rows, x])
        deviation = seen.std(axis=0)
        return np.divide(x - seen.mean(axis=0), deviation, out=np.zeros_like(x), where=deviation > 1e-9)

    def view(self, x, standardised, constant):
        """Return the row that an expert sees."""
        row = self.standardised(x) if standardised else x
        return np.concatenate([[1.0], row]) if constant else row

    def play(self, x, y):
        """Play one round; return the share of the votes for +1, and the combiner's margin."""
        margins = [model.play(self.view(x, st, True), y, classes=[-1, 1]) for model, st in self.linear]
        for (model, st), active in zip(self.kernels, self.active, strict=True):
            margins.append(model.play(self.view(x, st, False), y, classes=[-1, 1]) if active else 0.0)
        phi = np.concatenate([np.tanh(margins), self.recent_labels, [1.0]])
        combined = float(self.w @ phi)
        if y * combined < 1.0:
            v = phi @ self.sigma @ phi
            direction = self.sigma @ phi
            self.w += (1.0 - y * combined) / (v + 1.0) * y * direction
            self.sigma -= np.outer(direction, direction) / (v + 1.0)
        votes = [combined > 0.0, *(margin > 0.0 for margin in margins)]
        for i, active in enumerate(self.active):
            if not active:  # an inactive expert votes like the combiner
                votes[1 + len(self.linear) + i] = votes[0]
            self.mistakes[i] += active and votes[1 + len(self.linear) + i] != (y > 0)
        t, n = len(self.rows) + 1, len(votes)
        weights = np.exp(-np.sqrt(8.0 * np.log(n) / t) * (self.losses - self.losses.min()))
        share = float(weights @ np.array(votes, float) / weights.sum())
        self.losses += [vote != (y > 0) for vote in votes]
        self.recent_labels += self.rates * (y - self.recent_labels)
        self.rows.append(x)
        self.labels.append(y)
        self.finish_round()
        return share, combined

    def finish_round(self):
        """Start the kernel experts, or remove the weaker ones, if it is time."""
        t = len(self.rows)
        if t == self.first:
            views = {st: np.array([self.view(x, st, False) for x in self.rows]) for st in (False, True)}
            for i, (model, st) in enumerate(self.kernels):
                model.partial_fit(views[st], self.labels, classes=[-1, 1])
                self.active[i] = True
        if t == self.stage:
            # Experts within the square root of the best count are tied; the first of them ranks first
            best = min(self.mistakes[k] for k in self.second_order)
            rank = sorted(self.second_order, key=lambda k: max(self.mistakes[k], best + np.sqrt(best)))
            best_expert = len(self.linear) + rank[0]
            for k in rank[len(rank) // 2 :]:
                self.active[k] = False
                self.w[best_expert] += self.w[len(self.linear) + k]
                self.w[len(self.linear) + k] = 0.0
