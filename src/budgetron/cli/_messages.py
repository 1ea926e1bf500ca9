"""Messages and exit codes. Imports nothing that takes long, so that `--help` is quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from budgetron.cli._console import SafeConsole
from budgetron.cli._interrupts import interrupts

if TYPE_CHECKING:
    from budgetron.streams import Advice

__all__ = ["BAD_INPUT", "err", "explained", "friendly", "interruptible", "out"]

BAD_INPUT = 2

# Errors that the user can fix; others are errors of the program.
FRIENDLY = (ValueError, TypeError, ImportError, OSError, MemoryError, RecursionError, OverflowError)

# Results go to standard output, everything else to standard error.
out = SafeConsole()
err = SafeConsole(stderr=True)


@contextmanager
def friendly(advice: Mapping[Advice, str] | None = None) -> Iterator[None]:
    """Turn errors that the user can fix into one message and exit code 2, and handle interrupts."""
    with interruptible(), explained(advice):
        yield
        sys.stdout.flush()  # here, so that a full disk is reported


@contextmanager
def interruptible() -> Iterator[None]:
    """End by a message and the exit code of the signal if an interrupt arrives."""
    try:
        with interrupts.handled():
            yield
    except KeyboardInterrupt:
        err.print("Interrupted.")
        raise typer.Exit(interrupts.exit_code) from None


@contextmanager
def explained(advice: Mapping[Advice, str] | None = None) -> Iterator[None]:
    """Turn errors that the user can fix into one message and exit code 2."""
    try:
        yield
    except BrokenPipeError:  # as in `budgetron predict ... | head`: the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except FRIENDLY as error:
        if isinstance(error, OSError) and error.filename is None and error.strerror:
            error.filename = "standard output"
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        err.print(f"budgetron: {_message(error, advice)}", style="red")
        raise typer.Exit(BAD_INPUT) from None


def _message(error: Exception, advice: Mapping[Advice, str] | None) -> str:
    if isinstance(error, ValueError):  # imported only now, because `--help` must not wait for it
        from budgetron.cli._advice import OPTIONS
        from budgetron.streams import StreamError

        if isinstance(error, StreamError) and error.advice is not None:
            return f"{error.problem}; {(OPTIONS if advice is None else advice)[error.advice]}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}" if str(error) else "not enough memory"
    if isinstance(error, RecursionError):
        return "the input is nested too deeply"
    if isinstance(error, OverflowError):
        return f"a number is too large: {error}"
    return str(error)
