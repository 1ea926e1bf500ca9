"""How much memory this process may still use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["available_bytes"]

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def available_bytes() -> int | None:
    """Return the bytes that this process may still allocate; None if the system does not tell.

    This is the least of the memory that is free in the machine, or that the system can free (without swap);
    of what is left of the limits of the process's control groups, as containers have them; and of what is
    left of its limit of address space (``ulimit -v``).
    """
    found: list[int] = []
    for limits in (_of_machine(), _of_control_groups(), _of_address_space()):
        with suppress(OSError, ValueError, IndexError, ImportError):  # not on this system
            found += limits
    return max(0, min(found)) if found else None


def _of_machine() -> Iterator[int]:
    if (PROC / "meminfo").exists():
        yield 1024 * _entries(PROC / "meminfo")["MemAvailable:"]
    else:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_control_groups() -> Iterator[int]:
    """Yield what is left of the limits of the control group of this process and of those that contain it."""
    for line in (PROC / "self" / "cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":  # version 2
            root, limit, used, unused = GROUPS, "max", "current", "inactive_file"
        elif "memory" in controllers.split(","):  # version 1
            root, limit, used, unused = (
                GROUPS / "memory",
                "limit_in_bytes",
                "usage_in_bytes",
                "total_inactive_file",
            )
        else:
            continue
        folder = root / path.lstrip("/")
        for group in (folder, *folder.parents):
            with suppress(OSError, ValueError):  # no such file, or a limit of "max"
                most, now = (int((group / f"memory.{name}").read_text()) for name in (limit, used))
                # Pages of files that were not used recently are freed when memory is needed.
                yield most - now + _entries(group / "memory.stat").get(unused, 0)


def _of_address_space() -> Iterator[int]:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        pages = int((PROC / "self" / "statm").read_text().split()[0])
        yield limit - pages * os.sysconf("SC_PAGE_SIZE")


def _entries(path: Path) -> dict[str, int]:
    """Return the numbers of a file with a name and a number on each line."""
    lines = (line.split() for line in path.read_text().splitlines())
    return {words[0]: int(words[1]) for words in lines}
