"""The streams on which mistakes are counted, and the learners that play them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

__all__ = ["ABLATIONS", "ALONE", "CHANGING", "STREAMS", "learners", "load", "memory_of", "resident"]

# Number of rows, after a fixed permutation; electricity keeps its order.
STREAMS = {
    "a9a": 20000,
    "ijcnn1": 20000,
    "letter": 15000,
    "usps": 7291,
    "spambase": 4601,
    "covertype": 20000,
    "phishing": 11055,
    "electricity": 45312,
    "mnist": 10000,
}
# A stream that changes halfway: kernels are best at first, then a linear learner that adapts quickly.
CHANGING = "letter, then electricity"
MEMORY = {"mnist": ("64MB", "8MB")}  # large and small memory; 16 MB and 1 MB for the other streams
ABLATIONS = {
    "without second order": {"second_order": False},
    "without combiner": {"combiner": False},
    "without recency": {"recency": False},
    "equal memory": {"moving": False},
}
STEP = 100  # rows between two measurements of the memory
WIDTHS = (0.5, 2.0, 8.0, 32.0)
# Single experts on unscaled rows. Kernel widths are relative to the median squared distance of first rows.
ALONE = {
    **{f"SecondOrderProjectron(300), width {width:g}": ("second", width) for width in WIDTHS},
    **{f"PassiveAggressive(budget=1000), width {width:g}": ("recent", width) for width in WIDTHS},
    "linear.AROW()": ("AROW", 0.0),
    "linear.PassiveAggressive()": ("PA", 0.0),
}


def memory_of(stream: str) -> tuple[str, str]:
    return MEMORY.get(stream, ("16MB", "1MB"))


def load(stream: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that all learners get, and labels of -1 and +1."""
    from budgetron import datasets

    if stream == CHANGING:
        (X, y), (after, labels) = load("letter"), load("electricity")
        after = np.pad(standard(after[: len(y)]), ((0, 0), (0, X.shape[1] - after.shape[1])))
        return np.vstack([X, after]), np.concatenate([y, labels[: len(y)]])
    if stream == "a9a":
        X, y = datasets.load_adult()
        X, positive = X.toarray(), y > 0
    elif stream == "letter":
        X, y = datasets.load_letter()
        numbers = np.unique(y, return_inverse=True)[1]
        positive = numbers < 13
    elif stream in ("usps", "mnist"):
        X, y = datasets.load_usps("train") if stream == "usps" else datasets.load_mnist()
        positive = np.asarray(y).astype(int) % 2 == 0
        if stream == "mnist" and X.max() > 1.0:
            X = X / 255.0
    elif stream == "covertype":
        X, y = datasets.load_covertype()
        positive = np.asarray(y) == 2
        X = np.asarray(X, float)
        X[:, :10] = standard(X[:, :10])
    else:
        X, y = getattr(datasets, f"load_{stream}")()
        positive = np.asarray(y) == np.unique(y)[-1]
        if stream == "spambase":
            X = np.log1p(X)
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)
    order = np.arange(len(X)) if stream == "electricity" else np.random.default_rng(0).permutation(len(X))
    order = order[: STREAMS[stream]]
    return X[order], np.where(positive[order], 1, -1)


def resident() -> int:
    """Return the resident bytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---------------------------------------------------------------------- learners


def ours(memory: str, copies: int = 0, **parts: bool) -> Callable[..., dict[str, Any]]:
    """Return a player for BudgetClassifier; the memory use of one model is measured with `copies` models."""

    def play(X: np.ndarray, y: np.ndarray, number: int = 1) -> dict[str, Any]:
        from budgetron import BudgetClassifier
        from budgetron.portfolio import Plan

        class Chosen(BudgetClassifier):
            _plan = Plan(**parts)

        models = [Chosen(memory, random_state=0) for _ in range(number)]
        wrong, largest, resident_size, model = 0, 0, 0, models[0]
        for start in range(0, len(y), STEP):
            rows = X[start : start + STEP].astype(np.float32)
            for each in models:
                trace = each.progressive_fit(rows, y[start : start + STEP], classes=[-1, 1])
            wrong += int(trace.mistakes.sum())
            largest, resident_size = max(largest, model.nbytes_), max(resident_size, resident())
        experts = [
            {name: value for name, value in expert.items() if name != "class"} for expert in model.experts_
        ]
        return {
            "model": models,
            "mistakes": wrong,
            "bytes": largest,
            "resident": resident_size,
            "memory": memory,
            "experts": json.loads(json.dumps(experts, default=float)),
            "regret": model.regret_,
            "regret bound": model.regret_bound_,
        }

    play.copies = copies
    return play


def alone(kind: str, width: float) -> Callable[..., dict[str, Any]]:
    """Return a player for a single expert."""

    def play(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        import budgetron
        from budgetron import linear

        if kind in ("AROW", "PA"):
            rows = np.hstack([X, np.ones((len(X), 1))])
            model: Any = linear.AROW() if kind == "AROW" else linear.PassiveAggressive()
        else:
            rows, gamma = X, width / median_distance(X[:2000])
            if kind == "second":
                model = budgetron.SecondOrderProjectron(300, gamma=gamma)
            else:
                model = budgetron.PassiveAggressive(budget=1000, gamma=gamma)
        return {"mistakes": int(model.progressive_fit(rows, y).mistakes.sum()), "bytes": model.nbytes_}

    return play


def standard(X: np.ndarray) -> np.ndarray:
    """Return standardised features."""
    return (X - X.mean(axis=0)) / X.std(axis=0)


def median_distance(X: np.ndarray) -> float:
    """Return the median squared distance between rows, from 2,000 random pairs."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, min(len(X), 2000), (2, 2000))
    between = ((X[a] - X[b]) ** 2).sum(axis=1)
    return float(np.median(between[between > 0]))


def random_features(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Play with 500 random Fourier features at the median width, and AROW with a full covariance on them."""
    from sklearn.kernel_approximation import RBFSampler

    from budgetron.linear import AROW

    sampler = RBFSampler(gamma=2.0 / median_distance(X[:2000]), n_components=500, random_state=0).fit(X[:1])
    model, wrong = AROW(), 0
    for start in range(0, len(y), 1000):
        rows = np.hstack(
            [sampler.transform(X[start : start + 1000]), np.ones((len(X[start : start + 1000]), 1))]
        )
        wrong += int(model.progressive_fit(rows, y[start : start + 1000], classes=[-1, 1]).mistakes.sum())
    return {"mistakes": wrong, "bytes": model.nbytes_ + sampler.random_weights_.nbytes}


def river(make: Callable[[Any], Any]) -> Callable[..., dict[str, Any]]:
    """Return a player for a river model."""

    def play(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        library = import_module("river")
        for part in ("forest", "linear_model", "neighbors", "preprocessing", "tree"):
            import_module(f"river.{part}")
        model, wrong = make(library), 0
        for row, label in zip(X, (y > 0).tolist(), strict=True):
            x = dict(enumerate(row.tolist()))
            wrong += model.predict_one(x) != label
            model.learn_one(x, label)
        return {"model": model, "mistakes": wrong, "resident": resident()}

    return play


def scikit(make: Callable[[], Any]) -> Callable[..., dict[str, Any]]:
    """Return a player for a scikit-learn model on standardised rows."""

    def play(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        from sklearn.preprocessing import StandardScaler

        model, scaler, wrong = (
            make(),
            StandardScaler(),
            1,
        )  # the first row cannot be predicted and counts as a mistake
        for i, (row, label) in enumerate(zip(X[:, None], y[:, None], strict=True)):
            scaler.partial_fit(row)
            standardised = scaler.transform(row)
            if i:
                wrong += int(model.predict(standardised)[0] != label[0])
            model.partial_fit(standardised, label, classes=[-1, 1])
        return {"mistakes": wrong}

    return play


def sgd(loss: str, **options: Any) -> Any:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(loss=loss, random_state=0, **options)


def learners(stream: str) -> dict[str, Callable[..., dict[str, Any]]]:
    """Return the players of a stream by name."""
    large, small = memory_of(stream)
    players: dict[str, Callable[..., dict[str, Any]]] = {
        f"ours, {large}": ours(large, 2),
        f"ours, {small}": ours(small, 8),
    }
    if stream in ("letter", "covertype"):
        players["ours, 64MB"] = ours("64MB", 2)
    players |= {f"ours, {large}, {name}": ours(large, **parts) for name, parts in ABLATIONS.items()}

    players |= {name: alone(kind, width) for name, (kind, width) in ALONE.items()}
    if stream == CHANGING:
        return players
    players |= {
        "random features + AROW": random_features,
        "river logistic regression": river(
            lambda r: r.preprocessing.StandardScaler() | r.linear_model.LogisticRegression()
        ),
        "river passive-aggressive": river(
            lambda r: r.preprocessing.StandardScaler() | r.linear_model.PAClassifier()
        ),
        "river adaptive tree": river(lambda r: r.tree.HoeffdingAdaptiveTreeClassifier(seed=0)),
        "river nearest neighbours": river(
            lambda r: r.preprocessing.StandardScaler() | r.neighbors.KNNClassifier()
        ),
        "river nearest neighbours, raw": river(lambda r: r.neighbors.KNNClassifier()),
        "river ARF, 10 trees": river(lambda r: r.forest.ARFClassifier(n_models=10, seed=0)),
        "river AMF, 10 trees": river(lambda r: r.forest.AMFClassifier(n_estimators=10, seed=0)),
        "scikit-learn SGD, logistic": scikit(lambda: sgd("log_loss")),
        "scikit-learn passive-aggressive": scikit(
            lambda: sgd("hinge", penalty=None, learning_rate="pa1", eta0=1.0)
        ),
    }
    return players
