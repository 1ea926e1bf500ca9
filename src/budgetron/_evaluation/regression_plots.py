"""Plots of the results of regressors, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from budgetron._evaluation.plots import Numbers, draw_lines, over_memory, over_time, style
from budgetron._evaluation.regression_result import RegressionResult
from budgetron._util.figures import finish_axis, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "comparison",
    "coverages",
    "errors",
    "residuals",
    "residuals_by_prediction",
    "time_trade_off",
    "trade_off",
    "window_errors",
]

Results = Sequence[RegressionResult]


def errors(axis: Axes, results: Results, numbers: Numbers = None) -> None:
    """Plot the RMSE of all rounds so far; `numbers` are the learners' numbers in `style`."""
    curves = [(result.curve["round"], result.curve["rmse"]) for result in results]
    draw_lines(axis, results, curves, numbers)
    # Scale the axis without the first rounds, whose errors may be much larger.
    high = max((float(values[len(values) // 20 :].max()) for _, values in curves if len(values)), default=1.0)
    axis.set(ylabel="RMSE", ylim=(0, 1.1 * high or 1.0))
    finish_axis(axis)


def window_errors(axis: Axes, results: Results, numbers: Numbers = None) -> None:
    """Plot the RMSE of the last `window` rounds over rounds."""
    draw_lines(axis, results, [_full_windows(result, "window_rmse") for result in results], numbers)
    axis.set(ylabel=f"RMSE of the last {results[0].window:,}", ylim=(0, None))
    finish_axis(axis)


def coverages(axis: Axes, results: Results, numbers: Numbers = None) -> None:
    """Plot the coverage of the intervals in the last `window` rounds, and the level that they should have.

    Learners without intervals have no curve.
    """
    curves = [_full_windows(result, "window_coverage") for result in results]
    draw_lines(axis, results, [(rounds, 100 * values) for rounds, values in curves], numbers)
    for level in sorted({result.level for result in results if result.level is not None}):
        axis.axhline(100 * level, color="#000000", lw=1, linestyle=":")
    known = np.concatenate([values[~np.isnan(values)] for _, values in curves])
    lowest = 100 * float(known.min(initial=1.0))
    axis.set(ylabel="targets in their intervals (%)", ylim=(max(0.0, min(lowest - 2, 80)), 100.5))
    finish_axis(axis)


def residuals(axis: Axes, results: Results, numbers: Numbers = None) -> None:
    """Plot target minus prediction over rounds."""
    _dots(axis, results, "round", numbers)
    finish_axis(axis)


def residuals_by_prediction(axis: Axes, results: Results, numbers: Numbers = None) -> None:
    """Plot target minus prediction over the prediction."""
    _dots(axis, results, "prediction", numbers)
    finish_axis(axis, "prediction")


def _dots(axis: Axes, results: Results, x: str, numbers: Numbers) -> None:
    largest = 0.0
    for i, result in zip(numbers or range(len(results)), results, strict=True):
        values = result.curve["residual"]
        axis.plot(result.curve[x], values, ".", ms=4, alpha=0.6, color=style(i)["color"], label=result.name)
        # Scale the axis without the first rounds, whose errors may be much larger.
        largest = max(largest, float(np.abs(values[len(values) // 20 :]).max(initial=0.0)))
    axis.axhline(0.0, color="#000000", lw=1)
    axis.set(ylabel="target - prediction", ylim=(-1.1 * largest or -1.0, 1.1 * largest or 1.0))
    if x == "prediction" and results and len(results[0].curve["round"]):
        late = np.concatenate([r.curve[x][len(r.curve[x]) // 20 :] for r in results])
        margin = 0.03 * float(np.ptp(late)) or 1.0
        axis.set_xlim(float(late.min()) - margin, float(late.max()) + margin)


def trade_off(axis: Axes, results: Results, numbers: Numbers = None) -> None:
    """Plot the RMSE over bytes at the end, one point per learner of known size."""
    over_memory(axis, results, [result.rmse for result in results], numbers)
    axis.set_ylabel("RMSE")


def time_trade_off(axis: Axes, results: Results, numbers: Numbers = None) -> None:
    """Plot the RMSE over the time of a round, one point per learner."""
    over_time(axis, results, [result.rmse for result in results], numbers)
    axis.set_ylabel("RMSE")


def comparison(results: Results) -> Figure:
    """Plot the errors of all learners over rounds, time and memory, and the residuals of the best."""
    figure, axes = new_figure(11, 7.5, 2, 2)
    best = min(range(len(results)), key=lambda i: results[i].loss)
    errors(axes[0], results)
    residuals(axes[1], [results[best]], [best])
    axes[1].set_title(f"residuals of {results[best].name}", fontsize="medium")
    time_trade_off(axes[2], results)
    trade_off(axes[3], results)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _full_windows(result: RegressionResult, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rounds and values of a curve, from the first full window on."""
    kept = result.curve["round"] >= min(result.window, result.rounds)
    return result.curve["round"][kept], result.curve[name][kept]
