"""Experts that learn one after the other, or in several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeAlias

__all__ = ["RunExperts", "expert_runner"]

RunExperts: TypeAlias = Callable[[Callable[[int], None], Sequence[int]], None]


@contextmanager
def expert_runner(threads: int) -> Iterator[RunExperts]:
    """Yield a function that calls another one for each expert, in at most this many threads.

    Experts share nothing that changes, so the result does not depend on the number of threads.
    """
    if threads == 1:
        yield run_in_order
        return
    with ThreadPoolExecutor(threads) as executor:

        def run(function: Callable[[int], None], experts: Sequence[int]) -> None:
            for _ in executor.map(function, experts):  # raises the error of an expert
                pass

        yield run


def run_in_order(function: Callable[[int], None], experts: Sequence[int]) -> None:
    """Call a function for each expert, in order."""
    for expert in experts:
        function(expert)
