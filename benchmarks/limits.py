"""The limits of the machine: matrix products, exponentials and memory bandwidth."""

from __future__ import annotations

from typing import Any

import numpy as np

from measure import bandwidth, gemm_rate, in_turn
from results import Section, Table


def limits(bench: Any) -> Section:
    table = Table("One core", [("operation", "text"), ("float64", "number"), ("float32", "number")])
    for d, supports in (
        bench.pick((1024, 1024), (1024, 1024), (64, 64)),
        (123, bench.pick(1500, 1500, 50)),
        (10, 100),
    ):
        bench.step(f"GEMM, {supports} x {d}")
        title = f"GEMM of rows and {supports:,} supports, d = {d:,}: GFLOP/s"
        table.add(
            title,
            *(gemm_rate(d, supports, t, 2 * bench.repeat) / 1e9 for t in (np.float64, np.float32)),
        )
    bench.step("exponentials")
    nanoseconds_each = []
    for dtype in (np.float64, np.float32):
        values = -np.random.default_rng(0).random(8192).astype(dtype)
        out = np.empty_like(values)

        def go(values: np.ndarray = values, out: np.ndarray = out) -> None:
            for _ in range(20):
                np.exp(values, out=out)

        nanoseconds_each.append(1e9 * in_turn({"": lambda go=go: go}, 2 * bench.repeat)[""] / (20 * 8192))
    table.add("NumPy's exponential of one number, in the cache: nanoseconds", *nanoseconds_each)
    bench.step("memory")
    streams = bandwidth(bench.pick(256, 256, 8), bench.repeat)
    table.add("memory, copy: GB/s read and written", streams["copy"] / 1e9, None)
    table.add("memory, triad: GB/s read and written", streams["triad"] / 1e9, None)
    return Section(
        "The machine's limits",
        "Measured in the same process as all other sections, with BLAS limited to one thread.",
        [table],
    )
