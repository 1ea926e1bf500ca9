"""`spark.learn_fleet` learns each key as a fleet in one process does, and survives kill -9."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from budgetron import Forgetron
from budgetron.fleet import Fleet
from budgetron.linear import AROW

pytest.importorskip("budgetron.spark", reason="PySpark is not installed")

from pyspark.sql.functions import expr

from budgetron.spark import learn_fleet, read_buckets, read_fleet, split_rejected, write_outputs

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
    by_time = {row["order"]: row for row in found}
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
        result = learn_fleet(df, new_fleet(), checkpoint=tmp_path, **OPTIONS)
        assert result.where("reason is not null").count() == 0
        found += result.collect()
    fleet = read_fleet(tmp_path)
    check(found, fleet, (keys, margins, y))
    same_models(local, fleet)


def write_batches(folder, rows, size, first=0):
    """Write one file for each micro-batch; JSON has NaN and infinity as texts, which Spark reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, start in enumerate(range(0, len(rows), size), first):
        names = ("key", "time", "x", "y")
        lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows[start : start + size]]
        path = folder / f"{i:04d}.json"
        path.write_text("".join(lines))
        os.utime(path, (1e9 + i, 1e9 + i))


def run_stream(spark, folder, fleet=None, **options):
    """Learn the rows of a folder, with checkpoint and outputs next to them."""
    rows = spark.readStream.schema(SCHEMA.format("bigint")).option("maxFilesPerTrigger", 1)
    result = learn_fleet(rows.json(str(folder / "rows")), fleet or new_fleet(), **OPTIONS | options)
    writer = result.writeStream.foreachBatch(write_outputs(folder / "predictions", folder / "rejected"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(180)


def outputs(spark, folder):
    """Return the predictions and rejected rows of a stream, as sorted tuples."""
    parts = [spark.read.parquet(str(folder / name)) for name in ("predictions", "rejected")]
    assert parts[0].columns == ["key", "order", "margin", "prediction", "mistake", "batch"]
    assert parts[1].columns == ["key", "order", "reason", "batch"]
    return [sorted(map(tuple, part.collect()), key=repr) for part in parts]


def states(folder):
    return [fleet.to_bytes() for fleet in read_buckets(folder / "checkpoint")]


def test_killed_and_resumed(spark, tmp_path):
    """Kill -9 between states and outputs, and between outputs and Spark's record of the batch; then finish.

    The outputs and states are those of an uninterrupted run, bit by bit.
    """
    keys, X, y = data()
    rows = rows_of(keys, X, y) + [row[:4] for row in BAD]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        write_batches(folder / "rows", rows, 240)
    checkpoint = broken / "checkpoint"
    for batch, moment in enumerate(("states", "outputs")):
        command = [sys.executable, str(KILLED), "local[2]", str(broken), f"{moment} {batch}"]
        done = subprocess.run(command, start_new_session=True, capture_output=True, timeout=200)
        assert done.returncode == -9, done.stderr.decode()[-3000:]
        # The states of the batch are committed, as version batch + 1, and the batch is not.
        files = [path.name for path in checkpoint.glob("state/0/*/*")]
        assert any(re.match(rf"{batch + 1}[._]", name) for name in files)
        assert not (checkpoint / "commits" / str(batch)).exists()
        for output in ("predictions", "rejected"):
            assert (broken / output / f"batch={batch}").exists() == (moment == "outputs")
    run_stream(spark, broken)
    run_stream(spark, whole)
    found = outputs(spark, broken)
    assert found == outputs(spark, whole)
    assert len(found[0]) == len(y)
    assert len(found[1]) == len(BAD)
    assert states(broken) == states(whole)
    local = new_fleet()
    margins = local.play(keys, X, y, classes=["no", "yes"])
    predictions = spark.read.parquet(str(broken / "predictions"))
    fleet = read_fleet(broken / "checkpoint")
    check(predictions.collect(), fleet, (keys, margins, y))
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


def test_keys_of_all_buckets_are_read(spark, tmp_path):
    """Each bucket counts its own rows for `idle`; reading all of them makes no key idle."""
    keys, X, y = data()
    keys = np.where(np.arange(len(keys)) % 2, 1, keys)  # one bucket has most rows
    df = frame(spark, rows_of(keys, X, y))
    learn_fleet(df, Fleet(Forgetron(8, gamma=0.5), idle=100), checkpoint=tmp_path, **OPTIONS).collect()
    buckets = read_buckets(tmp_path)
    assert max(fleet.rows_ for fleet in buckets) > 200 + min(fleet.rows_ for fleet in buckets)
    expected = sorted(key for fleet in buckets for key in fleet)
    assert len(expected) > 15
    assert sorted(read_fleet(tmp_path)) == expected


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
    (2**60 + 1, 709, [0.0], "no", "the number of features is 1 instead of 3"),
]
REJECTED = [(key, time, reason) for key, time, _, _, reason in BAD]


def test_invalid_rows_never_reach_a_model(spark, tmp_path):
    keys, X, y = data(200)
    local = new_fleet()
    margins = local.play(keys, X, y, classes=["no", "yes"])
    df = frame(spark, rows_of(keys, X, y) + [row[:4] for row in BAD])
    result = learn_fleet(df, new_fleet(), checkpoint=tmp_path / "both", **OPTIONS)
    predictions, rejected = split_rejected(result)
    assert predictions.columns == ["key", "order", "margin", "prediction", "mistake"]
    assert rejected.columns == ["key", "order", "reason"]
    fleet = read_fleet(tmp_path / "both")
    check(predictions.collect(), fleet, (keys, margins, y))
    same_models(local, fleet)
    assert sorted(map(tuple, rejected.collect()), key=repr) == sorted(REJECTED, key=repr)
    with pytest.raises(Exception, match=r"\[USER_RAISED_EXCEPTION\] a row cannot be learned: "):
        learn_fleet(df, new_fleet(), checkpoint=tmp_path / "fail", bad_rows="fail", **OPTIONS)
    with pytest.raises(ValueError, match="no states yet"):
        read_fleet(tmp_path / "fail")


def test_rows_of_32_bits_have_a_smaller_limit(spark, tmp_path):
    """The square of 1e20 is not finite in float32."""
    rows = [(1, 0, [0.0, 1e20, 0.0], "no"), (1, 1, [0.0, 1.0, 0.0], "no")]
    df = frame(spark, rows)
    predictions, rejected = split_rejected(
        learn_fleet(
            df.withColumn("x", df["x"].cast("array<float>")), new_fleet(), checkpoint=tmp_path, **OPTIONS
        )
    )
    assert [row["order"] for row in predictions.collect()] == [1]
    assert [tuple(row) for row in rejected.collect()] == [(1, 0, "a feature is too large")]


def test_texts_that_cannot_be_keys_are_rejected(spark, tmp_path):
    rows = [("x" * 65_536, 0, [0.0, 1.0, 0.0], "no"), ("x" * 65_537, 1, [0.0, 1.0, 0.0], "no")]
    df = frame(spark, [*rows, ("broken", 2, [0.0, 1.0, 0.0], "no")], text=True)
    key = "case when key = 'broken' then cast(unhex('FF') as string) else key end"
    result = learn_fleet(df.withColumn("key", expr(key)), new_fleet(), checkpoint=tmp_path, **OPTIONS)
    predictions, rejected = split_rejected(result)
    assert [row["order"] for row in predictions.collect()] == [0]
    reasons = {row["order"]: row["reason"] for row in rejected.select("order", "reason").collect()}
    assert reasons == {1: "the key has more than 65536 bytes", 2: "the key is not valid UTF-8"}


def test_a_stream_that_cannot_be_learned(spark, tmp_path):
    """Each kind of invalid row in the second micro-batch, then other settings: the states do not change."""
    keys, X, y = data(60)
    write_batches(tmp_path / "rows", rows_of(keys, X, y), 60)
    run_stream(spark, tmp_path)
    before = states(tmp_path)
    write_batches(tmp_path / "rows", [row[:4] for row in BAD], len(BAD), first=1)
    with pytest.raises(Exception, match=r"\[USER_RAISED_EXCEPTION\] a row cannot be learned: "):
        run_stream(spark, tmp_path, bad_rows="fail")
    assert states(tmp_path) == before
    # The same query goes on if the rows may be quarantined.
    run_stream(spark, tmp_path)
    assert states(tmp_path) == before
    assert outputs(spark, tmp_path)[1] == sorted(((*row, 1) for row in REJECTED), key=repr)
    write_batches(tmp_path / "rows", rows_of(keys, X, y), 60, first=2)
    with pytest.raises(Exception, match="their number cannot change"):
        run_stream(spark, tmp_path, buckets=4)
    with pytest.raises(Exception, match="the same parameters, or another checkpoint"):
        run_stream(spark, tmp_path, Fleet(Forgetron(9, gamma=0.5)))
    assert states(tmp_path) == before


def test_wrong_arguments(spark, tmp_path):
    keys, X, y = data(20)
    df = frame(spark, rows_of(keys, X, y))
    stream = spark.readStream.schema(SCHEMA.format("bigint")).json(str(tmp_path))
    wrong = {
        "keys must be integers or text": {"key": "x"},
        "no column 'when'": {"order": "when"},
        "n_features is needed": {"n_features": None},
        "n_features must be": {"n_features": 0},
        "n_features is 3, and there are 2 columns": {"features": ["key", "time"]},
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
    result = learn_fleet(df, new_fleet(), checkpoint=tmp_path / "one", **OPTIONS)
    with pytest.raises(Exception, match="give a fleet with the same parameters, or another checkpoint"):
        learn_fleet(df, Fleet(Forgetron(8, gamma=0.25)), checkpoint=tmp_path / "one", **OPTIONS)
    with pytest.raises(ValueError, match="their number cannot change"):
        learn_fleet(df, new_fleet(), checkpoint=tmp_path / "one", **OPTIONS | {"buckets": 6})
    with pytest.raises(ValueError, match="would each learn all rows"):
        split_rejected(learn_fleet(stream, new_fleet(), **OPTIONS))
    with pytest.raises(ValueError, match="no column 'reason'"):
        split_rejected(result.drop("reason"))
    with pytest.raises(ValueError, match="different folders"):
        write_outputs(tmp_path, tmp_path)
