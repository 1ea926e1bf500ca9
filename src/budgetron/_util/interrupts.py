"""Ctrl-C between blocks, never in the middle of one: learners must not stand at different rounds."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["defer_interrupts"]


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Put an interrupt off until this is done."""
    before = signal.getsignal(signal.SIGINT)
    # Python handles signals in the main thread, and there only; others are never interrupted.
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[Any, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:  # also where it failed: the wish to stop is not lost
        signal.signal(signal.SIGINT, before)
        for wish in came:
            before(*wish)
