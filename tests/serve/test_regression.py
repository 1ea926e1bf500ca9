"""Models of numbers: labels, predictions, intervals, restarts and files."""

import json
import subprocess

import numpy as np
import pytest
from running import COLUMNS, example, new_model, new_regressor, number_example, running
from test_durability import bits, killed, replayed
from test_service import Process, command

import budgetron
from budgetron import bounds, files
from budgetron.client import Client, ServiceError
from budgetron.serve import open_service
from budgetron.serve._definition import from_file
from budgetron.serve._log import Record
from budgetron.serve._model import ServedModel
from budgetron.streams._objects import PlainRows

NAMES = list(COLUMNS)


def number_table(path, numbers):
    """Write rows whose prices are written with a currency."""
    lines = [",".join([*NAMES, "price"])]
    for number in numbers:
        row, label = number_example(number)
        lines.append(f"{row['a']},{row['b'] if number % 7 else ''},{row['colour']},${1000 + 100 * label:.2f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def rows_of(path):
    names, *lines = [line.split(",") for line in path.read_text().splitlines()]
    rows = [dict(zip(names, line, strict=True)) for line in lines]
    return [row for row in rows if row.pop("price")], [line[-1] for line in lines]


def predict_file(model, data, *options):
    out = subprocess.run(
        command("predict", model, data, "--json", *options), check=True, capture_output=True, text=True
    ).stdout
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("learner", ["arow", "budget"])
def test_predictions_and_intervals_are_those_of_the_command_line(tmp_path, learner):
    """AROW learns scaled numbers, which the service scales back; the file of the service does the same."""
    data, model = number_table(tmp_path / "rows.csv", range(300)), tmp_path / "m.budgetron"
    options = ("-t", "price", "-l", learner, "--coverage", "0.8", "--save", model)
    subprocess.run(command("run", data, *options), check=True)
    wanted = predict_file(model, data, "--intervals")
    rows, _ = rows_of(data)
    with running(tmp_path / "service", {"m": from_file(model)}) as service, service.client() as client:
        found = client.predict(rows, keep=False, intervals=True)
        client.save(tmp_path / "again.budgetron")
    assert predict_file(tmp_path / "again.budgetron", data, "--intervals") == wanted
    assert len(wanted) == 300
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.keys() == {"id", "prediction", "interval", "round"}
        assert ours["prediction"] == pytest.approx(theirs["prediction"], rel=1e-9)
        assert ours["interval"] == pytest.approx([theirs["low"], theirs["high"]], rel=1e-9)


def test_learning_is_that_of_the_command_line(tmp_path):
    first, second = tmp_path / "first.budgetron", tmp_path / "second.budgetron"
    data, more = (
        number_table(tmp_path / "a.csv", range(200)),
        number_table(tmp_path / "b.csv", range(200, 232)),
    )
    subprocess.run(command("run", data, "-t", "price", "-l", "arow", "--save", first), check=True)
    subprocess.run(command("run", more, "-t", "price", "--from", first, "--save", second), check=True)
    with running(tmp_path / "service", {"m": from_file(first)}) as service, service.client() as client:
        rows, prices = rows_of(more)
        client.learn(list(zip(rows, prices, strict=True)))  # labels are written as in the file
        model = service.service.entries["m"].model
        assert files.to_bytes(model.model) == files.to_bytes(budgetron.load(second))


def test_a_model_of_python(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    budgetron.save(budgetron.linear.AROWRegressor().fit(X, X[:, 0]), tmp_path / "m.budgetron")
    models = {"m": from_file(tmp_path / "m.budgetron")}
    with running(tmp_path / "s", models) as service, service.client() as client:
        found = client.predict([{"x1": a, "x2": b, "x3": c} for a, b, c in X.tolist()])
        assert [p["prediction"] for p in found] == budgetron.load(tmp_path / "m.budgetron").predict(
            X
        ).tolist()


@pytest.mark.parametrize(
    ("learner", "coverage"),
    [
        ("secondorder:budget=20", None),
        ("budget:memory=600kB", None),
        ("arow", 0.9),
        ("norma:budget=10", None),
    ],
)
def test_a_restart_gives_the_same_bits(tmp_path, learner, coverage):
    with running(tmp_path / "a", {"m": new_regressor(learner, coverage)}, keep_log=True) as service:
        initial = ServedModel.load(tmp_path / "a" / "models" / "m.budgetron")
        with service.client() as client:
            sent = []
            for start in range(0, 240, 20):
                found = client.predict([number_example(n)[0] for n in range(start, start + 20)])
                sent += [p["prediction"] for p in found]
                labels = {p["id"]: number_example(start + i)[1] for i, p in enumerate(found)}
                assert client.learn(labels)["learned"] == 20
                assert client.learn(labels)["repeated"] == list(labels)
            waiting = client.predict([number_example(n)[0] for n in range(240, 243)], durable=True)
        copy = killed(tmp_path / "a", tmp_path / "b")
        model = service.service.entries["m"].model
        live, statistics = bits(model), model.statistics.describe()
    assert sent[:20] == [None] * 20  # nothing was learned yet; the learner's own predictions are counted
    residuals = np.array(sent[20:]) - [number_example(n)[1] for n in range(20, 240)]
    assert statistics["rmse"] ** 2 * 240 >= (residuals**2).sum()
    with running(copy) as service, service.client() as client:
        entry = service.service.entries["m"]
        assert bits(entry.model) == live
        assert entry.model.statistics.describe() == statistics
        shown = client.show()
        assert (shown["task"], shown["classes"], shown["rmse"]) == ("regression", None, statistics["rmse"])
        batch = entry.waiting.find(entry.number_of(waiting[0]["id"]))
        assert batch.predicted.tolist() == [p["prediction"] for p in waiting]
        assert (
            client.learn({p["id"]: number_example(240 + i)[1] for i, p in enumerate(waiting)})["learned"] == 3
        )
        added = (entry.model.statistics.describe()["mae"] * 243) - statistics["mae"] * 240
        errors = [abs(p["prediction"] - number_example(240 + i)[1]) for i, p in enumerate(waiting)]
        assert added == pytest.approx(sum(errors))
    stopped = open_service(copy)  # after the snapshot at the end
    assert stopped.entries["m"].unsaved == 0
    assert stopped.entries["m"].model.statistics.describe()["mae"] * 243 == pytest.approx(
        statistics["mae"] * 240 + sum(errors)
    )
    stopped.log.close()
    assert bits(replayed(initial, tmp_path / "a")) == live


def test_records_of_numbers_and_of_classes_are_read_as_they_were_written():
    rows = PlainRows(np.array([[1.0], [2.0]]))
    for values, missing in ((np.array([0.1, -1e300]), np.nan), (np.array([3, 0]), -1)):
        predicted = np.array([missing, values[1]], values.dtype)
        record = Record(7.5, [3, None], rows, values, predicted, np.array([np.nan, 1.0]), 64)
        again = Record.from_bytes(7.5, 64, record.to_bytes())
        assert again.labels.dtype == values.dtype
        assert again.labels.tolist() == values.tolist()
        assert np.array_equal(again.predicted, predicted, equal_nan=values.dtype == np.float64)
        assert again.ids == [3, None]
        assert again.rows.numbers.tolist() == [[1.0], [2.0]]


def test_intervals_contain_the_labels_in_their_share(tmp_path):
    inside = []
    with running(tmp_path, {"m": new_regressor("arow", 0.9)}) as service, service.client() as client:
        for number in range(300):
            row, label = number_example(number)
            found = client.predict(row, intervals=True)
            if not number:
                assert (found["prediction"], found["interval"]) == (None, [None, None])
            low, high = found["interval"] or [np.inf, -np.inf]
            inside.append((low is None or low <= label) and (high is None or label <= high))
            client.learn({found["id"]: label})
        assert "interval" not in client.predict(row)
        certificate = client.show()["certificate"]
    misses = 300 - sum(inside)
    assert 0 < misses <= bounds.conformal_misses(300, 0.9, 0.01)
    assert certificate["counted"] == "labels outside of their intervals"
    assert (certificate["rounds"], certificate["count"], certificate["holds"]) == (300, misses, True)


def test_the_command_starts_a_model_of_numbers(tmp_path):
    data = number_table(tmp_path / "rows.csv", range(100))
    process = Process(tmp_path / "s", "--like", data, "-t", "price", "-l", "secondorder", "--coverage", "0.9")
    try:
        with Client(process.url) as client:
            rows, prices = rows_of(data)
            client.learn(list(zip(rows, prices, strict=True)))
            shown = client.show()
            assert (shown["kind"], shown["task"], shown["round"]) == ("ConformalRegressor", "regression", 100)
            # Prices are about 1,000 to 1,500: only a learner that gets scaled numbers predicts them well.
            assert shown["recent_rmse"] < 200
            low, high = client.predict(rows[0], intervals=True)["interval"]
            assert low < float(prices[0].removeprefix("$")) < high
    finally:
        process.stop()


BAD_LABELS = [None, True, "much", "", [1], {"a": 1}, 1e30, -1e31, 10**400, "9" * 2000]


def test_a_label_that_is_no_number_changes_nothing(tmp_path):
    row, label = number_example(0)
    with running(tmp_path, {"m": new_regressor()}) as service:
        for bad in BAD_LABELS:
            examples = [{"row": row, "label": label}, {"row": row, "label": bad}]
            status, _, problem = service.request("POST", "/models/m/learn", {"examples": examples})
            assert (status, problem["type"]) == (422, "urn:budgetron:problem:bad-label"), bad
            assert problem["row"] == 1
            assert problem["detail"].startswith("example 1: the label ")
            assert len(problem["detail"]) < 200
        assert service.request("GET", "/models/m")[2]["labels"] == 0
        good = [{"row": row, "label": good} for good in (5, -2.5, "7.25", 1e29)]
        assert service.request("POST", "/models/m/learn", {"examples": good})[2]["learned"] == 4


@pytest.mark.parametrize(
    ("model", "asked", "message"),
    [
        (new_regressor(), "sets", "is for regression; it may predict intervals"),
        (new_regressor(), "intervals", "predicts no intervals; create one with"),
        (new_model(), "intervals", "is for classification; it may predict sets"),
    ],
)
def test_sets_or_intervals_that_a_model_does_not_have(tmp_path, model, asked, message):
    with running(tmp_path, {"m": model}) as service, service.client() as client:
        with pytest.raises(ServiceError, match=message) as caught:
            client.predict(example(0)[0], **{asked: True})
        assert (caught.value.status, caught.value.problem["type"]) == (
            422,
            f"urn:budgetron:problem:no-{asked}",
        )


def test_models_of_numbers_are_created(tmp_path):
    with running(tmp_path) as service, service.client(model="n") as client:
        shown = client.create(COLUMNS, task="regression", memory="1MB")
        assert (shown["kind"], shown["task"], shown["classes"]) == ("BudgetRegressor", "regression", None)
        assert shown["memory"]["model_limit"] >= 2**20
        client.learn([number_example(n) for n in range(80)])
        assert client.predict(example(0)[0], intervals=True)["interval"]
        shown = client.show()
        assert sum(expert["weight"] for expert in shown["experts"]) == pytest.approx(1)
        assert shown["certificate"] is None
        assert "does not keep the stream" in client.show()["no_certificate"].replace("service ", "")
        metrics = service.request("GET", "/metrics")[2].decode()
        assert 'budgetron_rmse{model="n"}' in metrics
        assert 'budgetron_error{model="n"}' not in metrics
        for body, message in [
            ({"task": "regression", "classes": ["a", "b"]}, 'has no "classes"'),
            ({"task": "numbers"}, '"task" must be'),
            ({"task": "regression", "learner": "forgetron"}, "predicts classes"),
            ({}, '"classes" is missing'),
        ]:
            status, _, problem = service.request("POST", "/models", {"name": "o", "columns": COLUMNS} | body)
            assert (status, problem["type"]) == (422, "urn:budgetron:problem:bad-definition")
            assert message in problem["detail"]
        assert list(service.service.entries) == ["n"]
