"""The command line. Options and messages here; everything that is done is done by the library."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from budgetron.cli._learn import compare, run, tune
from budgetron.cli._papers import datasets, reproduce
from budgetron.cli._predict import predict

__all__ = ["app"]

app = typer.Typer(
    help="Learn to classify endless streams in fixed memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (run, compare, predict, tune, reproduce, datasets):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"budgetron {version('budgetron')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn to classify endless streams in fixed memory."""
