"""The doubling trick (Mohri et al., section 8.2.4): periods of 1, 2, 4, ... rounds, each with its own rate.

Rounds are counted from 1: round t lies in period floor(log2 t), which has as many rounds as the number of its
first round. Weights restart with each period.
"""

from __future__ import annotations

from math import log, sqrt

__all__ = ["period_beta", "period_length", "rounds_left", "starts_period"]


def period_length(t: int) -> int:
    """Return the number of rounds of the period of round t."""
    return 1 << (t.bit_length() - 1)


def rounds_left(t: int) -> int:
    """Return the number of rounds from round t to the end of its period."""
    return 2 * period_length(t) - t


def starts_period(t: int) -> bool:
    """Return whether round t is the first of its period."""
    return t == period_length(t)


def period_beta(t: int, experts: int) -> float:
    """Return max(1/2, 1 - sqrt(log N / T)) for the period of round t, of T rounds: the best beta (8.10)."""
    return max(0.5, 1.0 - sqrt(log(experts) / period_length(t)))
