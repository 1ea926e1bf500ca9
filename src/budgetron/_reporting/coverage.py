"""The section of a report about prediction sets."""

from __future__ import annotations

from collections.abc import Sequence

from budgetron._evaluation.result import Result
from budgetron._reporting.page import escape, percent, scroll, table
from budgetron.bounds import conformal_misses
from budgetron.conformal import ConformalClassifier

__all__ = ["prediction_sets"]


def prediction_sets(results: Sequence[Result]) -> str:
    """Return coverage and size of the prediction sets; "" if no learner predicts sets."""
    rows = []
    for result in results:
        model = result.model
        if not isinstance(model, ConformalClassifier):
            continue
        rounds = int(model.counts_[0])
        least = max(0.0, 1.0 - conformal_misses(rounds, model.coverage, model.step) / max(rounds, 1))
        rows.append(
            f'<th scope="row">{escape(result.name)}</th><td>{percent(model.coverage)}</td>'
            f"<td>{percent(model.coverage_)}</td><td>{percent(least)}</td><td>{model.mean_set_size_:.2f}</td>"
        )
    if not rows:
        return ""
    names = ("Learner", "Aim&nbsp;%", "Coverage&nbsp;%", "Guaranteed&nbsp;%", "Classes per set")
    heads = [f'<th scope="col">{name}</th>' for name in names]
    note = (
        '<p class="soft">The share of the rounds whose set of classes contained the label. The guarantee '
        "holds for every stream of this length.</p>"
    )
    shown = scroll(table("sets", heads, rows), "Table of the prediction sets")
    return f"<h3>Prediction sets</h3>\n{note}{shown}"
