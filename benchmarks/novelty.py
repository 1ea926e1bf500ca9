"""Measure the detectors against those of river, for docs/novelty.md.

    BUDGETRON_DATA=folder python benchmarks/novelty.py     measure; write docs/novelty/results.json
    python benchmarks/generated.py                         write the tables of the page

One class is held out: its rows are the unusual ones. They are scored and never learned. All other rows are
scored, then learned. The first 500 rows do not count. Each class with at least 20 rows is held out in turn.
All detectors have the defaults of their library. HalfSpaceTrees gets rows scaled to [0, 1] by river's
MinMaxScaler, as it needs them. The others get standardised rows, by the rows learned so far. Settings of our
detectors were chosen on the streams in `CHOSEN_ON`, with other numbers of rows; that the score is a variance,
on letter, mnist, a9a, and on digits and covertype, which are not reported. Times are processor time of
one run on one thread; compare them with each other only.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import roc_auc_score

from budgetron import NormaDetector, SecondOrderDetector
from budgetron._util.atomic import atomic_write

FOLDER = Path(__file__).parent.parent / "docs" / "novelty"
RESULTS = FOLDER / "results.json"
SEED, UNCOUNTED, LEAST = 42, 500, 20
CHOSEN_ON = ("ijcnn1", "letter", "mnist", "a9a")
RATE = 0.01  # the default of `false_alarm_rate`
MEAN = 'SecondOrderDetector(score_by="mean")'
Data = tuple[np.ndarray, np.ndarray]
Scores = tuple[np.ndarray, float, float]


def packed(name: str) -> Data:
    with np.load(Path(os.environ["BUDGETRON_DATA"]) / f"{name}.npz") as file:
        return file["X_train"].astype(float), file["y_train"].astype(int)


def text(name: str, d: int) -> Data:
    X, y = load_svmlight_file(Path(os.environ["BUDGETRON_DATA"]) / f"{name}.gz", n_features=d)
    return X.toarray(), y.astype(int)


def mnist() -> Data:
    folder = Path(os.environ["BUDGETRON_DATA"])
    with gzip.open(folder / "mnist-t10k-images-idx3-ubyte.gz") as file:
        X = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784) / 255.0
    with gzip.open(folder / "mnist-t10k-labels-idx1-ubyte.gz") as file:
        return X, np.frombuffer(file.read(), np.uint8, offset=8).astype(int)


STREAMS: dict[str, tuple[Callable[[], Data], int]] = {
    "shuttle": (lambda: packed("shuttle"), 10_000),
    "usps": (lambda: packed("usps"), 5_000),
    "ijcnn1": (lambda: text("ijcnn1", 22), 10_000),
    "letter": (lambda: text("letter.scale", 16), 10_000),
    "mnist": (mnist, 2_000),
    "a9a": (lambda: text("a9a", 123), 5_000),
}


def standardised(X: np.ndarray, learned: np.ndarray) -> np.ndarray:
    """Return the rows, each standardised by the rows before it that are learned."""
    shifted, weight = X - X[:1], learned[:, None].astype(float)
    count = np.maximum(np.cumsum(weight, axis=0) - weight, 1.0)
    mean = (np.cumsum(weight * shifted, axis=0) - weight * shifted) / count
    square = (np.cumsum(weight * shifted**2, axis=0) - weight * shifted**2) / count
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    return np.divide(shifted - mean, deviation, out=np.zeros_like(X), where=deviation > 1e-6)


def ours(make: Callable[..., Any]) -> Callable[[np.ndarray, np.ndarray], Scores]:
    def play(X: np.ndarray, learned: np.ndarray) -> Scores:
        rows, model = standardised(X, learned), make(gamma="auto")
        scores = np.zeros(len(X))
        start = time.process_time()
        for t, (x, learn) in enumerate(zip(rows, learned.tolist(), strict=True)):
            if learn:
                scores[t] = -model.play(x)
            elif hasattr(model, "rounds_"):
                scores[t] = -model.score_row(x)
        seconds = time.process_time() - start
        return scores, seconds, model.alarms_ / model.rounds_

    return play


def rivals() -> dict[str, Callable[[np.ndarray, np.ndarray], Scores]]:
    from river import anomaly, preprocessing

    def play(make: Callable[[], Any]) -> Callable[[np.ndarray, np.ndarray], Scores]:
        def run(X: np.ndarray, learned: np.ndarray) -> Scores:
            model, scores = make(), np.zeros(len(X))
            rows = [dict(enumerate(row)) for row in X.tolist()]
            start = time.process_time()
            for t, (x, learn) in enumerate(zip(rows, learned.tolist(), strict=True)):
                scores[t] = model.score_one(x)
                if learn:
                    model.learn_one(x)
            return scores, time.process_time() - start, float("nan")

        return run

    return {
        "river HalfSpaceTrees": play(
            lambda: preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=SEED)
        ),
        "river OneClassSVM": play(lambda: preprocessing.StandardScaler() | anomaly.OneClassSVM()),
    }


DETECTORS: dict[str, Callable[[np.ndarray, np.ndarray], Scores]] = {
    "SecondOrderDetector": ours(SecondOrderDetector),
    MEAN: ours(partial(SecondOrderDetector, score_by="mean")),
    "NormaDetector": ours(NormaDetector),
}


def main() -> None:
    results: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for stream, (load, n) in STREAMS.items():
        X, y = load()
        order = np.random.default_rng(SEED).permutation(len(y))[:n]
        X, y = X[order], y[order]
        results[stream] = {}
        for held_out in np.unique(y):
            unusual = y == held_out
            if unusual[UNCOUNTED:].sum() < LEAST:
                continue
            found = results[stream][str(held_out)] = {}
            for name, play in {**DETECTORS, **rivals()}.items():
                scores, seconds, alarms = play(X, ~unusual)
                auc = float(roc_auc_score(unusual[UNCOUNTED:], scores[UNCOUNTED:]))
                found[name] = {"auc": auc, "seconds": seconds, "alarms": alarms}
            print(stream, held_out, {name: round(one["auc"], 3) for name, one in found.items()}, flush=True)
    FOLDER.mkdir(exist_ok=True)
    with atomic_write(RESULTS) as file:
        file.write((json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
