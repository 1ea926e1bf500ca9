"""Learning compared with an equivalent NumPy loop, and with the matrix product that it needs."""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import clone

import numpy_loops
import streams
from budgetron import Forgetron, Projectron, ProjectronPlusPlus, RandomizedBudgetPerceptron
from measure import gemm_rate, in_turn
from numpy_loops import loop_job
from results import Claim, Section, Table

SIGNS = [-1.0, 1.0]


def fit_job(model: Any, X: Any, y: np.ndarray) -> Any:
    """Return a job that learns a stream with a new model and stores the model in the job's `last`."""
    labels = np.unique(y)

    def prepare() -> Any:
        prepare.last = clone(model)
        return lambda: prepare.last.partial_fit(X, y, classes=labels)

    return prepare


def budgeted(budget: int, gamma: float) -> dict[str, tuple[Any, type]]:
    return {
        "RBP": (RandomizedBudgetPerceptron(budget, gamma=gamma, random_state=0), numpy_loops.Randomized),
        "Forgetron": (Forgetron(budget, gamma=gamma), numpy_loops.Forgetron),
    }


def loops(bench: Any) -> Section:
    X, y, name = streams.adult(bench.online)
    X, y = X[: bench.pick(None, None, 400)], y[: bench.pick(None, None, 400)]
    gaussians, signs = streams.gaussians(bench.pick(100_000, 40_000, 400))
    table = Table(
        "The whole stream with a new model, one thread. The NumPy loop makes the same updates",
        [
            ("rows", "text"),
            ("type", "text"),
            ("B", "int"),
            ("learner", "text"),
            ("rounds/s", "rate"),
            ("NumPy rounds/s", "rate"),
            ("speed relative to NumPy", "ratio"),
            ("mistakes", "int"),
            ("NumPy mistakes", "int"),
        ],
    )
    claims = []
    for rows, labels, title, budgets, gamma, target in (
        (X, y, f"{name}, CSR", bench.pick((1500, 3000), (1500, 3000), (20,)), 0.02, 10.0),
        # The target is for float32; float64 is measured for comparison.
        (gaussians, signs, "two Gaussians, d = 2", bench.pick((500,), (500,), (20,)), 1.0, None),
        (
            gaussians.astype(np.float32),
            signs,
            "two Gaussians, d = 2",
            bench.pick((500,), (500,), (20,)),
            1.0,
            20.0,
        ),
    ):
        numbers = str(rows.dtype)
        dense = np.ascontiguousarray(rows.toarray()) if hasattr(rows, "toarray") else rows
        for B in budgets:
            for label, (model, loop) in budgeted(B, gamma).items():
                bench.step(f"{title}, {numbers}, B = {B:,}, {label}")
                ours, theirs = fit_job(model, rows, labels), loop_job(loop, dense, labels, gamma, B)
                times = in_turn({"ours": ours, "theirs": theirs}, bench.repeat)
                gain = times["theirs"] / times["ours"]
                n = len(labels)
                table.add(
                    title,
                    numbers,
                    B,
                    label,
                    n / times["ours"],
                    n / times["theirs"],
                    gain,
                    ours.last.mistakes_,
                    theirs.last.mistakes,
                )
                if target is not None:
                    claims.append(
                        Claim(
                            f"speed of {label} relative to the NumPy loop, {title}, {numbers}, B = {B:,}",
                            gain,
                            target,
                            "ratio",
                        )
                    )
    return Section(
        "Batches compared with a NumPy loop",
        "The loop computes a row's product with the supports, the exponentials, the margin and the update. "
        "It gets dense rows; their conversion is not timed.",
        [table],
        claims,
    )


def gemm(bench: Any) -> Section:
    n, width = bench.pick(40_000, 20_000, 600), bench.pick(123, 123, 20)
    X, y, name = streams.adult(bench.online)
    cut = bench.pick(None, 20_000, 400)
    dense, labels = streams.dense(n, width)
    table = Table(
        "The whole stream with a new model, one thread. GFLOP/s counts only the operations that are needed: "
        "2 x d x the number of supports, summed over the rounds. GEMM GFLOP/s is the speed of a matrix "
        "product with the same number of supports and its fastest block size, timed alternately",
        [
            ("rows", "text"),
            ("type", "text"),
            ("B", "int"),
            ("learner", "text"),
            ("mistakes", "percent"),
            ("rounds/s", "rate"),
            ("GFLOP/s", "number"),
            ("GEMM GFLOP/s", "number"),
            ("share of GEMM", "percent"),
        ],
    )
    claims = []
    for rows, signs, title, gamma in (
        (dense, labels, f"dense, d = {width}", 0.5 / width),
        (X[:cut].toarray(), y[:cut], f"{name} as an array", 0.02),
    ):
        d = rows.shape[1]
        for dtype in bench.pick((np.float64, np.float32), (np.float64, np.float32), (np.float64,)):
            typed = rows.astype(dtype)
            kind = np.dtype(dtype).name
            for B in bench.pick((1500, 3000), (1500, 3000), (20,)):
                bench.step(f"{title}, {kind}, B = {B:,}")
                models = {label: model for label, (model, _) in budgeted(B, gamma).items()}
                limit, times = 0.0, {}
                for _ in range(bench.repeat):  # time the product and the learners alternately
                    limit = max(limit, gemm_rate(d, B, dtype, repeat=3))
                    times = in_turn(
                        {label: fit_job(m, typed, signs) for label, m in models.items()}, 1, times
                    )
                for label, model in models.items():
                    trace = clone(model).progressive_fit(typed, signs)
                    present = np.concatenate([[0], trace.support_sizes[:-1]]).sum()
                    rate = 2.0 * d * float(present) / times[label]
                    table.add(
                        title,
                        kind,
                        B,
                        label,
                        trace.error_rate,
                        len(signs) / times[label],
                        rate / 1e9,
                        limit / 1e9,
                        rate / limit,
                    )
                    if rows is dense and dtype == np.float64:
                        claims.append(
                            Claim(
                                f"share of the GEMM speed, {label}, {title}, B = {B:,}",
                                rate / limit,
                                0.65,
                                "percent",
                            )
                        )
    return Section(
        "Batches compared with the machine's limit",
        "A batch is learned by matrix products although every round uses the hypothesis of the round before. "
        "This section compares the speed of learning with that of the matrix product alone. Shares above "
        "100 % occur where most features are zero, because zeros are skipped.",
        [table],
        claims,
    )


def residual(model: Any, X: np.ndarray, gamma: float) -> float:
    """Return the largest ||K d - k|| / ||k|| of the rows, where d is computed with the model's factor."""
    supports = model.support_vectors_

    def kernel(A: np.ndarray) -> np.ndarray:
        squares = (supports**2).sum(1)[:, None] + (A**2).sum(1)[None, :] - 2.0 * supports @ A.T
        return np.exp(-gamma * np.maximum(squares, 0.0))

    K, k, L = kernel(supports), kernel(X), model._learners[0].rule.projection.rows()
    d = solve_triangular(L, solve_triangular(L, k, lower=True), lower=True, trans="T")
    return float((np.linalg.norm(K @ d - k, axis=0) / np.linalg.norm(k, axis=0)).max())


def projection(bench: Any) -> Section:
    X, y, name = streams.adult(bench.online)
    cut = bench.pick(None, None, 400)
    X, y = X[:cut], y[:cut]
    dense = X.toarray()
    bound = 0.25 * sqrt(1501 / log(1501))
    table = Table(
        f"{name}, CSR, the whole stream; norm_bound U = {bound:.3f}, gamma = 0.02. The NumPy reference "
        "maintains the explicit inverse (equation 11 of the Projectron paper) and makes the same decisions",
        [
            ("learner", "text"),
            ("rounds/s", "rate"),
            ("NumPy rounds/s", "rate"),
            ("speed relative to NumPy", "ratio"),
            ("mistakes", "int"),
            ("NumPy mistakes", "int"),
            ("supports", "int"),
            ("NumPy supports", "int"),
        ],
    )
    claims = []
    for label, model, loop in (
        ("Projectron", Projectron(norm_bound=bound, gamma=0.02), numpy_loops.Projectron),
        ("Projectron++", ProjectronPlusPlus(norm_bound=bound, gamma=0.02), numpy_loops.ProjectronPlusPlus),
    ):
        bench.step(label)
        ours, theirs = fit_job(model, X, y), loop_job(loop, dense, y, 0.02, bound)
        times = in_turn({"ours": ours, "theirs": theirs}, max(1, bench.repeat - 1))
        gain = times["theirs"] / times["ours"]
        same = (ours.last.n_support_, ours.last.mistakes_) == (theirs.last.m, theirs.last.mistakes)
        table.add(
            label,
            len(y) / times["ours"],
            len(y) / times["theirs"],
            gain,
            ours.last.mistakes_,
            theirs.last.mistakes,
            ours.last.n_support_,
            theirs.last.m,
        )
        note = "same supports and mistakes" if same else "supports or mistakes differ"
        claims.append(
            Claim(
                f"speed of {label} relative to its NumPy reference, {name}, norm bound for budget 1500",
                gain,
                6.0,
                "ratio",
                note=note,
            )
        )
    most = bench.pick(4000, 1500, 50)
    bench.step(f"the factor at {most:,} supports")
    # eta = 0 stores every mistake that is not in the span, which is the hardest case for the factor.
    model = Projectron(eta=0.0, budget=most, gamma=0.02)
    at = 0
    while at < len(y) and (at == 0 or model.n_support_ < most):
        model.partial_fit(X[at : at + 1000], y[at : at + 1000], classes=SIGNS)
        at += 1000
    worst = residual(model, dense[-200:], 0.02)
    accuracy = Table(
        "Accuracy of the projection's coefficients d, computed with the model's factor: the largest "
        "||K d - k|| / ||k|| of 200 rows",
        [("supports", "int"), ("rounds", "int"), ("largest residual", "tiny")],
        [[model.n_support_, model.rounds_, worst]],
    )
    claims.append(
        Claim(
            f"||K d - k|| / ||k|| of the Projectron with {model.n_support_:,} supports",
            worst,
            1e-8,
            "tiny",
            at_least=False,
        )
    )
    return Section(
        "Projection",
        "Projectron and Projectron++ compared with implementations that use the explicit inverse, and the "
        "accuracy of their projections at the end.",
        [table, accuracy],
        claims,
    )
