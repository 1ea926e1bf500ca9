"""`spark.learn` learns each valid row once, in order, with workers that are merged."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import budgetron
from budgetron import Forgetron, SecondOrderProjectron
from budgetron.linear import AROW, Perceptron

pytest.importorskip("budgetron.spark", reason="PySpark is not installed")

from budgetron.spark import learn, read_model
from budgetron.spark._versions import versions_of

SCHEMA = "time bigint, x array<double>, y bigint"
COLUMNS = {"features": "x", "label": "y", "order": "time"}
KILLED = Path(__file__).parent / "killed.py"


def data(n, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    scores = X @ np.random.default_rng(9).normal(size=(4, n_classes))
    return X, np.where(rng.random(n) < 0.1, rng.integers(n_classes, size=n), scores.argmax(axis=1))


def frame(spark, X, y, times=None):
    times = range(len(y)) if times is None else times
    rows = [(int(t), list(map(float, x)), int(label)) for t, x, label in zip(times, X, y, strict=True)]
    np.random.default_rng(1).shuffle(rows)
    return spark.createDataFrame(rows, SCHEMA)


def started(n_classes=2, rows=400, **parameters):
    X, y = data(rows, n_classes, seed=5)
    return AROW(**parameters).partial_fit(X, y, classes=range(n_classes))


def same(one, other):
    assert np.array_equal(one.coef_, other.coef_)
    assert (one.rounds_, one.mistakes_, one.updates_) == (other.rounds_, other.mistakes_, other.updates_)


def workers_of(spark, times, workers):
    """Return the worker of each row, by Spark's own hash of its time."""
    df = spark.createDataFrame([(int(t),) for t in times], "time bigint")
    found = df.selectExpr("time", f"pmod(xxhash64(time), {workers}) as worker").collect()
    by_time = {row["time"]: row["worker"] for row in found}
    return np.array([by_time[int(t)] for t in times])


def merged_locally(spark, model, X, y, times, workers, first):
    """Do what one batch should do: the first rows one after the other, then the others with workers."""
    model = copy.deepcopy(model)
    if first:
        model.partial_fit(X[:first], y[:first])
    dealt = workers_of(spark, times, workers)
    dealt[:first] = -1
    deltas = []
    for worker in range(workers):
        own = dealt == worker
        if own.any():
            deltas.append(copy.deepcopy(model).partial_fit(X[own], y[own]).delta(since=model))
    return model.merge(deltas)


# ---------------------------------------------------------------------- batch frames


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_batch_frame(spark, tmp_path, n_classes, workers):
    """400 rounds and a batch of 100: 45 rows in the driver leave an eighth of 445 for the workers."""
    X, y = data(100, n_classes)
    model = started(n_classes)
    before = model.coef_.copy()
    learned = learn(frame(spark, X, y), model, checkpoint=tmp_path, workers=workers, **COLUMNS)
    first = 100 if workers == 1 else 45
    same(learned, merged_locally(spark, model, X, y, np.arange(100), workers, first))
    same(read_model(tmp_path), learned)
    assert np.array_equal(model.coef_, before)
    again = learn(frame(spark, X, y), model, checkpoint=tmp_path, workers=workers, **COLUMNS)
    assert again.rounds_ == 600
    assert versions_of(tmp_path).ids() == [-1, 0, 1]


def test_a_young_model_learns_in_the_driver(spark, tmp_path):
    X, y = data(200)
    model = AROW().partial_fit(X[:1], y[:1], classes=[0, 1])
    learned = learn(frame(spark, X[1:], y[1:]), model, checkpoint=tmp_path, workers=4, **COLUMNS)
    same(learned, merged_locally(spark, model, X[1:], y[1:], np.arange(199), 4, 177))
    assert learned.rounds_ == 200


def test_fixed_supports_and_columns(spark, tmp_path):
    X, y = data(60)
    X0, y0 = data(600, seed=5)
    model = SecondOrderProjectron(10, gamma=0.5).partial_fit(X0, y0, classes=[0, 1]).fix_supports()
    rows = [(float(t), *x.tolist(), int(label)) for t, (x, label) in enumerate(zip(X, y, strict=True))]
    df = spark.createDataFrame(rows, "time double, a double, b double, c double, d double, y int")
    columns = {"features": ["a", "b", "c", "d"], "label": "y", "order": "time"}
    learned = learn(df, model, checkpoint=tmp_path, workers=2, **columns)
    assert (learned.rounds_, learned.support_.tolist()) == (660, model.support_.tolist())
    expected = copy.deepcopy(model).partial_fit(X, y).decision_function(X)
    assert np.abs(learned.decision_function(X) - expected).max() < 0.2 * np.abs(expected).max()


def test_squared_loss_equals_one_pass(spark, tmp_path):
    """With the squared loss a merge is exact, so that nothing depends on how rows are dealt."""
    X, y = data(150)
    model = started(rows=2000, loss="squared")
    learned = learn(frame(spark, X, y), model, checkpoint=tmp_path, workers=5, **COLUMNS)
    whole = copy.deepcopy(model).partial_fit(X, y)
    np.testing.assert_allclose(learned.coef_, whole.coef_, rtol=1e-9)


def test_rows_with_the_same_order(spark, tmp_path):
    """They are sorted by label and features, so that the frame's own order decides nothing."""
    X, y = data(100)
    times = np.arange(100) // 10
    coefs = []
    for run, place in enumerate((np.arange(100), np.random.default_rng(3).permutation(100))):
        df = frame(spark, X[place], y[place], times[place])
        coefs.append(learn(df, started(), checkpoint=tmp_path / str(run), workers=3, **COLUMNS).coef_)
    assert np.array_equal(*coefs)


@pytest.mark.parametrize(
    "kind", ["timestamp_micros(time)", "cast(time as string)", "cast(time as decimal(20, 3))", "time / 7"]
)
def test_orders_of_any_type(spark, tmp_path, kind):
    """With one worker, rows are learned in their order. With several, each is learned once."""
    X, y = data(100)
    times = 1000 + np.arange(100)  # as many digits each, so that texts have the same order
    df = frame(spark, X, y, times).selectExpr(f"{kind} as time", "x", "y")
    model = started()
    one = learn(df, model, checkpoint=tmp_path / "one", workers=1, **COLUMNS)
    same(one, copy.deepcopy(model).partial_fit(X, y))
    assert learn(df, model, checkpoint=tmp_path / "many", workers=3, **COLUMNS).rounds_ == 500


# ---------------------------------------------------------------------- streams


def write_batches(spark, folder, batches):
    """Write one file for each batch, with times that follow each other."""
    start = len(list(folder.glob("*.json"))) * 100 if folder.exists() else 0
    folder.mkdir(exist_ok=True)
    for i, (X, y) in enumerate(batches):
        path = folder / f"{start // 100 + i:04d}.json"
        lines = [
            f'{{"time": {start + 100 * i + t}, "x": {x.tolist()}, "y": {label}}}\n'
            for t, (x, label) in enumerate(zip(X, y.tolist(), strict=True))
        ]
        path.write_text("".join(lines))
        os.utime(path, (1e9 + start + i, 1e9 + start + i))  # Spark reads old files first


def stream(spark, folder):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


def run_stream(spark, folder, checkpoint, model, **options):
    query = learn(
        stream(spark, folder),
        model,
        checkpoint=checkpoint,
        trigger={"availableNow": True},
        **COLUMNS | options,
    )
    assert query.awaitTermination(180)
    return read_model(checkpoint)


BATCHES = [data(100, seed=10 + i) for i in range(7)]


def expected_stream(spark, batches):
    """Return the model that learns these batches one after the other, as `learn` should."""
    model = started(rows=1000)
    for i, (X, y) in enumerate(batches):
        times = 100 * i + np.arange(100)
        first = max(0, -(-(8 * 100 - model.rounds_) // 9))
        model = merged_locally(spark, model, X, y, times, 3, first)
    return model


def test_a_stream_in_two_runs(spark, tmp_path):
    rows, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    write_batches(spark, rows, BATCHES[:3])
    model = run_stream(spark, rows, checkpoint, started(rows=1000), workers=3)
    same(model, expected_stream(spark, BATCHES[:3]))
    write_batches(spark, rows, BATCHES[3:])
    model = run_stream(spark, rows, checkpoint, started(rows=1000), workers=3)
    same(model, expected_stream(spark, BATCHES))
    assert versions_of(checkpoint).ids() == [1, 2, 3, 4, 5, 6]


def test_killed_and_resumed(spark, tmp_path):
    """Kill -9 the driver and the JVM: after a state was written and before Spark records it, and before.

    A last run goes on to the end. The states are those of an uninterrupted run, bit for bit.
    """
    rows, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    write_batches(spark, rows, BATCHES[:3])
    budgetron.save(started(rows=1000), tmp_path / "start.budgetron")
    for moment, newest in (("after 0", 0), ("before 1", 0)):
        command = [sys.executable, str(KILLED), "local[2]", str(tmp_path), moment]
        done = subprocess.run(command, start_new_session=True, capture_output=True, timeout=200)
        assert done.returncode == -9, done.stderr.decode()[-3000:]
        assert versions_of(checkpoint).ids()[-1] == newest
    whole = tmp_path / "whole"
    for folder in (checkpoint, whole):
        run_stream(spark, rows, folder, started(rows=1000), workers=3)
    for batch in range(3):
        ours, theirs = (versions_of(folder).path(batch).read_bytes() for folder in (checkpoint, whole))
        assert ours == theirs


# ---------------------------------------------------------------------- invalid rows

NAN = float("nan")
BAD = [
    (100, [0.0, NAN, 0.0, 0.0], 1, "a feature is null or not finite"),
    (101, [0.0, 0.0, 0.0, float("inf")], 1, "a feature is null or not finite"),
    (102, [0.0, None, 0.0, 0.0], 1, "a feature is null or not finite"),
    (103, [0.0, 0.0, 0.0], 1, "the number of features is 3 instead of 4"),
    (104, None, 1, "the features are null"),
    (105, [0.0, 0.0, 1e100, 0.0], 1, "a feature is too large"),
    (106, [0.0, 0.0, 0.0, 0.0], 7, "unknown label 7"),
    (107, [0.0, 0.0, 0.0, 0.0], None, "the label is null"),
    (None, [0.0, 0.0, 0.0, 0.0], 1, "the order is null"),
]


def test_invalid_rows_never_reach_the_model(spark, tmp_path):
    X, y = data(100)
    good = frame(spark, X, y)
    both = good.union(spark.createDataFrame([row[:3] for row in BAD], SCHEMA))
    clean = learn(good, started(), checkpoint=tmp_path / "clean", **COLUMNS)
    learned = learn(both, started(), checkpoint=tmp_path / "both", **COLUMNS)
    same(learned, clean)
    assert not (tmp_path / "clean" / "quarantine").exists()
    kept = spark.read.parquet(str(tmp_path / "both" / "quarantine"))
    assert {(row["order"], row["label"], row["reason"]) for row in kept.collect()} == {
        (time, label, reason) for time, _, label, reason in BAD
    }
    with pytest.raises(ValueError, match=r"9 rows of batch 0 are invalid.*bad_rows=.quarantine"):
        learn(both, started(), checkpoint=tmp_path / "fail", bad_rows="fail", **COLUMNS)
    assert versions_of(tmp_path / "fail").ids() == [-1]
    same(learn(good, started(), checkpoint=tmp_path / "fail", bad_rows="fail", **COLUMNS), clean)


def test_a_model_of_32_bits_has_a_smaller_limit(spark, tmp_path):
    """The square of 1e20 is not finite in float32."""
    X, y = data(60)
    model = SecondOrderProjectron(5, gamma=0.5).partial_fit(X.astype(np.float32), y, classes=[0, 1])
    df = frame(spark, [[0.0, 1e20, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]], [0, 1])
    assert learn(df, model.fix_supports(), checkpoint=tmp_path, **COLUMNS).rounds_ == 61
    kept = spark.read.parquet(str(tmp_path / "quarantine"))
    assert [(row["order"], row["reason"]) for row in kept.collect()] == [(0, "a feature is too large")]


def test_a_stream_stops_at_an_invalid_row(spark, tmp_path):
    rows, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    write_batches(spark, rows, BATCHES[:2])
    with (rows / "0001.json").open("a") as file:
        file.write('{"time": 199, "x": [0.0], "y": 1}\n')
    with pytest.raises(Exception, match=r"1 rows of batch 1 are invalid; the first, with time 199"):
        run_stream(spark, rows, checkpoint, started(rows=1000), workers=3, bad_rows="fail")
    assert versions_of(checkpoint).ids() == [-1, 0]
    same(read_model(checkpoint), expected_stream(spark, BATCHES[:1]))
    # The same query goes on if the rows may be quarantined.
    model = run_stream(spark, rows, checkpoint, started(rows=1000), workers=3)
    same(model, expected_stream(spark, BATCHES[:2]))
    assert spark.read.parquet(str(checkpoint / "quarantine")).count() == 1


def test_only_invalid_rows(spark, tmp_path):
    bad = spark.createDataFrame([row[:3] for row in BAD], SCHEMA)
    same(learn(bad, started(), checkpoint=tmp_path, **COLUMNS), started())


# ---------------------------------------------------------------------- wrong arguments


def test_wrong_arguments(spark, tmp_path):
    X, y = data(20)
    df, model = frame(spark, X, y), started()
    wrong = {
        "no column 'when'": {"order": "when"},
        "no column 'z'": {"label": "z"},
        "workers must be": {"workers": 0},
        "bad_rows must be one of": {"bad_rows": "drop"},
        "trigger is for streaming": {"trigger": {"availableNow": True}},
        "is array<double>, and the classes": {"label": "x"},
        "folder that the driver can write": {"checkpoint": "s3://bucket/model"},
    }
    for message, arguments in wrong.items():
        with pytest.raises(ValueError, match=message):
            learn(df, model, **{"checkpoint": tmp_path / "wrong"} | COLUMNS | arguments)
    with pytest.raises(AttributeError, match="different supports"):
        learn(df, Forgetron().fit(X, y), checkpoint=tmp_path, **COLUMNS)
    with pytest.raises(AttributeError, match="how much was learned"):
        learn(df, Perceptron().fit(X, y), checkpoint=tmp_path, **COLUMNS)
    with pytest.raises(ValueError, match="fix_supports"):
        learn(df, SecondOrderProjectron().fit(X, y), checkpoint=tmp_path, **COLUMNS)
    with pytest.raises(ValueError, match="not fitted"):
        learn(df, AROW(), checkpoint=tmp_path, **COLUMNS)
    with pytest.raises(ValueError, match="has no model"):
        read_model(tmp_path / "nothing")
    learn(df, model, checkpoint=tmp_path / "one", **COLUMNS)
    with pytest.raises(ValueError, match="give the same model, or another checkpoint"):
        learn(df, started(r=2.0), checkpoint=tmp_path / "one", **COLUMNS)
