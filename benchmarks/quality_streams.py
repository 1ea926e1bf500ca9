"""The streams on which mistakes are counted: two classes, many classes, and drift."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["CHANGING", "CHOSEN_ON", "GENERATED", "GROUPS", "SEEDS", "STREAMS", "load", "seeds_of"]

Data = tuple[np.ndarray, np.ndarray]
SEEDS = (0, 1, 2)
# Settings of BudgetClassifier are chosen on these data sets only. The others are for reporting.
CHOSEN_ON = ("letter", "ijcnn1", "a9a", "electricity", "mnist")
GROUPS = ("two classes", "many classes", "drift")


@dataclass(frozen=True)
class Stream:
    """A stream.

    Attributes
    ----------
    group : str
        One of `GROUPS`, or "changing" for a stream with a section of its own.
    rows : int
        How many rows are used.
    order : str
        "shuffled": the seed gives the permutation. "generated": the seed is the generator's. "in order": the
        rows keep their order, and there is one run.
    data : str
        The data set, see `read`, or a key of `GENERATED`.
    about : str
        A description for the page.
    """

    group: str
    rows: int
    order: str
    data: str
    about: str


# A stream that changes halfway: kernels are best at first, then a linear learner that adapts quickly.
CHANGING = "letter, then electricity"
STREAMS = {
    "a9a": Stream("two classes", 20000, "shuffled", "a9a", "income above or below 50,000"),
    "ijcnn1": Stream("two classes", 20000, "shuffled", "ijcnn1", "misfiring of an engine"),
    "letter": Stream("two classes", 15000, "shuffled", "letter", "letters A-M against N-Z"),
    "usps": Stream("two classes", 7291, "shuffled", "usps", "even against odd digits"),
    "spambase": Stream("two classes", 4601, "shuffled", "spambase", "spam; log1p of the features"),
    "covertype": Stream("two classes", 20000, "shuffled", "covertype", "class 2 against the rest"),
    "phishing": Stream("two classes", 11055, "shuffled", "phishing", "phishing sites"),
    "mnist": Stream("two classes", 10000, "shuffled", "mnist", "even against odd digits"),
    "letter-26": Stream("many classes", 15000, "shuffled", "letter", "26 letters"),
    "mnist-10": Stream("many classes", 10000, "shuffled", "mnist", "10 digits"),
    "usps-10": Stream("many classes", 7291, "shuffled", "usps", "10 digits"),
    "covertype-7": Stream("many classes", 20000, "shuffled", "covertype", "7 types of forest"),
    "shuttle-7": Stream("many classes", 20000, "shuffled", "shuttle", "7 states; training set, not scaled"),
    "digits-10": Stream(
        "many classes", 1797, "shuffled", "digits", "10 digits of scikit-learn, 8 x 8 pixels"
    ),
    "agrawal": Stream("drift", 20000, "generated", "agrawal", "Agrawal, 4 functions"),
    "sea": Stream("drift", 20000, "generated", "sea", "SEA, 4 thresholds"),
    "hyperplane": Stream("drift", 20000, "generated", "hyperplane", "rotating hyperplane"),
    "rbf": Stream("drift", 20000, "generated", "rbf", "50 moving centroids, 4 classes"),
    "led": Stream(
        "drift", 20000, "generated", "led", "10 digits of 7 segments; the relevant features change"
    ),
    "electricity": Stream("drift", 45312, "in order", "electricity", "price up or down, in order of time"),
    "covertype-ordered": Stream("drift", 50000, "in order", "covertype", "7 types of forest, original order"),
    CHANGING: Stream("changing", 30000, "in order", CHANGING, "15,000 rows of each"),
}
FOUR = range(4)
# The parts of each generated stream: number of rows, class in river.datasets.synth, and its parameters.
# river's LEDDrift draws the positions of the relevant features once, so parts with other seeds are joined.
GENERATED: dict[str, list[tuple[int, str, dict[str, Any]]]] = {
    "agrawal": [
        (5000, "Agrawal", {"classification_function": function, "perturbation": 0.05}) for function in FOUR
    ],
    "sea": [(5000, "SEA", {"variant": variant, "noise": 0.1}) for variant in FOUR],
    "hyperplane": [
        (
            20000,
            "Hyperplane",
            {
                "n_features": 10,
                "n_drift_features": 10,
                "mag_change": 0.001,
                "noise_percentage": 0.05,
                "sigma": 0.1,
            },
        )
    ],
    "rbf": [
        (
            20000,
            "RandomRBFDrift",
            {
                "n_classes": 4,
                "n_features": 10,
                "n_centroids": 50,
                "n_drift_centroids": 50,
                "change_speed": 0.001,
            },
        )
    ],
    "led": [
        (5000, "LEDDrift", {"noise_percentage": 0.1, "irrelevant_features": True, "n_drift_features": 7})
        for _ in FOUR
    ],
}
# Which labels are the positive class of a stream of two classes; the last label where nothing is given.
POSITIVE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "letter": lambda y: np.unique(y, return_inverse=True)[1] < 13,
    "usps": lambda y: y.astype(int) % 2 == 0,
    "mnist": lambda y: y.astype(int) % 2 == 0,
    "covertype": lambda y: y == 2,
}


def seeds_of(stream: str) -> tuple[int, ...]:
    """Return the seeds of a stream: one for a stream in order."""
    return SEEDS[:1] if STREAMS[stream].order == "in order" else SEEDS


def load(stream: str, seed: int = 0) -> Data:
    """Return the rows that all learners get, and labels: -1 and +1, or 0 to k - 1 for k > 2 classes."""
    if stream == CHANGING:
        (X, y), (after, labels) = load("letter"), load("electricity")
        after = np.pad(standard(after[: len(y)]), ((0, 0), (0, X.shape[1] - after.shape[1])))
        return np.vstack([X, after]), np.concatenate([y, labels[: len(y)]])
    chosen = STREAMS[stream]
    X, y = generate(chosen.data, seed) if chosen.order == "generated" else read(chosen.data)
    labels = np.unique(y)
    if chosen.group == "two classes" or len(labels) == 2:
        y = np.where(POSITIVE.get(chosen.data, lambda y: y == labels[-1])(y), 1, -1)
    else:
        y = np.searchsorted(labels, y)
    if chosen.order == "shuffled":
        order = np.random.default_rng(seed).permutation(len(X))[: chosen.rows]
        return X[order], y[order]
    return X[: chosen.rows], y[: chosen.rows]


def read(data: str) -> Data:
    """Return all rows of a data set and its labels."""
    from budgetron import datasets

    if data == "digits":
        from sklearn.datasets import load_digits

        return load_digits(return_X_y=True)
    if data == "shuttle":
        # The library has no loader for it. OpenML's copy has the rows in another order.
        with np.load(Path(os.environ["BUDGETRON_DATA"]) / "shuttle.npz") as file:
            return file["X_train"].astype(np.float64), file["y_train"]
    loader = getattr(datasets, f"load_{'adult' if data == 'a9a' else data}")
    X, y = loader("train") if data == "usps" else loader()
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)
    if data == "mnist" and X.max() > 1.0:
        X /= 255.0
    elif data == "covertype":
        X[:, :10] = standard(X[:, :10])
    elif data == "spambase":
        X = np.log1p(X)
    return X, np.asarray(y)


def generate(data: str, seed: int) -> Data:
    """Return the rows of river's generators, one part after the other, each with a seed of its own."""
    synth = import_module("river.datasets.synth")
    rows: list[list[float]] = []
    labels: list[int] = []
    for part, (number, kind, options) in enumerate(GENERATED[data]):
        own = len(GENERATED[data]) * seed + part
        names = ("seed_model", "seed_sample") if kind == "RandomRBFDrift" else ("seed",)
        features: list[Any] = []
        for x, label in islice(getattr(synth, kind)(**dict.fromkeys(names, own), **options), number):
            features = features or list(x)
            rows.append([float(x[feature]) for feature in features])
            labels.append(int(label))
    return np.array(rows), np.array(labels)


def standard(X: np.ndarray) -> np.ndarray:
    """Return standardised features."""
    return (X - X.mean(axis=0)) / X.std(axis=0)
