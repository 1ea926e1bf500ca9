"""Plots as SVG inside a page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from budgetron._evaluation.plots import new_figure, supports, trade_off
from budgetron._evaluation.result import Result
from budgetron._reporting.page import escape

__all__ = ["svg"]

# Text stays text, and is large enough when a phone shows the plot at three quarters of its size.
PAGE = {"svg.fonttype": "none", "svg.hashsalt": "budgetron", "font.size": 13, "axes.linewidth": 0.8}


def svg(
    draw: Callable[..., None], results: Sequence[Result], places: Sequence[int], *, ident: str, label: str
) -> str:
    """A picture as SVG to stand inside a page: its ids begin with `ident`, its black is the page's ink."""
    try:
        from matplotlib import rc_context, rcdefaults, rcParams
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'budgetron[cli]'") from None
    with rc_context():
        rcdefaults()  # the user's own settings are made for other pages
        rcParams.update(PAGE)
        figure, axis = new_figure(6.2, 3.7)
        draw(axis, results, places)
        axis.set_ylabel("")  # the page says it above the picture
        if draw is not trade_off:
            axis.set_xlim(0, max(1, *(result.rounds for result in results)))
            axis.xaxis.set_major_formatter("{x:,.0f}")
            axis.xaxis.get_major_locator().set_params(nbins=5, integer=True)
        if draw is supports:
            axis.yaxis.set_major_formatter("{x:,.0f}")
            if axis.get_yscale() == "linear":
                axis.yaxis.get_major_locator().set_params(integer=True)
        else:
            _zoom(axis)
        best = min(range(len(results)), key=lambda i: results[i].mistakes)
        for i, line in enumerate(axis.lines):
            line.set_gid(f"{ident}-curve-{i}")
            if i == best and len(results) > 1 and draw is not trade_off:
                line.set(linewidth=2.8, zorder=3)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    names = {f"{ident}-curve-{i}": result.name for i, result in enumerate(results)}
    return _inline(text.getvalue(), ident, label, names)


def _zoom(axis: Any) -> None:
    """Begin the vertical axis above 0 where all curves run close together high above it."""
    settled = [
        line.get_ydata()[len(line.get_ydata()) // 20 :] for line in axis.lines if len(line.get_ydata())
    ]
    low, high = min((min(values) for values in settled), default=0.0), axis.get_ylim()[1]
    if low > high / 2:
        axis.set_ylim(bottom=min(0.9 * low, low - 0.3 * (high - low)))


def _inline(text: str, ident: str, label: str, names: Mapping[str, str]) -> str:
    """Matplotlib's SVG without what a page already has, and without what would clash with other pictures."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.S)
    for ident_of_curve, name in names.items():
        text = text.replace(f'<g id="{ident_of_curve}">', f"<g><title>{escape(name)}</title>", 1)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{ident}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'(url\(#|href="#)', rf"\1{ident}-", text)
    # Hundredths of a point are finer than any screen, and a third of the size.
    text = re.sub(r' d="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]).replace("\n", ""), text)
    text = text.replace("#000000", "currentColor")
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    head = (
        f'<svg {box[0]} role="img" aria-label="{escape(label)}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    return head + re.sub(r"\n\s*", "\n", text[text.index(">") + 1 :]).replace("\n\n", "\n").strip()
