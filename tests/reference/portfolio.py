"""The portfolio's rounds, computed literally, one by one: views of rows, first-order experts, combination.

Second-order and kernel experts are tested elsewhere; here they are called row by row.
"""

from math import exp, sqrt, tanh

import numpy as np


class FirstOrder:
    """Linear experts of first order: lists of (logistic, rate), with one weight vector for each output."""

    def __init__(self, kinds, d, outputs):
        self.kinds, self.w = kinds, np.zeros((len(kinds), outputs, d))

    def play(self, x, y, weight=1.0):
        """Return the scores before the labels y (one per output, -1 or +1), and learn."""
        scores = self.w @ x
        for e, (logistic, rate) in enumerate(self.kinds):
            for c, label in enumerate(y):
                m = label * scores[e, c]
                if logistic:
                    step = weight * rate / (1.0 + exp(m))
                else:
                    step = min(weight * rate, max(0.0, 1.0 - m) / (x @ x)) if x @ x > 0.0 else 0.0
                self.w[e, c] += step * label * x if weight > 0.0 else 0.0
        return scores


class Combination:
    """Combiners with and without forgetting, and fixed share over combiners and experts."""

    def __init__(self, n_experts, outputs, keeps, eta, alpha, rates=(1.0, 0.1)):
        self.keeps, self.eta, self.alpha, self.rates = keeps, eta, alpha, np.array(rates)
        F = n_experts + len(rates) + 1
        self.w = [[np.zeros(F) for _ in range(outputs)] for _ in keeps]
        self.sigma = [[np.eye(F) for _ in range(outputs)] for _ in keeps]
        self.recent = np.zeros((outputs, len(rates)))
        self.shares = np.full(len(keeps) + n_experts, 1.0 / (len(keeps) + n_experts))
        self.losses, self.loss = np.zeros(len(self.shares)), 0.0
        self.history = []  # of each round: the loss of the vote, and who is wrong

    def play(self, scores, active, label, weight=1.0):
        """Play one round: `label` is the class. Return the margins before it was seen."""
        outputs = scores.shape[1]
        f = [
            np.concatenate([np.where(active, np.tanh(scores[:, c]), 0.0), self.recent[c], [1.0]])
            for c in range(outputs)
        ]
        margins = np.array([[w[c] @ f[c] for c in range(outputs)] for w in self.w])
        classes = [self.choice(m) for m in margins]
        classes += [self.choice(s) if a else classes[0] for s, a in zip(scores, active, strict=True)]
        votes = np.bincount(classes, self.shares, minlength=max(outputs, 2))
        winner = classes[0]
        for c, vote in enumerate(votes):
            if vote > votes[winner] + 1e-12:
                winner = c
        out = self.margins_of(votes, winner, margins)
        wrong = np.array([c != label for c in classes])
        self.losses += wrong
        self.loss += self.shares[wrong].sum()
        self.history.append((self.shares[wrong].sum(), wrong))
        shares = self.shares * np.exp(-self.eta * weight * wrong)
        self.shares = (1.0 - self.alpha) * shares / shares.sum() + self.alpha / len(shares)
        for c in range(outputs):
            y = 1.0 if (label == c if outputs > 1 else label == 1) else -1.0
            for r, keep in enumerate(self.keeps):
                self.learn(r, c, keep, f[c], y, margins[r, c], weight)
            self.recent[c] += self.rates * (y - self.recent[c]) if weight > 0.0 else 0.0
        return out

    def choice(self, scores):
        return int(np.argmax(scores)) if len(scores) > 1 else int(scores[0] > 0.0)

    def margins_of(self, votes, winner, margins):
        part = self.shares[: len(self.keeps)]
        return margins_from_votes(votes, winner, [tanh(part @ m / part.sum()) for m in margins.T])

    def learn(self, r, c, keep, f, y, margin, weight):
        sigma = keep * self.sigma[r][c] + (1.0 - keep) * np.eye(len(f))
        if y * margin < 1.0 and weight > 0.0:
            v, direction = f @ sigma @ f, sigma @ f
            self.w[r][c] = self.w[r][c] + (y - margin) / (v + 1.0 / weight) * direction
            sigma = sigma - np.outer(direction, direction) / (v + 1.0 / weight)
        self.sigma[r][c] = sigma


def margins_from_votes(votes, winner, combined):
    """Return the margins, from the votes of the classes and tanh of the combiners' mean margins."""
    if len(combined) == 1:
        vote = 2.0 * votes[1] - 1.0
        vote = max(vote, 1e-9) if winner == 1 else min(vote, -1e-9)
        return np.array([vote * (0.55 + 0.45 * np.sign(vote) * combined[0])])
    out = votes - 0.5 + 0.5 * np.array(combined)
    out[winner] = max(out[winner], np.delete(out, winner).max() + 1e-9)
    return out


class Portfolio:
    """A portfolio before its first review.

    `linear` is a list of (learner, standardised, factor of the scores). `kernels` has such a list for each
    round after which kernel experts start, with the rows seen so far, in place of the former ones. The order
    of the experts is first order, linear, kernel. `places` gives the places of the linear and kernel experts
    among all `n_experts`.
    """

    def __init__(self, first_order, linear, kernels, places, n_experts, outputs, combination):
        self.first_order, self.linear, self.kernels = first_order, linear, kernels
        self.places, self.n_experts, self.outputs = places, n_experts, outputs
        self.combination, self.started = combination, []
        self.rows, self.labels = [], []

    def standardised(self, x):
        seen = np.array([*self.rows, x])
        deviation = seen.std(axis=0)
        return np.divide(x - seen.mean(axis=0), deviation, out=np.zeros_like(x), where=deviation > 1e-9)

    def play(self, x, code):
        """Play one round with a row of this class; return the margins."""
        label = float(code) if self.outputs > 1 else 2.0 * code - 1.0
        signs = [label] if self.outputs == 1 else [1.0 if c == code else -1.0 for c in range(self.outputs)]
        views = {False: x, True: self.standardised(x)}
        scores, active = np.zeros((self.n_experts, self.outputs)), np.zeros(self.n_experts, bool)
        factors = np.array([[0.5 if logistic else 1.0] for logistic, _ in self.first_order.kinds])
        n = len(factors)
        scores[:n] = factors * self.first_order.play(np.concatenate([[1.0], views[True]]), signs)
        active[:n] = True
        for (learner, st, factor), i in zip([*self.linear, *self.started], self.places, strict=False):
            scores[i] = factor * np.asarray(learner.play(views[st], label))
            active[i] = True
        margins = self.combination.play(scores, active, code)
        self.rows.append(x)
        self.labels.append(label)
        if len(self.rows) in self.kernels:
            self.started, rows = self.kernels[len(self.rows)], np.array(self.rows)
            mean, deviation = self.next_statistics(rows)
            for learner, st, _ in self.started:
                for t in range(len(rows)):
                    learner.play((rows[t] - mean[t]) / deviation[t] if st else rows[t], self.labels[t])
        return margins

    def next_statistics(self, rows):
        """Return the mean and deviation by which each row is standardised as if it were the next row."""
        pairs = [np.vstack([rows, row]) for row in rows]
        return [p.mean(axis=0) for p in pairs], [p.std(axis=0) for p in pairs]


def limit_of_change(n0, n1, mean, cuts, delta):
    """Return how much larger the error rate after a cut may be, by Bernstein's inequality."""
    m = 1.0 / (1.0 / n0 + 1.0 / n1)
    log = np.log(2.0 * cuts / delta)
    return sqrt(2.0 / m * mean * (1.0 - mean) * log) + 2.0 / (3.0 * m) * log
