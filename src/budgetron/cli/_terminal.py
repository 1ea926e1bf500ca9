"""What people see: messages, tables, progress, and a clean end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from budgetron._util.atomic import check_target
from budgetron._util.units import format_bytes
from budgetron.evaluate import Comparison, Result

__all__ = [
    "BAD_INPUT",
    "TYPED",
    "check_output",
    "friendly",
    "interruptible",
    "out",
    "results_table",
    "watching",
]

BAD_INPUT, INTERRUPTED = 2, 130

# What the library says to those who write Python, as one types it here
TYPED = {
    'set missing to "mean"': "give --missing mean",
    "if there is no header, say so": "if there is no header, give --no-header",
    "; give classes": "; give --classes",
    "is the target? There": "is the target? Give --target; there",
    "unless zero_based is set": "unless --zero-based is given",
    "n_features and zero_based are": "--features and --zero-based are",
    "as categorical": "by --categorical",
    "name it in ignore": "give --ignore and its name",
    "target, encoder, scale, categorical and ignore": "--target, --categorical and --ignore",
    "by n_features; give n_features": "by --features; give --features",
}

# Results go to standard output, everything else to standard error.
out = Console(soft_wrap=True)
err = Console(stderr=True)


@contextmanager
def friendly(typed: Mapping[str, str] = TYPED) -> Iterator[None]:
    """Turn what a user can mend into one message and exit code 2, in the words of the command line."""
    try:
        yield
        sys.stdout.flush()  # here, where a full disk can still be told of
    except KeyboardInterrupt:
        err.print("Interrupted before anything was learned.", highlight=False)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:  # as in `budgetron predict ... | head`: nobody is listening any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except (ValueError, TypeError, ImportError, OSError) as error:
        if isinstance(error, OSError) and error.filename is None and error.strerror:
            error.filename = "standard output"
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        reason = (
            f"{error.filename}: {error.strerror}"
            if isinstance(error, OSError) and error.strerror
            else str(error)
        )
        for said, here in typed.items():
            reason = reason.replace(said, here)
        err.print(f"budgetron: {reason}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(BAD_INPUT) from None


@contextmanager
def interruptible() -> Iterator[None]:
    """Heed Ctrl-C, whatever the shell that started us thinks of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def check_output(path: Path | None, sources: Sequence[str]) -> None:
    """Say now, not after an hour of learning, that a file cannot be written."""
    if path is None:
        return
    check_target(path)
    folder = path.absolute().parent
    if any(os.path.exists(source) and path.exists() and path.samefile(source) for source in sources):
        raise ValueError(f"{path} is where the rows are; give the name of another file")
    if not folder.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{path} cannot be written: the folder {folder} is read-only")


@contextmanager
def watching(stream: Any, title: str, comparison: Comparison) -> Iterator[Any]:
    """A live line with error, supports and rate, on a terminal; elsewhere nothing."""
    before = comparison[0].rounds  # by a run that this one goes on with
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        total = stream.n_rows or stream.size
        done = before if stream.n_rows else stream.position if before else 0
        task: TaskID = progress.add_task(title, total=total, completed=done, figures="")

        def show() -> None:
            best = comparison.best()
            seconds = progress.tasks[0].elapsed or 1e-9
            done = best.rounds if stream.n_rows else stream.position
            figures = (
                f"{best.rounds:,} rounds, {100 * best.error_rate:.2f} % error ({100 * best.window_error:.1f} "
                f"lately), {best.supports:,} supports, {short((best.rounds - before) / seconds)}/s"
            )
            progress.update(task, completed=done, figures=figures)

        yield show


def results_table(results: Sequence[Result], title: str) -> Table:
    """The learners, the best first; with the error of always answering the commonest class."""
    counts = results[0].confusion.sum(axis=1)
    most = counts.argmax()
    always = 100 - 100 * counts[most] / max(1, counts.sum())
    title += f"; always answering {results[0].classes[most]} errs in {always:.2f} %"
    many = len(counts) > 2 and any(result.supports for result in results)
    widths = sorted({f"{result.model.gamma_:.4g}" for result in results if hasattr(result.model, "gamma_")})
    notes = [f"gamma {', '.join(widths)}."] if widths else []
    notes += ["A budget is for one class; supports are those of all."] if many else []
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
        table.add_column(column, justify="right", no_wrap=True)
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
    """A number in three digits or so."""
    for unit in ("", "k"):
        if n < 1000:
            return f"{n:.0f}{unit}"
        n /= 1000
    return f"{n:.1f}M"
