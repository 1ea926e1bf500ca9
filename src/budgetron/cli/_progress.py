"""The line that shows the progress of a command on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from budgetron.cli._console import visible
from budgetron.cli._messages import err
from budgetron.cli._terminal import short
from budgetron.evaluate import Comparison, RegressionComparison, RegressionResult, Result

__all__ = ["LiteralColumn", "progress"]

WIDE = 120  # columns of a terminal for the whole progress line
LONGEST_TITLE = 30


class LiteralColumn(TextColumn):
    """A column of a progress line that shows fields of its task literally."""

    def render(self, task: Task) -> Text:
        """Return the text to show."""
        return Text(visible(self.text_format.format(task=task)))


class _Rows(Protocol):
    """Rows whose progress can be shown; in bytes if `n_rows` is None."""

    n_rows: int | None
    size: int | None

    @property
    def position(self) -> int: ...


@contextmanager
def progress(
    rows: _Rows,
    title: str,
    comparison: Comparison | RegressionComparison,
    figures_of: Callable[[Result | RegressionResult, bool], str],
) -> Iterator[Callable[[], None]]:
    """Show a line with error, supports and rate; yield the function that updates it.

    `figures_of` returns the error of a result in words, with more words on a wide terminal.
    """
    before = comparison[0].rounds  # of the run that this one continues
    wide = err.width >= WIDE
    title = title if len(title) <= LONGEST_TITLE else f"...{title[3 - LONGEST_TITLE :]}"
    columns: list[ProgressColumn] = [SpinnerColumn(), LiteralColumn("{task.description}")]
    columns += [BarColumn(bar_width=16)] if wide else []
    columns += [LiteralColumn("{task.fields[figures]}"), TimeElapsedColumn()]
    columns += [TimeRemainingColumn(compact=True)] if wide else []
    with Progress(*columns, console=err, transient=True) as bar:
        total = rows.n_rows or rows.size
        done = before if rows.n_rows else rows.position if before else 0
        task: TaskID = bar.add_task(title, total=total, completed=done, figures="")

        def show() -> None:
            best = comparison.best()
            seconds = bar.tasks[0].elapsed or 1e-9
            done = best.rounds if rows.n_rows else rows.position
            figures = f"{best.rounds:,} rounds, {figures_of(best, wide)}"
            figures += f", {best.supports:,} supports" if wide else ""
            figures += f", {short((best.rounds - before) / seconds)}/s"
            bar.update(task, completed=done, figures=figures)

        yield show
