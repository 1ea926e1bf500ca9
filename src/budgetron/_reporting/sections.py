"""The sections of a report: the table of learners, plots, confusion matrices, certificates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from budgetron._certify.certificate import Certificate
from budgetron._evaluation import plots
from budgetron._evaluation.ranking import rare_classes
from budgetron._evaluation.result import Result
from budgetron._evaluation.run_result import RunResult
from budgetron._reporting.page import escape, percent, rounds_text, scroll, table
from budgetron._reporting.svg import Draw, svg
from budgetron._util.units import format_bytes

__all__ = [
    "COSTS",
    "MOST_CLASSES",
    "Chart",
    "Columns",
    "Figure",
    "certified",
    "charts",
    "columns",
    "confusions",
    "figures",
    "learners",
    "rare",
    "round_by_round",
    "table_of_learners",
]

# For each column of a table its name, how it was read, its number of features, and a remark.
Columns = Sequence[Mapping[str, str | int]]

# With more classes a confusion matrix is not readable; more matrices are not shown.
MOST_CLASSES = 12
MOST_MATRICES = 12


class Figure(NamedTuple):
    """A column of the table of learners.

    `name` is an attribute of results, `text` its format, and `choose` the function that selects the best.
    """

    heading: str
    name: str
    text: Callable[[Any], str]
    choose: Callable[[list[float]], float] | None


class Chart(NamedTuple):
    """A plot, its heading, an explanation, and the value of each learner at the end, in words."""

    draw: Draw
    heading: str
    explained: str
    ends: Mapping[str, str]


def _speed(rate: float) -> str:
    """Format a rate with three significant digits."""
    return f"{float(f'{rate:.3g}'):,.0f}" if rate >= 100 else f"{rate:.3g}"


COSTS = (
    Figure("Supports", "supports", "{:,}".format, min),
    Figure("Bytes", "nbytes", format_bytes, min),
    Figure("Rounds/s", "rounds_per_second", _speed, max),
)
COLUMNS = (
    Figure("Error&nbsp;%", "error_rate", percent, min),
    Figure("Last {}&nbsp;%", "window_error", percent, min),
    Figure("Balanced accuracy&nbsp;%", "balanced_accuracy", percent, max),
    Figure("Mistakes", "mistakes", "{:,}".format, None),  # best where the error is
    *COSTS,
)
MAY_BE_UNKNOWN = (
    "supports",
    "nbytes",
    "rounds_per_second",
    "coverage",
    "window_width",
)  # 0 means none or unknown


def _swatch(number: int) -> str:
    """Return the learner's line and marker, as in the plots."""
    line = plots.style(number)
    colour = line["color"].replace("#000000", "currentColor")
    dashes = {"-": "", "--": "6 3", ":": "2 2", "-.": "6 2 2 2"}[line["linestyle"]]
    marker = plots.MARKERS[number // len(plots.COLOURS) % len(plots.MARKERS)]
    point = {
        "o": '<circle cx="13" cy="5" r="3.6"/>',
        "s": '<path d="M9.8 1.8h6.4v6.4h-6.4z"/>',
        "^": '<path d="M13 .9l4 7.6h-8z"/>',
        "D": '<path d="M13 .6l4.4 4.4l-4.4 4.4l-4.4-4.4z"/>',
    }[marker]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<svg viewBox="0 0 26 10" aria-hidden="true" fill="{colour}" stroke="{colour}">'
        f'<path d="M0 5H26" stroke-width="2.2"{dashed}/>{point}</svg>'
    )


def _name(name: str, numbers: Mapping[str, int]) -> str:
    # Allow line breaks inside long names, where a word begins.
    text = re.sub(r"(?<=[a-z.])(?=[A-Z(])", "<wbr>", escape(name))
    return f'<span class="name">{_swatch(numbers[name])}<span>{text}</span></span>'


def learners(results: Sequence[Result], numbers: Mapping[str, int]) -> str:
    """Return the table of all figures, with the best of each column marked."""
    worse = [result.name for result in results if result.error_rate > result.baseline_error]
    words = "worse than always predicting the most frequent class"
    return table_of_learners(results, numbers, COLUMNS, worse, words)


def table_of_learners(
    results: Sequence[RunResult],
    numbers: Mapping[str, int],
    columns: Sequence[Figure],
    worse: Sequence[str],
    words: str,
) -> str:
    """Return a table with one row per learner, with the best of each column marked.

    `worse` are the names of the learners that are marked in the first column, and `words` say why.
    """
    title = f' title="{words}"'
    rows = [f'<th scope="row">{_name(result.name, numbers)}</th>' for result in results]
    heads = ['<th scope="col">Learner</th>']
    for number, (head, figure, text, choose) in enumerate(columns):
        window = f"{min(results[0].window, results[0].rounds):,}"
        heads.append(f'<th scope="col">{head.format(window)}</th>')
        values = [getattr(result, figure) for result in results]
        known = [value for value in values if value or figure not in MAY_BE_UNKNOWN]
        best = choose(known) if choose and len(set(known)) > 1 else None  # no mark if all are equal
        for i, value in enumerate(values):
            mark = ' class="best"' if best is not None and value == best else ""
            if number == 0 and results[i].name in worse:
                mark += title
            exact = f' title="{value:,} bytes"' if figure == "nbytes" and value else ""
            shown = text(value) if value or figure not in MAY_BE_UNKNOWN else "-"
            rows[i] += f"<td{mark}{exact}>{'! ' if mark.endswith(title) else ''}{shown}</td>"
    marked = "; ★ marks the best of a column" if len(results) > 1 else ""
    if worse:
        marked += f"; ! is {words}"
    note = f'<p class="soft">Sorted by error{marked}. A dash means none or unknown.</p>'
    return note + scroll(table("learners", heads, rows), "Table of the learners") + _parameters(results)


def _parameters(results: Sequence[RunResult]) -> str:
    """Return the parameters of each learner, and the kernel width in use."""
    lines = []
    for result in results:
        width = getattr(result.model, "gamma_", None)
        in_use = "" if width is None else f"; gamma is {width:.4g}"
        lines.append(f"<li>{escape(result.name)}: <code>{escape(repr(result.model))}</code>{in_use}</li>")
    return f"<details><summary>Parameters</summary><ul>{''.join(lines)}</ul></details>"


# ---------------------------------------------------------------------- rare classes


def rare(results: Sequence[Result]) -> str:
    """Return precision, recall and AUC of rare classes; "" if no class is rare."""
    counts = results[0].confusion.sum(axis=1)
    share = counts / max(1, counts.sum())
    if not (chosen := rare_classes(counts)):
        return ""
    names = ("Learner", "Class", "Share&nbsp;%", "Precision&nbsp;%", "Recall&nbsp;%", "AUC")
    heads = [f'<th scope="col">{name}</th>' for name in names]
    rows = []
    for result in results:
        for i in chosen:
            area = result.class_auc[i]
            values = [percent(share[i]), percent(result.precision[i]), percent(result.recall[i])]
            values += ["-" if area is None else f"{area:.3f}"]
            cells = "".join(f"<td>{value}</td>" for value in (escape(result.classes[i]), *values))
            rows.append(f'<th scope="row">{escape(result.name)}</th>{cells}')
    shown = scroll(table("learners", heads, rows), "Precision and recall of rare classes")
    return f"<h3>Rare classes</h3>\n{shown}"


# ---------------------------------------------------------------------- columns


def columns(described: Columns) -> str:
    """Return a table that says how each column was read."""
    heads = [f'<th scope="col">{head}</th>' for head in ("Column", "Read as", "Features", "Remark")]
    rows = [
        f'<th scope="row">{escape(row["column"])}</th>'
        + "".join(f"<td>{escape(row[name])}</td>" for name in ("read_as", "features", "remark"))
        for row in described
    ]
    shown = scroll(table("learners", heads, rows), "How each column was read")
    return f"<h3>How the columns were read</h3>\n{shown}"


# ---------------------------------------------------------------------- plots


def charts(results: Sequence[Result], numbers: Mapping[str, int], ident: str) -> str:
    """Return the plots of error and supports over rounds, and of error over time and memory."""
    window, rounds = results[0].window, results[0].rounds
    drawn = [
        Chart(plots.errors, "Online error, %", "mistakes so far divided by rounds so far",
         {r.name: f"{percent(r.error_rate)} %" for r in results}),
    ]  # fmt: skip
    if rounds > window:
        drawn.append(
            Chart(plots.window_errors, f"Error of the last {window:,} rounds, %",
             "recent error of each learner", {r.name: f"{percent(r.window_error)} %" for r in results})
        )  # fmt: skip
    if any(len(r.curve["supports"]) and r.curve["supports"].max() for r in results):
        drawn.append(
            Chart(plots.supports, "Supports", "examples stored after each round",
             {r.name: f"{r.supports:,}" for r in results})
        )  # fmt: skip
    if any(r.seconds for r in results):
        drawn.append(
            Chart(plots.time_trade_off, "Online error, %, against time", "nearer to the lower left is better",
             {r.name: f"{percent(r.error_rate)} % with {r.rounds_per_second:,.0f} rounds/s" for r in results})
        )  # fmt: skip
    if any(r.nbytes for r in results):
        drawn.append(
            Chart(plots.trade_off, "Online error, %, against memory", "nearer to the lower left is better",
             {r.name: f"{percent(r.error_rate)} % with {r.nbytes:,} bytes" for r in results if r.nbytes})
        )  # fmt: skip
    return round_by_round(drawn, results, numbers, ident)


def round_by_round(
    drawn: Sequence[Chart], results: Sequence[RunResult], numbers: Mapping[str, int], ident: str
) -> str:
    """Return plots of all learners, and their legend."""
    legend = "\n".join(f"<li>{_name(r.name, numbers)}</li>" for r in results)
    head = "<h3>Round by round</h3>"
    return f'{head}\n<ul class="legend">\n{legend}\n</ul>\n{figures(drawn, results, numbers, ident)}'


def figures(
    drawn: Sequence[Chart], results: Sequence[RunResult], numbers: Mapping[str, int], ident: str
) -> str:
    """Return plots with their captions."""
    shown = [numbers[r.name] for r in results]
    pictures = []
    for i, (draw, head, explained, ends) in enumerate(drawn, 1):
        label = f"{head}. At the end: " + ", ".join(f"{name} {end}" for name, end in ends.items())
        picture = svg(draw, results, shown, ident=f"{ident}-{i}", label=label)
        pictures.append(
            f"<figure><figcaption>{head}<span>{explained}</span></figcaption>\n{picture}</figure>"
        )
    joined = "\n".join(pictures)
    return f'<div class="charts">\n{joined}\n</div>'


# ---------------------------------------------------------------------- confusion


def confusions(results: Sequence[Result]) -> str:
    """Return a confusion matrix of each learner, or its most frequent confusions."""
    parts = ["<h3>Predicted and true classes</h3>"]
    form = _matrix if len(results[0].classes) <= MOST_CLASSES else _pairs
    for i, result in enumerate(results[:MOST_MATRICES]):
        head = f"{escape(result.name)}, error {percent(result.error_rate)} %"
        if i == 0:
            parts.append(f"<h4>{head}</h4>\n{form(result)}")
        else:
            parts.append(f"<details><summary>{head}</summary>\n{form(result)}\n</details>")
    if len(results) > MOST_MATRICES:
        parts.append(f'<p class="soft">The {MOST_MATRICES} learners with the fewest mistakes are shown.</p>')
    return "\n".join(parts)


def _matrix(result: Result) -> str:
    """Return a matrix with one row per true class.

    Cells are shaded by the fraction of the row. For mistakes it is the root of the fraction, so that rare
    mistakes are visible.
    """
    counts = result.confusion
    totals = counts.sum(axis=1)
    shares = counts / np.maximum(1, totals)[:, None]
    labels = [f"<span>{escape(label)}</span>" for label in result.classes]
    rows = []
    for i, label in enumerate(labels):
        row = f'<th scope="row">{label}</th>'
        for j, count in enumerate(counts[i]):
            kind, depth = ("right", 0.55 * shares[i, i]) if i == j else ("wrong", 0.75 * shares[i, j] ** 0.5)
            row += f'<td class="{kind}" style="--share:{depth:.2f}">{count:,}</td>'
        right = percent(shares[i, i]) if totals[i] else "-"
        rows.append(row + f'<td class="sum">{totals[i]:,}</td><td class="sum">{right}</td>')
    heads = [
        '<th scope="col">true&nbsp;↓<br>predicted&nbsp;→</th>',
        *(f'<th scope="col">{label}</th>' for label in labels),
    ]
    heads += ['<th scope="col">rounds</th>', '<th scope="col">right&nbsp;%</th>']
    return scroll(table("confusion", heads, rows), f"Confusion matrix of {result.name}")


def _pairs(result: Result) -> str:
    """Return the most frequent confusions, for more classes than fit into a matrix."""
    wrong = result.confusion - np.diag(np.diag(result.confusion))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_CLASSES]
    pairs = [divmod(int(place), len(wrong)) for place in order]
    totals = result.confusion.sum(axis=1)
    labels = [escape(label) for label in result.classes]
    items = [
        f"<li>{labels[i]} predicted as {labels[j]}: {rounds_text(int(wrong[i, j]))}, "
        f"{percent(wrong[i, j] / totals[i])} % of this class</li>"
        for i, j in pairs
        if wrong[i, j]
    ]
    return (
        '<ol class="pairs">\n' + "\n".join(items) + "\n</ol>"
        if items
        else "<p>No class was confused with another.</p>"
    )


# ---------------------------------------------------------------------- certificates

GOOD = '<span class="good" aria-hidden="true">✓</span><span class="hidden">holds:</span>'
BAD = '<span class="bad" aria-hidden="true">✗</span><span class="hidden">fails:</span>'


def certified(
    names: Sequence[str], certificates: Mapping[str, Certificate | str], numbers: Mapping[str, int]
) -> str:
    """Return a card for each certificate."""
    cards = [_certificate(name, certificates[name], numbers) for name in names if name in certificates]
    joined = "\n".join(cards)
    return f"""<h3>Certificates</h3>
<p class="soft">A theorem bounds the number of mistakes or updates on this stream, whatever its rows are. The
bound depends on the loss of a competitor on the same stream.</p> <div class="certificates"> {joined}
</div>"""


def _certificate(name: str, given: Certificate | str, numbers: Mapping[str, int]) -> str:
    head = f"<h4>{_name(name, numbers)}</h4>"
    if isinstance(given, str):
        return f'<div class="certificate nothing">{head}\n<p>No certificate: {escape(given)}</p></div>'
    kind, verdict = _verdict(given)
    count = f"{given.count:,}" if isinstance(given.count, int) else f"{given.count:,.1f}"
    bound = f"{given.bound:,.0f}" if isfinite(given.bound) else "infinite"
    # The bar ends at the bound, or at the number of rounds if the bound is larger.
    whole = max(1.0, float(given.count), min(given.bound, given.rounds))
    mark = f'<b style="left:{100 * given.bound / whole:.1f}%"></b>' if given.bound < whole else ""
    done = f'<i style="width:{100 * given.count / whole:.1f}%"></i>'
    assumptions = "".join(
        f"<li>{GOOD if a.holds else BAD} {escape(a.text)}; it is {a.value:.4g}</li>"
        for a in given.assumptions
    )
    drift = f", drifts by {given.shift:.4g}" if given.shift else ""
    return f"""<div class="certificate {kind}">{head}
<p><strong>{count}</strong> {escape(given.quantity)} in {rounds_text(given.rounds)},
bound <strong>{bound}</strong></p>
<div class="bar" aria-hidden="true">{done}{mark}</div>
<p>{verdict}</p>
<dl><dt>theorem</dt><dd>{escape(given.theorem)}</dd>
<dt>competitor</dt>
<dd>{escape(given.competitor)}: {given.size} {given.losses:.6g}{drift}</dd>
<dt>assumes</dt><dd><ul>{assumptions or "<li>no further assumptions</li>"}</ul></dd>
<dt>learner</dt><dd><code>{escape(given.learner)}</code></dd></dl></div>"""


def _verdict(given: Certificate) -> tuple[str, str]:
    """Return a class of the style sheet, and a sentence."""
    if not given.applies:
        return "nothing", '<span class="bad">The theorem does not apply</span>: an assumption fails.'
    if not given.holds:
        if given.quantity.startswith("expected"):
            return "broken", "The bound was exceeded, which may happen in a single run: it limits a mean."
        return "broken", '<strong class="bad">The bound is violated.</strong>'
    if given.vacuous:
        return "nothing", f"The bound holds, but is vacuous: it is at least {given.known}."
    return (
        "",
        f'<span class="good">The bound holds</span>: {100 * given.ratio:.1f} % of the bound was reached.',
    )
