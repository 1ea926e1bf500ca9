"""Tables, and checks of the files to write."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rich import box
from rich.table import Table
from rich.text import Text

from budgetron._base.kernel_estimator import KernelEstimator
from budgetron._evaluation.coverage import coverage_of, size_text
from budgetron._evaluation.ranking import rare_classes
from budgetron._util.atomic import check_target
from budgetron._util.units import format_bytes
from budgetron.evaluate import RegressionResult, Result

__all__ = [
    "check_output",
    "coverage_table",
    "learners_table",
    "rare_table",
    "results_table",
    "short",
]

# The columns of errors in a table: their headings, and functions that return the text for a result
Columns: TypeAlias = dict[str, Callable[[Any], str]]


def check_output(path: Path | None, sources: Sequence[str]) -> None:
    """Raise an error now, not after an hour of learning, if a file cannot be written."""
    if path is None:
        return
    check_target(path)
    folder = path.absolute().parent
    if any(os.path.exists(source) and path.exists() and path.samefile(source) for source in sources):
        raise ValueError(f"{path} is an input file; give the name of another file")
    if not folder.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{path} cannot be written: the folder {folder} is read-only")


def results_table(results: Sequence[Result], title: str) -> Table:
    """Return a table of the learners, the best first; the title has the error of the most frequent class."""
    counts = results[0].confusion.sum(axis=1)
    most, baseline = results[0].classes[counts.argmax()], results[0].baseline_error
    title += f"; always predicting {most} has {100 * baseline:.2f} % error"
    many = len(counts) > 2 and any(result.supports for result in results)
    notes = ["The budget is per class; supports are those of all classes."] if many else []
    worse = [result.name for result in results if result.error_rate > baseline]
    notes += [f"! is worse than always predicting {most}."] if worse else []
    recent = f"last\n{results[0].window:,}"
    columns: Columns = {
        "error\n%": lambda r: f"{'! ' if r.name in worse else ''}{100 * r.error_rate:.2f}",
        recent: lambda r: f"{100 * r.window_error:.2f}",
        "bal.\nacc. %": lambda r: f"{100 * r.balanced_accuracy:.2f}",
    }
    ordered = sorted(results, key=lambda result: result.error_rate)
    return learners_table(ordered, title, columns, notes)


def learners_table(
    results: Sequence[Result] | Sequence[RegressionResult],
    title: str,
    columns: Columns,
    notes: Sequence[str],
    name_width: int = 26,
) -> Table:
    """Return a table of learners in the given order: errors, then supports, memory and speed.

    Names are at least `name_width` wide, so that columns of several tables have the same places.
    """
    kernel_models = [result.model for result in results if isinstance(result.model, KernelEstimator)]
    widths = sorted({f"{model.gamma_:.4g}" for model in kernel_models})
    notes = [*([f"Kernel learners used gamma {', '.join(widths)}."] if widths else []), *notes]
    table = Table(
        caption=" ".join(notes) or None,
        caption_justify="left",
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("learner", overflow="fold", min_width=name_width)
    for column in (*columns, "\nsupports", "\nmemory", "rounds/\nsecond"):
        table.add_column(Text(column), justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            result.name,
            *(text_of(result) for text_of in columns.values()),
            f"{result.supports:,}" if result.supports else "-",
            format_bytes(result.nbytes) if result.nbytes else "-",
            short(result.rounds_per_second),
        )
    return table


def rare_table(results: Sequence[Result]) -> Table | None:
    """Return a table with precision, recall and AUC of rare classes; None if no class is rare."""
    counts = results[0].confusion.sum(axis=1)
    if not (rare := rare_classes(counts)):
        return None
    table = Table(
        title="Rare classes",
        caption=_rare_advice(results, rare),
        caption_justify="left",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("learner", overflow="fold", min_width=26)
    table.add_column("class", overflow="fold")
    for column in ("share %", "precision %", "recall %", "AUC"):
        table.add_column(column, justify="right", no_wrap=True)
    for result in sorted(results, key=lambda result: result.error_rate):
        for i in rare:
            table.add_row(
                result.name,
                str(result.classes[i]),
                f"{100 * counts[i] / counts.sum():.2f}",
                f"{100 * result.precision[i]:.1f}",
                f"{100 * result.recall[i]:.1f}",
                "-" if (area := result.class_auc[i]) is None else f"{area:.3f}",
            )
    return table


def _rare_advice(results: Sequence[Result], rare: Sequence[int]) -> str | None:
    """Return how to find more rows of a rare class of which every learner finds less than half.

    None if there is no such class, or if the learners already have weights of classes.
    """
    missed = [i for i in rare if max(result.recall[i] for result in results) < 0.5]
    models = [result.model for result in results]
    if not missed or any(getattr(model, "class_weight", None) is not None for model in models):
        return None
    name, rounds = str(results[0].classes[missed[0]]), results[0].confusion.sum(axis=1)
    ways = []
    if any(hasattr(model, "class_weight") for model in models):
        weight = (rounds.sum() - rounds[missed[0]]) / rounds[missed[0]]
        ways.append(f"learn with --class-weight {shlex.quote(f'{name}={weight:.0f}')}")
    if any(hasattr(model, "predict_proba") for model in models):
        ways.append(f"predict with --threshold {shlex.quote(f'{name}=0.1')}")
    return f"To find more rows of {name}, {' or '.join(ways)}, for example." if ways else None


def coverage_table(results: Sequence[Result] | Sequence[RegressionResult]) -> Table | None:
    """Return a table with coverage and size of prediction sets or intervals; None if no learner has them."""
    ordered: list[Result | RegressionResult] = sorted(results, key=lambda result: result.loss)
    found = [(result, coverage_of(result.model)) for result in ordered]
    if not any(figures for _, figures in found):
        return None
    numbers = isinstance(results[0], RegressionResult)
    table = Table(
        title="Prediction intervals" if numbers else "Prediction sets",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("learner", overflow="fold", min_width=26)
    size = "median width" if numbers else "classes per set"
    for column in ("aim %", "coverage %", "guaranteed %", size):
        table.add_column(column, justify="right", no_wrap=True)
    for result, figures in found:
        if figures is not None:
            shares = [f"{100 * figures[name]:.2f}" for name in ("aim", "coverage", "guaranteed")]
            table.add_row(result.name, *shares, size_text(result, figures))
    return table


def short(n: float) -> str:
    """Return a number with about three digits."""
    for unit in ("", "k"):
        if n < 1000:
            return f"{n:.0f}{unit}"
        n /= 1000
    return f"{n:.1f}M"
