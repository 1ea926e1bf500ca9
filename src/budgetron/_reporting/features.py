"""The section of a report on the features that matter most, for learners that learn this."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from budgetron._evaluation.run_result import RunResult
from budgetron._reporting.page import escape, percent, scroll, table
from budgetron._util.types import Floats

__all__ = ["relevant_features"]

# The largest number of features in a table.
MOST_FEATURES = 12

EXPLAINED = """<p class="soft">By the feature scales that were learned last, from a window of recent rows.
The importance of a feature is proportional to its squared scale; all importances sum to 100&nbsp;%.</p>"""


def relevant_features(results: Sequence[RunResult], names: Sequence[str] | None) -> str:
    """Return the most important features of each learner that has learned feature scales, or nothing.

    Without `names`, and if the learner has none, features are numbered from 0.
    """
    shown = [(result, found) for result in results if (found := _importances(result)) is not None]
    if not shown:
        return ""
    parts = ["<h3>Most relevant features</h3>", EXPLAINED]
    for i, (result, importances) in enumerate(shown):
        content = _table(result, importances, names)
        if i == 0:
            parts.append(f"<h4>{escape(result.name)}</h4>\n{content}")
        else:
            parts.append(f"<details><summary>{escape(result.name)}</summary>\n{content}\n</details>")
    return "\n".join(parts)


def _importances(result: RunResult) -> Floats | None:
    """Return the importances of the features; None if there are none, or all are equal."""
    # A foreign estimator need not have them. Before scales are learned, all are equal.
    found = getattr(result.model, "feature_importances_", None)
    if found is None:
        return None
    importances = np.asarray(found, np.float64)
    return importances if len(importances) > 1 and np.ptp(importances) > 0.0 else None


def _table(result: RunResult, importances: Floats, names: Sequence[str] | None) -> str:
    names = getattr(result.model, "feature_names_in_", names)
    if names is None or len(names) != len(importances):
        names = [f"feature {i}" for i in range(len(importances))]
    order = np.argsort(-importances, kind="stable")[:MOST_FEATURES]
    rows = []
    for place in order.tolist():
        width = 100.0 * importances[place] / importances[order[0]]
        bar = f'<div class="bar" aria-hidden="true"><i style="width:{width:.1f}%"></i></div>'
        rows.append(
            f'<th scope="row">{escape(names[place])}</th><td>{bar}</td><td>{percent(importances[place])}</td>'
        )
    heads = ['<th scope="col">Feature</th>', "<td></td>", '<th scope="col">Importance %</th>']
    shown = scroll(table("features", heads, rows), f"Most relevant features of {result.name}")
    rest = len(importances) - len(order)
    if not rest:
        return shown
    others = "The other feature has" if rest == 1 else f"The other {rest:,} features together have"
    left = percent(float(importances.sum() - importances[order].sum()))
    return f'{shown}\n<p class="soft">{others} {left}&nbsp;%.</p>'
