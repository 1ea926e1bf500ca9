"""The learners of other libraries that play the streams, with the defaults of their library."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

__all__ = ["RIVALS", "Player", "median_distance", "resident"]

# A player gets rows, labels and a limit in seconds of processor time. It returns the mistakes, and the number
# of rows if it did not reach the last one.
Player = Callable[..., dict[str, Any]]
PARTS = ("ensemble", "forest", "linear_model", "multiclass", "neighbors", "preprocessing", "tree")


def resident() -> int:
    """Return the resident bytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def median_distance(X: np.ndarray) -> float:
    """Return the median squared distance between rows, from 2,000 random pairs."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, min(len(X), 2000), (2, 2000))
    between = ((X[a] - X[b]) ** 2).sum(axis=1)
    return float(np.median(between[between > 0]))


def previous_label(X: np.ndarray, y: np.ndarray, limit: float = math.inf) -> dict[str, Any]:
    """Predict the label of the row before. The first row counts as a mistake."""
    return {"mistakes": 1 + int((y[1:] != y[:-1]).sum())}


def random_features(X: np.ndarray, y: np.ndarray, limit: float = math.inf) -> dict[str, Any]:
    """Play with 500 random Fourier features at the median width, and AROW with a full covariance on them."""
    from sklearn.kernel_approximation import RBFSampler

    from budgetron.linear import AROW

    sampler = RBFSampler(gamma=2.0 / median_distance(X[:2000]), n_components=500, random_state=0).fit(X[:1])
    model, wrong, classes = AROW(fit_intercept=False), 0, np.unique(y)
    for start in range(0, len(y), 1000):
        rows = np.hstack(
            [sampler.transform(X[start : start + 1000]), np.ones((len(X[start : start + 1000]), 1))]
        )
        wrong += int(model.progressive_fit(rows, y[start : start + 1000], classes=classes).mistakes.sum())
    return {"mistakes": wrong, "bytes": model.nbytes_ + sampler.random_weights_.nbytes}


def river(make: Callable[[Any, bool], Any]) -> Player:
    """Return a player for a river model. `make` gets the library, and whether there are many classes."""

    def play(X: np.ndarray, y: np.ndarray, limit: float = math.inf) -> dict[str, Any]:
        library = import_module("river")
        for part in PARTS:
            import_module(f"river.{part}")
        many = len(np.unique(y)) > 2
        model, wrong, rows, end = make(library, many), 0, 0, time.process_time() + limit
        for row, label in zip(X, (y if many else y > 0).tolist(), strict=True):
            if time.process_time() > end:
                break
            x = dict(enumerate(row.tolist()))
            wrong += model.predict_one(x) != label
            model.learn_one(x, label)
            rows += 1
        return {"model": model, "mistakes": wrong, "rows": rows, "resident": resident()}

    return play


def linear(r: Any, many: bool, model: Any) -> Any:
    """Return a linear model of river on standardised rows, one against the rest if there are many classes."""
    return r.preprocessing.StandardScaler() | (r.multiclass.OneVsRestClassifier(model) if many else model)


def scikit(make: Callable[[], Any]) -> Player:
    """Return a player for a scikit-learn model on standardised rows."""

    def play(X: np.ndarray, y: np.ndarray, limit: float = math.inf) -> dict[str, Any]:
        from sklearn.preprocessing import StandardScaler

        model, scaler, classes, end = make(), StandardScaler(), np.unique(y), time.process_time() + limit
        wrong, rows = 0, 0
        for row, label in zip(X[:, None], y[:, None], strict=True):
            if time.process_time() > end:
                break
            scaler.partial_fit(row)
            standardised = scaler.transform(row)
            # The first row cannot be predicted and counts as a mistake.
            wrong += int(rows == 0 or model.predict(standardised)[0] != label[0])
            model.partial_fit(standardised, label, classes=classes)
            rows += 1
        return {"mistakes": wrong, "rows": rows}

    return play


def sgd(loss: str, **options: Any) -> Any:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(loss=loss, random_state=0, **options)


RIVALS: dict[str, Player] = {
    "previous label": previous_label,
    "random features + AROW": random_features,
    "river logistic regression": river(lambda r, many: linear(r, many, r.linear_model.LogisticRegression())),
    "river passive-aggressive": river(lambda r, many: linear(r, many, r.linear_model.PAClassifier())),
    "river adaptive tree": river(lambda r, many: r.tree.HoeffdingAdaptiveTreeClassifier(seed=0)),
    "river nearest neighbours": river(
        lambda r, many: r.preprocessing.StandardScaler() | r.neighbors.KNNClassifier()
    ),
    "river nearest neighbours, raw": river(lambda r, many: r.neighbors.KNNClassifier()),
    "river ARF, 10 trees": river(lambda r, many: r.forest.ARFClassifier(n_models=10, seed=0)),
    "river AMF, 10 trees": river(lambda r, many: r.forest.AMFClassifier(n_estimators=10, seed=0)),
    "river leveraging bagging, 10 trees": river(
        lambda r, many: r.ensemble.LeveragingBaggingClassifier(
            model=r.tree.HoeffdingTreeClassifier(), n_models=10, seed=0
        )
    ),
    "river SRP, 10 trees": river(lambda r, many: r.ensemble.SRPClassifier(n_models=10, seed=0)),
    "scikit-learn SGD, logistic": scikit(lambda: sgd("log_loss")),
    "scikit-learn passive-aggressive": scikit(
        lambda: sgd("hinge", penalty=None, learning_rate="pa1", eta0=1.0)
    ),
}
