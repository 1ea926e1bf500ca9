"""The time of the service."""

from __future__ import annotations

import time

__all__ = ["now"]


def _since_boot() -> float:
    """Return seconds that also pass while the machine is suspended, where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


_OFFSET = time.time() - _since_boot()


def now() -> float:
    """Return the time in seconds since 1970, as the system's clock had it when the process started.

    Later changes of the system's clock have no effect. Otherwise a jump of some days would drop all rows that
    wait for labels.
    """
    return _OFFSET + _since_boot()
