"""Measure learners on Adult, for the pages about linear learners and averages.

    python benchmarks/adult.py    measure; write docs/adult/results.json

`online`: mistakes in one pass over all rows in the order of seed 0. `held out`: accuracy on 10,000 rows after
one pass over the others: of the last hypothesis, the average, and the one with the least penalized risk.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from budgetron import Forgetron, KernelPerceptron, RandomizedBudgetPerceptron, datasets, linear
from budgetron._util.atomic import atomic_write
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier

RESULTS = Path(__file__).parent.parent / "docs" / "adult" / "results.json"
HELD_OUT = 10_000
GAMMA = 0.02  # as in the experiments of the Projectron paper on Adult

ONLINE: dict[str, Callable[[], Any]] = {
    "linear.Perceptron()": linear.Perceptron,
    "linear.PassiveAggressive(C=0.01)": lambda: linear.PassiveAggressive(C=0.01),
    "linear.AROW()": linear.AROW,
}
AVERAGED: dict[str, Callable[[], Any]] = {
    "linear.Perceptron()": linear.Perceptron,
    "linear.AROW()": linear.AROW,
    "KernelPerceptron()": lambda: KernelPerceptron(gamma=GAMMA),
    "Forgetron(1500)": lambda: Forgetron(1500, gamma=GAMMA),
    "RandomizedBudgetPerceptron(1500)": lambda: RandomizedBudgetPerceptron(1500, gamma=GAMMA, random_state=0),
}


def main() -> None:
    data = datasets.load_adult()
    order = np.random.default_rng(0).permutation(data.X.shape[0])
    X, y = data.X[order], data.y[order]
    online = {name: make().progressive_fit(X, y).error_rate for name, make in ONLINE.items()}
    held_out = {}
    train, test = slice(HELD_OUT, None), slice(0, HELD_OUT)
    for name, make in AVERAGED.items():
        models = (make(), AveragedClassifier(make()), PenalizedRiskClassifier(make()))
        held_out[name] = [clone(model).fit(X[train], y[train]).score(X[test], y[test]) for model in models]
        print(name, held_out[name], flush=True)
    results = {"rows": len(y), "held out rows": HELD_OUT, "online": online, "held out": held_out}
    RESULTS.parent.mkdir(exist_ok=True)
    with atomic_write(RESULTS) as file:
        file.write((json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
