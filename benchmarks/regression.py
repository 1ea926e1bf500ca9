"""Measure the regressors against those of river, for docs/regression.md.

    BUDGETRON_DATA=folder python benchmarks/regression.py     measure; write docs/regression/results.json
    python benchmarks/generated.py                            write the tables of the page

Every learner predicts each row before it sees the target. All have the defaults of their library.
BudgetRegressor and the forest scale nothing outside; the other learners get rows that are standardised by the
rows so far, and the linear learner and KNN of river too. Settings of BudgetRegressor were chosen on the
streams in `CHOSEN_ON`, with other seeds where a stream is generated. Times are processor time of one run on
one thread; compare them with each other only.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from budgetron import BudgetRegressor, KernelPARegressor, NormaRegressor, SecondOrderRegressor, linear
from budgetron._util.atomic import atomic_write

FOLDER = Path(__file__).parent.parent / "docs" / "regression"
RESULTS = FOLDER / "results.json"
ROWS, SEED = 5_000, 42
CHOSEN_ON = ("Friedman", "Friedman with drift", "electricity price")
Data = tuple[np.ndarray, np.ndarray]


def generated(name: str, **parameters: Any) -> Data:
    """Return rows of a generator of river."""
    from river.datasets import synth

    rows = list(islice(getattr(synth, name)(seed=SEED, **parameters).take(ROWS), ROWS))
    numbers = [
        [float(value == "red") if isinstance(value, str) else float(value) for value in x.values()]
        for x, _ in rows
    ]
    return np.array(numbers), np.array([float(y) for _, y in rows])


def electricity(column: int) -> Data:
    """Return the rows of Elec2 in order of time, and the next value of a column."""
    with gzip.open(Path(os.environ["BUDGETRON_DATA"]) / "electricity.csv.gz", "rt") as file:
        next(file)
        table = np.array([[float(value) for value in line.split(",")[:-1]] for line in file])
    return table[:ROWS], table[1 : ROWS + 1, column]


def elevation() -> Data:
    """Return rows of Covertype in random order, and the elevation, which is left out of the rows."""
    with np.load(Path(os.environ["BUDGETRON_DATA"]) / "covtype.npz") as file:
        table = file["X"].astype(float)
    table = table[np.random.default_rng(SEED).permutation(len(table))[:ROWS]]
    return table[:, 1:], table[:, 0]


STREAMS: dict[str, Callable[[], Data]] = {
    "Friedman": lambda: generated("Friedman"),
    "Friedman with drift": lambda: generated("FriedmanDrift", drift_type="gra", position=(1700, 3400)),
    "electricity price": lambda: electricity(3),
    "electricity demand": lambda: electricity(4),
    "elevation": elevation,
    "Mv": lambda: generated("Mv"),
    "planes": lambda: generated("Planes2D"),
}


def standardised(X: np.ndarray) -> np.ndarray:
    """Return the rows, each standardised by the rows up to it."""
    count = np.arange(1, len(X) + 1)[:, None]
    origin = X[:1]
    mean = np.cumsum(X - origin, axis=0) / count
    variance = np.cumsum((X - origin) ** 2, axis=0) / count - mean**2
    deviation = np.sqrt(np.maximum(variance, 0.0))
    return np.divide(X - origin - mean, deviation, out=np.zeros_like(X), where=deviation > 1e-9)


def ours(make: Callable[[], Any], scale: bool) -> Callable[[np.ndarray, np.ndarray], dict[str, float]]:
    def play(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
        model = make()
        rows = standardised(X) if scale else X
        # Targets by the mean and the deviation of the first 100, which the learner sees first.
        mean, deviation = (y[:100].mean(), y[:100].std()) if scale else (0.0, 1.0)
        start = time.process_time()
        trace = model.progressive_fit(rows, (y - mean) / deviation)
        seconds = time.process_time() - start
        return {
            "rmse": deviation * trace.rmse,
            "seconds": seconds,
            "bytes": model.nbytes_,
            "coverage": trace.coverage,
        }

    return play


def rivals() -> dict[str, Callable[[np.ndarray, np.ndarray], dict[str, float]]]:
    from river import forest, linear_model, neighbors, preprocessing

    def play(make: Callable[[], Any]) -> Callable[[np.ndarray, np.ndarray], dict[str, float]]:
        def run(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
            model, errors = make(), []
            rows = [dict(enumerate(row)) for row in X.tolist()]
            start = time.process_time()
            for x, target in zip(rows, y.tolist(), strict=True):
                errors.append(model.predict_one(x) - target)
                model.learn_one(x, target)
            seconds = time.process_time() - start
            return {
                "rmse": float(np.sqrt(np.mean(np.square(errors)))),
                "seconds": seconds,
                "bytes": int(model._raw_memory_usage),
                "coverage": float("nan"),
            }

        return run

    scaled = preprocessing.StandardScaler
    return {
        "river linear": play(lambda: scaled() | linear_model.LinearRegression()),
        "river KNN": play(lambda: scaled() | neighbors.KNNRegressor()),
        "river forest": play(lambda: forest.ARFRegressor(seed=SEED)),
    }


def last_target(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    error = float(np.sqrt(np.mean(np.diff(y) ** 2)))
    return {"rmse": error, "seconds": float("nan"), "bytes": 8, "coverage": float("nan")}


LEARNERS: dict[str, Callable[[np.ndarray, np.ndarray], dict[str, float]]] = {
    "BudgetRegressor": ours(BudgetRegressor, False),
    "SecondOrderRegressor": ours(SecondOrderRegressor, True),
    "KernelPARegressor": ours(lambda: KernelPARegressor(budget=300), True),
    "NormaRegressor": ours(NormaRegressor, True),
    "linear.AROWRegressor": ours(linear.AROWRegressor, True),
    "linear.PARegressor": ours(linear.PARegressor, True),
}


def main() -> None:
    results: dict[str, dict[str, dict[str, float]]] = {}
    for stream, load in STREAMS.items():
        X, y = load()
        results[stream] = {}
        for name, play in {**LEARNERS, **rivals(), "last target": last_target}.items():
            results[stream][name] = play(X, y)
            print(stream, name, results[stream][name], flush=True)
    FOLDER.mkdir(exist_ok=True)
    with atomic_write(RESULTS) as file:
        file.write((json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
