"""Measure `budgetron.spark.learn_fleet`: its CPU time next to a job that only moves the same rows and states.

    python benchmarks/spark_fleet.py cost     20,000 keys, 100,000 rows in 5 micro-batches
    python benchmarks/spark_fleet.py kills    5 times kill -9 at random moments, then compare all bits

"Same rows and states" is the same query with a function that reads and writes states of the same size, and
returns rows of the same number and type, but does not learn. CPU time is that of the driver, the JVM and the
Python workers. Spark listens on loopback only.
"""

from __future__ import annotations

import argparse
import json
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
import pyarrow as pa

from budgetron import Forgetron
from budgetron.fleet import Fleet
from budgetron.spark import _fleet, learn_fleet, read_fleet

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
SCHEMA = "key bigint, time bigint, x array<float>, y bigint"
OPTIONS = {"key": "key", "order": "time", "features": "x", "label": "y", "classes": [0, 1], "buckets": 64}
KEYS, ROWS, BATCHES, FEATURES = 20_000, 100_000, 5, 10


def write_rows(folder: Path, rows: int, keys: int, batches: int) -> None:
    rng = np.random.default_rng(0)
    folder.mkdir()
    owners, X = rng.integers(keys, size=rows), rng.normal(size=(rows, FEATURES)).round(3)
    y = (X[np.arange(rows), owners % FEATURES] > 0).astype(int)
    for i in range(batches):
        with (folder / f"{i:04d}.json").open("w", encoding="utf-8") as file:
            for t in range(i * rows // batches, (i + 1) * rows // batches):
                row = {"key": int(owners[t]), "time": t, "x": X[t].tolist(), "y": int(y[t])}
                file.write(json.dumps(row) + "\n")
        os.utime(folder / f"{i:04d}.json", (1e9 + i, 1e9 + i))  # Spark reads old files first


class Idle(_fleet.Player):
    """Returns rows and states of the same size, without learning."""

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
        # Each micro-batch adds a fifth of the final size.
        size = int(os.environ["STATE_BYTES"])
        return bytes(min(size, len(state) + size // BATCHES)), pa.table(found)


def cpu_of_tree() -> float:
    """Return the CPU seconds of this process and all its descendants."""
    parents, times = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            times[int(entry.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(times[pid] for pid in mine)


def run(folder: Path, checkpoint: Path, out: Path, kind: str) -> None:
    """Learn all rows in this process, and print the CPU seconds from the start of the query on."""
    from spark_session import new_session

    spark = new_session("local[2]")
    if kind == "idle":
        _fleet.Player = Idle
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "rows"))
    fleet = Fleet(Forgetron(20, gamma=0.1))
    result = learn_fleet(rows, fleet, n_features=FEATURES, **OPTIONS)  # type: ignore[arg-type]
    before = cpu_of_tree()

    def write(df: Any, batch: int) -> None:
        df.write.mode("overwrite").parquet(str(out / f"batch={batch}"))

    writer = result.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    print(json.dumps({"cpu": cpu_of_tree() - before}))
    if kind == "learn":
        stored = spark.read.format("statestore").option("stateVarName", "fleet").load(str(checkpoint))
        sizes = [row[0] for row in stored.selectExpr("length(value.data)").collect()]
        print(json.dumps({"state bytes": int(np.mean(sizes)), "keys": len(read_fleet(checkpoint))}))
    sys.stdout.flush()
    spark.stop()


def child(folder: Path, name: str, kind: str, **options: Any) -> subprocess.Popen[str]:
    paths = [str(folder), str(folder / f"checkpoint-{name}"), str(folder / f"out-{name}"), kind]
    command = [sys.executable, __file__, "child", *paths]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True, **options)


def cost() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "rows", ROWS, KEYS, BATCHES)
        learned = child(folder, "learn", "learn").communicate()[0].splitlines()
        first, about = json.loads(learned[0])["cpu"], json.loads(learned[1])
        environment = os.environ | {"STATE_BYTES": str(about["state bytes"])}
        second = json.loads(child(folder, "idle", "idle", env=environment).communicate()[0].splitlines()[0])[
            "cpu"
        ]
        print(f"{about['keys']:,} keys, {ROWS:,} rows, states of {about['state bytes'] / 1000:.0f} kB")
        print(f"{first:.1f} CPU seconds with learning, {second:.1f} without: ratio {first / second:.2f}")


def contents(folder: Path, name: str) -> tuple[Any, Any]:
    """Return the output and the states of a run, in a form that can be compared."""
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    rows = spark.read.parquet(str(folder / f"out-{name}")).orderBy("order").collect()
    stored = spark.read.format("statestore").option("stateVarName", "fleet")
    states = stored.load(str(folder / f"checkpoint-{name}")).selectExpr("key.bucket", "sha2(value.data, 256)")
    return [row.asDict() for row in rows], sorted(map(tuple, states.collect()))


def kills(times: int) -> None:
    from spark_session import new_session

    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "rows", 20_000, 2_000, 20)
        child(folder, "whole", "learn").communicate()
        commits = folder / "checkpoint-broken" / "commits"
        for kill in range(times):
            process = child(folder, "broken", "learn")
            before = len(list(commits.glob("[0-9]*"))) if commits.exists() else 0
            while process.poll() is None and (
                not commits.exists() or len(list(commits.glob("[0-9]*"))) == before
            ):
                time.sleep(0.05)
            time.sleep(chance.uniform(0.0, 4.0))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            print(
                f"kill {kill + 1}: code {process.returncode}, {len(list(commits.glob('[0-9]*')))} commits",
                flush=True,
            )
        child(folder, "broken", "learn").communicate()
        new_session("local[2]")
        (rows, states), (same_rows, same_states) = contents(folder, "broken"), contents(folder, "whole")
        print(
            f"{len(rows):,} rows, {len(states)} states; output equal: {rows == same_rows}, states equal: "
            f"{states == same_states}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["cost", "kills", "child"])
    parser.add_argument("arguments", nargs="*")
    arguments = parser.parse_args()
    if arguments.what == "child":
        folder, checkpoint, out, kind = arguments.arguments
        run(Path(folder), Path(checkpoint), Path(out), kind)
    elif arguments.what == "cost":
        cost()
    else:
        kills(5)


if __name__ == "__main__":
    main()
