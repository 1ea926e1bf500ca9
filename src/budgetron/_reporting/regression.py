"""The sections of a report about regressors: errors, residuals, and the coverage of intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from budgetron._evaluation import plots
from budgetron._evaluation import regression_plots as drawings
from budgetron._evaluation.regression_comparison import RegressionComparison
from budgetron._evaluation.regression_result import RegressionResult, error_text
from budgetron._reporting.page import escape, percent, rounds_text
from budgetron._reporting.sections import COSTS, Chart, Figure, figures, round_by_round, table_of_learners
from budgetron._util.units import format_bytes

__all__ = ["READING", "charts", "learners", "residuals", "summary"]

# The learners whose residuals are shown
MOST_RESIDUALS = 4

READING = """<p>Every learner sees the rows one by one. It predicts a row, then sees its target, then learns.
So no row is predicted after it was learned. RMSE is the root of the mean squared error, and MAE the mean
absolute error, both in the unit of the targets. A residual is the target minus the prediction. An interval is
made before the target is seen; coverage is the share of the targets inside of their intervals. The interval
width is the median of the recent rounds. Supports and bytes are those of the model at the end. Rounds per
second include predicting and learning.</p>"""


def _share(value: float | None) -> str:
    return "-" if value is None else percent(value)


COLUMNS = (
    Figure("RMSE", "rmse", error_text, min),
    Figure("Last {}", "window_rmse", error_text, min),
    Figure("MAE", "mae", error_text, min),
    Figure("Coverage&nbsp;%", "coverage", _share, None),
    Figure("Interval width", "window_width", error_text, None),
    *COSTS,
)


def summary(comparison: RegressionComparison, results: Sequence[RegressionResult]) -> str:
    """Return what the report says first; results are sorted by error."""
    best = results[0]
    claim = f"<strong>{escape(best.name)}</strong> "
    if len(results) > 1:
        claim += f"has the smallest error of {len(results)} learners: "
    claim += f"{'RMSE' if len(results) > 1 else 'has an RMSE of'} <strong>{error_text(best.rmse)}</strong> "
    claim += f"in {rounds_text(best.rounds)}"
    contents = [f"{best.supports:,} support{'' if best.supports == 1 else 's'}"] if best.supports else []
    contents += [format_bytes(best.nbytes)] if best.nbytes else []
    claim += f", with {' in '.join(contents)}." if contents else "."
    if best.coverage is not None:
        wanted = "" if best.level is None else f", and should contain {percent(best.level)} %"
        claim += f" Its intervals contain <strong>{percent(best.coverage)} %</strong> of the targets{wanted}."
    mean, last = (error_text(best.baselines[name]) for name in ("mean", "last"))
    facts = f"Predicting the mean of the targets so far has RMSE {mean}, and predicting the last one {last}."
    if comparison.delay:
        facts += f" Targets arrived {rounds_text(comparison.delay)} late."
    return f'<div class="answer"><p>{claim}</p>\n<p>{facts}</p></div>'


def learners(results: Sequence[RegressionResult], numbers: Mapping[str, int]) -> str:
    """Return the table of all figures, with the best of each column marked."""
    worse = [result.name for result in results if result.rmse > min(result.baselines.values())]
    words = "worse than predicting the mean of the targets so far, or the last one"
    columns = [c for c in COLUMNS if any(getattr(result, c.name) is not None for result in results)]
    return table_of_learners(results, numbers, columns, worse, words)


def charts(results: Sequence[RegressionResult], numbers: Mapping[str, int], ident: str) -> str:
    """Return the plots of errors, coverage and supports over rounds, and of errors over time and memory."""
    window, rounds = results[0].window, results[0].rounds
    ends = {r.name: error_text(r.rmse) for r in results}
    drawn = [Chart(drawings.errors, "RMSE", "of all rounds so far", ends)]
    if rounds > window:
        recent = {r.name: error_text(r.window_rmse) for r in results}
        heading = f"RMSE of the last {window:,} rounds"
        drawn.append(Chart(drawings.window_errors, heading, "recent error of each learner", recent))
    if any(r.coverage is not None for r in results):
        shares = {r.name: f"{_share(r.coverage)} %" for r in results if r.coverage is not None}
        recent_rounds = f"in the last {min(window, rounds):,} rounds; the dotted line is the aim"
        heading = "Targets inside of their intervals, %"
        drawn.append(Chart(drawings.coverages, heading, recent_rounds, shares))
    if any(r.supports for r in results):
        stored = {r.name: f"{r.supports:,}" for r in results}
        drawn.append(Chart(plots.supports, "Supports", "rows stored after each round", stored))
    if any(r.seconds for r in results):
        rates = {r.name: f"{error_text(r.rmse)} with {r.rounds_per_second:,.0f} rounds/s" for r in results}
        nearer = "nearer to the lower left is better"
        drawn.append(Chart(drawings.time_trade_off, "RMSE against time", nearer, rates))
    if any(r.nbytes for r in results):
        sizes = {r.name: f"{error_text(r.rmse)} with {r.nbytes:,} bytes" for r in results if r.nbytes}
        nearer = "nearer to the lower left is better"
        drawn.append(Chart(drawings.trade_off, "RMSE against memory", nearer, sizes))
    return round_by_round(drawn, results, numbers, ident)


def residuals(results: Sequence[RegressionResult], numbers: Mapping[str, int], ident: str) -> str:
    """Return plots of the residuals of the learners with the smallest errors."""
    parts = ["<h3>Residuals</h3>"]
    for i, result in enumerate(results[:MOST_RESIDUALS]):
        end = {result.name: f"RMSE {error_text(result.rmse)}"}
        sample = "" if len(result.curve["round"]) == result.rounds else ", at evenly spaced rounds"
        drawn = [
            Chart(drawings.residuals, "Target minus prediction", f"over rounds{sample}", end),
            Chart(drawings.residuals_by_prediction, "Target minus prediction", "over predictions", end),
        ]
        head = f"{escape(result.name)}, RMSE {error_text(result.rmse)}"
        content = figures(drawn, [result], numbers, f"{ident}-residuals-{i + 1}")
        if i == 0:
            parts.append(f"<h4>{head}</h4>\n{content}")
        else:
            parts.append(f"<details><summary>{head}</summary>\n{content}\n</details>")
    if len(results) > MOST_RESIDUALS:
        parts.append(f'<p class="soft">The {MOST_RESIDUALS} learners with the smallest errors are shown.</p>')
    return "\n".join(parts)
