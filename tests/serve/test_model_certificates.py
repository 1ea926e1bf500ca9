"""Every model has a certificate that is evaluated while it learns, or says why it has none."""

import numpy as np
import pytest
from running import new_model, running

from budgetron import BudgetClassifier, ConformalClassifier, Forgetron, linear, save
from budgetron.experts import ExpertClassifier
from budgetron.serve._certificates import certificate_of, why_no_certificate
from budgetron.serve._definition import from_file

X = np.random.default_rng(0).normal(size=(400, 3))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
LEARNERS = [linear.AROW(), linear.Perceptron(), Forgetron(budget=20)]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("eta", ["anytime", "doubling", 0.3])
def test_a_vote_has_the_bound_of_its_theorem(eta, classes):
    y = (3 * np.abs(np.sin(5 * X[:, 0]))).astype(int) if classes == 3 else Y
    model = ExpertClassifier(LEARNERS, eta=eta).partial_fit(X, y, classes=np.arange(classes))
    found = certificate_of(model)
    assert found["rounds"] == 400
    assert found["count"] == model.regret_
    log = np.log(3)
    wanted = {
        "anytime": 2 * np.sqrt(200 * log) + np.sqrt(log / 8),
        "doubling": np.sqrt(2) / (np.sqrt(2) - 1) * np.sqrt(200 * log) + np.sqrt(log / 2),
        0.3: log / 0.3 + 0.3 * 400 / 8,
    }
    assert found["bound"] == pytest.approx(wanted[eta])
    assert found["holds"] is True
    assert "Theorem" in found["theorem"]


def test_sets_have_the_bound_of_their_misses():
    model = ConformalClassifier(Forgetron(budget=20), coverage=0.8, step=0.1).partial_fit(
        X, Y, classes=[0, 1]
    )
    found = certificate_of(model)
    assert (found["rounds"], found["count"], found["holds"]) == (400, model.misses_, True)
    assert found["bound"] == pytest.approx(0.2 * 400 + 0.2 / 0.1 + 0.8)
    assert found["count"] > 40


def test_a_violated_bound_is_reported():
    model = ExpertClassifier(LEARNERS).partial_fit(X, Y, classes=[0, 1])
    model.algorithms_[0].loss_ += 100.0
    assert certificate_of(model)["holds"] is False


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Forgetron(budget=20), "compare it with a function that is chosen for the whole stream"),
        (linear.AROW(), "compare it with a function that is chosen for the whole stream"),
        (linear.OnlineSVM(), "OnlineSVM has no bound that the service can evaluate"),
        (ExpertClassifier(LEARNERS, combine="majority"), "has no bound that the service can evaluate"),
        (BudgetClassifier(memory="300kB", class_weight={0: 1.0, 1: 2.0}), "for rows of equal weight"),
    ],
    ids=["Forgetron", "AROW", "OnlineSVM", "majority", "class weights"],
)
def test_the_reason_is_given_if_there_is_none(model, reason):
    assert why_no_certificate(model) == "nothing was learned yet"
    model.partial_fit(X, Y, classes=[0, 1])
    assert certificate_of(model) is None
    assert reason in why_no_certificate(model)


def test_the_service_shows_certificates_and_reasons(tmp_path):
    save(ExpertClassifier(LEARNERS).partial_fit(X, Y, classes=[0, 1]), tmp_path / "vote.budgetron")
    models = {"vote": from_file(tmp_path / "vote.budgetron"), "m": new_model()}
    with running(tmp_path / "service", models) as service:
        shown = service.request("GET", "/models/vote")[2]
        assert (shown["certificate"]["rounds"], shown["no_certificate"]) == (400, None)
        rows = [{"row": {"x1": a, "x2": b, "x3": c}, "label": 0} for a, b, c in X[:5].tolist()]
        assert service.request("POST", "/models/vote/learn", {"examples": rows})[0] == 200
        assert service.request("GET", "/models/vote")[2]["certificate"]["rounds"] == 405
        shown = service.request("GET", "/models/m")[2]
        assert (shown["certificate"], shown["no_certificate"]) == (None, "nothing was learned yet")
