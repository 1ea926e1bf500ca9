"""One page about a comparison: the answer first, then tables, pictures and certificates.

The page is a single HTML file that needs nothing else: no network, no scripts. It reads well
on a phone, on a desk and on paper. The pictures need matplotlib.
"""

from __future__ import annotations

import os
import platform
import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from math import isfinite
from pathlib import Path

import numpy as np

from budgetron import _plots
from budgetron._page import bytes_text, document, escape, percent, scroll, table
from budgetron.certificates import Certificate
from budgetron.evaluate import Comparison, Result

__all__ = ["render", "write"]

Certificates = Mapping[str, Certificate | str]

# More classes than this are no table that anyone reads, and more learners no row of tables.
MOST_CLASSES = 12
MOST_MATRICES = 12

READING = """<p>Every learner meets the rows one by one: it predicts, then the label is revealed, then it may
update, so no row is ever predicted after it was learned. A mistake is a round with <i>y f</i>(<i>x</i>) ≤ 0, so that
a margin of 0 counts (with more than two classes: one in which another class has at least the margin of the true
one), and the online error is the share of rounds that were mistakes. Balanced accuracy is the mean over the classes
of the share of their rounds that was right, supports and bytes are those of the model at the end, and rounds a second
count the time spent predicting and learning, estimated where learners shared kernel values.</p>"""


def render(
    comparisons: Comparison | Mapping[str, Comparison],
    *,
    title: str = "Budgetron report",
    certificates: Certificates | Mapping[str, Certificates] | None = None,
    command: str | None = None,
) -> str:
    """Make a page about a comparison, or about several.

    Parameters
    ----------
    comparisons : Comparison, or mapping of stream names to Comparisons
        A learner has the same colour on all streams.
    title : str, default="Budgetron report"
    certificates : mapping of learner names to Certificates or str, optional
        A text says why there is no certificate. With a mapping of streams, a mapping of stream names to
        such mappings.
    command : str, optional
        The command line that made the report, to be shown at its end.

    Returns
    -------
    str
        HTML. Apart from the date it depends on the arguments only; the environment variable
        ``SOURCE_DATE_EPOCH`` fixes the date too.

    Examples
    --------
    >>> from budgetron import Forgetron, Projectron
    >>> from budgetron.evaluate import compare
    >>> from budgetron.report import render
    >>> from budgetron.streams import two_gaussians
    >>> learners = [Forgetron(100, gamma=1.0), Projectron(eta=0.1, gamma=1.0)]
    >>> page = render(compare(learners, two_gaussians(1000, random_state=0)), title="Two learners")
    >>> "<h1>Two learners</h1>" in page, "<script" in page
    (True, False)
    """
    several = isinstance(comparisons, Mapping)
    streams: Mapping[str, Comparison] = comparisons if isinstance(comparisons, Mapping) else {"": comparisons}
    if not streams:
        raise ValueError("comparisons must hold at least one stream")
    given = _certificates(streams, (certificates or {}) if several else {"": certificates or {}})
    names = dict.fromkeys(result.name for comparison in streams.values() for result in comparison.results)
    places = {name: i for i, name in enumerate(names)}
    parts = [f"<h1>{escape(title)}</h1>"]
    if len(streams) > 1:
        parts.append(_overview(streams))
    for i, (name, comparison) in enumerate(streams.items(), 1):
        heading = f"<h2>{escape(name)}</h2>\n" if several else ""
        content = _stream(comparison, given.get(name, {}), places, f"stream-{i}")
        parts.append(f'<section id="stream-{i}">\n{heading}{content}\n</section>')
    parts.append(_footer(command))
    return document(title, "\n".join(parts))


def write(
    path: str | os.PathLike[str],
    comparisons: Comparison | Mapping[str, Comparison],
    *,
    title: str = "Budgetron report",
    certificates: Certificates | Mapping[str, Certificates] | None = None,
    command: str | None = None,
) -> None:
    """Write the page that `render` makes, whole or not at all.

    Parameters
    ----------
    path : path-like
        A file there is replaced when the new one is complete.
    comparisons, title, certificates, command
        As in `render`.

    Raises
    ------
    OSError
        If it cannot be written; a file that was there is as it was.
    """
    page = render(comparisons, title=title, certificates=certificates, command=command)
    target = Path(os.path.realpath(path))  # through a link, not over it
    partial = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        try:
            with open(partial, "x", encoding="utf-8", newline="\n") as file:
                file.write(page)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:  # about the file that was asked for, not about the partial one
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def _certificates(streams: Mapping[str, Comparison], given: Mapping[str, object]) -> dict[str, Certificates]:
    """The certificates of each stream; what belongs to no stream or learner is a slip of the caller."""
    checked: dict[str, Certificates] = {}
    for stream, mapping in given.items():
        if stream not in streams or not isinstance(mapping, Mapping):
            raise ValueError(
                f"certificates must map stream names to mappings; got {stream!r}, streams are {list(streams)}"
            )
        learners = [result.name for result in streams[stream].results]
        for name, certificate in mapping.items():
            if name not in learners:
                raise ValueError(f"certificates must be of learners in {learners}; got {name!r}")
            if not isinstance(certificate, Certificate | str):
                raise TypeError(f"a certificate must be a Certificate or a str; got {certificate!r}")
        checked[stream] = mapping
    return checked


# ---------------------------------------------------------------------- the answer


def _overview(streams: Mapping[str, Comparison]) -> str:
    """A line for each stream, with the winner and a link."""
    heads = [
        '<th scope="col">Stream</th>',
        '<th scope="col" class="text">Fewest mistakes</th>',
        '<th scope="col">Error %</th>',
        '<th scope="col">Rounds</th>',
    ]
    rows = []
    for i, (name, comparison) in enumerate(streams.items(), 1):
        best = comparison.best()
        rows.append(
            f'<th scope="row"><a href="#stream-{i}">{escape(name)}</a></th>'
            f'<td class="text">{escape(best.name) if best.rounds else "–"}</td>'
            f"<td>{percent(best.error_rate) if best.rounds else '–'}</td><td>{best.rounds:,}</td>"
        )
    return scroll(table("overview", heads, rows), "Overview of the streams")


def _stream(comparison: Comparison, certificates: Certificates, places: Mapping[str, int], ident: str) -> str:
    results = sorted(comparison.results, key=lambda result: result.mistakes)  # stable, so ties stay in order
    if not results[0].rounds:
        return '<div class="answer"><p>No rounds were played, so there is nothing to tell.</p></div>'
    parts = [_answer(comparison, results), _learners(results, places)]
    parts.append(_charts(results, places, ident))
    parts.append(_confusions(results))
    if certificates:
        parts.append(_certified([result.name for result in results], certificates, places))
    return "\n".join(parts)


def _answer(comparison: Comparison, results: Sequence[Result]) -> str:
    best = results[0]
    level = [escape(result.name) for result in results[1:] if result.mistakes == best.mistakes]
    claim = f"<strong>{escape(best.name)}</strong> made "
    if len(results) > 1:
        claim += f"the fewest mistakes of {len(results)} learners: "
    claim += f"{best.mistakes:,} in {_rounds(best.rounds)}, an error of <strong>{percent(best.error_rate)} %</strong>"
    holds = [f"{best.supports:,} supports"] if best.supports else []
    holds += [bytes_text(best.nbytes)] if best.nbytes else []
    claim += f", with {' in '.join(holds)}." if holds else "."
    if level:
        shown = ", ".join(level[:3]) + (f" and {len(level) - 3} more" if len(level) > 3 else "")
        claim += f" Level with it: {shown}."
    counts = best.confusion.sum(axis=1)
    facts = _balance(comparison, counts)
    facts += f" Always answering {escape(comparison.classes[counts.argmax()])} would err in "
    facts += f"{percent(1 - counts.max() / counts.sum())} % of rounds."
    if comparison.delay:
        facts += f" Labels came {_rounds(comparison.delay)} late."
    return f'<div class="answer"><p>{claim}</p>\n<p>{facts}</p></div>'


def _balance(comparison: Comparison, counts: np.ndarray) -> str:
    shares = [
        f"{escape(c)} {100 * n / counts.sum():.1f} %" for c, n in zip(comparison.classes, counts, strict=True)
    ]
    if len(shares) <= MOST_CLASSES:
        return f"{len(shares)} classes: {', '.join(shares)}."
    return f"{len(shares)} classes, from {shares[counts.argmin()]} to {shares[counts.argmax()]}."


def _rounds(count: int) -> str:
    return f"{count:,} round{'' if count == 1 else 's'}"


# ---------------------------------------------------------------------- the learners


def _swatch(place: int) -> str:
    """The learner's line and point as in the pictures."""
    drawn = _plots.style(place)
    colour = drawn["color"].replace("#000000", "currentColor")
    dashes = {"-": "", "--": "6 3", ":": "2 2", "-.": "6 2 2 2"}[drawn["linestyle"]]
    marker = _plots.MARKERS[place // len(_plots.COLOURS) % len(_plots.MARKERS)]
    point = {
        "o": '<circle cx="13" cy="5" r="3.6"/>',
        "s": '<path d="M9.8 1.8h6.4v6.4h-6.4z"/>',
        "^": '<path d="M13 .9l4 7.6h-8z"/>',
        "D": '<path d="M13 .6l4.4 4.4l-4.4 4.4l-4.4-4.4z"/>',
    }[marker]
    return (
        f'<svg viewBox="0 0 26 10" aria-hidden="true" fill="{colour}" stroke="{colour}">'
        f'<path d="M0 5H26" stroke-width="2.2"{f" stroke-dasharray={dashes!r}" if dashes else ""}/>{point}</svg>'
    )


def _name(name: str, places: Mapping[str, int]) -> str:
    return f'<span class="name">{_swatch(places[name])}<span>{escape(name)}</span></span>'


def _learners(results: Sequence[Result], places: Mapping[str, int]) -> str:
    """The table of all figures, the best of each column marked."""
    looked_back = min(results[0].window, results[0].rounds)
    # Head, value, text, exact text, and whether little is good; a value of None is not told
    columns = [
        ("Error %", [(r.error_rate, percent(r.error_rate), "") for r in results], True),
        (f"Last {looked_back:,} %", [(r.window_error, percent(r.window_error), "") for r in results], True),
        (
            "Balanced accuracy&nbsp;%",
            [(r.balanced_accuracy, percent(r.balanced_accuracy), "") for r in results],
            False,
        ),
        ("Mistakes", [(None, f"{r.mistakes:,}", "") for r in results], True),
        (
            "Supports",
            [(r.supports or None, f"{r.supports:,}" if r.supports else "–", "") for r in results],
            True,
        ),
        (
            "Bytes",
            [
                (
                    r.nbytes or None,
                    bytes_text(r.nbytes) if r.nbytes else "–",
                    f"{r.nbytes:,} bytes" * bool(r.nbytes),
                )
                for r in results
            ],
            True,
        ),
        (
            "Rounds/s",
            [(r.rounds_per_second or None, _speed(r.rounds_per_second), "") for r in results],
            False,
        ),
    ]
    rows = [f'<th scope="row">{_name(result.name, places)}</th>' for result in results]
    for _, cells, little in columns:
        values = [value for value, _, _ in cells if value is not None]
        best = (min if little else max)(values, default=None) if len(cells) > 1 else None
        for i, (value, text, exact) in enumerate(cells):
            mark = ' class="best"' if value is not None and value == best else ""
            rows[i] += f"<td{mark}{f' title={chr(34)}{exact}{chr(34)}' if exact else ''}>{text}</td>"
    heads = ['<th scope="col">Learner</th>', *(f'<th scope="col">{head}</th>' for head, _, _ in columns)]
    marked = "; ★ marks the best of a column" if len(results) > 1 else ""
    caption = f"Sorted by error{marked}. –: none, or not told."
    return scroll(table("learners", heads, rows, caption), "Table of the learners")


def _speed(rate: float) -> str:
    """Three digits: the rest is noise."""
    return f"{float(f'{rate:.3g}'):,.0f}" if rate >= 100 else f"{rate:.3g}" if rate else "–"


# ---------------------------------------------------------------------- the pictures


def _charts(results: Sequence[Result], places: Mapping[str, int], ident: str) -> str:
    window, rounds = results[0].window, results[0].rounds
    charts = [
        (_plots.errors, "Online error, %", "mistakes so far as a share of the rounds so far",
         {r.name: f"{percent(r.error_rate)} %" for r in results}),
    ]  # fmt: skip
    if rounds > window:
        charts.append(
            (_plots.window_errors, f"Error of the last {window:,} rounds, %", "how each learner does by now",
             {r.name: f"{percent(r.window_error)} %" for r in results})
        )  # fmt: skip
    if any(len(r.curve["supports"]) and r.curve["supports"].max() for r in results):
        charts.append(
            (_plots.supports, "Supports", "examples stored after each round",
             {r.name: f"{r.supports:,}" for r in results})
        )  # fmt: skip
    if any(r.nbytes for r in results):
        charts.append(
            (_plots.trade_off, "Online error, %, against memory", "the nearer to the lower left, the better",
             {r.name: f"{percent(r.error_rate)} % with {r.nbytes:,} bytes" for r in results if r.nbytes})
        )  # fmt: skip
    numbers = [places[r.name] for r in results]
    figures = []
    for i, (draw, head, explained, ends) in enumerate(charts, 1):
        label = f"{head}. At the end: " + ", ".join(f"{name} {end}" for name, end in ends.items())
        picture = _plots.svg(draw, results, numbers, ident=f"{ident}-{i}", label=label)
        figures.append(f"<figure><figcaption>{head}<span>{explained}</span></figcaption>\n{picture}</figure>")
    legend = "\n".join(f"<li>{_name(r.name, places)}</li>" for r in results)
    joined = "\n".join(figures)
    return f'<h3>Round by round</h3>\n<ul class="legend">\n{legend}\n</ul>\n<div class="charts">\n{joined}\n</div>'


# ---------------------------------------------------------------------- which class for which


def _confusions(results: Sequence[Result]) -> str:
    parts = ["<h3>Which class was taken for which</h3>"]
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
    """Rows are true classes; right answers shaded by their share of the row, mistakes by the worst share."""
    counts = result.confusion
    totals = counts.sum(axis=1)
    shares = counts / np.maximum(1, totals)[:, None]
    worst = max(float((shares - np.diag(np.diag(shares))).max()), 1e-12)
    labels = [escape(label) for label in result.classes]
    rows = []
    for i, label in enumerate(labels):
        row = f'<th scope="row">{label}</th>'
        for j, count in enumerate(counts[i]):
            kind, depth = ("right", 0.55 * shares[i, i]) if i == j else ("wrong", 0.6 * shares[i, j] / worst)
            row += f'<td class="{kind}" style="--share:{depth:.2f}">{count:,}</td>'
        right = percent(shares[i, i]) if totals[i] else "–"
        rows.append(row + f'<td class="sum">{totals[i]:,}</td><td class="sum">{right}</td>')
    heads = [
        '<th scope="col">true ↓ predicted →</th>',
        *(f'<th scope="col">{label}</th>' for label in labels),
    ]
    heads += ['<th scope="col">rounds</th>', '<th scope="col">right&nbsp;%</th>']
    return scroll(table("confusion", heads, rows), f"Confusion matrix of {result.name}")


def _pairs(result: Result) -> str:
    """The pairs of classes confused most often, where a matrix would be too wide to read."""
    wrong = result.confusion - np.diag(np.diag(result.confusion))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_CLASSES]
    pairs = [divmod(int(place), len(wrong)) for place in order]
    totals = result.confusion.sum(axis=1)
    items = [
        f"<li>{escape(result.classes[i])} taken for {escape(result.classes[j])}: {_rounds(int(wrong[i, j]))}, "
        f"{percent(wrong[i, j] / totals[i])} % of its class</li>"
        for i, j in pairs
        if wrong[i, j]
    ]
    return (
        '<ol class="pairs">\n' + "\n".join(items) + "\n</ol>"
        if items
        else "<p>No class was taken for another.</p>"
    )


# ---------------------------------------------------------------------- certificates


def _certified(names: Sequence[str], certificates: Certificates, places: Mapping[str, int]) -> str:
    cards = [_certificate(name, certificates[name], places) for name in names if name in certificates]
    joined = "\n".join(cards)
    return f"""<h3>What the theorems say</h3>
<p class="soft">A theorem limits what could have happened on this very stream, whatever it is, by how well one fixed
competitor does on it.</p>
<div class="certificates">
{joined}
</div>"""


def _certificate(name: str, given: Certificate | str, places: Mapping[str, int]) -> str:
    head = f"<h4>{_name(name, places)}</h4>"
    if isinstance(given, str):
        return f'<div class="certificate nothing">{head}\n<p>No certificate: {escape(given)}</p></div>'
    kind, verdict = _verdict(given)
    bound = f"{given.bound:,.0f}" if isfinite(given.bound) else "infinite"
    # The bar ends at the bound, or at the last round where the bound lies beyond it
    whole = max(1.0, float(given.count), min(given.bound, given.rounds))
    mark = f'<b style="left:{100 * given.bound / whole:.1f}%"></b>' if given.bound < whole else ""
    bar = f'<div class="bar" aria-hidden="true"><i style="width:{100 * given.count / whole:.1f}%"></i>{mark}</div>'
    assumptions = "".join(
        f'<li><span class="{"good" if a.holds else "bad"}" aria-hidden="true">{"✓" if a.holds else "✗"}</span>'
        f'<span class="hidden">{"holds" if a.holds else "fails"}:</span> {escape(a.text)}; it is {a.value:.4g}</li>'
        for a in given.assumptions
    )
    drift = f", drifts by {given.shift:.4g}" if given.shift else ""
    return f"""<div class="certificate {kind}">{head}
<p><strong>{given.count:,}</strong> {escape(given.quantity)}, bound <strong>{bound}</strong>, in {_rounds(given.rounds)}</p>
{bar}
<p>{verdict}</p>
<dl><dt>theorem</dt><dd>{escape(given.theorem)}</dd>
<dt>competitor</dt><dd>{escape(given.competitor)}: norm {given.norm:.4g}, hinge losses {given.losses:.6g}{drift}</dd>
<dt>assumes</dt><dd><ul>{assumptions or "<li>nothing more</li>"}</ul></dd>
<dt>learner</dt><dd><code>{escape(given.learner)}</code></dd></dl></div>"""


def _verdict(given: Certificate) -> tuple[str, str]:
    """A class of the style sheet, and a sentence."""
    if not given.applies:
        return "nothing", '<span class="bad">The theorem does not apply</span>: an assumption fails.'
    if not given.holds:
        if given.quantity.startswith("expected"):
            return "broken", "The bound was exceeded, as one run may: it limits the expected number."
        return "broken", '<strong class="bad">The bound is violated.</strong>'
    if given.vacuous:
        return "nothing", "The bound holds but says nothing: it is no smaller than the number of rounds."
    return (
        "",
        f'<span class="good">The bound holds</span>: {100 * given.ratio:.1f} % of what it allows happened.',
    )


# ---------------------------------------------------------------------- the end


def _footer(command: str | None) -> str:
    # The variable by which builders of packages ask for the same bytes every time
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    made = datetime.fromtimestamp(seconds, UTC)
    call = f"\n<p>Command: <code>{escape(command)}</code></p>" if command else ""
    return f"""<footer>
<h3>How to read this</h3>
{READING}
<p>Made on <time datetime="{made:%Y-%m-%dT%H:%M:%SZ}">{made:%d %B %Y, %H:%M} UTC</time> by Budgetron
{escape(version("budgetron"))} with NumPy {escape(np.__version__)} and Python {platform.python_version()}.</p>{call}
</footer>"""
