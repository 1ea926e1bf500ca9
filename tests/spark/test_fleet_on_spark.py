"""`spark.learn_fleet` learns each key as a fleet in one process does, and survives kill -9."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from budgetron import Forgetron
from budgetron.fleet import Fleet
from budgetron.linear import AROW

pytest.importorskip("budgetron.spark", reason="PySpark is not installed")

from budgetron.spark import learn_fleet, read_buckets, read_fleet

KILLED = Path(__file__).parent / "killed_fleet.py"
SCHEMA = "key {}, time bigint, x array<double>, y string"
COLUMNS = {"key": "key", "order": "time", "features": "x", "label": "y", "classes": ["no", "yes"]}
OPTIONS = COLUMNS | {"n_features": 3, "buckets": 5}


def new_fleet():
    return Fleet(Forgetron(8, gamma=0.5))


def data(n=600, n_keys=40, seed=0, text=False):
    rng = np.random.default_rng(seed)
    keys = rng.integers(-n_keys // 2, n_keys // 2, size=n)
    X = rng.normal(size=(n, 3))
    y = np.where(np.where(keys % 2 == 0, X[:, 0] * X[:, 1], X[:, 2]) > 0.0, "yes", "no")
    return (keys.astype(str).astype(object) if text else keys), X, y


def rows_of(keys, X, y, start=0):
    return [
        (key, start + t, x, label)
        for t, (key, x, label) in enumerate(zip(keys.tolist(), X.tolist(), y.tolist(), strict=True))
    ]


def frame(spark, rows, text=False):
    rows = list(rows)
    np.random.default_rng(1).shuffle(rows)
    return spark.createDataFrame(rows, SCHEMA.format("string" if text else "bigint"))


def check(found, fleet, played):
    """Compare the predictions and the states with those of a fleet in this process, bit by bit."""
    keys, margins, y = played
    by_time = {row["order"]: row for row in found if row["reason"] is None}
    assert sorted(by_time) == list(range(len(margins)))
    for t, (key, margin, label) in enumerate(zip(keys.tolist(), margins.tolist(), y.tolist(), strict=True)):
        predicted = "yes" if margin > 0.0 else "no"
        mistake = (margin if label == "yes" else -margin) <= 0.0
        row = by_time[t]
        assert (row["key"], row["margin"], row["prediction"], row["mistake"]) == (
            key,
            margin,
            predicted,
            mistake,
        )
    assert sorted(fleet.keys_.tolist()) == sorted(set(keys.tolist()))


def same_models(one, other):
    for key in one.keys_.tolist():
        a, b = one[key], other[key]
        assert np.array_equal(a.dual_coef_, b.dual_coef_)
        assert np.array_equal(a.support_vectors_, b.support_vectors_)
        assert (a.rounds_, a.mistakes_) == (b.rounds_, b.mistakes_)


@pytest.mark.parametrize(("text", "dtype"), [(False, np.float32), (True, np.float64)])
def test_batch_frames(spark, tmp_path, text, dtype):
    """Two frames, one after the other, are learned as one stream."""
    keys, X, y = data(text=text)
    X = X.astype(dtype)
    rows = rows_of(keys, X, y)
    local = new_fleet()
    margins = local.play(keys, X, y, classes=["no", "yes"])
    found = []
    for part in (rows[:250], rows[250:]):
        df = frame(spark, part, text)
        if dtype is np.float32:
            df = df.withColumn("x", df["x"].cast("array<float>"))
        found += learn_fleet(df, new_fleet(), checkpoint=tmp_path, **OPTIONS).collect()
    fleet = read_fleet(tmp_path)
    check(found, fleet, (keys, margins, y))
    same_models(local, fleet)


def write_batches(folder, rows, size):
    folder.mkdir(exist_ok=True)
    for i, start in enumerate(range(0, len(rows), size)):
        names = ("key", "time", "x", "y")
        lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows[start : start + size]]
        path = folder / f"{i:04d}.json"
        path.write_text("".join(lines))
        os.utime(path, (1e9 + i, 1e9 + i))


def run_stream(spark, folder, checkpoint, out):
    rows = spark.readStream.schema(SCHEMA.format("bigint")).option("maxFilesPerTrigger", 1)
    result = learn_fleet(rows.json(str(folder)), new_fleet(), **OPTIONS)

    def write(df, batch):
        df.write.mode("overwrite").parquet(f"{out}/batch={batch}")

    writer = result.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(180)


def test_killed_and_resumed(spark, tmp_path):
    """Kill -9 between the commit of the states and that of the batch; then finish, and compare all bits."""
    keys, X, y = data()
    rows = rows_of(keys, X, y)
    write_batches(tmp_path / "rows", rows, 200)
    local = new_fleet()
    margins = local.play(keys, X, y, classes=["no", "yes"])
    command = [sys.executable, str(KILLED), str(tmp_path), "1"]
    done = subprocess.run(command, start_new_session=True, capture_output=True, timeout=200)
    assert done.returncode == -9, done.stderr.decode()[-3000:]
    assert not (tmp_path / "checkpoint" / "commits" / "1").exists()
    run_stream(spark, tmp_path / "rows", tmp_path / "checkpoint", tmp_path / "out")
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    fleet = read_fleet(tmp_path / "checkpoint")
    check(found, fleet, (keys, margins, y))
    same_models(local, fleet)


def test_a_limit_of_memory_is_that_of_a_bucket(spark, tmp_path):
    keys, X, y = data()
    limited = {"memory": 100_000}
    df = frame(spark, rows_of(keys, X, y))
    learn_fleet(df, Fleet(Forgetron(50, gamma=0.5), **limited), checkpoint=tmp_path, **OPTIONS).collect()
    buckets = read_buckets(tmp_path)
    assert len(buckets) == OPTIONS["buckets"]
    assert sorted(key for fleet in buckets for key in fleet) == sorted(set(keys.tolist()))
    assert all(fleet.nbytes_ <= 100_000 for fleet in buckets)
    with pytest.raises(ValueError, match="use read_buckets"):
        read_fleet(tmp_path)


NAN = float("nan")
BAD = [
    (None, 700, [0.0, 0.0, 0.0], "no", "the key is null"),
    (1, None, [0.0, 0.0, 0.0], "no", "the order is null"),
    (1, 701, None, "no", "the features are null"),
    (1, 702, [0.0, 0.0], "no", "the number of features is 2 instead of 3"),
    (1, 703, [0.0, NAN, 0.0], "no", "a feature is null or not finite"),
    (1, 704, [0.0, float("inf"), 0.0], "no", "a feature is null or not finite"),
    (1, 705, [0.0, None, 0.0], "no", "a feature is null or not finite"),
    (1, 706, [0.0, 1e100, 0.0], "no", "a feature is too large"),
    (1, 707, [0.0, 0.0, 0.0], "perhaps", "unknown label perhaps"),
    (1, 708, [0.0, 0.0, 0.0], None, "the label is null"),
]


def test_invalid_rows_never_reach_a_model(spark, tmp_path):
    keys, X, y = data(200)
    local = new_fleet()
    margins = local.play(keys, X, y, classes=["no", "yes"])
    df = frame(spark, rows_of(keys, X, y) + [row[:4] for row in BAD])
    found = learn_fleet(df, new_fleet(), checkpoint=tmp_path / "both", **OPTIONS).collect()
    fleet = read_fleet(tmp_path / "both")
    check(found, fleet, (keys, margins, y))
    same_models(local, fleet)
    quarantined = {(row["key"], row["order"], row["reason"]) for row in found if row["reason"] is not None}
    assert quarantined == {(key, time, reason) for key, time, _, _, reason in BAD}
    with pytest.raises(Exception, match="a row cannot be learned"):
        learn_fleet(df, new_fleet(), checkpoint=tmp_path / "fail", bad_rows="fail", **OPTIONS)
    with pytest.raises(ValueError, match="no state"):
        read_fleet(tmp_path / "fail")


def test_wrong_arguments(spark, tmp_path):
    keys, X, y = data(20)
    df = frame(spark, rows_of(keys, X, y))
    stream = spark.readStream.schema(SCHEMA.format("bigint")).json(str(tmp_path))
    wrong = {
        "keys must be integers or text": {"key": "x"},
        "no column 'when'": {"order": "when"},
        "n_features is needed": {"n_features": None},
        "buckets must be": {"buckets": 0},
        "two labels": {"classes": ["no"]},
        "bad_rows must be one of": {"bad_rows": "drop"},
        "needs a checkpoint": {"checkpoint": None},
    }
    for message, arguments in wrong.items():
        with pytest.raises(ValueError, match=message):
            learn_fleet(df, new_fleet(), **{"checkpoint": tmp_path / "wrong"} | OPTIONS | arguments)
    with pytest.raises(ValueError, match="gamma of the learner must be a number"):
        learn_fleet(df, Fleet(Forgetron(8)), checkpoint=tmp_path, **OPTIONS)
    with pytest.raises(ValueError, match="common learner needs the rows of all keys"):
        learn_fleet(
            df, Fleet(Forgetron(8, gamma=0.5), common=Forgetron(8, gamma=0.5)), checkpoint=tmp_path, **OPTIONS
        )
    with pytest.raises(ValueError, match="learned nothing"):
        learn_fleet(df, new_fleet().partial_fit(keys, X, y), checkpoint=tmp_path, **OPTIONS)
    with pytest.raises(TypeError, match="must be a Fleet"):
        learn_fleet(df, AROW(), checkpoint=tmp_path, **OPTIONS)
    with pytest.raises(ValueError, match="checkpointLocation"):
        learn_fleet(stream, new_fleet(), checkpoint=tmp_path, **OPTIONS)
    with pytest.raises(ValueError, match="has no states"):
        read_fleet(tmp_path / "nothing")
    learn_fleet(df, new_fleet(), checkpoint=tmp_path / "one", **OPTIONS)
    with pytest.raises(ValueError, match="their number cannot change"):
        learn_fleet(df, new_fleet(), checkpoint=tmp_path / "one", **OPTIONS | {"buckets": 6})
