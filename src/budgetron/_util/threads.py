"""The number of threads that `n_jobs` stands for, and a limit of one thread for BLAS while the core works.

The blocks of a batch are too small for BLAS's own threads. On a busy machine these threads spin and wait for
each other, which makes them many times slower.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from numbers import Integral
from typing import Protocol

from joblib.parallel import get_active_backend
from threadpoolctl import OpenBLASController, ThreadpoolController

__all__ = ["number_of_threads", "one_thread"]

# More threads than any machine has.
MOST_THREADS = 4096


def number_of_threads(n_jobs: int | None) -> int:
    """Return the number of threads that a parameter `n_jobs` stands for, as in scikit-learn."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None, -1 or a number of threads; got {n_jobs!r}")
    if n_jobs is None or n_jobs < 0:  # the meaning depends on the context, and to look it up takes time
        default = get_active_backend()[1]
        # In some contexts no processes may be started, but threads may.
        threads = get_active_backend(prefer="threads")[0]
        n_jobs = threads.effective_n_jobs(default if n_jobs is None else n_jobs)
    return min(int(n_jobs), MOST_THREADS)


class _Limiter(Protocol):
    def restore_original_limits(self) -> None: ...


_lock = threading.Lock()
_users = 0
_limiter: _Limiter | None = None


def _reset() -> None:
    """Start without users: in a forked child, the parent's other threads do not exist."""
    global _lock, _users, _limiter
    _lock, _users, _limiter = threading.Lock(), 0, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def _take_control() -> None:
    """Let this thread set the limit.

    From version 3.8 on, threadpoolctl obeys only the first thread that sets a limit, and silently ignores all
    others as long as that thread lives. Here, the thread that sets the limit need not be the one that lifts
    it.
    """
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread; the last user to leave restores the previous number.

    The limit holds for the whole process. Users are counted, so that models that learn in different threads
    do not restore it while others still work.
    """
    global _users, _limiter
    with _lock:
        if _users == 0:
            _take_control()
            _limiter = _controller().limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _limiter is not None:
                _take_control()
                _limiter.restore_original_limits()
                _take_control()  # so that any thread may set the next limit
