"""Measure times, the machine, and its limits.

A time is the shortest of several, because other processes can only make it longer. Things that are compared
are timed alternately, so that a disturbance affects both.
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

Work = Callable[[], Any]

PACKAGES = ("budgetron", "numpy", "scipy", "scikit-learn", "river", "vowpalwabbit")


# ---------------------------------------------------------------------- times


def timed(go: Work) -> float:
    start = time.perf_counter()
    go()
    return time.perf_counter() - start


def best(prepare: Callable[[], Work], repeat: int) -> float:
    """Return the shortest time of the work that `prepare` returns; call `prepare` before each time."""
    return min(timed(prepare()) for _ in range(repeat))


def in_turn(
    jobs: Mapping[str, Callable[[], Work]], repeat: int, before: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Time the jobs alternately and return the shortest time of each, including the times of `before`."""
    times = dict(before or {})
    for _ in range(repeat):
        for name, prepare in jobs.items():
            times[name] = min(times.get(name, np.inf), timed(prepare()))
    return times


def set_threads(model: Any, threads: int) -> bool:
    """Set the number of threads of a learner, and return whether it has that parameter."""
    if "n_jobs" not in model.get_params():
        return False
    model.set_params(n_jobs=threads)
    return True


# ---------------------------------------------------------------------- limits


def product(dtype: Any, rows: int, d: int, supports: int, block: int = 0) -> Work:
    """Return work that computes the matrix product for the kernel values of `rows` rows, in blocks."""
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
    """Return the multiplications and additions per second of that product, with the fastest block size.

    Each measurement does about 3e9 of them. The best of many very short times would be an outlier, and
    the longer measurements that are compared with it have no such outliers.
    """
    rows = 1024 * int(np.clip(3e9 / (2.0 * d * supports * 1024), 1, 64))
    products = {str(block): product(dtype, rows, d, supports, block) for block in (128, 256, 1024)}
    for go in products.values():
        go()  # the first access to the arrays is slower
    jobs = {block: (lambda go=go: go) for block, go in products.items()}
    return 2.0 * rows * d * supports / min(in_turn(jobs, repeat).values())


def bandwidth(megabytes: int = 256, repeat: int = 5) -> dict[str, float]:
    """Return the bytes per second of a copy and of a triad (a = b + 3 c), outside the caches."""
    n = megabytes * 2**20 // 8
    a, b, c = np.zeros(n), np.ones(n), np.ones(n)
    piece = 1 << 13  # small enough to stay in the cache between the two steps of the triad

    def triad() -> None:
        for start in range(0, n, piece):
            part = slice(start, start + piece)
            np.multiply(c[part], 3.0, out=a[part])
            np.add(a[part], b[part], out=a[part])

    times = in_turn({"copy": lambda: lambda: np.copyto(a, b), "triad": lambda: triad}, repeat)
    return {"copy": 2 * 8 * n / times["copy"], "triad": 3 * 8 * n / times["triad"]}


# ---------------------------------------------------------------------- the machine


def resident() -> int | None:
    """Return the resident bytes of this process, or None if there is no /proc."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return None
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def machine() -> dict[str, Any]:
    """Return what the results depend on: processor, caches, memory, system, versions, and BLAS."""
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
    extensions = [label for flag, label in (("avx2", "AVX2"), ("avx512f", "AVX-512")) if flag in flags]
    family = f"family {facts['cpu family']} model {facts['model']}" if "cpu family" in facts else ""
    return ", ".join(part for part in (name, family, *extensions) if part)


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
