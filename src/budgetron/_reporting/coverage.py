"""The section of a report about prediction sets, or prediction intervals."""

from __future__ import annotations

from collections.abc import Sequence

from budgetron._evaluation.coverage import coverage_of, size_text
from budgetron._evaluation.regression_result import RegressionResult
from budgetron._evaluation.result import Result
from budgetron._reporting.page import escape, percent, scroll, table

__all__ = ["prediction_sets"]

NOTE = """<p class="soft">Coverage is the share of the rounds whose {kind} contained the {label}. The
guarantee holds for every stream of this length.</p>"""


def prediction_sets(results: Sequence[Result] | Sequence[RegressionResult]) -> str:
    """Return coverage and size of the prediction sets or intervals; "" if no learner has them."""
    rows = [
        f'<th scope="row">{escape(result.name)}</th><td>{percent(found["aim"])}</td>'
        f"<td>{percent(found['coverage'])}</td><td>{percent(found['guaranteed'])}</td>"
        f"<td>{size_text(result, found)}</td>"
        for result in results
        if (found := coverage_of(result.model)) is not None
    ]
    if not rows:
        return ""
    numbers = isinstance(results[0], RegressionResult)
    heading, kind, label, size = (
        ("Prediction intervals", "interval", "target", "Median width")
        if numbers
        else ("Prediction sets", "set of classes", "label", "Classes per set")
    )
    names = ("Learner", "Aim&nbsp;%", "Coverage&nbsp;%", "Guaranteed&nbsp;%", size)
    heads = [f'<th scope="col">{name}</th>' for name in names]
    shown = scroll(table("sets", heads, rows), f"Table of the {heading.lower()}")
    return f"<h3>{heading}</h3>\n{NOTE.format(kind=kind, label=label)}\n{shown}"
