"""Measure what a small model costs besides its rounds: memory of the process, first round, unpickling.

    python benchmarks/small_models.py            print the table
    python benchmarks/small_models.py --write    also write it to docs/small-models.md

Each measurement of memory runs in a process of its own, so that memory that was freed before is not reused.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from budgetron import Forgetron, linear
from measure import best

PAGE = Path(__file__).parent.parent / "docs" / "small-models.md"

MODELS: dict[str, Callable[[], Any]] = {
    "Forgetron(20)": lambda: Forgetron(20, gamma=0.1),
    "linear.Perceptron(fit_intercept=False)": lambda: linear.Perceptron(fit_intercept=False),
    "linear.AROW(fit_intercept=False)": lambda: linear.AROW(fit_intercept=False),
}
FEATURES, ROWS, COPIES, REPEAT = 10, 60, 4000, 2000

HEAD = """\
# Small models

This page gives the memory and time that a model of {features} features and two classes needs besides its
rounds. `benchmarks/small_models.py` measured {copies:,} models in one process; each had learned {rows} rows.
`nbytes_` counts rows, coefficients and all other numbers that a model keeps. The rest are Python objects: the
estimator, its parameters, and the objects around its arrays. Times are given in microseconds and, in
brackets, in rounds of the same model, so that they can be compared between machines.

"""
COLUMNS = (
    *("model", "`nbytes_`", "process memory per model", "per unpickled model", "one round, µs"),
    *("first round, µs (rounds)", "unpickling, µs (rounds)"),
)


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, FEATURES)), rng.integers(2, size=ROWS)


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def bytes_of_process(name: str, unpickle: bool) -> float:
    """Return by how much the process grows with each model."""
    X, y = data()
    pickled = pickle.dumps(MODELS[name]().fit(X, y))

    def make() -> Any:
        return pickle.loads(pickled) if unpickle else MODELS[name]().fit(X, y)

    warm = [make() for _ in range(300)]
    del warm
    gc.collect()
    kept: list[Any] = [None] * COPIES
    before = resident()
    for i in range(COPIES):
        kept[i] = make()
    gc.collect()
    return (resident() - before) / COPIES


def times(name: str) -> tuple[float, float, float]:
    """Return the microseconds of a round, of the first round of a model, and of unpickling."""
    X, y = data()
    model, x = MODELS[name]().fit(X, y), X[0].copy()
    pickled = pickle.dumps(model)
    many = 100

    def rounds() -> None:
        for _ in range(many):
            model.play(x, 1)

    def first() -> None:
        MODELS[name]().play(x, 1, classes=[0, 1])

    one = best(lambda: rounds, REPEAT // 20) / many
    unpickling = best(lambda: lambda: pickle.loads(pickled), REPEAT)
    return 1e6 * one, 1e6 * best(lambda: first, REPEAT), 1e6 * unpickling


def row(name: str) -> str:
    X, y = data()
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        fitted = pool.apply(bytes_of_process, (name, False))
        unpickled = pool.apply(bytes_of_process, (name, True))
    one, first, unpickling = times(name)
    size = MODELS[name]().fit(X, y).nbytes_
    cells = [f"`{name}`", f"{size:,}", f"{fitted:,.0f}", f"{unpickled:,.0f}", f"{one:.2f}"]
    cells += [f"{first:.0f} ({first / one:.0f})", f"{unpickling:.0f} ({unpickling / one:.0f})"]
    return line(cells)


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the page")
    write = parser.parse_args().write
    text = HEAD.format(features=FEATURES, copies=COPIES, rows=ROWS)
    text += line(COLUMNS) + line(["---"] * len(COLUMNS)) + "".join(row(name) for name in MODELS)
    print(text, end="")
    if write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
