"""Portfolios built from state that comes from outside, after checking it."""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron._base.compiled_state import kernel_hypothesis
from budgetron._base.part_state import check_generator_state
from budgetron._core.combination import Combination
from budgetron._core.kernel import Kernel
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
from budgetron.portfolio._changes import CHUNK, ChangeDetector
from budgetron.portfolio._experts import FIRST_ORDER, PRIORS, STORED, WIDE, Expert, Plan, designs_for
from budgetron.portfolio._pool import FEWEST_ROWS, MOST_ROWS, MOST_WINDOW, ExpertPool
from budgetron.portfolio._portfolio import Portfolio
from budgetron.portfolio._views import Scaler

__all__ = ["portfolio_of"]

# More supports than any expert has.
MOST_BUDGET = 1 << 20
# Scales of features are between exp(-4) and exp(3); the limits here are a little wider.
SCALES = (0.01, 30.0)


def portfolio_of(found: object, d: int, dtype: np.dtype[Any], outputs: int, plan: Plan) -> Portfolio:
    """Return the portfolio over d features that has the state `found`, if it is valid."""
    earlier = isinstance(found, dict) and "combiner" in found
    require(
        not earlier,
        "this state is of an earlier version of BudgetClassifier, with other experts; train the model again",
    )
    state = require_names(
        found,
        {"rounds", "mistakes", "seen", "memory", "outputs", "reservoir", "first_labels", "medians", "window"}
        | {
            "window_labels",
            "only_first",
            "watched",
            "chunk_errors",
            "alarm_at",
            "trials",
            "bits",
            "scaler",
            "scales",
        }
        | {"chunks", "bank", "experts", "combination", "first_weights", "window_weights"},
        "the portfolio",
    )
    memory = require_int(state["memory"], 1, MOST_ROUNDS, "memory")
    seen = require_int(state["seen"], 0, MOST_ROUNDS, "seen")
    require(
        state["outputs"] == outputs and type(state["outputs"]) is int, f"there should be {outputs} outputs"
    )
    designs = designs_for(d, plan)
    # Before arrays of these sizes are allocated: the state has arrays of the same sizes.
    width = d + (d <= WIDE)
    shape = (len(FIRST_ORDER) * outputs, width)
    require_moderate(require_array(state["bank"], np.float64, shape, "weights"), 1.0, "weights")
    require(
        isinstance(state["experts"], list) and len(state["experts"]) == len(designs),
        "experts are missing or unexpected",
    )
    portfolio = Portfolio(d, dtype, memory, outputs, np.random.Generator(np.random.PCG64(0)), plan)
    portfolio.rounds = require_int(state["rounds"], seen, MOST_ROUNDS, "rounds")
    portfolio.mistakes = require_int(state["mistakes"], 0, seen, "mistakes")
    pool = portfolio.pool
    pool.seen = seen
    _restore_rows(pool, state, dtype)
    pool.first_order_experts.set_weights(state["bank"].reshape(len(FIRST_ORDER), outputs, width).copy())
    for expert, own in zip(pool.experts, state["experts"], strict=True):
        _restore_expert(pool, expert, own, dtype)
    _restore_schedule(pool, state)
    _restore_combination(portfolio.combination, state["combination"], seen)
    require(pool.reserved_bytes <= memory, "a portfolio should keep within its memory")
    return portfolio


def _restore_rows(pool: ExpertPool, state: State, dtype: np.dtype[Any]) -> None:
    """Set the reservoir, the window and the scaler."""
    d, seen, rows, window = pool.d, pool.seen, state["reservoir"], state["window"]
    for array, what in ((rows, "the reservoir"), (window, "the window")):
        require(isinstance(array, np.ndarray) and array.ndim == 2, f"{what} should have rows")
    # Their sizes were fixed at the start, whatever the number of features and the memory are now.
    least, most = (0, 0) if pool.scaler is None else (FEWEST_ROWS, MOST_ROWS)
    size = require_int(len(rows), least, most, "rows of the reservoir")
    length = require_int(len(window), 0, MOST_WINDOW if pool.scaler is not None else 0, "rows of the window")
    require_finite(require_array(rows, dtype, (size, d), "the reservoir"), "the reservoir")
    require_finite(require_array(window, dtype, (length, d), "the window"), "the window")
    pool.reservoir, pool.window = rows, window
    labels = (0 if seen >= size else size,)
    pool.first_labels = require_array(state["first_labels"], np.float64, labels, "first labels")
    pool.window_labels = require_array(state["window_labels"], np.float64, (length,), "labels of the window")
    pool.first_weights = require_array(state["first_weights"], np.float64, labels, "first weights")
    pool.window_weights = require_array(
        state["window_weights"], np.float64, (length,), "weights of the window"
    )
    for values in (pool.first_weights, pool.window_weights):
        require(np.all((values >= 0.0) & np.isfinite(values)), "weights of rows should not be below 0")
    classes = (-1.0, 0.0, 1.0) if pool.outputs == 1 else tuple(range(pool.outputs))
    for values in (pool.first_labels, pool.window_labels):
        require(bool(np.isin(values, classes).all()), "labels of rows should be classes")
    started = seen >= FEWEST_ROWS and pool.scaler is not None
    pool.medians = require_array(state["medians"], np.float64, (2,), "medians")
    require(np.all(np.isfinite(pool.medians) & (pool.medians >= 0.0)), "medians should not be below 0")
    require(not started or np.all(pool.medians > 0.0), "medians should be above 0")
    check_generator_state(state["bits"])
    pool.generator.bit_generator.state = state["bits"]
    if pool.scaler is None:
        require(state["scaler"] is None, "there should be no scaler")
    else:
        pool.scaler = _scaler(state["scaler"], d, seen)


def _scaler(found: object, d: int, seen: int) -> Scaler:
    state = require_names(found, {"mean", "spread"}, "the scaler")
    mean = require_array(state["mean"], np.float64, (d,), "means")
    spread = require_array(state["spread"], np.float64, (d,), "spreads")
    for values in (mean, spread):
        require_finite(values, "means and spreads")
    require(np.all(spread >= 0.0), "spreads should not be below 0")
    return Scaler(mean, spread, seen)


def _restore_expert(pool: ExpertPool, expert: Expert, found: object, dtype: np.dtype[Any]) -> None:
    """Set the record and the hypothesis of an expert."""
    state = require_names(found, {*STORED, "learner"}, "an expert")
    seen, kind = pool.seen, expert.design.kind
    expert.rounds = require_int(state["rounds"], 0, seen, "rounds of an expert")
    expert.mistakes = require_int(state["mistakes"], 0, expert.rounds, "mistakes of an expert")
    expert.recent_mistakes = require_int(
        state["recent_mistakes"], 0, expert.mistakes, "recent mistakes of an expert"
    )
    for name in ("ended", "late", "linear", "full"):
        require(type(state[name]) is bool, f"{name} should be true or false")
        setattr(expert, name, state[name])
    require(state["loss"] in PRIORS and type(state["loss"]) is str, "the loss of an expert should be known")
    expert.loss = state["loss"]
    require(kind == "scaled" or expert.loss == expert.design.loss, "the loss should be that of the design")
    expert.gamma = require_float(state["gamma"], "gamma")
    require(0.0 < expert.gamma < np.inf, "gamma should be above 0")
    expert.budget = require_int(state["budget"], 0, MOST_BUDGET, "budget of an expert")
    expert.allowed = require_int(state["allowed"], 0, MOST_BUDGET, "supports of an expert")
    expert.learner = None
    has_scales = kind == "scaled" and state["learner"] is not None
    expert.scales = require_array(
        state["scales"], np.float64, (pool.d if has_scales else 0,), "scales of the features"
    )
    require(np.all((expert.scales > SCALES[0]) & (expert.scales < SCALES[1])), "scales should be moderate")
    if state["learner"] is None:
        return
    require(kind != "first order" and not expert.ended, "an expert is unexpected")
    require(
        1 <= expert.budget <= expert.allowed, "an expert should have room for the supports that it may have"
    )
    rule = expert.new_rule(pool.outputs, expert.budget)
    expert.learner = kernel_hypothesis(rule, Kernel("rbf", expert.gamma), state["learner"], pool.d, dtype)
    require(
        kind == "linear" or not expert.learner.supports.sparse, "only linear experts should store non-zeros"
    )
    require(kind != "linear" or expert.n_supports == 0, "a linear expert should have no supports")
    require(expert.room > 0, "an expert should have room for one more support")


def _restore_schedule(pool: ExpertPool, state: State) -> None:
    """Set what decides when experts start and end."""
    n, seen = len(pool.experts), pool.seen
    pool.only_first_wrong = require_array(state["only_first"], np.int64, (n, n), "counts of the experts")
    require(
        np.all((pool.only_first_wrong >= 0) & (pool.only_first_wrong <= seen)),
        "counts should be those of rounds played",
    )
    second = [i for i, expert in enumerate(pool.experts) if expert.design.second_order]
    watched = state["watched"]
    require(watched in (-1, *second) and type(watched) is int, "watched should be an expert")
    scales = state["scales"]
    require(isinstance(scales, np.ndarray) and len(scales) in (0, pool.d), "scales should be of the features")
    pool.scales = require_array(scales, np.float64, (len(scales),), "scales of the features")
    require(np.all((scales > SCALES[0]) & (scales < SCALES[1])), "scales should be moderate")
    pool.watched = state["watched"]
    pool.chunk_errors = require_int(state["chunk_errors"], 0, CHUNK, "errors of the chunk")
    pool.alarm_at = require_int(state["alarm_at"], -1, seen, "round of the alarm")
    trials = state["trials"]
    require(
        isinstance(trials, np.ndarray) and trials.ndim == 2 and len(trials) <= n, "trials should be a table"
    )
    require_array(trials, np.int64, (len(trials), 3), "trials")
    require(bool(np.isin(trials[:, :2], second).all()), "trials should be of experts")
    pool.trials = [(young, old, until) for young, old, until in trials.tolist()]
    chunks = state["chunks"]
    require(isinstance(chunks, np.ndarray) and chunks.ndim == 2, "chunks should be counts")
    require_array(chunks, np.float64, (min(len(chunks), 1000), 2), "chunks")
    orderly = (chunks[:, 0] >= 1.0) & (chunks[:, 1] >= 0.0) & (chunks[:, 1] <= chunks[:, 0])
    require(np.all(orderly) and chunks[:, 0].sum() <= seen, "chunks should be counts of rounds")
    pool.detector = ChangeDetector(chunks)


def _restore_combination(combination: Combination, found: object, seen: int) -> None:
    """Set the combiners, the recent labels and the weights of the vote."""
    fresh = combination.arrays()
    arrays = dict(require_names(found, set(fresh), "the combination"))
    for name, array in fresh.items():
        flat = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array
        require_moderate(require_array(arrays[name], np.float64, flat.shape, name), 1.0, name)
        arrays[name] = arrays[name].reshape(array.shape)
    require(np.all(np.abs(arrays["recent"]) <= 1.0), "recent labels should lie between -1 and 1")
    require(
        np.all(arrays["shares"] >= 0.0) and abs(arrays["shares"].sum() - 1.0) < 1e-6, "shares should sum to 1"
    )
    require(
        np.all((arrays["losses"] >= 0.0) & (arrays["losses"] <= seen * (1.0 + 1e-9))),
        "losses should be those of rounds",
    )
    sigma = arrays["sigma"]
    require(np.all(np.abs(sigma) <= 1.001), "covariances of combiners should be at most 1")
    variances = np.diagonal(sigma, axis1=2, axis2=3)
    require(np.all(variances > -1e-9), "variances of combiners should not be below 0")
    combination.set_arrays(arrays)
