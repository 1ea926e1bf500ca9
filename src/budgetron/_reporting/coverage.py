"""The section of a report about prediction sets."""

from __future__ import annotations

from collections.abc import Sequence

from budgetron._evaluation.coverage import coverage_of
from budgetron._evaluation.result import Result
from budgetron._reporting.page import escape, percent, scroll, table

__all__ = ["prediction_sets"]

NOTE = """<p class="soft">Coverage is the share of the rounds whose set of classes contained the label. The
guarantee holds for every stream of this length.</p>"""


def prediction_sets(results: Sequence[Result]) -> str:
    """Return coverage and size of the prediction sets; "" if no learner predicts sets."""
    rows = [
        f'<th scope="row">{escape(result.name)}</th><td>{percent(found["aim"])}</td>'
        f"<td>{percent(found['coverage'])}</td><td>{percent(found['guaranteed'])}</td>"
        f"<td>{found['mean_set_size']:.2f}</td>"
        for result in results
        if (found := coverage_of(result.model)) is not None
    ]
    if not rows:
        return ""
    names = ("Learner", "Aim&nbsp;%", "Coverage&nbsp;%", "Guaranteed&nbsp;%", "Classes per set")
    heads = [f'<th scope="col">{name}</th>' for name in names]
    shown = scroll(table("sets", heads, rows), "Table of the prediction sets")
    return f"<h3>Prediction sets</h3>\n{NOTE}\n{shown}"
