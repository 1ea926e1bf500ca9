"""The tie rule: a margin of exactly 0 predicts the first class, and is a mistake whatever the label."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import budgetron
from budgetron import BudgetClassifier, CalibratedClassifier, batch, kernelized, linear, river
from budgetron._base.access import hypotheses_of
from budgetron.experts import ExpertClassifier

LABELS = {2: ["a", "b"], 3: ["a", "b", "c"]}
ZERO = np.zeros((1, 3))


def learner(cls):
    """A learner whose f(0) is 0 after any stream: linear without intercept, or with the linear kernel."""
    if cls is budgetron.SecondOrderProjectron:
        return cls(kernel="linear", gamma=1.0, linear=False)  # the linear part has a constant feature
    if cls is budgetron.FOGD:
        return cls(n_components=1, gamma=1.0)
    return cls(kernel="linear", gamma=1.0) if cls in kernelized.learners() else cls(fit_intercept=False)


def classifiers():
    learners = [learner(cls) for cls in [*kernelized.learners(), *linear.learners()]]
    yield from learners
    for base in (
        linear.Perceptron(fit_intercept=False),
        budgetron.KernelPerceptron(kernel="linear", gamma=1.0),
    ):
        yield CalibratedClassifier(base)
        yield batch.AveragedClassifier(base)
        yield batch.PenalizedRiskClassifier(base)
    yield BudgetClassifier(memory="256kB", random_state=0)
    for combine in ("exponential", "majority", "randomized"):
        yield ExpertClassifier([linear.Perceptron(), linear.AROW()], combine, random_state=0)


def names(model):
    module = type(model).__module__.split(".")[1]
    inner = getattr(model, "combine", None) or type(getattr(model, "learner", None)).__name__
    return f"{module}.{type(model).__name__}" + ("" if inner == "NoneType" else f"-{inner}")


def rows(n_classes, n=40):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3))
    return X, np.array(LABELS[n_classes])[rng.integers(0, n_classes, n)]


def at_a_margin_of_zero(model, monkeypatch):
    """Make f(0) exactly 0 for classifiers whose f(0) is something else after they learned."""
    if isinstance(model, CalibratedClassifier):
        model.sigmoids_[:, 1] = 0.0  # no offset
    if isinstance(model, budgetron.FOGD):  # the cosines of a row of zeros are 1
        (hypothesis,) = hypotheses_of(model)
        hypothesis.rule.set_weights(0.0)
    if isinstance(model, BudgetClassifier | ExpertClassifier):
        shape = 1 if len(model.classes_) == 2 else (1, len(model.classes_))
        monkeypatch.setattr(model, "decision_function", lambda X: np.zeros(shape))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", list(classifiers()), ids=names)
def test_predict(model, n_classes, monkeypatch):
    model = clone(model).fit(*rows(n_classes))
    at_a_margin_of_zero(model, monkeypatch)
    np.testing.assert_array_equal(model.decision_function(ZERO), np.zeros_like(model.decision_function(ZERO)))
    assert model.predict(ZERO).tolist() == ["a"]


# The combination of a new BudgetClassifier has a margin below 0: its experts already follow the rule.
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "model", [model for model in classifiers() if not isinstance(model, ExpertClassifier)], ids=names
)
def test_trace_and_play(model, n_classes):
    labels = LABELS[n_classes]
    for label in labels:
        trace = clone(model).progressive_fit(ZERO, [label], classes=labels)
        played = clone(model)
        margin = played.play(ZERO[0], label, classes=labels)
        np.testing.assert_array_equal(trace.margins[0], margin)
        if isinstance(model, BudgetClassifier):
            assert margin < 0.0 if n_classes == 2 else np.argmax(margin) == 0
            assert trace.mistakes.tolist() == [label != "a"]
        else:
            assert len(np.unique(margin)) == 1
            assert n_classes == 3 or margin == 0.0
            assert trace.mistakes.tolist() == [True]
        assert played.mistakes_ == trace.mistakes.sum()


class Constant(linear.Perceptron):
    """A learner that always predicts the same class."""

    def __init__(self, sign=1.0):
        self.sign = sign

    def progressive_fit(self, X, y, classes=None):
        trace = linear.Perceptron().progressive_fit(X, y, classes)
        margins = np.full(len(trace), self.sign)
        return dataclasses.replace(trace, margins=margins, codes=(margins > 0.0).astype(np.intp))

    def decision_function(self, X):
        return np.full(len(X), self.sign)


@pytest.mark.parametrize("combine", ["exponential", "majority", "randomized"])
def test_votes_of_experts(combine):
    # Two experts of equal weight that disagree
    def combination():
        return ExpertClassifier([Constant(-1.0), Constant(1.0)], combine, random_state=0)

    for label in "ab":
        model = combination()
        trace = model.progressive_fit(ZERO, [label], classes=["a", "b"])
        assert model.mistakes_ == trace.mistakes.sum()
        if combine == "exponential":
            assert trace.margins.tolist() == [0.0]
            assert trace.mistakes.tolist() == [True]
        elif combine == "majority":  # the algorithm predicts a class, which of a tie is the first
            assert trace.margins.tolist() == [-1.0]
            assert trace.mistakes.tolist() == [label == "b"]
    # Rounds after which the weights are equal again
    labels = ["a"] if combine == "majority" else ["a", "b"]
    model = combination().partial_fit(np.zeros((len(labels), 3)), labels, classes=["a", "b"])
    assert model.weights_.tolist() == [[0.5, 0.5]]
    assert model.decision_function(ZERO).tolist() == [0.0]
    assert model.predict(ZERO).tolist() == ["a"]


# f(0) of FOGD is not 0: the cosines of a row of zeros are 1.
ADAPTERS = [
    *(getattr(river, cls.__name__) for cls in kernelized.learners() if cls is not kernelized.FOGD),
    *(getattr(river.linear, cls.__name__) for cls in linear.learners()),
]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "adapter", ADAPTERS, ids=lambda cls: f"{cls.__module__.removeprefix('budgetron.')}.{cls.__name__}"
)
def test_river(adapter, n_classes):
    linear_kernel = {"kernel": "linear", "gamma": 1.0}
    kernel = linear_kernel if adapter.__module__ == "budgetron.river" else {"fit_intercept": False}
    model = adapter(**kernel, **({"linear": False} if adapter is river.SecondOrderProjectron else {}))
    labels = ["b", "a", "c"][:n_classes]  # the first class is the label seen first
    for t, x in enumerate(rows(2)[0]):
        model.learn_one(dict(enumerate(x.tolist())), labels[t % n_classes])
    assert model.predict_one({0: 0.0}) == "b"
    assert model.predict_many(pd.DataFrame([{0: 0.0}])).tolist() == ["b"]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_river_budget_classifier(n_classes, monkeypatch):
    model = river.BudgetClassifier(memory="256kB", seed=0)
    labels = ["b", "a", "c"][:n_classes]
    for t, x in enumerate(rows(2)[0]):
        model.learn_one(dict(enumerate(x.tolist())), labels[t % n_classes])
    outputs = 1 if n_classes == 2 else n_classes
    monkeypatch.setattr(
        model, "_margins_of", lambda rows: np.zeros((outputs, len(rows)) if rows.ndim == 2 else outputs)
    )
    assert model.predict_one({0: 0.0}) == "b"
    assert model.predict_many(pd.DataFrame([{0: 0.0}])).tolist() == ["b"]
    probabilities = model.predict_proba_one({0: 0.0})
    assert probabilities["b"] == max(probabilities.values())
