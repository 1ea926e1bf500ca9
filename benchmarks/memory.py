"""Memory use: `nbytes_` of the models, and the resident size of the process."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import streams
from budgetron import Forgetron, KernelPerceptron, ProjectronPlusPlus, RandomizedBudgetPerceptron
from measure import resident
from results import Claim, Curve, Panel, Section, Table

SIGNS = [-1.0, 1.0]
ALLOWED = 2 * 2**20  # growth in bytes that the allocator may cause


def rows(rng: np.random.Generator, n: int, d: int = 8) -> tuple[np.ndarray, np.ndarray]:
    y = rng.choice(SIGNS, n)
    return 0.4 * y[:, None] + rng.normal(size=(n, d)), y


def sizes(bench: Any) -> Table:
    """Compare `nbytes_` of models with a full budget to the size of their supports alone."""
    table = Table(
        "`nbytes_` with a full budget, float64, and its ratio to the size of the supports, B x d x 8 bytes",
        [
            ("learner", "text"),
            ("B", "int"),
            ("d", "int"),
            ("rows", "text"),
            ("nbytes_", "bytes"),
            ("ratio to B x d x 8", "ratio"),
        ],
    )
    for B, d in bench.pick(
        [(100, 10), (1000, 10), (1000, 100), (1000, 1000), (5000, 100)],
        [(100, 10), (1000, 10), (1000, 100)],
        [(20, 5)],
    ):
        X, y = streams.random_labels(int(2.5 * B) + 300, d)
        for name, model in (
            ("RBP", RandomizedBudgetPerceptron(B, gamma=0.5 / d, random_state=0)),
            ("Forgetron", Forgetron(B, gamma=0.5 / d)),
            ("Projectron++", ProjectronPlusPlus(2.0, eta=0.1, budget=B, gamma=0.5 / d)),
        ):
            if name == "Projectron++" and B > 1000:
                continue
            bench.step(f"{name}, B = {B:,}, d = {d:,}")
            model.partial_fit(X, y, classes=SIGNS)
            table.add(name, B, d, "dense", model.nbytes_, model.nbytes_ / (8 * B * d))
    S, y = streams.sparse(3000, bench.pick(10_000, 10_000, 100), 0.001 if bench.mode != "tiny" else 0.02)
    model = RandomizedBudgetPerceptron(bench.pick(1000, 1000, 20), gamma=0.05, random_state=0)
    labels = np.random.default_rng(0).choice(SIGNS, len(y))
    model.partial_fit(S, labels, classes=SIGNS)
    B, d = model.n_support_, S.shape[1]
    table.add("RBP", B, d, "CSR, 10 non-zeros per row", model.nbytes_, model.nbytes_ / (8 * B * d))
    return table


def memory(bench: Any) -> Section:
    table = Table(
        "Rounds after the budget is full: 8 features, batches of 5,000 rows, each followed by 100 rounds of "
        "`play`",
        [
            ("learner", "text"),
            ("rounds", "int"),
            ("nbytes_", "bytes"),
            ("changed", "text"),
            ("process before", "bytes"),
            ("largest process", "bytes"),
            ("growth", "bytes"),
        ],
    )
    models = {
        "Forgetron": Forgetron(200, gamma=0.1),
        "Forgetron, greedy": Forgetron(200, "greedy", gamma=0.1),
        "RBP": RandomizedBudgetPerceptron(200, gamma=0.1, random_state=0),
        "Projectron++": ProjectronPlusPlus(2.0, budget=200, gamma=0.1),
    }
    size = bench.pick(5000, 5000, 500)
    growths, changed, drawn = [], [], []
    for name, model in models.items():
        rounds = bench.pick(2_000_000, 200_000, 1000) // (5 if name == "Projectron++" else 1)
        bench.step(name)
        rng = np.random.default_rng(0)

        def learn(model: Any = model, rng: Any = rng) -> None:
            X, y = rows(rng, size)
            model.partial_fit(X, y, classes=SIGNS)
            for i in range(100):
                model.play(X[i], y[i])

        for _ in range(10):  # fill the budget and run every code path once
            learn()
        start, bytes_before, first = model.rounds_, model.nbytes_, resident()
        seen, at = [first or 0], [model.rounds_]
        while model.rounds_ - start < rounds:
            learn()
            seen.append(resident() or 0)
            at.append(model.rounds_)
        growth = max(seen) - seen[0] if first is not None else None
        same = model.nbytes_ == bytes_before
        changed.append(not same)
        growths.append(growth)
        table.add(
            name,
            model.rounds_ - start,
            model.nbytes_,
            "no" if same else "YES",
            first,
            max(seen) if first is not None else None,
            growth,
        )
        drawn.append(Curve(name, at, [float(model.nbytes_)] * len(at)))
    bench.step("KernelPerceptron")
    growing, rng = KernelPerceptron(gamma=0.1), np.random.default_rng(0)
    at, seen = [], []
    for _ in range(bench.pick(20, 10, 3)):
        growing.partial_fit(*rows(rng, size // 2), classes=SIGNS)
        at.append(growing.rounds_)
        seen.append(growing.nbytes_)
    drawn.append(Curve("KernelPerceptron (no budget)", at, seen, ours=False))
    measured = None not in growths
    return Section(
        "Memory",
        "`nbytes_` is exact. Once the budget is full, neither `nbytes_` nor the process grows.",
        [table, sizes(bench)],
        [
            Claim(
                "number of models whose `nbytes_` changed after the budget was full",
                sum(changed),
                0,
                "int",
                at_least=False,
            ),
            Claim(
                "largest growth of the process after the budget was full",
                max(growths) if measured else None,
                ALLOWED,
                "bytes",
                at_least=False,
                note=""
                if measured
                else "the resident size is read from /proc, which this system does not have",
            ),
        ],
        [Panel("nbytes_ against the length of the stream", "rounds", "bytes", drawn)],
    )


# ---------------------------------------------------------------------- a pipe; runs only if named


def feed(pipe: Any, megabytes: int) -> None:
    """Write a CSV file with ten numbers and a label per row to a pipe, repeating one piece."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 10))
    y = np.where(X[:, 0] * X[:, 1] > 0, "up", "down")
    piece = "".join(
        ",".join(f"{v:.6f}" for v in row) + f",{label}\n" for row, label in zip(X, y, strict=True)
    ).encode()
    pipe.write((",".join([*(f"x{j}" for j in range(10)), "label"]) + "\n").encode())
    for _ in range(megabytes * 1_000_000 // len(piece) + 1):
        pipe.write(piece)
    pipe.close()


def pipe(bench: Any) -> Section:
    megabytes = bench.pick(2000, 100, 3)
    bench.step(f"{megabytes:,} MB")
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "budgetron", "run", "-", "--target", "label"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    feeder = threading.Thread(target=feed, args=(process.stdin, megabytes))
    feeder.start()
    peak, status = 0, Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        lines = status.read_text().splitlines() if status.exists() else []
        peak = max([peak, *(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))])
        time.sleep(0.2)
    feeder.join()
    seconds = time.perf_counter() - start
    table = Table(
        "`budgetron run -` with a CSV file of ten numbers per row through a pipe",
        [
            ("MB", "int"),
            ("s", "seconds"),
            ("MB/s", "number"),
            ("largest size", "bytes"),
            ("exit code", "int"),
        ],
        [[megabytes, seconds, megabytes / seconds, 1024 * peak or None, process.returncode]],
    )
    return Section("A large file through a pipe", "The process does not grow with the file.", [table])
