"""The command that shows how a file will be read."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from budgetron.cli import _options as opt
from budgetron.cli._messages import err, friendly, out
from budgetron.cli._sources import Source, description, remarks, takes_rows
from budgetron.streams import Stream

__all__ = ["inspect"]


@takes_rows
def inspect(
    source: Annotated[str, typer.Argument(help=opt.SOURCE)],
    settings: Source,
    as_json: opt.Json = False,
) -> None:
    """Show how each column of a file will be read, without learning anything.

    budgetron inspect data.csv --target label
    """
    with friendly():
        stream = settings.open(source, scan=False)
        if as_json:
            sys.stdout.write(json.dumps(_plain(stream)) + "\n")
            return
        out.print(description(stream))
        if stream.encoder is not None:
            out.print(_table(stream))
        for line in remarks(stream):
            err.print(line)


def _plain(stream: Stream) -> dict[str, object]:
    rows, missing = stream.count_missing()
    described = [] if stream.encoder is None else stream.encoder.describe()
    columns: list[dict[str, object]] = [
        {**row, "missing": missing.get(str(row["column"]))} for row in described
    ]
    classes = [] if stream.classes is None else stream.classes.tolist()
    return {
        "stream": stream.name,
        "target": stream.target,
        "task": stream.task,
        "classes": classes,
        "features": stream.n_features,
        "first_rows": rows,
        "columns": columns,
    }


def _table(stream: Stream) -> Table:
    assert stream.encoder is not None
    rows, missing = stream.count_missing()
    caption = f"Missing values are counted in the first {rows:,} rows." if any(missing.values()) else None
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=caption, caption_justify="left")
    table.add_column("column", overflow="fold")
    table.add_column("read as", overflow="fold")
    table.add_column("features", justify="right", no_wrap=True)
    table.add_column("missing", justify="right", no_wrap=True)
    table.add_column("remark", overflow="fold")
    if stream.target is not None:
        labels = 0 if stream.classes is None else len(stream.classes)
        numbers = stream.task == "regression"
        read_as = "number to predict" if numbers else f"label, {labels} classes in the first rows"
        remark = "give --task classification for classes" if numbers else ""
        table.add_row(stream.target, read_as, "-", "-", remark)
    for row in stream.encoder.describe():
        gone = missing.get(str(row["column"]))
        shown = "-" if gone is None else f"{gone:,}"
        table.add_row(
            str(row["column"]), str(row["read_as"]), str(row["features"]), shown, str(row["remark"])
        )
    return table
