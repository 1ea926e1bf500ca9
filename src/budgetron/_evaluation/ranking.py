"""Rare classes, and how well scores separate a class from the others: the area under the ROC curve."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from budgetron._util.types import Codes, Floats

__all__ = ["ScoreSample", "ScoreState", "rare_classes", "score_samples"]

# Scores of each class that are always kept; at most twice as many are stored. There is one sample for two
# classes, and otherwise one for each class, which keeps fewer the more there are.
KEPT, LEAST_KEPT = 2048, 256


def rare_classes(counts: NDArray[np.int64]) -> list[int]:
    """Return the classes with few rows, the rarest first, at most five of them.

    A class is rare if it has less than a tenth of all rows, and less than half of what it would have if all
    classes were equally frequent.
    """
    share = counts / max(1, counts.sum())
    limit = min(0.1, 0.5 / len(counts))
    return [int(i) for i in np.argsort(share, kind="stable") if 0.0 < share[i] < limit][:5]


def score_samples(n_classes: int) -> list[ScoreSample]:
    """Return an empty sample for two classes; for more, a sample of each class against all others."""
    if n_classes <= 2:
        return [ScoreSample(KEPT)]
    return [ScoreSample(max(LEAST_KEPT, 2 * KEPT // n_classes)) for _ in range(n_classes)]


class ScoreState(TypedDict):
    """The state of a `ScoreSample`, as arrays and numbers."""

    negative: Floats
    positive: Floats
    steps: list[int]
    seen: list[int]


class ScoreSample:
    """Evenly spaced scores of each of two classes.

    All scores are kept until a class has twice `kept`. From then on every second one is kept, later every
    fourth, and so on. The area depends only on the distribution of each class, so that rare classes lose
    nothing.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._scores: list[Floats] = [np.zeros(0), np.zeros(0)]
        self._steps, self._seen = [1, 1], [0, 0]

    def add(self, codes: Codes, scores: Floats) -> None:
        """Add the score of each round, given the class (0 or 1) of its label."""
        for label in (0, 1):
            new = np.asarray(scores[codes == label], np.float64)
            first = -self._seen[label] % self._steps[label]
            self._seen[label] += len(new)
            kept = np.concatenate([self._scores[label], new[first :: self._steps[label]]])
            while len(kept) > 2 * self._kept:
                kept = kept[::2]
                self._steps[label] *= 2
            self._scores[label] = kept

    def area(self) -> float | None:
        """Return the probability that a score of class 1 is above one of class 0; a tie counts one half.

        None if one of the classes has no score.
        """
        negative, positive = np.sort(self._scores[0]), self._scores[1]
        if not len(negative) or not len(positive):
            return None
        below = np.searchsorted(negative, positive, side="left").mean()
        not_above = np.searchsorted(negative, positive, side="right").mean()
        return float((below + not_above) / (2 * len(negative)))

    def state(self) -> ScoreState:
        """Return everything as arrays and numbers."""
        negative, positive = (scores.copy() for scores in self._scores)
        return {
            "negative": negative,
            "positive": positive,
            "steps": list(self._steps),
            "seen": list(self._seen),
        }

    def restore(self, state: ScoreState) -> None:
        """Continue from the `state` of another sample."""
        self._scores = [np.array(state[name], np.float64) for name in ("negative", "positive")]
        self._steps, self._seen = list(map(int, state["steps"])), list(map(int, state["seen"]))
        if any(scores.ndim != 1 for scores in self._scores) or min(self._steps) < 1 or len(self._steps) != 2:
            raise ValueError("the saved scores are not valid")
