"""Count mistakes on real streams: BudgetClassifier, its parts, and learners of other libraries.

    python benchmarks/quality.py                 measure what has no result yet; write docs/quality.md
    python benchmarks/quality.py --only letter   only the named streams
    python benchmarks/quality.py --who ours      only learners whose names begin with "ours"
    python benchmarks/quality.py --again ours    measure learners again whose names begin with "ours"
    python benchmarks/quality.py --page          measure nothing; write the page and the plot again

Each learner plays each stream in a separate process, and every row is predicted before it is learned. The
result is written to docs/quality/results.json at once, so that an interrupted run can be continued. BLAS is
limited to one thread. river is in the dependency group `bench`. BUDGETRON_DATA names the folder with the
data.
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
WARM = 600  # rows that are played before time and memory are measured


def play_one(stream: str, name: str) -> None:
    """Play one stream with one learner in this process, and print the result as JSON."""
    from threadpoolctl import threadpool_limits

    X, y = load(stream)
    play = learners(stream)[name]
    with threadpool_limits(1):
        # The first play loads libraries and fills their caches. Its model is kept alive, so that the
        # measured model cannot reuse its memory.
        warm = play(X[:WARM], y[:WARM])
        before, start = resident(), time.perf_counter()
        result = play(X, y)
        seconds = time.perf_counter() - start
        models, copies = [warm, result.pop("model", None)], getattr(play, "copies", 0)
        if copies:  # play again, now that the caches of the libraries are full
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
    """Yield the pairs of stream and learner that must be measured."""
    for stream in (*STREAMS, CHANGING):
        if only and stream not in only:
            continue
        for name in learners(stream):
            measured = name in results.get(stream, {})
            if not name.startswith(who):
                continue
            if not measured or (again is not None and name.startswith(again)):
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
    parser.add_argument(
        "--who", nargs="*", default=[""], help="only learners whose names begin with one of these"
    )
    parser.add_argument("--again", help="measure learners again whose names begin with this")
    parser.add_argument(
        "--limit", type=float, default=600.0, help="time limit in seconds for one learner on one stream"
    )
    parser.add_argument("--page", action="store_true", help="measure nothing; write the page again")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        play_one(*options.one)
        return
    if not options.page:
        measure(options.only, tuple(options.who), options.again, options.limit)
    results = json.loads(RESULTS.read_text())
    plot(results, RESULTS.parent / "errors.png")
    (ROOT / "docs" / "quality.md").write_text(page(results))


if __name__ == "__main__":
    main()
