"""`BudgetRegressor`: a literal combination of its experts, memory, intervals, its bound, states and cuts."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from reference import regression
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import budgetron
from budgetron import BudgetRegressor, SecondOrderRegressor, certify, relevance
from budgetron._base.access import add_features
from budgetron._base.sizes import MemoryTooSmallError
from budgetron._core import squared_share
from budgetron.linear import AROWRegressor
from budgetron.portfolio import _regression as parts
from budgetron.portfolio._regression_experts import COMBINERS, DESIGNS, LAGS

MEMORY = "300kB"


def stream(n=2300, d=4, seed=0, drift=True):
    """Return a stream with interactions, an irrelevant feature, and a change."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1.0, 5.0, 0.1, 2.0][:d] + 3.0
    Z = (X - 3.0) / [1.0, 5.0, 0.1, 2.0][:d]
    y = 40.0 + 10.0 * np.sin(2.0 * Z[:, 0]) + 5.0 * Z[:, 1] * Z[:, 2] + rng.normal(size=n)
    if drift:
        y[n // 2 :] = 60.0 - y[n // 2 :]
    return X, y


# ---------------------------------------------------------------------- the combination


def random_predictions(n, N, seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n).round(1) * rng.choice([1.0, 1.0, 10.0], n)
    predictions = y[:, None] + rng.normal(size=(n, N)) * np.linspace(0.0, 2.0, N)
    y[:3] = 0.5  # equal targets: the range has no length
    return predictions.round(2), y


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
def test_combination_equals_reference(seed, weighted):
    predictions, y = random_predictions(200, 5, seed)
    rng = np.random.default_rng(seed)
    active = np.array([1, 0, 1, 1, 0], np.uint8)
    reference, recent, out = regression.Leader(5, 0.9), np.zeros(5), np.empty(200)
    given = predictions.copy()
    squared_share.lead(given, active, y, 0.9, recent, out)
    for t in range(200):
        lead = reference.predict(predictions[t], active)
        assert out[t] == lead
        row = np.where(active, predictions[t], lead)
        np.testing.assert_array_equal(given[t], row)
        reference.learn(row, y[t])
    np.testing.assert_allclose(recent, reference.recent, rtol=1e-12)

    prior = np.array([0.3, 0.3, 0.2, 0.1, 0.1])
    importances = rng.choice([0.0, 0.5, 1.0, 2.0], 200) if weighted else np.zeros(0)
    share = regression.FixedShareSquares(prior, 0.01)
    weights, reach = prior.copy(), np.array([np.inf, -np.inf, 0.0, 0.0])
    losses = np.empty((200, 5))
    squared_share.share(predictions, y, prior, 0.01, importances, weights, reach, out, losses)
    for t in range(200):
        combined, own = share.play(predictions[t], y[t], importances[t] if weighted else 1.0)
        assert out[t] == pytest.approx(combined, abs=1e-12)
        np.testing.assert_allclose(losses[t], own, atol=1e-12)
    np.testing.assert_allclose(weights, share.weights, rtol=1e-10)
    np.testing.assert_allclose(reach, [min(y), max(y), share.R, share.growth], rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_intervals_equal_reference(seed):
    predictions, y = random_predictions(300, 3, seed)
    p = np.ascontiguousarray(predictions[:, 1])
    scores, ordered = np.zeros(40), np.zeros(40)
    state = np.array([0.2, 0.0, 0.0, 0.0, np.inf, -np.inf])
    out = np.empty((300, 2))
    for rows in (slice(0, 7), slice(7, 100), slice(100, 300)):
        following = np.empty((1, 2))
        squared_share.next_intervals(p[rows][:1], ordered, state, following)
        squared_share.intervals(p[rows], y[rows], 0.8, 0.05, 0.9, scores, ordered, state, out[rows])
        np.testing.assert_array_equal(following[0], out[rows][0])
    reference = regression.AdaptiveInterval(0.8, 0.05, 0.9, 40)
    expected = [reference.play(*pair) for pair in zip(p, y, strict=True)]
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ordered, sorted(reference.scores[-40:]), rtol=1e-9)
    assert state[0] == pytest.approx(reference.m)


def literal_run(X, y, model, stop=None):
    """Play the stream row by row with single regressors as experts; return predictions and intervals.

    Only the number of supports of each kernel expert is taken from the model: the memory decides it. `stop`
    is the number of rows that are played; None means all.
    """
    portfolio = model._learners[0]
    d, n = X.shape[1], len(DESIGNS)
    budgets = budgets_of(X, y, model)
    experts, unit, scales = [None] * n, (0.0, 1.0), np.ones(d)
    combiners = [AROWRegressor(parts.COMBINER_NOISE, forget=keep, fit_intercept=False) for keep in COMBINERS]
    leader = regression.Leader(n, parts.LEADER_KEEP)
    share = regression.FixedShareSquares(portfolio.prior, parts.SHARED_PART)
    interval = regression.AdaptiveInterval(0.9, parts.INTERVAL_RATE, parts.SPREAD_KEEP, parts.SCORES_KEPT)
    active, totals, rows, found, bands = (
        [design.kind == "mean" for design in DESIGNS],
        np.zeros(n),
        [],
        [],
        [],
    )

    def row_of(i, t, first):
        past = [y[t - k] if t >= k else first for k in range(1, LAGS + 1)]
        lags = [(value - unit[0]) / unit[1] for value in past] if DESIGNS[i].lags else []
        return np.array([*lags, *(rows[t] * (scales if DESIGNS[i].scaled else 1.0))])

    def new(i, gamma):
        design = DESIGNS[i]
        if design.kind == "linear":
            return AROWRegressor(0.05, "full", forget=design.forget)
        return SecondOrderRegressor(budgets[i], 0.02, 0.05, forget=design.forget, gamma=gamma)

    def start(places, window, count):
        squares = [((a - b) ** 2).sum() for j, a in enumerate(window) for b in window[:j]]
        median = float(np.median(squares))
        least = min(leader.recent[i] for i in range(n) if active[i])
        for i in places:
            design = DESIGNS[i]
            experts[i] = new(i, design.width / (median + (2.0 * LAGS if design.lags else 0.0)))
            for t in range(count):
                experts[i].play(row_of(i, t, y[0]), (y[t] - unit[0]) / unit[1])
        for i in places:
            active[i], leader.recent[i] = True, 1.0001 * least

    for t in range(len(y))[:stop]:
        seen = X[: t + 1]
        deviation = seen.std(axis=0)
        rows.append(
            np.where(deviation > 0, (X[t] - seen.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), 0.0)
        )
        predictions = np.zeros(n)
        for i, design in enumerate(DESIGNS):
            if design.kind == "mean" and t > 0:
                powers = np.array([design.forget ** (t - 1 - s) for s in range(t)])
                predictions[i] = powers @ y[:t] / powers.sum()
            elif experts[i] is not None:
                value = experts[i].play(row_of(i, t, 0.0), (y[t] - unit[0]) / unit[1])
                predictions[i] = unit[0] + unit[1] * value
        lead = leader.predict(predictions, active)
        predictions = np.where(active, predictions, lead)
        leader.learn(predictions, y[t])
        totals += (predictions - y[t]) ** 2
        differences, residual = (predictions - lead) / unit[1], (y[t] - lead) / unit[1]
        added = [c.play(differences, residual) if t >= 50 else 0.0 for c in combiners]
        combined, _ = share.play([*(lead + unit[1] * np.array(added)), lead, *predictions], y[t])
        found.append(combined)
        bands.append(interval.play(combined, y[t]))
        if t + 1 == 50:
            unit = (y[:50].mean(), y[:50].std())
            kinds = [i for i, design in enumerate(DESIGNS) if design.kind != "mean" and not design.scaled]
            start([i for i in kinds if DESIGNS[i].kind == "linear" or budgets[i]], np.array(rows), 50)
        if t + 1 == 1000:
            window = np.array(rows)
            squares = [((a - b) ** 2).sum() for j, a in enumerate(window[:200]) for b in window[:j]]
            scales = relevance.feature_scales(
                window, y[:1000], 0.5 / np.median(squares), noise=0.1, max_rows=250, regression=True
            )
            start([i for i in range(n) if DESIGNS[i].scaled], window[:200] * scales, 1000)
            totals[:] = 0.0
        if t + 1 == 1500:
            for forgets in (False, True):
                group = [i for i in range(n) if budgets[i] and (DESIGNS[i].forget < 1.0) == forgets]
                for i in sorted(group, key=lambda i: totals[i])[2:]:
                    experts[i], active[i] = None, False
    return np.array(found), np.array(bands), active


def budgets_of(X, y, model):
    """Return the budget of each kernel expert of a model, before any of them ends."""
    early = clone(model).fit(X[:1000], y[:1000])
    kernels = zip(DESIGNS, early._learners[0].hypotheses, strict=True)
    return [expert.budget if design.kind == "kernel" else 0 for design, expert in kernels]


def test_equals_a_literal_combination():
    X, y = stream(2060)
    model = BudgetRegressor("12MB")
    trace = model.progressive_fit(X, y)
    expected, bands, active = literal_run(X, y, model)
    np.testing.assert_allclose(trace.predictions[:1000], expected[:1000], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(trace.predictions, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(trace.intervals[:1000], bands[:1000], rtol=1e-5, atol=1e-5)
    assert model._learners[0].active.astype(bool).tolist() == active


# ---------------------------------------------------------------------- cuts, states, copies


def test_any_cut_of_the_stream():
    X, y = stream()
    whole, cut = BudgetRegressor(MEMORY), BudgetRegressor(MEMORY)
    trace = whole.progressive_fit(X, y)
    edges = [0, 1, 30, 50, 51, 700, 1000, 1200, 1500, 1501, 2300]
    traces = [cut.progressive_fit(X[a:b], y[a:b]) for a, b in pairwise(edges)]
    np.testing.assert_allclose(
        np.concatenate([one.predictions for one in traces]), trace.predictions, rtol=1e-6
    )
    np.testing.assert_allclose(np.concatenate([one.intervals for one in traces]), trace.intervals, rtol=1e-5)
    np.testing.assert_allclose(cut.predict(X[:50]), whole.predict(X[:50]), rtol=1e-6)
    single = BudgetRegressor(MEMORY)
    played = [single.play(x, target) for x, target in zip(X[:120], y[:120], strict=True)]
    np.testing.assert_allclose(played, trace.predictions[:120], rtol=1e-7)


@pytest.mark.parametrize("rounds", [0, 1, 49, 50, 300, 1000, 1500, 2100])
def test_save_load_and_pickle_resume_exactly(rounds, tmp_path):
    X, y = stream()
    never = BudgetRegressor(MEMORY)
    if rounds:
        never.fit(X[:rounds], y[:rounds])
    budgetron.save(never, tmp_path / "model")
    others = [budgetron.load(tmp_path / "model"), pickle.loads(pickle.dumps(never)), copy.copy(never)]
    rest = slice(rounds, min(rounds + 700, len(y)))
    expected = never.progressive_fit(X[rest], y[rest])
    for other in others:
        found = other.progressive_fit(X[rest], y[rest])
        np.testing.assert_array_equal(found.predictions, expected.predictions)
        np.testing.assert_array_equal(found.intervals, expected.intervals)
        np.testing.assert_array_equal(other.predict_interval(X[:5]), never.predict_interval(X[:5]))
        assert other.experts_ == never.experts_


def test_predict_is_the_next_round():
    X, y = stream()
    for rounds in (1, 20, 60, 1100, 2100):
        model = BudgetRegressor(MEMORY).fit(X[:rounds], y[:rounds])
        before = pickle.dumps(model)
        predicted, interval = (
            model.predict(X[rounds : rounds + 1]),
            model.predict_interval(X[rounds : rounds + 1]),
        )
        assert pickle.dumps(model) == before
        trace = model.progressive_fit(X[rounds : rounds + 1], y[rounds : rounds + 1])
        np.testing.assert_allclose(predicted, trace.predictions, rtol=1e-9)
        np.testing.assert_allclose(interval, trace.intervals, rtol=1e-9)


def test_sparse_and_float32_rows():
    X, y = stream(1100)
    X[np.random.default_rng(0).random(X.shape) < 0.5] = 0.0
    expected = BudgetRegressor(MEMORY).progressive_fit(X, y)
    sparse = BudgetRegressor(MEMORY).progressive_fit(csr_array(X), y)
    np.testing.assert_allclose(sparse.predictions, expected.predictions, rtol=1e-9)
    single = BudgetRegressor(MEMORY)
    trace = single.progressive_fit(X.astype(np.float32), y)
    assert single._learners[0].dtype == np.float32
    assert abs(trace.rmse - expected.rmse) < 0.05 * expected.rmse


def test_units_of_the_targets_do_not_matter():
    X, y = stream(400)
    expected = BudgetRegressor(MEMORY).progressive_fit(X, y)
    for factor in (1e-12, 1e12):
        trace = BudgetRegressor(MEMORY).progressive_fit(1000.0 * X, factor * y)
        np.testing.assert_allclose(trace.predictions / factor, expected.predictions, rtol=1e-5)


def test_constant_targets_and_features():
    X = np.ones((1100, 2))
    model = BudgetRegressor(MEMORY)
    trace = model.progressive_fit(X, np.full(1100, 7.0))
    np.testing.assert_allclose(trace.predictions[1:], 7.0, rtol=1e-9)
    assert trace.coverage > 0.88  # rounding errors decide
    model.partial_fit(X[:5], [1e20, -1e20, 7.0, 7.0, 7.0])
    assert np.isfinite(model.predict(X)).all()


# ---------------------------------------------------------------------- memory


@pytest.mark.parametrize("memory", [40_000, 80_000, "200kB", "1MB", "16MB"])
@pytest.mark.parametrize("d", [1, 4, 60])
def test_memory_is_a_limit(memory, d):
    rng = np.random.default_rng(0)
    X, limit = rng.normal(size=(2100, d)), budgetron._util.units.parse_bytes(memory)
    y = X[:, 0] ** 2 + 0.1 * rng.normal(size=2100)
    model = BudgetRegressor(memory)
    if limit < 60_000 and d == 60:
        with pytest.raises(MemoryTooSmallError) as caught:
            model.fit(X, y)
        model = BudgetRegressor(caught.value.needed)
        assert limit < caught.value.needed < 200_000
        limit = caught.value.needed
    for start in range(0, 2100, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
        assert model.nbytes_ <= limit
    kernels = [one for one in model.experts_ if one["supports"]]
    assert kernels or limit < 300_000
    assert model.nbytes_ == sum(
        array.nbytes for array in [getattr(model._learners[0], name) for name in (*parts.ARRAYS, "prior")]
    ) + model._learners[0].scaler.nbytes + sum(
        one.nbytes
        for one in [*model._learners[0].hypotheses, *model._learners[0].combiners]
        if one is not None
    )


def test_too_little_memory_is_an_error():
    X, y = stream(10)
    with pytest.raises(
        MemoryTooSmallError, match=r"memory must be at least [0-9,]+ bytes for rows of 4 features"
    ):
        BudgetRegressor(5000).fit(X, y)
    with pytest.raises(ValueError, match="memory must be"):
        BudgetRegressor("a lot").fit(X, y)
    with pytest.raises(ValueError, match="level"):
        BudgetRegressor(level=1.0).fit(X, y)


@pytest.mark.parametrize("rounds", [20, 500, 1200])
def test_added_features_keep_the_limit(rounds):
    X, y = stream()
    model = BudgetRegressor(MEMORY).fit(X[:rounds], y[:rounds])
    add_features(model, 30)
    assert model.nbytes_ <= 300 * 1024
    more = np.random.default_rng(0).normal(size=(60, 30))
    assert np.isfinite(model.progressive_fit(more, more[:, 0]).predictions).all()
    assert model.nbytes_ <= 300 * 1024


# ---------------------------------------------------------------------- quality, intervals, bound


def test_ahead_of_its_experts_and_of_the_last_target():
    X, y = stream(drift=False)
    trace = BudgetRegressor(MEMORY).progressive_fit(X, y, ledger=True)
    losses = trace.ledger["expert_losses"]
    best = np.sqrt(losses.mean(axis=0)).min()
    assert trace.rmse < 1.1 * best
    assert trace.rmse < 0.5 * y.std()
    np.testing.assert_allclose(trace.ledger["loss"], trace.residuals**2)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_coverage_with_drift_and_outliers(level):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    y = X[:, 0] + rng.standard_t(2, 6000) * np.where(np.arange(6000) < 3000, 1.0, 5.0)
    y[4000:] -= 20.0 * X[4000:, 1]
    trace = BudgetRegressor("200kB", level).progressive_fit(X, y)
    assert abs(trace.coverage - level) < 0.01
    width = trace.intervals[:, 1] - trace.intervals[:, 0]
    assert np.median(width[3500:4000]) > 2.0 * np.median(width[2000:3000])


def hard_stream(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 160)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d))
    if seed % 4 == 0:
        y = X[:, 0] + 0.1 * rng.normal(size=n)
    elif seed % 4 == 1:
        y = rng.choice([-1.0, 1.0], n)
    elif seed % 4 == 2:
        y = np.cumsum(rng.normal(size=n))
    else:
        y = np.where(np.arange(n) < n // 2, X[:, 0], 100.0 - X[:, 0])
    return X, y


def test_the_bound_holds_on_200_streams():
    ratios = []
    for seed in range(200):
        X, y = hard_stream(seed)
        model = BudgetRegressor("150kB")
        trace = model.progressive_fit(X, y, ledger=True)
        for competitor in ("best", 0, 3):
            certificate = certify(model, X, y, trace, competitor)
            assert certificate.holds, certificate
            ratios.append(certificate.ratio)
        assert certify(model, X, y, trace).bound <= certificate.bound
    assert max(ratios) > 0.3


def test_certificates_say_what_is_wrong():
    X, y = stream(100)
    model = BudgetRegressor("150kB")
    trace = model.progressive_fit(X, y)
    with pytest.raises(ValueError, match="ledger=True"):
        certify(model, X, y, trace)
    model = BudgetRegressor("150kB")
    trace = model.progressive_fit(X, y, ledger=True)
    with pytest.raises(ValueError, match="number of switches"):
        certify(model, X, y, trace, np.zeros(4))
    with pytest.raises(ValueError, match="has no theorem"):
        certify(model, X, y, trace, theorem="perceptron")
    assert "switches" in certify(model, X, y, trace).competitor


# ---------------------------------------------------------------------- hostile states, scikit-learn


WRONG = {
    "unit": np.array([0.0, 0.0]),
    "weights": np.zeros(18),
    "active": np.full(14, 2, np.uint8),
    "ordered": np.arange(500.0),
    "scores": np.full(500, np.nan),
    "reach": np.array([1.0, 0.0, 0.0, 0.0]),
    "tracker": np.zeros(6),
    "window": np.zeros((3, 4)),
    "rounds": -1,
    "memory": 1,
    "full": 1,
    "budgets": [0] * 14,
    "hypotheses": [None] * 14,
    "combiners": [],
    "scaler": {},
    "recent": np.full(14, -1.0),
    "lags": np.zeros(2),
    "gammas": np.full(14, -1.0),
    "scales": np.zeros(4),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("rounds", [300, 1100])
def test_states_from_outside_are_checked(name, rounds):
    X, y = stream()
    model = BudgetRegressor(MEMORY).fit(X[:rounds], y[:rounds])
    state = copy.deepcopy(model.__getstate__())
    assert name in state["_learners"]["states"][0]
    state["_learners"]["states"][0][name] = WRONG[name]
    other = clone(model)
    with pytest.raises(ValueError, match=r"should"):
        other.__setstate__(state)
    assert not other.__sklearn_is_fitted__()


def test_a_wrong_number_of_features_allocates_nothing():
    X, y = stream(60)
    model = BudgetRegressor(MEMORY).fit(X, y)
    state = copy.deepcopy(model.__getstate__())
    state["n_features_in_"] = 2**31 - 1
    with pytest.raises(ValueError, match="scales should be"):
        clone(model).__setstate__(state)


ONE_BY_ONE = dict.fromkeys(
    ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"],
    "rows are learned one after the other: a row of weight 2 differs from the same row twice",
)


@parametrize_with_checks([BudgetRegressor("1MB")], expected_failed_checks=lambda model: ONE_BY_ONE)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
