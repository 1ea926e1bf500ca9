"""What an export needs from a learner beyond its public attributes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from budgetron._base.access import kernel_hypotheses_of, predicts_as_it_learns
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.loss_classifier import LossClassifier
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._core.kernel import Kernel
from budgetron._core.rounds import Learner
from budgetron._core.supports import Supports
from budgetron._util.types import Rows

__all__ = [
    "SupportSet",
    "averaged_supports",
    "decides_by_supports",
    "has_probabilities",
    "kernel_of",
]


@dataclass(frozen=True)
class SupportSet:
    """Supports: the round in which each was added, its row, and its coefficient."""

    rounds: NDArray[np.int64]
    rows: Rows
    coef: NDArray[np.float64]


def kernel_of(learner: KernelClassifier) -> Kernel:
    """Return the kernel of a fitted learner."""
    return kernel_hypotheses_of(learner)[0].kernel


def decides_by_supports(learner: KernelClassifier) -> bool:
    """Return whether f(x) is the sum over `support_vectors_` with the coefficients `dual_coef_`."""
    return predicts_as_it_learns(learner)


def has_probabilities(learner: OnlineClassifier) -> bool:
    """Return whether the learner itself has probabilities, without calibration: its scores are log-odds."""
    return isinstance(learner, LossClassifier) and learner.loss_ == "logistic"


def averaged_supports(learner: KernelClassifier) -> list[list[SupportSet]]:
    """Return the supports of the averaged hypothesis of each output: the current and the removed ones."""
    return [_averaged(hypothesis) for hypothesis in kernel_hypotheses_of(learner)]


def _averaged(hypothesis: Learner) -> list[SupportSet]:
    rule = hypothesis.rule
    assert rule.average is not None
    assert rule.departed is not None
    sums = [(hypothesis.supports, rule.average.total(rule.coef)), (rule.departed, rule.departed_sums)]
    return [_support_set(supports, total / rule.rounds) for supports, total in sums]


def _support_set(supports: Supports, coef: NDArray[np.float64]) -> SupportSet:
    slots = supports.order[: supports.m]
    return SupportSet(supports.rounds[slots], supports.rows(slots), coef[slots])
