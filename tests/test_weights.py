"""Weights of rows and classes: their meaning, the learners that support them, and invalid weights."""

import numpy as np
import pytest
from cases import stream
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

import budgetron
from budgetron import Forgetron, PassiveAggressive, evaluate, linear, streams
from budgetron.batch import AveragedClassifier
from budgetron.experts import ExpertClassifier

WEIGHTED = [
    PassiveAggressive(C=0.3, gamma=0.5),
    PassiveAggressive(C=0.3, variant="PA-II", gamma=0.5),
    linear.PassiveAggressive(C=0.3),
    linear.PassiveAggressive(C=0.3, variant="PA-II"),
    linear.OnlineSVM(eta=0.05, C=2.0),
]
each_learner = pytest.mark.parametrize(
    "model", WEIGHTED, ids=lambda m: f"{type(m).__module__.split('.')[1]} {m}"
)


def literal(model, X, y, w):
    """Return the margins of the papers' rounds, with C w instead of C."""
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1)) if hasattr(model, "kernel") else X @ X.T + 1.0
    a, margins = np.zeros(len(y)), np.zeros(len(y))
    for t in range(len(y)):
        margins[t] = a @ K[:, t]
        loss, C = 1.0 - y[t] * margins[t], model.C * w[t]
        if isinstance(model, linear.OnlineSVM):
            if y[t] * margins[t] != 1.0:
                a *= 1.0 - model.eta
            if loss > 0.0:
                a[t] += model.eta * C * y[t]
        elif loss > 0.0 and w[t] > 0.0:
            tau = min(C, loss / K[t, t]) if model.variant == "PA-I" else loss / (K[t, t] + 1.0 / (2.0 * C))
            a[t] += tau * y[t]
    return margins


def weights(n):
    return np.random.default_rng(0).choice([0.0, 0.25, 1.0, 3.0], n)


@each_learner
@pytest.mark.parametrize("rows", [np.asarray, csr_array])
def test_a_weight_multiplies_c(model, rows):
    X, y = stream("random", 200)
    w = weights(200)
    model = clone(model)
    trace = model._learn(rows(X), y, classes_from_y=True, trace=True, weights=w)
    np.testing.assert_allclose(trace.margins, literal(model, X, y, w), rtol=1e-9, atol=1e-9)


@each_learner
def test_any_cut_and_unit_weights(model):
    X, y = stream("random", 200)
    w = weights(200)
    whole, cut, plain, ones = (clone(model) for _ in range(4))
    whole.fit(X, y, sample_weight=w)
    for a in range(0, 200, 23):
        cut.partial_fit(X[a : a + 23], y[a : a + 23], [-1, 1], w[a : a + 23])
    np.testing.assert_allclose(whole.decision_function(X), cut.decision_function(X), rtol=1e-9, atol=1e-9)
    plain.fit(X, y)
    ones.fit(X, y, sample_weight=np.ones(200))
    np.testing.assert_array_equal(plain.decision_function(X), ones.decision_function(X))
    assert not np.allclose(plain.decision_function(X), whole.decision_function(X))


@each_learner
@pytest.mark.parametrize("classes", [2, 3])
def test_class_weights_equal_row_weights(model, classes):
    X, _ = stream("random", 200)
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3) * (classes > 2)
    of_classes, of_rows = clone(model).set_params(class_weight={0: 0.2, 1: 4.0}), clone(model)
    played = clone(of_classes)
    of_classes.fit(X, y)
    of_rows.fit(X, y, sample_weight=np.array([0.2, 4.0, 1.0])[y])
    np.testing.assert_allclose(of_classes.decision_function(X), of_rows.decision_function(X), rtol=1e-12)
    for x, label in zip(X, y, strict=True):
        played.play(x, label, range(classes))
    np.testing.assert_allclose(
        of_classes.decision_function(X), played.decision_function(X), rtol=1e-8, atol=1e-9
    )


def test_row_weights_with_new_classes():
    X, y = stream("random", 120)
    y = np.where(np.arange(120) > 60, 7, y)
    y[70:] = np.where(X[70:, 0] > 0, y[70:], -1)
    w = weights(120)
    whole, cut = linear.PassiveAggressive(), linear.PassiveAggressive()
    whole.partial_fit(X, y, sample_weight=w, admit=True)
    for a in range(0, 120, 40):
        cut.partial_fit(X[a : a + 40], y[a : a + 40], sample_weight=w[a : a + 40], admit=True)
    np.testing.assert_allclose(whole.coef_, cut.coef_, rtol=1e-9)


def test_class_weights_are_saved(tmp_path):
    X, y = stream("random", 100)
    model = linear.PassiveAggressive(class_weight={-1: 0.5, 1: 2.0}).fit(X, y)
    budgetron.save(model, tmp_path / "model")
    loaded = budgetron.load(tmp_path / "model")
    assert loaded.class_weight == {-1: 0.5, 1: 2.0}
    for copied in (model, loaded):
        copied.partial_fit(X, y)
    np.testing.assert_array_equal(model.coef_, loaded.coef_)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0, -1.0], "[Nn]egative"),
        ([1.0, np.nan], "NaN"),
        ([1.0, np.inf], "infinity"),
        ([1.0], "inconsistent|shape"),
    ],
)
@each_learner
def test_bad_weights_change_nothing(model, weight, message):
    X, y = stream("random", 50)
    model = clone(model).fit(X, y)
    before = model.decision_function(X)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X[:2], y[:2], sample_weight=weight)
    np.testing.assert_array_equal(model.decision_function(X), before)
    assert model.rounds_ == 50


def test_bad_class_weights():
    X, y = stream("random", 50)
    with pytest.raises(ValueError, match="not negative"):
        linear.PassiveAggressive(class_weight={1: -2.0}).fit(X, y)
    with pytest.raises(ValueError, match="class_weight"):
        linear.PassiveAggressive(class_weight="heavy").fit(X, y)
    model = linear.PassiveAggressive(class_weight={1: 2.0}).fit(X, y)
    with pytest.raises(ValueError, match="class_weight changed"):
        model.set_params(class_weight=None).partial_fit(X, y)


@pytest.mark.parametrize("wrap", [lambda model: model, AveragedClassifier])
def test_class_weights_of_unknown_classes_are_refused(wrap):
    X, _ = stream("random", 60)
    y = np.array(["normal", "warm", "cold"])[np.arange(60) % 3]
    reason = r"only the classes \['cold', 'normal', 'warm'\] as keys; 'hot' is not a class"
    model = wrap(linear.PassiveAggressive(class_weight={"hot": 2.0, "cold": 3.0}))
    for learn in (model.fit, model.progressive_fit):
        with pytest.raises(ValueError, match=reason):
            learn(X, y)
    with pytest.raises(ValueError, match=reason):
        model.play(X[0], "cold", ["normal", "warm", "cold"])
    assert not hasattr(model, "classes_")


def test_class_weights_of_classes_missing_from_the_batch():
    X, y = stream("random", 60)
    y = np.where(np.arange(60) < 40, y, 2)
    whole, cut, growing = (linear.PassiveAggressive(class_weight={-1: 0.5, 2: 3.0}) for _ in range(3))
    whole.fit(X, y)
    for start in range(0, 60, 20):
        cut.partial_fit(X[start : start + 20], y[start : start + 20], [-1, 1, 2])
        growing.partial_fit(X[start : start + 20], y[start : start + 20], admit=True)
    np.testing.assert_allclose(whole.coef_, cut.coef_, rtol=1e-9)
    assert growing.classes_.tolist() == [-1, 1, 2]


def test_class_weights_in_comparisons_and_averages():
    X, y = stream("random", 300)
    heavy = PassiveAggressive(C=0.3, gamma=0.5, class_weight={1: 5.0})
    alone = clone(heavy)
    trace = alone.progressive_fit(X, y)
    result = evaluate.compare([heavy, Forgetron(10, gamma=0.5)], streams.arrays(X, y)).results[0]
    assert result.mistakes == trace.mistakes.sum()
    averaged = AveragedClassifier(heavy).progressive_fit(X, y)
    np.testing.assert_array_equal(averaged.margins, trace.margins)
    plain = clone(heavy).set_params(class_weight=None).progressive_fit(X, y)
    assert not np.allclose(plain.margins, trace.margins)


def test_learners_without_weights_refuse_them():
    X, y = stream("random", 50)
    for model in (PassiveAggressive(variant="PA"), linear.PassiveAggressive(variant="PA")):
        with pytest.raises(ValueError, match="does not support weights, because it has no C"):
            model.fit(X, y, sample_weight=np.ones(50))
    for model in (
        Forgetron(),
        linear.Perceptron(),
        AveragedClassifier(linear.PassiveAggressive()),
        ExpertClassifier([Forgetron()]),
    ):
        reason = f"{type(model).__name__} does not support sample_weight.* linear.OnlineSVM do"
        for learn in (model.fit, model.partial_fit):
            with pytest.raises(TypeError, match=reason):
                learn(X, y, sample_weight=np.ones(50))
        assert not has_fit_parameter(model, "sample_weight")
        assert not hasattr(model, "classes_")


@pytest.mark.parametrize("model", [Forgetron(), linear.OnlineSVM(), ExpertClassifier([Forgetron()])])
def test_unknown_keywords_are_refused_by_name(model):
    X, y = stream("random", 50)
    for method in ("fit", "partial_fit"):
        with pytest.raises(TypeError, match=rf"\.{method}\(\) got an unexpected keyword argument 'epochs'"):
            getattr(model, method)(X, y, epochs=3)


@pytest.mark.parametrize(
    "model", [PassiveAggressive(gamma=0.5), linear.PassiveAggressive(), linear.OnlineSVM()]
)
def test_a_batch_may_have_only_weights_of_0(model):
    X, y = stream("random", 60)
    weights = np.arange(60) % 3.0
    whole = clone(model).partial_fit(X, y, [-1, 1], weights)
    rows = clone(model)
    for t in range(60):
        rows.partial_fit(X[t : t + 1], y[t : t + 1], [-1, 1], weights[t : t + 1])
    assert (rows.rounds_, rows.mistakes_) == (whole.rounds_, whole.mistakes_)
    np.testing.assert_allclose(rows.decision_function(X), whole.decision_function(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.inf, "sample_weight contains infinity"),
        (np.nan, "sample_weight contains NaN"),
        (-1, "must not be negative; that of row 0 is -1"),
        ([1.0, 2.0, -3.0], "must not be negative; that of row 2 is -3"),
        ([1.0, 2.0], r"shape \(3,\), one per row; got shape \(2,\)"),
        ([[1.0], [2.0], [3.0]], r"got shape \(3, 1\)"),
    ],
)
def test_invalid_weights_of_rows(weights, message):
    X, y = stream("random", 50)
    model = PassiveAggressive(gamma=0.5).fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X[:3], y[:3], sample_weight=weights)
    assert model.rounds_ == 50
