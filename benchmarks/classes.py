"""The cost of more classes, which are learned one against the rest."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits

import streams
from budgetron import Forgetron, RandomizedBudgetPerceptron, datasets
from learning import fit_job
from measure import in_turn
from results import Curve, Panel, Section, Table


def continue_learning(model: Any, X: Any, y: np.ndarray) -> Any:
    """Return a job that learns a batch with a copy of a trained model."""

    def prepare() -> Any:
        copied = deepcopy(model)
        return lambda: copied.partial_fit(X, y)

    return prepare


def model_with_supports(model: Any, X: Any, supports: int) -> Any:
    """Return a two-class model with the given number of supports, learned from random labels."""
    model = clone(model).set_params(budget=supports)
    rng = np.random.default_rng(0)
    while not hasattr(model, "classes_") or model.n_support_ < supports:
        model.partial_fit(X, rng.choice([-1, 1], X.shape[0]), classes=[-1, 1])
    return model


def against_one(table: Table, title: str, X: Any, y: np.ndarray, model: Any, bench: Any) -> None:
    """Compare all classes with one class: with the same budget, and with the same number of supports."""
    name = "RBP" if isinstance(model, RandomizedBudgetPerceptron) else type(model).__name__
    bench.step(f"{title}, {name}")
    labels = np.unique(y)
    often = bench.repeat * (5 if len(y) < 5000 else 1)  # short times need more repetitions
    jobs = {str(c): fit_job(model, X, np.where(y == c, 1, -1)) for c in labels}
    jobs["all"] = everything = fit_job(model, X, y)
    times = in_turn(jobs, often)
    one = float(np.mean([times[str(c)] for c in labels]))
    one_class_supports = float(np.mean([jobs[str(c)].last.n_support_ for c in labels]))
    distinct = everything.last.n_support_

    wide = model_with_supports(model, X, distinct)
    jobs = {str(c): continue_learning(wide, X, np.where(y == c, 1, -1)) for c in labels}
    jobs["all"] = continue_learning(everything.last, X, y)
    again = in_turn(jobs, often)
    same = again["all"] / float(np.mean([again[str(c)] for c in labels]))
    table.add(
        title,
        name,
        model.budget,
        one_class_supports,
        distinct,
        len(y) / times["all"],
        len(y) / one,
        times["all"] / one,
        same,
    )


def both(budget: int, gamma: float) -> list[Any]:
    return [RandomizedBudgetPerceptron(budget, gamma=gamma, random_state=0), Forgetron(budget, gamma=gamma)]


def classes(bench: Any) -> Section:
    table = Table(
        "Cost is the time to learn all classes divided by the time to learn one class against the rest (the "
        "mean over the classes), with the same budget. Distinct supports are those of all classes together. "
        "The last column is measured in a second pass; there, the one class has as many supports as all "
        "classes together",
        [
            ("rows", "text"),
            ("learner", "text"),
            ("B per class", "int"),
            ("supports of one class", "int"),
            ("distinct supports", "int"),
            ("rounds/s", "rate"),
            ("one class rounds/s", "rate"),
            ("cost, equal budget", "ratio"),
            ("cost, equal supports", "ratio"),
        ],
    )
    X, y = load_digits(return_X_y=True)
    cut = bench.pick(None, None, 300)
    X, y = X[:cut], y[:cut]
    for B in bench.pick((20, 50, 100), (20, 50), (5,)):
        for model in both(B, 0.0005):
            against_one(table, "digits, 10 classes, d = 64", X, y, model, bench)
    try:
        usps = None if bench.mode == "tiny" else datasets.load_usps()
    except (datasets.DataNotFoundError, OSError):
        usps = None
    if usps is not None:
        X, y = usps
        for B in (100, 300):
            for model in both(B, 0.01):
                against_one(table, "USPS, 10 classes, d = 256", X, np.asarray(y), model, bench)

    B = bench.pick(100, 50, 5)
    growth = Table(
        f"Time per round, in microseconds, against the number of classes; Gaussian clouds in 64 dimensions, "
        f"RBP, budget {B} per class",
        [("classes", "int"), ("distinct supports", "int"), ("time us", "us"), ("rounds/s", "rate")],
    )
    n = bench.pick(8000, 4000, 200)
    for count in bench.pick([2, 3, 5, 10, 26, 100, 300], [2, 3, 5, 10, 26, 100], [2, 3]):
        bench.step(f"{count} classes")
        X, y = streams.blobs(n, count)
        job = fit_job(RandomizedBudgetPerceptron(B, gamma=0.005, random_state=0), X, y)
        seconds = in_turn({"": job}, bench.repeat)[""]
        growth.add(count, job.last.n_support_, seconds / n, n / seconds)
    times = [row[2] for row in growth.rows]
    return Section(
        "The number of classes",
        "More than two classes are learned one against the rest, each with its own budget.",
        [table, growth],
        [],
        [
            Panel(
                "Time per round against the number of classes",
                "classes",
                "seconds",
                [
                    Curve("RBP", [row[0] for row in growth.rows], times),
                    Curve(
                        "proportional to classes",
                        [growth.rows[0][0], growth.rows[-1][0]],
                        [times[0], times[0] * growth.rows[-1][0] / growth.rows[0][0]],
                        ours=False,
                    ),
                ],
            )
        ],
    )
