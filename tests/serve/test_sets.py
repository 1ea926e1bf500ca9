"""Sets of labels on request, of models with a coverage."""

import numpy as np
import pytest
from running import CLASSES, COLUMNS, example, new_model, number_example, running
from test_service import Process, table

import budgetron
from budgetron import ConformalClassifier, bounds, files
from budgetron.client import Client, ServiceError
from budgetron.serve._definition import from_columns
from budgetron.streams import Encoder


def covered(coverage=0.8):
    return from_columns("secondorder:budget=20", None, COLUMNS, CLASSES, coverage)


def test_sets_are_those_of_the_model(tmp_path):
    rows = [example(number)[0] for number in range(300, 330)]
    with running(tmp_path / "service", {"m": covered()}) as service, service.client() as client:
        before = client.predict(rows, sets=True, keep=False)
        client.learn([example(number) for number in range(300)])
        found = client.predict(rows, sets=True, keep=False)
        plain = client.predict(rows[0], keep=False)
        client.save(tmp_path / "model.budgetron")
    assert all(one["set"] == CLASSES for one in before)  # nothing was learned yet
    assert "set" not in plain
    model = budgetron.load(tmp_path / "model.budgetron")
    assert isinstance(model, ConformalClassifier)
    assert (model.rounds_, model.coverage) == (300, 0.8)
    encoder, reader = (
        Encoder.from_state(files.load_extras(tmp_path / "model.budgetron")["encoder"]),
        covered().reader,
    )
    X = encoder.transform(reader.columns(reader.read(rows)), learn=False)
    expected = [model.classes_[inside].tolist() for inside in model.predict_set(X)]
    assert [one["set"] for one in found] == expected
    assert len({len(labels) for labels in expected}) > 1, "the test needs sets of several sizes"


def test_misses_are_bounded(tmp_path):
    """Each row is predicted before its label is learned."""
    inside = []
    with running(tmp_path / "service", {"m": covered(0.9)}) as service, service.client() as client:
        for number in range(300):
            row, label = example(number)
            found = client.predict(row, sets=True)
            inside.append(label in found["set"])
            client.learn({found["id"]: label})
    misses = np.cumsum(np.logical_not(inside))
    assert misses[-1] > 0
    bound = [bounds.conformal_misses(t, 0.9, 0.01) for t in range(1, 301)]
    assert np.all(misses <= np.array(bound) + 1e-9)


def test_a_restart_gives_the_same_sets(tmp_path):
    rows = [example(number)[0] for number in range(300, 330)]
    with running(tmp_path / "service", {"m": covered()}) as service, service.client() as client:
        client.learn([example(number) for number in range(200)])
        before = client.predict(rows, sets=True, keep=False)
    with running(tmp_path / "service") as service, service.client() as client:
        assert client.predict(rows, sets=True, keep=False) == before


def test_models_without_a_coverage_predict_no_sets(tmp_path):
    with running(tmp_path / "service", {"m": new_model()}) as service, service.client() as client:
        with pytest.raises(ServiceError, match="predicts no sets; create one with") as caught:
            client.predict(example(0)[0], sets=True)
        assert caught.value.status == 422
        assert client.predict(example(0)[0])["prediction"] is None


@pytest.mark.parametrize("coverage", [0.0, 1.0, -1, "0.9", True])
def test_invalid_coverage_is_refused(coverage, tmp_path):
    with running(tmp_path / "service") as service, service.client() as client:
        with pytest.raises(ServiceError, match="coverage") as caught:
            client.create(COLUMNS, CLASSES, learner="arow", coverage=coverage)
        assert caught.value.status == 422
        assert client.create(COLUMNS, CLASSES, learner="arow", coverage=0.9)["kind"]


def test_the_command_starts_with_a_model_that_predicts_sets(tmp_path):
    data = table(tmp_path / "rows.csv")
    options = ("--like", data, "-t", "answer", "-l", "forgetron", "--coverage", "0.8")
    process = Process(tmp_path / "service", *options)
    try:
        with Client(process.url) as client:
            row = {"a": 1.0, "b": 2.0, "colour": "red", "when": "2024-01-02 03:30"}
            assert client.predict(row, sets=True)["set"] == CLASSES
            assert client.show()["kind"] == "ConformalClassifier"
    finally:
        process.stop()


@pytest.mark.parametrize("classes", [CLASSES, None])
def test_the_experts_of_a_model_with_a_coverage_are_shown(tmp_path, classes):
    model = from_columns("budget", "500kB", COLUMNS, classes, 0.8)
    with running(tmp_path, {"m": model}) as service, service.client() as client:
        assert client.show()["experts"] == []
        client.learn([(example if classes else number_example)(number) for number in range(60)])
        experts = client.show()["experts"]
        weight = "share" if classes else "weight"
        assert sum(expert[weight] for expert in experts) == pytest.approx(1.0)
        assert len(experts) > 3


@pytest.mark.parametrize("classes", [CLASSES, None])
def test_the_memory_limit_includes_the_scores(tmp_path, classes):
    model = from_columns("budget", "500kB", COLUMNS, classes, 0.8)
    with running(tmp_path, {"m": model}) as service:
        row, label = (example if classes else number_example)(1)
        examples = [{"row": row, "label": label}] * 100
        assert service.request("POST", "/models/m/learn", {"examples": examples})[0] == 200
        memory = service.request("GET", "/models/m")[2]["memory"]
        statistics, scores = model.statistics.nbytes, model.model.nbytes_ - model.model.learner_.nbytes_
        assert scores > 0
        assert memory["model_limit"] == 500 * 2**10 + scores + statistics
        assert memory["model"] <= memory["model_limit"]
