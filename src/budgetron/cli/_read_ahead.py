"""Read the next rows while the current ones are learned."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from typing import NamedTuple, TypeVar

__all__ = ["read_ahead"]

T = TypeVar("T")

# Items that are read before they are needed: enough for another thread to be busy, and little memory.
AHEAD = 2


class _End(NamedTuple):
    """The end of the items, by an error or without one."""

    error: BaseException | None


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items of an iterator, which another thread computes in advance.

    Parsing and learning run outside of the interpreter lock, so that both run at the same time. An error is
    raised after the items before it. If the caller stops early, the thread ends after its current item.
    """
    ready: queue.Queue[T | _End] = queue.Queue(AHEAD)
    stopped = threading.Event()

    def put(item: T | _End) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def read() -> None:
        try:
            for item in items:
                if not put(item):
                    return
            put(_End(None))
        except BaseException as error:  # raised again in the caller's thread
            put(_End(error))
        finally:
            if isinstance(items, Generator):
                items.close()

    # A daemon, because it may wait for a pipe that never ends.
    threading.Thread(target=read, name="budgetron-reader", daemon=True).start()
    try:
        while not isinstance(item := ready.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stopped.set()
