"""The numbers that define predictions: the scores of one learner, or of experts and their combination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from budgetron._core.kernel import Kernel
from budgetron._util.types import Rows

__all__ = [
    "LARGEST_U",
    "LARGEST_Z",
    "SMALL_EXPONENT",
    "VISIBLE_LEAD",
    "Combined",
    "Expansion",
    "ExpertScores",
    "Labels",
    "Predictor",
    "Scaling",
    "Scores",
    "Vector",
    "gamma_and_coef0",
    "single",
]

# The largest |z| of a sigmoid, as in `_core.calibration`.
LARGEST_Z = 10.0
# The largest |u| of a standardised feature, whose square does not overflow in float32.
LARGEST_U = 1e18
# With more than two classes, the least difference between the margin of the predicted class and the others.
# It is visible in float32, because margins lie between -1 and 1.
VISIBLE_LEAD = 2.0**-23
# If the largest exponent of an expert's kernel values is below this, a common number is added to all of them.
# The sums then still are too small to change anything but their own sign and order.
SMALL_EXPONENT = -60.0

Labels = list[int] | list[str]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Expansion:
    """Sums over supports: sum_i coef[c, i] k(rows[slots[i]], x) of each output c.

    Experts that see the same rows have the same array `rows`, the union of their supports, and each has its
    own slots.
    """

    kernel: Kernel
    rows: Rows  # (n_rows, n_features)
    coef: Vector  # (n_outputs, n_supports)
    slots: NDArray[np.int64] | None = None  # (n_supports,), ascending; None for all rows
    # If this is not None, the sign and the order of the sums matter also if all values of the kernel "rbf"
    # are too small for float32. Values whose exponent is below this number are 0.
    lowest: float | None = None


@dataclass(frozen=True)
class Scores:
    """f_c(x) = sum_i coef[c, i] k(rows[i], x) + slopes[c] . x + intercepts[c], of each output c.

    A part that is None is 0. A model without supports, or with the kernel "linear", has no expansion.
    """

    outputs: int
    features: int
    expansion: Expansion | None
    slopes: Vector | None  # (n_outputs, n_features)
    intercepts: Vector | None  # (n_outputs,)


@dataclass(frozen=True)
class Scaling:
    """Standardised features, in a form that is accurate in float32.

    With u = ((x - high) - low) / deviation, a feature becomes factor u / sqrt(1 + bend u^2). The mean is
    high + low, so that the difference is accurate also if the mean is much larger than the deviation.
    Experts that see raw rows get x - high, for the same reason.
    """

    high: Vector  # (n_features,), each a float32 number
    low: Vector
    deviation: Vector
    factor: float
    bend: float


@dataclass(frozen=True)
class ExpertScores:
    """The scores of an expert, and the rows that it sees: standardised, or raw ones minus `Scaling.high`.

    Features are multiplied by the scales if there are any.
    """

    standardised: bool
    scales: Vector | None
    scores: Scores


@dataclass(frozen=True)
class Combined:
    """Margins from the scores of experts, as `budgetron._core.combination` computes them.

    `budgetron.portfolio._frozen` explains the numbers.
    """

    outputs: int
    features: int
    scaling: Scaling | None
    experts: list[ExpertScores]
    weights: Vector  # (n_combiners, n_outputs, n_experts)
    constants: Vector  # (n_combiners, n_outputs)
    shares: Vector  # (n_combiners + n_experts,)
    blend: Vector  # (n_combiners,)


@dataclass(frozen=True)
class Predictor:
    """Labels and probabilities from scores: one score for two classes, otherwise one per class."""

    labels: Labels
    scores: Scores | Combined
    # For each output a, b and the divisor of the score that give the log-odds; None without calibration
    sigmoids: Vector | None
    # Whether the log-odds, not the scores, are the values of `decision_function` and decide the class
    predicts_by_log_odds: bool
    # How log-odds become probabilities. Of two classes, both mean the sigmoid.
    # "ratio": the sigmoids of all classes, divided by their sum
    probabilities: Literal["ratio", "softmax"] | None


def single(values: Rows, what: str) -> NDArray[np.float32]:
    """Return values as a float32 array; raise an error if one is too large."""
    dense = values.toarray() if issparse(values) else np.asarray(values)
    with np.errstate(over="ignore"):
        small = dense.astype(np.float32)
    if not np.isfinite(small).all():
        raise ValueError(
            f"{what} up to {np.abs(dense).max():.3g} are too large for float32; scale the features"
        )
    return small


def gamma_and_coef0(kernel: Kernel) -> list[float]:
    """Return the kernel's parameters, rounded to float32."""
    numbers = single([kernel.gamma, kernel.coef0], "kernel parameters")
    if numbers[0] < np.finfo(np.float32).tiny:
        raise ValueError(f"gamma is {kernel.gamma:.3g}, too small for float32; scale the features")
    values: list[float] = numbers.tolist()
    return values
