"""A sign of life for the supervisor of a long run."""

from collections.abc import Callable

_listeners: list[Callable[[], None]] = []


def listen(listener):
    """Call a function at the beginning of each step of a machine."""
    _listeners.append(listener)


def report_step():
    for listener in _listeners:
        listener()
