"""`verbose` prints the progress of a call and does not change the model."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import SGDClassifier

import budgetron
from budgetron import CalibratedClassifier, batch, linear
from budgetron._base import progress
from budgetron.experts import ExpertClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4))
LABELS = {"two": (X[:, 0] * X[:, 1] > 0).astype(int), "three": np.digitize(X[:, 0], [-0.5, 0.5])}
MODELS = {
    "kernel": lambda: budgetron.Forgetron(20, gamma=0.5),
    "second order": lambda: budgetron.SecondOrderProjectron(20, gamma=0.5),
    "randomized": lambda: budgetron.RandomizedBudgetPerceptron(20, gamma=0.5, random_state=0),
    "linear": lambda: linear.PassiveAggressive(),
    "portfolio": lambda: budgetron.BudgetClassifier("500kB", random_state=0),
    "calibrated": lambda: CalibratedClassifier(budgetron.Forgetron(20, gamma=0.5)),
    "averaged": lambda: batch.AveragedClassifier(linear.Perceptron()),
}


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    monkeypatch.setattr(progress, "BLOCK", 70)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rows", [np.asarray, csr_array])
def test_the_model_is_the_same(name, labels, rows, capsys):
    y = LABELS[labels]
    quiet = MODELS[name]().fit(rows(X), y)
    trace = MODELS[name]().progressive_fit(rows(X), y)
    assert capsys.readouterr().err == ""
    verbose = MODELS[name]().fit(rows(X), y, verbose=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("300 of 300 rounds")
    assert "left" not in lines[-1]
    assert all("left" in line for line in lines[:-1])
    np.testing.assert_allclose(
        verbose.decision_function(X), quiet.decision_function(X), rtol=1e-9, atol=1e-12
    )
    assert verbose.mistakes_ == quiet.mistakes_
    again = MODELS[name]().progressive_fit(rows(X), y, verbose=True)
    np.testing.assert_allclose(again.margins, trace.margins, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(again.support_sizes, trace.support_sizes)


def test_lines_of_partial_fit(capsys):
    model = budgetron.Forgetron(20, gamma=0.5)
    model.partial_fit(X, LABELS["two"], classes=[0, 1], verbose=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"{n} of 300 rounds" for n in (70, 140, 210, 280, 300)]
    model.partial_fit(X[:3], [5, 5, 5], admit=True, verbose=True)
    assert "3 of 3 rounds" in capsys.readouterr().err
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full((2, 4), np.nan), [0, 1], verbose=True)
    model.partial_fit(X, LABELS["two"])  # an error does not leave it verbose
    assert capsys.readouterr().err == ""


def test_weights_and_lines(capsys):
    model = linear.AROW().fit(X, LABELS["two"], sample_weight=np.ones(300), verbose=True)
    assert "300 of 300 rounds" in capsys.readouterr().err
    same = linear.AROW().fit(X, LABELS["two"])
    np.testing.assert_allclose(model.coef_, same.coef_)


@pytest.mark.parametrize("labels", LABELS)
def test_expert_classifiers_report_each_learner(labels, capsys):
    learners = [linear.AROW(), budgetron.Forgetron(20, gamma=0.5), SGDClassifier(random_state=0)]
    y = LABELS[labels]
    quiet = ExpertClassifier(learners).fit(X, y)
    assert capsys.readouterr().err == ""
    classes = np.unique(y)
    for call in (
        lambda model: model.fit(X, y, verbose=True),
        lambda model: model.partial_fit(X, y, classes, verbose=True),
        lambda model: model.progressive_fit(X, y, verbose=True),
    ):
        model = ExpertClassifier(learners)
        call(model)
        lines = capsys.readouterr().err.splitlines()
        names = ["AROW", "Forgetron", "SGDClassifier"]
        assert [line.split(":")[0] for line in lines] == [
            f"learner {i} of 3, {name}" for i, name in enumerate(names, 1)
        ]
        assert all(": 300 rounds, " in line for line in lines)
        np.testing.assert_array_equal(model.decision_function(X), quiet.decision_function(X))
