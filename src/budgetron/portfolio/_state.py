"""Portfolios built from state that comes from outside, after checking it."""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.part_state import check_generator_state
from budgetron._base.sizes import with_params
from budgetron._util.checks import (
    MOST_ROUNDS,
    State,
    require,
    require_array,
    require_finite,
    require_float,
    require_int,
    require_names,
)
from budgetron.linear import AROW
from budgetron.portfolio._experts import WIDE, Expert, KernelExpert, Plan
from budgetron.portfolio._pool import FEWEST_ROWS, MOST_ROWS, ExpertPool
from budgetron.portfolio._portfolio import Portfolio
from budgetron.portfolio._views import Scaler

__all__ = ["portfolio_of"]


def portfolio_of(found: object, d: int, dtype: np.dtype[Any], plan: Plan) -> Portfolio:
    """Return the portfolio over d features that has the state `found`, if it is valid."""
    if isinstance(found, dict):
        found = {"sign": 1.0} | found  # the oldest files have no sign
    state = require_names(
        found,
        {"rounds", "seen", "mistakes", "memory", "sign", "labels", "reservoir", "first_labels", "medians"}
        | {"bits", "scaler", "experts", "combiner", "totals", "losses", "loss"},
        "the portfolio",
    )
    memory = require_int(state["memory"], 1, MOST_ROUNDS, "memory")
    seen = require_int(state["seen"], 0, MOST_ROUNDS, "seen")
    _check_width(state, d)
    portfolio = Portfolio(d, dtype, memory, np.random.Generator(np.random.PCG64(0)), plan)
    portfolio.rounds = require_int(state["rounds"], seen, MOST_ROUNDS, "rounds")
    portfolio.mistakes = require_int(state["mistakes"], 0, seen, "mistakes")
    portfolio.sign = require_float(state["sign"], "sign")
    require(portfolio.sign in (-1.0, 1.0), "sign should be 1 or -1")
    portfolio.pool.seen = seen
    _restore_pool(portfolio.pool, state, dtype)
    _restore_combiner(portfolio, state)
    require(portfolio.pool.promised <= memory, "a portfolio should keep within its memory")
    return portfolio


def _restore_pool(pool: ExpertPool, state: State, dtype: np.dtype[Any]) -> None:
    """Set the reservoir, the scaler and the experts."""
    d, seen, rows = pool.d, pool.seen, state["reservoir"]
    require(isinstance(rows, np.ndarray) and rows.ndim == 2, "the reservoir should have rows")
    # Its size was fixed at the start, whatever the number of features and the memory are now.
    least, most = (0, 0) if pool.scaler is None else (FEWEST_ROWS, MOST_ROWS)
    size = require_int(len(rows), least, most, "rows of the reservoir")
    require_finite(require_array(rows, dtype, (size, d), "the reservoir"), "the reservoir")
    started = seen >= size
    pool.reservoir = rows
    labels = (0 if started else size,)
    pool.first_labels = require_array(state["first_labels"], np.float64, labels, "first labels")
    pool.medians = require_array(state["medians"], np.float64, (2,), "medians")
    require(np.all(np.isfinite(pool.medians) & (pool.medians >= 0.0)), "medians should not be below 0")
    require(not started or pool.scaler is None or np.all(pool.medians > 0.0), "medians should be above 0")
    check_generator_state(state["bits"])
    pool.generator.bit_generator.state = state["bits"]
    if pool.scaler is None:
        require(state["scaler"] is None, "there should be no scaler")
    else:
        pool.scaler = _scaler(state["scaler"], d, seen)
    require(
        isinstance(state["experts"], list) and len(state["experts"]) == len(pool.experts),
        "experts are missing or unexpected",
    )
    for expert, found in zip(pool.experts, state["experts"], strict=True):
        _restore_expert(expert, found, d, dtype, seen, started)
    _check_same_rows(pool)


def _restore_combiner(portfolio: Portfolio, state: State) -> None:
    """Set the recent labels, the linear learner and the weights of the vote."""
    combiner, seen = portfolio.combiner, portfolio.pool.seen
    shape = combiner.recent_labels.shape
    combiner.recent_labels = require_array(state["labels"], np.float64, shape, "recent labels")
    require(np.all(np.abs(combiner.recent_labels) <= 1.0), "recent labels should lie between -1 and 1")
    n = len(portfolio.pool.experts) + 1
    combiner.rule = _hypothesis_of(AROW(loss="hinge"), state["combiner"], n + shape[0], np.dtype(np.float64))
    totals = require_array(state["totals"], np.float64, (n,), "totals of the experts")
    losses = require_array(state["losses"], np.float64, (n,), "losses of the experts")
    for values in (totals, losses):
        require(np.all((values >= 0.0) & (values <= seen)), "losses should be those of rounds played")
    loss = require_float(state["loss"], "loss")
    require(0.0 <= loss <= seen, "loss should be that of rounds played")
    combiner.weights.set_totals(totals, losses, loss, seen)


def _check_width(state: State, d: int) -> None:
    """Check that the state is of d features, before arrays of that size are allocated."""
    require(isinstance(state["experts"], list), "there should be experts")
    for expert in state["experts"]:
        learner = expert.get("learner") if isinstance(expert, dict) else None
        states = learner.get("states") if isinstance(learner, dict) else None
        if isinstance(states, list) and states and isinstance(states[0], dict) and "weights" in states[0]:
            require_array(states[0]["weights"], np.float64, (d + (d <= WIDE),), "weights")
            return
    raise ValueError("there should be an expert without a kernel")


def _scaler(found: object, d: int, seen: int) -> Scaler:
    state = require_names(found, {"mean", "spread"}, "the scaler")
    mean = require_array(state["mean"], np.float64, (d,), "means")
    spread = require_array(state["spread"], np.float64, (d,), "spreads")
    for values in (mean, spread):
        require_finite(values, "means and spreads")
    require(np.all(spread >= 0.0), "spreads should not be below 0")
    return Scaler(mean, spread, seen)


def _restore_expert(
    expert: Expert, found: object, d: int, dtype: np.dtype[Any], seen: int, started: bool
) -> None:
    chosen = expert.own_state()
    if isinstance(expert, KernelExpert) and isinstance(found, dict):
        found = {"allowed": found.get("budget")} | found  # the oldest files have no such entry
    state = require_names(found, {"mistakes", "late", "rounds", "ended", "learner", *chosen}, "an expert")
    expert.rounds = require_int(state["rounds"], 0, seen, "rounds of an expert")
    expert.mistakes = require_int(state["mistakes"], 0, expert.rounds, "mistakes of an expert")
    expert.recent_mistakes = require_int(state["late"], 0, expert.mistakes, "recent mistakes of an expert")
    require(type(state["ended"]) is bool, "ended should be true or false")
    expert.ended = state["ended"]
    require(
        (state["learner"] is None) == (expert.ended or (expert.has_kernel and not started)),
        "an expert is missing or unexpected",
    )
    if isinstance(expert, KernelExpert):
        budget = require_int(state["budget"], 1, 2**31 - 1, "budget of an expert")
        least = 0 if state["learner"] is None else budget
        expert.allowed = require_int(state["allowed"], least, 2**31 - 1, "supports of an expert")
        if started and not isinstance(state["gamma"], str):
            require(0.0 < require_float(state["gamma"], "gamma") < np.inf, "gamma should be above 0")
    expert.model = with_params(expert.model, **{name: state[name] for name in chosen if name != "allowed"})
    expert.learner = None
    if state["learner"] is not None:
        expert.learner = _hypothesis_of(expert.model, state["learner"], expert.width_of(d), dtype)
        if isinstance(expert, KernelExpert) and expert.second_order:
            require(expert.room > 0, "an expert should have room for one more support")


def _check_same_rows(pool: ExpertPool) -> None:
    """Check that experts store the same row for a round: its distances are computed once."""
    for group in pool.same_rows():
        rows: dict[int, bytes] = {}
        for learner in (pool.experts[i].learner for i in group):
            supports, birth = learner.supports, pool.seen - learner.rounds
            slots = supports.order[: supports.m]
            for added, row in zip(supports.rounds[slots].tolist(), supports.rows(slots), strict=True):
                require(
                    rows.setdefault(birth + added, row.tobytes()) == row.tobytes(),
                    "experts should store the same row for a round",
                )


def _hypothesis_of(model: OnlineClassifier, kept: object, d: int, dtype: np.dtype[Any]) -> Any:
    """Return the one hypothesis over d features of a learner with these parameters."""
    parameters = model.get_params()
    found: State = {
        "_started_with": parameters,
        "n_features_in_": d,
        "classes_": [0, 1],
        "_learners": kept,
        "gamma_": parameters.get("gamma"),
        "loss_": parameters.get("loss"),
    }
    hypothesis = model.restored_hypotheses(found)[0]
    require(hypothesis.dtype == dtype, "rows of an expert should have the type of the portfolio's")
    return hypothesis
