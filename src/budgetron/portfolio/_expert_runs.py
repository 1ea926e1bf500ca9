"""Runs of single experts, repeated from the stream: what their own theorems need.

A portfolio records which experts were wrong in each round, but not the quantities of their proofs. The linear
second-order experts take part from the first round to the last, so that their rounds can be repeated alone.
"""

from __future__ import annotations

import numpy as np

from budgetron._base.batches import ledger_columns
from budgetron._base.images import linear_images
from budgetron._base.theorems import Images, ImageTheorem, Run
from budgetron._base.trace import Trace
from budgetron._util.types import Floats
from budgetron.bounds import Check
from budgetron.portfolio._experts import PRIORS, Expert
from budgetron.portfolio._portfolio import Portfolio
from budgetron.portfolio._views import Scaler, Views

__all__ = ["linear_expert_runs"]


def linear_expert_runs(portfolio: Portfolio, run: Run) -> list[tuple[str, Run, ImageTheorem]]:
    """Return the name, the run and the theorem of each linear second-order expert that has one.

    An expert that forgets, or without covariances of the features, has none.
    """
    combination, pool = portfolio.combination, portfolio.pool
    losses = run.ledger("expert_losses")[:, combination.n_combiners :]
    rows = run.X.astype(portfolio.dtype)
    scaler = Scaler.for_features(portfolio.n_features)
    views = Views(rows, None if pool.scaler is None else scaler.advance(rows))
    found = []
    for place, expert in enumerate(pool.experts):
        linear = expert.design.kind == "linear" and expert.learner is not None
        if linear and expert.full and expert.design.forget == 1.0 and pool.scaler is not None:
            repeated = _repeated(expert, expert.rows(views), run)
            if np.array_equal(repeated.trace.codes != (run.y > 0.0), losses[:, place] == 1.0):
                found.append((expert.design.name, repeated, _theorem(PRIORS[expert.loss])))
    if not found:
        raise ValueError(
            "no expert of this model has a theorem of its own that could be evaluated: there must be a "
            "linear second-order expert from the first round to the last, with covariances of all features"
        )
    return found


def _repeated(expert: Expert, rows: Floats, run: Run) -> Run:
    """Let a new expert of the same kind learn the stream; return its run on rows with a constant feature."""
    learner = expert.new_learner(rows[0], 1, expert.budget)
    n, names = len(rows), learner.ledger
    margins, sizes, ledger = np.empty(n), np.empty(n, np.int64), np.empty((n, len(names)))
    learner.learn(np.ascontiguousarray(rows), run.y, margins, sizes, ledger)
    trace = Trace(
        margins=margins,
        mistakes=run.y * margins <= 0.0,
        support_sizes=sizes,
        codes=(margins > 0.0).astype(np.intp),
        classes=run.trace.classes,
        ledger=ledger_columns(names, ledger[None]),
    )
    features = np.hstack([np.ones((n, 1)), rows.astype(np.float64)])
    return Run(trace, features, run.y, run.kernel, run.radius)


def _theorem(prior: float) -> ImageTheorem:
    def images(run: Run, more: Floats, check: Check) -> Images:
        return linear_images(run, 1.0, prior, diagonal=False)

    return ImageTheorem("second_order", images, 1.0, prior)
