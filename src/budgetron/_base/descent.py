"""Parameters, steps and the theorem of the learners that do online gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron import bounds
from budgetron._base.margin_losses import LOSSES
from budgetron._base.parameters import Constraints
from budgetron._base.theorems import FunctionTheorem, Run
from budgetron._util.types import Floats

__all__ = ["DESCENT", "check_decay", "descent_theorem", "places_of", "steps_of"]


# The step of round t is eta, divided by this power of t.
SCHEDULES = {"constant": 0.0, "sqrt": 0.5, "inverse": 1.0}

# The constraints of the parameters.
DESCENT: Constraints = {
    "eta": [Interval(Real, 0.0, None, closed="neither")],
    "decay": [Interval(Real, 0.0, None, closed="left")],
    "loss": [StrOptions(set(LOSSES))],
    "schedule": [StrOptions(set(SCHEDULES))],
}


def places_of(loss: str, schedule: str) -> tuple[int, int]:
    """Return the numbers of a loss and of a schedule in the core."""
    return list(LOSSES).index(loss), list(SCHEDULES).index(schedule)


def steps_of(eta: float, schedule: str, rounds: Floats) -> Floats:
    """Return the step of each round, counted from 1."""
    steps: Floats = eta / rounds ** SCHEDULES[schedule]
    return steps


def check_decay(eta: float, decay: float) -> None:
    """Raise `ValueError` if shrinking by 1 - eta decay would change the sign of coefficients."""
    if eta * decay > 1:
        raise ValueError(
            f"eta * decay must be at most 1, or coefficients change sign; got {eta:.4g} * {decay:.4g}. "
            "Use a smaller eta or decay"
        )


def descent_theorem(steps: Callable[[Floats], Floats], decay: float, loss: str = "hinge") -> FunctionTheorem:
    """Return the theorem of gradient descent on this loss.

    `steps` takes the numbers of the rounds, from 1 on, and returns the step of each. The ledger must have
    "tau", the size of each coefficient when it was added, and may have "error" and "variance".
    """
    of = LOSSES[loss]

    def bound(run: Run, check: bounds.Check) -> float:
        eta = steps(np.arange(1.0, len(run.y) + 1))
        recorded = run.trace.ledger or {}
        own = np.sqrt(run.kernel.diagonal(run.X))
        return bounds.online_gradient_descent(
            run.norm,
            run.losses,
            eta,
            np.append(0.0, run.ledger("norm"))[: len(eta)],
            np.nan_to_num(run.ledger("tau")) / eta * own,
            np.nan_to_num(run.ledger("error")) if "error" in recorded else 0.0,
            np.nan_to_num(run.ledger("variance")) if "variance" in recorded else 0.0,
            decay,
            float(of(np.zeros(1))[0]),
            check=check,
        )

    return FunctionTheorem("online_gradient_descent", bound, loss=loss)
