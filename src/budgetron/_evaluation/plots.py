"""Plots of results, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from budgetron._evaluation.result import Result
from budgetron._evaluation.run_result import RunResult
from budgetron._util.figures import finish_axis, new_figure
from budgetron._util.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

__all__ = [
    "COLOURS",
    "MARKERS",
    "Curve",
    "Numbers",
    "comparison",
    "draw_lines",
    "errors",
    "over_memory",
    "over_time",
    "style",
    "supports",
    "time_trade_off",
    "trade_off",
    "window_errors",
]

# The palette of Okabe and Ito, which colour-blind readers can distinguish. Later learners reuse it with other
# line styles.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
STYLES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D")

Curve = tuple[NDArray[Any], NDArray[Any]]
Numbers = Sequence[int] | None


class LineStyle(TypedDict):
    """Arguments of `Axes.plot`."""

    color: str
    linestyle: str
    lw: float


def style(i: int) -> LineStyle:
    """Return the line style of learner number i, the same in every plot."""
    return {
        "color": COLOURS[i % len(COLOURS)],
        "linestyle": STYLES[i // len(COLOURS) % len(STYLES)],
        "lw": 1.6,
    }


def errors(axis: Axes, results: Sequence[Result], numbers: Numbers = None) -> None:
    """Plot the error rate of all rounds so far; `numbers` are the learners' numbers in `style`."""
    curves = [(r.curve["round"], 100 * r.curve["mistakes"] / r.curve["round"]) for r in results]
    draw_lines(axis, results, curves, numbers)
    # Scale the axis without the first rounds, where the rate jumps between 0 and 100.
    high = max((values[len(values) // 20 :].max() for _, values in curves if len(values)), default=100.0)
    axis.set(ylabel="online error (%)", ylim=(0, min(1.1 * high + 0.1, 102)))
    finish_axis(axis)


def window_errors(axis: Axes, results: Sequence[Result], numbers: Numbers = None) -> None:
    """Plot the error rate of the last `window` rounds over rounds."""
    full = [result.curve["round"] >= min(result.window, result.rounds) for result in results]
    curves = [
        (result.curve["round"][kept], 100 * result.curve["window_error"][kept])
        for result, kept in zip(results, full, strict=True)
    ]
    draw_lines(axis, results, curves, numbers)
    axis.set(ylabel=f"error of the last {results[0].window:,} (%)", ylim=(0, None))
    finish_axis(axis)


def supports(axis: Axes, results: Sequence[RunResult], numbers: Numbers = None) -> None:
    """Plot the number of supports over rounds."""
    sizes = np.concatenate([result.curve["supports"] for result in results])
    draw_lines(
        axis, results, [(result.curve["round"], result.curve["supports"]) for result in results], numbers
    )
    axis.set(ylabel="supports", ylim=(0, None))
    if sizes.size and sizes.max() > 20 * max(1, min(int(r.supports) or 1 for r in results)):
        axis.set(yscale="log", ylim=(1, None))
    finish_axis(axis)


def trade_off(axis: Axes, results: Sequence[Result], numbers: Numbers = None) -> None:
    """Plot the error rate of all rounds over bytes at the end, one point per learner of known size."""
    over_memory(axis, results, _percentages(results), numbers)
    _finish_percentages(axis)


def time_trade_off(axis: Axes, results: Sequence[Result], numbers: Numbers = None) -> None:
    """Plot the error rate of all rounds over the time of a round, one point per learner."""
    over_time(axis, results, _percentages(results), numbers)
    _finish_percentages(axis)


def _percentages(results: Sequence[Result]) -> list[float]:
    return [100 * result.error_rate for result in results]


def _finish_percentages(axis: Axes) -> None:
    axis.set(ylabel="online error (%)", ylim=(0, min(axis.get_ylim()[1] + 0.1, 102)))


def over_memory(
    axis: Axes, results: Sequence[RunResult], errors: Sequence[float], numbers: Numbers = None
) -> None:
    """Plot errors over bytes at the end, one point per learner of known size."""
    _points(axis, results, [float(result.nbytes) for result in results], errors, numbers)
    axis.xaxis.set_major_locator(_log_ticks(base=2.0))  # 1 kB is 2^10 bytes
    axis.xaxis.set_major_formatter(lambda value, _: format_bytes(round(value)))
    finish_axis(axis, "memory at the end")


def over_time(
    axis: Axes, results: Sequence[RunResult], errors: Sequence[float], numbers: Numbers = None
) -> None:
    """Plot errors over the time of a round, one point per learner."""
    times = [1e6 * result.seconds / max(1, result.rounds) for result in results]
    _points(axis, results, times, errors, numbers)
    known = [time for time in times if time] or [1.0]
    span = max(known) / min(known)
    subs = (1.0,) if span > 1000 else (1.0, 3.0) if span > 30 else (1.0, 2.0, 5.0)
    axis.xaxis.set_major_locator(_log_ticks(subs=subs))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    finish_axis(axis, "microseconds per round")


def _points(
    axis: Axes,
    results: Sequence[RunResult],
    costs: Sequence[float],
    errors: Sequence[float],
    numbers: Numbers,
) -> None:
    """Plot errors over costs above 0, on a logarithmic axis."""
    for i, result, cost, error in zip(numbers or range(len(results)), results, costs, errors, strict=True):
        marker = MARKERS[i // len(COLOURS) % len(MARKERS)]
        x, y = ([cost], [error]) if cost else ([], [])
        axis.plot(x, y, marker, color=style(i)["color"], ms=9, alpha=0.85, label=result.name)
    known = [cost for cost in costs if cost] or [1.0]
    axis.set(xscale="log", xlim=(min(known) / 1.6, 1.6 * max(known)))
    shown = [error for error, cost in zip(errors, costs, strict=True) if cost]
    axis.set_ylim(0, 1.1 * max(shown, default=0.0) or 1.0)
    axis.xaxis.set_minor_formatter(lambda value, _: "")


def _log_ticks(base: float = 10.0, subs: Sequence[float] = (1.0,)) -> LogLocator:
    from matplotlib.ticker import LogLocator

    return LogLocator(base=base, subs=subs, numticks=8)


def comparison(results: Sequence[Result]) -> Figure:
    """Plot error and supports over rounds, and error over time and memory, of all learners."""
    figure, axes = new_figure(11, 7.5, 2, 2)
    errors(axes[0], results)
    supports(axes[1], results)
    time_trade_off(axes[2], results)
    trade_off(axes[3], results)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def draw_lines(axis: Axes, results: Sequence[RunResult], curves: Sequence[Curve], numbers: Numbers) -> None:
    """Draw a line for each learner."""
    for i, result, (x, y) in zip(numbers or range(len(results)), results, curves, strict=True):
        (line,) = axis.plot(x, y, label=result.name, **style(i))
        if len(x) == 1:  # a line of one point is invisible
            line.set(marker="o", clip_on=False)
