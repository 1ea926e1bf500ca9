"""The learners that a fleet supports, and the model that all keys of a fleet start as."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from budgetron._base.access import hypotheses_of
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.sizes import MemoryTooSmallError
from budgetron._core.block_layout import MOST_BUDGET, capacities_for
from budgetron._core.kernel_fleet import KernelFleet
from budgetron._core.key_index import KeyIndex
from budgetron._core.linear_fleet import LinearFleet
from budgetron._core.pooled_fleet import PooledFleet
from budgetron._util.units import format_bytes
from budgetron.kernelized import (
    Forgetron,
    KernelPerceptron,
    RandomizedBudgetPerceptron,
    RemoveOldestPerceptron,
)
from budgetron.linear import AROW, PassiveAggressive, Perceptron

__all__ = ["Learner", "States", "check_learner", "check_started", "states_for"]

Learner: TypeAlias = KernelClassifier | LinearClassifier
States: TypeAlias = KernelFleet | LinearFleet

KERNEL = (KernelPerceptron, RemoveOldestPerceptron, Forgetron, RandomizedBudgetPerceptron)
LINEAR = (Perceptron, PassiveAggressive, AROW)

# Bytes of the pages of large and of small fleets.
LARGEST_PAGE, SMALLEST_PAGE = 1 << 14, 640

# The variants of these classes that are supported.
VARIANTS: dict[type, str] = {Forgetron: "self-tuned", RandomizedBudgetPerceptron: "original"}

SUPPORTED = (
    "KernelPerceptron, RemoveOldestPerceptron, Forgetron (self-tuned), RandomizedBudgetPerceptron "
    "(original), linear.Perceptron, linear.PassiveAggressive and linear.AROW"
)


def check_learner(learner: object) -> None:
    """Raise an error if a fleet cannot consist of learners like this one."""
    if not isinstance(learner, KernelClassifier | LinearClassifier) or type(learner) not in KERNEL + LINEAR:
        raise TypeError(f"learner must be one of {SUPPORTED}; got {learner!r}")
    learner.check_params()
    parameters: dict[str, Any] = learner.get_params(deep=False)
    variant = VARIANTS.get(type(learner))
    if variant is not None and parameters["variant"] != variant:
        raise ValueError(
            f"a fleet supports {type(learner).__name__} with variant={variant!r} only; "
            f"got {parameters['variant']!r}"
        )
    for name in ("counters", "initial_coefficients"):
        if parameters.get(name):
            raise ValueError(f"a fleet does not support {name} of {type(learner).__name__}")
    kernel = getattr(parameters.get("kernel"), "kernel", parameters.get("kernel"))
    if callable(kernel):
        raise ValueError("a fleet supports kernels by name only, and no Python functions")
    if parameters.get("budget", 0) > MOST_BUDGET:
        raise ValueError(f"budget must be at most {MOST_BUDGET} in a fleet; got {parameters['budget']}")
    if isinstance(parameters.get("random_state"), np.random.RandomState):
        raise ValueError("random_state must be an integer or None in a fleet, so that all keys start alike")


def check_started(model: Learner) -> None:
    """Raise `ValueError` if a model that was started by the first rows cannot be that of a fleet."""
    if len(model.classes_) > 2:
        raise ValueError(
            f"a fleet learns two classes; got {len(model.classes_)}. Use one fleet for each class, with the "
            "labels y == label, and predict the class with the largest margin"
        )
    hypothesis = hypotheses_of(model)[0]
    if isinstance(model, KernelClassifier) and hypothesis.supports.sparse:
        raise ValueError(
            f"a fleet of kernel learners stores whole rows, and these have {model.n_features_in_} features, "
            "nearly all 0; use a linear learner, or hash the features into at most 1000"
        )


def states_for(model: Learner, idle: int, memory: int, seed: int, index: KeyIndex) -> States:
    """Return an empty fleet of states, given a copy of the model that keys start as.

    `memory` is the most bytes that it may keep, or 0.
    """
    hypothesis = hypotheses_of(model)[0]
    if not isinstance(model, KernelClassifier):
        return LinearFleet(hypothesis, idle)
    if not memory:
        return KernelFleet(hypothesis, idle)
    # Each size class has a page that is only partly used.
    page = max(SMALLEST_PAGE, min(LARGEST_PAGE, memory // (64 * len(capacities_for(hypothesis.budget)))))
    states = PooledFleet(hypothesis, idle, page, index, memory, seed)
    if memory < states.least_memory:
        raise MemoryTooSmallError(
            f"memory must be at least {format_bytes(states.least_memory)} for one key of this learner and "
            f"{model.n_features_in_} features; got {format_bytes(memory)}",
            states.least_memory,
        )
    return states
