"""Messages, tables, progress, and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import typer
from rich import box
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._util.atomic import check_target
from budgetron._util.units import format_bytes
from budgetron.cli._console import LiteralColumn, SafeConsole
from budgetron.cli._interrupts import interrupts
from budgetron.evaluate import Comparison, Result
from budgetron.streams import Advice, StreamError

__all__ = [
    "BAD_INPUT",
    "OPTIONS",
    "check_output",
    "err",
    "explained",
    "friendly",
    "out",
    "progress",
    "results_table",
]

BAD_INPUT = 2

# Errors that the user can fix; others are errors of the program.
FRIENDLY = (ValueError, TypeError, ImportError, OSError, MemoryError, RecursionError, OverflowError)

# The advice of `budgetron.streams`, in terms of options instead of parameters
OPTIONS = {
    Advice.FILL_MISSING: "fill it in, or give --missing mean",
    Advice.DECIMAL: "give --decimal . or --decimal ,",
    Advice.DATE_ORDER: "give --date-order day or --date-order month",
    Advice.NO_HEADER: "if the file has no header, give --no-header",
    Advice.LIST_CLASSES: "give all labels with --classes",
    Advice.NAME_TARGET: "give --target",
    Advice.ZERO_BASED: "if they count from 0, give --zero-based",
    Advice.SET_FEATURES: "give --features",
    Advice.CONFIRM_FEATURES: "correct the line; if the index is right, give the number of features with "
    "--features",
    Advice.CATEGORICAL: "if the column holds categories, give its name with --categorical",
    Advice.IGNORE_COLUMN: "unless it is the target, give its name with --ignore",
    Advice.TABLE_ONLY: "--target, --categorical, --numeric, --keep and --ignore are for tables",
    Advice.LIBSVM_ONLY: "--features and --zero-based are for LIBSVM files",
    Advice.LIBSVM_LINE: Advice.LIBSVM_LINE.value,
    Advice.SAME_COLUMNS: Advice.SAME_COLUMNS.value,
}

# Results go to standard output, everything else to standard error.
out = SafeConsole()
err = SafeConsole(stderr=True)


@contextmanager
def friendly(advice: Mapping[Advice, str] = OPTIONS) -> Iterator[None]:
    """Turn errors that the user can fix into one message and exit code 2, and handle interrupts."""
    try:
        with explained(advice), interrupts.handled():
            yield
            sys.stdout.flush()  # here, so that a full disk is reported
    except KeyboardInterrupt:
        err.print("Interrupted.")
        raise typer.Exit(interrupts.exit_code) from None


@contextmanager
def explained(advice: Mapping[Advice, str] = OPTIONS) -> Iterator[None]:
    """Turn errors that the user can fix into one message and exit code 2."""
    try:
        yield
    except BrokenPipeError:  # as in `budgetron predict ... | head`: the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except FRIENDLY as error:
        if isinstance(error, OSError) and error.filename is None and error.strerror:
            error.filename = "standard output"
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        err.print(f"budgetron: {_message(error, advice)}", style="red")
        raise typer.Exit(BAD_INPUT) from None


def _message(error: Exception, advice: Mapping[Advice, str]) -> str:
    if isinstance(error, StreamError) and error.advice is not None:
        return f"{error.problem}; {advice[error.advice]}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}" if str(error) else "not enough memory"
    if isinstance(error, RecursionError):
        return "the input is nested too deeply"
    if isinstance(error, OverflowError):
        return f"a number is too large: {error}"
    return str(error)


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


class _Rows(Protocol):
    """Rows whose progress can be shown; in bytes if `n_rows` is None."""

    n_rows: int | None
    size: int | None

    @property
    def position(self) -> int: ...


@contextmanager
def progress(rows: _Rows, title: str, comparison: Comparison) -> Iterator[Callable[[], None]]:
    """On a terminal, show a line with error, supports and rate; yield the function that updates it."""
    before = comparison[0].rounds  # of the run that this one continues
    columns = (
        SpinnerColumn(),
        LiteralColumn("{task.description}"),
        BarColumn(bar_width=16),
        LiteralColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        total = rows.n_rows or rows.size
        done = before if rows.n_rows else rows.position if before else 0
        task: TaskID = bar.add_task(title, total=total, completed=done, figures="")

        def show() -> None:
            best = comparison.best()
            seconds = bar.tasks[0].elapsed or 1e-9
            done = best.rounds if rows.n_rows else rows.position
            figures = (
                f"{best.rounds:,} rounds, {100 * best.error_rate:.2f} % error ({100 * best.window_error:.1f} "
                f"recently), {best.supports:,} supports, {short((best.rounds - before) / seconds)}/s"
            )
            bar.update(task, completed=done, figures=figures)

        yield show


def results_table(results: Sequence[Result], title: str) -> Table:
    """Return a table of the learners, the best first; the title has the error of the most frequent class."""
    counts = results[0].confusion.sum(axis=1)
    most = counts.argmax()
    baseline = 100 - 100 * counts[most] / max(1, counts.sum())
    title += f"; always predicting {results[0].classes[most]} has {baseline:.2f} % error"
    many = len(counts) > 2 and any(result.supports for result in results)
    kernel_models = [result.model for result in results if isinstance(result.model, KernelClassifier)]
    widths = sorted({f"{model.gamma_:.4g}" for model in kernel_models})
    notes = [f"gamma {', '.join(widths)}."] if widths else []
    notes += ["The budget is per class; supports are those of all classes."] if many else []
    table = Table(
        caption=" ".join(notes) or None,
        caption_justify="left",
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("learner", overflow="fold", min_width=26)
    recent = f"last\n{results[0].window:,}"
    for column in ("error\n%", recent, "bal.\nacc. %", "\nsupports", "\nmemory", "rounds/\nsecond"):
        table.add_column(Text(column), justify="right", no_wrap=True)
    for result in sorted(results, key=lambda result: result.error_rate):
        table.add_row(
            result.name,
            f"{100 * result.error_rate:.2f}",
            f"{100 * result.window_error:.2f}",
            f"{100 * result.balanced_accuracy:.2f}",
            f"{result.supports:,}" if result.supports else "-",
            format_bytes(result.nbytes) if result.nbytes else "-",
            short(result.rounds_per_second),
        )
    return table


def short(n: float) -> str:
    """Return a number with about three digits."""
    for unit in ("", "k"):
        if n < 1000:
            return f"{n:.0f}{unit}"
        n /= 1000
    return f"{n:.1f}M"
