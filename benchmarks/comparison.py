"""Comparison with other libraries: speed and error on the same stream."""

from __future__ import annotations

import time
from itertools import combinations
from math import log, sqrt
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.svm import SVC

import budgetron as bt
import rivals
import streams
from budgetron import datasets, evaluate, linear
from budgetron.batch import AveragedClassifier
from budgetron.experiments import _studies as studies
from learning import fit_job
from measure import gemm_rate, in_turn, timed
from results import Claim, Curve, Panel, Section, Table
from rivals import StreamResult

SIGNS = [-1.0, 1.0]


# ---------------------------------------------------------------------- one round at a time


def play(bench: Any) -> Section:
    B, d, n = 100, 10, bench.pick(20_000, 10_000, 600)
    rng = np.random.default_rng(0)
    y = rng.choice(SIGNS, n)
    X = 0.5 * y[:, None] + rng.normal(size=(n, d))
    rows, labels = list(X), y.tolist()
    jobs: dict[str, Any] = {}
    learners = {
        "RBP": bt.RandomizedBudgetPerceptron(B, gamma=0.1, random_state=0),
        "Forgetron": bt.Forgetron(B, gamma=0.1),
        "Remove-Oldest": bt.RemoveOldestPerceptron(B, gamma=0.1),
        "Projectron++": bt.ProjectronPlusPlus(2.0, budget=B, gamma=0.1),
    }
    for name, model in learners.items():
        bench.step(name)
        model.partial_fit(X, y, classes=SIGNS)
        batch = clone(model).partial_fit(X, y, classes=SIGNS)

        def go(model: Any = model) -> None:
            one = model.play
            for x, label in zip(rows, labels, strict=True):
                one(x, label)

        jobs[name] = lambda go=go: go
        jobs[f"{name}, batch"] = lambda batch=batch: lambda: batch.partial_fit(X, y)
    few = bench.pick(1000, 500, 50)
    sgd = SGDClassifier(random_state=0).partial_fit(X[:1], y[:1], classes=SIGNS)

    def row_by_row() -> None:
        for i in range(few):
            sgd.partial_fit(X[i : i + 1], y[i : i + 1])

    jobs["SGDClassifier"] = lambda: row_by_row
    if "river" not in rivals.missing():
        from river import linear_model

        dicts, truth = rivals.dicts(X), (y > 0).tolist()

        def perceptron() -> Any:
            model = linear_model.Perceptron()

            def go() -> None:
                for x, label in zip(dicts, truth, strict=True):
                    model.predict_one(x)
                    model.learn_one(x, label)

            return go

        jobs["river"] = perceptron
    times = {name: t / n for name, t in in_turn(jobs, bench.repeat).items()}
    times["SGDClassifier"] *= n / few
    table = Table(
        f"Predict and learn one row, B = {B}, d = {d}, in microseconds. The cost of the kernel row is taken "
        "to be that of a whole round in a batch",
        [
            ("learner", "text"),
            ("play us", "us"),
            ("batch us", "us"),
            ("difference us", "us"),
            ("speed relative to river's Perceptron", "ratio"),
            ("speed relative to SGDClassifier.partial_fit", "ratio"),
        ],
    )
    river = times.get("river")
    for name in learners:
        t, batch = times[name], times[f"{name}, batch"]
        table.add(name, t, batch, t - batch, river and river / t, times["SGDClassifier"] / t)
    table.add("river Perceptron (linear)", river, None, None, None, None)
    table.add("SGDClassifier.partial_fit (linear)", times["SGDClassifier"], None, None, None, None)
    note = "" if river else f"river is not installed: {rivals.HOW_TO_GET}"
    plain = [name for name in learners if name != "Projectron++"]
    beyond = max(times[name] - times[f"{name}, batch"] for name in plain)
    return Section(
        "One round at a time",
        "`play` compared with river's linear Perceptron on dicts, and with scikit-learn's SGDClassifier on "
        "single rows. The last two columns are speeds relative to these.",
        [table],
        [
            Claim(
                f"time of `play` in addition to the kernel row, B = {B}, d = {d}, in microseconds: "
                f"the largest of {', '.join(plain)}",
                beyond,
                3e-6,
                "us",
                at_least=False,
            ),
            Claim(
                f"speed of `play` relative to river's linear Perceptron: the smallest of {', '.join(plain)}",
                river and min(river / times[name] for name in plain),
                5.0,
                "ratio",
                note=note,
            ),
        ],
    )


# ---------------------------------------------------------------------- prediction


def prediction(bench: Any) -> Section:
    n, B, d = bench.pick(100_000, 10_000, 500), bench.pick(1500, 1500, 50), bench.pick(123, 123, 20)
    X, y = streams.random_labels(max(n, 5 * B), d)
    gamma = 0.5 / d
    bench.step("SVC")
    # Classes of equal size and a small C make every row a support vector.
    svc = SVC(gamma=gamma, C=0.01).fit(X[:B], np.resize(SIGNS, B))
    supports = int(svc.n_support_.sum())
    model = bt.RandomizedBudgetPerceptron(supports, gamma=gamma, random_state=0)
    model.partial_fit(X[: 5 * B], y[: 5 * B], classes=SIGNS)
    assert model.n_support_ == supports
    rows = X[:n]
    small = rows.astype(np.float32)
    single = clone(model).partial_fit(X[: 5 * B].astype(np.float32), y[: 5 * B], classes=SIGNS)
    bench.step("decision_function")
    both = {
        "ours": lambda: lambda: model.decision_function(rows),
        "single": lambda: lambda: single.decision_function(small),
    }
    svm = {"SVC": lambda: lambda: svc.decision_function(rows)}
    flops = 2.0 * n * d * supports
    times: dict[str, float] = {}
    limits = {"ours": 0.0, "single": 0.0}
    for i in range(bench.repeat):  # alternately; a slow SVC is timed only once
        times = in_turn(both | svm if i == 0 or times["SVC"] < 5 else both, 1, times)
        for name, dtype in (("ours", np.float64), ("single", np.float32)):
            limits[name] = max(limits[name], gemm_rate(d, supports, dtype, 3))
    table = Table(
        f"`decision_function` of {n:,} dense rows, d = {d}, {supports:,} support vectors, RBF kernel, one "
        "thread",
        [
            ("model", "text"),
            ("rows/s", "rate"),
            ("speed relative to SVC", "ratio"),
            ("GFLOP/s", "number"),
            ("share of GEMM", "percent"),
        ],
    )
    for name, label in (("ours", "Budgetron, float64"), ("single", "Budgetron, float32")):
        t = times[name]
        table.add(label, n / t, times["SVC"] / t, flops / t / 1e9, flops / t / limits[name])
    table.add("sklearn.svm.SVC", n / times["SVC"], 1.0, flops / times["SVC"] / 1e9, None)
    at = f"{n:,} rows, B = {supports:,}, d = {d}"
    return Section(
        "Prediction",
        "Comparison with a fitted SVC that has the same number of support vectors, on the same rows. The SVC "
        "is timed only once if it takes more than five seconds.",
        [table],
        [
            Claim(
                f"speed of `decision_function` relative to SVC's, {at}",
                times["SVC"] / times["ours"],
                3.0,
                "ratio",
            ),
            Claim(
                f"share of the GEMM speed, `decision_function`, {at}",
                flops / times["ours"] / limits["ours"],
                0.65,
                "percent",
            ),
        ],
    )


# ---------------------------------------------------------------------- other libraries


def ours(X: Any, y: np.ndarray, gamma: float, B: int) -> list[StreamResult]:
    """Run Budgetron's learners: the whole stream as one batch, and `play` row by row."""
    found = []
    constant = np.ones((len(y), 1))
    wide: Any = X if issparse(X) else np.hstack([X, constant])
    for name, kind, model, rows in (
        ("RBP", "", bt.RandomizedBudgetPerceptron(B, gamma=gamma, random_state=0), X),
        ("Forgetron", "", bt.Forgetron(B, gamma=gamma), X),
        ("Projectron++", "", bt.ProjectronPlusPlus(2.0, budget=B, gamma=gamma), X),
        ("linear.Perceptron", "linear", linear.Perceptron(fit_intercept=False), wide),
        ("linear.PassiveAggressive", "linear", linear.PassiveAggressive(C=0.01, fit_intercept=False), wide),
        ("linear.AROW", "linear, second order", linear.AROW(fit_intercept=False), wide),
    ):
        trace = clone(model).progressive_fit(rows, y, classes=SIGNS)
        seconds = timed(fit_job(model, rows, y)())  # only once, like the other libraries
        found.append(StreamResult(name, kind, len(y), seconds, trace.mistakes.astype(float)))
    model = bt.RandomizedBudgetPerceptron(B, gamma=gamma, random_state=0)
    dense, labels, wrong = list(X.toarray() if issparse(X) else X), y.tolist(), np.zeros(len(y))
    start = time.perf_counter()
    wrong[0] = model.play(dense[0], labels[0], classes=SIGNS) * labels[0] <= 0
    for i in range(1, len(y)):
        wrong[i] = model.play(dense[i], labels[i]) * labels[i] <= 0
    found.append(StreamResult("RBP.play, row by row", "", len(y), time.perf_counter() - start, wrong))
    return found


def others(bench: Any) -> Section:
    X, y, name = streams.adult(bench.online)
    cut = bench.pick(None, 8000, 400)
    rings, signs = streams.rings(bench.pick(20_000, 8000, 400))
    limit, first = bench.pick(15.0, 2.0, 0.2), bench.pick(2000, 1000, 200)
    absent = rivals.missing()
    tables, panels = [], []
    for rows, labels, title, gamma, B in (
        (X[:cut], y[:cut], f"{name}, CSR, {X[:cut].shape[0]:,} rows", 0.02, bench.pick(1500, 1500, 20)),
        (rings, signs, f"a ring around a disc, d = 2, {len(signs):,} rows", 2.0, bench.pick(200, 200, 20)),
    ):
        bench.step(title)
        stream_results = ours(rows, labels, gamma, B)
        bench.step(f"{title}, NumPy")
        stream_results += rivals.numpy_rows(rows, labels, gamma, B)
        bench.step(f"{title}, scikit-learn")
        stream_results += rivals.sklearn_rows(rows, labels, gamma, min(B, 500), limit)
        if "river" not in absent:
            bench.step(f"{title}, river")
            stream_results += rivals.river_rows(rows, labels, gamma, B, limit)
        if "vowpalwabbit" not in absent:
            bench.step(f"{title}, Vowpal Wabbit")
            few = bench.pick(5000, 2000, 100)
            stream_results += rivals.vw_rows(rows[:few], labels[:few], gamma, limit)
        table = Table(
            f"{title}, budget {B:,}, gamma = {gamma}. Errors are progressive: each row is predicted before "
            f"its label is seen. A learner is stopped after {limit:g} s",
            [
                ("learner", "text"),
                ("kind", "text"),
                ("rounds/s", "rate"),
                ("rounds", "int"),
                (f"error, first {first:,}", "percent"),
                ("error, all", "percent"),
            ],
        )
        for p in sorted(stream_results, key=lambda p: -p.rounds / p.seconds):
            table.add(p.name, p.kind, p.rounds / p.seconds, p.rounds, p.error(first), p.error(len(labels)))
        tables.append(table)
        names = {p.name for p in results_of_budgetron(stream_results)}
        panels.append(
            Panel(
                title,
                "rounds per second",
                f"% mistakes in the first {first:,} rounds",
                [
                    Curve(p.name, [p.rounds / p.seconds], [100 * error], p.name in names)
                    for p in stream_results
                    if (error := p.error(first)) is not None
                ],
                "log x",
                "list",
            )
        )
    left_out = f" Omitted because they are not installed: {', '.join(absent)}." if absent else ""
    return Section(
        "Comparison with other libraries",
        "Speed and progressive error on the same stream. Learners run one after the other and make one pass, "
        "with the defaults of their library except for the options shown. Linear models do less work and "
        "cannot learn curved boundaries. Vowpal Wabbit's kernel SVM has no budget and becomes slower as it "
        "grows. scikit-learn's learners in batches see labels up to a hundred rows late, and their first "
        "batch is not counted. The NumPy loops and `play` get dense rows. A learner without a kind is a "
        f"kernel learner with a budget.{left_out}",
        tables,
        [],
        panels,
    )


def results_of_budgetron(stream_results: list[StreamResult]) -> list[StreamResult]:
    """Return the results of Budgetron's learners."""
    theirs = ("NumPy", "river", "SGD", "Nystroem", "RBFSampler", "Vowpal")
    return [p for p in stream_results if not p.name.startswith(theirs)]


def linear_learners(bench: Any) -> Section:
    X, y, name = streams.adult(bench.online)
    cut = bench.pick(None, None, 400)
    X, y = X[:cut], y[:cut]
    table = Table(
        f"{name}, CSR, the whole stream as one batch, one thread",
        [
            ("learner", "text"),
            ("rounds/s", "rate"),
            ("speed relative to SGDClassifier.partial_fit", "ratio"),
            ("cost of averaging", "ratio"),
        ],
    )
    sgd = SGDClassifier(loss="perceptron", penalty=None, random_state=0)
    for learner in (
        linear.Perceptron(fit_intercept=False),
        linear.VotedPerceptron(fit_intercept=False),
        linear.MarginPerceptron(fit_intercept=False),
        linear.PassiveAggressive(C=0.01, fit_intercept=False),
        linear.OnlineSVM(fit_intercept=False),
        linear.Winnow(balanced=True),
        linear.AROW(covariance="diagonal", fit_intercept=False),
        linear.AROW(fit_intercept=False),
        bt.Forgetron(1500, gamma=0.02),
        bt.RandomizedBudgetPerceptron(1500, gamma=0.02, random_state=0),
    ):
        kernel = hasattr(learner, "kernel")
        name = type(learner).__name__ if kernel else f"linear.{learner}"
        bench.step(name)
        jobs = {"plain": fit_job(learner, X, y), "averaged": fit_job(AveragedClassifier(learner), X, y)}
        if not kernel:
            jobs["sgd"] = fit_job(sgd, X, y)
        times = in_turn(jobs, max(1, bench.repeat - 2) if kernel else 2 * bench.repeat)
        gain = None if kernel else times["sgd"] / times["plain"]
        table.add(name, len(y) / times["plain"], gain, times["averaged"] / times["plain"])
    return Section(
        "Linear learners and the cost of averaging",
        "Each learner is timed alternately with `SGDClassifier(loss='perceptron', penalty=None)`. The cost "
        "of averaging is the time of `batch.AveragedClassifier(learner)` relative to that of the learner.",
        [table],
    )


# ---------------------------------------------------------------------- shared kernel values


def ten_learners(budget: int, gamma: float) -> dict[str, Any]:
    bound = 0.25 * sqrt((budget + 1) / log(budget + 1))
    kernel: dict[str, Any] = {"gamma": gamma}
    return {
        "Perceptron": bt.KernelPerceptron(**kernel),
        "PA-I": bt.PassiveAggressive(**kernel),
        "Remove-Oldest": bt.RemoveOldestPerceptron(budget, **kernel),
        "Forgetron": bt.Forgetron(budget, **kernel),
        "Forgetron, greedy": bt.Forgetron(budget, "greedy", **kernel),
        "RBP": bt.RandomizedBudgetPerceptron(budget, random_state=0, **kernel),
        "CKS": bt.CKSPerceptron(budget, **kernel),
        "Stoptron": bt.Stoptron(budget, **kernel),
        "Projectron": bt.Projectron(norm_bound=bound, **kernel),
        "Projectron++": bt.ProjectronPlusPlus(norm_bound=bound, **kernel),
    }


def sharing(bench: Any) -> Section:
    X, y, name = streams.adult(bench.online)
    cut = bench.pick(None, 6000, 300)
    X, y, B = X[:cut].toarray(), y[:cut], bench.pick(1500, 500, 20)
    table = Table(
        f"{name} as an array, {len(y):,} rounds, budget {B:,}", [("learner", "text"), ("s", "seconds")]
    )
    for label, learner in ten_learners(B, 0.02).items():
        bench.step(label)
        table.add(label, timed(lambda learner=learner: evaluate.progressive(learner, (X, y))))
    alone = [float(row[1]) for row in table.rows]  # type: ignore[arg-type]
    bench.step("all ten together")
    together = timed(lambda: evaluate.compare(ten_learners(B, 0.02), (X, y)))
    table.add("all ten together", together)
    table.add("together / the slowest alone", f"{together / max(alone):.2f}")
    table.add("together / the sum of all alone", f"{together / sum(alone):.2f}")
    tables = [table]
    if bench.mode == "full" and (digits := labellings(bench)) is not None:
        tables.append(digits)
    return Section(
        "Shared kernel values",
        "In `evaluate.compare`, learners with the same kernel share its values. They can also share them for "
        "several labellings of the same rows. Times are in seconds.",
        tables,
    )


def labellings(bench: Any, count: int = 9, n: int = 20_000) -> Table | None:
    """Time five learners on several labellings of the same digits, with and without sharing."""
    try:
        X, y = datasets.load_mnist()
    except (datasets.DataNotFoundError, OSError):
        return None
    X, y = X[:n], np.asarray(y[:n]).astype(int)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    sets = list(combinations(range(1, 10), 4))[:: 126 // count][:count]
    signs = [np.where(np.isin(y, (0, *others)), 1.0, -1.0) for others in sets]
    B = n // 50

    def learners() -> list[dict[str, Any]]:
        kinds = {
            "Perceptron": bt.KernelPerceptron(gamma=0.5),
            "basic": bt.Forgetron(B, "basic", gamma=0.5),
            "self-tuned": bt.Forgetron(B, gamma=0.5),
            "greedy": bt.Forgetron(B, "greedy", gamma=0.5),
            "CKS": bt.CKSPerceptron(B, gamma=0.5),
        }
        return [{name: clone(model) for name, model in kinds.items()} for _ in signs]

    table = Table(
        f"MNIST, {n:,} rows, {count} labellings x 5 learners, budget {B}", [("", "text"), ("s", "seconds")]
    )
    bench.step("labellings, shared")
    shared = timed(lambda: studies.online_errors(X, signs, learners()))
    bench.step("labellings, each alone")
    alone = timed(lambda: studies.online_errors(X, signs, learners(), share=False))
    table.rows = [["shared", shared], ["each alone", alone], ["alone / shared", f"{alone / shared:.2f}"]]
    return table
