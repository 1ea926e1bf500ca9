"""Detectors, slow and literal: NORMA for novelty detection, Gaussian processes, and the threshold."""

from math import floor

import numpy as np


class NormaNovelty:
    """Kivinen, Smola, Williamson (2004): gradient steps on max(0, rho - f(x)) - nu rho + ||f||^2 / 2."""

    def __init__(self, K, budget, eta, nu):
        self.K, self.budget, self.eta, self.nu = K, budget, eta, nu
        self.alpha, self.rho = {}, 0.0

    def play(self, t):
        """Return f(x) and rho before the round; then learn row t."""
        value = sum(c * self.K[s, t] for s, c in self.alpha.items())
        rho, loses = self.rho, value < self.rho
        # The derivatives: by rho, 1[f(x) < rho] - nu; by f, f - 1[f(x) < rho] k(x, .).
        self.rho -= self.eta * (float(loses) - self.nu)
        self.alpha = {s: (1.0 - self.eta) * c for s, c in self.alpha.items()}
        if loses:
            self.alpha[t] = self.eta
            if len(self.alpha) > self.budget:
                del self.alpha[min(self.alpha)]
        return value, rho


def one_class_mean(K, r):
    """Return the score of each row by kernel ridge regression of 1 on all rows before it, solved anew."""
    scores = [0.0]
    for t in range(1, len(K)):
        weights = np.linalg.solve(K[:t, :t] + r * np.eye(t), np.ones(t))
        scores.append(float(K[t, :t] @ weights))
    return np.array(scores)


def variances(K, r):
    """Return the variance of a Gaussian process at each row, given all rows before it, solved anew."""
    explained = [K[t, :t] @ np.linalg.solve(K[:t, :t] + r * np.eye(t), K[t, :t]) for t in range(1, len(K))]
    return np.diagonal(K) - np.array([0.0, *explained])


def alarm_thresholds(scores, rate, window=1000):
    """Return the threshold of each round, by a level that moves by a tenth of the rate times rate - alarm."""
    level, thresholds = rate, []
    for t, score in enumerate(scores):
        recent = sorted(scores[max(0, t - window) : t])
        rank = floor(level * (len(recent) + 1) + 1e-9)
        if rank < 1:
            thresholds.append(-np.inf)
        else:
            thresholds.append(np.inf if rank > len(recent) else recent[rank - 1])
        level += 0.1 * rate * (rate - (score < thresholds[-1]))
    return np.array(thresholds)
