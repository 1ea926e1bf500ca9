"""The bound on the alarms of detectors with a threshold that follows the scores."""

from __future__ import annotations

from budgetron.bounds._statement import Check, assume, theorem

__all__ = ["ALARM_STEP", "false_alarms"]

# The level of the threshold moves by this part of the rate with every alarm.
ALARM_STEP = 0.1


@theorem(
    "Gibbs, Candes (2021), proposition 4.1, one side",
    "`NormaDetector`, `SecondOrderDetector`",
    "alarms",
    "none",
)
def false_alarms(rounds: int, rate: float, *, check: Check = True) -> float:
    """Return rate T + 1 / step + 1 - rate, where step is 0.1, for any stream of T rows that are learned.

    The level of the threshold is rate + step rate (rate T - A) after A alarms. It never falls below
    -step rate (1 - rate), because a level of 0 or less has no alarms. So A is at most this.
    """
    assume(check, 0.0 < rate < 1.0, "a rate between 0 and 1", rate)
    return rate * rounds + 1.0 / ALARM_STEP + 1.0 - rate
