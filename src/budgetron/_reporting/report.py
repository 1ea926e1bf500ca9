"""One page about a comparison: the answer first, then tables, pictures and certificates.

The page is a single HTML file that needs nothing else: no network, no scripts. It reads well
on a phone, on a desk and on paper. The pictures need matplotlib.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np

from budgetron._certify.certificate import Certificate
from budgetron._evaluation.comparison import Comparison, Result
from budgetron._reporting import sections
from budgetron._reporting.page import document, escape, percent, rounds_text, scroll, table
from budgetron._util.atomic import atomic_write
from budgetron._util.units import format_bytes

__all__ = ["render", "write"]

Certificates = Mapping[str, Certificate | str]

READING = """<p>Every learner meets the rows one by one: it predicts, then the label is revealed, then it
may update, so that no row is ever predicted after it was learned. A mistake is a round with
<i>y</i> <i>f</i>(<i>x</i>) ≤ 0, so that a margin of 0 counts (with more than two classes: one in which
another class has at least the margin of the true one), and the online error is the share of such rounds.
Balanced accuracy is the mean over the classes of the share of their rounds that was right. Supports and bytes
are those of the model at the end, over all classes (if more than two, a budget is for one of them); rounds a
second count the time spent predicting and learning, estimated where learners shared kernel values.</p>"""


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
    with atomic_write(path) as file:
        file.write(page.encode())


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
            f'<td class="text">{escape(best.name) if best.rounds else "-"}</td>'
            f"<td>{percent(best.error_rate) if best.rounds else '-'}</td><td>{best.rounds:,}</td>"
        )
    return scroll(table("overview", heads, rows), "Overview of the streams")


def _stream(comparison: Comparison, certificates: Certificates, places: Mapping[str, int], ident: str) -> str:
    results = sorted(comparison.results, key=lambda result: result.mistakes)  # stable, so ties stay in order
    if not results[0].rounds:
        return '<div class="answer"><p>No rounds were played, so there is nothing to tell.</p></div>'
    parts = [_answer(comparison, results), sections.learners(results, places)]
    parts.append(sections.charts(results, places, ident))
    parts.append(sections.confusions(results))
    if certificates:
        parts.append(sections.certified([result.name for result in results], certificates, places))
    return "\n".join(parts)


def _answer(comparison: Comparison, results: Sequence[Result]) -> str:
    best = results[0]
    level = [escape(result.name) for result in results[1:] if result.mistakes == best.mistakes]
    claim = f"<strong>{escape(best.name)}</strong> made "
    if len(results) > 1:
        claim += f"the fewest mistakes of {len(results)} learners: {best.mistakes:,}"
    else:
        claim += f"{best.mistakes:,} mistake{'' if best.mistakes == 1 else 's'}"
    claim += f" in {rounds_text(best.rounds)}, "
    claim += f"an error of <strong>{percent(best.error_rate)} %</strong>"
    holds = [f"{best.supports:,} support{'' if best.supports == 1 else 's'}"] if best.supports else []
    holds += [format_bytes(best.nbytes)] if best.nbytes else []
    claim += f", with {' in '.join(holds)}." if holds else "."
    if level:
        shown = ", ".join(level[:3]) + (f" and {len(level) - 3} more" if len(level) > 3 else "")
        claim += f" Level with it: {shown}."
    counts = best.confusion.sum(axis=1)
    facts = _balance(comparison, counts)
    facts += f" Always answering {escape(comparison.classes[counts.argmax()])} would err in "
    facts += f"{percent(1 - counts.max() / counts.sum())} % of rounds."
    if comparison.delay:
        facts += f" Labels came {rounds_text(comparison.delay)} late."
    return f'<div class="answer"><p>{claim}</p>\n<p>{facts}</p></div>'


def _balance(comparison: Comparison, counts: np.ndarray) -> str:
    shares = [
        f"{escape(c)} ({100 * n / counts.sum():.1f} %)"
        for c, n in zip(comparison.classes, counts, strict=True)
    ]
    if len(shares) <= sections.MOST_CLASSES:
        return f"{len(shares)} classes: {', '.join(shares)}."
    return f"{len(shares)} classes, from {shares[counts.argmin()]} to {shares[counts.argmax()]}."


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
{version("budgetron")} with NumPy {np.__version__} and Python {platform.python_version()}.</p>{call}
</footer>"""
