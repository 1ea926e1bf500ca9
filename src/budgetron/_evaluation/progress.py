"""Lines about the progress of a long run."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from budgetron._evaluation.regression_result import RegressionResult
from budgetron._evaluation.result import Result

__all__ = ["Progress"]

# Seconds between two lines
INTERVAL = 1.0


class Progress:
    """Print rounds, errors and the remaining time on stderr, at most once per interval.

    Parameters
    ----------
    n_rows : int or None
        The number of rows of the stream; None if it is not known.
    """

    def __init__(self, n_rows: int | None) -> None:
        self.n_rows = n_rows
        self.start = self.last = time.monotonic()

    def show(self, results: Sequence[Result] | Sequence[RegressionResult], *, last: bool = False) -> None:
        """Print a line if the last one is old enough, or if this is the last."""
        now = time.monotonic()
        if now - self.last < INTERVAL and not last:
            return
        self.last = now
        rounds, seconds = results[0].rounds, now - self.start
        total = f" of {self.n_rows:,}" if self.n_rows else ""
        left = ""
        if self.n_rows and rounds and not last:
            left = f", about {seconds * (self.n_rows - rounds) / rounds:.0f} s left"
        errors = ", ".join(f"{result.name} {_error(result)}" for result in results)
        print(f"{rounds:,}{total} rounds, {seconds:.1f} s{left}; error {errors}", file=sys.stderr, flush=True)


def _error(result: Result | RegressionResult) -> str:
    return f"{result.error_rate:.2%}" if isinstance(result, Result) else f"{result.rmse:.4g}"
