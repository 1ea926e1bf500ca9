"""Ctrl-C (SIGINT) and SIGTERM, by which containers are stopped. Both end a command in the same way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

__all__ = ["interrupts"]

T = TypeVar("T")


class Interrupts:
    """The handler of both signals: it raises `KeyboardInterrupt`, unless interrupts are held.

    Attributes
    ----------
    pending : bool
        Whether a signal was received that has had no effect yet.
    """

    def __init__(self) -> None:
        self.pending = False
        # An attribute, not another handler: a handler could be interrupted while it is changed.
        self._held = False
        self._last = int(signal.SIGINT)

    @property
    def exit_code(self) -> int:
        """128 plus the number of the signal: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self._last

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.pending, self._last = True, number
        if not self._held:
            raise KeyboardInterrupt

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle both signals during a command, even if the shell that started it disabled Ctrl-C."""
        if threading.current_thread() is not threading.main_thread():  # only this one can handle signals
            yield
            return
        self.pending, self._held, self._last = False, True, int(signal.SIGINT)
        before = [(number, signal.signal(number, self)) for number in (signal.SIGTERM, signal.SIGINT)]
        try:
            self._release()
            yield
        finally:
            self._held = True  # the command has ended
            for number, handler in before:
                signal.signal(number, handler or signal.SIG_DFL)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold interrupts until this context ends, except while `until_interrupted` waits."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        self._release()

    def _release(self) -> None:
        self._held = False
        if self.pending:
            raise KeyboardInterrupt

    def until_interrupted(self, items: Iterator[T]) -> Iterator[T]:
        """Yield items until the end, or until an interrupt, which may stop the wait for the next item."""
        while True:
            try:
                self._release()
                item = next(items)
            # No call before interrupts are held again: Python handles signals at calls.
            except StopIteration:
                self._held = True
                return
            except KeyboardInterrupt:
                self._held = self.pending = True
                return
            self._held = True
            yield item

    def take(self) -> bool:
        """Return whether an interrupt is pending, which has had its effect from now on."""
        taken, self.pending = self.pending, False
        return taken


interrupts = Interrupts()
