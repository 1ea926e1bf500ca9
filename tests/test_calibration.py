"""Calibration: the sigmoid's updates, the unchanged learner, and the quality of the probabilities."""

import copy
import pickle

import numpy as np
import pytest
from cases import stream
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

import budgetron
from budgetron import (
    BudgetClassifier,
    CalibratedClassifier,
    Forgetron,
    KernelPerceptron,
    VotedKernelPerceptron,
    linear,
)
from budgetron._core.calibration import calibrate, log_odds, mirror, sigmoids, sound
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier
from budgetron.calibration import with_class_added


def literal(margins, signs, memory=1000.0):
    """Compute the parameters of the sigmoid as its docstring defines them, with matrices."""
    theta, H, square, rounds = np.array([1.0, 0.0]), np.eye(2), 0.0, 0.0
    for m, y in zip(margins, signs, strict=True):
        rounds = min(rounds + 1, memory)
        square += (m * m - square) / rounds
        z = np.clip(m / np.sqrt(square), -10, 10) if square > 0 else 0.0
        x = np.array([z, 1.0])
        p = expit(theta @ x)
        H = (1 - 1 / memory) * H + np.eye(2) / memory + p * (1 - p) * np.outer(x, x)
        theta = theta + np.linalg.solve(H, x) * ((y > 0) - p)
        theta[0] = max(theta[0], 0.0)
    return theta, square


def test_the_sigmoid_equals_its_definition():
    rng = np.random.default_rng(0)
    margins = rng.normal(size=3000) * 7
    signs = np.where(rng.random(3000) < expit(margins / 3 + 0.5), 1.0, -1.0)
    numbers = sigmoids(1)
    calibrate(numbers[0], margins, signs)
    theta, square = literal(margins, signs)
    np.testing.assert_allclose(numbers[0, :3], [*theta, square], rtol=1e-9)
    assert sound(numbers, 1)


def test_the_sigmoid_finds_the_true_log_odds():
    rng = np.random.default_rng(1)
    margins = rng.normal(size=20_000) * 40
    signs = np.where(rng.random(20_000) < expit(margins / 20 - 1), 1.0, -1.0)
    numbers = sigmoids(1)
    calibrate(numbers[0], margins, signs)
    at = np.array([-60.0, -20.0, 0.0, 20.0, 60.0])
    np.testing.assert_allclose(log_odds(numbers[0], at), at / 20 - 1, atol=0.6)


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1.0, 1e3, 1e200])
def test_margins_of_any_size(scale):
    rng = np.random.default_rng(2)
    margins = rng.normal(size=500) * scale
    numbers = sigmoids(1)
    calibrate(numbers[0], margins, np.where(margins > 0, 1.0, -1.0))
    odds = log_odds(numbers[0], np.sort(margins))
    assert sound(numbers, 1)
    assert np.isfinite(odds).all()
    assert (np.diff(odds) >= 0).all()


@pytest.mark.parametrize("y", [1.0, -1.0])
def test_the_slope_stays_nonnegative_when_margins_have_the_wrong_sign(y):
    numbers = sigmoids(1)
    margins = np.random.default_rng(3).normal(size=5000)
    calibrate(numbers[0], margins, np.where(margins > 0, -y, y))
    assert sound(numbers, 1)
    assert (np.diff(log_odds(numbers[0], np.linspace(-3, 3, 50))) >= 0).all()


def test_batches_equal_the_loop():
    margins, signs = np.random.default_rng(4).normal(size=(2, 300))
    once, often = sigmoids(1), sigmoids(1)
    calibrate(once[0], margins, signs)
    for i in range(300):
        calibrate(often[0], margins[i : i + 1], signs[i : i + 1])
    np.testing.assert_array_equal(once, often)


def test_mirror_equals_learning_opposite_labels():
    margins, signs = np.random.default_rng(5).normal(size=(2, 300))
    numbers, opposite = sigmoids(1)[0], sigmoids(1)[0]
    calibrate(numbers, margins, signs)
    calibrate(opposite, -margins, -signs)
    np.testing.assert_allclose(mirror(numbers), opposite, rtol=1e-12)


def test_a_third_class_keeps_the_log_odds_of_the_first_two():
    margins, signs = np.random.default_rng(6).normal(size=(2, 300))
    numbers = sigmoids(1)
    calibrate(numbers[0], margins, signs + 0.5)
    lower, new, upper = with_class_added(numbers, 1)
    np.testing.assert_array_equal(upper, numbers[0])
    np.testing.assert_allclose(log_odds(lower, -margins), -log_odds(upper, margins), rtol=1e-12)
    np.testing.assert_array_equal(new, sigmoids(1)[0])


@pytest.mark.parametrize("learner", [Forgetron(30, gamma=0.5), linear.AROW(), KernelPerceptron(gamma=0.5)])
@pytest.mark.parametrize("classes", [2, 3])
def test_calibration_does_not_change_the_learner(learner, classes):
    X, y = stream("random", 400)
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5) * (classes > 2)
    model, alone = CalibratedClassifier(learner), copy.deepcopy(learner)
    trace = model.progressive_fit(X, y)
    expected = alone.progressive_fit(X, y)
    np.testing.assert_array_equal(trace.margins, expected.margins)
    assert (model.rounds_, model.mistakes_) == (alone.rounds_, alone.mistakes_)
    assert model.nbytes_ == alone.nbytes_ + model.sigmoids_.nbytes
    P = model.predict_proba(X)
    assert P.shape == (400, classes)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), model.classes_[P.argmax(axis=1)])


def test_play_equals_batches():
    X, y = stream("random", 300)
    batch, single = (
        CalibratedClassifier(Forgetron(20, gamma=0.5)),
        CalibratedClassifier(Forgetron(20, gamma=0.5)),
    )
    batch.fit(X, y)
    for x, label in zip(X, y, strict=True):
        single.play(x, label, [-1, 1])
    np.testing.assert_allclose(single.sigmoids_, batch.sigmoids_, rtol=1e-9)


def test_probabilities_are_better_than_class_frequencies():
    X, y = load_digits(return_X_y=True)
    model = CalibratedClassifier(Forgetron(100, gamma=0.001)).fit(X[:1200], y[:1200])
    loss = log_loss(y[1200:], model.predict_proba(X[1200:]), labels=range(10))
    assert loss < 1.0 < np.log(10)


@pytest.mark.parametrize("learner", [VotedKernelPerceptron(), AveragedClassifier(linear.AROW()), None])
def test_learners_that_cannot_be_calibrated_are_refused(learner):
    with pytest.raises(
        ValueError, match=r"cannot be calibrated.*use another learner|must be a kernel or linear learner"
    ):
        CalibratedClassifier(learner).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("model", [Forgetron(), linear.Perceptron(), AveragedClassifier(Forgetron())])
def test_predict_proba_refers_to_the_calibrated_classifier(model):
    assert not hasattr(model, "predict_proba")
    with pytest.raises(
        AttributeError,
        match=rf"{type(model).__name__} does not provide probabilities.* CalibratedClassifier\(learner\)",
    ):
        model.predict_proba([[1.0]])


WRAPPERS = [CalibratedClassifier, AveragedClassifier, PenalizedRiskClassifier]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_parameters_that_do_not_change_what_is_learned_may_change(wrapper, tmp_path):
    X, y = stream("random", 120)
    model = wrapper(Forgetron(9, gamma=0.5)).fit(X[:60], y[:60])
    twin = wrapper(Forgetron(9, gamma=0.5)).fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    assert model.set_params(learner__n_jobs=2) is model
    assert model.learner_.n_jobs == 2
    budgetron.save(model, tmp_path / "model")
    for copied in (budgetron.load(tmp_path / "model"), pickle.loads(pickle.dumps(model)), model):
        assert copied.learner_.n_jobs == copied.learner.n_jobs == 2
        copied.partial_fit(X[60:], y[60:]).play(X[0], y[0])
        copied.set_params(learner__n_jobs=None)
        assert copied.learner_.n_jobs is None
        copied.learner.n_jobs = 3  # also without set_params, from the next batch on
        assert copied.partial_fit(X[:1], y[:1]).learner_.n_jobs == 3
    twin.play(X[0], y[0])
    twin.partial_fit(X[:1], y[:1])
    np.testing.assert_array_equal(model.decision_function(X), twin.decision_function(X))


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_other_parameters_of_a_learner_must_not_change(wrapper):
    X, y = stream("random", 60)
    for change in ({"learner__budget": 7}, {"learner__gamma": 2.0}, {"learner": Forgetron(9, gamma=0.5)}):
        model = wrapper(Forgetron(9, gamma=0.5)).fit(X, y).set_params(**change)
        with pytest.raises(ValueError, match=r"learner.* changed since the first call"):
            model.partial_fit(X, y)
    if wrapper is CalibratedClassifier:
        model = wrapper(BudgetClassifier("300kB", random_state=0)).fit(X, y).set_params(learner__memory="1MB")
        with pytest.raises(ValueError, match="learner__memory changed since the first call"):
            model.partial_fit(X, y)


def test_a_wrong_number_of_threads_is_refused():
    X, y = stream("random", 60)
    model = CalibratedClassifier(Forgetron(9, gamma=0.5)).fit(X, y).set_params(learner__n_jobs=0)
    with pytest.raises(ValueError, match="n_jobs must be"):
        model.partial_fit(X, y)
