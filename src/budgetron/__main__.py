"""The command `budgetron`, also as `python -m budgetron`."""

from __future__ import annotations

import signal
import sys

from budgetron._util.interrupts import defer_interrupts


def main() -> None:
    """Run the command line; if a package that it needs is missing, say how to install it."""
    try:
        with defer_interrupts():  # an interrupt during an import would print a traceback
            from budgetron import cli
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except ImportError as error:
        if error.name and error.name.partition(".")[0] in ("typer", "rich", "click"):
            sys.exit(f"budgetron: the command line needs {error.name}: pip install 'budgetron[cli]'")
        raise
    try:
        cli.main()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command has ended; only the interpreter has not


if __name__ == "__main__":
    main()
