"""Plots of a section: curves with labels at their ends, or lists with one row per label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from budgetron._util.units import format_bytes

OURS = ("#1b5fa8", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#0e7490")
# Learners have the same color in every plot.
COLORS = {
    "RBP": OURS[0],
    "Forgetron": OURS[1],
    "Forgetron, CSR": OURS[1],
    "RBP, CSR": OURS[2],
    "Projectron": OURS[3],
    "Projectron++": OURS[3],
    "RBP.play": OURS[4],
    "RBP float32": OURS[5],
}
GREY = ("#4b5563", "#9ca3af", "#6b7280")
RULE = "#e5e7eb"
LABEL_SIZE = 8.5  # points
WIDTH, HEIGHT = 8.6, 4.6  # of a panel, in inches
LINE = 0.21  # height of a row of a list, in inches


def draw(found: dict[str, Any], folder: Path) -> Path:
    panels = found["panels"]
    heights = [1.0 + LINE * len(p["curves"]) if p["kind"] == "list" else HEIGHT for p in panels]
    with mpl.rc_context({"font.size": 9.5, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(WIDTH, sum(heights)), dpi=130)
        for part, panel in zip(parts(figure, heights), panels, strict=True):
            (listed if panel["kind"] == "list" else curves)(figure, part, panel)
        file = folder / f"{found['section']}.png"
        figure.savefig(file, metadata={"Software": None})
    return file


def parts(figure: Figure, heights: list[float]) -> list[tuple[float, float]]:
    """Return the bottom and top of each panel's axes, as fractions of the figure's height."""
    total, top, found = sum(heights), 1.0, []
    for height in heights:
        found.append((top - (height - 0.55) / total, top - 0.4 / total))
        top -= height / total
    return found


def tidy(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_axisbelow(True)
    axes.tick_params(which="minor", length=2)


# ---------------------------------------------------------------------- curves


def curves(figure: Figure, part: tuple[float, float], panel: dict[str, Any]) -> None:
    below, above = part
    axes = figure.add_axes((0.1, below, 0.65, above - below))
    tidy(axes)
    axes.set_title(panel["title"], loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel(panel["x"])
    axes.set_ylabel("time per round" if panel["y"] == "seconds" else panel["y"])
    axes.set_xscale("log")
    if panel["scale"] == "log":
        axes.set_yscale("log", base=2 if panel["y"] == "bytes" else 10)  # 1 kB is 1024 bytes
    axes.grid(axis="y", color=RULE, linewidth=0.7)
    spare = [color for color in OURS if color not in {COLORS.get(c["label"]) for c in panel["curves"]}]
    ours, grey = iter((spare or list(OURS)) * 9), iter(GREY * 9)
    drawn = []
    for curve in panel["curves"]:
        color = (COLORS.get(curve["label"]) or next(ours)) if curve["ours"] else next(grey)
        style: dict[str, Any] = {"color": color, "marker": "o", "markersize": 4}
        if panel["kind"] == "lines":
            style["linestyle"], style["linewidth"] = "-" if curve["ours"] else "--", 1.6
            style["markersize"] = 4 if len(curve["x"]) < 15 else 0
        else:
            style["linestyle"] = ""
        axes.plot(curve["x"], curve["y"], label=curve["label"], **style)
        drawn.append((curve, color))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: short(v)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: formats(panel["y"])(v)))
    if panel["scale"] == "log":
        axes.yaxis.set_minor_formatter(NullFormatter())
        seen = [value for curve in panel["curves"] for value in curve["y"]]
        # Limits at powers of ten, so that small differences do not fill the plot
        axes.set_ylim(10 ** np.floor(np.log10(min(seen)) - 0.02), 10 ** np.ceil(np.log10(max(seen)) + 0.02))
    else:
        axes.set_ylim(bottom=0.0)
    if panel["kind"] == "lines":
        write_labels(axes, drawn)
    else:
        axes.axhline(1.0, color=GREY[1], linewidth=0.8)
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def write_labels(axes: Any, drawn: list[tuple[dict[str, Any], str]]) -> None:
    """Write each label next to the right end of its curve; move labels apart that would overlap."""
    axes.autoscale_view()  # the limits must be final before points are transformed to pixels
    dpi = axes.figure.dpi
    step = 1.35 * LABEL_SIZE * dpi / 72
    right = axes.transAxes.transform((1.0, 0.0))[0]
    style = {"fontsize": LABEL_SIZE, "va": "center", "ha": "left", "annotation_clip": False}
    ends = []
    for curve, color in drawn:
        x, y = axes.transData.transform((curve["x"][-1], curve["y"][-1]))
        if right - x > 100:  # far from the right edge: put the label above the end of the curve
            at = {"xycoords": "figure pixels", "textcoords": "offset points", "color": color}
            axes.annotate(curve["label"], xy=(x, y), xytext=(0, 9), **at, **(style | {"ha": "center"}))
        else:
            ends.append((float(y), float(x), curve["label"], color))
    ends.sort(key=lambda end: end[0])
    for (y, x, label, color), at in zip(ends, spread([end[0] for end in ends], step), strict=True):
        line = {"arrowstyle": "-", "color": color, "linewidth": 0.6, "alpha": 0.6, "shrinkB": 3}
        axes.annotate(
            label,
            xy=(x, y),
            xycoords="figure pixels",
            xytext=(right + 14, at),
            textcoords="figure pixels",
            color=color,
            arrowprops=line,
            **style,
        )


def spread(places: list[float], step: float) -> list[float]:
    """Move ascending positions apart to a distance of `step`; each group spreads around its mean."""
    groups: list[list[float]] = []  # mean position and size of each group
    for place in places:
        groups.append([place, 1])
        while len(groups) > 1 and groups[-1][0] - groups[-2][0] < step * (groups[-1][1] + groups[-2][1]) / 2:
            (b, m), (a, n) = groups.pop(), groups.pop()
            groups.append([(a * n + b * m) / (n + m), n + m])
    return [middle + step * (i - (n - 1) / 2) for middle, n in groups for i in range(int(n))]


# ---------------------------------------------------------------------- lists


def listed(figure: Figure, part: tuple[float, float], panel: dict[str, Any]) -> None:
    """Draw one row per curve: its label, x on the left, y on the right."""
    below, above = part
    rows = sorted(panel["curves"], key=lambda curve: curve["x"][0])
    places = np.arange(len(rows))
    colors = [OURS[0] if curve["ours"] else GREY[0] for curve in rows]
    for left, width, key, axis_label in ((0.31, 0.37, "x", panel["x"]), (0.71, 0.26, "y", panel["y"])):
        axes = figure.add_axes((left, below, width, above - below))
        tidy(axes)
        values = [curve[key][0] for curve in rows]
        if key == "x":
            axes.set_xscale("log")
            low = 10 ** np.floor(np.log10(min(values)))
            axes.set_xlim(low, 1.5 * max(values))
            figure.text(
                0.01, above + 0.1 / figure.get_figheight(), panel["title"], fontsize=11, weight="bold"
            )
        else:
            low = 0.0
            axes.set_xlim(0.0, 1.12 * max(values))
        axes.hlines(places, low, values, color=colors, linewidth=1.0, alpha=0.45)
        axes.scatter(values, places, color=colors, s=20, zorder=3)
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.set_yticks(places, [curve["label"] for curve in rows] if key == "x" else [])
        for tick, color in zip(axes.get_yticklabels(), colors, strict=False):
            tick.set_color(color)
            tick.set_fontsize(LABEL_SIZE)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_color(RULE)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: short(v)))
        axes.set_xlabel(axis_label)


# ---------------------------------------------------------------------- numbers


def formats(quantity: str) -> Any:
    if quantity == "seconds":
        return seconds
    return format_bytes if quantity == "bytes" else short


def short(value: float) -> str:
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:g}{unit}"
    return f"{value:g}"


def seconds(value: float) -> str:
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= 0.999 * factor:
            return f"{value / factor:.3g} {unit}"
    return f"{1e9 * value:.3g} ns" if value else "0"
