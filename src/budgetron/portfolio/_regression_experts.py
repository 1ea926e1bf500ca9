"""The experts of `BudgetRegressor`: which there are, and their hypotheses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from budgetron._base.compiled_state import kernel_hypothesis, linear_hypothesis
from budgetron._base.sizes import bytes_of_budget, bytes_of_width
from budgetron._core.kernel import Kernel
from budgetron._core.linear import LinearRule
from budgetron._core.rounds import Learner
from budgetron._util.types import Floats
from budgetron.kernelized._second_order_rule import SecondOrderRule
from budgetron.linear._arow_rules import DiagonalRule, FullRule

__all__ = [
    "COMBINERS",
    "DESIGNS",
    "LAGS",
    "MOST_SUPPORTS",
    "Design",
    "bytes_of_kernel",
    "bytes_of_linear",
    "largest_budget",
    "linear_rule",
    "new_kernel",
    "restored_kernel",
    "restored_linear",
]

Hypothesis: TypeAlias = LinearRule | Learner

# The last targets that some experts see.
LAGS = 3
# The largest and the smallest number of supports of a kernel expert. If memory does not suffice for the
# smallest number, there is no such expert. The time of a round grows with the square of the number. Slots
# come in multiples of 16, and one is for the next support.
MOST_SUPPORTS, FEWEST_SUPPORTS = 239, 8
# Variance of the noise, in parts of the variance of the targets.
NOISE = 0.05
# A row becomes a support if the squared distance of its image from the span is above this.
THRESHOLD = 0.02


@dataclass(frozen=True)
class Design:
    """What an expert is.

    Attributes
    ----------
    name : str
    kind : {"mean", "linear", "kernel"}
        A running mean of the targets, recursive least squares, or a second-order kernel regressor.
    forget : float
        The part of what was learned that each row keeps. 0 for a mean is the last target.
    lags : bool
        Whether the last targets are features.
    width : float
        gamma times the median squared distance between rows.
    scaled : bool
        Whether the features have learned scales. Such experts start later.
    """

    name: str
    kind: str
    forget: float = 1.0
    lags: bool = False
    width: float = 0.0
    scaled: bool = False


DESIGNS = (
    Design("mean", "mean"),
    Design("recent mean", "mean", 0.99),
    Design("very recent mean", "mean", 0.8),
    Design("last target", "mean", 0.0),
    Design("linear", "linear"),
    Design("linear that forgets", "linear", 0.999999),
    Design("linear that forgets fast", "linear", 0.9999),
    Design("linear with last targets", "linear", 0.999999, lags=True),
    Design("kernel, learned scales", "kernel", width=0.5, scaled=True),
    Design("kernel, learned scales, forgets", "kernel", 0.9997, width=0.5, scaled=True),
    Design("kernel, width 0.25", "kernel", width=0.25),
    Design("kernel, width 1", "kernel", width=1.0),
    Design("kernel that forgets", "kernel", 0.9997, width=0.5),
    Design("kernel with last targets", "kernel", 0.9997, lags=True, width=0.5),
)
# How much each combiner keeps in each round. Forgetting adds (1 - forget) prior to each variance, so that
# with little noise even a forget near 1 forgets fast.
COMBINERS = (1.0, 0.999, 0.99)


def linear_rule(d: int, dtype: np.dtype[Any], forget: float, full: bool, r: float = NOISE) -> LinearRule:
    """Return recursive least squares over d features, before its first round."""
    rule: LinearRule = (FullRule if full else DiagonalRule)(
        d, dtype == np.float32, False, r, "squared", 1.0, forget, 1, True
    )
    return rule


def bytes_of_linear(d: int, dtype: np.dtype[Any], full: bool) -> int:
    """Return the bytes of `linear_rule`, at most: with forgetting."""
    return bytes_of_width(lambda n: linear_rule(n, dtype, 0.5, full), d)


def restored_linear(
    state: object, d: int, dtype: np.dtype[Any], forget: float, full: bool, r: float
) -> LinearRule:
    """Return the rule with this state, after checking it."""
    return linear_hypothesis(lambda n: linear_rule(n, dtype, forget, full, r), state, d)


def _kernel_rule(design: Design, budget: int, gamma: float, most_dense: int) -> SecondOrderRule:
    scale = float(np.sqrt(gamma))
    return SecondOrderRule(
        budget, THRESHOLD, NOISE, True, scale, "squared", 1.0, design.forget, 1, most_dense, True
    )


def new_kernel(
    design: Design, budget: int, gamma: float, d: int, dtype: np.dtype[Any], full: bool
) -> Learner:
    """Return a kernel regressor over d features, before its first round.

    If not `full`, the features of its linear part have variances but no covariances.
    """
    return Learner(Kernel("rbf", gamma), _kernel_rule(design, budget, gamma, d if full else 0), d, dtype)


def bytes_of_kernel(design: Design, d: int, dtype: np.dtype[Any], full: bool, budget: int) -> int:
    """Return the bytes of a kernel regressor with this budget."""
    size = bytes_of_budget(lambda n: new_kernel(design, n, 1.0, d, dtype, full))
    return size(budget, -(budget + 1) % 16)


def largest_budget(design: Design, d: int, dtype: np.dtype[Any], full: bool, room: int) -> int:
    """Return the largest budget of a kernel regressor whose bytes fit; 0 if it would be too small."""
    size = bytes_of_budget(lambda n: new_kernel(design, n, 1.0, d, dtype, full))
    low, high = 0, MOST_SUPPORTS
    while low < high:
        middle = (low + high + 1) // 2
        if size(middle, -(middle + 1) % 16) <= room:
            low = middle
        else:
            high = middle - 1
    return low if low >= FEWEST_SUPPORTS else 0


def restored_kernel(
    design: Design, budget: int, gamma: float, state: object, d: int, dtype: np.dtype[Any], full: bool
) -> Learner:
    """Return the regressor with this state, after checking it."""
    rule = _kernel_rule(design, budget, gamma, d if full else 0)
    return kernel_hypothesis(rule, Kernel("rbf", gamma), state, d, dtype)


def median_square(rows: Floats) -> float:
    """Return the median squared distance between rows; 1 if it is 0."""
    squares = np.einsum("ij,ij->i", rows, rows)
    distances = squares[:, None] + squares - 2.0 * rows @ rows.T
    median = float(np.median(distances[np.triu_indices(len(rows), 1)]))
    return median if median > 1e-12 else 1.0
