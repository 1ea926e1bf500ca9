"""The regressors: equality with references, cuts, files, bad input, scikit-learn, and bounds."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
import reference as ref
from reference import regression
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.utils.estimator_checks import parametrize_with_checks

import budgetron
from budgetron import (
    ConformalRegressor,
    KernelPARegressor,
    NormaRegressor,
    SecondOrderRegressor,
    certify,
    linear,
)
from budgetron._base.access import add_features
from budgetron.bounds import AssumptionError
from budgetron.linear import AROWRegressor, PARegressor

GAMMA = 0.3
SMALL = {"budget": 12, "gamma": GAMMA, "threshold": 0.05}

MODELS = {
    "second order": partial(SecondOrderRegressor, **SMALL),
    "second order, forget": partial(SecondOrderRegressor, **SMALL, forget=0.97, r=0.3),
    "second order, no linear part": partial(SecondOrderRegressor, **SMALL, linear=False, prior=3.0),
    "kernel PA": partial(KernelPARegressor, 0.5, "PA", gamma=GAMMA),
    "kernel PA-I": partial(KernelPARegressor, 0.5, budget=12, gamma=GAMMA),
    "kernel PA-II": partial(KernelPARegressor, 0.5, "PA-II", gamma=GAMMA, budget=30),
    "norma": partial(NormaRegressor, 12, gamma=GAMMA),
    "norma, huber": partial(NormaRegressor, 12, 0.5, 0.01, "huber", 0.3, rate="decreasing", gamma=GAMMA),
    "norma, epsilon": partial(NormaRegressor, 30, loss="epsilon-insensitive", gamma=GAMMA),
    "ridge": AROWRegressor,
    "ridge, forget": partial(AROWRegressor, 0.5, forget=0.95, prior=2.0),
    "vaw": partial(AROWRegressor, 0.5, variant="vaw"),
    "ridge, diagonal": partial(AROWRegressor, covariance="diagonal"),
    "ridge, diagonal, forget": partial(AROWRegressor, covariance="diagonal", forget=0.95),
    "PA": partial(PARegressor, variant="PA"),
    "PA-I": partial(PARegressor, 0.3),
    "PA-II": partial(PARegressor, 0.3, "PA-II", fit_intercept=False),
}


def stream(n=160, d=4, seed=0):
    """Return rows and targets, with duplicates, rows of zeros, and a change of the concept in the middle."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[rng.random((n, d)) < 0.3] = 0.0
    X[5::17], X[7::23] = X[4], 0.0
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 1.5 + 0.1 * rng.normal(size=n)
    return X, np.where(np.arange(n) < n // 2, y, -y)


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


def gram(X):
    return ref.gram(ref.KERNELS["rbf"][0], X, gamma=GAMMA)


# ---------------------------------------------------------------------- references


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("parameters", "weighted"),
    [
        ({}, False),
        ({"forget": 0.97}, False),
        ({"linear": False, "r": 0.5, "prior": 2.0}, True),
        ({"budget": 200}, False),
    ],
)
def test_second_order_equals_reference(parameters, weighted, sparse):
    X, y = stream()
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], len(y)) if weighted else None
    arguments = {"budget": 12, "threshold": 0.05, "r": 0.1, "prior": 1.0, "linear": True} | parameters
    model = SecondOrderRegressor(**arguments, gamma=GAMMA)
    linear_part = GAMMA * X @ X.T + 1.0 if arguments.pop("linear") else None
    run = regression.SecondOrderRegression(gram(X), y, linear=linear_part, weights=weights, **arguments)
    rows = csr_array(X) if sparse else X
    if weighted:
        for t in range(len(y)):
            before = model.predict(X[t : t + 1])[0] if t else 0.0
            assert before == pytest.approx(run.play(t)[0], abs=1e-8)
            model.partial_fit(rows[[t]], y[t : t + 1], weights[t : t + 1])
    else:
        trace = model.progressive_fit(rows, y, ledger=True)
        played = np.array([run.play(t) for t in range(len(y))])
        np.testing.assert_allclose(trace.predictions, played[:, 0], atol=1e-8)
        full = trace.ledger["variance"] < 1e9
        assert full.all()
        single = clone(model)
        np.testing.assert_allclose(
            [single.play(x, t) for x, t in zip(X, y, strict=True)], played[:, 0], atol=1e-8
        )
    np.testing.assert_array_equal(model.support_, run.supports)
    np.testing.assert_allclose(model.dual_coef_, run.coefficients(), atol=1e-6)
    assert model.noise_variance_ == pytest.approx(run.noise_variance, rel=1e-7)
    if arguments["budget"] == 12:
        assert run.exchanged > 0  # otherwise this tests no exchange
    # The deviation of a new row is that of the reference, which plays it as its next round.
    more, targets = stream(20, seed=2)
    _, deviations = model.predict(csr_array(more) if sparse else more, return_std=True)
    both = np.vstack([X, more])
    longer = regression.SecondOrderRegression(
        gram(both),
        np.append(y, targets),
        linear=None if linear_part is None else GAMMA * both @ both.T + 1.0,
        weights=None if weights is None else np.append(weights, np.zeros(20)),
        **arguments,
    )
    for t in range(len(y)):
        longer.play(t)
    noise, r = model.noise_variance_, arguments["r"]
    longer.weights = np.append(np.ones(len(y)) if weights is None else weights, np.zeros(20))
    expected = [np.sqrt(noise * (1.0 + longer.play(len(y) + i)[1] / r)) for i in range(20)]
    np.testing.assert_allclose(deviations, expected, rtol=1e-5)


@pytest.mark.parametrize("variant", ["ridge", "vaw"])
@pytest.mark.parametrize("sparse", [False, True])
def test_arow_equals_the_normal_equations(variant, sparse):
    X, y = stream()
    model = AROWRegressor(0.5, variant=variant, prior=2.0)
    trace = model.progressive_fit(csr_array(X) if sparse else X, y)
    rows = np.hstack([np.ones((len(X), 1)), X])
    solve = regression.ridge_predictions if variant == "ridge" else regression.vaw_predictions
    np.testing.assert_allclose(trace.predictions, solve(rows, y, 0.25), atol=1e-9)
    single = clone(model)
    played = [single.play(x, t) for x, t in zip(X, y, strict=True)]
    np.testing.assert_allclose(played, trace.predictions, atol=1e-9)
    # `predict` is what the next round would predict.
    assert single.predict(X[:1])[0] == pytest.approx(copy.deepcopy(single).play(X[0], 1.0), abs=1e-9)
    u = np.linalg.solve(rows.T @ rows + 0.25 * np.eye(5), rows.T @ y)
    np.testing.assert_allclose(np.append(model.intercept_, model.coef_), u, atol=1e-9)


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("forget", [1.0, 0.95])
def test_arow_equals_bayes_rule(diagonal, forget):
    X, y = stream()
    weights = np.random.default_rng(1).choice([0.0, 0.5, 2.0], len(y))
    covariance = "diagonal" if diagonal else "full"
    model = AROWRegressor(0.5, covariance, prior=2.0, forget=forget, fit_intercept=False)
    run = regression.LinearGaussian(4, 0.5, 2.0, forget, diagonal)
    for x, target, weight in zip(X, y, weights, strict=True):
        if run.weight:
            mean, deviation = model.predict(x[None], return_std=True)
            expected, v = run.play(x, target, weight)
            assert mean[0] == pytest.approx(expected, abs=1e-9)
            assert deviation[0] == pytest.approx(np.sqrt(model.noise_variance_ * (1.0 + v / 0.5)), rel=1e-7)
        else:
            run.play(x, target, weight)
        model.partial_fit(x[None], [target], [weight])
        if run.weight:
            assert model.noise_variance_ == pytest.approx(run.noise_variance, rel=1e-9)


@pytest.mark.parametrize("variant", ["PA", "PA-I", "PA-II"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_pa_equals_reference(variant, fit_intercept):
    X, y = stream()
    rows = np.hstack([np.ones((len(X), 1)), X]) if fit_intercept else X
    weights = np.ones(len(y)) if variant == "PA" else np.random.default_rng(1).choice([0.0, 0.5, 2.0], len(y))
    run = regression.PassiveAggressiveRegression(rows @ rows.T, y, 0.3, variant, 0.2)
    model = PARegressor(0.3, variant, 0.2, fit_intercept=fit_intercept)
    for t in range(len(y)):
        before = model.predict(X[t : t + 1])[0] if t else 0.0
        assert before == pytest.approx(run.play(t, weights[t]), abs=1e-9)
        model.partial_fit(X[t : t + 1], y[t : t + 1], weights[t : t + 1])
    w = sum(c * rows[s] for s, c in run.alpha.items())
    found = np.append(model.intercept_, model.coef_) if fit_intercept else model.coef_
    np.testing.assert_allclose(found, w, atol=1e-9)


@pytest.mark.parametrize("budget", [None, 7])
@pytest.mark.parametrize("variant", ["PA", "PA-I", "PA-II"])
def test_kernel_pa_equals_reference(variant, budget):
    X, y = stream()
    weights = np.ones(len(y)) if variant == "PA" else np.random.default_rng(1).choice([0.0, 0.5, 2.0], len(y))
    run = regression.PassiveAggressiveRegression(gram(X), y, 0.3, variant, 0.2, budget)
    model = KernelPARegressor(0.3, variant, 0.2, budget=budget, gamma=GAMMA)
    for t in range(len(y)):
        before = model.predict(X[t : t + 1])[0] if t else 0.0
        assert before == pytest.approx(run.play(t, weights[t]), abs=1e-9)
        model.partial_fit(X[t : t + 1], y[t : t + 1], weights[t : t + 1])
        assert model.support_.tolist() == list(run.alpha)
    np.testing.assert_allclose(model.dual_coef_[0], list(run.alpha.values()), atol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "epsilon-insensitive", "huber"])
@pytest.mark.parametrize("rate", ["constant", "decreasing"])
@pytest.mark.parametrize("weighted", [False, True])
def test_norma_equals_reference(loss, rate, weighted):
    X, y = stream()
    weights = np.random.default_rng(1).choice([0.0, 0.5, 2.0], len(y)) if weighted else np.ones(len(y))
    run = regression.Norma(gram(X), y, 9, 0.3, 0.05, loss, 0.2, rate)
    model = NormaRegressor(9, 0.3, 0.05, loss, 0.2, rate=rate, gamma=GAMMA)
    for t in range(len(y)):
        before = model.predict(X[t : t + 1])[0] if t else 0.0
        assert before == pytest.approx(run.play(t, weights[t]), abs=1e-9)
        model.partial_fit(X[t : t + 1], y[t : t + 1], weights[t : t + 1])
        assert model.support_.tolist() == list(run.alpha)
    np.testing.assert_allclose(model.dual_coef_[0], list(run.alpha.values()), atol=1e-9)


def test_norma_refuses_steps_that_would_change_the_sign():
    with pytest.raises(ValueError, match="eta times regularization must be below 1"):
        NormaRegressor(eta=2.0, regularization=0.5).fit(*stream())


# ---------------------------------------------------------------------- what all regressors do


def test_any_cut_of_the_stream(name):
    X, y = stream()
    whole = MODELS[name]()
    trace = whole.progressive_fit(X, y)
    cut = MODELS[name]()
    parts = [
        cut.progressive_fit(X[a:b], y[a:b]).predictions for a, b in [(0, 1), (1, 40), (40, 41), (41, 160)]
    ]
    np.testing.assert_allclose(np.concatenate(parts), trace.predictions, atol=1e-8)
    np.testing.assert_allclose(cut.predict(X), whole.predict(X), atol=1e-8)
    if hasattr(whole, "support_"):
        np.testing.assert_array_equal(cut.support_, whole.support_)
    played = MODELS[name]()
    found = [
        played.play(csr_array(x[None]) if t % 3 else x, target)
        for t, (x, target) in enumerate(zip(X, y, strict=True))
    ]
    np.testing.assert_allclose(found, trace.predictions, atol=1e-8)


def test_save_load_and_pickle_resume_exactly(name, tmp_path):
    X, y = stream()
    never = MODELS[name]().fit(X[:90], y[:90])
    path = tmp_path / "model.budgetron"
    budgetron.save(never, path)
    others = [budgetron.load(path), pickle.loads(pickle.dumps(never)), copy.copy(never)]
    expected = never.progressive_fit(X[90:], y[90:]).predictions
    for other in others:
        assert type(other) is type(never)
        np.testing.assert_array_equal(other.progressive_fit(X[90:], y[90:]).predictions, expected)
        np.testing.assert_array_equal(other.predict(X), never.predict(X))
        assert other.rounds_ == never.rounds_ == 160


def test_predictions_do_not_change_the_model(name):
    X, y = stream()
    model = MODELS[name]().fit(X, y)
    before = pickle.dumps(model)
    model.predict(X)
    if hasattr(model, "noise_variance_"):
        model.predict(X, return_std=True)
    assert pickle.dumps(model) == before


def test_float32_rows(name):
    X, y = stream()
    model = MODELS[name]()
    trace = model.progressive_fit(X.astype(np.float32), y)
    exact = MODELS[name]().progressive_fit(X.astype(np.float32).astype(np.float64), y)
    assert abs(trace.rmse - exact.rmse) < 0.02 * exact.rmse
    assert model._learners[0].dtype == np.float32


def test_sparse_and_dense_rows_agree(name):
    X, y = stream()
    dense, sparse = MODELS[name](), MODELS[name]()
    expected = dense.progressive_fit(X, y).predictions
    np.testing.assert_allclose(sparse.progressive_fit(csr_array(X), y).predictions, expected, atol=1e-8)
    np.testing.assert_allclose(sparse.predict(csr_array(X)), dense.predict(X), atol=1e-8)


def test_bad_input_leaves_the_model_unchanged(name):
    X, y = stream()
    model = MODELS[name]().fit(X, y)
    before = pickle.dumps(model)
    bad = X.copy()
    bad[3, 1] = np.nan
    huge = y.copy()
    huge[7] = 1e31
    for rows, targets, message in [
        (bad, y, "NaN"),
        (X[:, :2], y, "features"),
        (X, y[:-1], "inconsistent"),
        (X, np.where(y > 1, np.inf, y), "infinity"),
        (X, huge, "the target of row 7 is 1e\\+31, which is too large; scale the targets"),
        (X, np.array(["a"] * len(y)), "could not convert|numeric|dtype"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.partial_fit(rows, targets)
    for x, target in [
        (X[0, :2], 0.0),
        (bad[3], 0.0),
        (X[0], np.nan),
        (X[0], "a"),
        (X[0], None),
        (X[0], 1e31),
    ]:
        with pytest.raises(ValueError, match=r"target|features|finite"):
            model.play(x, target)
    with pytest.raises(ValueError, match="sample_weight must not be negative"):
        model.partial_fit(X, y, np.full(len(y), -1.0))
    with pytest.raises(TypeError, match="unexpected keyword"):
        model.partial_fit(X, y, classes=[0, 1])
    assert pickle.dumps(model) == before
    if "r" in model.get_params():
        with pytest.raises(ValueError, match="r changed since the first call"):
            model.set_params(r=0.77).partial_fit(X, y)


def test_added_features_were_0_all_along(name):
    X, y = stream()
    late = MODELS[name]().fit(X, y)
    add_features(late, 6)
    early = MODELS[name]().fit(np.pad(X, ((0, 0), (0, 2))), y)
    more, targets = stream(60, 6, seed=3)
    found, expected = (model.progressive_fit(more, targets).predictions for model in (late, early))
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_trace(name):
    X, y = stream()
    trace = MODELS[name]().progressive_fit(X, y, ledger=True)
    np.testing.assert_array_equal(trace.residuals, y - trace.predictions)
    assert trace.rmse == pytest.approx(np.sqrt(np.mean((y - trace.predictions) ** 2)))
    assert trace.error_curve[-1] == pytest.approx(trace.rmse)
    assert trace.mae <= trace.rmse
    assert len(trace.ledger["norm"]) == len(y)
    assert f"RMSE {trace.rmse:.4g}" in repr(trace)
    assert "RMSE" in trace._repr_html_()
    assert MODELS[name]().progressive_fit(X, y).ledger is None


def test_wide_sparse_rows():
    X = csr_array(np.random.default_rng(0).binomial(1, 0.005, (60, 1500)).astype(float))
    y = np.asarray(X[:, [0, 700]].sum(axis=1)).ravel() + X[:, [3]].toarray()[:, 0]
    for model in (SecondOrderRegressor(10, gamma=0.1), AROWRegressor(), PARegressor()):
        twin = clone(model).fit(X.toarray(), y)
        model.fit(X, y)
        np.testing.assert_allclose(model.predict(X), twin.predict(X.toarray()), atol=1e-7)
        if isinstance(model, SecondOrderRegressor | AROWRegressor):
            found = [one.predict(X[:5], return_std=True)[1] for one in (model, twin)]
            np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_arow_becomes_diagonal_beyond_its_limit():
    X, y = stream()
    model = AROWRegressor().fit(X, y)
    noise = model.noise_variance_
    add_features(model, 1000)
    assert model._learners[0].covariance is None
    assert model.noise_variance_ == noise
    assert np.isfinite(model.partial_fit(np.ones((1, 1000)), [1.0]).predict(np.ones((1, 1000)))).all()


def test_read_only_rows_have_deviations():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = SecondOrderRegressor(20, gamma=0.3).fit(X, X[:, 0])
    rows = X.copy()
    rows.setflags(write=False)
    np.testing.assert_array_equal(
        model.predict(rows, return_std=True)[1], model.predict(X, return_std=True)[1]
    )


def test_deviations_are_calibrated():
    """The standardised residuals of a stream with noise have a variance of about 1."""
    X, y = make_friedman1(3000, noise=1.0, random_state=0)
    X, y = (X - 0.5) * 3.4, (y - 14.0) / 5.0
    model = SecondOrderRegressor(100, gamma=0.05).fit(X[:2000], y[:2000])
    mean, deviation = model.predict(X[2000:], return_std=True)
    assert 0.8 < np.mean(((y[2000:] - mean) / deviation) ** 2) < 1.25


def test_states_from_outside_are_checked():
    X, y = stream()
    for model in (SecondOrderRegressor(**SMALL).fit(X, y), AROWRegressor().fit(X, y)):
        for wrong in (
            np.zeros(3),
            np.array([-1.0, 2.0]),
            np.array([np.nan, 1.0]),
            np.array([1.0, 1e300]),
            None,
        ):
            state = copy.deepcopy(model.__getstate__())
            table = state["_learners"]["states"][0]
            table = table if "errors" in table else table["extra"]
            assert "errors" in table
            table["errors"] = wrong
            with pytest.raises(ValueError, match=r"errors|array|moderate|finite"):
                clone(model).__setstate__(state)


# ---------------------------------------------------------------------- scikit-learn

ONE_BY_ONE = dict.fromkeys(
    ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"],
    "rows are learned one after the other: a row of weight 2 differs from the same row twice",
)


def estimators():
    return [
        *(cls() for cls in [*budgetron.regressors(), *linear.regressors()]),
        AROWRegressor(variant="vaw"),
        AROWRegressor(covariance="diagonal"),
        AROWRegressor(forget=0.99),
        PARegressor(variant="PA-II", fit_intercept=False),
        KernelPARegressor(budget=50),
        NormaRegressor(eta=1.0, loss="huber"),
        ConformalRegressor(SecondOrderRegressor(50)),
        ConformalRegressor(PARegressor()),
    ]


def expected_failures(model):
    exact = isinstance(model, AROWRegressor) and model.covariance == "auto" and model.forget == 1.0
    return {} if exact else ONE_BY_ONE


@parametrize_with_checks(estimators(), expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---------------------------------------------------------------------- bounds


def adversarial(seed):
    """Return a stream that may be random, drifting, or chosen against the learner."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 80)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d)) * rng.choice([0.1, 1.0, 10.0])
    if seed % 3 == 0:
        y = X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)
    elif seed % 3 == 1:
        y = rng.choice([-1.0, 1.0], n) * rng.choice([0.5, 20.0])
    else:
        y = np.where(np.arange(n) < n // 2, X[:, 0], -X[:, 0]) + 3.0
    return X, y


@pytest.mark.parametrize(
    "make",
    [
        partial(AROWRegressor, variant="vaw"),
        partial(AROWRegressor, 0.1, variant="vaw", prior=3.0, fit_intercept=False),
        partial(PARegressor, variant="PA"),
        partial(PARegressor, 0.2, "PA-II"),
        partial(PARegressor, 5.0, "PA-II", epsilon=0.0),
        partial(KernelPARegressor, variant="PA", gamma=0.5),
        partial(KernelPARegressor, 0.2, "PA-II", kernel="poly", degree=2, coef0=1.0),
    ],
)
def test_bounds_hold_on_200_streams(make):
    ratios = []
    for seed in range(200):
        X, y = adversarial(seed)
        model = make()
        trace = model.progressive_fit(X, y)
        best = certify(model, X, y, trace)
        assert best.holds, best
        if isinstance(model, KernelPARegressor):
            ratios.append(best.ratio)
            continue
        u = np.random.default_rng(seed).normal(size=X.shape[1] + model.fit_intercept)
        assert certify(model, X, y, trace, u).holds
        assert best.bound <= certify(model, X, y, trace, 0.0 * u).bound * (1 + 1e-6)
        ratios.append(best.ratio)
    assert max(ratios) > 0.4  # the bounds are not far away, so that a wrong one would be violated


def test_the_bound_of_vaw_is_exact_in_its_proof():
    """Loss minus the best penalized loss equals the sum that the proof bounds, for any targets."""
    X, y = adversarial(1)
    model = AROWRegressor(0.5, variant="vaw", fit_intercept=False)
    trace = model.progressive_fit(X, y)
    certificate = certify(model, X, y, trace)
    d, A, total = X.shape[1], 0.5 * np.eye(X.shape[1]), 0.0
    b = np.zeros(d)
    for x, target in zip(X, y, strict=True):
        before = np.linalg.inv(A)
        A += np.outer(x, x)
        after = np.linalg.inv(A)
        total += target**2 * (x @ after @ x) - (b @ after @ x) ** 2 * (x @ before @ x)
        b = b + target * x
    regret = certificate.count - (certificate.losses + 0.5 * certificate.norm**2)
    assert regret == pytest.approx(total, rel=1e-6)


def test_certificates_say_what_is_wrong():
    X, y = stream()
    model = AROWRegressor(variant="vaw", forget=0.9)
    trace = model.progressive_fit(X, y)
    with pytest.raises(AssumptionError, match="forget = 1"):
        certify(model, X, y, trace)
    assert not certify(model, X, y, trace, check=False).applies
    with pytest.raises(ValueError, match="the whole stream"):
        certify(model, X[:-1], y[:-1], trace)
    with pytest.raises(ValueError, match="not those of y"):
        certify(model, X, y + 1.0, trace)
    ridge = AROWRegressor()
    with_ridge = ridge.progressive_fit(X, y)
    with pytest.raises(ValueError, match="has no theorem"):
        certify(ridge, X, y, with_ridge)
    with pytest.raises(ValueError, match="5 finite weights"):
        certify(model, X, y, trace, np.zeros(4))
    with pytest.raises(TypeError, match="progressive_fit"):
        certify(model, X, y, "trace")
