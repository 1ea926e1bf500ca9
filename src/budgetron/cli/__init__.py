"""The command line: its options and messages. The library does the work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from budgetron.cli._console import visible
from budgetron.cli._inspect import inspect
from budgetron.cli._learn import compare, run, tune
from budgetron.cli._papers import datasets, reproduce
from budgetron.cli._predict import predict
from budgetron.cli._terminal import explained

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """The commands. Errors in the arguments, which typer prints, show control characters as escapes."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _visible_messages():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _visible_messages():
            return super().invoke(ctx)


@contextmanager
def _visible_messages() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):  # where click has its messages
            error.message = "\n".join(map(visible, message.split("\n")))  # type: ignore[attr-defined]
        raise


app = typer.Typer(
    cls=_Commands,
    help="Classify endless streams in fixed memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (run, compare, predict, tune, inspect, reproduce, datasets):
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


def main() -> None:
    """Run the command line."""
    for stream in ("stdin", "stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed by the caller, as in `budgetron ... >&-`
            setattr(sys, stream, open(os.devnull, "r" if stream == "stdin" else "w"))  # noqa: SIM115
    try:
        with explained():  # for what is outside of the commands: arguments, help
            app()
    except typer.Exit as error:
        sys.exit(error.exit_code)
