"""Conformal wrappers: equality with the reference, the bound of the misses, the learner inside, and state."""

import copy
import pickle

import numpy as np
import pytest
from cases import stream
from reference.conformal import AdaptiveConformal, play_intervals, play_sets
from reference.regression import LinearGaussian
from scipy.sparse import csr_array
from sklearn.base import clone

import budgetron
from budgetron import (
    BudgetClassifier,
    BudgetRegressor,
    ConformalClassifier,
    ConformalRegressor,
    Forgetron,
    KernelPARegressor,
    KernelPerceptron,
    SecondOrderProjectron,
    SecondOrderRegressor,
    VotedKernelPerceptron,
    bounds,
    certify,
    export,
    linear,
)
from budgetron.batch import AveragedClassifier
from budgetron.conformal._tracking import TIE

CLASSIFIERS = {
    "forgetron": Forgetron(20, gamma=0.5),
    "perceptron": KernelPerceptron(gamma=0.5),
    "second order": SecondOrderProjectron(20, gamma=0.5),
    "logistic": SecondOrderProjectron(20, gamma=0.5, loss="logistic"),
    "linear": linear.Perceptron(),
    "arow": linear.AROW(),
    "budget": BudgetClassifier("300kB", random_state=0),
    "voted": VotedKernelPerceptron(gamma=0.5),
    "linear voted": linear.VotedPerceptron("majority"),
}
REGRESSORS = {
    "second order": SecondOrderRegressor(15, gamma=0.5),
    "second order, forget": SecondOrderRegressor(15, gamma=0.5, forget=0.98),
    "arow": linear.AROWRegressor(),
    "arow diagonal": linear.AROWRegressor(0.5, "diagonal"),
    "vaw": linear.AROWRegressor(variant="vaw"),
    "pa": linear.PARegressor(),
    "kernel pa": KernelPARegressor(budget=20, gamma=0.5),
    "budget": BudgetRegressor("300kB"),
}
SETTINGS = [(0.9, 0.01, 1000), (0.8, 0.05, 30), (0.5, 0.2, 7), (0.95, 0.5, 1)]


def labelled(n, classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(3)
    values = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n)
    codes = np.digitize(values, np.quantile(values, np.arange(1, classes) / classes))
    return X, codes


def targets_of(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(3)
    return X, (np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n) * (1 + np.abs(X[:, 2]))).round(3)


def tie_of(dtype=np.float64):
    return TIE * float(np.finfo(dtype).eps)


# ---------------------------------------------------------------------- the reference


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_sets_equal_the_reference(name, classes, setting):
    X, y = labelled(300, classes)
    coverage, step, window = setting
    model = ConformalClassifier(clone(CLASSIFIERS[name]), coverage, step=step, window=window)
    trace = model.progressive_fit(X, y)
    reference = AdaptiveConformal(*setting)
    sets = play_sets(reference, trace.margins.reshape(len(y), -1), y, tie_of())
    np.testing.assert_array_equal(trace.sets, sets)
    np.testing.assert_array_equal(trace.covered, trace.sets[np.arange(len(y)), y])
    assert model.misses_ == reference.misses == np.count_nonzero(~trace.covered)
    assert model.miss_level_ == pytest.approx(float(reference.level), abs=1e-12)
    assert model.threshold_ == pytest.approx(reference.threshold())
    kept = [reference.scores[t] for t in sorted(range(len(y))[-window:], key=lambda t: t % window)]
    np.testing.assert_allclose(model.scores_[: len(kept)], kept)
    assert trace.coverage == model.coverage_ == (len(y) - reference.misses) / len(y)
    assert trace.mean_set_size == model.mean_set_size_ == np.sum(sets) / len(y)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("name", REGRESSORS)
def test_intervals_equal_the_reference(name, setting):
    X, y = targets_of(300)
    coverage, step, window = setting
    model = ConformalRegressor(clone(REGRESSORS[name]), coverage, step=step, window=window)
    trace = model.progressive_fit(X, y)
    variances, r = variances_by_loop(REGRESSORS[name], X, y)
    reference = AdaptiveConformal(*setting)
    bands = play_intervals(reference, trace.predictions, variances, r, trace.targets, tie_of())
    np.testing.assert_allclose(trace.intervals, bands, rtol=1e-9, atol=1e-9)
    assert model.misses_ == reference.misses
    assert trace.coverage == model.coverage_ == (len(y) - reference.misses) / len(y)
    assert model.threshold_ == pytest.approx(reference.threshold())


def variances_by_loop(learner, X, y):
    """Return the variance of f(x) before each round, by the learner's own standard deviations, and r."""
    if "r" not in learner.get_params():
        return np.zeros(len(y)), 1.0
    model, found = clone(learner), [learner.prior * first_square(learner, X[0])]
    for t in range(len(y) - 1):
        model.partial_fit(X[t : t + 1], y[t : t + 1])
        _, std = model.predict(X[t + 1 : t + 2], return_std=True)
        found.append(model.r * (std[0] ** 2 / model.noise_variance_ - 1))
    return found, learner.r


def first_square(learner, x):
    """Return the variance of f(x) before the first round, in units of the prior."""
    if isinstance(learner, SecondOrderRegressor):  # k(x, x) = 1, and the linear part
        return 1.0 + 1.0 + learner.gamma * float(x @ x)
    return 1.0 + float(x @ x)


def test_scales_are_those_of_a_gaussian_by_bayes_rule():
    X, y = targets_of(120)
    model = ConformalRegressor(linear.AROWRegressor(0.7, fit_intercept=False), 0.8, window=50)
    trace = model.progressive_fit(X, y)
    gaussian = LinearGaussian(4, 0.7, 1.0)
    variances = [gaussian.play(x, target)[1] for x, target in zip(X, y, strict=True)]
    bands = play_intervals(
        AdaptiveConformal(0.8, 0.01, 50), trace.predictions, variances, 0.7, trace.targets, tie_of()
    )
    np.testing.assert_allclose(trace.intervals, bands, rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------------- coverage and its theorem


def hostile(kind, n, rng):
    """Return a stream on which coverage is difficult: noise, changes, one class, rare classes."""
    X = rng.normal(size=(n, 3)) * (1 + 20 * (kind == "scales") * (np.arange(n) > n // 2))[:, None]
    y = (X[:, 0] > 0).astype(int)
    if kind == "noise":
        y = rng.integers(3, size=n)
    if kind == "flips":
        y = np.where(np.arange(n) // max(1, n // 5) % 2, y, 1 - y)
    if kind == "one class":
        y = np.zeros(n, int)
        y[0] = 1
    if kind == "duplicates":
        X = np.round(X[rng.integers(4, size=n)])
    if kind == "rare":
        y = (rng.random(n) < 0.03).astype(int) + 2 * (rng.random(n) < 0.01)
    return X, y


KINDS = ["noise", "flips", "one class", "duplicates", "scales", "rare"]


@pytest.mark.parametrize("group", range(20))
def test_no_violation_of_the_bound_of_a_classifier(group):
    for seed in range(10 * group, 10 * group + 10):
        rng = np.random.default_rng(seed)
        n, coverage = int(rng.integers(5, 700)), float(rng.choice([0.5, 0.8, 0.9, 0.99]))
        X, y = hostile(KINDS[seed % 6], n, rng)
        learner = [linear.Perceptron(), linear.AROW(), Forgetron(10, gamma=0.5)][seed % 3]
        step, window = float(rng.choice([0.005, 0.05, 0.7])), int(rng.choice([1, 20, 1000]))
        model = ConformalClassifier(learner, coverage, step=step, window=window)
        trace = model.progressive_fit(X, y, classes=range(4))
        assert_bounds(model, X, y, trace)


@pytest.mark.parametrize("group", range(20))
def test_no_violation_of_the_bound_of_a_regressor(group):
    for seed in range(10 * group, 10 * group + 10):
        rng = np.random.default_rng(seed)
        n, coverage = int(rng.integers(5, 700)), float(rng.choice([0.5, 0.8, 0.9, 0.99]))
        X, classes = hostile(KINDS[seed % 6], n, rng)
        y = classes + (X[:, 1] if seed % 2 else 0.0) * np.exp(3 * rng.normal())
        learner = [linear.PARegressor(), linear.AROWRegressor(), SecondOrderRegressor(10, gamma=0.5)][
            seed % 3
        ]
        step, window = float(rng.choice([0.005, 0.05, 0.7])), int(rng.choice([1, 20, 1000]))
        model = ConformalRegressor(learner, coverage, step=step, window=window)
        assert_bounds(model, X, y, model.progressive_fit(X, y))


def assert_bounds(model, X, y, trace):
    T, a = len(y), 1 - model.coverage
    certificate = certify(model, X, y, trace)
    assert certificate.holds
    assert certificate.count == model.misses_ <= certificate.bound
    assert certificate.bound == pytest.approx(a * T + a / model.step + model.coverage)
    deviation = certify(model, X, y, trace, theorem="conformal_deviation")
    assert deviation.holds
    assert deviation.count == pytest.approx(abs(model.misses_ - a * T))
    assert deviation.bound == pytest.approx((max(a, 1 - a) + model.step) / model.step)
    # The invariant of the proof, from both sides.
    assert -model.step * (1 - a) - 1e-9 < model.miss_level_ < 1 + model.step * a + 1e-9


def test_the_bound_is_nearly_reached():
    # A score that is always larger than before is a miss whenever the threshold is finite.
    model = ConformalRegressor(linear.PARegressor(C=1e-9), 0.9, step=0.1, window=1000)
    X, y = np.zeros((400, 1)), 1.1 ** np.arange(400)
    low, high = model.progressive_fit(X, y).intervals.T
    misses = np.cumsum((y < low) | (y > high))
    room = [bounds.conformal_misses(t + 1, 0.9, 0.1) - count for t, count in enumerate(misses.tolist())]
    assert 0.0 <= min(room) < 0.1
    # A learner without errors is covered until the level is 1.
    model = ConformalRegressor(linear.PARegressor(), 0.9, step=0.5)
    trace = model.progressive_fit(X[:40], np.zeros(40))
    assert np.isnan(trace.intervals).any()
    assert 0 < model.misses_ <= certify(model, X[:40], np.zeros(40), trace).bound


@pytest.mark.parametrize("drift", [False, True])
def test_coverage_is_that_of_the_parameter(drift):
    X, y = labelled(6000, 4)
    if drift:
        y[3000:] = (y[3000:] + 1) % 4
    for coverage in (0.7, 0.9, 0.97):
        model = ConformalClassifier(SecondOrderProjectron(30, gamma=0.3), coverage)
        trace = model.progressive_fit(X, y)
        assert trace.coverage == pytest.approx(coverage, abs=0.01)
        assert 1.0 < trace.mean_set_size < 4.0


def test_larger_coverage_gives_larger_sets():
    X, y = labelled(3000, 4)
    sizes = [
        ConformalClassifier(Forgetron(30, gamma=0.3), c).progressive_fit(X, y).mean_set_size
        for c in (0.5, 0.7, 0.9, 0.98)
    ]
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0] + 1


def test_intervals_follow_the_standard_deviation():
    X, y = targets_of(2000)
    X[:, 3] *= 0.01
    model = ConformalRegressor(SecondOrderRegressor(40, gamma=0.5), 0.9).fit(X, y)
    near, far = model.predict_interval([[0.0, 0.0, 0.0, 0.0], [9.0, 9.0, 9.0, 9.0]])
    assert np.diff(far) > 1.5 * np.diff(near)
    plain = ConformalRegressor(linear.PARegressor(), 0.9).fit(X, y)
    widths = np.diff(plain.predict_interval(X[:50]), axis=1)
    np.testing.assert_allclose(widths, np.full((50, 1), widths[0]))


# ---------------------------------------------------------------------- the learner inside


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("classes", [2, 3])
def test_the_classifier_learns_as_it_does_alone(name, classes):
    X, y = labelled(300, classes)
    model, alone = ConformalClassifier(clone(CLASSIFIERS[name])), clone(CLASSIFIERS[name])
    trace, expected = model.progressive_fit(X, y), alone.progressive_fit(X, y)
    np.testing.assert_array_equal(trace.margins, expected.margins)
    assert (model.rounds_, model.mistakes_) == (alone.rounds_, alone.mistakes_)
    assert model.learner_.mistakes_ == alone.mistakes_
    assert model.nbytes_ == alone.nbytes_ + 16 * 1000 + 16
    np.testing.assert_array_equal(model.learner_.decision_function(X), alone.decision_function(X))
    if hasattr(alone, "predict_proba"):
        np.testing.assert_array_equal(model.learner_.predict_proba(X), alone.predict_proba(X))
    if "voted" not in name:
        np.testing.assert_array_equal(model.predict(X), alone.predict(X))


@pytest.mark.parametrize("name", REGRESSORS)
def test_the_regressor_learns_as_it_does_alone(name):
    X, y = targets_of(300)
    model, alone = ConformalRegressor(clone(REGRESSORS[name])), clone(REGRESSORS[name])
    trace, expected = model.progressive_fit(X, y, ledger=True), alone.progressive_fit(X, y, ledger=True)
    np.testing.assert_array_equal(trace.predictions, expected.predictions)
    np.testing.assert_array_equal(trace.support_sizes, expected.support_sizes)
    assert list(trace.ledger) == list(expected.ledger)
    assert model.nbytes_ == alone.nbytes_ + 16 * 1000 + 16
    np.testing.assert_array_equal(model.predict(X), alone.predict(X))
    low, high = model.predict_interval(X).T
    assert ((low < alone.predict(X)) & (alone.predict(X) < high)).all()


def test_certify_evaluates_the_theorem_of_the_learner_inside():
    X, y = stream("random", 300)
    model = ConformalClassifier(Forgetron(100, gamma=0.5))
    trace = model.progressive_fit(X, y)
    assert certify(model.learner_, X, y, trace, check=False).count == model.mistakes_
    with pytest.raises(ValueError, match=r"must be one of \['conformal_misses'.*model\.learner_"):
        certify(model, X, y, trace, theorem="forgetron")
    with pytest.raises(ValueError, match="no competitor"):
        certify(model, X, y, trace, 3)
    with pytest.raises(ValueError, match="whole stream"):
        certify(model, X[:-1], y[:-1], trace)
    other = ConformalClassifier(Forgetron(100, gamma=0.5), 0.5).progressive_fit(X, y)
    with pytest.raises(ValueError, match="trace must be the model's own"):
        certify(model, X, y, other)
    with pytest.raises(ValueError, match="has no sets"):
        certify(model, X, y, clone(model.learner).progressive_fit(X, y))


def test_the_learner_inside_is_exported(tmp_path):
    X, y = labelled(60, 2)
    for learner in (linear.AROW(), Forgetron(5, gamma=0.5)):
        model = ConformalClassifier(learner).fit(X, y)
        with pytest.raises(TypeError, match=r"export the learner inside, model\.learner_"):
            export.c(model, tmp_path / "model.h")
        export.c(model.learner_, tmp_path / "model.h")


def test_the_text_of_a_certificate():
    X, y = labelled(1000, 3)
    model = ConformalClassifier(linear.AROW())
    text = str(certify(model, X, y, model.progressive_fit(X, y)))
    assert "Gibbs, Candes (2021)" in text
    assert "aim          100 misses" in text
    assert "the bound holds" in text


# ---------------------------------------------------------------------- cuts, single rounds, copies, files


def pieces(n, rng):
    cuts = np.sort(rng.integers(0, n + 1, size=9))
    return [slice(a, b) for a, b in zip([0, *cuts], [*cuts, n], strict=True) if b > a]


@pytest.mark.parametrize("name", [*CLASSIFIERS])
@pytest.mark.parametrize("classes", [2, 3])
def test_any_cut_gives_the_same_sets(name, classes):
    X, y = labelled(240, classes, seed=1)
    whole, cut, single = (ConformalClassifier(clone(CLASSIFIERS[name]), 0.8, window=40) for _ in range(3))
    trace = whole.progressive_fit(X, y)
    parts = pieces(len(y), np.random.default_rng(0))
    traces = [cut.progressive_fit(X[part], y[part], range(classes)) for part in parts]
    np.testing.assert_array_equal(np.vstack([one.sets for one in traces]), trace.sets)
    for x, label in zip(X, y, strict=True):
        single.play(x, label, range(classes))
    for other in (cut, single):
        np.testing.assert_array_equal(other.counts_, whole.counts_)
        np.testing.assert_allclose(other.scores_, whole.scores_, rtol=1e-6, atol=1e-9)
        assert other.mistakes_ == other.learner_.mistakes_ == whole.mistakes_
        np.testing.assert_array_equal(other.predict_set(X), whole.predict_set(X))


@pytest.mark.parametrize("name", REGRESSORS)
def test_any_cut_gives_the_same_intervals(name):
    X, y = targets_of(240, seed=1)
    whole, cut, single = (ConformalRegressor(clone(REGRESSORS[name]), 0.8, window=40) for _ in range(3))
    trace = whole.progressive_fit(X, y)
    parts = pieces(len(y), np.random.default_rng(0))
    traces = [cut.progressive_fit(X[part], y[part]) for part in parts]
    bands = np.vstack([one.intervals for one in traces])
    np.testing.assert_allclose(bands, trace.intervals, rtol=1e-6, atol=1e-9)
    played = [single.play(x, target) for x, target in zip(X, y, strict=True)]
    np.testing.assert_allclose(played, trace.predictions, rtol=1e-6, atol=1e-9)
    for other in (cut, single):
        np.testing.assert_array_equal(other.counts_, whole.counts_)
        np.testing.assert_allclose(other.scores_, whole.scores_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(other.predict_interval(X), whole.predict_interval(X), rtol=1e-6)


def copies(model, path):
    budgetron.save(model, path)
    return [budgetron.load(path), pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_stored_classifier_continues_exactly(name, tmp_path):
    X, y = labelled(300, 3)
    model = ConformalClassifier(clone(CLASSIFIERS[name]), 0.8, window=50).fit(X[:150], y[:150])
    for other in copies(model, tmp_path / "model"):
        np.testing.assert_array_equal(other._ordered, model._ordered)
        a, b = (one.progressive_fit(X[150:], y[150:]) for one in (other, copy.deepcopy(model)))
        np.testing.assert_array_equal(a.sets, b.sets)
        np.testing.assert_array_equal(a.margins, b.margins)


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_stored_regressor_continues_exactly(name, tmp_path):
    X, y = targets_of(300)
    model = ConformalRegressor(clone(REGRESSORS[name]), 0.8, window=50).fit(X[:150], y[:150])
    for other in copies(model, tmp_path / "model"):
        np.testing.assert_array_equal(other._ordered, model._ordered)
        a, b = (one.progressive_fit(X[150:], y[150:]) for one in (other, copy.deepcopy(model)))
        np.testing.assert_array_equal(a.intervals, b.intervals)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [csr_array, np.asarray])
def test_sparse_rows_and_both_precisions(dtype, make):
    X, y = labelled(300, 3)
    rows = make(X.astype(dtype))
    for learner in (SecondOrderProjectron(20, gamma=0.5), linear.AROW()):
        model = ConformalClassifier(learner, 0.8, window=40)
        trace = model.progressive_fit(rows, y)
        single = ConformalClassifier(learner, 0.8, window=40)
        for x, label in zip(rows, y, strict=True) if make is np.asarray else zip(rows[:], y, strict=True):
            single.play(x.reshape(1, -1) if make is csr_array else x, label, range(3))
        assert single.misses_ == model.misses_ == np.count_nonzero(~trace.covered)
    targets = X[:, 0] + X[:, 1] ** 2
    for learner in (SecondOrderRegressor(20, gamma=0.5), linear.PARegressor()):
        model = ConformalRegressor(learner, 0.8, window=40)
        trace = model.progressive_fit(rows, targets)
        assert model.misses_ == len(y) - round(trace.coverage * len(y))


def test_duplicates_do_not_depend_on_the_cut():
    # Equal rows have equal scores, up to rounding, which depends on the cut: without room for it, some of
    # these streams have other misses.
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(12, 20))[rng.integers(12, size=400)]
        y = (X[:, 0] > 0).astype(int)
        for parameters in ({"gamma": 0.05}, {"gamma": 0.3, "kernel": "poly"}):
            whole, cut, single = (
                ConformalClassifier(KernelPerceptron(**parameters), 0.8, window=60) for _ in range(3)
            )
            whole.fit(X, y)
            for start in range(0, 400, 37):
                cut.partial_fit(X[start : start + 37], y[start : start + 37], [0, 1])
            for x, label in zip(X, y, strict=True):
                single.play(x, label, [0, 1])
            assert cut.counts_.tolist() == single.counts_.tolist() == whole.counts_.tolist()


# ---------------------------------------------------------------------- new classes, weights, errors


def test_new_classes_and_any_cut_of_them():
    X, y = labelled(300, 4)
    y = np.where(np.arange(300) < 100, y % 2, y)
    for learner in (Forgetron(20, gamma=0.5), linear.AROW(), BudgetClassifier("300kB", random_state=0)):
        whole, cut = (ConformalClassifier(clone(learner), 0.8, window=40) for _ in range(2))
        whole.partial_fit(X, y, admit=True)
        for part in pieces(len(y), np.random.default_rng(0)):
            cut.partial_fit(
                X[part], y[part], classes=None if cut.__sklearn_is_fitted__() else [0, 1], admit=True
            )
        assert whole.classes_.tolist() == cut.classes_.tolist() == [0, 1, 2, 3]
        np.testing.assert_array_equal(cut.counts_, whole.counts_)
        assert whole.predict_set(X).shape == (300, 4)
        assert whole.counts_[0] == 300


def test_a_score_of_two_classes_is_that_of_their_two_functions():
    # So that the scores in the window stay comparable when a third class appears.
    X, y = labelled(100, 2)
    model = ConformalClassifier(linear.AROW(), window=5).fit(X, y)
    f = model.decision_function(X[:1])[0]
    three = copy.deepcopy(model).partial_fit(X[:1], [7], admit=True)
    two = copy.deepcopy(model).partial_fit(X[:1], y[:1])
    margins = np.array([-f, f])
    assert two.scores_[100 % 5] == pytest.approx(margins[1 - y[0]] - margins[y[0]])
    assert three.scores_[100 % 5] == pytest.approx(abs(f))  # the function of the new class is 0


def test_an_error_changes_nothing():
    X, y = labelled(100, 3)
    model = ConformalClassifier(linear.AROW(), window=20).fit(X, y)
    regressor = ConformalRegressor(SecondOrderRegressor(10, gamma=0.5), window=20).fit(X, X[:, 0])
    before, other = pickle.dumps(model), pickle.dumps(regressor)
    bad = X[:5].copy()
    bad[3, 1] = np.nan
    for call in (
        lambda: model.partial_fit(bad, y[:5]),
        lambda: model.partial_fit(bad, [0, 9, 8, 1, 1], admit=True),
        lambda: model.play(bad[3], 0),
        lambda: model.play(X[0], "a"),
        lambda: model.play(X[0], 0, [0, 1]),
        lambda: model.predict_set(bad),
        lambda: regressor.partial_fit(bad, X[:5, 0]),
        lambda: regressor.partial_fit(X[:5], bad[:, 1]),
        lambda: regressor.play(bad[3], 0.0),
        lambda: regressor.play(X[:2], 0.0),
        lambda: regressor.predict_interval(bad),
    ):
        with pytest.raises(ValueError, match=r".+"):
            call()
    assert pickle.dumps(model) == before
    assert pickle.dumps(regressor) == other


def test_an_error_after_the_first_rounds_changes_nothing(monkeypatch):
    def refuse(self, label):
        raise ValueError(f"no room for {label}")

    X, y = labelled(100, 3)
    model = ConformalClassifier(linear.AROW(), window=20).fit(X, y)
    before, sizes = pickle.dumps(model), model._ordered.copy()
    monkeypatch.setattr(linear.AROW, "_admit", refuse)
    with pytest.raises(ValueError, match="no room for 9"):
        model.partial_fit(X[:5], [0, 1, 2, 9, 9], admit=True)
    assert pickle.dumps(model) == before
    np.testing.assert_array_equal(model._ordered, sizes)


def test_rows_of_weight_0_are_not_counted_by_a_regressor():
    X, y = targets_of(100)
    weights = (np.arange(100) % 3 > 0).astype(float)
    for learner in (SecondOrderRegressor(10, gamma=0.5), linear.PARegressor()):
        model = ConformalRegressor(learner, window=20).fit(X, y, weights)
        kept = ConformalRegressor(clone(learner), window=20).fit(X[weights > 0], y[weights > 0])
        assert (model.rounds_, model.counts_[0]) == (100, 66)
        np.testing.assert_allclose(model.scores_, kept.scores_, rtol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"coverage": 1.0}, "coverage"),
        ({"coverage": 0.0}, "coverage"),
        ({"step": 0.0}, "step"),
        ({"step": -1.0}, "step"),
        ({"window": 0}, "window"),
        ({"window": 2.5}, "window"),
    ],
)
def test_wrong_parameters(parameters, message):
    for model in (ConformalClassifier(linear.AROW()), ConformalRegressor(linear.AROWRegressor())):
        with pytest.raises(ValueError, match=message):
            model.set_params(**parameters).fit([[0.0], [1.0]], [0, 1])


def test_learners_of_other_kinds_are_refused():
    for learner in (
        None,
        AveragedClassifier(linear.AROW()),
        ConformalClassifier(linear.AROW()),
        linear.PARegressor(),
    ):
        with pytest.raises(ValueError, match="must be a kernel or linear learner"):
            ConformalClassifier(learner).fit([[0.0], [1.0]], [0, 1])
    for learner in (None, linear.AROW(), ConformalRegressor(linear.PARegressor())):
        with pytest.raises(ValueError, match="must be a regressor of Budgetron"):
            ConformalRegressor(learner).fit([[0.0], [1.0]], [0, 1])


def test_parameters_must_not_change_but_threads_may():
    X, y = labelled(60, 2)
    for model, other in (
        (ConformalClassifier(Forgetron(9, gamma=0.5)), {"coverage": 0.5}),
        (ConformalRegressor(KernelPARegressor(budget=9, gamma=0.5)), {"learner__budget": 3}),
    ):
        model.fit(X, y).set_params(learner__n_jobs=2)
        assert model.learner_.n_jobs == 2
        model.partial_fit(X, y)
        with pytest.raises(ValueError, match="changed since the first call"):
            model.set_params(**other).partial_fit(X, y)


@pytest.mark.parametrize(
    "change",
    [
        {"counts_": np.array([5, 6])},
        {"counts_": np.array([-1, -2])},
        {"counts_": np.array([100, 3])},
        {"counts_": np.zeros(3, np.int64)},
        {"scores_": np.full(20, np.nan)},
        {"scores_": np.zeros(19)},
        {"scores_": np.zeros(20, np.float32)},
        {"learner_": linear.AROW()},
        {"learner_": None},
        {"coverage": 2.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_invalid_states_are_refused(kind, change):
    X, y = labelled(60, 2)
    model = (
        ConformalClassifier(linear.AROW(), window=20).fit(X, y)
        if kind == "classifier"
        else ConformalRegressor(linear.AROWRegressor(), window=20).fit(X, y)
    )
    state = model.__getstate__() | change
    with pytest.raises(ValueError, match=r".+"):
        type(model).__new__(type(model)).__setstate__(state)
    assert type(model).__new__(type(model)).__setstate__(model.__getstate__()) is None


@pytest.mark.parametrize("total", [-1, 10**6, 1.5])
def test_an_invalid_total_size_is_refused(total):
    X, y = labelled(60, 2)
    state = ConformalClassifier(linear.AROW(), window=20).fit(X, y).__getstate__() | {
        "total_set_size_": total
    }
    with pytest.raises(ValueError, match="number of classes in all sets"):
        ConformalClassifier.__new__(ConformalClassifier).__setstate__(state)


def test_the_traces_say_what_was_covered():
    X, y = labelled(500, 3)
    trace = ConformalClassifier(linear.AROW()).progressive_fit(X, y)
    assert f"coverage {trace.coverage:.3f}" in repr(trace)
    assert "mean size of a set" in trace._repr_html_()
    plain = linear.AROW().progressive_fit(X, y)
    assert np.isnan(plain.coverage)
    assert np.isnan(plain.mean_set_size)
    assert "coverage" not in repr(plain)
    regression = ConformalRegressor(linear.AROWRegressor()).progressive_fit(X, y)
    low, high = regression.intervals.T
    assert regression.median_width == np.median(high - low)
    assert np.isnan(linear.AROWRegressor().progressive_fit(X, y).median_width)


def test_bounds_need_sensible_numbers():
    for coverage, step in ((1.0, 0.1), (0.0, 0.1), (0.9, 0.0)):
        with pytest.raises(bounds.AssumptionError):
            bounds.conformal_misses(10, coverage, step)
        with pytest.raises(bounds.AssumptionError):
            bounds.conformal_deviation(coverage, step)
