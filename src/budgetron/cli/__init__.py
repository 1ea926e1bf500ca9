"""The command line: its options and messages. The library does the work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from budgetron.cli._console import visible
from budgetron.cli._interrupts import interrupts
from budgetron.cli._messages import explained, interruptible
from budgetron.cli._startup import avoid_slow_imports, postpone_collection, resume_collection

__all__ = ["COMMANDS", "app", "main"]

# The commands, the module of each, and the first line of its help. A module is imported when its command is
# used, so that `budgetron --help` need not wait for scikit-learn.
COMMANDS = {
    "run": ("_learn", "Learn a stream with one learner: predict each row, then see its label and learn."),
    "compare": ("_learn", "Compare learners, budgets or widths in one pass over a stream."),
    "predict": ("_predict", "Predict the rows of a file with a saved model, one line per row."),
    "serve": ("_serve", "Serve models over HTTP: predict rows, and learn labels when they arrive."),
    "tune": ("_learn", "Find a width and a budget by one pass over the first rows of a stream."),
    "inspect": ("_inspect", "Show how each column of a file will be read, without learning anything."),
    "reproduce": ("_papers", "Run the experiments of the Projectron and Forgetron papers."),
    "datasets": ("_papers", "List the data sets and where each is stored. Use data:NAME as a source."),
}


class _Flags:
    """A command whose help shows no type for options that take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of typer's class
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class _Commands(_Flags, TyperGroup):
    """The commands. Errors in the arguments, which typer prints, show control characters as escapes."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with its first line of help, but without its options."""
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name][1]) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command to run, with its options."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            command = _load(name)
        resume_collection()
        return name, command, rest

    def make_context(self, *args: Any, **options: Any) -> Any:
        with interruptible(), interrupts.held(), _visible_messages():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with interruptible(), _visible_messages():
            return super().invoke(ctx)


class _Command(_Flags, TyperCommand):
    """A command. A signal waits until its arguments are read.

    Typer reads them with a library whose compiled code prints the exception of a signal and goes on.
    """

    def make_context(self, *args: Any, **options: Any) -> Any:
        with interrupts.held():
            return super().make_context(*args, **options)


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
    help="Learn endless streams in fixed memory: predict classes or numbers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _load(name: str) -> Any:
    """Import a command."""
    single = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    single.command(name, cls=_Command)(getattr(import_module(f"budgetron.cli.{COMMANDS[name][0]}"), name))
    return typer.main.get_command(single)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"budgetron {version('budgetron')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn endless streams in fixed memory: predict classes or numbers."""


def main() -> None:
    """Run the command line."""
    for stream in ("stdin", "stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed by the caller, as in `budgetron ... >&-`
            setattr(sys, stream, open(os.devnull, "r" if stream == "stdin" else "w"))  # noqa: SIM115
    postpone_collection()
    avoid_slow_imports(sys.argv[1:])
    try:
        with explained():  # for what is outside of the commands: arguments, help
            app()
    except typer.Exit as error:
        sys.exit(error.exit_code)
