"""Defer Ctrl-C and SIGTERM while several objects must change together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["defer_interrupts"]


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Handle SIGINT and SIGTERM only when this context ends.

    A signal without a Python handler is not deferred. By default this is SIGTERM, which ends the process.
    """
    # Python handles signals in the main thread only; other threads are never interrupted.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _deferred(signal.SIGINT), _deferred(signal.SIGTERM):
        yield


@contextmanager
def _deferred(number: signal.Signals) -> Iterator[None]:
    handler = signal.getsignal(number)
    if not callable(handler):
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(number, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:  # also after an error: the interrupt is not lost
        try:
            signal.signal(number, handler)
        except BaseException:  # of the handler of the other signal, which is called first
            signal.signal(number, handler)
            raise
        for arguments in received:
            handler(*arguments)
