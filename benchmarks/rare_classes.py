"""Rank the rows of streams with a rare class, for docs/rare-classes.md.

    BUDGETRON_DATA=folder python benchmarks/rare_classes.py     measure; write docs/rare-classes/results.json
    python benchmarks/generated.py                              write the tables of the page

Each stream is learned in one pass, in a fixed random order. The score of a row is its margin before its label
is seen. The first 5,000 rows do not count. Features are standardised. All kernel learners get gamma="scale"
and 200 supports, and otherwise all have their defaults. `eta` of `AUCMaximizer` was chosen on 20,000 rows of
ijcnn1 in another order (`python benchmarks/rare_classes.py choose`), and nothing on w8a and shuttle.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score
from sklearn.preprocessing import scale

from budgetron import (
    BSGD,
    OGD,
    Ahpatron,
    AUCMaximizer,
    BudgetPA,
    Forgetron,
    SecondOrderProjectron,
    linear,
)
from budgetron._util.atomic import atomic_write

RESULTS = Path(__file__).parent.parent / "docs" / "rare-classes" / "results.json"
BUDGET, UNCOUNTED, BLOCK = 200, 5000, 1000
CHOSEN_ON = ("ijcnn1",)
ETAS = (0.5, 1.0, 2.0, 4.0)
Data = tuple[np.ndarray, np.ndarray]

LEARNERS: dict[str, Callable[[], Any]] = {
    "AUCMaximizer": lambda: AUCMaximizer(BUDGET, random_state=0),
    "OGD": lambda: OGD(budget=BUDGET),
    "Forgetron": lambda: Forgetron(BUDGET),
    "BudgetPA": lambda: BudgetPA(BUDGET),
    "BSGD": lambda: BSGD(BUDGET),
    "Ahpatron": lambda: Ahpatron(BUDGET),
    "SecondOrderProjectron": lambda: SecondOrderProjectron(BUDGET),
    "SecondOrderProjectron, weight 10": lambda: SecondOrderProjectron(BUDGET, class_weight={1: 10.0}),
    "linear.AROW": linear.AROW,
}


def libsvm(name: str) -> Data:
    X, y = load_svmlight_file(str(Path(os.environ["BUDGETRON_DATA"]) / f"{name}.gz"))
    return X.toarray(), np.where(y > 0, 1, 0)


def shuttle() -> Data:
    """Return the training rows of shuttle; the rare class is the third most frequent one."""
    with np.load(Path(os.environ["BUDGETRON_DATA"]) / "shuttle.npz") as file:
        X, y = file["X_train"].astype(float), file["y_train"].astype(int)
    classes, counts = np.unique(y, return_counts=True)
    return X, (y == classes[np.argsort(-counts)[2]]).astype(int)


STREAMS: dict[str, Callable[[], Data]] = {
    "ijcnn1": lambda: libsvm("ijcnn1"),
    "w8a": lambda: libsvm("w8a"),
    "shuttle": shuttle,
}


def rows_of(stream: str, seed: int) -> Data:
    """Return the rows of a stream in a random order, with standardised features."""
    X, y = STREAMS[stream]()
    order = np.random.default_rng(seed).permutation(len(y))
    return np.ascontiguousarray(scale(X)[order]), y[order]


def measure(model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return how well the scores of one pass rank the rows, and processor seconds."""
    parts, start = [], time.process_time()
    for first in range(0, len(y), BLOCK):
        rows = slice(first, first + BLOCK)
        parts.append(model.progressive_fit(X[rows], y[rows], classes=[0, 1]).margins)
    seconds = time.process_time() - start
    scores, labels = np.concatenate(parts)[UNCOUNTED:], y[UNCOUNTED:]
    return {
        "auc": float(roc_auc_score(labels, scores)),
        "precision": float(average_precision_score(labels, scores)),
        "balanced": float(balanced_accuracy_score(labels, scores > 0)),
        "mistakes": float(np.mean((scores > 0) != labels)),
        "microseconds": 1e6 * seconds / len(y),
        "rare": float(y.mean()),
        "rows": len(y),
    }


def choose() -> None:
    """Print the results of several steps on ijcnn1."""
    X, y = rows_of("ijcnn1", 1)
    for eta in ETAS:
        found = measure(AUCMaximizer(BUDGET, eta, random_state=0), X[:20_000], y[:20_000])
        print(eta, {name: round(value, 4) for name, value in found.items()}, flush=True)


def main() -> None:
    results: dict[str, dict[str, dict[str, float]]] = {}
    for stream in STREAMS:
        X, y = rows_of(stream, 0)
        for name, make in LEARNERS.items():
            found = results.setdefault(stream, {})[name] = measure(make(), X, y)
            print(stream, name, {key: round(value, 4) for key, value in found.items()}, flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    with atomic_write(RESULTS) as file:
        file.write(json.dumps(results, indent=1).encode() + b"\n")


if __name__ == "__main__":
    choose() if sys.argv[1:] == ["choose"] else main()
