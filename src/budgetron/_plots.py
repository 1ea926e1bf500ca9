"""Pictures of results: what people would rather look at than read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from budgetron.evaluate import Result

__all__ = ["comparison", "errors", "new_figure", "supports", "window_errors"]

# Okabe and Ito's colours, which most eyes can tell apart; then the same again, dashed.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
STYLES = ("-", "--", ":", "-.")


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Any, Any]:
    """A figure that belongs to no window, and its axes."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'budgetron[cli]'") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def style(i: int) -> dict[str, Any]:
    """How the i-th learner is drawn in every picture."""
    return {
        "color": COLOURS[i % len(COLOURS)],
        "linestyle": STYLES[i // len(COLOURS) % len(STYLES)],
        "lw": 1.6,
    }


def errors(axis: Any, results: Sequence[Result]) -> None:
    """Error rate of all rounds so far against rounds."""
    for i, result in enumerate(results):
        rounds, mistakes = result.curve["round"], result.curve["mistakes"]
        axis.plot(rounds, 100 * mistakes / rounds, label=result.name, **style(i))
    # The first rounds swing between 0 and 100 and would squeeze all the rest.
    settled = [100 * r.curve["mistakes"] / r.curve["round"] for r in results if len(r.curve["round"])]
    high = max((values[len(values) // 20 :].max() for values in settled), default=100.0)
    axis.set(ylabel="online error (%)", ylim=(0, 1.1 * high + 0.1))
    _finish(axis)


def window_errors(axis: Any, results: Sequence[Result]) -> None:
    """Error rate of the last rounds against rounds."""
    for i, result in enumerate(results):
        full = result.curve["round"] >= min(result.window, result.rounds)
        axis.plot(
            result.curve["round"][full],
            100 * result.curve["window_error"][full],
            label=result.name,
            **style(i),
        )
    axis.set(ylabel=f"error of the last {results[0].window:,} (%)", ylim=(0, None))
    _finish(axis)


def supports(axis: Any, results: Sequence[Result]) -> None:
    """Supports against rounds."""
    sizes = np.concatenate([result.curve["supports"] for result in results])
    for i, result in enumerate(results):
        axis.plot(result.curve["round"], result.curve["supports"], label=result.name, **style(i))
    axis.set(ylabel="supports", ylim=(0, None))
    if sizes.size and sizes.max() > 20 * max(1, min(int(r.supports) or 1 for r in results)):
        axis.set(yscale="log", ylim=(1, None))
    _finish(axis)


def comparison(results: Sequence[Result]) -> Any:
    """Error and supports of all learners, one above the other."""
    figure, axes = new_figure(8, 8, 2, sharex=True)
    errors(axes[0], results)
    supports(axes[1], results)
    axes[0].set_xlabel("")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _finish(axis: Any) -> None:
    axis.set_xlabel("round")
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
