"""The intercept of linear learners: a learner with one is the learner without one on rows (1, x)."""

import numpy as np
import pytest
from cases import all_weights, with_ones
from scipy.sparse import csr_array
from sklearn.svm import SVC, LinearSVC

import budgetron
from budgetron import CalibratedClassifier, certify, linear
from budgetron._base.access import add_class, add_features, bytes_needed
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier
from budgetron.export._predictor import predictor_of
from budgetron.fleet import Fleet

LEARNERS = {
    **{cls.__name__: cls for cls in linear.learners()},
    "normalized": lambda **options: linear.Perceptron(normalize=True, **options),
    "diagonal": lambda **options: linear.AROW(covariance="diagonal", **options),
    "forgetting": lambda **options: linear.AROW(forget=0.95, **options),
    "balanced": lambda **options: linear.Winnow(balanced=True, **options),
}


def shifted_stream(n=300, d=5, classes=2, seed=0):
    """Return rows whose classes are separated by hyperplanes that do not pass through the origin."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.7, rng.normal(size=(n, d)), 0.0)
    scores = X @ rng.normal(size=(d, classes)) + np.arange(classes)
    return X, scores.argmax(axis=1)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LEARNERS)
def test_equals_the_learner_without_intercept_on_longer_rows(name, dtype, classes):
    X, y = shifted_stream(classes=classes)
    X, known = X.astype(dtype), np.arange(classes)
    model, longer = LEARNERS[name](fit_intercept=True), LEARNERS[name](fit_intercept=False)
    trace = model.progressive_fit(X, y, ledger=True)
    expected = longer.progressive_fit(with_ones(X).astype(dtype), y, ledger=True)
    close = {"rtol": 1e-8, "atol": 1e-8 * max(1.0, np.abs(expected.margins).max())}
    np.testing.assert_allclose(trace.margins, expected.margins, **close)
    assert set(trace.ledger) == set(expected.ledger)
    for entry, values in expected.ledger.items():
        np.testing.assert_allclose(trace.ledger[entry], values, **close, err_msg=entry)
    np.testing.assert_allclose(all_weights(model), longer.coef_, **close)
    assert (model.mistakes_, model.updates_) == (longer.mistakes_, longer.updates_)
    assert np.any(model.intercept_)
    np.testing.assert_array_equal(longer.intercept_, 0.0)
    # Any cut, single rounds and sparse rows: dense ones bit for bit.
    cut, played, sparse = (LEARNERS[name](fit_intercept=True) for _ in range(3))
    for part in np.split(np.arange(len(y)), [1, 7, 150]):
        cut.partial_fit(X[part], y[part], classes=known)
    for x, label in zip(X, y, strict=True):
        played.play(x, label, classes=known)
    sparse.fit(csr_array(X), y)
    np.testing.assert_array_equal(all_weights(cut), all_weights(model))
    np.testing.assert_array_equal(all_weights(played), all_weights(model))
    np.testing.assert_allclose(all_weights(sparse), all_weights(model), **close)
    values = X.astype(float) @ model.coef_.T + model.intercept_
    decided = model.decision_function(X).reshape(len(X), -1)
    np.testing.assert_allclose(decided, values, rtol=1e-9, atol=1e-9)
    assert bytes_needed(LEARNERS[name](fit_intercept=True), X, classes) == model.nbytes_


@pytest.mark.parametrize("name", LEARNERS)
def test_files_new_features_and_new_classes(name, tmp_path):
    X, y = shifted_stream(d=6)
    model = LEARNERS[name](fit_intercept=True).fit(X[:150, :4], y[:150])
    budgetron.save(model, tmp_path / "model")
    loaded = budgetron.load(tmp_path / "model")
    wide = LEARNERS[name](fit_intercept=True)
    if "Winnow" not in repr(model):  # a feature of 0 has a weight there
        wide.fit(np.pad(X[:150, :4], ((0, 0), (0, 2))), y[:150])
    for one in (model, loaded):
        add_features(one, 6)
        assert (one.n_features_in_, one.coef_.shape) == (6, (1, 6))
        one.partial_fit(X[150:], y[150:])
    np.testing.assert_array_equal(all_weights(loaded), all_weights(model))
    if "Winnow" not in repr(model):
        wide.partial_fit(X[150:], y[150:])
        np.testing.assert_allclose(all_weights(model), all_weights(wide), rtol=1e-9, atol=1e-9)
    if not isinstance(model, linear.VotedPerceptron):  # its average has no classes before
        add_class(model, 2)
        model.partial_fit(X, np.where(X[:, 0] > 1.0, 2, y))
        assert model.intercept_.shape == (3,)


def test_the_default_is_an_intercept_except_for_winnow():
    for cls in linear.learners():
        assert cls().fit_intercept is (cls is not linear.Winnow)


def test_wrappers_and_exports_have_the_intercept():
    X, y = shifted_stream()
    for wrap in (AveragedClassifier, PenalizedRiskClassifier, CalibratedClassifier):
        model = wrap(linear.Perceptron()).fit(X, y)
        longer = wrap(linear.Perceptron(fit_intercept=False)).fit(with_ones(X), y)
        np.testing.assert_allclose(all_weights(model), longer.coef_, rtol=1e-9, atol=1e-9)
        decided, expected = model.decision_function(X), longer.decision_function(with_ones(X))
        np.testing.assert_allclose(decided, expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(predictor_of(model, (), "a file").scores.intercepts, model.intercept_)
    plain = linear.Perceptron(fit_intercept=False).fit(X, y)
    assert predictor_of(plain, (), "a file").scores.intercepts is None


@pytest.mark.parametrize("learner", [linear.Perceptron(), linear.PassiveAggressive(), linear.AROW()])
@pytest.mark.parametrize("sparse", [False, True])
def test_fleets_have_the_intercept(learner, sparse):
    X, y = shifted_stream(600)
    keys = np.random.default_rng(1).integers(7, size=len(y))
    fleet = Fleet(learner)
    fleet.partial_fit(keys, csr_array(X) if sparse else X, y, classes=[0, 1])
    for key in range(7):
        own = budgetron.linear.__dict__[type(learner).__name__]()
        own.partial_fit(X[keys == key], y[keys == key], classes=[0, 1])
        np.testing.assert_allclose(all_weights(fleet[key]), all_weights(own), rtol=1e-9, atol=1e-12)
        assert np.any(own.intercept_)


@pytest.mark.parametrize("make", [linear.Perceptron, linear.AROW])
def test_competitors_of_certificates_have_an_intercept(make):
    X, y = shifted_stream(400)
    model = make()
    trace = model.progressive_fit(X, y, ledger=True)
    svm, dual = LinearSVC(C=10.0).fit(X, y), SVC(kernel="linear").fit(X, y)
    signs = np.where(y == 1, 1.0, -1.0)
    for competitor in (svm, dual, model):
        found = certify(model, X, y, trace, competitor, check=False)
        losses = np.maximum(0.0, 1.0 - signs * competitor.decision_function(X)).sum()
        assert found.losses == pytest.approx(losses, rel=1e-6)
        assert found.norm**2 == pytest.approx(np.square(all_weights(competitor)).sum(), rel=1e-6)
        assert "intercept" not in found.competitor
        assert found.holds
        assert certify(model, X, y, trace, found.expansion, check=False).bound == pytest.approx(found.bound)
    vector = certify(model, X, y, trace, np.append(svm.intercept_, svm.coef_), check=False)
    assert vector.bound == pytest.approx(certify(model, X, y, trace, svm, check=False).bound)
    without = certify(model, X, y, trace, svm.coef_[0], check=False)
    assert without.norm == pytest.approx(np.linalg.norm(svm.coef_[0]))
    with pytest.raises(ValueError, match="rows of 5 features, or 6 with a first one for the intercept"):
        certify(model, X, y, trace, np.zeros(9))
    best = certify(model, X, y, trace)
    assert best.holds
    assert best.bound <= vector.bound * (1 + 1e-6)
    # Without an intercept the competitor has none, and on these rows the bound is larger.
    plain = make(fit_intercept=False)
    plain_trace = plain.progressive_fit(X, y, ledger=True)
    assert "LinearSVC without its intercept" in str(certify(plain, X, y, plain_trace, svm, check=False))
    assert plain.mistakes_ > model.mistakes_


def test_parameters_are_checked_and_fixed():
    X, y = shifted_stream()
    with pytest.raises(ValueError, match="fit_intercept"):
        linear.AROW(fit_intercept="yes").fit(X, y)
    model = linear.Perceptron().fit(X, y).set_params(fit_intercept=False)
    with pytest.raises(ValueError, match="fit_intercept"):
        model.partial_fit(X, y)
    one, other = linear.AROW().fit(X, y), linear.AROW(fit_intercept=False).fit(X, y)
    with pytest.raises(ValueError, match="fit_intercept"):
        one.merge([other.delta(since=linear.AROW(fit_intercept=False).fit(X[:9], y[:9]))])
    state = other.learned_state()
    state["_started_with"]["fit_intercept"] = True
    with pytest.raises(ValueError, match="weights should be float64 of shape"):
        linear.AROW().set_learned_state(state)
