"""The command line: its options and messages. The library does the work."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from budgetron.cli._learn import compare, run, tune
from budgetron.cli._papers import datasets, reproduce
from budgetron.cli._predict import predict

__all__ = ["app"]

app = typer.Typer(
    help="Classify endless streams in fixed memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (run, compare, predict, tune, reproduce, datasets):
    app.command()(command)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"budgetron {version('budgetron')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Classify endless streams in fixed memory."""
