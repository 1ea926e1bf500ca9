"""Measure error, time and memory of the learners to choose from, for docs/which-learner.md.

    python benchmarks/choices.py           measure; write docs/choices/results.json and the plot
    python benchmarks/choices.py --plot    draw the plot from the results

The streams are not used to choose settings. All learners have their defaults and a budget of 100 or the given
memory. BudgetClassifier scales features itself. The others get features that are standardised by the first
500 rows. Times are of one run on one thread; compare them with each other only.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, mean
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from budgetron import (
    BudgetClassifier,
    Forgetron,
    ProjectronPlusPlus,
    RandomizedBudgetPerceptron,
    SecondOrderProjectron,
    linear,
)
from budgetron._util.atomic import atomic_write
from quality_streams import load

FOLDER = Path(__file__).parent.parent / "docs" / "choices"
RESULTS = FOLDER / "results.json"
STREAMS = ("usps", "spambase", "phishing", "covertype", "usps-10")
WINDOW, BLOCK = 500, 1000

LEARNERS: dict[str, Callable[[], Any]] = {
    'BudgetClassifier("16MB")': lambda: BudgetClassifier("16MB", random_state=0),
    'BudgetClassifier("2MB")': lambda: BudgetClassifier("2MB", random_state=0),
    "SecondOrderProjectron(400)": lambda: SecondOrderProjectron(400),
    "SecondOrderProjectron(100)": lambda: SecondOrderProjectron(100),
    "ProjectronPlusPlus(budget=100)": lambda: ProjectronPlusPlus(budget=100),
    "Forgetron(100)": lambda: Forgetron(100),
    "RandomizedBudgetPerceptron(100)": lambda: RandomizedBudgetPerceptron(100, random_state=0),
    # The rows have a constant feature, which all learners get.
    "linear.AROW()": lambda: linear.AROW(fit_intercept=False),
    "linear.PassiveAggressive()": lambda: linear.PassiveAggressive(fit_intercept=False),
}


def measure(stream: str, name: str) -> dict[str, float]:
    """Return mistakes, rows, seconds and bytes of one learner on one stream."""
    X, y = load(stream)
    X = np.ascontiguousarray(X, np.float64)
    if not name.startswith("BudgetClassifier"):
        X = StandardScaler().fit(X[:WINDOW]).transform(X)
        X = np.column_stack([X, np.ones(len(X))])
    model, mistakes, classes = LEARNERS[name](), 0, np.unique(y)
    start = time.perf_counter()
    for first in range(0, len(X), BLOCK):
        rows = slice(first, first + BLOCK)
        mistakes += int(model.progressive_fit(X[rows], y[rows], classes).mistakes.sum())
    seconds = time.perf_counter() - start
    return {"mistakes": mistakes, "rows": len(X), "seconds": seconds, "bytes": int(model.nbytes_)}


def summary(results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the errors of each learner, and the means of error, relative time and bytes over the streams."""
    slowest = next(iter(LEARNERS))
    rows = []
    for name in LEARNERS:
        runs = [results[stream][name] for stream in STREAMS]
        errors = [100 * run["mistakes"] / run["rows"] for run in runs]
        times = [
            run["seconds"] / results[stream][slowest]["seconds"]
            for stream, run in zip(STREAMS, runs, strict=True)
        ]
        rows.append(
            {
                "learner": name,
                "errors": errors,
                "error": mean(errors),
                "time": geometric_mean(times),
                "microseconds": [1e6 * run["seconds"] / run["rows"] for run in runs],
                "bytes": geometric_mean([run["bytes"] for run in runs]),
            }
        )
    return rows


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the mean error over relative time, and over memory."""
    from matplotlib.figure import Figure

    from budgetron._evaluation.plots import COLOURS
    from budgetron._util.units import format_bytes

    figure = Figure(figsize=(10, 5.4), layout="constrained")
    time_axis, memory_axis = figure.subplots(1, 2, sharey=True)
    for row, colour in zip(rows, [*COLOURS, "#7a3e9d"], strict=True):
        for axis, cost in ((time_axis, row["time"]), (memory_axis, row["bytes"])):
            axis.plot([cost], [row["error"]], "o", ms=9, color=colour, label=row["learner"])
    for axis, label in ((time_axis, "time of a round, relative to the first"), (memory_axis, "memory")):
        axis.set(xscale="log", xlabel=label)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    ticks = [2**power for power in (12, 16, 20, 24)]
    memory_axis.set_xticks(ticks, [format_bytes(tick) for tick in ticks])
    memory_axis.minorticks_off()
    highest = 1.08 * max(row["error"] for row in rows)
    time_axis.set(ylabel="mistakes, % (mean of the streams)", ylim=(0, highest))
    handles, labels = time_axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plot", action="store_true", help="only draw the plot")
    if not parser.parse_args().plot:
        results: dict[str, dict[str, Any]] = {stream: {} for stream in STREAMS}
        for stream in STREAMS:
            for name in LEARNERS:
                results[stream][name] = measure(stream, name)
                print(stream, name, results[stream][name], flush=True)
        FOLDER.mkdir(exist_ok=True)
        with atomic_write(RESULTS) as file:
            file.write((json.dumps(results, indent=1) + "\n").encode())
    plot(summary(json.loads(RESULTS.read_text())), FOLDER / "choices.png")


if __name__ == "__main__":
    main()
