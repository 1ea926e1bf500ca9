"""Defer Ctrl-C while several objects must change together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["defer_interrupts"]


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Handle an interrupt (SIGINT) only when this context ends."""
    handler = signal.getsignal(signal.SIGINT)
    # Python handles signals in the main thread only; other threads are never interrupted.
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:  # also after an error: the interrupt is not lost
        signal.signal(signal.SIGINT, handler)
        for number, frame in received:
            handler(number, frame)
