"""Plots as SVG that a page contains."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from budgetron._evaluation import plots, regression_plots
from budgetron._evaluation.run_result import RunResult
from budgetron._reporting.page import escape
from budgetron._util.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Draw", "svg"]

# Text is stored as text, large enough for a phone, which shows the plot at three quarters of its size.
PAGE = {"svg.fonttype": "none", "svg.hashsalt": "budgetron", "font.size": 13, "axes.linewidth": 0.8}


# Plots with dots instead of curves over rounds
COSTS = (plots.time_trade_off, plots.trade_off, regression_plots.time_trade_off, regression_plots.trade_off)
RESIDUALS = (regression_plots.residuals, regression_plots.residuals_by_prediction)


class Draw(Protocol):
    """A function that draws the results of several learners."""

    def __call__(self, axis: Axes, results: Any, numbers: Sequence[int] | None) -> None: ...


def svg(draw: Draw, results: Sequence[RunResult], numbers: Sequence[int], *, ident: str, label: str) -> str:
    """Return a plot as SVG. Its ids begin with `ident`, and black becomes the text colour of the page."""
    try:
        from matplotlib import rc_context, rcdefaults, rcParams
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'budgetron[cli]'") from None
    with rc_context():
        rcdefaults()  # ignore the user's own settings
        rcParams.update(PAGE)
        figure, (axis,) = new_figure(6.2, 3.7)
        draw(axis, results, numbers)
        axis.set_ylabel("")  # the caption above the plot has it
        by_round = draw not in COSTS and draw is not regression_plots.residuals_by_prediction
        if by_round:
            axis.set_xlim(0, max(1, *(result.rounds for result in results)))
            axis.xaxis.set_major_formatter("{x:,.0f}")
            axis.locator_params(axis="x", nbins=5, integer=True)
        if draw is plots.supports:
            axis.yaxis.set_major_formatter("{x:,.0f}")
            if axis.get_yscale() == "linear":
                axis.locator_params(axis="y", integer=True)
        elif draw not in RESIDUALS:
            _zoom(axis)
        best = min(range(len(results)), key=lambda i: results[i].loss)
        for i, line in enumerate(axis.lines[: len(results)]):  # those after them are not learners
            line.set_gid(f"{ident}-curve-{i}")
            if i == best and len(results) > 1 and by_round:
                line.set(linewidth=2.8, zorder=3)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    names = {f"{ident}-curve-{i}": result.name for i, result in enumerate(results)}
    return _inline(text.getvalue(), ident, label, names)


def _zoom(axis: Axes) -> None:
    """Start the vertical axis above 0 if all curves are close together and far above 0."""
    curves = [np.asarray(line.get_ydata(), np.float64) for line in axis.lines]
    # Without the first rounds, where the error rate is not stable yet
    stable = [values[len(values) // 20 :] for values in curves if len(values)]
    low, high = min((float(values.min()) for values in stable), default=0.0), axis.get_ylim()[1]
    if low > high / 2:
        axis.set_ylim(bottom=min(0.9 * low, low - 0.3 * (high - low)))


def _inline(text: str, ident: str, label: str, names: Mapping[str, str]) -> str:
    """Remove from Matplotlib's SVG what the page has already, and make its ids distinct from other plots."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.S)
    for ident_of_curve, name in names.items():
        text = text.replace(f'<g id="{ident_of_curve}">', f"<g><title>{escape(name)}</title>", 1)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{ident}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'(url\(#|href="#)', rf"\1{ident}-", text)
    # Two decimals are finer than any screen, and reduce the size by a third.
    text = re.sub(r' d="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]).replace("\n", ""), text)
    text = text.replace("#000000", "currentColor")
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    head = (
        f'<svg {box[0]} role="img" aria-label="{escape(label)}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    return head + re.sub(r"\n\s*", "\n", text[text.index(">") + 1 :]).replace("\n\n", "\n").strip()
