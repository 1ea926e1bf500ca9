"""Bytes of a hypothesis that does not exist yet, computed from small ones of the same kind.

A large hypothesis is never made for this: it would take the memory that the caller asks about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from budgetron._base.parameters import CheckedEstimator
from budgetron._core.gaussian import Gaussian
from budgetron._core.linear import LinearRule
from budgetron._core.projection import Projection
from budgetron._core.rounds import Learner
from budgetron._core.rule import Rule

__all__ = [
    "SLOTS",
    "MemoryTooSmallError",
    "Prepare",
    "as_it_is",
    "bytes_of_budget",
    "bytes_of_width",
    "with_params",
]

Model = TypeVar("Model", bound=CheckedEstimator)
# What a wrapper does with a new hypothesis of its learner
Prepare: TypeAlias = Callable[[Any], None]

# Budgets of the two small hypotheses. Their slots, one more each, are whole cache lines.
SMALL, LARGER = 63, 127
# The slots of a slab are rounded up to a multiple of this number.
SLOTS = 16


class MemoryTooSmallError(ValueError):
    """The memory that a learner may use is too small for its rows and classes.

    Attributes
    ----------
    needed : int
        Bytes that are enough.
    """

    def __init__(self, message: str, needed: int) -> None:
        super().__init__(message)
        self.needed = needed


def as_it_is(hypothesis: object) -> None:
    """Do nothing with a new hypothesis: its learner has no wrapper."""


def with_params(model: Model, **parameters: object) -> Model:
    """Return a copy of an unfitted estimator with other parameters."""
    # Faster than clone and set_params: an estimator's constructor only stores its parameters.
    copy = object.__new__(type(model))
    copy.__dict__.update({name: value for name, value in vars(model).items() if not name.endswith("_")})
    copy.__dict__.update(parameters)
    return copy


def bytes_of_budget(make: Callable[[int], Learner]) -> Callable[[int, int], int]:
    """Return the function of a budget, and of additional slots, that gives the bytes of a hypothesis.

    `make(budget)` makes a hypothesis over rows of the right width. The slots of the slab are not rounded up,
    and matrices are those of the budget without the additional slots.
    """
    # Two small hypotheses show the cost per support; the matrices, which grow with the square, are computed.
    small, larger = make(SMALL), make(LARGER)
    per_support = (_bytes_without_matrices(larger) - _bytes_without_matrices(small)) // (LARGER - SMALL)

    def size(budget: int, spare: int) -> int:
        linear = _bytes_without_matrices(small) + per_support * (budget - SMALL + spare)
        return linear + _bytes_of_matrices(small, budget + 1)

    return size


def bytes_of_width(make: Callable[[int], LinearRule], d: int) -> int:
    """Return the bytes of a linear hypothesis over d features; `make(n)` makes one over n features."""
    # Its arrays have at most two dimensions, so that the bytes are a polynomial of degree 2.
    first, second, third = (make(n).nbytes for n in (1, 2, 3))
    slope, curvature = second - first, third - 2 * second + first
    return first + slope * (d - 1) + curvature * (d - 1) * (d - 2) // 2


def _bytes_of_matrices(learner: Learner, slots: int) -> int:
    """Bytes of the matrices over the slots, the Cholesky factor and the covariance, with so many slots."""
    rule = learner.rule
    squares = 8 * slots**2 * sum(matrix.size > 0 for matrix in _squares(rule))
    factor = Projection.bytes_for(slots) if rule.projection is not None else 0
    sigma = Gaussian.bytes_for(rule.gaussian.fixed + slots) if rule.gaussian is not None else 0
    return squares + factor + sigma


def _squares(rule: Rule) -> list[NDArray[np.float64]]:
    """Return the arrays with an entry for each pair of slots: the Gram matrix and its inverse."""
    arrays = rule.arrays()
    return [arrays[name] for name in ("gram", "inverse") if name in arrays]


def _bytes_without_matrices(learner: Learner) -> int:
    rule = learner.rule
    factor = rule.projection.factor.nbytes if rule.projection is not None else 0
    sigma = rule.gaussian.sigma.nbytes if rule.gaussian is not None else 0
    squares = sum(matrix.nbytes for matrix in _squares(rule))
    return int(learner.nbytes - squares - factor - sigma)
