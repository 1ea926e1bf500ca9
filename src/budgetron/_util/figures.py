"""Matplotlib figures that no window shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["finish_axis", "new_figure"]


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, *, sharex: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure that no window shows, and its axes, row by row."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'budgetron[cli]'") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=sharex, squeeze=False)
    return figure, axes.ravel().tolist()


def finish_axis(axis: Axes, label: str = "round") -> None:
    """Label the horizontal axis, and draw a grid."""
    axis.set_xlabel(label)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
