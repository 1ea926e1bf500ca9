"""The portfolio's rounds, one after the other and literally: experts, combiner, weights, and who ends when.

The experts themselves are told by others; here they are asked row by row through their public faces.
"""

import numpy as np


class Portfolio:
    """`linear` and `kernels` are lists of (model, standardised), the kernels' second-order ones first.

    They begin at round `first`, on the rows so far, and are given with the widths and budgets that they
    should have; after `stage` rounds the weaker half of the second-order ones ends. The first of those that
    stay is believed by the combiner as much more as they were.
    """

    def __init__(self, linear, kernels, rates, first, stage):
        self.linear, self.kernels, self.rates = linear, kernels, np.array(rates)
        self.first, self.stage = first, stage
        self.here = [False] * len(kernels)
        self.mistakes = [0] * len(kernels)
        self.second_order = [i for i, (model, _) in enumerate(kernels) if hasattr(model, "threshold")]
        self.rows, self.labels = [], []
        n = len(linear) + len(kernels)
        # AROW over n + 3 inputs, by the formulas of its paper
        self.w, self.sigma = np.zeros(n + len(rates) + 1), np.eye(n + len(rates) + 1)
        self.late = np.zeros(len(rates))
        self.losses = np.zeros(n + 1)

    def standardised(self, x):
        seen = np.array([*self.rows, x])
        deviation = seen.std(axis=0)
        return np.divide(x - seen.mean(axis=0), deviation, out=np.zeros_like(x), where=deviation > 1e-9)

    def view(self, x, standardised, one):
        row = self.standardised(x) if standardised else x
        return np.concatenate([[1.0], row]) if one else row

    def play(self, x, y):
        """The share of the vote that says +1, and the combiner's margin."""
        said = [model.play(self.view(x, st, True), y, classes=[-1, 1]) for model, st in self.linear]
        for (model, st), here in zip(self.kernels, self.here, strict=True):
            said.append(model.play(self.view(x, st, False), y, classes=[-1, 1]) if here else 0.0)
        phi = np.concatenate([np.tanh(said), self.late, [1.0]])
        combined = float(self.w @ phi)
        if y * combined < 1.0:
            v = phi @ self.sigma @ phi
            direction = self.sigma @ phi
            self.w += (1.0 - y * combined) / (v + 1.0) * y * direction
            self.sigma -= np.outer(direction, direction) / (v + 1.0)
        votes = [combined > 0.0, *(f > 0.0 for f in said)]
        for i, here in enumerate(self.here):
            if not here:
                votes[1 + len(self.linear) + i] = votes[0]
            self.mistakes[i] += here and votes[1 + len(self.linear) + i] != (y > 0)
        t, n = len(self.rows) + 1, len(votes)
        weights = np.exp(-np.sqrt(8.0 * np.log(n) / t) * (self.losses - self.losses.min()))
        share = float(weights @ np.array(votes, float) / weights.sum())
        self.losses += [vote != (y > 0) for vote in votes]
        self.late += self.rates * (y - self.late)
        self.rows.append(x)
        self.labels.append(y)
        self.close()
        return share, combined

    def close(self):
        t = len(self.rows)
        if t == self.first:
            views = {st: np.array([self.view(x, st, False) for x in self.rows]) for st in (False, True)}
            for i, (model, st) in enumerate(self.kernels):
                model.partial_fit(views[st], self.labels, classes=[-1, 1])
                self.here[i] = True
        if t == self.stage:
            # As good as the best for all that is known: those count as one, and who stands first stays
            best = min(self.mistakes[k] for k in self.second_order)
            rank = sorted(self.second_order, key=lambda k: max(self.mistakes[k], best + np.sqrt(best)))
            heir = len(self.linear) + rank[0]
            for k in rank[len(rank) // 2 :]:
                self.here[k] = False
                self.w[heir] += self.w[len(self.linear) + k]
                self.w[len(self.linear) + k] = 0.0
