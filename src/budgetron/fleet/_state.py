"""States of fleets that come from outside (files, pickle, skops), checked before the core sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron._base.access import hypotheses_of
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.part_state import covariance_of
from budgetron._core.block_layout import MOST_ROUNDS
from budgetron._core.kernel import Kernel
from budgetron._core.rounds import Learner as KernelHypothesis
from budgetron._util.checks import (
    State,
    require,
    require_array,
    require_finite,
    require_moderate,
    require_names,
)
from budgetron._util.numbers import largest
from budgetron._util.types import Floats, Ints
from budgetron.fleet._keys import Keys
from budgetron.fleet._learners import Learner

__all__ = ["checked_index", "checked_states"]

KERNEL_NAMES = {"counts", "sizes", "values", "words", "coef", "tail", "own", "stamps", "square", "rows"}
LINEAR_NAMES = {"counts", "values", "blocks"}


def checked_index(found: Any) -> tuple[bool, Keys]:
    """Return whether keys are texts, and the keys."""
    require(isinstance(found, dict), "the index should be a table of names")
    if "keys" in found:
        require_names(found, {"keys"}, "the index")
        return False, _vector(found["keys"], np.int64, "keys")
    require_names(found, {"texts", "ends"}, "the index")
    texts, ends = (
        _vector(found["texts"], np.uint8, "texts"),
        _vector(found["ends"], np.int64, "ends of texts"),
    )
    starts = np.concatenate([np.zeros(1, np.int64), ends])
    require(
        np.all(starts[1:] >= starts[:-1]) and starts[-1] == len(texts),
        "ends of texts should follow each other",
    )
    whole = texts.tobytes()
    places = starts.tolist()
    try:
        return True, [whole[places[i] : places[i + 1]].decode() for i in range(len(ends))]
    except UnicodeDecodeError:
        raise ValueError("keys should be valid UTF-8") from None


def checked_states(found: Any, model: Learner, n: int, rows: int, pooled: bool) -> dict[str, NDArray[Any]]:
    """Return the states of n keys of a fleet that has played this many rows.

    `pooled` tells whether its memory is limited.
    """
    if isinstance(model, KernelClassifier):
        if pooled:
            require(isinstance(found, dict) and "statistics" in found, "statistics of the keys are missing")
            statistics = require_array(found["statistics"], np.float32, (n, 3), "statistics")
            require_finite(statistics, "statistics")
            require(np.all(statistics >= 0.0), "statistics should not be negative")
        return _kernel_states(found, hypotheses_of(model)[0], n, rows, pooled)
    return _linear_states(found, model, n, rows)


def _vector(value: Any, dtype: Any, what: str) -> NDArray[Any]:
    require(isinstance(value, np.ndarray), f"{what} should be an array")
    return require_array(value, dtype, (value.size,), what)


def _check_counts(counts: Ints, rows: int) -> None:
    rounds, mistakes, last = counts[:, 0], counts[:, 1], counts[:, 2]
    require(np.all((rounds >= 0) & (rounds <= MOST_ROUNDS)), "rounds should not be negative, nor too many")
    require(np.all((mistakes >= 0) & (mistakes <= rounds)), "mistakes should be at most the rounds")
    require(np.all((last >= 0) & (last <= rows)), "last rows should be rows of the fleet")


def _check_values(values: Floats) -> None:
    factor = np.abs(values[:, 0])
    require(np.all((factor > 1e-110) & (factor < 1e110)), "factors should be moderate")
    norms = values[:, 1:3]  # not a number where removals left a norm unknown
    require(np.all(np.isnan(norms) | (np.abs(norms) < 1e200)), "norms should be moderate")


def _kernel_states(
    found: Any, hypothesis: KernelHypothesis, n: int, rows: int, pooled: bool
) -> dict[str, NDArray[Any]]:
    require_names(found, KERNEL_NAMES | ({"statistics"} if pooled else set()), "the states of the keys")
    supports, rule = hypothesis.supports, hypothesis.rule
    d, dtype, budget = supports.d, supports.square.dtype, rule.budget
    sizes = require_array(found["sizes"], np.int64, (n, 3), "numbers of supports")
    counts = require_array(found["counts"], np.int64, (n, 3), "counts")
    values = require_array(found["values"], np.float64, (n, 6), "values")
    _check_counts(counts, rows)
    _check_values(values)
    require_finite(values[:, 3:].copy(), "damage, shrinking and squares")
    require(np.all(values[:, 4:] >= 0.0), "shrinking and squares should not be negative")
    require(np.all(values[:, 5] <= np.finfo(dtype).max), "squares should be moderate")
    m, top = sizes[:, 0], sizes[:, 1]
    require(np.all((m >= 0) & (m <= counts[:, 1])), "a mistake should add one support at most")
    # Only a full budget leaves one slot free.
    full = (m == budget) & (top == m + 1) if budget else np.zeros(n, bool)
    require(np.all((top == m) | full), "slots should be in use")
    require(not budget or np.all(m <= budget), "there should be no more supports than the budget")
    draws = rule.generator is not None
    words = require_array(found["words"], np.uint64, (n, 3 if draws else 0), "states of the generators")
    require(not draws or np.all(words[:, 2] >> np.uint64(32) <= 1), "the generators' flags should be 0 or 1")

    total = int(m.sum())
    owner = np.repeat(np.arange(n), m)
    coef = require_array(found["coef"], np.float64, (total,), "coefficients")
    require(largest(coef * values[owner, 0]) <= 1.0 + 1e-6, "coefficients should be at most 1")
    for name in ("tail", "own"):
        kept = rule.tail.size > 0 if name == "tail" else supports.kernel.name not in ("rbf", "laplacian")
        array = require_array(found[name], np.float64, (total if kept else 0,), name)
        require_finite(array, name)
        if kept:
            require(largest(array * values[owner, 0]) < 1e90, f"{name} should be moderate")
    _check_stamps(
        require_array(found["stamps"], np.int64, (total, 2), "stamps"), owner, m, top, counts, budget
    )
    square = require_array(found["square"], dtype, (total,), "squares")
    _check_rows(
        require_array(found["rows"], dtype, (total, d), "rows"), square, found["own"], supports.kernel
    )
    return dict(found)


def _check_stamps(stamps: Ints, owner: Ints, m: Ints, top: Ints, counts: Ints, budget: int) -> None:
    """Check the rounds and the slots of the supports."""
    rounds, slots = stamps[:, 0], stamps[:, 1]
    require(
        np.all((rounds >= 0) & (rounds < counts[owner, 0])), "rounds of supports should be below the rounds"
    )
    same = owner[1:] == owner[:-1]
    require(np.all((rounds[1:] > rounds[:-1]) | ~same), "supports should be in the order of their rounds")
    require(np.all((slots >= 0) & (slots < top[owner])), "slots should be below the top")
    if budget:
        places = owner * (budget + 1) + slots
        require(len(np.unique(places)) == len(places), "each support should have a slot of its own")
    else:
        first = np.cumsum(m) - m
        require(
            np.array_equal(slots, np.arange(len(slots)) - first[owner]), "slots should be filled in order"
        )


def _check_rows(rows: NDArray[Any], square: NDArray[Any], own: Floats, kernel: Kernel) -> None:
    """Check the rows of the supports, and the squared norms and self values that follow from them."""
    require_finite(rows, "rows")
    require_finite(square, "squares")
    share = 1e-4 if rows.dtype == np.float32 else 1e-9
    with np.errstate(over="ignore"):
        expected = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    require(np.all(np.abs(square - expected) <= share * expected), "squares should be those of the rows")
    if own.size:
        raw = Kernel(kernel.name, kernel.gamma, kernel.degree, kernel.coef0)
        selves = raw.diagonal(rows)
        require(
            np.all(np.abs(own - selves) <= share * np.abs(selves)), "self values should be those of the rows"
        )


def _linear_states(found: Any, model: Learner, n: int, rows: int) -> dict[str, NDArray[Any]]:
    require_names(found, LINEAR_NAMES, "the states of the keys")
    rule = hypotheses_of(model)[0]
    covariance = rule.covariance
    parts = {"weights": rule.weights} | rule.extra
    if covariance is not None:
        parts |= {
            name: a for name, a in covariance.arrays().items() if name not in ("direction", "projections")
        }
    forgets = covariance is not None and "factor" in covariance.state()
    width = sum(array.size for array in parts.values()) + forgets
    counts = require_array(found["counts"], np.int64, (n, 4), "counts")
    values = require_array(found["values"], np.float64, (n, 3), "values")
    blocks = require_array(found["blocks"], np.float64, (n, width), "weights")
    _check_counts(counts, rows)
    require(
        np.all((counts[:, 3] >= 0) & (counts[:, 3] <= counts[:, 0])), "updates should be at most the rounds"
    )
    _check_values(values)
    require_finite(blocks, "weights")
    own = _columns(blocks, parts)
    require(largest(own.pop("weights") * values[:, :1]) < 1e90, "weights should be moderate")
    for name, array in own.items():
        require_moderate(array.copy(), 1.0, name)
    _check_own(own, blocks, rule, n)
    return dict(found)


def _columns(blocks: Floats, parts: dict[str, NDArray[Any]]) -> dict[str, Floats]:
    """Return the arrays that the blocks consist of, one row per key."""
    found, start = {}, 0
    for name, array in parts.items():
        found[name] = blocks[:, start : start + array.size]
        start += array.size
    return found


def _check_own(own: dict[str, Floats], blocks: Floats, rule: Any, n: int) -> None:
    """Check variances and covariances."""
    for name in ("sigma", "variances"):
        if name in own:
            require(np.all(own[name] >= 0.0), "variances should not be below 0")
    if "reductions" in own:  # of a learner that forgets: one key after the other
        for i in range(n):
            state: State = {name: array[i].copy() for name, array in own.items()}
            if rule.covariance is None:
                rule.check_own_state(state)
            else:
                fresh = rule.covariance
                state |= {"direction": fresh.direction, "d": fresh.d, "factor": float(blocks[i, -1])}
                covariance_of(state, fresh, fresh.d)
