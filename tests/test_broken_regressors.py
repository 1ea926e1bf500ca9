"""Each rule of the regressors, detectors and wrappers, broken once: a reference or a bound shows it."""

import numpy as np
import pytest
import test_budget_regressor
import test_conformal
import test_detectors
from reference import detection, regression
from reference.conformal import AdaptiveConformal, play_sets
from sklearn.base import clone
from test_regressors import gram, stream
from test_sabotage import build

from budgetron import (
    BudgetRegressor,
    ConformalClassifier,
    ConformalRegressor,
    SecondOrderDetector,
    SecondOrderRegressor,
    bounds,
    certify,
    kernelized,
    linear,
)
from budgetron._base.alarms import WINDOW, AlarmThreshold
from budgetron.conformal._tracking import Tracking
from budgetron.kernelized import _second_order_detector, _second_order_regressor
from budgetron.linear import _arow_regressor
from budgetron.portfolio import _regression

GAMMA = 0.3
NORMA = {"budget": 9, "eta": 0.3, "regularization": 0.05, "epsilon": 0.2}


def norma(loss, rate):
    """Return the parameters of a `NormaRegressor`, and the predictions of its reference."""
    X, y = stream()
    run = regression.Norma(gram(X), y, 9, 0.3, 0.05, loss, 0.2, rate)
    return NORMA | {"loss": loss, "rate": rate, "gamma": GAMMA}, [run.play(t) for t in range(len(y))]


def kernel_pa(variant):
    X, y = stream()
    run = regression.PassiveAggressiveRegression(gram(X), y, 0.3, variant, 0.2, 7)
    parameters = {"C": 0.3, "variant": variant, "epsilon": 0.2, "budget": 7, "gamma": GAMMA}
    return parameters, [run.play(t) for t in range(len(y))]


def linear_pa(variant):
    X, y = stream()
    run = regression.PassiveAggressiveRegression(X @ X.T, y, 0.3, variant, 0.2)
    parameters = {"C": 0.3, "variant": variant, "epsilon": 0.2, "fit_intercept": False}
    return parameters, [run.play(t) for t in range(len(y))]


def vaw():
    X, y = stream()
    rows = np.hstack([np.ones((len(X), 1)), X])
    return {"r": 0.5, "variant": "vaw", "prior": 2.0}, regression.vaw_predictions(rows, y, 0.25)


# For each fault: the class, the module, the text to replace, its replacement, and the run to compare with.
FAULTS = {
    "norma, no regularization": (
        "NormaRegressor",
        "kernelized/_norma_regressor",
        "self.shrink(1.0 - eta * self.regularization)",
        "self.shrink(1.0)",
        lambda: norma("squared", "constant"),
    ),
    "norma, a constant rate": (
        "NormaRegressor",
        "kernelized/_norma_regressor",
        "eta /= sqrt(self.rounds + 1.0)",
        "eta /= sqrt(1.0)",
        lambda: norma("squared", "decreasing"),
    ),
    "norma, no parabola": (
        "NormaRegressor",
        "kernelized/_norma_regressor",
        "else residual / self.epsilon  # Huber's loss",
        "else residual",
        lambda: norma("huber", "constant"),
    ),
    "norma, no tube": (
        "NormaRegressor",
        "kernelized/_norma_regressor",
        "return sign if fabs(residual) > self.epsilon else 0.0",
        "return sign",
        lambda: norma("epsilon-insensitive", "constant"),
    ),
    "norma, the newest is removed": (
        "NormaRegressor",
        "kernelized/_norma_regressor",
        "self.remove(0)",
        "self.remove(self.size() - 1)",
        lambda: norma("squared", "constant"),
    ),
    "kernel PA-I without a limit": (
        "KernelPARegressor",
        "kernelized/_pa_regressor",
        "tau = min(tau, self.most * self.importance)",
        "tau = min(tau, 1e9 * self.most)",
        lambda: kernel_pa("PA-I"),
    ),
    "kernel PA-II without slack": (
        "KernelPARegressor",
        "kernelized/_pa_regressor",
        "self.kxx + self.slack / self.importance",
        "self.kxx + 0.0 * self.slack",
        lambda: kernel_pa("PA-II"),
    ),
    "kernel PA, the newest is removed": (
        "KernelPARegressor",
        "kernelized/_pa_regressor",
        "                self.remove(0)",
        "                self.remove(self.size() - 1)",
        lambda: kernel_pa("PA"),
    ),
    "PA without epsilon": (
        "PARegressor",
        "linear/_pa_regressor",
        "loss: cython.double = fabs(self.y - self.margin) - self.epsilon",
        "loss: cython.double = fabs(self.y - self.margin)",
        lambda: linear_pa("PA"),
    ),
    "PA-II without slack": (
        "PARegressor",
        "linear/_pa_regressor",
        "self.square + self.slack / self.importance",
        "self.square + 0.0 * self.slack",
        lambda: linear_pa("PA-II"),
    ),
    "vaw predicts as ridge regression": (
        "AROWRegressor",
        "linear/_arow_regressor",
        "self.r / (self.r + np.nan_to_num(variances))",
        "self.r / (self.r + 0.0 * np.nan_to_num(variances))",
        vaw,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_regressor_is_noticed(name, tmp_path):
    cls, module, old, new, compare = FAULTS[name]
    parameters, expected = compare()
    X, y = stream()
    right = getattr(kernelized if module.startswith("kernelized") else linear, cls)(**parameters)
    np.testing.assert_allclose(right.progressive_fit(X, y).predictions, expected, atol=1e-8)
    broken = build(tmp_path, (module, old, new), "broken_" + "".join(filter(str.isalnum, name)))
    found = getattr(broken, cls)(**parameters).progressive_fit(X, y).predictions
    assert not np.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "forget"),
    [
        ("noise, v, self.rows", "0.5 * noise, v, self.rows", 1.0),
        ("self.keep = forget", "self.keep = 1.0", 0.97),
    ],
)
def test_a_broken_gaussian_is_noticed(old, new, forget, tmp_path, monkeypatch):
    X, y = stream()
    arguments = {"budget": 12, "threshold": 0.05, "r": 0.1, "prior": 1.0, "forget": forget, "linear": False}
    reference = {name: value for name, value in arguments.items() if name != "linear"}
    run = regression.SecondOrderRegression(gram(X), y, linear=None, weights=None, **reference)
    expected = [run.play(t)[0] for t in range(len(y))]
    model = SecondOrderRegressor(**arguments, gamma=GAMMA)
    np.testing.assert_allclose(clone(model).progressive_fit(X, y).predictions, expected, atol=1e-8)
    rule = build(tmp_path, ("kernelized/_second_order_rule", old, new), f"broken_gaussian_{forget == 1.0}")
    monkeypatch.setattr(_second_order_regressor, "SecondOrderRule", rule.SecondOrderRule)
    assert not np.allclose(model.progressive_fit(X, y).predictions, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "forget"),
    [
        ("self.covariance.narrow(noise)", "self.covariance.narrow(2.0 * noise)", 1.0),
        ("self.shrink(sqrt(self.keep))\n            self.covariance", "self.covariance", 0.95),
    ],
)
def test_broken_least_squares_are_noticed(old, new, forget, tmp_path, monkeypatch):
    X, y = stream()
    run = regression.LinearGaussian(4, 0.5, 2.0, forget)
    expected = [run.play(x, target)[0] for x, target in zip(X, y, strict=True)]
    model = linear.AROWRegressor(0.5, "full", prior=2.0, forget=forget, fit_intercept=False)
    np.testing.assert_allclose(clone(model).progressive_fit(X, y).predictions, expected, atol=1e-8)
    rule = build(tmp_path, ("linear/_arow_rules", old, new), f"broken_squares_{forget == 1.0}")
    monkeypatch.setattr(_arow_regressor, "FullRule", rule.FullRule)
    assert not np.allclose(model.progressive_fit(X, y).predictions, expected, atol=1e-6)


# ---------------------------------------------------------------------- detectors


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.shrink(1.0 - self.eta)", "self.shrink(1.0)"),
        ("self.rho += self.eta * self.nu", "self.rho += 0.0"),
        ("self.rho -= self.eta * (1.0 - self.nu)", "self.rho -= self.eta"),
    ],
)
def test_a_broken_detector_is_noticed(old, new, tmp_path):
    X = test_detectors.stream()
    run = detection.NormaNovelty(test_detectors.gram(X), 9, 0.2, 0.5)
    expected = [run.play(t)[0] for t in range(len(X))]
    name = "broken_detector_" + "".join(filter(str.isalnum, new))
    cls = build(tmp_path, ("kernelized/_norma_detector", old, new), name).NormaDetector
    assert not np.allclose(cls(9, 0.2, 0.5, gamma=GAMMA).progressive_fit(X).scores, expected, atol=1e-6)


def test_variances_without_the_part_outside_of_the_span_are_noticed(monkeypatch):
    X = test_detectors.stream()
    arguments = {"budget": 12, "threshold": 0.05, "r": 0.1, "prior": 1.0, "forget": 1.0}
    K = test_detectors.gram(X)
    run = regression.SecondOrderRegression(K, np.ones(len(X)), linear=None, weights=None, **arguments)
    expected = [1.0 - run.play(t)[1] for t in range(len(X))]
    model = SecondOrderDetector(12, 0.05, 0.1, gamma=GAMMA)
    np.testing.assert_allclose(clone(model).progressive_fit(X).scores, expected, atol=1e-8)
    whole = _second_order_detector.round_variances

    def inside(learner, entries, sizes, supports):
        return whole(learner, entries, np.arange(1, len(sizes) + 1), 0)  # as if each row became a support

    monkeypatch.setattr(_second_order_detector, "round_variances", inside)
    assert not np.allclose(model.progressive_fit(X).scores, expected, atol=1e-6)


def test_a_threshold_whose_level_stays_is_noticed(monkeypatch):
    n = WINDOW + 300
    scores = test_detectors.scores_of("falling", n)  # nearly every row is more unusual than all before
    assert observed(scores).alarms <= bounds.false_alarms(n, 0.1)
    monkeypatch.setattr(AlarmThreshold, "level", property(lambda self: self.rate))
    broken = observed(scores)
    assert broken.alarms > bounds.false_alarms(n, 0.1)


def observed(scores):
    """Return a threshold that has seen the scores."""
    threshold = AlarmThreshold(0.1, False)
    for score in scores.tolist():
        threshold.observe(score)
    return threshold


# ---------------------------------------------------------------------- conformal prediction


def test_a_conformal_level_that_stays_violates_the_bound(monkeypatch):
    y = 1.1 ** np.arange(400)  # every score is larger than all before
    X = np.zeros((400, 1))
    model = ConformalRegressor(linear.PARegressor(C=1e-9), 0.9, step=0.1)
    assert certify(model, X, y, model.progressive_fit(X, y)).holds
    tracked = Tracking._tracked
    monkeypatch.setattr(Tracking, "_tracked", lambda self: (tracked(self)[0], 0.0, *tracked(self)[2:]))
    broken = clone(model)
    assert not certify(broken, X, y, broken.progressive_fit(X, y)).holds


def test_a_conformal_level_that_moves_twice_as_fast_is_noticed(monkeypatch):
    X, y = test_conformal.labelled(300, 4)
    tracked = Tracking._tracked
    monkeypatch.setattr(
        Tracking, "_tracked", lambda self: (tracked(self)[0], 2.0 * self.step, *tracked(self)[2:])
    )
    trace = ConformalClassifier(linear.Perceptron(), 0.8, step=0.05, window=30).progressive_fit(X, y)
    reference = AdaptiveConformal(0.8, 0.05, 30)
    sets = play_sets(reference, trace.margins.reshape(len(y), -1), y, test_conformal.tie_of())
    assert not np.array_equal(trace.sets, sets)


# ---------------------------------------------------------------------- BudgetRegressor


@pytest.mark.parametrize("constant", ["LEADER_KEEP", "COMBINER_NOISE", "SHARED_PART", "INTERVAL_RATE"])
def test_a_broken_combination_is_noticed(constant, monkeypatch):
    X, y = test_budget_regressor.stream(1000, drift=False)
    model = BudgetRegressor("3MB")
    rows = slice(0, 260)
    expected, bands, _ = test_budget_regressor.literal_run(X, y, clone(model).fit(X, y), 260)
    trace = clone(model).progressive_fit(X[rows], y[rows])
    np.testing.assert_allclose(trace.predictions, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(trace.intervals, bands, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(_regression, constant, 0.5 * getattr(_regression, constant))
    broken = model.progressive_fit(X[rows], y[rows])
    assert not np.allclose(np.column_stack([broken.predictions, broken.intervals]).T, [expected, *bands.T])
