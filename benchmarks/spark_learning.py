"""Measure `budgetron.spark.learn`: accuracy with workers, and runs that are killed at random moments.

    python benchmarks/spark_learning.py accuracy             4 workers against one pass, on ijcnn1
    python benchmarks/spark_learning.py kills                5 times kill -9, then compare every state
    python benchmarks/spark_learning.py kills --master "local-cluster[2,1,1024]"

Spark listens on loopback only. `BUDGETRON_DATA` names the folder of the data.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import budgetron
from budgetron.linear import AROW
from budgetron.spark import learn
from quality_streams import load
from spark_runs import SparkRun, kill_at_random_moments, new_session, output, write_rows

SCHEMA = "time bigint, x array<double>, y bigint"
WORKERS = 4
# The files of a micro-batch, in the order in which they appear.
FILES = {
    "its plan": "broken/query/offsets/{batch}",
    "the model": "broken/models/batch-{batch:012d}.budgetron",
    "the record that it is complete": "broken/query/commits/{batch}",
}


def prepare(folder: Path, rows: int, size: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Write the rows and a model that has learned one row; return the model and the other rows."""
    X, y = load("ijcnn1")
    model = AROW(fit_intercept=False).partial_fit(X[:1], y[:1], classes=[-1, 1])
    budgetron.save(model, folder / "start.budgetron")
    X, y = X[1:rows], y[1:rows]
    columns = zip(X.tolist(), y.tolist(), strict=True)
    write_rows(
        folder / "rows", [{"time": t, "x": x, "y": label} for t, (x, label) in enumerate(columns)], size
    )
    return model, X, y


def learn_all(folder: Path, checkpoint: Path, master: str) -> None:
    """Learn all rows, in this process."""
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


def child(folder: Path, checkpoint: str, master: str) -> SparkRun:
    return SparkRun(__file__, "child", "--folder", folder, "--checkpoint", checkpoint, "--master", master)


def divide_equally(folder: Path) -> int:
    """Let the next run have the micro-batches of the run that was killed; return their number.

    If Spark is killed after it has listed a new file and before it has planned the micro-batch of this file,
    the file later shares a micro-batch with the next one. Then the models are merged at other times.
    """
    files = sorted((folder / "rows").iterdir())
    batches = sorted(
        (folder / "broken" / "query" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)
    )
    first = 0
    for path in batches:
        end = int(json.loads(path.read_text().splitlines()[-1])["logOffset"]) + 1
        text = "".join(file.read_text(encoding="utf-8") for file in files[first:end])
        modified = files[first].stat().st_mtime
        files[first].write_text(text, encoding="utf-8")
        os.utime(files[first], (modified, modified))
        for file in files[first + 1 : end]:
            file.unlink()
        first = end
    assert first == len(files)
    return len(batches)


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
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, _, y = prepare(folder, 6_000, 200)
        again = partial(child, folder, "broken", master)
        kill_at_random_moments(again, folder, FILES, len(y) // 200, times)
        output(again)
        print(f"{divide_equally(folder)} micro-batches")
        output(partial(child, folder, "whole", master))
        ours, theirs = newest(folder / "broken"), newest(folder / "whole")
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
    parser.add_argument("--checkpoint")
    arguments = parser.parse_args()
    if arguments.what == "child":
        learn_all(arguments.folder, arguments.folder / arguments.checkpoint, arguments.master)
    elif arguments.what == "accuracy":
        accuracy(arguments.master)
    else:
        kills(arguments.master, arguments.times)


if __name__ == "__main__":
    main()
