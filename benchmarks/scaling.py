"""The cost of a round against the budget, the rows, the length of the stream, and threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

import numpy_loops
import streams
from budgetron import Forgetron, KernelPerceptron, Projectron, ProjectronPlusPlus, RandomizedBudgetPerceptron
from measure import Work, best, gemm_rate, in_turn, set_threads, timed
from results import Claim, Curve, Panel, Section, Table

SIGNS = [-1.0, 1.0]


def learn_until_full(model: Any, X: Any, y: np.ndarray) -> Any:
    """Learn the rows and check that the budget is full."""
    model.partial_fit(X, y, classes=SIGNS)
    assert model.n_support_ == model.budget, f"{model}: {model.n_support_} supports after {len(y)} rounds"
    return model


def learn_job(model: Any, X: Any, y: np.ndarray) -> Callable[[], Work]:
    """Return a job that learns a batch with a trained model; repetitions continue the training."""
    return lambda: lambda: model.partial_fit(X, y)


def play_job(model: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], Work]:
    """Return a job that plays the rows one by one."""
    rows, labels = list(X), y.tolist()

    def go() -> None:
        for x, label in zip(rows, labels, strict=True):
            model.play(x, label)

    return lambda: go


def numpy_margins(supports: np.ndarray, X: np.ndarray, gamma: float) -> Callable[[], Work]:
    """Return a job for the NumPy loop with a full budget, which computes margins and makes no updates."""
    loop = numpy_loops.Loop(X, np.zeros(len(X)), gamma, len(supports))
    for slot in range(len(supports)):
        loop.rows[slot], loop.own[slot] = supports[slot], gamma * supports[slot] @ supports[slot]
    loop.coef[:] = 1.0
    loop.m = len(supports)

    def go() -> None:
        for t in range(len(X)):
            float(loop.kernel(t) @ loop.coef)

    return lambda: go


def curves(table: Table, x: str, names: Iterable[str], grey: Iterable[str] = ()) -> list[Curve]:
    """Return curves of the columns `names` of a table against its column `x`."""
    at = {name: i for i, (name, _) in enumerate(table.columns)}
    found = []
    for name in names:
        points = [(row[at[x]], row[at[name]]) for row in table.rows if row[at[name]] is not None]
        label = name.removesuffix(", us").removesuffix(" us")
        found.append(Curve(label, [p[0] for p in points], [p[1] for p in points], name not in set(grey)))
    return found


# ---------------------------------------------------------------------- the budget


def budget(bench: Any) -> Section:
    d = 123
    sizes = bench.pick(
        [10, 30, 100, 300, 1000, 3000, 10_000, 20_000], [10, 100, 1000, 5000, 20_000], [10, 50, 200]
    )
    most = bench.pick(3000, 1000, 50)  # largest B of the Projectron, whose factor has B^2 / 2 numbers
    table = Table(
        f"Time per round with a full budget, in microseconds; {d} features, float64, RBF kernel. Labels are "
        "random, so every second round is a mistake. The NumPy loop computes margins only",
        [
            ("B", "int"),
            ("RBP us", "us"),
            ("Forgetron us", "us"),
            ("RBP, CSR us", "us"),
            ("Projectron us", "us"),
            ("RBP.play us", "us"),
            ("NumPy loop us", "us"),
            ("GEMM us", "us"),
            ("RBP rounds/s", "rate"),
        ],
    )
    for B in sizes:
        bench.step(f"B = {B:,}")
        n = bench.rounds(2000, B)
        fill = int(2.2 * B) + 200
        X, y = streams.random_labels(fill + n, d)
        S, _ = streams.sparse(fill + n, d, 14 / d)
        head, rest = slice(0, fill), slice(fill, None)
        rbp = learn_until_full(RandomizedBudgetPerceptron(B, gamma=0.005, random_state=0), X[head], y[head])
        jobs = {
            "rbp": learn_job(rbp, X[rest], y[rest]),
            "forgetron": learn_job(
                learn_until_full(Forgetron(B, gamma=0.005), X[head], y[head]), X[rest], y[rest]
            ),
        }
        sparse = learn_until_full(RandomizedBudgetPerceptron(B, gamma=0.02, random_state=0), S[head], y[head])
        jobs["csr"] = learn_job(sparse, S[rest], y[rest])
        if most >= B:
            # Random rows are far from each other: each mistake is stored until the budget is full.
            projectron = learn_until_full(Projectron(eta=0.1, budget=B, gamma=0.005), X[head], y[head])
            jobs["projectron"] = learn_job(projectron, X[rest], y[rest])
        some = slice(fill, fill + max(20, n // 4))
        jobs["play"] = play_job(rbp, X[some], y[some])
        jobs["numpy"] = numpy_margins(rbp.support_vectors_, X[some], 0.005)
        times = in_turn(jobs, bench.repeat)
        each = {
            name: seconds / (n if name not in ("play", "numpy") else len(y[some]))
            for name, seconds in times.items()
        }
        limit = 2.0 * d * B / gemm_rate(d, B, repeat=bench.repeat)
        table.add(
            B,
            each["rbp"],
            each["forgetron"],
            each["csr"],
            each.get("projectron"),
            each["play"],
            each["numpy"],
            limit,
            1 / each["rbp"],
        )
    large = [row for row in table.rows if row[0] >= sizes[len(sizes) // 2]]
    exponents = {
        name: float(np.polyfit(np.log([r[0] for r in large]), np.log([r[i] for r in large]), 1)[0])
        for i, name in ((1, "RBP"), (2, "Forgetron"), (3, "RBP on CSR rows"))
    }
    worst = max(exponents, key=lambda name: exponents[name])
    return Section(
        "The budget",
        "The cost is linear in B once the supports cost more than the overhead of a round. The Projectron "
        "also needs B squared operations for each mistake. GEMM is the time of the matrix product for the "
        "kernel values alone.",
        [table],
        [
            Claim(
                f"growth of the cost from B = {large[0][0]:,} to {large[-1][0]:,}, as an exponent of B: "
                f"the largest of {', '.join(exponents)}",
                exponents[worst],
                1.1,
                "number",
                at_least=False,
                note=f"largest for {worst}",
            )
        ],
        [
            Panel(
                "Time per round against the budget",
                "budget B",
                "seconds",
                curves(
                    table,
                    "B",
                    [name for name, kind in table.columns if kind == "us"],
                    ["NumPy loop us", "GEMM us"],
                ),
            )
        ],
    )


# ---------------------------------------------------------------------- the rows


def features(bench: Any) -> Section:
    B = bench.pick(1000, 500, 50)
    table = Table(
        f"Time per round with a full budget of {B:,}, in microseconds; dense rows, RBF kernel, random "
        "labels. The NumPy loop computes margins only",
        [
            ("d", "int"),
            ("RBP us", "us"),
            ("RBP float32 us", "us"),
            ("Forgetron us", "us"),
            ("RBP.play us", "us"),
            ("NumPy loop us", "us"),
            ("GEMM us", "us"),
            ("RBP rounds/s", "rate"),
        ],
    )
    for d in bench.pick([2, 10, 30, 100, 300, 1000, 3000, 10_000], [2, 10, 100, 1000, 10_000], [2, 20]):
        bench.step(f"d = {d:,}")
        n = bench.rounds(4000, 8 * d)
        fill = int(2.2 * B) + 200
        X, y = streams.random_labels(fill + n, d)
        head, rest = slice(0, fill), slice(fill, None)
        gamma = 0.5 / d
        rbp = learn_until_full(RandomizedBudgetPerceptron(B, gamma=gamma, random_state=0), X[head], y[head])
        small = X.astype(np.float32)
        single = learn_until_full(
            RandomizedBudgetPerceptron(B, gamma=gamma, random_state=0), small[head], y[head]
        )
        some = slice(fill, fill + max(20, n // 4))
        jobs = {
            "rbp": learn_job(rbp, X[rest], y[rest]),
            "single": learn_job(single, small[rest], y[rest]),
            "forgetron": learn_job(
                learn_until_full(Forgetron(B, gamma=gamma), X[head], y[head]), X[rest], y[rest]
            ),
            "play": play_job(rbp, X[some], y[some]),
            "numpy": numpy_margins(rbp.support_vectors_, X[some], gamma),
        }
        times = in_turn(jobs, bench.repeat)
        count = {"play": len(y[some]), "numpy": len(y[some])}
        each = {name: seconds / count.get(name, n) for name, seconds in times.items()}
        limit = 2.0 * d * B / gemm_rate(d, B, repeat=bench.repeat)
        table.add(d, *each.values(), limit, 1 / each["rbp"])
    return Section(
        "The number of features",
        "With fewer than about ten features, the exponentials and the rounds cost more than the products. "
        "With more features, the matrix product dominates.",
        [table],
        [],
        [
            Panel(
                "Time per round against the number of features",
                "features d",
                "seconds",
                curves(
                    table,
                    "d",
                    [name for name, kind in table.columns if kind == "us"],
                    ["NumPy loop us", "GEMM us"],
                ),
            )
        ],
    )


def density(bench: Any) -> Section:
    B, d = bench.pick((1000, 1000, 50), (500, 1000, 50), (50, 100, 50))[:2]
    n = bench.rounds(3000, 1000)
    table = Table(
        f"Time per round with a full budget of {B:,}, in microseconds; the same rows of {d:,} features as a "
        "CSR matrix and as an array",
        [
            ("density", "number"),
            ("non-zeros", "int"),
            ("RBP, CSR us", "us"),
            ("RBP, array us", "us"),
            ("Forgetron, CSR us", "us"),
            ("CSR / array", "ratio"),
        ],
    )
    for share in bench.pick(
        [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 1.0], [0.001, 0.01, 0.1, 0.3, 1.0], [0.02, 0.5]
    ):
        bench.step(f"density {share}")
        fill = int(2.5 * B) + 300
        X, _ = streams.sparse(fill + n, d, share)
        X.data[:] = np.random.default_rng(1).normal(size=len(X.data))
        y = np.random.default_rng(2).choice(SIGNS, fill + n)
        head, rest = slice(0, fill), slice(fill, None)
        dense = X.toarray()
        gamma = 0.5 / max(1, round(share * d))
        times = in_turn(
            {
                "csr": learn_job(
                    learn_until_full(
                        RandomizedBudgetPerceptron(B, gamma=gamma, random_state=0), X[head], y[head]
                    ),
                    X[rest],
                    y[rest],
                ),
                "array": learn_job(
                    learn_until_full(
                        RandomizedBudgetPerceptron(B, gamma=gamma, random_state=0), dense[head], y[head]
                    ),
                    dense[rest],
                    y[rest],
                ),
                "forgetron": learn_job(
                    learn_until_full(Forgetron(B, gamma=gamma), X[head], y[head]), X[rest], y[rest]
                ),
            },
            bench.repeat,
        )
        each = {name: seconds / n for name, seconds in times.items()}
        table.add(share, max(1, round(share * d)), *each.values(), each["csr"] / each["array"])
    return Section(
        "Density",
        "The time that is saved by passing sparse rows as a CSR matrix.",
        [table],
        [],
        [
            Panel(
                "Time per round against density",
                "share of non-zeros",
                "seconds",
                curves(
                    table,
                    "density",
                    ["RBP, CSR us", "RBP, array us", "Forgetron, CSR us"],
                    ["RBP, array us"],
                ),
            )
        ],
    )


# ---------------------------------------------------------------------- the stream


def rounds(bench: Any) -> Section:
    pieces = 20
    size = bench.pick(100_000, 10_000, 100)
    growing = bench.pick(3000, 1000, 100)  # rounds per piece for the learner without a budget
    learners = {
        "RBP": (RandomizedBudgetPerceptron(200, gamma=0.1, random_state=0), size),
        "Forgetron": (Forgetron(200, gamma=0.1), size),
        "Projectron++": (ProjectronPlusPlus(2.0, eta=0.1, budget=200, gamma=0.1), size // 5),
        "KernelPerceptron (no budget)": (KernelPerceptron(gamma=0.1), growing),
    }
    table = Table(
        "Time per round in microseconds; 8 features, budget 200, twenty equal pieces of a stream after the "
        "budget is full",
        [
            ("learner", "text"),
            ("rounds", "int"),
            ("first piece us", "us"),
            ("median us", "us"),
            ("last piece us", "us"),
            ("growth", "ratio"),
        ],
    )
    drawn, worst = [], 0.0
    for name, (model, length) in learners.items():
        bench.step(name)
        rng = np.random.default_rng(0)
        times: list[float] = []
        for piece in range(pieces + 1):
            y = rng.choice(SIGNS, length)
            X = 0.4 * y[:, None] + rng.normal(size=(length, 8))
            if piece == 0 and hasattr(model, "budget"):  # the time per round grows until the budget is full
                model.partial_fit(X, y, classes=SIGNS)
                while bench.mode != "tiny" and model.n_support_ < model.budget:
                    model.partial_fit(X, y)
                continue
            # Take the fastest eighth of a piece: a disturbance by other processes must not look like growth.
            parts = [slice(i * length // 8, (i + 1) * length // 8) for i in range(8)]
            times.append(
                min(
                    best(lambda p=p: lambda: model.partial_fit(X[p], y[p], classes=SIGNS), 1)  # noqa: B023
                    / (p.stop - p.start)
                    for p in parts
                )
            )
        first, last = min(times[:3]), min(times[-3:])
        table.add(name, len(times) * length, times[0], float(np.median(times)), times[-1], last / first)
        if "no budget" not in name:
            worst = max(worst, last / first)
        drawn.append(
            Curve(name, [length * (i + 1) for i in range(len(times))], times, "no budget" not in name)
        )
    return Section(
        "The length of the stream",
        "With a full budget, the cost of a round does not depend on the number of earlier rounds. Growth is "
        "the fastest of the last three pieces divided by the fastest of the first three.",
        [table],
        [
            Claim(
                "growth of the cost of a round with the length of the stream: the largest of RBP, Forgetron, "
                "Projectron++",
                worst,
                1.15,
                "ratio",
                at_least=False,
            )
        ],
        [Panel("Time per round against the length of the stream", "rounds", "seconds", drawn, "log x")],
    )


# ---------------------------------------------------------------------- threads


def times_by_threads(model: Any, step: Work, bench: Any) -> dict[int, float]:
    """Time the same work with one thread and with two, precisely enough to detect a difference of 5 %.

    Both use the same model. Two models would have different addresses in memory, which has a larger effect.
    """
    least = bench.pick(0.05, 0.02, 0.0)
    often = 1 + int(least / max(timed(step), 1e-6))

    def with_threads(count: int) -> Callable[[], Work]:
        def go() -> None:
            for _ in range(often):
                step()

        def prepare() -> Work:
            set_threads(model, count)
            return go

        return prepare

    jobs = {str(count): with_threads(count) for count in (1, 2)}
    times: dict[str, float] = {}
    for _ in range(bench.pick(12, 4, 1)):  # repeat if two threads look slower: it may have been a disturbance
        times = in_turn(jobs, bench.repeat, times)
        if times["1"] >= times["2"]:
            break
    return {int(name): seconds / often for name, seconds in times.items()}


def threads(bench: Any) -> Section:
    table = Table(
        "Speed with two threads relative to one, timed alternately (RBP, full budget)",
        [
            ("B", "int"),
            ("d", "int"),
            ("density", "number"),
            ("learn, 1 thread rounds/s", "rate"),
            ("learn, 2 threads", "ratio"),
            ("predict, 1 thread rows/s", "rate"),
            ("predict, 2 threads", "ratio"),
        ],
    )
    grid = [
        (B, d, share)
        for B in bench.pick([10, 100, 1000, 3000], [100, 3000], [20])
        for d in bench.pick([2, 10, 123, 784, 3000], [10, 784], [5])
        for share in bench.pick([1.0, 0.1, 0.01], [1.0, 0.1], [1.0])
        if share * d >= 1
    ]
    worst: dict[str, tuple[float, str]] = {}
    wide: float | None = None
    for B, d, share in grid:
        bench.step(f"B = {B:,}, d = {d}, density {share}")
        n = bench.rounds(6000, B * d // 200)
        fill = int(2.5 * B) + 300
        X: Any
        X, _ = streams.sparse(fill + n, d, share) if share < 1 else streams.random_labels(fill + n, d)
        if share < 1:  # with ones only, few rows would differ
            X.data[:] = np.random.default_rng(1).normal(size=len(X.data))
        y = np.random.default_rng(2).choice(SIGNS, fill + n)
        model = learn_until_full(
            RandomizedBudgetPerceptron(B, gamma=0.5 / (share * d), random_state=0), X[:fill], y[:fill]
        )
        rows, labels = X[fill:], y[fill:]
        steps = {
            "learn": partial(model.partial_fit, rows, labels),
            "predict": partial(model.decision_function, rows),
        }
        times, gains = {}, {}
        for what, step in steps.items():
            taken = times_by_threads(model, step, bench)
            times[what], gains[what] = taken[1], taken[1] / taken[2]
        table.add(B, d, share, n / times["learn"], gains["learn"], n / times["predict"], gains["predict"])
        for what, gain in gains.items():
            if gain < worst.get(what, (np.inf, ""))[0]:
                worst[what] = (gain, f"at B = {B:,}, d = {d}, density {share}")
        if (B, d, share) == (3000, 784, 1.0):
            wide = gains["learn"]
    drawn = [
        Curve(what, [row[0] * row[1] for row in table.rows], [row[i] for row in table.rows], ours)
        for i, what, ours in ((4, "learning", True), (6, "prediction", False))
    ]
    return Section(
        "Threads",
        "`n_jobs=2` compared with `n_jobs=1`, for learning and predicting the same rows with the same model.",
        [table],
        [
            Claim(
                "speed of learning with two threads relative to one, dense rows, B = 3000, d = 784",
                wide,
                1.6,
                "ratio",
            ),
            *(
                Claim(
                    f"speed of {what} with two threads relative to one: the smallest",
                    worst[verb][0],
                    0.95,
                    "ratio",
                    note=worst[verb][1],
                )
                for verb, what in (("learn", "learning"), ("predict", "prediction"))
            ),
        ],
        [Panel("Speed with two threads relative to one", "B x d", "times faster", drawn, "log x", "points")],
    )
