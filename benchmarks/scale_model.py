"""A cost model of `spark.learn_fleet`: cores, traffic of states and recovery for 10^5 to 10^8 keys.

The costs of a row, a byte of state, a bucket and a micro-batch come from docs/scale/results.json, which
`spark_scale.py` writes. What is not measured is an assumption: a constant below.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from budgetron._util.units import format_bytes

RESULTS = Path(__file__).parent.parent / "docs" / "scale" / "results.json"
FIGURE = RESULTS.parent / "costs.png"
BUDGET, FEATURES = 20, 10  # of the keys that were measured

# Assumptions.
ROWS_PER_KEY_AND_HOUR = 1.0
BUCKET_BYTES = 4e6  # buckets are so many that each has about this size
LEAST_BUCKETS = 64
BUSY = 0.5  # the part of an interval in which the cores work
STORAGE = 25e6  # bytes per second that each core reads from the storage of the checkpoint
RESTART = 60.0  # seconds until a query that failed has started again

MINUTES = (1, 10, 60)
KEYS = (10**5, 10**6, 10**7, 10**8)
COLORS = ("#c2410c", "#1b5fa8", "#15803d")
COST_HEAD = ["CPU time", "Spark", "the fleet"]
NEEDS_HEAD = [
    "keys",
    "micro-batch every",
    "state",
    "buckets",
    "rows of a micro-batch",
    "its CPU time",
    "cores",
    "written states",
    "recovery",
]


@dataclass(frozen=True)
class Needs:
    """What a fleet needs.

    Attributes
    ----------
    state : float
        Bytes of all states.
    buckets : int
    rows : float
        Rows of a micro-batch.
    seconds : float
        CPU seconds of a micro-batch.
    cores : int
    traffic : float
        Bytes per second that all cores together write to the checkpoint.
    recovery : float
        Seconds from a failure until the micro-batch that failed is complete.
    """

    state: float
    buckets: int
    rows: float
    seconds: float
    cores: int
    traffic: float
    recovery: float


def results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text())
    return found


def cpu_seconds(rows: float, buckets: int, state: float) -> float:
    """Return the CPU seconds of a micro-batch that reads and writes `state` bytes in all of its buckets."""
    spark, fleet = results()["spark"], results()["fleet"]
    each_row, each_byte = (spark[kind] + fleet[kind] for kind in ("row", "byte"))
    return float(spark["batch"] + buckets * spark["bucket"] + rows * each_row + state * each_byte)


def needs(keys: float, interval: float) -> Needs:
    """Return the needs of a fleet whose micro-batches start every `interval` seconds.

    Keys are random, so that each micro-batch reads and writes the states of all buckets.
    """
    spark, fleet = results()["spark"], results()["fleet"]
    state = keys * fleet["key bytes"]
    buckets = max(LEAST_BUCKETS, ceil(state / BUCKET_BYTES))
    rows = keys * ROWS_PER_KEY_AND_HOUR * interval / 3600
    seconds = cpu_seconds(rows, buckets, state)
    cores = ceil(seconds / (BUSY * interval))
    recovery = RESTART + (state / STORAGE + seconds) / cores
    traffic = state * spark["written bytes per byte"] / interval
    return Needs(state, buckets, rows, seconds, cores, traffic, recovery)


# ---------------------------------------------------------------------- the page


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def needs_rows() -> list[list[str]]:
    found = []
    for keys in KEYS:
        for minutes in MINUTES:
            need = needs(keys, 60 * minutes)
            cells = [f"{keys:,}", f"{minutes} min", format_bytes(round(need.state)), f"{need.buckets:,}"]
            cells += [f"{need.rows:,.0f}", f"{need.seconds:,.0f} s", f"{need.cores:,}"]
            found.append([*cells, f"{format_bytes(round(need.traffic))}/s", duration(need.recovery)])
    return found


def cost_rows() -> list[list[str]]:
    spark, fleet = results()["spark"], results()["fleet"]
    key = fleet["key bytes"]
    parts = {
        "a row": (1e6, "µs", spark["row"], fleet["row"]),
        f"a key, {key / 1000:.1f} kB of state": (1e6, "µs", key * spark["byte"], key * fleet["byte"]),
        "a bucket": (1e3, "ms", spark["bucket"], None),
        "a micro-batch": (1, "s", spark["batch"], None),
    }
    return [
        [name, *("-" if value is None else f"{scale * value:.2g} {unit}" for value in values)]
        for name, (scale, unit, *values) in parts.items()
    ]


def load_sentence() -> str:
    load = f"{results()['load']:.0f}"
    return f"The load average of the machine, which had other work, was {load} on two cores.\n"


def draw() -> None:
    """Draw cores, traffic and recovery against the number of keys."""
    panels: dict[str, Callable[[Needs], float]] = {
        "cores": lambda need: need.cores,
        "written states, MB/s": lambda need: need.traffic / 2**20,
        "recovery, minutes": lambda need: need.recovery / 60,
    }
    figure = Figure(figsize=(10.5, 3.6), dpi=130, layout="constrained")
    keys = [10 ** (5 + i / 8) for i in range(25)]
    for axes, (name, value) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        for minutes, color in zip(MINUTES, COLORS, strict=True):
            label = f"every {minutes} min"
            axes.plot(keys, [value(needs(n, 60 * minutes)) for n in keys], color=color, label=label)
        axes.set(xscale="log", yscale="log", xlabel="keys", title=name)
        axes.grid(color="#e5e7eb", linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_formatter(lambda number, _: f"{number:g}")
        axes.yaxis.set_minor_formatter("")
    figure.axes[0].legend(frameon=False, title="micro-batch")
    figure.savefig(FIGURE, metadata={"Software": None})
