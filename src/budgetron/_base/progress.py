"""Lines about the progress of a long call of `fit`, `partial_fit` or `progressive_fit`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from budgetron._base.batches import Batch
from budgetron._util.blocks import row_blocks

__all__ = ["shown", "shown_learners", "verbose_call"]

Learner = TypeVar("Learner")

# Seconds between two lines, and rows between two looks at the clock
INTERVAL, BLOCK = 1.0, 4096

_verbose: ContextVar[bool] = ContextVar("budgetron_verbose", default=False)


@contextmanager
def verbose_call(verbose: bool) -> Iterator[None]:
    """Show the progress of all batches that are learned within this context."""
    token = _verbose.set(bool(verbose))
    try:
        yield
    finally:
        _verbose.reset(token)


def shown(parts: Iterator[Batch], total: int) -> Iterator[Batch]:
    """Yield the parts of a batch of `total` rows; in a verbose call in smaller parts, with lines on stderr.

    The cut of a batch into parts does not change the model.
    """
    if not _verbose.get():
        yield from parts
        return
    start = last = time.monotonic()
    done = 0
    for part in parts:
        for rows in row_blocks(len(part), BLOCK):
            piece = part if len(part) <= BLOCK else part.part(rows)
            yield piece  # it is learned before the next one is asked for
            done += len(piece)
            now = time.monotonic()
            if now - last >= INTERVAL or done == total:
                last, seconds = now, now - start
                left = f", about {seconds * (total - done) / done:.0f} s left" if done < total else ""
                print(f"{done:,} of {total:,} rounds, {seconds:.1f} s{left}", file=sys.stderr, flush=True)


def shown_learners(learners: Sequence[Learner], rounds: int) -> Iterator[Learner]:
    """Yield learners that learn one after the other; in a verbose call with a line on stderr after each."""
    for i, learner in enumerate(learners, 1):
        start = time.monotonic()
        yield learner  # it learns before the next one is asked for
        if _verbose.get():
            what = f"learner {i} of {len(learners)}, {type(learner).__name__}"
            print(f"{what}: {rounds:,} rounds, {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
