"""The commands about the papers: their data sets and their experiments."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from budgetron import datasets as sets
from budgetron.cli._sources import BUNDLED
from budgetron.cli._terminal import INTERRUPTED, err, friendly, out

__all__ = ["datasets", "reproduce"]


def datasets(
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Which data sets are here, and which can be fetched; data:NAME learns one."""
    with friendly():
        records = sets.available()
        if as_json:
            plain = [{**vars(record)} for record in records]
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
            table.add_row(name, f"{stream.rows:,}", str(stream.features), str(stream.classes), where)
        for record in records:
            rows = ", ".join(f"{part} {n:,}" for part, n in record.rows.items())
            table.add_row(record.name, rows, str(record.features), str(record.classes), _where(record))
        out.print(table)
        folder = os.environ.get("BUDGETRON_DATA")
        said = f"BUDGETRON_DATA is {folder}." if folder else "BUDGETRON_DATA names no folder with data."
        err.print(f"{said} What is not there is fetched from OpenML when it is asked for.", highlight=False)


def _where(record: Any) -> str:
    if record.present:
        return "in the folder"
    return "fetched before" if record.cached else "OpenML"


def reproduce(
    only: Annotated[
        list[str] | None,
        typer.Argument(help="adult, vehicle, gaussians (002); mnist, usps, census, noise-5, noise-10 (003)."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick/--full", help="Minutes: fewer permutations, four of the 126 digit problems."),
    ] = False,
    page: Annotated[
        Path, typer.Option("--out", "-o", help="The page; pictures and tables go to a folder of that name.")
    ] = Path("reproduction.md"),
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes at a time.")] = None,
) -> None:
    """Run the papers' experiments: 002 Tables 1-3, Figures 1-3; 003 Table 8.1, Figures 4-7.

    Goes on where it was interrupted. The full run takes hours, --quick minutes.
    """
    from budgetron.experiments import reproduce as run

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with friendly(), Progress(*columns, console=err, disable=not err.is_terminal) as progress:
        task = progress.add_task("starting", total=None)

        def watch(done: int, total: int, job: Any) -> None:
            name = "starting" if job is None else f"{job.study}"
            progress.update(task, completed=done, total=total, description=name)

        try:
            made = run(page, only or None, quick=quick, workers=jobs, watch=watch)
        except KeyboardInterrupt:
            progress.stop()
            err.print("Interrupted; the same command goes on from here.", highlight=False)
            raise typer.Exit(INTERRUPTED) from None
    for table in made.tables.values():
        out.print(table.to_text(), markup=False, highlight=False)
    for study, reason in made.missing.items():
        err.print(f"{study} was not run: {reason}", markup=False, highlight=False)
    for path in made.files:
        err.print(f"Written: {path}", highlight=False)
