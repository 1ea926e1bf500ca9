"""The detectors: equality with references, the threshold and its bound, cuts, files, bad input, river."""

import copy
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
import reference as ref
from reference import detection, regression
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import budgetron
from budgetron import NormaDetector, SecondOrderDetector, bounds, certify
from budgetron._base.access import add_features
from budgetron._base.alarms import WINDOW, AlarmThreshold
from budgetron.kernels import Normalized

river = pytest.importorskip("budgetron.river", reason="river is not installed")

GAMMA = 0.3
MODELS = {
    "norma": partial(NormaDetector, 12, 0.05, gamma=GAMMA, false_alarm_rate=0.1),
    "norma, few supports": partial(NormaDetector, 5, 0.2, 0.1, gamma=GAMMA),
    "norma, poly": partial(NormaDetector, 12, kernel="poly", gamma=0.5, coef0=1.0, degree=2),
    "second order": partial(SecondOrderDetector, 12, 0.05, gamma=GAMMA, false_alarm_rate=0.1),
    "second order, forget": partial(SecondOrderDetector, 12, 0.05, 0.3, forget=0.97, gamma=GAMMA),
    "second order, mean": partial(SecondOrderDetector, 12, 0.05, 0.3, score_by="mean", gamma=GAMMA),
    "second order, poly": partial(
        SecondOrderDetector, 12, 0.05, kernel=Normalized("poly"), gamma=0.5, coef0=1.0, degree=2
    ),
}


def stream(n=160, d=4, seed=0):
    """Return rows with duplicates and rows of zeros, whose distribution changes in the middle."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + np.where(np.arange(n) < n // 2, 0.0, 1.5)[:, None]
    X[rng.random((n, d)) < 0.3] = 0.0
    X[5::17], X[7::23] = X[4], 0.0
    return X


def gram(X):
    return ref.gram(ref.KERNELS["rbf"][0], X, gamma=GAMMA)


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


# ---------------------------------------------------------------------- references


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("budget", "eta", "nu"), [(9, 0.2, 0.5), (9, 0.05, 0.1), (200, 0.1, 0.9)])
def test_norma_equals_reference(budget, eta, nu, sparse):
    X = stream()
    run = detection.NormaNovelty(gram(X), budget, eta, nu)
    model = NormaDetector(budget, eta, nu, gamma=GAMMA)
    for t in range(len(X)):
        before = model.score_samples(X[t : t + 1])[0] if t else 0.0
        value, rho = run.play(t)
        assert before == pytest.approx(value, abs=1e-12)
        trace = model.progressive_fit(csr_array(X[t : t + 1]) if sparse else X[t : t + 1], ledger=True)
        assert trace.scores[0] == pytest.approx(value, abs=1e-12)
        assert trace.ledger["threshold"][0] == pytest.approx(rho, abs=1e-12)
        assert model.support_.tolist() == list(run.alpha)
    assert budget == 200 or len(run.alpha) == budget  # otherwise this tests no removal
    np.testing.assert_allclose(model.dual_coef_[0], list(run.alpha.values()), atol=1e-12)


@pytest.mark.parametrize("score", ["variance", "mean"])
@pytest.mark.parametrize("forget", [1.0, 0.97])
def test_second_order_equals_reference(forget, score):
    X = stream()
    model = SecondOrderDetector(12, 0.05, 0.1, forget=forget, score_by=score, gamma=GAMMA)
    arguments = {"budget": 12, "threshold": 0.05, "r": 0.1, "prior": 1.0, "forget": forget}
    run = regression.SecondOrderRegression(gram(X), np.ones(len(X)), linear=None, weights=None, **arguments)
    trace = model.progressive_fit(X, ledger=True)
    played = MODELS["second order"]().set_params(forget=forget, score_by=score)
    for t, x in enumerate(X):
        mean, variance = run.play(t)
        expected = mean if score == "mean" else 1.0 - variance
        assert trace.scores[t] == pytest.approx(expected, abs=1e-8)
        if t:
            assert played.score_row(x) == pytest.approx(expected, abs=1e-8)
            assert played.score_samples(X[t : t + 1])[0] == pytest.approx(expected, abs=1e-8)
        assert played.play(x) == pytest.approx(expected, abs=1e-8)
    np.testing.assert_array_equal(model.support_, run.supports)
    np.testing.assert_allclose(model.dual_coef_, run.coefficients(), atol=1e-6)
    assert run.exchanged > 0  # otherwise this tests no exchange


def test_second_order_without_limits_is_kernel_ridge_regression_of_1():
    X = stream(80)
    model = SecondOrderDetector(200, 0.0, 0.3, score_by="mean", gamma=GAMMA)
    np.testing.assert_allclose(
        model.progressive_fit(X).scores, detection.one_class_mean(gram(X), 0.3), atol=1e-8
    )


def test_second_order_without_limits_is_the_variance_of_a_gaussian_process():
    X = stream(80)
    model = SecondOrderDetector(200, 0.0, 0.3, gamma=GAMMA)
    found = model.progressive_fit(X).scores
    np.testing.assert_allclose(found, 1.0 - detection.variances(gram(X), 0.3), atol=1e-8)
    assert found[0] == 0.0
    assert found[-1] > 0.5
    assert model.score_samples([[1e3] * 4]) == pytest.approx([0.0], abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_nearly_are_in_the_span_do_not_spoil_scores(dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2)).astype(dtype)
    model = SecondOrderDetector(600, 0.0, 0.1, gamma=0.5).fit(X)
    assert len(model.support_) < 300  # most rows are in the span, up to rounding
    wide = X.astype(np.float64)
    K = ref.gram(ref.KERNELS["rbf"][0], wide, gamma=0.5)
    true = np.einsum("ij,ij->i", K, np.linalg.solve(K + 0.1 * np.eye(600), K).T)
    np.testing.assert_allclose(model.score_samples(X), true, atol=1e-5 if dtype == np.float64 else 5e-3)


def test_a_row_between_clusters_is_unusual():
    rng = np.random.default_rng(0)
    centers = np.array([[-1.5, 0.0], [1.5, 0.0], [0.0, 1.5], [0.0, -1.5]])
    X = centers[rng.integers(4, size=1500)] + 0.2 * rng.normal(size=(1500, 2))
    between = {}
    for score in ("variance", "mean"):
        model = SecondOrderDetector(60, gamma=0.5, score_by=score).fit(X)
        between[score] = (model.score_samples(X) <= model.score_samples([[0.0, 0.0]])).mean()
    assert between["variance"] < 0.01
    assert between["mean"] > 0.2


def test_only_known_scores_are_accepted():
    with pytest.raises(ValueError, match="score_by"):
        SecondOrderDetector(score_by="median").fit(stream())


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.01, 0.0003])
@pytest.mark.parametrize("kind", ["random", "rising", "falling", "steps", "equal", "swings"])
def test_thresholds_equal_reference(rate, kind):
    n = WINDOW + 300
    scores = scores_of(kind, n)
    threshold = AlarmThreshold(rate, False)
    found = np.array([threshold.observe(score) for score in scores.tolist()])
    expected = detection.alarm_thresholds(scores, rate)
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert threshold.alarms == np.sum(scores < found) == np.sum(scores < expected)
    assert threshold.alarms <= bounds.false_alarms(n, rate)
    assert threshold.alarms >= rate * n - (1.0 - rate) / (0.1 * rate) - rate
    if kind == "random" and rate >= 0.01:
        assert threshold.alarms == pytest.approx(rate * n, abs=12)


def scores_of(kind, n):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=n)
    return {
        "random": noise,
        "rising": np.arange(n) + 0.1 * noise,
        "falling": -np.arange(n) + 0.1 * noise,
        "steps": np.floor(np.arange(n) / 300) * -5.0 + noise,
        "equal": np.full(n, 0.7),
        "swings": 10.0 * np.sin(np.arange(n) / 50) + noise,
    }[kind]


def test_the_threshold_forgets_old_scores():
    threshold = AlarmThreshold(0.5, False)
    for score in [*np.zeros(WINDOW), *np.ones(WINDOW)]:
        threshold.observe(float(score))
    assert set(threshold.ordered) == {1.0}
    assert len(threshold.ordered) == WINDOW


# ---------------------------------------------------------------------- the bound


def against(model, rng, n, d):
    """Return rows chosen against the detector: each is the least usual of a few."""
    rows = []
    for t in range(n):
        candidates = rng.normal(size=(4, d)) * rng.choice([0.1, 1.0, 10.0])
        scores = model.score_samples(candidates) if t else np.zeros(4)
        rows.append(candidates[int(scores.argmin())])
        model.play(rows[-1])
    return np.array(rows)


@pytest.mark.parametrize("cls", [NormaDetector, SecondOrderDetector])
def test_alarms_are_at_most_their_bound_on_200_streams(cls):
    ratios = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        rate = float(rng.choice([0.02, 0.1, 0.5, 0.9]))
        make = partial(cls, 8, gamma=0.5, false_alarm_rate=rate)
        n, d = int(rng.integers(5, 60)), int(rng.integers(1, 4))
        X = against(make(), rng, n, d) if seed % 2 else stream(2 * n, d, seed)
        model = make()
        trace = model.progressive_fit(X)
        certificate = certify(model, X, None, trace)
        assert certificate.holds, certificate
        assert certificate.count == trace.alarms.sum() == model.alarms_
        ratios.append(certificate.ratio)
    assert max(ratios) > 0.7  # the bound is not far away, so that a wrong one would be violated


def test_certificates_say_what_is_wrong():
    X = stream()
    model = NormaDetector(9, gamma=GAMMA)
    trace = model.progressive_fit(X)
    assert "competitor" not in str(certify(model, X, None, trace))
    for arguments, message in [
        ((X[1:], None, trace), "the whole stream"),
        ((X, None, trace, X[0]), "compares with no competitor"),
    ]:
        with pytest.raises(ValueError, match=message):
            certify(model, *arguments)
    with pytest.raises(ValueError, match="has no theorem forgetron"):
        certify(model, X, None, trace, theorem="forgetron")
    with pytest.raises(TypeError, match="progressive_fit"):
        certify(model, X, None, None)
    other = NormaDetector(9, gamma=GAMMA, false_alarm_rate=0.5)
    other.fit(X)
    with pytest.raises(ValueError, match="the model's own"):
        certify(other, X, None, trace)
    with pytest.raises(ValueError, match="only detectors have none"):
        certify(budgetron.Forgetron(), X, None, trace)
    with pytest.raises(TypeError, match="progressive_fit"):
        certify(budgetron.Forgetron(), X, np.ones(len(X)), trace)


# ---------------------------------------------------------------------- what all detectors do


def test_any_cut_of_the_stream(name):
    X = stream()
    whole, cut, played = (MODELS[name]() for _ in range(3))
    trace = whole.progressive_fit(X)
    parts = [cut.progressive_fit(X[a:b]) for a, b in [(0, 1), (1, 40), (40, 41), (41, 160)]]
    np.testing.assert_allclose(np.concatenate([part.scores for part in parts]), trace.scores, atol=1e-8)
    np.testing.assert_array_equal(np.concatenate([part.alarms for part in parts]), trace.alarms)
    np.testing.assert_array_equal(cut.support_, whole.support_)
    rows = [csr_array(x[None]) if t % 3 else x for t, x in enumerate(X)]
    np.testing.assert_allclose([played.play(x) for x in rows], trace.scores, atol=1e-8)
    for other in (cut, played):
        np.testing.assert_allclose(other.decision_function(X), whole.decision_function(X), atol=1e-8)
        assert other.alarms_ == whole.alarms_


@pytest.mark.parametrize("n", [90, WINDOW + 40])
def test_save_load_and_pickle_resume_exactly(name, n, tmp_path):
    X = stream(n + 70)
    never = MODELS[name]().fit(X[:n])
    path = tmp_path / "model.budgetron"
    budgetron.save(never, path)
    others = [budgetron.load(path), pickle.loads(pickle.dumps(never)), copy.copy(never)]
    expected = never.progressive_fit(X[n:])
    for other in others:
        trace = other.progressive_fit(X[n:])
        np.testing.assert_array_equal(trace.scores, expected.scores)
        np.testing.assert_array_equal(trace.offsets, expected.offsets)
        np.testing.assert_array_equal(other.decision_function(X), never.decision_function(X))
        assert (other.alarms_, other.rounds_) == (never.alarms_, n + 70)


def test_predictions_do_not_change_the_model(name):
    X = stream()
    model = MODELS[name]().fit(X)
    before = pickle.dumps(model)
    scores = model.score_samples(X)
    np.testing.assert_array_equal(model.predict(X), np.where(scores < model.offset_, -1, 1))
    np.testing.assert_allclose(model.decision_function(X), scores - model.offset_)
    assert model.score_row(X[3]) == pytest.approx(scores[3], abs=1e-9)
    assert pickle.dumps(model) == before


def test_both_precisions_and_sparse_rows(name):
    X = stream()
    exact = MODELS[name]().progressive_fit(X).scores
    model = MODELS[name]()
    single = model.progressive_fit(X.astype(np.float32)).scores
    assert np.abs(single - exact).max() < 1e-2 * np.abs(exact).max()
    assert model._learners[0].dtype == np.float32
    np.testing.assert_allclose(MODELS[name]().progressive_fit(csr_array(X)).scores, exact, atol=1e-8)


def test_wide_sparse_rows():
    X = csr_array(np.random.default_rng(0).binomial(1, 0.005, (60, 1500)).astype(float))
    for cls in budgetron.detectors():
        model, twin = (cls(10, gamma=0.1) for _ in range(2))
        expected = twin.progressive_fit(X.toarray()).scores
        np.testing.assert_allclose(model.progressive_fit(X).scores, expected, atol=1e-8)
        assert model._learners[0].supports.sparse


def test_memory_is_fixed(name):
    model = MODELS[name]().fit(stream())
    before = model.nbytes_
    assert before > 16 * WINDOW
    model.partial_fit(stream(3000, seed=1))
    assert model.nbytes_ == before
    assert model.n_support_ <= model.budget


def test_bad_input_leaves_the_model_unchanged(name):
    X = stream()
    model = MODELS[name]().fit(X)
    before = pickle.dumps(model)
    bad = X.copy()
    bad[3, 1] = np.nan
    for rows, message in [(bad, "NaN"), (X[:, :2], "features"), (X[0], "2D")]:
        for method in ("partial_fit", "progressive_fit", "predict", "score_samples"):
            with pytest.raises(ValueError, match=message):
                getattr(model, method)(rows)
    for x in (X[0, :2], bad[3], np.full(4, 1e200)):
        with pytest.raises(ValueError, match=r"features|finite|large"):
            model.play(x)
    with pytest.raises(TypeError, match="unexpected keyword"):
        model.partial_fit(X, classes=[0, 1])
    assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match="false_alarm_rate changed since the first call"):
        model.set_params(false_alarm_rate=0.3).partial_fit(X)
    for value in (0.0, 1.0, -1, "a", None):
        with pytest.raises(ValueError, match="false_alarm_rate"):
            clone(model).set_params(false_alarm_rate=value).fit(X)


def test_errors_in_a_kernel_leave_the_model_unchanged():
    X = stream()
    calls = []

    def kernel(A, B):
        calls.append(1)
        if len(calls) > 60:
            raise RuntimeError("no kernel values")
        return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2))

    model = NormaDetector(6, kernel=kernel).fit(X[:20])
    scores, alarms, offset = model.dual_coef_, model.alarms_, model.offset_
    calls.extend([1] * 100)
    for learn in (lambda: model.partial_fit(X[20:]), lambda: model.play(X[20])):
        with pytest.raises(RuntimeError, match="no kernel values"):
            learn()
    np.testing.assert_array_equal(model.dual_coef_, scores)
    assert (model.rounds_, model.alarms_, model.offset_) == (20, alarms, offset)


def test_added_features_were_0_all_along(name):
    X = stream()
    late = MODELS[name]().fit(X)
    add_features(late, 6)
    early = MODELS[name]().fit(np.pad(X, ((0, 0), (0, 2))))
    more = stream(60, 6, seed=3)
    found, expected = (model.progressive_fit(more).scores for model in (late, early))
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_states_from_outside_are_checked(name):
    model = MODELS[name]().fit(stream())
    wrongs = {
        "scores": [np.zeros(3), np.full(160, np.nan), np.zeros(160, np.float32), None],
        "alarms": [-1, 161, 1.0, None, 159],
    }
    for key, values in wrongs.items():
        for wrong in values:
            state = copy.deepcopy(model.__getstate__())
            state["_threshold"][key] = wrong
            with pytest.raises(ValueError, match=r"scores|alarms"):
                clone(model).__setstate__(state)
    if isinstance(model, NormaDetector):
        for wrong in (None, 1, np.nan, np.inf, 1e200, "a"):
            state = copy.deepcopy(model.__getstate__())
            state["_learners"]["states"][0]["rho"] = wrong
            with pytest.raises(ValueError, match="rho"):
                clone(model).__setstate__(state)


def test_trace(name, tmp_path):
    X = stream()
    trace = MODELS[name]().progressive_fit(X, ledger=True)
    assert len(trace) == len(X) == len(trace.ledger["norm"])
    np.testing.assert_array_equal(trace.alarms, trace.scores < trace.offsets)
    assert trace.alarm_rate == trace.alarms.mean()
    assert f"{trace.alarms.sum()} alarms" in repr(trace)
    assert "share of alarms" in trace._repr_html_()
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    trace.plot(tmp_path / "trace.png")
    assert (tmp_path / "trace.png").stat().st_size > 0


@pytest.mark.parametrize("cls", [NormaDetector, SecondOrderDetector])
def test_unusual_rows_are_found(cls):
    rng = np.random.default_rng(0)
    model = cls(50, gamma=0.5).fit(rng.normal(size=(1500, 2)))
    rows = np.vstack([rng.normal(size=(200, 2)), rng.normal(size=(50, 2)) + 4.0])
    assert roc_auc_score(np.arange(250) < 200, model.score_samples(rows)) > 0.97
    assert (model.predict(rows)[:200] == -1).mean() < 0.05
    assert (model.predict(rows)[200:] == -1).mean() > 0.5


IN_SAMPLE = dict.fromkeys(
    ["check_outliers_fit_predict", "check_outliers_train", "check_outliers_train(readonly_memmap=True)"],
    "they need an alarm among 300 rows that were learned; the threshold is for new rows, which score lower",
)


def expected_failures(model):
    return {} if model.false_alarm_rate > 0.1 else IN_SAMPLE


@parametrize_with_checks(
    [
        NormaDetector(),
        SecondOrderDetector(),
        NormaDetector(false_alarm_rate=0.5),
        SecondOrderDetector(false_alarm_rate=0.8, forget=0.99),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---------------------------------------------------------------------- river

ADAPTERS = [river.NormaDetector, river.SecondOrderDetector]


def dicts(n=120):
    rng = np.random.default_rng(0)
    return [
        {f"f{j}": float(v) for j, v in enumerate(rng.normal(size=6)) if rng.random() < 0.8 and 20 * j <= t}
        for t in range(1, n + 1)
    ]


@pytest.mark.parametrize("cls", ADAPTERS)
@pytest.mark.parametrize("batch", [1, 7, 120])
def test_river_learn_many_equals_the_loop(cls, batch):
    one, many = cls(10, false_alarm_rate=0.2), cls(10, false_alarm_rate=0.2)
    rows = [x for x in dicts() if x]
    assert one.score_one(rows[0]) == 0.0
    assert one.predict_one(rows[0]) is False
    for x in rows:
        before, alarm = one.alarms_, one.predict_one(x)
        knows_all = x.keys() <= set(one.to_parts()["features"])
        one.learn_one(x)
        if knows_all:  # predictions ignore features that are new
            assert one.alarms_ - before == alarm
    for start in range(0, len(rows), batch):
        many.learn_many(pd.DataFrame(rows[start : start + batch]))
    found = [[model.score_one(x) for x in rows[:20]] for model in (one, many)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6, atol=1e-9)
    assert one.alarms_ == many.alarms_ > 0
    assert many.nbytes_ == many.to_parts()["model"].nbytes_


@pytest.mark.parametrize("cls", ADAPTERS)
def test_river_models_in_files(cls, tmp_path):
    model, rows = cls(10), [x for x in dicts() if x]
    for x in rows[:80]:
        model.learn_one(x)
    budgetron.save(model, tmp_path / "model")
    for other in (budgetron.load(tmp_path / "model"), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        twin = copy.deepcopy(model)
        for x in rows[80:]:
            assert other.score_one(x) == twin.score_one(x)
            other.learn_one(x)
            twin.learn_one(x)
    before = model.score_one(rows[0]), model.to_parts()["features"]
    for x in ({"a": np.inf}, {"f0": "text"}, {"f0": 1e200}):
        with pytest.raises((ValueError, TypeError)):
            model.learn_one(x)
    assert (model.score_one(rows[0]), model.to_parts()["features"]) == before
