"""Measure what a micro-batch of `spark.learn_fleet` costs, for the cost model of docs/scale.md.

    python benchmarks/spark_scale.py            measure, write docs/scale/results.json, and draw
    python benchmarks/spark_scale.py draw       only draw docs/scale/costs.png again

Spark's part is measured by queries that move rows and states without learning (see `spark_fleet.py`): one
that moves little, and three that move more rows, more buckets, or larger states. The differences, divided by
what was added, are the costs of a row, a bucket and a byte. All run in one session, after another one in
which the JVM compiles its code. The fleet's part is measured without Spark. `scale_model.py` computes from
these costs what many keys need. Write the page with benchmarks/generated.py.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import spark_fleet
from budgetron import Forgetron
from budgetron._util.atomic import atomic_write
from budgetron.fleet import Fleet
from budgetron.spark import _fleet
from budgetron.spark._bucket import BucketLearner
from scale_model import BUDGET, FEATURES, RESULTS, draw
from spark_fleet import Idle, learn_rows, new_rows
from spark_runs import new_session, write_rows

KEYS = 3_000  # of a bucket
CLASSES = np.array([0, 1])
BATCHES, WARM = 5, 2  # the JVM compiles code in the first micro-batches
# Rows of a micro-batch, bytes of each state, and buckets.
LITTLE = (500, 1_000, 64)
MORE = {"row": (30_500, 1_000, 64), "byte": (500, 2_001_000, 64), "bucket": (500, 1_000, 320)}
ATTEMPTS = 12  # Spark waits 10 seconds for a Python process to start, which is too short on a busy machine


# ---------------------------------------------------------------------- the fleet


def full_fleet(rng: np.random.Generator) -> Fleet:
    """Return a fleet whose keys all have a full budget."""
    fleet, keys = Fleet(Forgetron(BUDGET, gamma=0.1)), np.arange(KEYS)
    while len(fleet) < KEYS or fleet.stats()["supports"].min() < BUDGET:
        X = rng.normal(size=(KEYS, FEATURES)).astype(np.float32)
        fleet.partial_fit(keys, X, rng.integers(2, size=KEYS), classes=CLASSES)
    return fleet


def table_of(rows: int, rng: np.random.Generator) -> pa.Table:
    """Return rows as Spark passes them to the function that learns a bucket."""
    x = pa.array(rng.normal(size=(rows, FEATURES)).tolist(), pa.list_(pa.float64()))
    columns = {"key": rng.integers(KEYS, size=rows), "order": np.arange(rows)}
    return pa.table({**columns, "label": rng.integers(2, size=rows), "x": x})


def in_this_process() -> dict[str, float]:
    """Return the CPU seconds of a row and of a byte of state of a bucket, and the bytes of a key."""
    rng = np.random.default_rng(0)
    start_bytes = Fleet(Forgetron(BUDGET, gamma=0.1)).to_bytes()
    learner = BucketLearner(start_bytes, CLASSES, FEATURES, np.dtype(np.float32))
    state = full_fleet(rng).to_bytes()
    tables = table_of(1, rng), table_of(10_001, rng)
    seconds: list[list[float]] = [[], []]
    for _ in range(9):
        for table, times in zip(tables, seconds, strict=True):
            begin = time.process_time()
            learner.play(state, table)
            times.append(time.process_time() - begin)
    few, many = map(float, map(np.median, seconds))
    return {"row": (many - few) / 10_000, "byte": few / len(state), "key bytes": len(state) / KEYS}


# ---------------------------------------------------------------------- Spark


def move_only(size: int) -> None:
    """Let queries move rows and states of `size` random bytes, and not learn."""

    class Moving(Idle):
        def next_state(self, state: bytes) -> bytes:
            return np.random.default_rng().bytes(self.size)  # cannot be compressed

    Moving.size = size
    cloudpickle.register_pickle_by_value(spark_fleet)  # the workers cannot import it
    _fleet.BucketLearner = Moving


def micro_batch(spark: SparkSession, folder: Path, rows: int, state: int, buckets: int) -> float:
    """Return the CPU seconds of a micro-batch of Spark without learning."""
    move_only(state)
    write_rows(folder / "rows", new_rows(rows * BATCHES, 100_000), rows)
    for attempt in range(ATTEMPTS):
        try:
            seconds = learn_rows(spark, folder / "rows", folder / f"run {attempt}", buckets)
        except StreamingQueryException as error:
            print(f"again, because: {str(error)[:200]}", flush=True)
            continue
        found = float(np.median(seconds[WARM:]))
        print(f"{rows:,} rows, {buckets} states of {state:,} bytes: {found:.2f} CPU seconds", flush=True)
        return found
    raise RuntimeError(f"{ATTEMPTS} queries failed")


def in_spark() -> dict[str, float]:
    """Return the CPU seconds of a row, a byte of state, a bucket and a micro-batch in Spark."""
    with tempfile.TemporaryDirectory() as name:
        folder, spark = Path(name), new_session("local[2]")
        micro_batch(spark, folder / "warm", *LITTLE)
        more = {name: micro_batch(spark, folder / name, *sizes) for name, sizes in MORE.items()}
        least = micro_batch(spark, folder / "little", *LITTLE)
        spark.stop()
        files = max((folder / "byte").glob("run *"), key=os.path.getmtime).rglob("checkpoint/state/**/*")
        written = sum(path.stat().st_size for path in files if path.is_file())
    found = {
        "row": (more["row"] - least) / (MORE["row"][0] - LITTLE[0]),
        "byte": (more["byte"] - least) / ((MORE["byte"][1] - LITTLE[1]) * LITTLE[2]),
        "bucket": (more["bucket"] - least) / (MORE["bucket"][2] - LITTLE[2]),
        "written bytes per byte": written / (BATCHES * MORE["byte"][1] * MORE["byte"][2]),
    }
    return found | {"batch": least - LITTLE[0] * found["row"] - LITTLE[2] * found["bucket"]}


def measure() -> None:
    load = os.getloadavg()[1]
    results = {"fleet": in_this_process(), "spark": in_spark(), "load": load}
    RESULTS.parent.mkdir(exist_ok=True)
    with atomic_write(RESULTS) as file:
        file.write(json.dumps(results, indent=1).encode() + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["measure", "draw"], nargs="?", default="measure")
    if parser.parse_args().what == "measure":
        measure()
    draw()


if __name__ == "__main__":
    main()
