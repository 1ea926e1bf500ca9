"""Print and write the results of passes over streams."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from budgetron._evaluation.by_name import names
from budgetron._evaluation.coverage import coverage_of
from budgetron.cli._interrupts import interrupts
from budgetron.cli._messages import err, out
from budgetron.cli._pass import Certificates, Pass
from budgetron.cli._sources import description, print_reading
from budgetron.cli._tasks import AnyComparison, AnyResult, Task

if TYPE_CHECKING:
    from budgetron.certificates import Certificate

__all__ = ["exit_if_interrupted", "grid", "present", "suggest", "suggest_tuning"]

CERTIFICATE_FIELDS = (
    "theorem",
    "quantity",
    "count",
    "bound",
    "competitor",
    "norm",
    "losses",
    "shift",
    "rounds",
)


def present(
    passes: dict[str, Pass], certificates: dict[str, Certificates], report_to: Path | None, as_json: bool
) -> None:
    """Print tables or JSON, and write the HTML page if its path is given."""
    if report_to is not None:
        from budgetron import report  # takes long to import

        comparisons = {name: done.comparison for name, done in passes.items()}
        command = shlex.join(["budgetron", *sys.argv[1:]])
        columns = {
            name: done.blocks.stream.encoder.describe()
            for name, done in passes.items()
            if done.blocks.stream.encoder is not None
        }
        report.write(
            report_to, comparisons, certificates=certificates or None, command=command, columns=columns
        )
    if as_json:
        _print_json(passes, certificates)
        return
    for name, done in passes.items():
        if not err.is_terminal:
            print_reading(done.blocks.stream)
        title = f"{name}: {done.comparison[0].rounds:,} rounds"
        for table in done.task.tables(done.comparison.results, title):
            out.print(table)
        for learner, entry in certificates.get(name, {}).items():
            out.print_lines(f"{learner}: {entry}")
    if report_to is not None:
        err.print(f"Report: {report_to}")


def _print_json(passes: dict[str, Pass], certificates: dict[str, Certificates]) -> None:
    streams: dict[str, dict[str, object]] = {}
    for name, done in passes.items():
        stream = done.blocks.stream
        streams[name] = {"read": description(stream), "task": stream.task}
        if stream.encoder is not None:
            streams[name]["columns"] = stream.encoder.describe()
        streams[name] |= json.loads(done.comparison.to_json())
        found = {result.name: coverage_of(result.model) for result in done.comparison}
        if any(found.values()):
            kind = "prediction_intervals" if stream.task == "regression" else "prediction_sets"
            streams[name][kind] = found
        if name in certificates:
            streams[name]["certificates"] = {
                learner: {"none": entry} if isinstance(entry, str) else _plain_certificate(entry)
                for learner, entry in certificates[name].items()
            }
    sys.stdout.write(json.dumps({"streams": streams}) + "\n")


def _plain_certificate(certificate: Certificate) -> dict[str, object]:
    fields = {name: getattr(certificate, name) for name in CERTIFICATE_FIELDS}
    return fields | {"holds": certificate.holds}


def suggest_tuning(best: AnyResult, source: str, options: Sequence[str]) -> None:
    """Suggest how to tune the best learner, if it has something to tune."""
    known = names() | names("regression")
    name = {cls: name for name, cls in known.items()}.get(type(best.model))
    if name is not None and "gamma" in best.model.get_params() and source != "-":
        suggest(["tune", source, *options, "--learner", name], "finds a width and a budget for it")


def suggest(arguments: Sequence[str], reason: str) -> None:
    """Print the command to run next."""
    err.print(f"Next: {shlex.join(['budgetron', *arguments])}  ({reason})")


def grid(
    errors: dict[tuple[int, float], float],
    budgets: Sequence[int],
    widths: Sequence[float],
    chosen: tuple[int, float],
    title: str,
    task: Task,
) -> Table:
    """Return a table of the error for each width (row) and budget (column)."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("gamma", justify="right")
    for budget in budgets:
        table.add_column(f"budget {budget}" if budget else "no budget", justify="right")
    for width in widths:
        cells = {budget: task.cell(errors[budget, width]) for budget in budgets}
        marked = [
            Text(cell, "bold green") if (budget, width) == chosen else cell for budget, cell in cells.items()
        ]
        table.add_row(f"{width:g}", *marked)
    return table


def exit_if_interrupted(complete: bool, comparison: AnyComparison) -> None:
    """Exit with the code of an interrupt, if the pass was interrupted."""
    if not complete:
        err.print(f"Interrupted after {comparison[0].rounds:,} rounds.")
        raise typer.Exit(interrupts.exit_code)
