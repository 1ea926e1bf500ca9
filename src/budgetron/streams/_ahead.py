"""Parse the next parts of a file while the current one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias, TypeVar

__all__ = ["computed_ahead"]

T = TypeVar("T")
R = TypeVar("R")
Parsed: TypeAlias = tuple[T, Callable[[], R]]

THREADS = 2
AHEAD = 3  # items that are computed in advance: enough to keep the threads busy, and little memory


def computed_ahead(compute: Callable[[T], R], items: Iterator[T]) -> Generator[Parsed[T, R], None, None]:
    """Yield each item with a function that returns what `compute` returns for it, or raises its error.

    Threads compute the results of the next items in advance, outside of the interpreter lock. An error of the
    iterator is raised after the items before it.
    """
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
                    waiting.append((item, pool.submit(compute, item)))
            if not waiting:
                break
            item, future = waiting.popleft()
            yield item, future.result
        if failure is not None:
            raise failure
    finally:
        pool.shutdown(cancel_futures=True)
