"""The second-order Projectron with all losses, forgetting, weights, and one hypothesis for all classes."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import reference as ref
from scipy.sparse import csr_array
from sklearn.base import clone

import budgetron
from budgetron import CalibratedClassifier, SecondOrderProjectron, evaluate

GAMMA = 0.3
LOSSES = ("hinge", "logistic", "squared")
PARAMETERS = {"budget": 12, "threshold": 0.05, "r": 0.7}


def stream(n_classes, n=260, seed=0):
    """Return rows that shift twice, so that supports are exchanged, and the codes of their classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    codes = ((X[:, 0] * X[:, 1] > 0.0) + 2 * (X[:, 2] > 0.2)) % n_classes
    codes = np.where(rng.random(n) < 0.1, rng.integers(n_classes, size=n), codes)
    return X + 4.0 * (np.arange(n) * 3 // n)[:, None], codes


def play_reference(X, codes, n_classes, **parameters):
    """Return the reference after the stream, with the scores and the ledger of each round."""
    square = (X**2).sum(axis=1)
    K = np.exp(-GAMMA * np.maximum(square[:, None] + square - 2.0 * X @ X.T, 0.0))
    linear = GAMMA * X @ X.T + 1.0
    run = ref.JointSecondOrder(K, codes, n_classes, linear=linear, **PARAMETERS | parameters)
    scores, entries = zip(*((run.play(t), run.entry) for t in range(len(X))), strict=True)
    return run, np.array(scores), {name: np.array([e[name] for e in entries]) for name in entries[0]}


def model(**parameters):
    return SecondOrderProjectron(gamma=GAMMA, **PARAMETERS | parameters)


def two_dimensional(margins):
    return margins[:, None] if margins.ndim == 1 else margins


CASES = [
    (loss, n, parameters)
    for loss in LOSSES
    for n in (2, 3, 5)
    for parameters in ({}, {"forget": 0.97}, {"prior": 20.0}, {"prior": 3.0, "forget": 0.9, "budget": 40})
]


@pytest.mark.parametrize(("loss", "n_classes", "parameters"), CASES)
def test_equals_reference(loss, n_classes, parameters):
    X, codes = stream(n_classes)
    prior = parameters.get("prior", 100.0 if loss == "logistic" else 1.0)
    run, scores, entries = play_reference(X, codes, n_classes, loss=loss, **parameters | {"prior": prior})
    whole, cut, single, sparse = (model(loss=loss, **parameters) for _ in range(4))
    trace = whole.progressive_fit(X, codes, ledger=True)
    np.testing.assert_allclose(two_dimensional(trace.margins), scores, atol=1e-7)
    assert whole.mistakes_ == trace.mistakes.sum() == run.mistakes
    for name, values in entries.items():
        np.testing.assert_allclose(trace.ledger[name], values, atol=1e-6, err_msg=name)
    classes = np.arange(n_classes)
    parts = [
        cut.progressive_fit(X[a:b], codes[a:b], classes=classes)
        for a, b in pairwise([0, 1, 2, 40, 41, 130, 259, 260])
    ]
    cut_margins = np.concatenate([part.margins for part in parts])
    played = np.array([single.play(x, y, classes=classes) for x, y in zip(X, codes, strict=True)])
    sparse_margins = sparse.progressive_fit(csr_array(X), codes).margins
    for margins in (cut_margins, played, sparse_margins):
        np.testing.assert_allclose(two_dimensional(margins), scores, atol=1e-7)
    for learned in (whole, cut, single, sparse):
        assert learned.mistakes_ == run.mistakes
        np.testing.assert_array_equal(learned.support_, run.supports)
        np.testing.assert_allclose(learned.dual_coef_, run.coefficients(), atol=1e-6)


def test_the_cases_exchange_supports():
    X, codes = stream(5)
    run, _, _ = play_reference(X, codes, 5, loss="logistic", prior=100.0)
    assert run.exchanged > 3


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_weights_divide_the_noise(loss, n_classes):
    X, codes = stream(n_classes)
    weights = np.random.default_rng(1).choice([0.0, 0.25, 1.0, 3.0], len(X))
    prior = 100.0 if loss == "logistic" else 1.0
    run, scores, _ = play_reference(X, codes, n_classes, loss=loss, prior=prior, weights=weights)
    learned = model(loss=loss)
    trace = learned._learn(X, codes, classes_from_y=True, trace=True, weights=weights)
    np.testing.assert_allclose(two_dimensional(trace.margins), scores, atol=1e-7)
    np.testing.assert_array_equal(learned.support_, run.supports)
    by_class, by_row = model(loss=loss, class_weight={0: 0.2, 1: 4.0}), model(loss=loss)
    by_class.fit(X, codes)
    by_row.fit(X, codes, sample_weight=np.choose(np.minimum(codes, 2), [0.2, 4.0, 1.0]))
    np.testing.assert_array_equal(by_class.decision_function(X), by_row.decision_function(X))


def test_a_squared_loss_of_weight_two_is_two_rows():
    X, codes = stream(3, 60)
    double, twice = (model(loss="squared", threshold=2.0) for _ in range(2))
    double.fit(X, codes, sample_weight=np.full(60, 2.0))
    twice.fit(np.repeat(X, 2, axis=0), np.repeat(codes, 2))
    np.testing.assert_allclose(double.decision_function(X), twice.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_only_prior_divided_by_r_matters(loss):
    X, codes = stream(4)
    one, other = model(loss=loss, r=0.7, prior=2.1), model(loss=loss, r=0.1, prior=0.3)
    np.testing.assert_allclose(
        one.progressive_fit(X, codes).margins, other.progressive_fit(X, codes).margins, atol=1e-8
    )


def test_the_default_loss():
    X, codes = stream(4)
    assert model().fit(X, codes % 2).loss_ == "hinge"
    assert model().fit(X, codes).loss_ == "logistic"
    admitted = model().partial_fit(X[:50], codes[:50] % 2, classes=[0, 1])
    admitted.partial_fit(X[50:], codes[50:], admit=True)
    assert admitted.loss_ == "hinge"
    assert pickle.loads(pickle.dumps(admitted)).loss_ == "hinge"


@pytest.mark.parametrize("loss", LOSSES)
def test_a_new_class_has_mean_zero(loss):
    """Two classes with one mean continue as three with the means -w, w and 0, in the order of the labels."""
    X, codes = stream(2)
    names = np.array(["b", "d"])[codes]
    learned = model(loss=loss).fit(X[:100], names[:100])
    before, supports = learned.decision_function(X), learned.support_vectors_
    sigma = learned._learners[0].rule.gaussian.covariance()
    budgetron._base.access.add_class(learned, "c")
    np.testing.assert_array_equal(learned.classes_, ["b", "c", "d"])
    after = learned.decision_function(X)
    np.testing.assert_allclose(after, np.column_stack([-before, np.zeros(len(X)), before]), atol=1e-12)
    np.testing.assert_array_equal(learned.support_vectors_, supports)
    np.testing.assert_array_equal(learned._learners[0].rule.gaussian.covariance(), sigma)
    learned.partial_fit(X[100:], np.where(X[100:, 2] > 0.0, "a", names[100:]), admit=True)
    assert learned.classes_.tolist() == ["a", "b", "c", "d"]
    assert learned.rounds_ == len(X)


def test_float32_follows_float64():
    X, codes = stream(4)
    X = X.astype(np.float32)
    single = model().progressive_fit(X, codes)
    double = model().progressive_fit(X.astype(float), codes)
    np.testing.assert_allclose(single.margins, double.margins, atol=2e-3)
    np.testing.assert_array_equal(single.support_sizes, double.support_sizes)


def test_wide_rows_have_a_diagonal_covariance_for_all_classes():
    """Without supports the hypothesis is linear: compare with a direct computation."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((120, 1100)) < 0.02, rng.normal(size=(120, 1100)), 0.0)
    codes = X[:, :3].argmax(axis=1)
    learned = SecondOrderProjectron(5, threshold=2.0, r=0.5, loss="hinge", forget=0.95, gamma=0.25)
    margins = learned.progressive_fit(csr_array(X), codes, classes=[0, 1, 2]).margins
    w, constant, spread, variance = np.zeros((3, 1100)), np.zeros(3), np.ones(1100), 1.0
    for t, x in enumerate(0.5 * X):
        s, y = w @ x + constant, np.where(np.arange(3) == codes[t], 1.0, -1.0)
        np.testing.assert_allclose(margins[t], s, atol=1e-10)
        errors = y * s < 1.0
        if not errors.any():
            continue
        v = spread @ x**2 + variance
        steps, noise = np.where(errors, (y - s) / (v + 0.5), 0.0), 0.5 * 3 / errors.sum()
        w += np.outer(steps, spread * x)
        constant += steps * variance
        spread = 0.95 * spread / (1.0 + spread * x**2 / noise) + 0.05
        # The constant has the only entry of Sigma; v includes the features.
        variance = 0.95 * (variance - variance**2 / (v + noise)) + 0.05
        w, constant = np.sqrt(0.95) * w, np.sqrt(0.95) * constant


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_files_and_pickles_continue_exactly(loss, n_classes, tmp_path):
    X, codes = stream(n_classes)
    learned = model(loss=loss, forget=0.99, class_weight={0: 2.0}).fit(X[:200], codes[:200])
    budgetron.save(learned, tmp_path / "model")
    for other in (budgetron.load(tmp_path / "model"), pickle.loads(pickle.dumps(learned))):
        continued = pickle.loads(pickle.dumps(learned))
        for one in (other, continued):
            one.partial_fit(X[200:], codes[200:])
        np.testing.assert_array_equal(other.decision_function(X), continued.decision_function(X))
        assert other.mistakes_ == continued.mistakes_
        assert other.loss_ == loss


def test_new_features_after_the_start():
    X, codes = stream(4)
    narrow, wide = model(), model()
    narrow.fit(X[:150, :2], codes[:150])
    wide.fit(np.pad(X[:150, :2], ((0, 0), (0, 1))), codes[:150])
    budgetron._base.access.add_features(narrow, 3)
    narrow.gamma_ = wide.gamma_
    for one in (narrow, wide):
        one.partial_fit(X[150:], codes[150:])
    np.testing.assert_allclose(narrow.decision_function(X), wide.decision_function(X), atol=1e-9)


def test_probabilities_come_from_the_logistic_loss():
    X, codes = stream(4, 2000)
    X -= 4.0 * (np.arange(2000) * 3 // 2000)[:, None]  # rows that do not shift
    learned = model(budget=60).fit(X[:1500], codes[:1500])
    proba = learned.predict_proba(X[1500:])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(proba.argmax(axis=1), learned.decision_function(X[1500:]).argmax(axis=1))
    confident = proba.max(axis=1) > 0.8
    right = learned.predict(X[1500:]) == codes[1500:]
    assert abs(right[confident].mean() - proba.max(axis=1)[confident].mean()) < 0.1
    two = model(loss="logistic").fit(X, codes % 2)
    np.testing.assert_allclose(two.predict_proba(X)[:, 1], 1.0 / (1.0 + np.exp(-two.decision_function(X))))
    hinge = model().fit(X, codes % 2)
    assert not hasattr(hinge, "predict_proba")
    with pytest.raises(AttributeError, match="logistic loss only"):
        hinge.predict_proba(X)


def test_calibration_and_comparison_with_several_outputs():
    X, codes = stream(4)
    calibrated = CalibratedClassifier(model(loss="hinge")).fit(X, codes)
    alone = model(loss="hinge").fit(X, codes)
    assert calibrated.sigmoids_.shape == (4, 7)
    assert calibrated.mistakes_ == alone.mistakes_
    compared = evaluate.compare({"one": model(), "other": model(budget=20)}, (X, codes))
    expected = [clone(one).progressive_fit(X, codes).error_rate for one in (model(), model(budget=20))]
    np.testing.assert_allclose([compared["one"].error_rate, compared["other"].error_rate], expected)


def test_memory_does_not_grow_with_the_square_of_the_classes():
    X, codes = stream(5, 400)
    two, five = model(budget=100).fit(X, codes % 2), model(budget=100).fit(X, codes)
    assert five.nbytes_ < 1.3 * two.nbytes_


@pytest.mark.parametrize("forget", [1e-3, 1e-6, 1e-100])
def test_batches_with_strong_forgetting(forget):
    X, codes = stream(3)
    whole, played = (model(budget=100, forget=forget) for _ in range(2))
    margins = whole.progressive_fit(X, codes).margins
    single = [played.play(x, y, classes=[0, 1, 2]) for x, y in zip(X, codes, strict=True)]
    np.testing.assert_allclose(margins, single, atol=1e-9)
