"""A portfolio as plain tables and arrays, and back; nothing that is read is believed (see `_file_states`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron._base.part_state import check_generator_state
from budgetron._util.checks import (
    State,
    require,
    require_array,
    require_finite,
    require_float,
    require_int,
    require_names,
)
from budgetron.linear import AROW
from budgetron.portfolio._experts import ACCOUNT, CHOSEN, WIDE, Expert, Plan, Scaler, changed
from budgetron.portfolio._portfolio import LEAST, RESERVOIR, Portfolio

__all__ = ["portfolio_of"]

COUNTS = ("rounds", "seen", "mistakes", "memory")


def portfolio_of(state: Any, d: int, dtype: np.dtype[Any], plan: Plan) -> Portfolio:
    """The portfolio that has this state."""
    expected = {
        *COUNTS,
        "labels",
        "reservoir",
        "first_labels",
        "medians",
        "bits",
        "scaler",
        "experts",
        "combiner",
    }
    if isinstance(state, dict):
        state = {"sign": 1.0} | state  # which some were saved without
    require_names(state, expected | {"totals", "losses", "loss", "sign"}, "the portfolio")
    seen, memory = (
        require_int(state["seen"], 0, 2**62, "seen"),
        require_int(state["memory"], 1, 2**62, "memory"),
    )
    _check_width(state, d)
    made = Portfolio(d, dtype, memory, np.random.Generator(np.random.PCG64(0)), plan)
    made.rounds, made.seen = require_int(state["rounds"], seen, 2**62, "rounds"), seen
    made.mistakes = require_int(state["mistakes"], 0, seen, "mistakes")
    made.sign = require_float(state["sign"], "sign")
    require(made.sign in (-1.0, 1.0), "sign should be 1 or -1")
    made.labels = require_array(state["labels"], np.float64, made.labels.shape, "labels of late")
    require(np.all(np.abs(made.labels) <= 1.0), "labels of late should lie between -1 and 1")
    rows = state["reservoir"]
    require(isinstance(rows, np.ndarray) and rows.ndim == 2, "the reservoir should have rows")
    # It is as large as it was at first, whatever the features and the memory became
    least, most = (0, 0) if made.scaler is None else (LEAST, RESERVOIR)
    room = require_int(len(rows), least, most, "rows of the reservoir")
    require_finite(require_array(rows, dtype, (room, d), "the reservoir"), "the reservoir")
    begun = seen >= room
    made.reservoir = rows
    made.first_labels = require_array(
        state["first_labels"], np.float64, (0 if begun else room,), "first labels"
    )
    made.medians = require_array(state["medians"], np.float64, (2,), "medians")
    require(np.all(np.isfinite(made.medians) & (made.medians >= 0.0)), "medians should not be below 0")
    require(not begun or made.scaler is None or np.all(made.medians > 0.0), "medians should be above 0")
    check_generator_state(state["bits"])
    made.generator.bit_generator.state = state["bits"]
    if made.scaler is not None:
        made.scaler = _scaler(state["scaler"], d, seen)
    else:
        require(state["scaler"] is None, "there should be no scaler")
    require(
        isinstance(state["experts"], list) and len(state["experts"]) == len(made.experts),
        "experts are missing or too many",
    )
    for expert, told in zip(made.experts, state["experts"], strict=True):
        _restore(expert, told, d, dtype, seen, begun)
    _check_rows(made)
    n = len(made.experts) + 1
    features = n + len(made.labels)
    made.combiner = _one(AROW(), state["combiner"], features, np.dtype(np.float64))
    totals = require_array(state["totals"], np.float64, (n,), "totals of the experts")
    losses = require_array(state["losses"], np.float64, (n,), "losses of the experts")
    for values in (totals, losses):
        require(np.all((values >= 0.0) & (values <= seen)), "losses should be those of rounds played")
    loss = require_float(state["loss"], "loss")
    require(0.0 <= loss <= seen, "loss should be that of rounds played")
    made.weights.set_totals(totals, losses, loss, seen)
    require(made.promised <= memory, "a portfolio should keep to its memory")
    return made


def _check_width(state: State, d: int) -> None:
    """Whether the state is of d features, before room is made for so many."""
    require(isinstance(state["experts"], list), "there should be experts")
    for expert in state["experts"]:
        learner = expert.get("learner") if isinstance(expert, dict) else None
        states = learner.get("states") if isinstance(learner, dict) else None
        if isinstance(states, list) and states and isinstance(states[0], dict) and "weights" in states[0]:
            require_array(states[0]["weights"], np.float64, (d + (d <= WIDE),), "weights")
            return
    raise ValueError("there should be an expert without a kernel")


def _scaler(state: Any, d: int, seen: int) -> Scaler:
    require_names(state, {"mean", "spread"}, "the scaler")
    mean = require_array(state["mean"], np.float64, (d,), "means")
    spread = require_array(state["spread"], np.float64, (d,), "spreads")
    for values in (mean, spread):
        require_finite(values, "means and spreads")
    require(np.all(spread >= 0.0), "spreads should not be below 0")
    return Scaler(mean, spread, seen)


def _restore(expert: Expert, state: Any, d: int, dtype: np.dtype[Any], seen: int, begun: bool) -> None:
    chosen = [name for name in CHOSEN if name in expert.model.get_params()]
    expected = {*ACCOUNT, *chosen, "ended", "learner"}
    if expert.kernel and isinstance(state, dict):
        expected.add("allowed")
        state = {"allowed": state.get("budget")} | state  # which some were saved without
    require_names(state, expected, "an expert")
    expert.rounds = require_int(state["rounds"], 0, seen, "rounds of an expert")
    expert.mistakes = require_int(state["mistakes"], 0, expert.rounds, "mistakes of an expert")
    expert.late = require_int(state["late"], 0, expert.mistakes, "late mistakes of an expert")
    require(type(state["ended"]) is bool, "ended should be true or false")
    expert.ended = state["ended"]
    require(
        (state["learner"] is None) == (expert.ended or (expert.kernel and not begun)),
        "an expert is missing or too many",
    )
    if expert.kernel:
        budget = require_int(state["budget"], 1, 2**31 - 1, "budget of an expert")
        least = 0 if state["learner"] is None else budget
        expert.allowed = require_int(state["allowed"], least, 2**31 - 1, "supports of an expert")
        if begun and not isinstance(state["gamma"], str):
            require(0.0 < require_float(state["gamma"], "gamma") < np.inf, "gamma should be above 0")
    expert.model = changed(expert.model, {name: state[name] for name in chosen})
    expert.learner = None
    if state["learner"] is not None:
        width = d if expert.kernel or d > WIDE else d + 1
        expert.learner = _one(expert.model, state["learner"], width, dtype)
        require(not expert.second_order or expert.room > 0, "an expert should have room for a support more")


def _check_rows(portfolio: Portfolio) -> None:
    """Whether experts that keep the row of a round keep the same one: its distances are computed once."""
    for alike in portfolio.alike():
        rows: dict[int, bytes] = {}
        for learner in (portfolio.experts[i].learner for i in alike):
            supports, birth = learner.supports, portfolio.seen - learner.rounds
            slots = supports.order[: supports.m]
            for born, row in zip(supports.rounds[slots].tolist(), supports.rows(slots), strict=True):
                require(
                    rows.setdefault(birth + born, row.tobytes()) == row.tobytes(),
                    "rows of a round should be one",
                )


def _one(model: Any, kept: Any, d: int, dtype: np.dtype[Any]) -> Any:
    """The one hypothesis of a learner with these parameters."""
    found: State = {
        "_started_with": model.get_params(),
        "n_features_in_": d,
        "classes_": [0, 1],
        "_learners": kept,
    }
    if hasattr(model, "gamma"):
        found["gamma_"] = model.gamma
    made = model.restored_hypotheses(found)[0]
    require(made.row.dtype == dtype, "rows of an expert should be those of the portfolio")
    return made
