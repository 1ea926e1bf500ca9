"""The commands for the papers: their data sets and their experiments."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Protocol

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

from budgetron import datasets as sets
from budgetron.cli._interrupts import interrupts
from budgetron.cli._messages import err, friendly, out
from budgetron.cli._progress import LiteralColumn
from budgetron.cli._sources import BUNDLED

__all__ = ["datasets", "reproduce"]


class _Job(Protocol):
    @property
    def study(self) -> str: ...


def datasets(
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the data sets and where each is stored. Use data:NAME as a source."""
    with friendly():
        records = sets.available()
        if as_json:
            plain = [dict(vars(record)) for record in records]
            facts = ("rows", "features", "classes", "description")
            bundled = [
                {"name": name} | {fact: getattr(stream, fact) for fact in facts}
                for name, stream in BUNDLED.items()
            ]
            sys.stdout.write(
                json.dumps({"bundled": bundled, "datasets": plain}, indent=2, default=str) + "\n"
            )
            return
        table = Table(title="Data sets", title_justify="left", title_style="bold")
        for column in ("name", "rows", "features", "classes", "where"):
            table.add_column(column, justify="right" if column in ("features", "classes") else "left")
        for name, stream in BUNDLED.items():
            where = f"bundled: {stream.description}"
            classes = str(stream.classes) if stream.classes else "numbers"
            table.add_row(name, f"{stream.rows:,}", str(stream.features), classes, where)
        for record in records:
            rows = ", ".join(f"{part} {n:,}" for part, n in record.rows.items())
            table.add_row(record.name, rows, str(record.features), str(record.classes), _where(record))
        out.print(table)
        folder = os.environ.get("BUDGETRON_DATA")
        where = f"The data folder is {folder}." if folder else "BUDGETRON_DATA is not set to a data folder."
        err.print(f"{where} Other data sets are downloaded from OpenML when they are used.")


def _where(record: sets.Available) -> str:
    if record.present:
        return "in the folder"
    return "downloaded" if record.cached else "OpenML"


def reproduce(
    only: Annotated[
        list[str] | None,
        typer.Argument(
            help="adult, vehicle, gaussians (Projectron paper); mnist, usps, census, noise-5, noise-10, and "
            "census-widths, usps-widths for several kernel widths (Forgetron paper). Default: all."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick/--full",
            help="--quick runs fewer permutations and 4 of the 126 digit problems, in minutes.",
        ),
    ] = False,
    page: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="The page; figures and tables are written to a folder of the same name."
        ),
    ] = Path("reproduction.md"),
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Number of parallel processes.")
    ] = None,
) -> None:
    """Run the experiments of the Projectron and Forgetron papers.

    These are Tables 1-3 and Figures 1-3 of the Projectron paper, and Table 8.1 and Figures 4-7 of the
    Forgetron paper. An interrupted run continues when it is started again. The full run takes hours, --quick
    minutes.
    """
    from budgetron.experiments import reproduce as run

    columns = (LiteralColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with friendly(), Progress(*columns, console=err, disable=not err.is_terminal) as progress:
        task = progress.add_task("starting", total=None)

        def watch(done: int, total: int, job: _Job | None) -> None:
            name = "starting" if job is None else job.study
            progress.update(task, completed=done, total=total, description=name)

        try:
            result = run(page, only or None, quick=quick, workers=jobs, watch=watch)
        except KeyboardInterrupt:
            progress.stop()
            err.print("Interrupted. The same command continues from here.")
            raise typer.Exit(interrupts.exit_code) from None
    for table in result.tables.values():
        out.print_lines(table.to_text())
    for study, reason in result.missing.items():
        err.print(f"{study} was not run: {reason}")
    for path in result.files:
        err.print(f"Written: {path}")
