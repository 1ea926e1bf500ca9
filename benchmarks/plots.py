"""Plots of a section: curves with their names beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

OURS = ("#1b5fa8", "#c2410c", "#15803d", "#7e22ce", "#b45309", "#0e7490")
GREY = ("#6b7280", "#9ca3af", "#4b5563")
WORDS = 8.5  # points


def draw(found: dict[str, Any], folder: Path) -> Path:
    panels = found["panels"]
    with mpl.rc_context({"font.size": 9.5, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(8.6, 4.6 * len(panels)), dpi=130)
        below, above = 0.55 / (4.6 * len(panels)), 1 - 0.4 / (4.6 * len(panels))
        right = 0.86 if panels[0]["points"] else 0.76  # room for the names
        figure.subplots_adjust(left=0.1, right=right, bottom=below, top=above, hspace=0.28)
        for axes, panel in zip(np.atleast_1d(figure.subplots(len(panels), 1)), panels, strict=True):
            one(axes, panel)
        file = folder / f"{found['section']}.png"
        figure.savefig(file, metadata={"Software": None})
    return file


def one(axes: Any, panel: dict[str, Any]) -> None:
    axes.set_title(panel["title"], loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel(panel["x"])
    axes.set_ylabel("time per round" if panel["y"] == "seconds" else panel["y"])
    if "log" in panel["scale"]:
        axes.set_xscale("log")
    if panel["scale"] == "log":
        axes.set_yscale("log")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.7)
    axes.set_axisbelow(True)
    ours, grey = iter(OURS * 9), iter(GREY * 9)
    drawn = []
    for curve in panel["curves"]:
        color = next(ours) if curve["ours"] else next(grey)
        if panel["points"]:
            color = OURS[0] if curve["ours"] else GREY[0]
        style = {"marker": "o", "markersize": 4 if len(curve["x"]) < 15 else 0, "color": color}
        if panel["points"]:
            axes.plot(curve["x"], curve["y"], linestyle="", **style)
        else:
            line = "-" if curve["ours"] else "--"
            axes.plot(curve["x"], curve["y"], linestyle=line, linewidth=1.6, **style)
        drawn.append((curve, color))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: short(v)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: formats(panel["y"])(v)))
    if panel["scale"] == "log":
        axes.yaxis.set_minor_formatter(NullFormatter())
    names(axes, drawn, panel)


def names(axes: Any, drawn: list[tuple[dict[str, Any], str]], panel: dict[str, Any]) -> None:
    """Names beside the last points, moved apart where they would lie on each other."""
    if panel["scale"] != "log":
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0.0 if panel["points"] and low < 0.3 * high else low), high)
    axes.figure.canvas.draw()  # the layout must be known
    height = 1.25 * WORDS * axes.figure.dpi / 72
    ends = []
    for curve, color in drawn:
        x, y = axes.transData.transform((curve["x"][-1], curve["y"][-1]))
        ends.append([y, x, curve["label"], color])
    ends.sort(key=lambda end: end[0])
    right = axes.transAxes.transform((1.0, 0.0))[0]
    scatter = panel["points"]
    places: list[tuple[float, float, float]] = []  # y, left, right of the names placed
    for y, x, label, color in ends:
        left = x + 6 if scatter else right + 6
        width = 0.56 * WORDS * axes.figure.dpi / 72 * len(label)
        at_left = scatter and left + width > right + 90
        if at_left:
            left = x - 6 - width
        at = y
        for other, a, b in sorted(places):
            if left < b and a < left + width and abs(at - other) < height:
                at = other + height
        places.append((at, left, left + width))
        moved = abs(at - y) > 0.5 * height and not scatter
        axes.annotate(
            label,
            xy=(x, y),
            xycoords="figure pixels",
            xytext=(left, at),
            textcoords="figure pixels",
            color=color,
            fontsize=WORDS,
            va="center",
            ha="left",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.5, "alpha": 0.5}
            if moved or (not scatter and right - x > 12)
            else None,
        )


def formats(quantity: str) -> Any:
    if quantity == "seconds":
        return seconds
    return size if quantity == "bytes" else short


def short(value: float) -> str:
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:g}{unit}"
    return f"{value:g}"


def seconds(value: float) -> str:
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= 0.999 * factor:
            return f"{value / factor:g} {unit}".replace("us", "µs")
    return f"{1e9 * value:.3g} ns"


def size(value: float) -> str:
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= factor:
            return f"{value / factor:g} {unit}"
    return f"{value:g} B"
