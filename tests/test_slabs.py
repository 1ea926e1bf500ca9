"""Storage of supports: wide sparse rows, threads, projections, sharing between classes."""

import copy
import multiprocessing
import pickle

import joblib
import numpy as np
import pytest
from cases import CASES, stream, with_budget
from scipy.sparse import csr_array, random_array

import budgetron
from budgetron import evaluate
from budgetron._base.access import thread_count


def text_like(n, d, nonzeros, seed=0):
    """Return rows with few non-zeros among many features, and labels that depend on some of the features."""
    rng = np.random.default_rng(seed)
    features = np.minimum(rng.zipf(1.3, size=(n, nonzeros)) - 1, d - 1)
    features[:, 1:] = rng.integers(0, d, size=(n, nonzeros - 1))
    X = csr_array(
        (rng.random(n * nonzeros) + 0.1, features.ravel(), np.arange(n + 1) * nonzeros), shape=(n, d)
    )
    X.sum_duplicates()
    return X, np.where(X[:, :50].sum(axis=1) > 0.5, 1, -1)


def assert_same_models(a, b, tolerance=1e-9):
    np.testing.assert_array_equal(a.support_, b.support_)
    np.testing.assert_allclose(a.dual_coef_, b.dual_coef_, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------------- wide rows


def test_memory_grows_with_the_non_zeros():
    X, y = text_like(4000, 100_000, 100)
    y = np.random.default_rng(1).choice([-1, 1], len(y))
    model = budgetron.Forgetron(1000, gamma=0.01).fit(X, y)
    assert model.n_support_ == 1000
    assert model.nbytes_ < 20e6
    vectors = model.support_vectors_
    assert (vectors != X[model.support_]).nnz == 0
    # Memory does not grow when supports are replaced.
    before = model.nbytes_
    for _ in range(3):
        model.partial_fit(X, y)
    assert model.nbytes_ < 1.2 * before


@pytest.mark.parametrize("label", CASES)
def test_wide_rows_give_the_same_model_as_narrow_rows(label):
    X, y = text_like(300, 3000, 20)
    used = np.unique(X.indices)
    narrow = np.ascontiguousarray(X[:, used].toarray())
    case = CASES[label]
    wide_model = case.model()
    wide_trace = wide_model.progressive_fit(X, y)
    assert wide_model._learners[0].supports.sparse
    narrow_model = case.model()
    narrow_trace = narrow_model.progressive_fit(narrow, y)
    scale = max(1.0, np.abs(narrow_trace.margins).max())
    np.testing.assert_allclose(wide_trace.margins, narrow_trace.margins, rtol=1e-8, atol=1e-8 * scale)
    np.testing.assert_array_equal(wide_model.support_, narrow_model.support_)
    np.testing.assert_allclose(
        wide_model.decision_function(X), narrow_model.decision_function(narrow), rtol=1e-8, atol=1e-8 * scale
    )


def test_when_sparse_storage_is_chosen():
    def stores_non_zeros(X):
        y = np.arange(X.shape[0]) % 2
        return budgetron.Forgetron(5).fit(X, y)._learners[0].supports.sparse

    rows = random_array((40, 1001), density=1 / 40, format="csr", random_state=np.random.default_rng(0))
    assert stores_non_zeros(rows)
    assert not stores_non_zeros(rows.toarray())
    assert not stores_non_zeros(rows[:, :1000])
    dense = random_array((40, 1001), density=1 / 20, format="csr", random_state=np.random.default_rng(0))
    assert not stores_non_zeros(dense)
    model = budgetron.Forgetron(5, kernel=lambda A, B: A @ B.T).fit(rows, np.arange(40) % 2)
    assert not model._learners[0].supports.sparse


@pytest.mark.parametrize("label", ["forgetron self-tuned", "cks", "projectron", "pa-i", "random"])
def test_wide_models_are_copied_and_saved(label, tmp_path):
    X, y = text_like(400, 3000, 20)
    model = CASES[label].model().fit(X[:200], y[:200])
    budgetron.save(model, tmp_path / "model")
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), budgetron.load(tmp_path / "model")]
    model.partial_fit(X[200:], y[200:])
    for twin in twins:
        twin.partial_fit(X[200:], y[200:])
        np.testing.assert_array_equal(twin.support_, model.support_)
        np.testing.assert_array_equal(twin.dual_coef_, model.dual_coef_)
        np.testing.assert_array_equal(twin.decision_function(X), model.decision_function(X))


def test_wide_learners_share_kernel_values():
    X, y = text_like(600, 3000, 20)
    makers = {label: CASES[label] for label in ("forgetron self-tuned", "perceptron", "random", "cks")}
    results = evaluate.compare({label: case.model() for label, case in makers.items()}, (X, y))
    for result, case in zip(results, makers.values(), strict=True):
        assert_same_models(result.model, case.model().fit(X, y))


# ---------------------------------------------------------------------- classes


@pytest.mark.parametrize("label", CASES)
def test_classes_that_share_equal_separate_learners(label):
    X, _ = stream("random", 700, 1)
    y = (np.abs(X[:, 0]) * 2 + X[:, 1] > 1).astype(int) + (X[:, 1] > 0)
    case = with_budget(CASES[label], 25) or CASES[label]
    shared = case.model()
    trace = shared.progressive_fit(X, y)
    separate = case.model()
    separate_trace = separate.progressive_fit(
        X, y, ledger=True
    )  # with a ledger, the classes learn one by one
    scale = max(1.0, np.abs(separate_trace.margins).max())
    np.testing.assert_allclose(trace.margins, separate_trace.margins, rtol=1e-8, atol=1e-8 * scale)
    np.testing.assert_array_equal(trace.support_sizes, separate_trace.support_sizes)
    assert_same_models(shared, separate, 1e-8)


def test_classes_share_for_any_cut():
    X, _ = stream("random", 700, 1)
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    whole = budgetron.Forgetron(20, gamma=0.5).fit(X, y)
    cut = budgetron.Forgetron(20, gamma=0.5)
    for start, stop in ((0, 40), (40, 45), (45, 300), (300, 301), (301, 700)):
        cut.partial_fit(X[start:stop], y[start:stop], classes=[0, 1, 2])
    assert_same_models(whole, cut)


# ---------------------------------------------------------------------- threads


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", ["dense", "mostly zeros", "csr", "wide"])
def test_threads_change_nothing(rows, dtype):
    # Large enough that two threads share the work.
    rng = np.random.default_rng(0)
    if rows == "wide":
        X = text_like(2000, 20_000, 150)[0].astype(dtype)
    else:
        X = rng.normal(size=(2000, 160)).astype(dtype)
        if rows != "dense":
            X[rng.random(X.shape) < 0.9] = 0.0
        X = csr_array(X) if rows == "csr" else X
    y = rng.choice([-1, 1], X.shape[0])
    one = budgetron.RandomizedBudgetPerceptron(800, gamma=0.005, random_state=0)
    two = budgetron.RandomizedBudgetPerceptron(800, gamma=0.005, random_state=0, n_jobs=2)
    alone, shared = one.progressive_fit(X, y), two.progressive_fit(X, y)
    # Compare up to the first margin whose sign may depend on the order of summation; few margins do.
    tolerance = (1e-12 if dtype == np.float64 else 1e-5) * np.abs(alone.margins).max()
    ties = np.flatnonzero(np.abs(alone.margins) < tolerance)
    end = ties[1] if len(ties) > 1 else len(y)  # the very first margin is always 0
    assert end > 800
    np.testing.assert_allclose(shared.margins[:end], alone.margins[:end], atol=tolerance)
    two.set_params(n_jobs=1)
    values = two.decision_function(X)
    np.testing.assert_allclose(two.set_params(n_jobs=3).decision_function(X), values, atol=tolerance)


def test_n_jobs_may_change_and_must_be_an_integer():
    X, y = stream("random")
    model = budgetron.Forgetron(10).fit(X[:100], y[:100])
    model.set_params(n_jobs=-1).partial_fit(X[100:], y[100:])
    assert_same_models(model, budgetron.Forgetron(10).fit(X[:100], y[:100]).partial_fit(X[100:], y[100:]))
    with pytest.raises(ValueError, match="n_jobs"):
        budgetron.Forgetron(10, n_jobs=1.5).fit(X, y)


def test_all_cores_in_a_process_that_may_not_start_others(monkeypatch):
    # As in a `multiprocessing.Pool`. Threads are allowed there, so joblib must not warn about processes.
    X, y = stream("random")
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    model = budgetron.Forgetron(10, gamma=0.5, n_jobs=-1).fit(X, y)
    assert thread_count(model) == joblib.cpu_count()
    with joblib.parallel_config(n_jobs=3):
        assert thread_count(model.set_params(n_jobs=None)) == 3
    assert thread_count(model) == 1


# ---------------------------------------------------------------------- projections


def random_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 6)), rng.choice([-1, 1], n)


def gram(model):
    rows = model.support_vectors_
    return np.exp(-model.gamma_ * ((rows[:, None] - rows[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_factor_stays_accurate(dtype):
    X, y = random_rows(3000)
    model = budgetron.Projectron(eta=0.05, gamma=0.3).fit(X.astype(dtype), y)
    assert model.n_support_ > 500
    L = model._learners[0].rule.projection.rows()
    K = gram(model).astype(np.float64)
    k = np.exp(-0.3 * ((model.support_vectors_[:, None] - X[None, :50]) ** 2).sum(axis=2)).astype(np.float64)
    d = np.linalg.solve(L.T, np.linalg.solve(L, k))
    errors = np.linalg.norm(K @ d - k, axis=0) / np.linalg.norm(k, axis=0)
    assert errors.max() < (1e-10 if dtype == np.float64 else 1e-3)


def test_inaccurate_factor_is_recomputed():
    X, y = random_rows(3000)
    model = budgetron.Projectron(eta=0.1, gamma=0.3)
    start = 0
    while not hasattr(model, "classes_") or model.n_support_ % 64 < 60:
        model.partial_fit(X[start : start + 1], y[start : start + 1], classes=[-1, 1])
        start += 1
    projection = model._learners[0].rule.projection
    state = projection.__getstate__()
    state["factor"] = state["factor"].copy()
    state["factor"][: state["n"] * (state["n"] + 1) // 2] *= 1 + 1e-6
    projection.__setstate__(state)
    L = projection.rows()
    assert np.abs(L @ L.T - gram(model)).max() > 1e-7
    model.partial_fit(X[start:], y[start:])
    assert projection.refactorised == 1
    L = projection.rows()
    np.testing.assert_allclose(L @ L.T, gram(model), atol=1e-10)


def test_recomputed_factor_is_the_same():
    X, y = random_rows(1500)
    model = budgetron.Projectron(eta=0.05, gamma=0.3).fit(X, y)
    learner = model._learners[0]
    before = learner.rule.projection.rows()
    learner.rule.projection.rebuild(learner.supports)
    np.testing.assert_allclose(learner.rule.projection.rows(), before, atol=1e-9)


@pytest.mark.parametrize("label", ["projectron", "projectron norm", "projectron++", "projectron++ eta"])
def test_solving_in_blocks_equals_solving_row_by_row(label):
    # Many supports, and many updates in each block.
    X, y = random_rows(1200, 1)
    blocks = CASES[label].model()
    trace = blocks.progressive_fit(X, y)
    single = CASES[label].model()
    margins = [single.play(x, label, classes=[-1, 1]) for x, label in zip(X, y, strict=True)]
    np.testing.assert_allclose(trace.margins, margins, atol=1e-8)
    assert_same_models(blocks, single, 1e-7)


# ---------------------------------------------------------------------- former errors


@pytest.mark.parametrize("classes", [2, 3])
def test_empty_rows_on_a_wide_slab(classes):
    X = text_like(100, 50_000, 20)[0]
    y = np.arange(100) % classes
    model = budgetron.Forgetron(10, gamma=0.1).fit(X, y)
    empty = csr_array((40, 50_000))
    assert len(model.predict(empty)) == 40
    np.testing.assert_allclose(model.decision_function(empty.toarray()), model.decision_function(empty))
    model.partial_fit(empty, y[:40])
    assert model.rounds_ == 140


@pytest.mark.parametrize("wide", [False, True])
def test_feature_indices_out_of_range(wide):
    d = 5000 if wide else 50
    good = random_array(
        (60, d), density=0.01 if wide else 0.2, format="csr", random_state=np.random.default_rng(0)
    )
    model = budgetron.Forgetron(10).fit(good, np.arange(60) % 2)
    for feature in (d, 10**6, -1):
        bad = good[:3].copy()
        bad.indices = bad.indices.copy()
        bad.indices[0] = feature
        with pytest.raises(ValueError, match="indices from 0 to"):
            model.partial_fit(bad, [0, 1, 0])
        with pytest.raises(ValueError, match="indices from 0 to"):
            model.predict(bad)
        with pytest.raises(ValueError, match="indices from 0 to"):
            model.play(csr_array((bad.data[:1], bad.indices[:1], [0, 1]), shape=(1, d)), 1)
    assert model.rounds_ == 60


def test_wide_model_may_start_with_one_row():
    X, y = text_like(50, 100_000, 20)
    model = budgetron.Forgetron(1000, gamma=0.1)
    for i in range(50):
        model.play(X[i : i + 1], y[i], classes=[-1, 1])
    assert model._learners[0].supports.sparse
    assert model.nbytes_ < 5e6
    assert_same_models(model, budgetron.Forgetron(1000, gamma=0.1).fit(X, y))


@pytest.mark.parametrize("label", ["projectron", "projectron++", "random modified", "cks", "pa"])
def test_failed_round_changes_nothing(label):
    X, y = random_rows(200)
    calls = [10**9]

    def kernel(A, B):
        calls[0] -= 1
        if calls[0] < 0:
            raise ZeroDivisionError("mine")
        return np.exp(-0.3 * ((A[:, None] - B[None]) ** 2).sum(axis=2))

    case = CASES[label]
    model, twin = (case.learner(kernel=kernel, **case.parameters) for _ in range(2))
    for x, sign in zip(X, y, strict=True):
        expected = twin.play(x, sign, classes=[-1, 1])
        for allowed in range(6 if hasattr(model, "classes_") else 0):
            calls[0] = allowed
            try:
                margin = model.play(x, sign)
            except ZeroDivisionError:
                continue
            break
        else:
            calls[0] = 10**9
            margin = model.play(x, sign, classes=[-1, 1])
        calls[0] = 10**9
        assert margin == expected
        assert (model.rounds_, model.mistakes_) == (twin.rounds_, twin.mistakes_)
    np.testing.assert_array_equal(model.dual_coef_, twin.dual_coef_)


def test_overflowing_step_is_not_counted():
    rows = np.array([[1.0, 2.0], [2.0, -1.0]])
    model = budgetron.PassiveAggressive(kernel="linear", variant="PA").fit(rows, [-1, 1])
    before = model.rounds_, model.mistakes_
    with pytest.raises(ValueError, match="not finite"):
        model.play(np.array([1e-161, 0.0]), -1)
    assert (model.rounds_, model.mistakes_) == before


def test_learners_that_share_are_restored_together():
    X, y = stream("random")
    fails = [False]

    def kernel(A, B):
        if fails[0]:
            raise ZeroDivisionError("mine")
        return A @ B.T

    good, bad = budgetron.Forgetron(20, gamma=0.1), budgetron.Forgetron(20, kernel=kernel)
    comparison = evaluate.Comparison([good, bad], [-1, 1])
    comparison.learn(X[:100], y[:100])
    fails[0] = True
    with pytest.raises(ZeroDivisionError):
        comparison.learn(X[100:], y[100:])
    assert (good.rounds_, bad.rounds_) == (100, 100)


def test_nbytes_does_not_depend_on_the_format_of_rows():
    X, y = stream("sparse", 240)
    X = np.hstack([X, np.ones((len(X), 8))])
    model = budgetron.Forgetron(5).fit(X[:60], y[:60])
    size = model.nbytes_
    model.play(X[60], y[60])
    model.play(csr_array(X[61:62]), y[61])
    model.partial_fit(csr_array(X[62:]), y[62:])
    for bad in (np.full(20, np.nan), csr_array(np.full((1, 20), np.nan))):
        with pytest.raises(ValueError, match="finite"):
            model.play(bad, y[0])
    assert model.nbytes_ == size
    growing = budgetron.KernelPerceptron()
    growing.partial_fit(X[:1], y[:1], classes=[-1, 1])
    while growing.n_support_ < growing._learners[0].supports.capacity:
        growing.play(np.random.default_rng(growing.rounds_).normal(size=20) * 9, growing.rounds_ % 2 * 2 - 1)
    size = growing.nbytes_
    with pytest.raises(ValueError, match="finite"):
        growing.play(np.full(20, np.nan), 1)
    assert growing.nbytes_ == size


def test_invalid_n_jobs():
    X, y = stream("random")
    model = budgetron.Forgetron(10).fit(X, y)
    for wrong in (0, 1.5, "two"):
        with pytest.raises(ValueError, match="n_jobs"):
            model.set_params(n_jobs=wrong).predict(X)
