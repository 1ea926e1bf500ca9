"""Count mistakes on streams: BudgetClassifier, its parts, and learners of other libraries.

    python benchmarks/quality.py                 measure what has no result yet; write docs/quality.md
    python benchmarks/quality.py --only letter   only the named streams or groups of streams
    python benchmarks/quality.py --seeds 0       only these permutations, or seeds of generated streams
    python benchmarks/quality.py --who ours      only learners whose names begin with "ours"
    python benchmarks/quality.py --again ours    measure learners again whose names begin with "ours"
    python benchmarks/quality.py --untimed       record no times: for a machine that is used by others, too
    python benchmarks/quality.py --merge FILE    add the results of a file that are missing; measure nothing
    python benchmarks/quality.py --page          measure nothing; write the page and the plot again

Each learner plays each stream in a separate process, and every row is predicted before it is learned. The
result is written to docs/quality/results.json at once, so that an interrupted run can be continued. The file
maps stream, learner and seed to a result. BLAS is limited to one thread. river is in the dependency group
`bench`. BUDGETRON_DATA names the folder with the data.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from quality_learners import learners
from quality_page import page, plot
from quality_rivals import RIVALS, resident
from quality_streams import GROUPS, SEEDS, STREAMS, load, seeds_of

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "quality" / "results.json"
WARM = 600  # rows that are played before time and memory are measured
# A process is ended after this many times the limit. Learners of other libraries stop at the limit of
# processor time, which takes much longer on a busy machine.
GRACE = 20

Results = dict[str, dict[str, dict[str, Any]]]


def play_one(stream: str, name: str, seed: int, limit: float, untimed: bool) -> dict[str, Any]:
    """Play one stream with one learner in this process, and return the result."""
    from threadpoolctl import threadpool_limits

    X, y = load(stream, seed)
    play = learners(stream, seed)[name]
    copies = 0 if untimed else getattr(play, "copies", 0)
    with threadpool_limits(1):
        # The first play loads libraries and fills their caches. Its model is kept alive, so that the
        # measured model cannot reuse its memory. The rows are spread over the stream, for all its classes.
        some = slice(None, None, math.ceil(len(y) / WARM))
        warm = play(X[some], y[some])
        before, start = resident(), time.process_time()
        result = play(X, y, limit)
        seconds = time.process_time() - start
        models = [warm, result.pop("model", None)]
        if copies:  # play again, now that the caches of the libraries are full
            before, again = resident(), play(X, y, number=copies)
            result["resident"] = before + (again["resident"] - before) // copies
    del models
    result = {"rows": len(y)} | result
    if result["rows"] < len(y):
        result["stopped after"] = limit
    if seed:
        result.pop("experts", None)  # the page shows those of the first seed
    size = result.pop("resident", None)
    if not untimed:
        result["seconds"] = seconds
    if size is not None and (name in RIVALS or not untimed):
        result["growth"] = size - before
    return result


def pending(
    only: Sequence[str], seeds: Sequence[int], who: tuple[str, ...], again: str | None, results: Results
) -> Iterator[tuple[str, str, int]]:
    """Yield the stream, learner and seed of each run that must be measured, the first seed first."""
    for seed in seeds:
        for stream, entry in STREAMS.items():
            if seed not in seeds_of(stream) or (only and stream not in only and entry.group not in only):
                continue
            for name in learners(stream, seed):
                measured = str(seed) in results.get(stream, {}).get(name, {})
                if not name.startswith(who):
                    continue
                if not measured or (again is not None and name.startswith(again)):
                    yield stream, name, seed


def read(path: Path) -> Results:
    return json.loads(path.read_text()) if path.exists() else {}


def write(path: Path, results: Results) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(results, indent=1))
    draft.replace(path)


def merge(results: Results, others: Results) -> int:
    """Add the results that are missing, and return their number."""
    added = 0
    for stream, names in others.items():
        for name, runs in names.items():
            known = results.setdefault(stream, {}).setdefault(name, {})
            new = {seed: result for seed, result in runs.items() if seed not in known}
            known.update(new)
            added += len(new)
    return added


def measure(todo: list[tuple[str, str, int]], path: Path, limit: float, untimed: bool) -> list[str]:
    """Measure each run in a process, write each result at once, and return the messages of failed runs."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
    )
    failed = []
    with Progress(*columns) as bar:
        task = bar.add_task("", total=len(todo))
        for stream, name, seed in todo:
            bar.update(task, description=f"{stream}, {seed}: {name}")
            command = [sys.executable, __file__, "--one", stream, name, str(seed), "--limit", str(limit)]
            command += ["--untimed"] * untimed
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=GRACE * limit + 60, check=True
                )
            except subprocess.SubprocessError as problem:
                failed.append(f"{stream}, {seed}, {name}: {problem}\n{problem.stderr or ''}")
            else:
                results = read(path)  # again: results may have been merged in the meantime
                run = json.loads(done.stdout.strip().split("\n")[-1])
                results.setdefault(stream, {}).setdefault(name, {})[str(seed)] = run
                write(path, results)
            bar.advance(task)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], choices=[*STREAMS, *GROUPS])
    parser.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS), choices=SEEDS)
    parser.add_argument(
        "--who", nargs="*", default=[""], help="only learners whose names begin with one of these"
    )
    parser.add_argument("--again", help="measure learners again whose names begin with this")
    parser.add_argument(
        "--limit",
        type=float,
        default=600.0,
        help="limit in seconds of processor time for one learner on one stream",
    )
    parser.add_argument("--untimed", action="store_true", help="record no times, and no memory of ours")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="another file for results; the page is not written"
    )
    parser.add_argument("--merge", type=Path, help="add the results of this file that are missing")
    parser.add_argument("--page", action="store_true", help="measure nothing; write the page again")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        stream, name, seed = options.one
        print(json.dumps(play_one(stream, name, int(seed), options.limit, options.untimed)))
        return
    results, failed = read(options.results), []
    if options.merge:
        print(f"{merge(results, read(options.merge))} results added")
        write(options.results, results)
    elif not options.page:
        todo = list(pending(options.only, options.seeds, tuple(options.who), options.again, results))
        failed = measure(todo, options.results, options.limit, options.untimed)
        results = read(options.results)
    if options.results == RESULTS:
        plot(results, RESULTS.parent / "errors.png")
        (ROOT / "docs" / "quality.md").write_text(page(results))
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
