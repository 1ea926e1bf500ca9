"""Compiled hypotheses, built from state that comes from outside (files, pickle, skops), after checking it.

The core writes through pointers: a wrong length or index in a state would be a write outside of an array.
So nothing in a state is trusted. The rule is made by the learner's own parameters, never named by the state.
A new rule over one slot, or over a few features, shows which arrays it has; those of the state must match.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron._base.part_state import (
    average_of,
    check_generator_state,
    covariance_of,
    gaussian_of,
    journal_of,
    projection_of,
    slab_of,
)
from budgetron._core.fourier import FourierHypothesis
from budgetron._core.kernel import Kernel
from budgetron._core.linear import LinearRule
from budgetron._core.rounds import Learner
from budgetron._core.rule import Rule
from budgetron._core.supports import Supports
from budgetron._util.checks import (
    MOST_ROUNDS,
    State,
    require,
    require_array,
    require_finite,
    require_float,
    require_int,
    require_moderate,
    require_names,
)
from budgetron._util.numbers import largest

__all__ = ["fourier_hypothesis", "kernel_hypothesis", "linear_hypothesis"]

NO_ROUNDS = np.zeros(0, np.int64)


def kernel_hypothesis(rule: Rule, kernel: Kernel, found: object, d: int, dtype: np.dtype[Any]) -> Learner:
    """Return the hypothesis over d features that has the state `found`, if it is valid for a new `rule`."""
    rule.attach(Supports(kernel, 1, dtype, 1))  # one slot shows which arrays the rule keeps
    fresh = rule.__getstate__()
    if not isinstance(found, dict):
        raise ValueError("the rule should be a table of names")
    slab = found.get("supports")
    order = slab.get("order") if isinstance(slab, dict) else None
    if not isinstance(slab, dict) or not isinstance(order, np.ndarray):
        raise ValueError("the slab should have an order")
    capacity = order.size
    # A budget fixes the number of slots. Without one it grows by half, which is impossible from 1.
    expected = rule.capacity()
    require(capacity == expected if expected else capacity >= 2, f"a slab of {capacity} slots does not fit")
    require("rounds" in found, "the rule should have a number of rounds")
    state = dict(require_names(rule.check_own_state(dict(found), capacity), set(fresh), "the rule"))
    rounds = _check_counts(state)

    supports = slab_of(kernel, slab, capacity, d, dtype, rounds, "the slab", in_order=True)
    require(supports.m < capacity or not expected, "there should be no more supports than the budget")
    state["supports"] = supports
    _check_coefficients(state, fresh, supports)
    rule.check_slots(state, supports)
    if state["projection"] is not None:
        state["projection"] = projection_of(state["projection"], supports)
    if "gaussian" in state:
        state["gaussian"] = gaussian_of(state["gaussian"], fresh["gaussian"], supports)
    _restore_history(state, supports, rounds)
    if "bits" in state:
        check_generator_state(state["bits"])
    rule.__setstate__(state)
    learner = Learner.__new__(Learner)
    learner.__setstate__({"kernel": kernel, "rule": rule})
    return learner


def _check_coefficients(state: State, fresh: State, supports: Supports) -> None:
    """Check the arrays over the slots: coefficients, and the values of f that the rule keeps."""
    capacity = supports.capacity
    for name, shape in (("values", (capacity,)), ("gram", (capacity, capacity))):
        if not fresh[name].size and getattr(state[name], "shape", None) == shape:
            state[name] = fresh[name]  # protocol 1 kept a Gram matrix where none is needed
    for name in ("coef", "tail", "values", "gram", "scratch"):
        # The new rule has one slot; several outputs have a row of coefficients each.
        expected = tuple(capacity if n == 1 else n for n in fresh[name].shape)
        require_array(state[name], np.float64, expected, name)
    require_moderate(state["coef"], state["factor"], "coefficients")
    for name in ("tail", "values", "gram"):
        require_moderate(state[name], state["factor"], name)
    free = state["coef"][..., supports.order[supports.m :]].ravel()
    require(largest(free) == 0.0, "the coefficient of a free slot should be 0")
    require(
        (state["projection"] is None) == (fresh["projection"] is None),
        "the projection is missing or unexpected",
    )


def _restore_history(state: State, supports: Supports, rounds: int) -> None:
    """Build the average or the journal of past hypotheses, and the removed supports that they need."""
    has_history = state["average"] is not None or state["journal"] is not None
    require(
        (state["departed"] is not None) == has_history,
        "removed supports are kept with averages and journals only",
    )
    room, all_rounds = 0, NO_ROUNDS
    if has_history:
        all_rounds = supports.rounds[supports.order[: supports.m]]
        found = state["departed"]
        require(isinstance(found, dict), "removed supports should be a table of names")
        order = found.get("order")
        room = order.size if isinstance(order, np.ndarray) else 0
        what = "the removed supports"
        removed = slab_of(supports.kernel, found, room, supports.d, supports.square.dtype, rounds, what)
        require(removed.top == removed.m, "removed supports should fill the first slots")
        require(removed.sparse == supports.sparse, "removed supports should be stored like the others")
        state["departed"] = removed
        all_rounds = np.append(all_rounds, removed.rounds[removed.order[: removed.m]])
        require(len(np.unique(all_rounds)) == len(all_rounds), "a round should make one support at most")
    require_array(state["departed_sums"], np.float64, (room,), "the sums of the removed supports")
    if state["average"] is not None:
        state["average"] = average_of(state["average"], supports.capacity)
        limit = state["average"].limit
        require(limit == 0 or room == 2 * limit, "removed supports should have room for twice their limit")
    if state["journal"] is not None:
        state["journal"] = journal_of(state["journal"], rounds, np.sort(all_rounds))


def linear_hypothesis(make_rule: Callable[[int], LinearRule], found: object, d: int) -> LinearRule:
    """Return the hypothesis over d features that has the state `found`.

    `make_rule(n)` makes a new rule over n features.
    """
    if not isinstance(found, dict):
        raise ValueError("the rule should be a table of names")
    # Rules over two and three features show which arrays grow with their number, and how.
    rules = [_with_history(make_rule(n), found) for n in (2, 3)]
    small, larger = (rule.__getstate__() for rule in rules)
    state = dict(require_names(found, set(small), "the rule"))
    rounds = _check_counts(state)
    require_int(state["updates"], 0, rounds, "updates")
    shape_of_weights = _grown_shape(small["weights"], larger["weights"], d)
    weights = require_array(state["weights"], np.float64, shape_of_weights, "weights")
    require_moderate(weights, state["factor"], "weights")
    extra = require_names(state["extra"], set(small["extra"]), "the rule's own arrays")
    for name, array in small["extra"].items():
        shape = _grown_shape(array, larger["extra"][name], d)
        require_moderate(require_array(extra[name], array.dtype, shape, name), 1.0, name)
    for name in ("average", "journal", "covariance"):
        require((state[name] is None) == (small[name] is None), f"the {name} is missing or unexpected")
    if state["covariance"] is not None:
        state["covariance"] = covariance_of(state["covariance"], small["covariance"], d + rules[0].constant)
    if state["average"] is not None:
        state["average"] = average_of(state["average"], weights.size)
    if state["journal"] is not None:
        state["journal"] = journal_of(state["journal"], rounds, np.arange(weights.size))
    rule = make_rule(d)
    rule.check_own_state(extra)
    rule.__setstate__(state)
    return rule


def fourier_hypothesis(
    make_rule: Callable[[int], LinearRule], found: object, d: int, components: int, gamma: float
) -> FourierHypothesis:
    """Return the hypothesis over Fourier features of rows of d features that has the state `found`.

    `make_rule(n)` makes a new rule over n Fourier features.
    """
    state = require_names(found, {"frequencies", "bits", "rule"}, "the hypothesis")
    rule = linear_hypothesis(make_rule, state["rule"], 2 * components)
    frequencies = require_array(state["frequencies"], rule.dtype, (d, components), "frequencies")
    require_finite(frequencies, "frequencies")
    check_generator_state(state["bits"])
    generator = np.random.Generator(np.random.PCG64(0))
    hypothesis = FourierHypothesis(rule, gamma, 0, generator)
    hypothesis.frequencies = frequencies
    generator.bit_generator.state = state["bits"]
    return hypothesis


def _grown_shape(small: NDArray[Any], larger: NDArray[Any], d: int) -> tuple[int, ...]:
    """The shape over d features of an array whose shapes over two and three features are known."""
    pairs = zip(small.shape, larger.shape, strict=True)
    return tuple(least + (more - least) * (d - 2) for least, more in pairs)


def _with_history(rule: LinearRule, state: State) -> LinearRule:
    """Let a new rule keep what the state keeps of past hypotheses."""
    if state.get("average") is not None and rule.average is None:
        rule.keep_average()
    if state.get("journal") is not None and rule.journal is None:
        rule.keep_journal()
    return rule


def _check_counts(state: State) -> int:
    """Check the numbers that all rules have; return the rounds."""
    rounds = require_int(state["rounds"], 0, MOST_ROUNDS, "rounds")
    require_int(state["mistakes"], 0, rounds, "mistakes")
    for name in {"factor", "norm2", "peak", "tally"} & set(state):
        value = require_float(state[name], name)
        unknown = name in ("norm2", "peak") and isnan(value)  # removals may leave a norm unknown
        require(unknown or abs(value) < 1e200, f"{name} should be moderate")
    return rounds
