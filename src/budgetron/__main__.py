"""The command `budgetron`, also as `python -m budgetron`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; if a package that it needs is missing, say how to install it."""
    try:
        from budgetron import cli
    except ImportError as error:
        if error.name and error.name.partition(".")[0] in ("typer", "rich", "click"):
            sys.exit(f"budgetron: the command line needs {error.name}: pip install 'budgetron[cli]'")
        raise
    cli.main()


if __name__ == "__main__":
    main()
