"""Measure `budgetron.spark.learn`: accuracy with workers, and runs that are killed at random moments.

    python benchmarks/spark_learning.py accuracy             4 workers against one pass, on ijcnn1
    python benchmarks/spark_learning.py kills                5 times kill -9, then compare every state
    python benchmarks/spark_learning.py kills --master "local-cluster[2,1,1024]"

Spark listens on loopback only. `BUDGETRON_DATA` names the folder of the data.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import budgetron
from budgetron.linear import AROW
from quality_streams import load

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
SCHEMA = "time bigint, x array<double>, y bigint"
WORKERS = 4


def write_rows(folder: Path, X: np.ndarray, y: np.ndarray, size: int) -> None:
    """Write one JSON file for each micro-batch."""
    folder.mkdir(parents=True)
    for i, start in enumerate(range(0, len(y), size)):
        lines = [
            f'{{"time": {t}, "x": {X[t].tolist()}, "y": {int(y[t])}}}\n'
            for t in range(start, min(start + size, len(y)))
        ]
        path = folder / f"{i:06d}.json"
        path.write_text("".join(lines), encoding="utf-8")
        os.utime(path, (1e9 + i, 1e9 + i))  # Spark reads old files first


def prepare(folder: Path, rows: int, size: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Write the rows and a model that has learned one row; return the model and the other rows."""
    X, y = load("ijcnn1")
    model = AROW().partial_fit(X[:1], y[:1], classes=[-1, 1])
    budgetron.save(model, folder / "start.budgetron")
    write_rows(folder / "rows", X[1:rows], y[1:rows], size)
    return model, X[1:rows], y[1:rows]


def learn_all(folder: Path, checkpoint: Path, master: str) -> None:
    """Learn all rows, in this process."""
    from spark_session import new_session

    from budgetron.spark import learn

    spark = new_session(master)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "rows"))
    query = learn(
        rows,
        budgetron.load(folder / "start.budgetron"),
        features="x",
        label="y",
        order="time",
        checkpoint=checkpoint,
        workers=WORKERS,
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    spark.stop()


def child(folder: Path, checkpoint: Path, master: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "child", "--folder", str(folder), "--checkpoint", str(checkpoint)]
    return subprocess.Popen(
        [*command, "--master", master],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def newest(checkpoint: Path) -> list[Path]:
    return sorted((checkpoint / "models").glob("batch-0*.budgetron")) if checkpoint.exists() else []


def accuracy(master: str) -> None:
    for size in (500, 2000):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            model, X, y = prepare(folder, 20_000, size)
            learn_all(folder, folder / "checkpoint", master)
            learned = budgetron.load(newest(folder / "checkpoint")[-1])
            sequential = copy.deepcopy(model).partial_fit(X, y)
            assert learned.rounds_ == sequential.rounds_ == len(y) + 1
            errors = [100 * one.mistakes_ / one.rounds_ for one in (sequential, learned)]
            print(
                f"ijcnn1, {len(y)} rows, batches of {size}: {errors[0]:.2f} % in one pass, "
                f"{errors[1]:.2f} % with {WORKERS} workers"
            )


def kills(master: str, times: int) -> None:
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, 6_000, 200)
        whole, broken = folder / "whole", folder / "broken"
        assert child(folder, whole, master).wait() == 0
        for kill in range(times):
            process, before = child(folder, broken, master), len(newest(broken))
            while len(newest(broken)) == before and process.poll() is None:  # until it learns
                time.sleep(0.05)
            time.sleep(chance.uniform(0.0, 4.0))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            print(
                f"kill {kill + 1}: return code {process.returncode}, newest state {newest(broken)[-1].name}"
            )
        assert child(folder, broken, master).wait() == 0
        ours, theirs = newest(broken), newest(whole)
        assert [path.name for path in ours] == [path.name for path in theirs]
        equal = [a.read_bytes() == b.read_bytes() for a, b in zip(ours, theirs, strict=True)]
        model = budgetron.load(ours[-1])
        print(f"{master}: {sum(equal)} of {len(equal)} states are equal bit by bit; {model.rounds_} rounds")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["accuracy", "kills", "child"])
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "child":
        learn_all(arguments.folder, arguments.checkpoint, arguments.master)
    elif arguments.what == "accuracy":
        accuracy(arguments.master)
    else:
        kills(arguments.master, arguments.times)


if __name__ == "__main__":
    main()
