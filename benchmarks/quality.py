"""How many mistakes are made on real streams: BudgetClassifier, its parts, and what people would use instead.

    python benchmarks/quality.py                 what has no result yet; docs/quality.md and its plots
    python benchmarks/quality.py --only letter   some streams
    python benchmarks/quality.py --who ours      those learners alone whose names begin so
    python benchmarks/quality.py --again ours    those learners again whose names begin so
    python benchmarks/quality.py --page          nothing measured: the page and the plots again

Each learner plays each stream in a process of its own, every row predicted before it is learned; its result
is written at once to docs/quality/results.json, so that a run that was stopped goes on where it was. BLAS is
held to one thread. river is in the dependency group `bench`. BUDGETRON_DATA names the folder with the data.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quality_learners import CHANGING, STREAMS, learners, load, resident
from quality_page import page, plot

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "quality" / "results.json"
WARM = 600  # rows that are played before the clock and the memory are looked at


def one(stream: str, name: str) -> None:
    """Play one stream with one learner, in this process, and print the result."""
    from threadpoolctl import threadpool_limits

    X, y = load(stream)
    play = learners(stream)[name]
    with threadpool_limits(1):
        # Imports, and what a library keeps for itself; the model lives on, lest its memory be used again
        warm = play(X[:WARM], y[:WARM])
        before, start = resident(), time.perf_counter()
        result = play(X, y)
        seconds = time.perf_counter() - start
        models, copies = [warm, result.pop("model", None)], getattr(play, "copies", 0)
        if copies:  # once more, now that libraries have all they keep for themselves
            before, again = resident(), play(X, y, copies)
            result["resident"] = before + (again["resident"] - before) // copies
    del models
    result |= {"rows": len(y), "seconds": seconds}
    if "resident" in result:
        result["growth"] = result.pop("resident") - before
    print(json.dumps(result))


def pending(
    only: list[str], who: tuple[str, ...], again: str | None, results: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    for stream in (*STREAMS, CHANGING):
        if only and stream not in only:
            continue
        for name in learners(stream):
            known = name in results.get(stream, {})
            if not name.startswith(who):
                continue
            if not known or (again is not None and name.startswith(again)):
                yield stream, name


def measure(only: list[str], who: tuple[str, ...], again: str | None, limit: float) -> None:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    todo = list(pending(only, who, again, results))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task("", total=len(todo))
        for stream, name in todo:
            bar.update(task, description=f"{stream}: {name}")
            command = [sys.executable, __file__, "--one", stream, name]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
                if done.returncode:
                    sys.exit(f"{stream}, {name}:\n{done.stderr}")
                result = json.loads(done.stdout.strip().split("\n")[-1])
            except subprocess.TimeoutExpired:
                result = {"stopped after": limit}
            results.setdefault(stream, {})[name] = result
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            draft = RESULTS.with_suffix(".part")
            draft.write_text(json.dumps(results, indent=1))
            draft.replace(RESULTS)
            bar.advance(task)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], choices=[*STREAMS, CHANGING])
    parser.add_argument("--who", nargs="*", default=[""], help="the beginnings of the names of learners")
    parser.add_argument("--again", help="the beginning of the names of learners to measure again")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one learner on one stream")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(*given.one)
        return
    if not given.page:
        measure(given.only, tuple(given.who), given.again, given.limit)
    results = json.loads(RESULTS.read_text())
    plot(results, RESULTS.parent / "errors.png")
    (ROOT / "docs" / "quality.md").write_text(page(results))


if __name__ == "__main__":
    main()
