"""Measure fleets: memory and speed per key, and one memory for all keys.

    python benchmarks/fleet.py            print the tables
    python benchmarks/fleet.py --write    also write them to docs/fleet-figures.md
    python benchmarks/fleet.py --quick    fewer keys, rows and seeds

Each measurement of memory and of speed runs in a process of its own, so that memory that was freed before is
not reused. The loop over estimators runs in the same process as the fleet that it is compared with. Seeds are
not those by which the rule of the shared memory was chosen (1 to 8).
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from budgetron import Forgetron
from budgetron.fleet import Fleet
from fleet_streams import FEATURES, TRAFFICS, Traffic, stream

PAGE = Path(__file__).parent.parent / "docs" / "fleet-figures.md"
BUDGET, GAMMA = 20, 0.1
SEEDS = (101, 102, 103, 104, 105)
MOST = 400  # supports of one key in a shared memory

HEAD = """\
# Fleets: figures

`benchmarks/fleet.py` wrote this page. Speeds depend on the machine; compare the ratios. Sizes: 1 kB is 1024
bytes.
"""


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def learner(budget: int = BUDGET) -> Forgetron:
    return Forgetron(budget, gamma=GAMMA)


def random_rows(n: int, keys: int, seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, FEATURES)).astype(np.float32)
    return rng.integers(keys, size=n), X, rng.integers(2, size=n)


def full_fleet(keys: int) -> tuple[Fleet, float]:
    """Return a fleet all of whose keys have a full budget, and the seconds that a new key takes."""
    fleet = Fleet(learner())
    _, X, y = random_rows(keys, keys, 0)
    start = time.perf_counter()
    fleet.play(np.arange(keys), X, y, classes=[0, 1])
    first = (time.perf_counter() - start) / keys
    for seed in range(1, 200):
        _, X, _ = random_rows(keys, keys, seed)
        margins = fleet.decision_function(np.arange(keys), X)
        fleet.partial_fit(np.arange(keys), X, (margins <= 0.0).astype(int))  # every row is a mistake
        if seed >= BUDGET + 3:
            break
    assert fleet.stats()["supports"].min() == BUDGET
    return fleet, first


def size_and_speed(keys: int, loop: bool) -> dict[str, float]:
    """Return bytes per key, microseconds of a new key, and rows per second in random order of the keys."""
    random_rows(1000, 10, 0)
    Fleet(learner()).partial_fit([1], np.zeros((1, FEATURES), np.float32), [0], classes=[0, 1])
    gc.collect()
    before = resident()
    fleet, first = full_fleet(keys)
    gc.collect()
    found = {"bytes": fleet.nbytes_ / keys, "process": (resident() - before) / keys, "first": 1e6 * first}
    rows = 400_000
    drawn, X, y = random_rows(rows, keys, 7)
    start = time.perf_counter()
    fleet.play(drawn, X, y)
    found["speed"] = rows / (time.perf_counter() - start)
    if loop:
        models = [fleet[key] for key in range(keys)]
        some = 40_000
        codes = y.tolist()
        start = time.perf_counter()
        for i, key in enumerate(drawn[:some].tolist()):
            models[key].play(X[i], codes[i])
        found["loop"] = some / (time.perf_counter() - start)
    return found


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return pool.apply(function, arguments)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def speed_section(sizes: Sequence[int]) -> str:
    rows = []
    for keys in sizes:
        found = in_own_process(size_and_speed, keys, keys <= 20_000)
        ratio = f"{found['speed'] / found['loop']:.0f} times" if "loop" in found else ""
        cells = [f"{keys:,}", f"{found['bytes']:,.0f}", f"{found['process']:,.0f}", f"{found['first']:.2f}"]
        rows.append([*cells, f"{found['speed']:,.0f}", ratio])
    columns = ("keys", "`nbytes_` per key", "process memory per key", "new key, µs", "rows per second")
    return (
        f"\n## Size and speed\n\n`Forgetron({BUDGET})`, {FEATURES} features, float32. Every key has {BUDGET} "
        "supports, rows come in random order of the keys, and labels are random, so that half of the rows are "
        "updates. One core.\n\n" + table((*columns, "compared with a loop over estimators"), rows)
    )


def errors(traffic: Traffic, keys: int, rows: int, supports: int, seed: int) -> dict[str, float]:
    """Return the share of mistakes, in percent, with each way to divide the memory."""
    chosen, X, y = stream(traffic, keys, rows, seed)
    idle = rows // 10 if traffic.life else None
    share = supports // keys
    # As much memory as the keys with equal shares take.
    probe = Fleet(learner(share)).partial_fit(chosen, X, y, classes=[0, 1])
    memory = probe.nbytes_
    found = {}
    for name, fleet in (
        ("equal shares", Fleet(learner(share))),
        ("shared memory", Fleet(learner(MOST), memory=memory, idle=idle)),
        ("no limit", Fleet(learner(MOST))),
    ):
        margins = fleet.play(chosen, X, y, classes=[0, 1])
        # A margin of 0 is half a mistake: nothing was predicted.
        wrong = (margins > 0) != (y == 1)
        found[name] = 100 * np.where(margins == 0, 0.5, wrong).mean()
        if name == "shared memory":
            assert fleet.nbytes_ <= memory, (fleet.nbytes_, memory)
            found["evicted"], found["expired"] = fleet.evicted_, fleet.expired_
    return found


def pool_section(keys: int, rows: int, supports: int, seeds: Sequence[int]) -> str:
    names = ("equal shares", "shared memory", "no limit")
    lines, worst = [], -np.inf
    for traffic in TRAFFICS:
        found = [errors(traffic, keys, rows, supports, seed) for seed in seeds]
        gains = [one["shared memory"] - one["equal shares"] for one in found]
        worst = max(worst, *gains)
        means = [f"{np.mean([one[name] for one in found]):.2f}" for name in names]
        spread = f"{np.mean(gains):+.2f} ({min(gains):+.2f} to {max(gains):+.2f})"
        counts = [f"{np.mean([one[name] for one in found]):,.0f}" for name in ("evicted", "expired")]
        lines.append([traffic.name, *means, spread, *counts])
    columns = (
        "traffic",
        *(f"{name}, %" for name in names),
        "difference of the first two",
        "evictions",
        "expired keys",
    )
    return (
        f"\n## One memory for all keys\n\n{keys:,} keys, {rows:,} rows, {FEATURES} features, {len(seeds)} seeds. "
        f"Equal shares are {supports // keys} supports per key. The shared memory has as many bytes, and a key may "
        f"have up to {MOST} supports. Errors are those of predictions before learning; a margin of 0 counts as half "
        "an error. The difference is in points, with the range over the seeds.\n\n"
        + table(columns, lines)
        + f"\nThe largest difference of all runs is {worst:+.2f} points.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--quick", action="store_true", help="fewer keys, rows and seeds")
    given = parser.parse_args()
    if given.quick:
        text = HEAD + speed_section([1000]) + pool_section(200, 10_000, 800, SEEDS[:2])
    else:
        text = HEAD + speed_section([20_000, 1_000_000]) + pool_section(5000, 300_000, 20_000, SEEDS)
    print(text, end="")
    if given.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
