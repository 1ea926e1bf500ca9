"""Measure single rounds of BudgetClassifier on the digits, for docs/which-learner.md.

    python benchmarks/single_rounds.py    measure; write docs/single-rounds/results.json

The model has 16 MB and has learned 1,400 rows. Times are processor times per row, medians of several runs on
one thread. The limit is the time to read the factors and covariances of the second-order experts once, as a
plain sum over an array of the same size does. Write the page with benchmarks/generated.py.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import budgetron.river
from budgetron import BudgetClassifier
from budgetron._base.access import hypotheses_of
from budgetron._util.atomic import atomic_write
from budgetron.portfolio._experts import FIRST_ORDER

RESULTS = Path(__file__).parent.parent / "docs" / "single-rounds" / "results.json"
FIRST, LAST, REPEAT = 1400, 1780, 5


def per_row(run: Callable[[], Any], rows: int = LAST - FIRST) -> float:
    """Return the processor time of a call in microseconds per row."""
    start = time.process_time()
    run()
    return 1e6 * (time.process_time() - start) / rows


def experts_alone(model: BudgetClassifier, X: np.ndarray, labels: np.ndarray) -> float:
    """Return the time of the rounds of all experts, each played on its own; those of first order together."""
    portfolio = hypotheses_of(model)[0]
    rows = portfolio.pool.scaler.apply(X)
    first_order, outputs = portfolio.pool.first_order_experts, portfolio.pool.outputs
    scores, constant = np.zeros((len(X), len(FIRST_ORDER), outputs)), np.ones((len(X), 1))
    total = per_row(lambda: first_order.learn(np.hstack([rows, constant]), labels, scores))
    for expert in portfolio.pool.experts:
        if expert.learner is not None:
            learner, scales = expert.learner, expert.scales
            own = rows * scales if len(scales) else rows if expert.design.standardised else X

            def play(learner: Any = learner, own: np.ndarray = own) -> None:
                for x, y in zip(own, labels, strict=True):
                    learner.play(x, y)

            total += per_row(play)
    return total


def bytes_read(model: BudgetClassifier) -> int:
    """Return the bytes of the factors and covariances of the second-order experts with supports."""
    learners = (e.learner for e in hypotheses_of(model)[0].pool.experts if e.design.second_order)
    sizes = (
        (n.rule.gaussian.sigma.nbytes, n.rule.projection.factor.nbytes) for n in learners if n is not None
    )
    return sum(map(sum, sizes))


def measure(classes: int) -> dict[str, float]:
    """Return the times of one run with this many classes."""
    X, y = load_digits(return_X_y=True)
    y = y % 2 if classes == 2 else y
    codes = np.where(y == 1, 1.0, -1.0) if classes == 2 else y.astype(float)
    model = BudgetClassifier("16MB", random_state=0).partial_fit(X[:FIRST], y[:FIRST], range(classes))
    rows, labels = np.ascontiguousarray(X[FIRST:LAST]), y[FIRST:LAST]
    alone = experts_alone(copy.deepcopy(model), rows, codes[FIRST:LAST])
    size = bytes_read(model)
    values = np.ones(size // 8)
    limit = per_row(lambda: [values.sum() for _ in range(200)], 200)
    adapter = budgetron.river.BudgetClassifier("16MB", seed=0)
    pairs = list(zip((dict(enumerate(row)) for row in X.tolist()), y.tolist(), strict=True))
    for x, label in pairs[:FIRST]:
        adapter.learn_one(x, label)
    river = per_row(lambda: [adapter.learn_one(x, label) for x, label in pairs[FIRST:LAST]])
    play = per_row(lambda: [model.play(x, label) for x, label in zip(rows, labels, strict=True)])
    return {"play": play, "experts": alone, "limit": limit, "bytes": size, "river": river}


def main() -> None:
    """Measure, and write the results."""
    results = {}
    with threadpool_limits(1):
        for classes in (2, 10):
            runs = [measure(classes) for _ in range(REPEAT)]
            results[str(classes)] = {name: median(run[name] for run in runs) for name in runs[0]}
            print(classes, results[str(classes)])
    RESULTS.parent.mkdir(exist_ok=True)
    with atomic_write(RESULTS) as file:
        file.write(json.dumps(results, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
