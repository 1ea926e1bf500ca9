"""The theorems of adaptive conformal inference: how far the share of misses may be from the one aimed at."""

from __future__ import annotations

from budgetron.bounds._statement import Check, assume, theorem

__all__ = ["conformal_deviation", "conformal_misses"]

LEARNERS = "`ConformalClassifier`, `ConformalRegressor`"


@theorem(
    "Gibbs, Candes (2021), Lemma 4.1, for the number of misses",
    LEARNERS,
    "misses",
)
def conformal_misses(rounds: int, coverage: float, step: float, *, check: Check = True) -> float:
    """Return a T + a / step + coverage, with a = 1 - coverage.

    It bounds the number of rounds whose prediction set, or interval, does not contain the label.

    Parameters
    ----------
    rounds : int
        T, the number of rounds.
    coverage : float
        The share of the rounds whose set should contain the label.
    step : float
        The step of the level.

    Notes
    -----
    *Proof.* The level of round t + 1 is m = a + step (a t - misses), with the misses of the first t rounds.
    If it is 0 or less, the set contains every label, so that the next round is no miss, and m increases. From
    above 0, it falls by at most step (1 - a) in a round. So it is always above -step (1 - a). The number of
    misses after T rounds is a T + (a - m) / step, which is less than a T + (a + step (1 - a)) / step.

    Examples
    --------
    >>> from budgetron import bounds
    >>> round(bounds.conformal_misses(10000, 0.9, 0.01), 1)
    1010.9
    """
    _assume(check, coverage, step)
    a = 1.0 - coverage
    return a * rounds + a / step + coverage


@theorem(
    "Gibbs, Candes (2021), Proposition 4.1",
    LEARNERS,
    "|misses - aim|",
)
def conformal_deviation(coverage: float, step: float, *, check: Check = True) -> float:
    """Return (max(a, 1 - a) + step) / step, with a = 1 - coverage.

    It bounds the distance of the number of misses from a T, for any number of rounds T. Divided by T, it
    bounds the distance of the share of misses from a.

    Parameters
    ----------
    coverage : float
        The share of the rounds whose set should contain the label.
    step : float
        The step of the level.

    Notes
    -----
    *Proof.* As for `conformal_misses`, the level is always above -step (1 - a). If it is 1 or more, the set
    is empty, so that the next round is a miss, and the level falls. So it is always below 1 + step a. The
    distance is |a - m| / step with a level m between these two numbers.

    Examples
    --------
    >>> from budgetron import bounds
    >>> round(bounds.conformal_deviation(0.9, 0.01), 1)
    91.0
    """
    _assume(check, coverage, step)
    return (max(coverage, 1.0 - coverage) + step) / step


def _assume(check: Check, coverage: float, step: float) -> None:
    assume(check, 0.0 < coverage < 1.0, "a coverage above 0 and below 1", coverage)
    assume(check, step > 0.0, "a step above 0", step)
