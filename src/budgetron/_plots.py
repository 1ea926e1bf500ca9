"""Pictures of results: what people would rather look at than read."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from budgetron._page import bytes_text, escape

if TYPE_CHECKING:
    from budgetron.evaluate import Result

__all__ = ["comparison", "errors", "new_figure", "supports", "svg", "trade_off", "window_errors"]

# Okabe and Ito's colours, which most eyes can tell apart; then the same again, dashed.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
STYLES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D")

# Text that stays text, large enough when a phone shows the picture at three quarters of its size.
PAGE = {"svg.fonttype": "none", "svg.hashsalt": "budgetron", "font.size": 13, "axes.linewidth": 0.8}


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


def errors(axis: Any, results: Sequence[Result], places: Sequence[int] | None = None) -> None:
    """Error rate of all rounds so far against rounds; `places` are the learners' numbers in `style`."""
    curves = [(r.curve["round"], 100 * r.curve["mistakes"] / r.curve["round"]) for r in results]
    _draw(axis, results, curves, places)
    # The first rounds swing between 0 and 100 and would squeeze all the rest.
    high = max((values[len(values) // 20 :].max() for _, values in curves if len(values)), default=100.0)
    axis.set(ylabel="online error (%)", ylim=(0, min(1.1 * high + 0.1, 102)))
    _finish(axis)


def window_errors(axis: Any, results: Sequence[Result], places: Sequence[int] | None = None) -> None:
    """Error rate of the last rounds against rounds."""
    full = [result.curve["round"] >= min(result.window, result.rounds) for result in results]
    curves = [
        (result.curve["round"][kept], 100 * result.curve["window_error"][kept])
        for result, kept in zip(results, full, strict=True)
    ]
    _draw(axis, results, curves, places)
    axis.set(ylabel=f"error of the last {results[0].window:,} (%)", ylim=(0, None))
    _finish(axis)


def supports(axis: Any, results: Sequence[Result], places: Sequence[int] | None = None) -> None:
    """Supports against rounds."""
    sizes = np.concatenate([result.curve["supports"] for result in results])
    _draw(axis, results, [(result.curve["round"], result.curve["supports"]) for result in results], places)
    axis.set(ylabel="supports", ylim=(0, None))
    if sizes.size and sizes.max() > 20 * max(1, min(int(r.supports) or 1 for r in results)):
        axis.set(yscale="log", ylim=(1, None))
    _finish(axis)


def trade_off(axis: Any, results: Sequence[Result], places: Sequence[int] | None = None) -> None:
    """Error rate of all rounds against bytes at the end, a point a learner that tells its bytes."""
    for i, result in zip(places or range(len(results)), results, strict=True):
        marker = MARKERS[i // len(COLOURS) % len(MARKERS)]
        x, y = ([result.nbytes], [100 * result.error_rate]) if result.nbytes else ([], [])
        axis.plot(x, y, marker, color=style(i)["color"], ms=9, alpha=0.85, label=result.name)
    told = [result for result in results if result.nbytes]
    sizes = [result.nbytes for result in told] or [1]
    axis.set(xscale="log", xlim=(min(sizes) / 1.6, 1.6 * max(sizes)), ylabel="online error (%)")
    high = max((100 * result.error_rate for result in told), default=0.0)
    axis.set_ylim(0, min(1.1 * high + 0.1, 102))
    axis.xaxis.set_major_locator(_log_ticks(max(sizes) / min(sizes)))
    axis.xaxis.set_major_formatter(lambda value, _: bytes_text(round(value)))
    axis.xaxis.set_minor_formatter(lambda value, _: "")
    _finish(axis, "bytes at the end")


def _log_ticks(span: float) -> Any:
    from matplotlib.ticker import LogLocator

    subs = (1.0,) if span > 1000 else (1.0, 3.0) if span > 30 else (1.0, 2.0, 5.0)
    return LogLocator(subs=subs, numticks=8)


def comparison(results: Sequence[Result]) -> Any:
    """Error and supports of all learners, one above the other."""
    figure, axes = new_figure(8, 8, 2, sharex=True)
    errors(axes[0], results)
    supports(axes[1], results)
    axes[0].set_xlabel("")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


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


def _draw(axis: Any, results: Sequence[Result], curves: Sequence[Any], places: Sequence[int] | None) -> None:
    for i, result, (x, y) in zip(places or range(len(results)), results, curves, strict=True):
        lone = {"marker": "o", "clip_on": False} if len(x) == 1 else {}  # a line of one point shows nothing
        axis.plot(x, y, label=result.name, **style(i), **lone)


def _finish(axis: Any, label: str = "round") -> None:
    axis.set_xlabel(label)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
