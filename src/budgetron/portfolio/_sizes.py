"""Memory of kernel experts: how many bytes a budget takes, and how large a budget fits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from budgetron._base import sizes
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.sizes import with_params
from budgetron._util.types import Floats

__all__ = ["bytes_of_budget", "largest_budget", "most_supports"]

# A second-order expert has at most MOST supports at MEMORY bytes. At other sizes the number grows with the
# square root of the memory, within LIMITS, because the time of its rounds grows with the square of the
# supports.
MOST, MEMORY, LIMITS = 800, 16 << 20, (400, 1200)
# Slabs are rounded up, at some lengths by a cache line more: room for this many more supports covers that.
SPARE = 32


def most_supports(memory: int) -> int:
    """Return how many supports a second-order expert may have at this memory."""
    return round(float(np.clip(MOST * np.sqrt(memory / MEMORY), *LIMITS)))


def bytes_of_budget(model: KernelClassifier, row: Floats) -> Callable[[int], int]:
    """Return a function that gives an upper bound of the bytes of a hypothesis with a given budget."""
    size = sizes.bytes_of_budget(lambda budget: with_params(model, budget=budget).new_learner(row))
    return lambda budget: size(budget, SPARE)


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
