"""Portfolios of `BudgetRegressor` from states that come from outside, such as files, after checking them."""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron._util.checks import (
    MOST_ROUNDS,
    State,
    require,
    require_array,
    require_finite,
    require_int,
    require_names,
)
from budgetron.portfolio._regression import ARRAYS, COMBINER_NOISE, SCORES_KEPT, RegressionPortfolio
from budgetron.portfolio._regression_experts import (
    COMBINERS,
    DESIGNS,
    LAGS,
    MOST_SUPPORTS,
    NOISE,
    restored_kernel,
    restored_linear,
)
from budgetron.portfolio._regression_pool import SCALE_AT, START_AT
from budgetron.portfolio._views import Scaler

__all__ = ["restored_portfolio"]


def restored_portfolio(
    found: object, d: int, dtype: np.dtype[Any], memory: int, level: float
) -> RegressionPortfolio:
    """Return the portfolio with this state, after checking it."""
    # Before a portfolio for d features is made: the number may be any.
    scales = found.get("scales") if isinstance(found, dict) else None
    require_array(scales, np.float64, (d,), "scales")
    portfolio = RegressionPortfolio(d, dtype, memory, level)
    state = require_names(found, set(portfolio.state()), "the portfolio")
    rounds = require_int(state["rounds"], 0, MOST_ROUNDS, "rounds")
    require(state["memory"] == memory and type(state["memory"]) is int, "memory should be the parameter's")
    require(type(state["full"]) is bool, "full should be true or false")
    portfolio.rounds, portfolio.full = rounds, state["full"]
    _check_arrays(state, d, dtype, rounds)
    for name in ARRAYS:
        setattr(portfolio, name, state[name])
    portfolio.scaler = _scaler_of(state["scaler"], d)
    _restore_hypotheses(portfolio, state)
    require(portfolio.nbytes <= memory, "the portfolio should fit in its memory")
    return portfolio


def _check_arrays(state: State, d: int, dtype: np.dtype[Any], rounds: int) -> None:
    n = len(DESIGNS)
    shapes: dict[str, tuple[int, ...]] = {
        "unit": (2,),
        "means": (n, 2),
        "lags": (LAGS,),
        "recent": (n,),
        "totals": (n,),
        "gammas": (n,),
        "scales": (d,),
        "weights": (len(COMBINERS) + 1 + n,),
        "reach": (4,),
        "scores": (SCORES_KEPT,),
        "ordered": (SCORES_KEPT,),
        "tracker": (6,),
    }
    for name, shape in shapes.items():
        values = require_array(state[name], np.float64, shape, name)
        if name not in ("reach", "tracker"):
            require_finite(values, name)
            require(np.all(np.abs(values) < 1e90), f"{name} should be moderate")
    active = require_array(state["active"], np.uint8, (n,), "active")
    require(np.all(active <= 1) and active.any(), "active should be 0 or 1, and one expert active")
    require(state["unit"][1] > 0.0, "the unit of the targets should be above 0")
    require(np.all(state["means"][:, 1] >= 0.0), "weights of means should not be below 0")
    require(np.all(state["recent"] >= 0.0) and np.all(state["totals"] >= 0.0), "losses should not be below 0")
    require(np.all(state["gammas"] >= 0.0) and np.all(state["scales"] > 0.0), "scales should be above 0")
    weights = state["weights"]
    require(np.all(weights > 0.0) and abs(float(weights.sum()) - 1.0) < 1e-6, "weights should sum to 1")
    _check_tracking(state, rounds)
    targets = state["window_targets"]
    require(isinstance(targets, np.ndarray) and targets.ndim == 1, "targets of the window should be an array")
    length = len(targets)
    require(
        length == 0 if rounds >= SCALE_AT else START_AT <= length <= SCALE_AT, "the window has a wrong length"
    )
    require_array(state["window"], dtype, (length, d), "the window")
    for name in ("window", "window_targets"):
        require_array(state[name], state[name].dtype, state[name].shape, name)
        require_finite(state[name], name)
    require(targets.dtype == np.float64, "targets of the window should be float64")


def _check_tracking(state: State, rounds: int) -> None:
    """Check the range of the targets, and what the intervals follow from."""
    low, high, largest, growth = state["reach"]
    tracker = state["tracker"]
    ranges = [(low, high), (tracker[4], tracker[5])]
    if rounds:
        require(all(-1e90 < a <= b < 1e90 for a, b in ranges), "ranges of targets should be finite")
    else:
        require(all((a, b) == (np.inf, -np.inf) for a, b in ranges), "there should be no target yet")
    require(0.0 <= largest < 1e90 and 0.0 <= growth < 1e200, "errors should not be below 0")
    level, count, squares, weight = tracker[:4]
    require(abs(level) < 1e6 and 0.0 <= squares < 1e200 and 0.0 <= weight < 1e6, "the interval is invalid")
    require(count == rounds, "there should be a score for each round")
    stored = min(rounds, SCORES_KEPT)
    own = np.sort(state["scores"][:stored])
    require(np.array_equal(own, state["ordered"][:stored]), "the scores should be sorted")
    require(np.all(own >= 0.0), "scores should not be below 0")


def _scaler_of(found: object, d: int) -> Scaler:
    state = require_names(found, {"mean", "spread", "count"}, "the scaler")
    for name in ("mean", "spread"):
        require_finite(require_array(state[name], np.float64, (d,), name), name)
    require(np.all(state["spread"] >= 0.0), "deviations should not be below 0")
    return Scaler(state["mean"], state["spread"], require_int(state["count"], 0, MOST_ROUNDS, "rows"))


def _restore_hypotheses(portfolio: RegressionPortfolio, state: State) -> None:
    d, dtype, full, n = portfolio.d, portfolio.dtype, portfolio.full, len(DESIGNS)
    for name, length in (("hypotheses", n), ("budgets", n), ("combiners", len(COMBINERS))):
        require(isinstance(state[name], list) and len(state[name]) == length, f"{name} should be {length}")
    for i, design in enumerate(DESIGNS):
        own, active = state["hypotheses"][i], bool(state["active"][i])
        if design.kind == "mean":
            require(own is None and active, "means have no hypothesis")
            continue
        require((own is not None) == active, "active experts should have a hypothesis")
        if own is None:
            continue
        lags = LAGS if design.lags else 0
        if design.kind == "linear":
            portfolio.hypotheses[i] = restored_linear(own, 1 + lags + d, dtype, design.forget, full, NOISE)
            continue
        budget = require_int(state["budgets"][i], 1, MOST_SUPPORTS, "budget")
        gamma = float(state["gammas"][i])
        require(gamma > 0.0, "gamma should be above 0")
        portfolio.hypotheses[i] = restored_kernel(design, budget, gamma, own, d + lags, dtype, full)
    portfolio.combiners = [
        restored_linear(own, n, np.dtype(np.float64), keep, True, COMBINER_NOISE)
        for own, keep in zip(state["combiners"], COMBINERS, strict=True)
    ]
