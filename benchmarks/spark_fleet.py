"""Measure `budgetron.spark.learn_fleet`: its CPU time next to a job that only moves the same rows and states.

    python benchmarks/spark_fleet.py cost     20,000 keys, 100,000 rows in 5 micro-batches
    python benchmarks/spark_fleet.py kills    5 times kill -9 at random moments, then compare all bits
    python benchmarks/spark_fleet.py kills --master "local-cluster[2,1,1024]"

"Same rows and states" is the same query with a function that reads and writes states of the same size, and
returns rows of the same number and type, but does not learn. CPU time is that of the driver, the JVM and the
Python workers. Spark listens on loopback only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from budgetron import Forgetron
from budgetron.fleet import Fleet
from budgetron.spark import _fleet, learn_fleet, read_buckets, write_outputs
from budgetron.spark._bucket import BucketLearner
from spark_runs import SparkRun, cpu_of_tree, kill_at_random_moments, new_session, output, write_rows

SCHEMA = "key bigint, time bigint, x array<float>, y bigint"
KEYS, ROWS, BATCHES, FEATURES = 20_000, 100_000, 5, 10
# The files of a micro-batch, in the order in which they appear.
FILES = {
    "its plan": "broken/checkpoint/offsets/{batch}",
    "states": "broken/checkpoint/state/0/*/{version}[._]*",
    "predictions": "broken/predictions/batch={batch}/_SUCCESS",
    "rejected rows": "broken/rejected/batch={batch}/_SUCCESS",
    "the record that it is complete": "broken/checkpoint/commits/{batch}",
}


def new_rows(rows: int, keys: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    owners, X = rng.integers(keys, size=rows), rng.normal(size=(rows, FEATURES)).round(3)
    y = (X[np.arange(rows), owners % FEATURES] > 0).astype(int)
    columns = zip(owners.tolist(), X.tolist(), y.tolist(), strict=True)
    return [{"key": key, "time": t, "x": x, "y": label} for t, (key, x, label) in enumerate(columns)]


class Idle(BucketLearner):
    """Returns rows and states of the same size, without learning."""

    size: ClassVar[int]  # bytes of a state after five micro-batches

    def play(self, state: bytes, table: pa.Table) -> tuple[bytes, pa.Table]:
        places = np.argsort(table["order"].to_numpy())
        table = table.take(pa.array(places))
        n = len(table)
        found = {
            "key": table["key"],
            "order": table["order"],
            "margin": pa.array(np.zeros(n)),
            "prediction": pa.array(np.zeros(n, np.int64)),
            "mistake": pa.array(np.zeros(n, bool)),
        }
        return self.next_state(state), pa.table(found)

    def next_state(self, state: bytes) -> bytes:
        return bytes(min(self.size, len(state) + self.size // BATCHES))


def learn_rows(spark: SparkSession, rows: Path, folder: Path, buckets: int) -> list[float]:
    """Learn all rows, and return the CPU seconds of each micro-batch."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(rows))
    result = learn_fleet(
        stream,
        Fleet(Forgetron(20, gamma=0.1)),
        key="key",
        order="time",
        features="x",
        n_features=FEATURES,
        label="y",
        classes=[0, 1],
        buckets=buckets,
    )
    write, seconds = write_outputs(folder / "predictions", folder / "rejected"), [cpu_of_tree()]

    def write_and_measure(frame: DataFrame, batch: int) -> None:
        write(frame, batch)
        seconds.append(cpu_of_tree())

    writer = result.writeStream.foreachBatch(write_and_measure)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    found: list[float] = np.diff(seconds).tolist()
    return found


def run(rows: Path, folder: Path, kind: str, master: str) -> None:
    """Learn all rows in this process, and print the CPU seconds."""
    spark = new_session(master)
    if kind == "idle":
        Idle.size = int(os.environ["STATE_BYTES"])
        _fleet.BucketLearner = Idle
    print(json.dumps({"cpu": sum(learn_rows(spark, rows, folder, 64))}))
    if kind == "learn":
        fleets = read_buckets(folder / "checkpoint")
        sizes = [len(fleet.to_bytes()) for fleet in fleets]
        print(json.dumps({"state bytes": int(np.mean(sizes)), "keys": sum(map(len, fleets))}))
    sys.stdout.flush()
    spark.stop()


def child(folder: Path, name: str, kind: str = "learn", master: str = "local[2]", **options: Any) -> SparkRun:
    return SparkRun(__file__, "child", folder / "rows", folder / name, kind, "--master", master, **options)


def cost(times: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "rows", new_rows(ROWS, KEYS), ROWS // BATCHES)
        seconds: dict[str, list[float]] = {"learn": [], "idle": []}
        numbers = count()

        def next_child(kind: str, **options: Any) -> SparkRun:
            """Start a run in a folder of its own, so that a repeated one begins at the first row."""
            return child(folder, f"{kind}-{next(numbers)}", kind, **options)

        for _ in range(times):
            learned, about = map(json.loads, output(partial(next_child, "learn")))
            environment = os.environ | {"STATE_BYTES": str(about["state bytes"])}
            idle = output(partial(next_child, "idle", env=environment))
            seconds["learn"].append(learned["cpu"])
            seconds["idle"].append(json.loads(idle[0])["cpu"])
            ratio = seconds["learn"][-1] / seconds["idle"][-1]
            print(
                f"{about['keys']:,} keys, {ROWS:,} rows, states of {about['state bytes'] / 1000:.0f} kB: "
                f"{seconds['learn'][-1]:.1f} CPU seconds with learning, {seconds['idle'][-1]:.1f} without, "
                f"ratio {ratio:.3f}",
                flush=True,
            )
        both = [float(np.mean(seconds[kind])) for kind in ("learn", "idle")]
        print(f"mean: {both[0]:.1f} and {both[1]:.1f}, ratio {both[0] / both[1]:.3f}")


def contents(folder: Path) -> tuple[list[str], list[str], list[bytes]]:
    """Return the predictions, rejected rows and states of a run, in a form that can be compared.

    The numbers of the micro-batches are left out, because they may differ: if Spark is killed after it has
    listed a new file and before it has planned the micro-batch of this file, the file later shares a
    micro-batch with the next one.
    """
    spark = SparkSession.active()
    predictions, rejected = (
        sorted(map(str, spark.read.parquet(str(folder / name)).drop("batch").collect()))
        for name in ("predictions", "rejected")
    )
    return predictions, rejected, [fleet.to_bytes() for fleet in read_buckets(folder / "checkpoint")]


def micro_batches(folder: Path) -> int:
    """Return the number of micro-batches of a run."""
    return len(list((folder / "predictions").glob("batch=*")))


def kills(master: str, times: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = new_rows(10_000, 1_000)
        for i in range(0, len(rows), 1000):
            rows[i]["x"] = [0.0]  # invalid
        batches = write_rows(folder / "rows", rows, 1_000)
        output(partial(child, folder, "whole", master=master))
        again = partial(child, folder, "broken", master=master)
        kill_at_random_moments(again, folder, FILES, batches, times)
        output(again)
        new_session("local[2]")
        ours, theirs = contents(folder / "broken"), contents(folder / "whole")
        print(f"{micro_batches(folder / 'broken')} and {micro_batches(folder / 'whole')} micro-batches")
        for what, found, expected in zip(
            ("predictions", "rejected rows", "states"), ours, theirs, strict=True
        ):
            print(f"{master}: {len(found):,} {what}, equal bit by bit: {found == expected}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["cost", "kills", "child"])
    parser.add_argument("arguments", nargs="*")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--times", type=int, help="runs of each kind (3), or kills (5)")
    arguments = parser.parse_args()
    if arguments.what == "child":
        rows, folder, kind = arguments.arguments
        run(Path(rows), Path(folder), kind, arguments.master)
    elif arguments.what == "cost":
        cost(arguments.times or 3)
    else:
        kills(arguments.master, arguments.times or 5)


if __name__ == "__main__":
    main()
