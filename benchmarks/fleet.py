"""Measure fleets: memory and speed per key, and one memory for all keys.

    python benchmarks/fleet.py                 print the tables
    python benchmarks/fleet.py --write         also write them to docs/fleet-figures.md
    python benchmarks/fleet.py --only speed    one section: speed, memory or common
    python benchmarks/fleet.py --quick         fewer keys, rows and seeds

Each measurement of memory and of speed runs in a process of its own, so that memory that was freed before is
not reused. The loop over estimators runs in the same process as the fleet that it is compared with. Seeds are
not those by which the rule of the shared memory was chosen (1 to 8, and 11 to 16).
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import re
import textwrap
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
COMMON = 200  # supports of the common learner
OTHER_SHARES = (2, 8, 16)  # supports per key in the second table of the shared memory
COUNTS = ("supports", "evicted", "expired")

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
    start = time.process_time()
    fleet.play(np.arange(keys), X, y, classes=[0, 1])
    first = (time.process_time() - start) / keys
    for seed in range(1, 200):
        _, X, _ = random_rows(keys, keys, seed)
        margins = fleet.decision_function(np.arange(keys), X)
        fleet.partial_fit(np.arange(keys), X, (margins <= 0.0).astype(int))  # every row is a mistake
        if seed >= BUDGET + 3:
            break
    assert fleet.stats()["supports"].min() == BUDGET
    return fleet, first


def size_and_speed(keys: int) -> dict[str, float]:
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
    start = time.process_time()
    fleet.play(drawn, X, y)
    found["speed"] = rows / (time.process_time() - start)
    return found | {"copies": rows / copying_time(drawn, keys, int(found["bytes"]) // 8)}


def copying_time(drawn: Any, keys: int, width: int) -> float:
    """Return the seconds of copying the state of each row's key, and every second one back: memory alone."""
    states, buffer = np.ones((keys, width)), np.empty((64, width))
    start = time.process_time()
    for i in range(0, len(drawn), 64):
        chosen = drawn[i : i + 64]
        np.take(states, chosen, axis=0, out=buffer[: len(chosen)], mode="clip")
        states[chosen[::2]] = buffer[: len(chosen) : 2]
    return time.process_time() - start


def loop_speeds(keys: int, rows: int) -> tuple[list[tuple[str, float, float]], dict[str, float]]:
    """Return the rows per second of a fleet and of a loop, from the start and with full budgets.

    Also return those of two parts of a round: predicting, and copying the states of the keys.
    """
    drawn, X, y = random_rows(rows, keys, 5)
    codes = y.tolist()
    start = time.process_time()
    Fleet(learner()).play(drawn, X, y, classes=[0, 1])
    middle = time.process_time()
    models: dict[int, Forgetron] = {}
    for i, key in enumerate(drawn.tolist()):
        if key not in models:
            models[key] = learner()
        models[key].play(X[i], codes[i], classes=[0, 1])
    end = time.process_time()
    found = [("from the first row on", rows / (middle - start), rows / (end - middle))]
    fleet, _ = full_fleet(keys)
    models = {key: fleet[key] for key in range(keys)}
    start = time.process_time()
    fleet.play(drawn, X, y)
    middle = time.process_time()
    for i, key in enumerate(drawn.tolist()):
        models[key].play(X[i], codes[i])
    end = time.process_time()
    found.append(("all budgets full", rows / (middle - start), rows / (end - middle)))
    start = time.process_time()
    fleet.decision_function(drawn, X)
    predicting = time.process_time() - start
    copying = copying_time(drawn, keys, fleet.nbytes_ // keys // 8)
    return found, {"predicting": rows / predicting, "copying": rows / copying}


def paragraph(text: str) -> str:
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False) + "\n\n"


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return pool.apply(function, arguments)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def speed_section(sizes: Sequence[int], loop: tuple[int, int]) -> str:
    lines = []
    for keys in sizes:
        found = in_own_process(size_and_speed, keys)
        cells = [f"{keys:,}", f"{found['bytes']:,.0f}", f"{found['process']:,.0f}", f"{found['first']:.2f}"]
        lines.append([*cells, f"{found['speed']:,.0f}", f"{found['copies']:,.0f}"])
    columns = (
        "keys",
        "`nbytes_` per key",
        "process memory per key",
        "new key, µs",
        "rows per second",
        "copies per second",
    )
    speeds, parts = in_own_process(loop_speeds, *loop)
    compared = [
        [name, f"{fleet:,.0f}", f"{estimators:,.0f}", f"{fleet / estimators:.1f}"]
        for name, fleet, estimators in speeds
    ]
    limits = {name: rate / speeds[-1][2] for name, rate in parts.items()}
    return (
        "\n## Size and speed\n\n"
        + paragraph(
            f"`Forgetron({BUDGET})`, {FEATURES} features, float32. Every key has {BUDGET} supports, "
            "rows come in random order of the keys, and labels are random, so that half of the rows "
            "are updates. One core; seconds are those of the processor. The last column is what memory "
            "alone allows: NumPy copies as many bytes of each row's key out, and for every second row "
            "back, and computes nothing."
        )
        + table(columns, lines)
        + "\n"
        + paragraph(
            f"Compared with a dict of estimators and `play`, {loop[1]:,} rows of {loop[0]:,} keys. "
            "From the first row on, the loop also makes the estimators. If all of them exist and are full, "
            "the ratio is lower, because both do the same kernel values and updates, and `play` of an "
            "estimator is one compiled call."
        )
        + table(("", "fleet, rows per second", "loop, rows per second", "ratio"), compared)
        + "\n"
        + paragraph(
            "With full budgets the ratio is limited: a fleet that only copied the states of the keys, and "
            f"computed nothing, would be {limits['copying']:.0f} times as fast as this loop; one that only "
            f"loads the states and predicts is {limits['predicting']:.1f} times as fast."
        ).rstrip("\n")
        + "\n"
    )


def memory_for(supports: int, keys: int) -> int:
    """Return the bytes of a shared memory for this many keys and supports of keys with a few of them."""
    memory = 1 << 30
    for _ in range(5):  # in a smaller memory pages are smaller
        probe = Fleet(learner(MOST), memory=memory)
        probe.partial_fit([0], np.zeros((1, FEATURES), np.float32), [0], classes=[0, 1])
        states, share = probe._store.states, supports // keys
        memory = int(states.bytes_of_keys(keys, 0) + keys * states.store.cost(share - 1) * 64 / 63 + 64)
    return memory


def error_of(margins: Any, y: Any) -> float:
    """Return the share of mistakes in percent. A margin of 0 is half a mistake: nothing was predicted."""
    return float(100 * np.where(margins == 0, 0.5, (margins > 0) != (y == 1)).mean())


def errors(traffic: Traffic, keys: int, rows: int, supports: int, seed: int) -> dict[str, float]:
    """Return the share of mistakes, in percent, with each way to divide the memory, and counts."""
    chosen, X, y = stream(traffic, keys, rows, seed)
    idle = rows // 10 if traffic.life else None
    equal, unlimited = Fleet(learner(supports // keys)), Fleet(learner(MOST))
    found = {"equal shares": error_of(equal.play(chosen, X, y, classes=[0, 1]), y)}
    for name, memory in (("shared memory", memory_for(supports, keys)), ("same bytes", equal.nbytes_)):
        shared = Fleet(learner(MOST), memory=memory, idle=idle)
        found[name] = error_of(shared.play(chosen, X, y, classes=[0, 1]), y)
        assert shared.nbytes_ <= memory, (shared.nbytes_, memory)
        found[f"{name}, evicted"], found[f"{name}, expired"] = shared.evicted_, shared.expired_
        found[f"{name}, supports"] = int(shared.stats()["supports"].sum())
    return found | {"no limit": error_of(unlimited.play(chosen, X, y, classes=[0, 1]), y)}


def differences(found: Sequence[dict[str, float]], name: str) -> tuple[str, float]:
    """Return by how many points the errors exceed those of equal shares: as text, and the largest."""
    gains = [one[name] - one["equal shares"] for one in found]
    return f"{np.mean(gains):+.2f} ({min(gains):+.2f} to {max(gains):+.2f})", max(gains)


def pool_section(keys: int, rows: int, supports: int, seeds: Sequence[int]) -> str:
    lines, worst, worst_bytes, held = [], -np.inf, -np.inf, 0.0
    for traffic in TRAFFICS:
        found = [errors(traffic, keys, rows, supports, seed) for seed in seeds]
        spread, largest = differences(found, "shared memory")
        spread_bytes, largest_bytes = differences(found, "same bytes")
        worst, worst_bytes = max(worst, largest), max(worst_bytes, largest_bytes)
        if traffic is TRAFFICS[0]:
            held = np.mean([one["same bytes, supports"] for one in found])
        means = {name: f"{np.mean([one[name] for one in found]):.2f}" for name in found[0]}
        counts = [f"{np.mean([one[f'shared memory, {name}'] for one in found]):,.0f}" for name in COUNTS]
        errors_of = [means[name] for name in ("equal shares", "shared memory", "no limit")]
        lines.append([traffic.name, *errors_of, spread, spread_bytes, *counts])
    others = [uniform_line(share, keys, rows, seeds) for share in OTHER_SHARES]
    columns = (
        "traffic",
        "equal shares, %",
        "shared memory, %",
        "no limit, %",
        "difference, same supports",
        "difference, same bytes",
        "supports",
        "evictions",
        "expired",
    )
    return (
        "\n## One memory for all keys\n\n"
        + paragraph(
            f"{keys:,} keys, {rows:,} rows, {FEATURES} features, {len(seeds)} seeds. Equal shares are "
            f"{supports // keys} supports per key, {supports:,} in all. The shared memory has room for "
            f"as many, and a key may have up to {MOST}. Errors are those of predictions before "
            "learning; a margin of 0 counts as half an error. Differences between shared memory and equal "
            "shares are in points, with the range over the seeds. The last three columns are those of the "
            "shared memory: supports at the end, evictions, and expired keys."
        )
        + table(columns, lines)
        + "\n"
        + paragraph(
            f"The largest difference in this table is {worst:+.2f} points with as many supports, and "
            f"{worst_bytes:+.2f} points with as many bytes. In the same bytes a shared memory has fewer "
            f"supports ({held:,.0f} instead of {supports:,} under {TRAFFICS[0].name} traffic): each key has "
            "12 bytes of statistics, some room is kept for growth, and the learner that plays the rounds "
            f"has room for {MOST} supports."
        )
        + paragraph(
            f"{TRAFFICS[0].name.capitalize()} traffic is the worst case, because equal shares are right for "
            "it. The next table has it with other numbers of supports per key. The largest difference is "
            f"{max(one[1] for one in others):+.2f} points with as many supports, and "
            f"{max(one[2] for one in others):+.2f} points with as many bytes: with few supports per key, the "
            "statistics and the learner that plays the rounds take a large part of the memory."
        )
        + table(
            (
                "supports per key",
                "equal shares, %",
                "shared memory, %",
                "difference, same supports",
                "difference, same bytes",
                "supports in the same bytes",
            ),
            [one[0] for one in others],
        )
    )


def uniform_line(share: int, keys: int, rows: int, seeds: Sequence[int]) -> tuple[list[str], float, float]:
    """Return the errors under uniform traffic with this number of supports per key, as cells of a table.

    Also return the largest differences with as many supports, and with as many bytes.
    """
    found = [errors(TRAFFICS[0], keys, rows, share * keys, seed) for seed in seeds]
    means = [f"{np.mean([one[name] for one in found]):.2f}" for name in ("equal shares", "shared memory")]
    spreads, largest = zip(
        *(differences(found, name) for name in ("shared memory", "same bytes")), strict=True
    )
    held = np.mean([one["same bytes, supports"] for one in found])
    return [str(share), *means, *spreads, f"{held:,.0f} of {share * keys:,}"], *largest


def common_errors(share: float, keys: int, rows: int, seed: int) -> tuple[float, float]:
    """Return the share of mistakes, in percent, without and with a common learner."""
    chosen, X, y = stream(TRAFFICS[2], keys, rows, seed, common=share)
    fleets = Fleet(learner()), Fleet(learner(), common=learner(COMMON))
    without, with_common = (error_of(fleet.play(chosen, X, y, classes=[0, 1]), y) for fleet in fleets)
    return without, with_common


def common_section(keys: int, rows: int, seeds: Sequence[int]) -> str:
    lines = []
    for share in (0.0, 0.25, 0.5, 0.9):
        found = np.array([common_errors(share, keys, rows, seed) for seed in seeds])
        gains = found[:, 1] - found[:, 0]
        means = [f"{mean:.2f}" for mean in found.mean(axis=0)]
        lines.append(
            [f"{share:g}", *means, f"{gains.mean():+.2f} ({gains.min():+.2f} to {gains.max():+.2f})"]
        )
    return (
        "\n## A common learner\n\n"
        + paragraph(
            f"{keys:,} keys of `Forgetron({BUDGET})`, {rows:,} rows with Zipf 1.0 traffic, and "
            f"`common=Forgetron({COMMON})`. The first column is the share of each concept that all "
            "keys have in common."
        )
        + table(("common share", "without, %", "with, %", "difference, points"), lines)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--quick", action="store_true", help="fewer keys, rows and seeds")
    sections: dict[str, Callable[[], str]] = {
        "speed": lambda: speed_section([20_000, 1_000_000], (20_000, 100_000)),
        "memory": lambda: pool_section(5000, 300_000, 20_000, SEEDS),
        "common": lambda: common_section(5000, 100_000, SEEDS),
    }
    parser.add_argument("--only", choices=list(sections), help="measure one section")
    given = parser.parse_args()
    if given.quick:
        sections = {
            "speed": lambda: speed_section([1000], (500, 2000)),
            "memory": lambda: pool_section(1000, 10_000, 4000, SEEDS[:2]),
            "common": lambda: common_section(200, 5000, SEEDS[:2]),
        }
    texts = [measure() for name, measure in sections.items() if given.only in (None, name)]
    print(HEAD, *texts, sep="", end="")
    if given.write:
        kept = re.split(r"(?=\n## )", PAGE.read_text(encoding="utf-8"))[1:] if given.only else texts
        place = list(sections).index(given.only or "speed")
        kept[place] = texts[0]
        PAGE.write_text(HEAD + "".join(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
