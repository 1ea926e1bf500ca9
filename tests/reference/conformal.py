"""Adaptive conformal inference (Gibbs, Candes 2021), slow and literal, with exact levels.

Equation (2) of the paper: alpha_{t+1} = alpha_t + gamma (alpha - err_t), with err_t = 1 if the label of
round t is outside of the set. The threshold is the ceil((1 - alpha_t) (n + 1))-th smallest of the last n
scores, infinite above all of them and minus infinity below.
"""

from fractions import Fraction
from math import ceil, inf, isinf, nan, sqrt


class AdaptiveConformal:
    """The level as a fraction, and all scores in a list."""

    def __init__(self, coverage, step, window):
        self.alpha = self.level = 1 - Fraction(str(coverage))
        self.step, self.window = Fraction(str(step)), window
        self.scores, self.misses = [], 0

    def threshold(self):
        recent = sorted(self.scores[-self.window :])
        if self.level <= 0:
            return inf
        if self.level >= 1:
            return -inf
        place = ceil((1 - self.level) * (len(recent) + 1))
        return inf if place > len(recent) else recent[place - 1]

    def see(self, score, miss):
        self.level += self.step * (self.alpha - int(miss))
        self.misses += int(miss)
        self.scores.append(score)


def class_scores(margins):
    """Return, for each class, the largest margin of another class minus its own."""
    margins = [-float(margins[0]), float(margins[0])] if len(margins) == 1 else [float(m) for m in margins]
    return [
        max(other for j, other in enumerate(margins) if j != i) - margin for i, margin in enumerate(margins)
    ]


def play_sets(conformal, margins, codes, tie):
    """Return the set of each round as a list of bools, given margins of shape (n, n_outputs)."""
    sets = []
    for row, code in zip(margins, codes, strict=True):
        q, scores = conformal.threshold(), class_scores(row)
        room = 0.0 if isinf(q) else tie * (abs(q) + max(abs(float(m)) for m in row))
        sets.append([score <= q + room for score in scores])
        conformal.see(scores[code], not sets[-1][code])
    return sets


def play_intervals(conformal, predictions, variances, r, targets, tie):
    """Return the interval of each round; variances are those of f(x) in units of r, 0 if there are none."""
    bands = []
    for p, v, y in zip(predictions.tolist(), variances, targets.tolist(), strict=True):
        q, scale = conformal.threshold(), sqrt(1 + v / r)
        if q == -inf:
            low = high = nan
        else:
            half = q * scale if isinf(q) else q * scale + tie * (q * scale + abs(p))
            low, high = p - half, p + half
        bands.append([low, high])
        conformal.see(abs(y - p) / scale, not low <= y <= high)
    return bands
