"""`spark.predict` adds what the model predicts, and says why it cannot."""

import numpy as np
import pytest

from budgetron import Forgetron
from budgetron.linear import AROW

predict = pytest.importorskip("budgetron.spark", reason="PySpark is not installed").predict


def data(n_classes=2, n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, (X @ rng.normal(size=(3, n_classes))).argmax(axis=1)


def frame(spark, X, name="x"):
    return spark.createDataFrame(
        [(i, row.tolist()) for i, row in enumerate(X)], f"id bigint, {name} array<double>"
    )


def collected(df):
    return {row["id"]: row.asDict() for row in df.collect()}


LABELS = {
    "integers": lambda y: y,
    "text": lambda y: np.array(["no", "yes", "perhaps"])[y],
    "floats": lambda y: 2.0 * y,
    "booleans": lambda y: y == 1,
}


@pytest.mark.parametrize("labels", LABELS)
def test_equals_the_model(spark, labels):
    X, y = data()
    model = Forgetron(8, gamma=0.5).fit(X, LABELS[labels](y))
    found = collected(predict(frame(spark, X), model, features="x"))
    assert [found[i]["margin"] for i in range(len(X))] == model.decision_function(X).tolist()
    assert [found[i]["prediction"] for i in range(len(X))] == model.predict(X).tolist()
    assert type(found[0]["prediction"]) is type(model.classes_.tolist()[0])
    assert {row["reason"] for row in found.values()} == {None}


def test_several_classes_and_columns(spark):
    X, y = data(3)
    model = AROW().fit(X, LABELS["text"](y))
    rows = [(i, *row.tolist(), "kept") for i, row in enumerate(X)]
    df = spark.createDataFrame(rows, "id bigint, a double, `b.c` double, d double, other string")
    result = predict(df, model, features=["a", "b.c", "d"])
    assert result.columns == [*df.columns, "margin", "prediction", "reason"]
    found = collected(result)
    assert [found[i]["margin"] for i in range(len(X))] == model.decision_function(X).tolist()
    assert [found[i]["prediction"] for i in range(len(X))] == model.predict(X).tolist()


def test_streams(spark, tmp_path):
    X, y = data()
    model = AROW().fit(X, y)
    frame(spark, X).write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema("id bigint, x array<double>").parquet(str(tmp_path / "rows"))
    query = predict(stream, model, features="x").writeStream.format("memory").queryName("predicted")
    query = query.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    found = collected(spark.table("predicted"))
    assert [found[i]["margin"] for i in range(len(X))] == model.decision_function(X).tolist()


BAD = {
    "a feature is null or not finite": [
        [0.0, float("nan"), 1.0],
        [float("-inf"), 0.0, 0.0],
        [0.0, None, 0.0],
    ],
    "the number of features is 2 instead of 3": [[0.0, 1.0]],
    "the number of features is 0 instead of 3": [[]],
    "the features are null": [None],
    "a feature is too large": [[0.0, 1e100, 0.0]],
}


def test_invalid_rows_say_why(spark):
    X, y = data()
    model = AROW().fit(X, y)
    rows = [(None, x.tolist()) for x in X[:5]] + [(reason, x) for reason, xs in BAD.items() for x in xs]
    numbered = [(i, expected, x) for i, (expected, x) in enumerate(rows)]
    df = spark.createDataFrame(numbered, "id bigint, expected string, x array<double>")
    found = collected(predict(df, model, features="x"))
    for i, (expected, _) in enumerate(rows):
        assert found[i]["reason"] == expected
        assert (found[i]["margin"] is None) == (found[i]["prediction"] is None) == (expected is not None)
    assert [found[i]["margin"] for i in range(5)] == model.decision_function(X[:5]).tolist()
    with pytest.raises(
        Exception, match="a row cannot be predicted: the number of features is 2 instead of 3"
    ):
        predict(df.where("size(x) = 2"), model, features="x", bad_rows="fail").collect()
    valid = predict(df.where("expected is null"), model, features="x", bad_rows="fail")
    assert valid.where("reason is null").count() == 5


def test_wrong_arguments(spark):
    X, y = data()
    model, df = AROW().fit(X, y), frame(spark, X)
    wrong = {
        "no column 'z'": {"features": "z"},
        "column of arrays of numbers": {"features": "id"},
        "must be numeric columns": {"features": ["id", "x"]},
        "at least one column": {"features": []},
        "bad_rows must be one of": {"features": "x", "bad_rows": "drop"},
    }
    for message, arguments in wrong.items():
        with pytest.raises(ValueError, match=message):
            predict(df, model, **arguments)
    with pytest.raises(ValueError, match="has a column 'margin' already"):
        predict(df.withColumnRenamed("id", "margin"), model, features="x")
    with pytest.raises(TypeError, match="contains no code"):
        predict(df, Forgetron(kernel=lambda a, b: a @ b.T).fit(X, y), features="x")
