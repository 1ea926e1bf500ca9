"""How things are measured: times, the machine, and its limits.

A time is the shortest of several, which is what the machine can do when left alone. Where
two things are compared they are timed in turn, so that a busy moment hits both.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm, sgemm

Go = Callable[[], Any]

PACKAGES = ("budgetron", "numpy", "scipy", "scikit-learn", "river", "vowpalwabbit")


# ---------------------------------------------------------------------- times


def timed(go: Go) -> float:
    start = time.perf_counter()
    go()
    return time.perf_counter() - start


def best(prepare: Callable[[], Go], repeat: int) -> float:
    """The shortest time of what `prepare` returns; it is prepared anew each time."""
    return min(timed(prepare()) for _ in range(repeat))


def in_turn(
    jobs: Mapping[str, Callable[[], Go]], repeat: int, before: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The shortest time of each job, all timed in turn, those of a turn before included."""
    times = dict(before or {})
    for _ in range(repeat):
        for name, prepare in jobs.items():
            times[name] = min(times.get(name, np.inf), timed(prepare()))
    return times


def set_threads(model: Any, threads: int) -> bool:
    """Let a learner use so many threads; whether it can."""
    if "n_jobs" not in model.get_params():
        return False
    model.set_params(n_jobs=threads)
    return True


# ---------------------------------------------------------------------- limits


def product(dtype: Any, rows: int, d: int, supports: int, block: int = 0) -> Go:
    """The bare matrix product that the kernel values of so many rows need, in blocks of rows."""
    gemm = dgemm if np.dtype(dtype) == np.float64 else sgemm
    rng = np.random.default_rng(0)
    block = min(block or rows, rows)
    S = np.asfortranarray(rng.normal(size=(d, supports)).astype(dtype))
    X = np.asfortranarray(rng.normal(size=(d, block)).astype(dtype))
    out = np.zeros((supports, block), dtype, order="F")

    def go() -> None:
        for _ in range(rows // block):
            gemm(1.0, S, X, trans_a=True, c=out, overwrite_c=True)

    return go


def gemm_rate(d: int, supports: int, dtype: Any = np.float64, repeat: int = 5) -> float:
    """Multiplications and additions a second of that product, in the blocks that suit it best.

    Some 3e9 of them at a time: the best of very short times would be luck, which what is
    compared with it cannot have.
    """
    rows = 1024 * int(np.clip(3e9 / (2.0 * d * supports * 1024), 1, 64))
    products = {str(block): product(dtype, rows, d, supports, block) for block in (128, 256, 1024)}
    for go in products.values():
        go()  # the first touch of the arrays is not the product's
    jobs = {block: (lambda go=go: go) for block, go in products.items()}
    return 2.0 * rows * d * supports / min(in_turn(jobs, repeat).values())


def bandwidth(megabytes: int = 256, repeat: int = 5) -> dict[str, float]:
    """Bytes a second of a copy and of a triad (a = b + 3 c), read and written, beyond every cache."""
    n = megabytes * 2**20 // 8
    a, b, c = np.zeros(n), np.ones(n), np.ones(n)
    piece = 1 << 13  # the two steps of the triad meet in the cache

    def triad() -> None:
        for start in range(0, n, piece):
            part = slice(start, start + piece)
            np.multiply(c[part], 3.0, out=a[part])
            np.add(a[part], b[part], out=a[part])

    times = in_turn({"copy": lambda: lambda: np.copyto(a, b), "triad": lambda: triad}, repeat)
    return {"copy": 2 * 8 * n / times["copy"], "triad": 3 * 8 * n / times["triad"]}


# ---------------------------------------------------------------------- the machine


def resident() -> int | None:
    """Resident bytes of this process, where /proc tells."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return None
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, caches, memory, system, versions, and the BLAS."""
    return {
        "processor": _processor(),
        "cores": _cores(),
        "caches": _caches(),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
        "blas": _blas(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _processor() -> str:
    facts: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            facts.setdefault(name.strip(), value.strip())
    except OSError:
        return platform.processor() or platform.machine()
    name = facts.get("model name", platform.machine())
    flags = facts.get("flags", "").split()
    wide = [label for flag, label in (("avx2", "AVX2"), ("avx512f", "AVX-512")) if flag in flags]
    family = f"family {facts['cpu family']} model {facts['model']}" if "cpu family" in facts else ""
    return ", ".join(part for part in (name, family, *wide) if part)


def _caches() -> str:
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            level, size = (index / "level").read_text().strip(), (index / "size").read_text().strip()
        except OSError:
            continue
        if kind != "Instruction":
            found.append(f"L{level} {size[:-1]} kB" if size.endswith("K") else f"L{level} {size}")
    return ", ".join(found)


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return ""
    return f"{size / 2**30:.0f} GB"


def _blas() -> str:
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    named = {f"{p['internal_api']} {p['version']} ({p.get('architecture', 'unknown')})" for p in pools}
    return ", ".join(sorted(named))
