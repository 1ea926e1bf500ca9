"""Parse the next parts of a file while the current one is used."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeAlias, TypeVar

__all__ = ["Parsed", "parsed"]

T = TypeVar("T")
R = TypeVar("R")
Parsed: TypeAlias = Generator[tuple[T, Callable[[], R]], None, None]

THREADS = 2
AHEAD = 3  # items that are parsed in advance: enough to keep the threads busy, and little memory


def parsed(parse: Callable[[T], R], items: Iterator[T], ahead: bool) -> Parsed[T, R]:
    """Yield each item with a function that returns what `parse` returns for it, or raises its error.

    With `ahead`, threads parse the next items in advance, outside of the interpreter lock. An error of the
    iterator is raised after the items before it. In a browser there are no threads.
    """
    if not ahead or sys.platform == "emscripten":
        yield from ((item, partial(parse, item)) for item in items)
        return
    waiting: deque[tuple[T, Future[R]]] = deque()
    ended, failure = False, None
    pool = ThreadPoolExecutor(THREADS, "budgetron-parser")
    try:
        while True:
            while not ended and len(waiting) <= AHEAD:
                try:
                    item = next(items)
                except StopIteration:
                    ended = True
                except Exception as error:
                    ended, failure = True, error
                else:
                    waiting.append((item, pool.submit(parse, item)))
            if not waiting:
                break
            item, future = waiting.popleft()
            yield item, future.result
        if failure is not None:
            raise failure
    finally:
        pool.shutdown(cancel_futures=True)
