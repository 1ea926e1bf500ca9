"""Losses of a margin m = y f(x)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from budgetron._util.types import Floats

__all__ = ["LOSSES", "hinge", "logistic", "squared"]


def hinge(margins: Floats) -> Floats:
    """Return max(0, 1 - m)."""
    return np.maximum(0.0, 1.0 - margins)


def logistic(margins: Floats) -> Floats:
    """Return log(1 + exp(-m))."""
    return np.logaddexp(0.0, -margins)


def squared(margins: Floats) -> Floats:
    """Return (1 - m)^2 / 2."""
    return (1.0 - margins) ** 2 / 2


# The places of these names are the numbers in `_core/descent.pxd`.
LOSSES: dict[str, Callable[[Floats], Floats]] = {"hinge": hinge, "logistic": logistic, "squared": squared}
