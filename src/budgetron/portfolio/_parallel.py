"""Groups of experts that learn one after the other, or in several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeAlias

__all__ = ["RunGroups", "group_runner"]

Group: TypeAlias = list[int]
RunGroups: TypeAlias = Callable[[Callable[[Group], None], Sequence[Group]], None]


@contextmanager
def group_runner(threads: int) -> Iterator[RunGroups]:
    """Yield a function that calls another one for each group, in at most this many threads.

    Groups must not share anything that changes. Then the result does not depend on the number of threads.
    """
    if threads == 1:
        yield run_in_order
        return
    with ThreadPoolExecutor(threads) as executor:

        def run(function: Callable[[Group], None], groups: Sequence[Group]) -> None:
            for _ in executor.map(function, groups):  # raises the error of a group
                pass

        yield run


def run_in_order(function: Callable[[Group], None], groups: Sequence[Group]) -> None:
    """Call a function for each group, in order."""
    for group in groups:
        function(group)
