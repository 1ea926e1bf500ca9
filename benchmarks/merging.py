"""Compare one model that learns a whole stream with workers that learn parts of it and are merged.

    python benchmarks/merging.py                        print the table
    python benchmarks/merging.py --json results.json    also write it to a file

The workers are copies of one model in this process. In each period every worker learns as many rows as
`merge_period` says, dealt in turn, and then all of them are merged. Errors are progressive: every row is
predicted by the worker that learns it, before it learns it. `BUDGETRON_DATA` names the folder of the data.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from budgetron import SecondOrderProjectron
from budgetron.linear import AROW
from budgetron.merging import merge_period
from quality_streams import load, read

STREAMS = ("letter", "ijcnn1", "a9a", "covertype")
# All rows of covertype, so that periods reach their limit.
LONG = "covertype, all rows"
WORKERS = 16
COLUMNS = (
    *("learner and stream", "rows", "one pass", "merged (merges)", "without limit (merges)", "never merged"),
    *("worst loss", "delta, kB", "rows that a merge costs"),
)
# One model learns these rows and chooses the supports, which are then fixed.
FIRST, BUDGET = 1000, 100

# Returns a model, the rows that it has learned, and its mistakes.
Start = Callable[[Any, np.ndarray], tuple[Any, int, int]]
# Returns the rows that each worker learns before the next merge, given the rounds so far and the workers.
Period = Callable[[int, int], int]


def linear(X: Any, y: np.ndarray) -> tuple[Any, int, int]:
    model = AROW(fit_intercept=False).partial_fit(X[:1], y[:1], classes=[-1, 1])
    return model, 1, model.mistakes_


def fixed_supports(X: Any, y: np.ndarray) -> tuple[Any, int, int]:
    model = SecondOrderProjectron(BUDGET).partial_fit(X[:FIRST], y[:FIRST], classes=[-1, 1])
    return model.fix_supports(), FIRST, model.mistakes_


def one_pass(model: Any, X: Any, y: np.ndarray) -> Any:
    return copy.deepcopy(model).partial_fit(X, y)


def merged(model: Any, X: Any, y: np.ndarray, workers: int, period: Period = merge_period) -> tuple[Any, int]:
    """Return a model that learned the rows with workers, and how often it was merged."""
    model, start, merges = copy.deepcopy(model), 0, 0
    while start < len(y):
        end = min(len(y), start + workers * period(model.rounds_, workers))
        copies = [copy.deepcopy(model) for _ in range(min(workers, end - start))]
        for k, worker in enumerate(copies):
            rows = slice(start + k, end, len(copies))
            worker.partial_fit(X[rows], y[rows])
        model.merge([worker.delta(since=model) for worker in copies])
        start, merges = end, merges + 1
    return model, merges


def alone(model: Any, X: Any, y: np.ndarray, workers: int) -> int:
    """Return the mistakes of workers that are never merged."""
    copies = [copy.deepcopy(model) for _ in range(workers)]
    for k, worker in enumerate(copies):
        worker.partial_fit(X[k::workers], y[k::workers])
    return sum(worker.mistakes_ - model.mistakes_ for worker in copies)


def long_stream(seed: int) -> tuple[Any, np.ndarray]:
    X, y = read("covertype")
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], np.where(y == 2, 1, -1)[order]


def measure(stream: str, make: Start, seed: int) -> dict[str, float]:
    X, y = long_stream(seed) if stream == LONG else load(stream, seed)
    model, first, mistakes = make(X, y)
    rest = X[first:], y[first:]
    begin = time.process_time()
    sequential = one_pass(model, *rest)
    seconds = time.process_time() - begin
    with_rule, merges = merged(model, *rest, WORKERS)
    without_limit, few = merged(model, *rest, WORKERS, partial(merge_period, most=None))
    begin = time.process_time()
    copy.deepcopy(with_rule).merge([with_rule.delta(since=model)])
    one_merge = time.process_time() - begin
    n = len(y)
    return {
        "rows": n,
        "sequential": 100 * sequential.mistakes_ / n,
        "merged": 100 * with_rule.mistakes_ / n,
        "merges": merges,
        "without limit": 100 * without_limit.mistakes_ / n,
        "merges without limit": few,
        "never merged": 100 * (mistakes + alone(model, *rest, WORKERS)) / n,
        "delta bytes": with_rule.delta(since=model).nbytes,
        "rows per merge": one_merge / (seconds / len(rest[1])),
    }


def row(name: str, mean: dict[str, float]) -> str:
    """Return a row of the table in Markdown."""
    merged, limitless = (f"{mean[kind]:.2f}" for kind in ("merged", "without limit"))
    cells = [name, f"{mean['rows']:,.0f}", f"{mean['sequential']:.2f}", f"{merged} ({mean['merges']:.0f})"]
    cells += [f"{limitless} ({mean['merges without limit']:.0f})", f"{mean['never merged']:.2f}"]
    cells += [
        f"{mean['worst loss']:.2f}",
        f"{mean['delta bytes'] / 1000:.1f}",
        f"{mean['rows per merge']:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--seeds", type=int, default=3, help="permutations of each stream")
    arguments = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    for kind, make in (("linear.AROW", linear), ("fixed supports", fixed_supports)):
        for stream in (*STREAMS, *([LONG] if make is linear else [])):
            runs = [measure(stream, make, seed) for seed in range(arguments.seeds)]
            mean = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
            mean["worst loss"] = max(run["merged"] - run["sequential"] for run in runs)
            results[f"{kind}: {stream}"] = mean
            print(row(f"{kind}: {stream}", mean), flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
