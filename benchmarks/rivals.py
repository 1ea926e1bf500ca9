"""Other libraries on the same stream: every row is predicted and then learned.

river and Vowpal Wabbit are in the dependency group `bench`. Libraries that are not installed are omitted, and
the page names them. The conversion of rows to each library's own form is not timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDClassifier

import numpy_loops

HOW_TO_GET = "pip install --group bench"


@dataclass
class StreamResult:
    """The results of a learner on a stream, up to the time limit."""

    name: str
    kind: str  # "" for a kernel learner with a budget
    rounds: int
    seconds: float
    wrong: np.ndarray  # for each round, NaN where no prediction was possible yet

    def error(self, rounds: int) -> float | None:
        """Return the share of mistakes in the first `rounds` rounds, or None if it played fewer."""
        counted = self.wrong[:rounds][~np.isnan(self.wrong[:rounds])]
        return float(counted.mean()) if self.rounds >= rounds and len(counted) else None


def missing() -> list[str]:
    """Return the optional libraries that are not installed."""
    return [name for name in ("river", "vowpalwabbit") if find_spec(name) is None]


def one_by_one(rounds: Callable[[int], bool], n: int, limit: float) -> tuple[int, float, np.ndarray]:
    """Play rounds until the end of the stream or the time limit."""
    wrong = np.zeros(n)
    start = time.perf_counter()
    end = start + limit
    i = 0
    while i < n:
        wrong[i] = rounds(i)
        i += 1
        if time.perf_counter() > end:
            break
    return i, time.perf_counter() - start, wrong[:i]


def dicts(X: Any) -> list[dict[int, float]]:
    """Return rows as dicts for river; sparse rows contain only their non-zeros."""
    if not issparse(X):
        return [dict(enumerate(row)) for row in X.tolist()]
    X = csr_matrix(X)
    return [
        dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]


# ---------------------------------------------------------------------- NumPy


def numpy_rows(X: Any, y: np.ndarray, gamma: float, budget: int) -> Iterator[StreamResult]:
    rows = X.toarray() if issparse(X) else X
    for name, kind in (("RBP", numpy_loops.Randomized), ("Forgetron", numpy_loops.Forgetron)):
        loop = kind(rows, y, gamma, budget)
        wrong = np.zeros(len(y))
        plain_update = loop.update

        def update(t: int, *others: Any, update: Any = plain_update, wrong: np.ndarray = wrong) -> None:
            wrong[t] = True
            update(t, *others)

        loop.update = update  # type: ignore[method-assign]
        start = time.perf_counter()
        loop()
        yield StreamResult(f"NumPy loop, {name}", "", len(y), time.perf_counter() - start, wrong)


# ---------------------------------------------------------------------- river


def river_models(gamma: float, window: int) -> dict[str, tuple[str, Any]]:
    from river import feature_extraction, linear_model, neighbors

    return {
        "river Perceptron": ("linear", linear_model.Perceptron()),
        "river PAClassifier": ("linear", linear_model.PAClassifier(C=0.01)),
        "river LogisticRegression": ("linear", linear_model.LogisticRegression()),
        "river RBFSampler | LogisticRegression": (
            "100 random features for each feature",
            feature_extraction.RBFSampler(gamma=gamma, n_components=100, seed=0)
            | linear_model.LogisticRegression(),
        ),
        "river KNNClassifier": (
            f"the last {window:,} rows, 5 neighbours",
            neighbors.KNNClassifier(engine=neighbors.LazySearch(window_size=window)),
        ),
    }


def river_rows(X: Any, y: np.ndarray, gamma: float, window: int, limit: float) -> Iterator[StreamResult]:
    rows, truth = dicts(X), (y > 0).tolist()
    for name, (kind, model) in river_models(gamma, window).items():

        def play(i: int, model: Any = model) -> bool:
            wrong = model.predict_one(rows[i]) is not truth[i]
            model.learn_one(rows[i], truth[i])
            return wrong

        yield StreamResult(name, kind, *one_by_one(play, len(y), limit))


# ---------------------------------------------------------------------- scikit-learn


def sgd() -> SGDClassifier:
    return SGDClassifier(loss="hinge", random_state=0)


def batches(
    model: SGDClassifier, X: Any, y: np.ndarray, size: int, limit: float, features: Any = None
) -> tuple[int, float, np.ndarray]:
    """Predict each batch of rows and then learn it; `features` is fitted on the first batch.

    The first batch cannot be predicted and is not counted (NaN).
    """
    wrong = np.full(len(y), np.nan)
    start = time.perf_counter()
    if features is not None:
        features.fit(X[: max(size, features.n_components)])
    i = 0
    while i < len(y) and time.perf_counter() < start + limit:
        part = slice(i, min(i + size, len(y)))
        rows = X[part] if features is None else features.transform(X[part])
        if i:
            wrong[part] = model.predict(rows) != y[part]
        model.partial_fit(rows, y[part], classes=[-1.0, 1.0])
        i = part.stop
    return i, time.perf_counter() - start, wrong[:i]


def sklearn_rows(
    X: Any, y: np.ndarray, gamma: float, components: int, limit: float
) -> Iterator[StreamResult]:
    X = csr_matrix(X) if issparse(X) else X
    yield StreamResult("SGDClassifier, row by row", "linear", *batches(sgd(), X, y, 1, limit))
    yield StreamResult(
        "SGDClassifier, batches of 100", "linear, labels late", *batches(sgd(), X, y, 100, limit)
    )
    for features in (
        Nystroem(gamma=gamma, n_components=components, random_state=0),
        RBFSampler(gamma=gamma, n_components=components, random_state=0),
    ):
        name = f"{type(features).__name__} + SGD, batches of 100"
        kind = f"{components:,} features, labels late"
        yield StreamResult(name, kind, *batches(sgd(), X, y, 100, limit, features))


# ---------------------------------------------------------------------- Vowpal Wabbit


def vw_rows(X: Any, y: np.ndarray, gamma: float, limit: float) -> Iterator[StreamResult]:
    from vowpalwabbit import Workspace

    workspace = Workspace(f"--ksvm --kernel rbf --bandwidth {gamma} --l2 0.0001 --quiet")
    examples = [
        workspace.parse(f"{label:.0f} | " + " ".join(f"{j}:{v}" for j, v in row.items()))
        for row, label in zip(dicts(X), y.tolist(), strict=True)
    ]

    def play(i: int) -> bool:
        margin = workspace.predict(examples[i])
        workspace.learn(examples[i])
        return bool(margin * y[i] <= 0.0)

    played = one_by_one(play, len(examples), limit)
    for example in examples:
        workspace.finish_example(example)
    workspace.finish()
    yield StreamResult("Vowpal Wabbit --ksvm", "grows without a budget, --l2 0.0001", *played)
