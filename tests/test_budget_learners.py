"""The budget learners from the literature: what their papers state, besides equality of every round."""

import copy
import pickle

import numpy as np
import pytest
import reference as ref
from cases import CASES, STREAMS, gram_of, stream, with_budget
from test_certificates import KINDS, competitors, make_stream

import budgetron
from budgetron import bounds, certify
from budgetron._core.thinning import project
from budgetron.bounds import AssumptionError
from budgetron.kernelized._nogd import leading_eigenvectors

# Learners with a theorem, the largest norm of a competitor, and the names of the theorems.
DESCENT = "online_gradient_descent"
WITH_THEOREM = {
    "ogd": (lambda: budgetron.OGD(0.3, gamma=0.5), np.inf, [DESCENT]),
    "ogd, truncated": (lambda: budgetron.OGD(0.3, 0.1, budget=15, gamma=0.5), np.inf, [DESCENT]),
    "ogd, sqrt": (
        lambda: budgetron.OGD(0.7, 0.01, "logistic", schedule="sqrt", budget=20, gamma=0.5),
        np.inf,
        [DESCENT],
    ),
    "ogd, squared": (lambda: budgetron.OGD(0.2, loss="squared", gamma=0.5), np.inf, [DESCENT]),
    "bogd": (lambda: budgetron.BOGD(15, "uniform", gamma=0.5, random_state=0), np.inf, [DESCENT]),
    "bogd++": (
        lambda: budgetron.BOGD(15, decay=0.1, limit=1.2, gamma=0.5, random_state=0),
        np.inf,
        [DESCENT],
    ),
    "bogd, one support": (
        lambda: budgetron.BOGD(1, "uniform", eta=0.5, gamma=0.5, random_state=0),
        np.inf,
        [DESCENT],
    ),
    "bsgd removal": (lambda: budgetron.BSGD(15, "removal", 0.05, gamma=0.5), np.inf, [DESCENT]),
    "bsgd projection": (lambda: budgetron.BSGD(15, "projection", 0.05, gamma=0.5), np.inf, [DESCENT]),
    "bsgd merging": (lambda: budgetron.BSGD(15, "merging", 0.05, gamma=0.5), np.inf, [DESCENT]),
    "fogd": (lambda: budgetron.FOGD(20, 0.3, gamma=0.5, random_state=0), np.inf, [DESCENT]),
    "fogd, sqrt": (
        lambda: budgetron.FOGD(20, 0.7, 0.01, "logistic", schedule="sqrt", gamma=0.5, random_state=0),
        np.inf,
        [DESCENT],
    ),
    "ahpatron": (
        lambda: budgetron.Ahpatron(20, gamma=0.5),
        np.sqrt(20 / 8) - 0.5,
        ["ahpatron", "ahpatron_ledger"],
    ),
    "ahpatron, equal rows": (
        lambda: budgetron.Ahpatron(7, 1.0, eta=0.7, gamma=1e-9),
        1.0,
        ["ahpatron", "ahpatron_ledger"],
    ),
    "ahpatron, linear": (lambda: budgetron.Ahpatron(3, kernel="linear"), np.inf, ["ahpatron_ledger"]),
    "ahpatron, poly": (
        lambda: budgetron.Ahpatron(3, kernel="poly", gamma=1.0, degree=2, coef0=1.0),
        np.inf,
        ["ahpatron_ledger"],
    ),
    "ahpatron, ledger": (
        lambda: budgetron.Ahpatron(8, 0.3, eta=0.4, radius=3.0, gamma=0.5),
        3.0,
        ["ahpatron_ledger"],
    ),
}


@pytest.mark.parametrize("label", WITH_THEOREM)
def test_no_bound_is_violated_on_200_streams(label, record_property):
    make, limit, theorems = WITH_THEOREM[label]
    largest, streams = 0.0, 0
    for kind in KINDS:
        for seed in range(50):
            X, y = make_stream(kind, seed, 80)
            if len(np.unique(y)) < 2:
                continue
            streams += 1
            model = make()
            trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
            for competitor in competitors(model, X, y, limit, np.random.default_rng(seed)):
                for theorem in theorems:
                    certificate = certify(model, X, y, trace, competitor, theorem=theorem)
                    assert certificate.applies
                    assert certificate.holds, str(certificate)
                    largest = max(largest, certificate.ratio)
    record_property("largest ratio", f"{largest:.3f} on {streams} streams")
    print(f"{label}: {streams} streams, largest ratio {largest:.3f}")
    assert streams >= 195


def test_ogd_bound_without_errors_is_the_simple_formula():
    X, y = stream("random")
    model = budgetron.OGD(0.3, gamma=0.5)
    trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
    competitor = X[:5], y[:5]
    certificate = certify(model, X, y, trace, competitor)
    expected = certificate.losses + certificate.norm**2 / 0.6 + 0.15 * model.n_support_
    assert certificate.bound == pytest.approx(expected, rel=1e-12)


def test_ahpatron_default_bound():
    assert bounds.ahpatron(1.5, 5.0, 32, 0.5, 0.5) == pytest.approx(2 * 1.5**2 + 2 * 5)
    with pytest.raises(AssumptionError, match=r"of at most 0\.5 is assumed"):
        bounds.ahpatron(1.6, 5.0, 32, 0.5, 0.5)


def test_the_step_after_a_projection_is_part_of_the_bound_of_ahpatron():
    """The row's margin is that before the projection: without its term the bound is violated."""
    ratios = {"with": [], "without": []}
    for kind in KINDS:
        X, y = make_stream(kind, 0, 80)
        model = budgetron.Ahpatron(3, kernel="linear")
        trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
        for competitor in competitors(model, X, y, np.inf, np.random.default_rng(0)):
            certificate = certify(model, X, y, trace, competitor, theorem="ahpatron_ledger")
            radius = np.sqrt((X**2).sum(axis=1).max())
            missing = radius * np.nansum(trace.ledger["error"])  # 2 eta R ||e|| / (2 eta)
            ratios["with"].append(certificate.ratio)
            ratios["without"].append(certificate.count / (certificate.bound - missing))
    assert max(ratios["with"]) <= 1.0
    assert max(ratios["without"]) > 1.0


@pytest.mark.parametrize("name", STREAMS)
def test_truncation_error_of_ogd(name):
    X, y = stream(name)
    trace = budgetron.OGD(0.3, 0.2, budget=10, gamma=0.5).progressive_fit(X, y, ledger=True)
    error = trace.ledger["error"]
    removals = trace.ledger["removed"] >= 0
    assert removals.sum() > 20
    assert np.all(np.isnan(error) == ~removals)
    assert np.all(error[removals] <= 0.3 * (1 - 0.3 * 0.2) ** 10 * (1 + 1e-12))


@pytest.mark.parametrize("label", ["bogd", "bogd++"])
def test_bogd_is_unbiased_and_limited(label):
    X, y = stream("random")
    case = CASES[label]
    model = case.model().fit(X, y)
    most = case.parameters["limit"] * case.parameters["eta"]
    assert np.abs(model.dual_coef_).max() <= most * (1 + 1e-12)
    # The mean over many seeds of f after a removal is f without one.
    settings = {"eta": 0.2, "decay": 0.3, "limit": 1e9, "gamma": 0.5, "variant": case.model().variant}
    whole = budgetron.OGD(0.2, 0.3, gamma=0.5).fit(X[:40], y[:40])
    learned = whole.n_support_
    values, variances = [], []
    for seed in range(400):
        bounded = budgetron.BOGD(learned - 1, random_state=seed, **settings)
        trace = bounded.progressive_fit(X[:40], y[:40], classes=[-1, 1], ledger=True)
        assert bounded.n_support_ == learned - 1
        values.append(bounded.decision_function(X))
        variances.append(np.nanmax(trace.ledger["variance"]))
    deviation = np.mean(values, axis=0) - whole.decision_function(X)
    assert np.all(np.abs(deviation) < 5 * np.std(values, axis=0) / np.sqrt(400) + 1e-9)
    assert np.ptp(variances) < 1e-12
    assert np.all(np.var(values, axis=0) <= variances[0] * (1 + 0.3))


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("variant", ["simple", "projecting", "nearest"])
def test_budget_pa_gives_the_row_the_margin_of_the_step(variant, name):
    X, y = stream(name)
    model = budgetron.BudgetPA(10, variant, C=0.6, gamma=0.5)
    for i, (x, label) in enumerate(zip(X, y, strict=True)):
        margin = model.play(x, label, classes=[-1, 1])
        after = float(model.decision_function(x[None])[0])
        loss = max(0.0, 1 - label * margin)
        if loss > 1e-9:  # projections onto spans that contain the row do not change the value there
            assert label * after == pytest.approx(label * margin + min(loss, 0.6), abs=2e-3), i


def test_projecting_and_nearest_change_the_hypothesis_less_than_simple():
    X, y = stream("random", 120)
    first = {}
    for variant in ("simple", "nearest", "projecting"):
        trace = budgetron.BudgetPA(20, variant, gamma=0.5).progressive_fit(X, y, ledger=True)
        errors = trace.ledger["error"]
        first[variant] = errors[~np.isnan(errors)][0]
    assert first["projecting"] <= first["nearest"] <= first["simple"]
    assert first["projecting"] < first["simple"]


@pytest.mark.parametrize("label", ["budget pa projecting", "bsgd projection"])
def test_the_inverse_of_the_gram_matrix_stays_accurate(label):
    X, y = stream("random", 700, 1)
    model = CASES[label].model().fit(X, y)
    rule = model._learners[0].rule
    slots = rule.supports.order[: rule.supports.m]
    product = rule.inverse[np.ix_(slots, slots)] @ rule.gram[np.ix_(slots, slots)]
    np.testing.assert_allclose(product, np.eye(len(slots)), atol=1e-9)
    free = np.setdiff1d(np.arange(len(rule.inverse)), slots)
    assert not rule.inverse[free].any()
    assert not rule.inverse[:, free].any()


def test_a_wrong_inverse_is_computed_again():
    X, y = stream("random", 400)
    model = CASES["budget pa projecting"].model().fit(X[:200], y[:200])
    twin = copy.deepcopy(model)
    rule = twin._learners[0].rule
    rule.inverse[:] *= 1 + 1e-5
    before, t = twin.support_, 200
    while np.array_equal(twin.support_, before):  # up to the first removal
        twin.partial_fit(X[t : t + 1], y[t : t + 1])
        t += 1
    slots = rule.supports.order[: rule.supports.m]
    product = rule.inverse[np.ix_(slots, slots)] @ rule.gram[np.ix_(slots, slots)]
    np.testing.assert_allclose(product, np.eye(len(slots)), atol=1e-9)
    twin.partial_fit(X[t:], y[t:])
    model.partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(model.support_, twin.support_)
    np.testing.assert_allclose(model.dual_coef_, twin.dual_coef_, rtol=1e-4, atol=1e-4)


def test_a_state_with_an_invalid_inverse_is_refused():
    X, y = stream("random")
    model = CASES["bsgd projection"].model().fit(X, y)
    state = model.__getstate__()
    assert pickle.loads(pickle.dumps(model)).n_support_ == model.n_support_
    for spoil in (lambda a: a[:-1].copy(), lambda a: np.where(a == 0, np.nan, a), lambda a: None):
        broken = copy.deepcopy(state)
        found = find_inverse(broken)
        found["inverse"] = spoil(found["inverse"])
        with pytest.raises(ValueError, match="inverse"):
            budgetron.BSGD(10, "projection", 0.05).__setstate__(broken)


def find_inverse(value):
    """Return the table of a state that has the inverse."""
    if isinstance(value, dict):
        if "inverse" in value:
            return value
        children = value.values()
    else:
        children = value if isinstance(value, list | tuple) else []
    return next((found for child in children if (found := find_inverse(child)) is not None), None)


@pytest.mark.parametrize("seed", range(5))
def test_projection_onto_the_first_functions(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(12, 4))
    points[7] = points[2]
    gram, coef, order = points @ points.T, rng.normal(size=12), rng.permutation(12)
    kept, projected, residual = project(gram, coef, order, 3, 1e-9)
    first = [
        i for i in order.tolist() if i != (7 if order.tolist().index(7) > order.tolist().index(2) else 2)
    ]
    assert kept.tolist() == sorted(first[:3])
    f = coef @ points
    expected, *_ = np.linalg.lstsq(points[kept].T, f, rcond=None)
    np.testing.assert_allclose(projected, expected, atol=1e-9)
    assert residual == pytest.approx(np.linalg.norm(f - projected @ points[kept]), abs=1e-7)
    assert len(project(gram, coef, order, 12, 1e-9)[0]) == 4  # the dimension


def test_ahpatron_removes_half_and_keeps_the_largest():
    X, y = stream("random", 700, 1)
    model = budgetron.Ahpatron(20, gamma=2.0)
    trace = model.progressive_fit(X, y, ledger=True)
    halved = np.flatnonzero(~np.isnan(trace.ledger["error"]))
    assert len(halved) > 3
    assert np.all(trace.support_sizes[halved] == 11)
    assert np.all(trace.support_sizes[halved - 1] == 20)


def test_nogd_keeps_its_supports_and_its_rank():
    X, y = stream("random", 700, 1)
    model = budgetron.NOGD(30, rank=4, gamma=0.5).fit(X[:300], y[:300])
    before = model.support_.copy()
    model.partial_fit(X[300:], y[300:])
    np.testing.assert_array_equal(model.support_, before)
    K = gram_of("random", "rbf", 700, 1)[np.ix_(before, before)]
    _, vectors = np.linalg.eigh(K)
    # the coefficients are in the span of the four largest eigenvectors
    rest = vectors[:, :-4].T @ model.dual_coef_[0]
    np.testing.assert_allclose(rest, 0.0, atol=1e-9)
    assert np.abs(vectors[:, -4:].T @ model.dual_coef_[0]).min() > 0


@pytest.mark.parametrize("rank", [1, 3, 4, 7, 9])
def test_nogd_chooses_among_tied_eigenvectors_whatever_the_rounding(rank):
    rng = np.random.default_rng(rank)
    vectors, _ = np.linalg.qr(rng.normal(size=(12, 12)))
    gram = vectors * np.array([3.0, 2.0, 2.0, *[1.0] * 5, 0.5, 0.5, 0.0, 0.0]) @ vectors.T
    spans = []
    for _ in range(5):
        noise = rng.normal(size=(12, 12)) * 1e-15
        V = leading_eigenvectors(gram + noise + noise.T, rank, 1e-7)
        np.testing.assert_allclose(V.T @ V, np.eye(rank), atol=1e-12)
        D = np.diag(V.T @ gram @ V)
        np.testing.assert_allclose(gram @ V, V * D, atol=1e-12)  # they are eigenvectors
        np.testing.assert_allclose(D, [3.0, 2.0, 2.0, *[1.0] * 5, 0.5][:rank], atol=1e-12)  # of the largest
        spans.append(V @ V.T)
    np.testing.assert_allclose(spans, np.broadcast_to(spans[0], (5, 12, 12)), atol=1e-11)


def test_nogd_with_tied_eigenvalues_is_the_reference():
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.normal(size=(14, 14)))
    X = np.concatenate([turn, turn[rng.integers(14, size=60)] + 0.3 * turn[rng.integers(14, size=60)]])
    y = rng.choice([-1.0, 1.0], len(X))
    model = budgetron.NOGD(10, rank=4, eta=0.3, kernel="linear")
    trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
    slow = ref.NOGD(X @ X.T, y, 10, 4, 0.3)
    np.testing.assert_allclose(trace.margins, [slow.play(t) for t in range(len(y))], atol=1e-11)
    np.testing.assert_allclose(model.dual_coef_[0], list(slow.alpha.values()), atol=1e-11)
    assert np.abs(model.dual_coef_).max() > 0.1


def test_merging_in_a_batch_after_single_rounds():
    """A slot that a single round merged may be used again by a later one."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X = 4 * np.repeat(rng.normal(size=(20, 2)), 2, axis=0)[rng.permutation(40)]
        y = rng.choice([-1, 1], 40)
        batch, loop = (budgetron.BSGD(1 + seed % 2, variant="merging", gamma=0.5) for _ in range(2))
        for model in (batch, loop):
            model.partial_fit(X[:1], y[:1], classes=[-1, 1])
            for x, label in zip(X[1:8], y[1:8], strict=True):
                model.play(x, label)
        margins = [loop.play(x, label) for x, label in zip(X[8:], y[8:], strict=True)]
        np.testing.assert_allclose(
            batch.progressive_fit(X[8:], y[8:]).margins, margins, rtol=1e-9, atol=1e-12
        )


# Learners that decide by the size of a loss. Those that learn mistakes only depend on the sign of a margin.
DECIDE_BY_LOSS = ("ogd", "bogd", "bogd++", "budget", "bsgd", "nogd", "ahpatron", "auc")
BY_LOSS = [name for name in CASES if name.split()[0] in DECIDE_BY_LOSS and with_budget(CASES[name], 1)]


@pytest.mark.parametrize("gamma", [1e8, 1e-11])
@pytest.mark.parametrize("budget", [1, 2, 5])
@pytest.mark.parametrize("label", BY_LOSS)
def test_kernel_matrices_of_zeros_and_ones(label, budget, gamma):
    """With such widths all rows that differ are orthogonal, or all rows are equal up to rounding."""
    case = with_budget(CASES[label], budget)
    for name in ("random", "nasty"):
        X, y = stream(name, 90)
        whole, cut, single = (case.learner(**case.parameters, gamma=gamma) for _ in range(3))
        trace = whole.progressive_fit(X, y, classes=[-1, 1])
        assert np.isfinite(trace.margins).all()
        assert trace.support_sizes.max() <= budget
        parts = [
            cut.progressive_fit(X[rows], y[rows], classes=[-1, 1]).margins
            for rows in np.array_split(np.arange(90), 7)
        ]
        played = [single.play(x, sign, classes=[-1, 1]) for x, sign in zip(X, y, strict=True)]
        for margins, model in ((np.concatenate(parts), cut), (played, single)):
            np.testing.assert_allclose(margins, trace.margins, rtol=1e-6, atol=1e-6)
            np.testing.assert_array_equal(model.support_, whole.support_)
