"""One thread for BLAS while the core works.

The blocks of a batch are too small to gain from BLAS's own threads, and on a busy
machine those threads spin and wait for each other: many times slower, for nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController

_lock = threading.Lock()
_inside = 0
_limiter: Any = None


def _start_anew() -> None:
    """In a forked child none of the parent's other threads is left to give anything back."""
    global _lock, _inside, _limiter
    _lock, _inside, _limiter = threading.Lock(), 0, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def _take_control() -> None:
    """Let this thread set the limit.

    From 3.8 on threadpoolctl heeds only the first thread that sets one, and silently ignores
    all others as long as that one lives. Who enters first need not be who leaves last.
    """
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread; the last to leave gives the others back.

    The limit is the whole process', so that models which learn in threads of their
    own must not restore it under each other.
    """
    global _inside, _limiter
    with _lock:
        if _inside == 0:
            _take_control()
            _limiter = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _take_control()
                _limiter.restore_original_limits()
                _take_control()  # and let any other
