"""The theorem of the learners that do online gradient descent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from budgetron import bounds
from budgetron._base.theorems import FunctionTheorem, Run
from budgetron._util.types import Floats

__all__ = ["descent_theorem"]


def hinge(margins: Floats) -> Floats:
    """Return max(0, 1 - m)."""
    return np.maximum(0.0, 1.0 - margins)


def logistic(margins: Floats) -> Floats:
    """Return log(1 + exp(-m))."""
    return np.logaddexp(0.0, -margins)


def squared(margins: Floats) -> Floats:
    """Return (1 - m)^2 / 2."""
    return (1.0 - margins) ** 2 / 2


LOSSES: dict[str, Callable[[Floats], Floats]] = {"hinge": hinge, "logistic": logistic, "squared": squared}


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
            float(of(run.margins).sum()),
            eta,
            np.append(0.0, run.ledger("norm"))[: len(eta)],
            np.nan_to_num(run.ledger("tau")) / eta * own,
            np.nan_to_num(run.ledger("error")) if "error" in recorded else 0.0,
            np.nan_to_num(run.ledger("variance")) if "variance" in recorded else 0.0,
            decay,
            float(of(np.zeros(1))[0]),
            check=check,
        )

    return FunctionTheorem("online_gradient_descent", bound)
