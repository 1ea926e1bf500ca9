"""Memory of kernel experts: how many bytes a budget takes, and how large a budget fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._core.gaussian import Gaussian
from budgetron._core.projection import Projection
from budgetron._core.rounds import Learner
from budgetron._util.types import Floats

__all__ = ["bytes_of_budget", "largest_budget", "most_supports", "with_params"]

Model = TypeVar("Model", bound=KernelClassifier)

# A second-order expert has at most MOST supports at MEMORY bytes. At other sizes the number grows with the
# square root of the memory, within LIMITS, because the time of its rounds grows with the square of the
# supports.
MOST, MEMORY, LIMITS = 800, 16 << 20, (400, 1200)
# Slabs are rounded up, at some lengths by a cache line more: room for this many more supports covers that.
SPARE = 32
# Budgets of two small hypotheses, by which the size of larger ones is computed.
SMALL, LARGER = 63, 127


def most_supports(memory: int) -> int:
    """Return how many supports a second-order expert may have at this memory."""
    return round(float(np.clip(MOST * np.sqrt(memory / MEMORY), *LIMITS)))


def with_params(model: Model, **parameters: object) -> Model:
    """Return a copy of an unfitted estimator with other parameters."""
    # Faster than clone and set_params: an estimator's constructor only stores its parameters.
    copy = object.__new__(type(model))
    copy.__dict__.update({name: value for name, value in vars(model).items() if not name.endswith("_")})
    copy.__dict__.update(parameters)
    return copy


def bytes_of_budget(model: KernelClassifier, row: Floats) -> Callable[[int], int]:
    """Return a function that gives an upper bound of the bytes of a hypothesis with a given budget."""
    # Hypotheses of full size would fragment the memory. Two small ones show the cost per support; the
    # matrices, which grow with the square, are computed.
    small, larger = (with_params(model, budget=n).new_learner(row) for n in (SMALL, LARGER))
    per_support = (_bytes_without_matrices(larger) - _bytes_without_matrices(small)) // (LARGER - SMALL)

    def size(budget: int) -> int:
        linear = _bytes_without_matrices(small) + per_support * (budget - SMALL + SPARE)
        gaussian = small.rule.gaussian
        return linear + (_bytes_of_matrices(budget + 1, gaussian.fixed) if gaussian is not None else 0)

    return size


def largest_budget(size: Callable[[int], int], share: int, least: int, most: int) -> int:
    """Return the largest budget from `least` to `most` whose size fits in a share; 0 if none does."""
    if most < least or size(least) > share:
        return 0
    while least < most:
        middle = (least + most + 1) // 2
        if size(middle) <= share:
            least = middle
        else:
            most = middle - 1
    return least


def _bytes_of_matrices(supports: int, fixed: int) -> int:
    """Bytes of the covariance and of the Cholesky factor."""
    return Gaussian.bytes_for(fixed + supports) + Projection.bytes_for(supports)


def _bytes_without_matrices(learner: Learner) -> int:
    rule = learner.rule
    if rule.gaussian is None or rule.projection is None:
        return learner.nbytes
    return learner.nbytes - rule.gaussian.sigma.nbytes - rule.projection.factor.nbytes
