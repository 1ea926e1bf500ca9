"""Linear learners that start from given weights: 004 figures 8.6 and 8.11."""

import numpy as np
import pytest
from cases import STREAMS, all_weights, stream, with_ones
from scipy.sparse import csr_array
from sklearn.base import clone

import budgetron
from budgetron import certify, linear
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier


def perceptron(X, y, w):
    """004 figure 8.6. Return the weights that predicted each row, and those after the last."""
    before = []
    for x, label in zip(X, y, strict=True):
        before.append(w)
        if label * (w @ x) <= 0:
            w = w + label * x
    return np.array(before), w


def online_svm(X, y, w, eta=0.1, C=2.0):
    """004 figure 8.11."""
    before = []
    for x, label in zip(X, y, strict=True):
        before.append(w)
        margin = label * (w @ x)
        if margin < 1:
            w = w - eta * (w - C * label * x)
        elif margin > 1:
            w = w - eta * w
    return np.array(before), w


LEARNERS = {
    "perceptron": (linear.Perceptron, {}, perceptron),
    "svm": (linear.OnlineSVM, {"eta": 0.1, "C": 2.0}, online_svm),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("label", LEARNERS)
def test_equal_to_the_figures(label, name):
    learner, parameters, literal = LEARNERS[label]
    X, y = stream(name)
    start = np.random.default_rng(0).normal(size=X.shape[1])
    rows = with_ones(X)  # the intercept starts at 0
    before, after = literal(rows, y, np.append(0.0, start))
    model = learner(**parameters, initial_weights=tuple(start.tolist()))
    trace = model.progressive_fit(X, y, classes=[-1, 1])
    np.testing.assert_allclose(trace.margins, np.einsum("ti,ti->t", before, rows), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(all_weights(model)[0], after, rtol=1e-9, atol=1e-12)
    played = clone(model)
    got = [played.play(csr_array(x[None]), outcome, classes=[-1, 1]) for x, outcome in zip(X, y, strict=True)]
    np.testing.assert_allclose(got, trace.margins, rtol=1e-9, atol=1e-9)
    average = AveragedClassifier(clone(model)).fit(X, y)
    np.testing.assert_allclose(all_weights(average)[0], before.mean(axis=0), rtol=1e-9, atol=1e-12)
    chosen = PenalizedRiskClassifier(clone(model)).fit(X, y)
    expected = before[chosen.births_[chosen.chosen_]]
    np.testing.assert_allclose(all_weights(chosen)[0], expected, rtol=1e-9, atol=1e-12)


def test_files_and_certificates(tmp_path):
    X, y = stream("random")
    model = linear.Perceptron(initial_weights=(1.0, -2.0, 0.5))
    trace = model.progressive_fit(X, y)
    budgetron.save(model, tmp_path / "model")
    loaded = budgetron.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    assert loaded.initial_weights == (1.0, -2.0, 0.5)
    with pytest.raises(ValueError, match="the papers state no theorem"):
        certify(model, X, y, trace)
    assert np.all(
        linear.Perceptron(initial_weights=(0.0, 0.0, 0.0)).fit(X, y).coef_
        == linear.Perceptron().fit(X, y).coef_
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((1.0, 2.0), "a tuple of 3 numbers, one per feature; got 2"),
        ((1.0, 2.0, "3"), "a tuple of 3 numbers"),
        ((1.0, 2.0, None), "a tuple of 3 numbers"),
        ((1.0, (2.0,), 3.0), "a tuple of 3 numbers"),
        ((1.0, np.nan, 3.0), "finite and below"),
        ((1.0, np.inf, 3.0), "finite and below"),
        ([1.0, 2.0, 3.0], "'initial_weights' parameter"),
    ],
)
@pytest.mark.parametrize("learner", [linear.Perceptron, linear.OnlineSVM])
def test_bad_weights(learner, weights, message):
    X, y = stream("random")
    model = learner(initial_weights=weights)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "classes_")
    with pytest.raises(ValueError, match="for two classes"):
        learner(initial_weights=(1.0, 2.0, 3.0)).fit(X, np.arange(len(y)) % 3)
