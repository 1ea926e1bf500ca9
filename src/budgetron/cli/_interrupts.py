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


# Seconds until a signal is sent again that was received during an import.
RETRY = 0.02


class Interrupts:
    """The handler of both signals: it raises `KeyboardInterrupt`, unless interrupts are held.

    During an import it does not raise. An exception there may leave a library half imported, or be raised in
    a callback of the import system, where Python prints it and goes on. The signal is sent again instead,
    until the import has ended.

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
        self._retry: threading.Timer | None = None

    @property
    def exit_code(self) -> int:
        """128 plus the number of the signal: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self._last

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.pending, self._last = True, number
        if self._held:
            return
        if not _is_importing(frame):
            # A second exception while the first one leaves a lock, for example, would be an error of its own.
            self._held = True
            raise KeyboardInterrupt
        self._retry = threading.Timer(RETRY, _send, [number])
        self._retry.daemon = True
        self._retry.start()

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
            if self._retry is not None:
                self._retry.cancel()
                self._retry.join()
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


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _send(number: int) -> None:
    """Send a signal to the main thread, so that it also ends the wait for a pipe."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        signal.raise_signal(number)


interrupts = Interrupts()
