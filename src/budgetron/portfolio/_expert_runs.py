"""The theorems of single experts of a portfolio, as far as they have one."""

from __future__ import annotations

import numpy as np

from budgetron._base.images import Removal, learned_rounds, linear_part, row_images, span_images
from budgetron._base.theorems import Images, ImageTheorem, Run, VotingExpert
from budgetron._util.types import Floats, Ints
from budgetron.bounds import Check, assume
from budgetron.portfolio._experts import NOISE, PRIORS, Expert
from budgetron.portfolio._portfolio import Portfolio
from budgetron.portfolio._recorded import Period, recorded_periods

__all__ = ["THEOREMS_OF_LOSSES", "voting_experts"]

# The theorems of an expert, by its loss.
THEOREMS_OF_LOSSES = {
    "hinge": ("second_order", "second_order_rows"),
    "logistic": ("second_order_logistic",),
}


def voting_experts(portfolio: Portfolio, run: Run, name: str) -> list[VotingExpert]:
    """Return the experts that the theorem of this name is about.

    The rounds of an expert are those in which it took part with that loss, without forgetting and with
    covariances of all coordinates. Its losses in other rounds are known: it votes as the first combiner.
    """
    weights = run.ledger("weight")
    unusual = weights[weights != 1.0]
    # An error even without `check`: the experts' runs are repeated without weights.
    assume(True, not len(unusual), "a weight of 1 for all rows", unusual[0] if len(unusual) else 1.0)
    found = []
    losses = run.ledger("expert_losses")[:, portfolio.combination.n_combiners :]
    rows = np.ascontiguousarray(run.X.astype(portfolio.dtype))
    periods = recorded_periods(portfolio, rows, run.y) if portfolio.pool.scaler is not None else []
    for place, of_expert in enumerate(periods):
        runs, known = [], losses[:, place].copy()
        for period in of_expert:
            expert = period.expert
            if name not in THEOREMS_OF_LOSSES[expert.loss] or expert.design.forget < 1.0 or not expert.full:
                continue
            own, removals, supports = period.repeated(run.trace.classes)
            wrong = (own.trace.codes != (own.y > 0.0))[period.replayed :]
            if np.array_equal(wrong, losses[period.rounds, place] == 1.0):
                runs.append((own, _theorem(name, expert, period, removals, supports), period.replayed))
                known[period.rounds] = 0.0
        if runs:
            found.append(VotingExpert(of_expert[0].expert.design.name, float(known.sum()), runs))
    if not found:
        raise ValueError(
            f"no expert of this model has the theorem {name}: there must be one with its loss that does not "
            "forget, has covariances of all features, and whose rounds can be repeated from the stream"
        )
    return found


def _theorem(
    name: str, expert: Expert, period: Period, removals: list[Removal], supports: Ints
) -> ImageTheorem:
    linear, single = expert.design.kind == "linear", period.rows[0].dtype == np.float32

    def images(run: Run, more: Floats, check: Check) -> Images:
        learned = learned_rounds(run, NOISE, expert.loss)
        scale = 1.0 if linear else float(np.sqrt(expert.gamma))
        fixed = linear_part(run, scale if expert.linear else None)
        if name == "second_order_rows":
            return row_images(run, learned, supports, len(removals), fixed, more, single)
        return span_images(run, learned, supports, removals, fixed)

    return ImageTheorem(name, images, NOISE, PRIORS[expert.loss])
