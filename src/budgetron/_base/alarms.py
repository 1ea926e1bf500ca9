"""The threshold of the detectors: it follows the scores, so that alarms have a given long-run rate."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort_right
from math import floor, inf

import numpy as np

from budgetron import bounds
from budgetron._util.checks import (
    MOST_ROUNDS,
    State,
    require,
    require_array,
    require_int,
    require_moderate,
    require_names,
)
from budgetron._util.types import Floats

__all__ = ["WINDOW", "AlarmThreshold"]

# Scores of recent rounds that the threshold is a quantile of.
WINDOW = 1000

# An offset is this part of itself below the quantile, for float64 and float32 rows: a row whose score differs
# from the quantile by rounding causes no alarm.
TIE, TIE_SINGLE = 1e-9, 1e-4

# A rank may miss a whole number by this through rounding.
RANK_ROUNDING = 1e-9


class AlarmThreshold:
    """The quantile of recent scores at a level that falls with every alarm, and rises in every other round.

    With T rounds and A alarms so far, the level is rate + step (rate T - A), where step is
    `bounds.ALARM_STEP` times the rate. With n scores in the window, the threshold is the one of rank
    floor(level (n + 1)): minus infinity for rank 0, and infinity for ranks above n. So the level stays
    between -step (1 - rate) and 1 + step rate, for any stream, and `bounds.false_alarms` follows.

    Parameters
    ----------
    rate : float
        The rate of alarms, above 0 and below 1.
    single : bool
        Whether scores are computed from float32 rows.
    """

    def __init__(self, rate: float, single: bool) -> None:
        self.rate, self.single = rate, single
        self.rounds = self.alarms = 0
        self.recent = array("d", bytes(8 * WINDOW))  # by round, modulo the length
        self.ordered = array("d")

    @property
    def nbytes(self) -> int:
        """Bytes of the scores that are kept, and of the same in order, if the window is full."""
        return 2 * 8 * WINDOW

    @property
    def level(self) -> float:
        """The level of the quantile."""
        return self.rate + bounds.ALARM_STEP * self.rate * (self.rate * self.rounds - self.alarms)

    @property
    def offset(self) -> float:
        """The threshold: scores below it are alarms."""
        rank = floor(self.level * (len(self.ordered) + 1) + RANK_ROUNDING)
        if rank < 1:
            return -inf
        if rank > len(self.ordered):
            return inf
        quantile = self.ordered[rank - 1]
        return quantile - (TIE_SINGLE if self.single else TIE) * abs(quantile)

    def observe(self, score: float) -> float:
        """Count the score of a round; return the threshold that applied to it."""
        offset = self.offset
        place = self.rounds % WINDOW
        if self.rounds >= WINDOW:
            del self.ordered[bisect_left(self.ordered, self.recent[place])]
        self.recent[place] = score
        insort_right(self.ordered, score)
        self.rounds += 1
        self.alarms += score < offset
        return offset

    # ------------------------------------------------------------------ state

    def state(self) -> State:
        """Return what a file stores: the scores in the window, from oldest to newest, and the alarms."""
        n, place = len(self.ordered), self.rounds % WINDOW
        kept = np.array(self.recent[:n])
        return {"scores": np.roll(kept, -place) if n == WINDOW else kept, "alarms": self.alarms}

    @classmethod
    def from_state(cls, found: object, rate: float, single: bool, rounds: int) -> AlarmThreshold:
        """Return the threshold after so many rounds, after checking its state."""
        state = require_names(found, {"scores", "alarms"}, "the threshold")
        threshold = cls(rate, single)
        n = min(rounds, WINDOW)
        scores: Floats = require_array(state["scores"], np.float64, (n,), "recent scores")
        require_moderate(scores, 1.0, "recent scores")
        threshold.rounds = require_int(rounds, 0, MOST_ROUNDS, "rounds")
        threshold.alarms = require_int(state["alarms"], 0, rounds, "alarms")
        step = bounds.ALARM_STEP * rate
        slack = 1e-6 * (1.0 + step * rounds)
        require(
            -step * (1.0 - rate) - slack <= threshold.level <= 1.0 + step * rate + slack,
            "the number of alarms should fit the number of rounds",
        )
        first = threshold.rounds - n
        for t, score in enumerate(scores.tolist(), first):
            threshold.recent[t % WINDOW] = score
        threshold.ordered = array("d", sorted(scores.tolist()))
        return threshold
