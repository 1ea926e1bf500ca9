"""An HTML page about a comparison: a summary, then tables, plots and certificates.

The page is a single HTML file without scripts that loads nothing from the network. Its layout fits phones,
desktop screens and paper. The plots need matplotlib.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from budgetron._certify.certificate import Certificate
from budgetron._evaluation.base_comparison import BaseComparison, R
from budgetron._evaluation.comparison import Comparison
from budgetron._evaluation.regression_comparison import RegressionComparison
from budgetron._evaluation.regression_result import RegressionResult, error_text
from budgetron._evaluation.result import Result
from budgetron._reporting import regression, sections
from budgetron._reporting.coverage import prediction_sets
from budgetron._reporting.features import relevant_features
from budgetron._reporting.page import document, escape, percent, rounds_text, scroll, table
from budgetron._util.atomic import atomic_write
from budgetron._util.units import format_bytes

__all__ = ["render", "write"]

# Learners that are named because they take less time or less memory than the best one
MOST_CHEAPER = 4

Certificates = Mapping[str, Certificate | str]
AnyComparison = Comparison | RegressionComparison

READING = """<p>Every learner sees the rows one by one. It predicts a row, then sees its label, then may
update. So no row is predicted after it was learned. A round is a mistake if <i>y</i> <i>f</i>(<i>x</i>) ≤ 0;
a margin of 0 counts as a mistake. With more than two classes, a round is a mistake if the margin of another
class is at least that of the true class. The online error is the fraction of rounds that were mistakes.
Balanced accuracy is the mean over the classes of the fraction of their rounds that were right. Supports and
bytes are those of the model at the end, over all classes; with more than two classes, each class has its own
budget. Rounds per second include
predicting and learning. They are an estimate if learners shared kernel values.</p>"""


def render(
    comparisons: AnyComparison | Mapping[str, AnyComparison],
    *,
    title: str = "Budgetron report",
    certificates: Certificates | Mapping[str, Certificates] | None = None,
    command: str | None = None,
    columns: Mapping[str, sections.Columns] | None = None,
) -> str:
    """Return a page about a comparison, or about several.

    Parameters
    ----------
    comparisons : Comparison or RegressionComparison, or mapping of stream names to them
        A learner has the same colour on all streams.
    title : str, default="Budgetron report"
    certificates : mapping of learner names to Certificates or str, optional
        A text explains why there is no certificate. If `comparisons` maps stream names, this maps stream
        names to such mappings.
    command : str, optional
        The command line that made the report, shown at its end.
    columns : mapping of stream names to lists of dicts, optional
        How the columns of each table were read, as `Encoder.describe` returns it.

    Returns
    -------
    str
        HTML. It depends only on the arguments and on the date, which the environment variable
        ``SOURCE_DATE_EPOCH`` fixes.

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
    streams: Mapping[str, AnyComparison]
    streams = comparisons if isinstance(comparisons, Mapping) else {"": comparisons}
    if not streams:
        raise ValueError("comparisons must hold at least one stream")
    given = _certificates(streams, (certificates or {}) if several else {"": certificates or {}})
    names = dict.fromkeys(result.name for comparison in streams.values() for result in comparison.results)
    numbers = {name: i for i, name in enumerate(names)}
    parts = [f"<h1>{escape(title)}</h1>"]
    if len(streams) > 1:
        parts.append(_overview(streams))
    for i, (name, comparison) in enumerate(streams.items(), 1):
        heading = f"<h2>{escape(name)}</h2>\n" if several else ""
        content = _stream(comparison, given.get(name, {}), numbers, f"stream-{i}")
        if columns is not None and name in columns:
            content += "\n" + sections.columns(columns[name])
        parts.append(f'<section id="stream-{i}">\n{heading}{content}\n</section>')
    reading = [READING] if any(isinstance(one, Comparison) for one in streams.values()) else []
    numeric = any(isinstance(one, RegressionComparison) for one in streams.values())
    parts.append(_footer(command, [*reading, *([regression.READING] if numeric else [])]))
    return document(title, "\n".join(parts))


def write(
    path: str | os.PathLike[str],
    comparisons: AnyComparison | Mapping[str, AnyComparison],
    *,
    title: str = "Budgetron report",
    certificates: Certificates | Mapping[str, Certificates] | None = None,
    command: str | None = None,
    columns: Mapping[str, sections.Columns] | None = None,
) -> None:
    """Write the page that `render` returns, atomically.

    Parameters
    ----------
    path : path-like
        An existing file is replaced once the new one is complete.
    comparisons, title, certificates, command, columns
        As in `render`.

    Raises
    ------
    OSError
        If the page cannot be written. An existing file is then unchanged.
    """
    page = render(comparisons, title=title, certificates=certificates, command=command, columns=columns)
    with atomic_write(path) as file:
        file.write(page.encode())


def _certificates(
    streams: Mapping[str, AnyComparison], given: Mapping[str, object]
) -> dict[str, Certificates]:
    """Return the certificates of each stream; raise an error if one belongs to no stream or learner."""
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


# ---------------------------------------------------------------------- summary


def _overview(streams: Mapping[str, AnyComparison]) -> str:
    """Return a table with one row per stream: a link, the best learner and its error."""
    heads = [
        '<th scope="col">Stream</th>',
        '<th scope="col" class="text">Smallest error</th>',
        '<th scope="col">Error</th>',
        '<th scope="col">Rounds</th>',
    ]
    rows = []
    for i, (name, comparison) in enumerate(streams.items(), 1):
        best = comparison.best()
        rows.append(
            f'<th scope="row"><a href="#stream-{i}">{escape(name)}</a></th>'
            f'<td class="text">{escape(best.name) if best.rounds else "-"}</td>'
            f"<td>{_error(best) if best.rounds else '-'}</td><td>{best.rounds:,}</td>"
        )
    return scroll(table("overview", heads, rows), "Overview of the streams")


def _error(result: Result | RegressionResult) -> str:
    if isinstance(result, RegressionResult):
        return f"RMSE {error_text(result.rmse)}"
    return f"{percent(result.error_rate)} %"


def _stream(
    comparison: AnyComparison, certificates: Certificates, numbers: Mapping[str, int], ident: str
) -> str:
    if not comparison[0].rounds:
        return '<div class="answer"><p>No rounds were played, so there are no results.</p></div>'
    parts = (
        _classes(comparison, numbers, ident)
        if isinstance(comparison, Comparison)
        else _numbers(comparison, numbers, ident)
    )
    if certificates:
        order = sorted(comparison.results, key=lambda result: result.loss)
        parts.append(sections.certified([result.name for result in order], certificates, numbers))
    return "\n".join(part for part in parts if part)


def _sorted(comparison: BaseComparison[R]) -> list[R]:
    """Return the results, the best first; ties keep their order."""
    return sorted(comparison.results, key=lambda result: result.loss)


def _classes(comparison: Comparison, numbers: Mapping[str, int], ident: str) -> list[str]:
    results = _sorted(comparison)
    return [
        _summary(comparison, results),
        sections.learners(results, numbers),
        sections.charts(results, numbers, ident),
        relevant_features(results, comparison.feature_names),
        prediction_sets(results),
        sections.rare(results),
        sections.confusions(results),
    ]


def _numbers(comparison: RegressionComparison, numbers: Mapping[str, int], ident: str) -> list[str]:
    results = _sorted(comparison)
    return [
        regression.summary(comparison, results),
        regression.learners(results, numbers),
        regression.charts(results, numbers, ident),
        regression.residuals(results, numbers, ident),
        prediction_sets(results),
        relevant_features(results, comparison.feature_names),
    ]


def _summary(comparison: Comparison, results: Sequence[Result]) -> str:
    best = results[0]
    ties = [escape(result.name) for result in results[1:] if result.mistakes == best.mistakes]
    claim = f"<strong>{escape(best.name)}</strong> made "
    if len(results) > 1:
        claim += f"the fewest mistakes of {len(results)} learners: {best.mistakes:,}"
    else:
        claim += f"{best.mistakes:,} mistake{'' if best.mistakes == 1 else 's'}"
    claim += f" in {rounds_text(best.rounds)}, "
    claim += f"an error of <strong>{percent(best.error_rate)} %</strong>"
    contents = [f"{best.supports:,} support{'' if best.supports == 1 else 's'}"] if best.supports else []
    contents += [format_bytes(best.nbytes)] if best.nbytes else []
    claim += f", with {' in '.join(contents)}." if contents else "."
    if ties:
        shown = ", ".join(ties[:3]) + (f" and {len(ties) - 3} more" if len(ties) > 3 else "")
        claim += f" The same number was made by {shown}."
    counts = best.confusion.sum(axis=1)
    facts = _balance(comparison, counts)
    facts += f" Always predicting {escape(comparison.classes[counts.argmax()])} would be wrong in "
    facts += f"{percent(1 - counts.max() / counts.sum())} % of the rounds."
    if comparison.delay:
        facts += f" Labels arrived {rounds_text(comparison.delay)} late."
    cheaper = _cheaper(comparison, best)
    return f'<div class="answer"><p>{claim}</p>\n{cheaper}<p>{facts}</p></div>'


def _cheaper(comparison: Comparison, best: Result) -> str:
    """Return a paragraph about learners with more mistakes that no other beats in time and memory."""
    others = sorted(
        (r for r in comparison.efficient() if r.mistakes > best.mistakes), key=lambda r: r.mistakes
    )
    if not others or not best.seconds:
        return ""
    parts = []
    for result in others[:MOST_CHEAPER]:
        costs = [f"{_share(result.seconds, best.seconds)} of the time"]
        if result.nbytes and best.nbytes:
            costs.append(f"{_share(result.nbytes, best.nbytes)} of the memory")
        parts.append(f"{escape(result.name)} {percent(result.error_rate)} % in {' and '.join(costs)}")
    return f"<p>Errors of learners that take less time or less memory: {'; '.join(parts)}.</p>\n"


def _share(cost: float, of: float) -> str:
    share = 100 * cost / of
    return f"{share:.0f} %" if share >= 10 else f"{share:.1g} %" if share < 1 else f"{share:.1f} %"


def _balance(comparison: Comparison, counts: NDArray[np.int64]) -> str:
    shares = [
        f"{escape(c)} ({100 * n / counts.sum():.1f} %)"
        for c, n in zip(comparison.classes, counts, strict=True)
    ]
    if len(shares) <= sections.MOST_CLASSES:
        return f"{len(shares)} classes: {', '.join(shares)}."
    return f"{len(shares)} classes, from {shares[counts.argmin()]} to {shares[counts.argmax()]}."


# ---------------------------------------------------------------------- footer


def _footer(command: str | None, reading: Sequence[str]) -> str:
    # Reproducible builds set this variable.
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    made = datetime.fromtimestamp(seconds, UTC)
    explained = "\n".join(reading)
    call = f"\n<p>Command: <code>{escape(command)}</code></p>" if command else ""
    return f"""<footer>
<h3>How to read this</h3>
{explained}
<p>Made on <time datetime="{made:%Y-%m-%dT%H:%M:%SZ}">{made:%d %B %Y, %H:%M} UTC</time> by Budgetron
{version("budgetron")} with NumPy {np.__version__} and Python {platform.python_version()}.</p>{call}
</footer>"""
