"""BSGD with merging: the table, each merge, equality with the reference, any cut, and what is refused."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
import reference as ref
from cases import STREAMS, Case, stream
from hypothesis import given
from hypothesis import strategies as st
from reference.gradient import best_share, from_table, golden_section, merge_gain, merge_loss, table_loss
from scipy.sparse import csr_array, issparse
from test_reference import play_reference

import budgetron
from budgetron import BSGD, batch
from budgetron._base import kernel_estimator
from budgetron._core.group import LearnerGroup
from budgetron._core.merge_table import merge_tables
from budgetron.evaluate import compare

# What the docstring of BSGD states.
TOLERANCE = 1e-3


def test_the_table_has_the_best_shares():
    shares, losses = merge_tables()
    assert shares.shape == losses.shape == (201, 401)
    rng = np.random.default_rng(0)
    corners = [
        *zip(rng.integers(0, 201, 300), rng.integers(0, 401, 300), strict=True),
        (200, 30),
        (200, 80),
        (0, 0),
    ]
    for i, j in np.array(corners).tolist():
        assert shares[i, j] == pytest.approx(best_share(i, j), abs=1e-7), (i, j)
        assert losses[i, j] == pytest.approx(table_loss(i, j), abs=1e-10), (i, j)
        if i and j:
            m, k = i / 400, j / 400
            found = golden_section(m, k)
            assert merge_gain(m, k, shares[i, j]) >= merge_gain(m, k, found) - 1e-15
            grid = np.linspace(0, 1, 2001)  # no better h, also beyond 1/2
            assert merge_gain(m, k, shares[i, j]) >= merge_gain(m, k, grid).max() - 1e-15


def test_the_error_of_interpolation_is_bounded(record_property):
    rng = np.random.default_rng(1)
    pairs = [(m, k) for m in 1e-4 + rng.random(60) * 0.4999 for k in rng.random(60)]
    pairs += [(0.5 - 10.0**-e, np.exp(-2) * (1 + s * 10.0**-e)) for e in range(1, 9) for s in (-1, 1)]
    pairs += [(0.4989, k) for k in np.linspace(0.13, 0.14, 101)]
    # with smaller m, rounding of the exact numbers would be divided by m^2
    pairs += [(10.0**-e, k) for e in range(1, 5) for k in (1e-6, 1e-3, 0.1, 0.9, 1 - 1e-6)]
    of_share, of_loss = [], []
    for m, k in pairs:
        best = merge_loss(m, k, golden_section(m, k))
        of_share.append((merge_loss(m, k, from_table(best_share, m, k)) - best) / m**2)
        of_loss.append(abs(from_table(table_loss, m, k) - best / m**2))
    found = f"{max(of_share):.2e} of h, {max(of_loss):.2e} of the loss"
    record_property("largest error", found)
    print(found)
    assert min(of_share) > -1e-7
    # The loss of the chosen partner and that of the best one come from the table, and then h.
    assert max(of_share) + 2 * max(of_loss) <= TOLERANCE
    assert max(of_share) > 1e-5  # these pairs include the worst ones


def case_of(rows, budget=10, **parameters):
    """Return the case of a stream: the reference needs its rows."""
    reference = partial(ref.MergingBSGD, rows=rows, gamma=0.5, budget=budget, decay=0.05)
    return Case(BSGD, reference, {"budget": budget, "variant": "merging", "decay": 0.05} | parameters)


def replay(name, n=240, budget=10, tie=1e-10, seed=0):
    return play_reference(case_of(stream(name, n, seed)[0], budget), name, "rbf", n, tie, seed)


def assert_same(model, trace, run, tolerance=1e-9):
    _, _, kept, margins, sizes, ledger, slow = run
    np.testing.assert_allclose(trace.margins, margins, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(trace.support_sizes, sizes)
    np.testing.assert_array_equal(kept[model.support_], list(slow.alpha))
    rows = model.support_vectors_
    rows = rows.toarray() if issparse(rows) else rows
    np.testing.assert_allclose(rows, slow.rows[list(slow.alpha)], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(model.dual_coef_[0], list(slow.alpha.values()), rtol=tolerance, atol=tolerance)
    assert model.mistakes_ == slow.mistakes
    if trace.ledger is None:
        return
    position = {t: i for i, t in enumerate(kept.tolist())}
    removed = [position.get(entry["removed"], -1) for entry in ledger]
    np.testing.assert_array_equal(trace.ledger["removed"], removed)
    for entry in ("tau", "norm", "error"):
        expected = np.array([e[entry] for e in ledger])
        # The square of an error is a difference, so that near 0 only squares can be compared.
        np.testing.assert_allclose(
            trace.ledger[entry] ** 2,
            expected**2,
            rtol=1e-7,
            atol=1e-9 * np.nanmax(expected) ** 2,
            err_msg=entry,
        )


@pytest.mark.parametrize("budget", [1, 2, 3, 10])
@pytest.mark.parametrize("name", STREAMS)
def test_equals_reference(name, budget):
    run = replay(name, budget=budget)
    assert len(run[2]) > 200
    assert not np.allclose(run[6].rows, stream(name)[0])  # some supports were merged
    model = case_of(None, budget).model()
    assert_same(model, model.progressive_fit(run[0], run[1], classes=[-1, 1], ledger=True), run)
    unrecorded = case_of(None, budget).model()
    assert_same(unrecorded, unrecorded.progressive_fit(run[0], run[1], classes=[-1, 1]), run)


def test_long_streams_with_many_blocks():
    run = replay("random", n=700, budget=25, seed=1)
    model = case_of(None, 25).model()
    assert_same(model, model.progressive_fit(run[0], run[1], classes=[-1, 1], ledger=True), run)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", ["columns", "non-zeros"])
def test_sparse_rows(storage, dtype, monkeypatch):
    wide, sparse = {"columns": (10**9, 32), "non-zeros": (0, 1)}[storage]
    monkeypatch.setattr(kernel_estimator, "WIDE", wide)
    monkeypatch.setattr(kernel_estimator, "SPARSE", sparse)
    run = replay("sparse", tie=2e-3 if dtype == np.float32 else 1e-10)
    rows, tolerance = csr_array(run[0].astype(dtype)), 1e-3 if dtype == np.float32 else 1e-9
    model = case_of(None).model()
    trace = model.progressive_fit(rows, run[1], classes=[-1, 1])
    assert model._learners[0].supports.sparse == (storage == "non-zeros")
    assert model.support_vectors_.dtype == dtype
    assert_same(model, trace, run, tolerance)
    one_by_one = case_of(None).model()
    margins = [one_by_one.play(rows[i : i + 1], run[1][i], classes=[-1, 1]) for i in range(len(run[1]))]
    np.testing.assert_allclose(margins, run[3], rtol=tolerance, atol=tolerance)
    loaded = pickle.loads(pickle.dumps(model))
    assert_same(loaded, trace, run, tolerance)


def state(model):
    return model.support_, model.dual_coef_, model.support_vectors_, model.mistakes_, model.rounds_


def assert_same_model(a, b, tolerance=1e-9):
    for left, right in zip(state(a), state(b), strict=True):
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


@given(cuts=st.lists(st.integers(0, 240), max_size=12), singles=st.booleans())
def test_any_cut(cuts, singles):
    X, y = stream("random")
    whole, model = case_of(None).model().fit(X, y), case_of(None).model()
    for piece in np.split(np.arange(len(y)), sorted(cuts)):
        if singles and len(piece) < 20:
            for t in piece:
                model.play(X[t], y[t], classes=[-1, 1])
        elif len(piece):
            model.partial_fit(X[piece], y[piece], classes=[-1, 1])
    assert_same_model(model, whole)


def test_a_copy_and_a_file_continue_exactly(tmp_path):
    X, y = stream("random")
    model = case_of(None).model().partial_fit(X[:120], y[:120], classes=[-1, 1])
    budgetron.save(model, tmp_path / "model")
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), budgetron.load(tmp_path / "model")]
    model.partial_fit(X[120:], y[120:])
    for twin in twins:
        assert twin.rounds_ == 120
        twin.partial_fit(X[120:], y[120:])
        for left, right in zip(state(model), state(twin), strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("name", STREAMS)
def test_each_merge_changes_the_hypothesis_as_little_as_golden_section_search_would(name):
    X, y = stream(name)
    model, merged = case_of(None).model(), 0
    for t in range(len(y)):
        full = t > 0 and model.n_support_ == 10
        rows, coef = (model.support_vectors_, model.dual_coef_[0]) if full else (None, None)
        margin = float(model.decision_function(X[t : t + 1])[0]) if t else 0.0
        trace = model.progressive_fit(X[t : t + 1], y[t : t + 1], classes=[-1, 1], ledger=True)
        error = trace.ledger["error"][0]
        if not full or np.isnan(error):
            continue
        before = np.append(coef * (1 - 1 / (t + 1)), y[t] / (0.05 * (t + 1)))
        rows = np.vstack([rows, X[t]])
        assert 1 - y[t] * margin > 0
        # ||f' - f||^2 of the two hypotheses themselves
        both = np.vstack([rows, model.support_vectors_])
        change = np.concatenate([-before, model.dual_coef_[0]])
        K = np.exp(-0.5 * ((both[:, None] - both[None]) ** 2).sum(axis=2))
        assert error**2 == pytest.approx(change @ K @ change, abs=1e-9)
        # no worse than the best merge, up to the stated tolerance, and than removal
        a = np.abs(before).min()
        smallest = np.flatnonzero(np.abs(before) <= a * (1 + 1e-9))
        assert error <= a * (1 + 1e-9)
        p = smallest[0]
        choices = []
        for q in range(len(before)):
            if q != p and before[p] * before[q] > 0:
                m, k = before[p] / (before[p] + before[q]), K[p, q]
                loss = merge_loss(m, k, golden_section(m, k))
                choices.append((before[p] + before[q]) ** 2 * loss)
        if choices:
            merged += 1
            best = min(choices)
            assert error**2 <= best + TOLERANCE * a**2
            assert error**2 >= best - 1e-9
    assert merged > 30


def test_a_term_without_another_of_its_sign_is_removed():
    X = np.array([[0.0], [1.0]])
    model = BSGD(1, "merging", 0.1, gamma=0.5)
    model.partial_fit(X, [1, -1], classes=[-1, 1])
    assert model.n_support_ == 1
    assert model.support_vectors_.tolist() == [[1.0]]


def test_with_more_classes_each_has_rows_of_its_own():
    X, _ = stream("random")
    y = np.floor(2 * X[:, 0]).astype(int) % 3
    model = case_of(None).model()
    trace = model.progressive_fit(X, y)
    alone = [case_of(None).model().fit(X, np.where(y == c, 1, -1)) for c in range(3)]
    np.testing.assert_allclose(
        model.decision_function(X), np.column_stack([m.decision_function(X) for m in alone]), atol=1e-9
    )
    assert trace.support_sizes[-1] == model.n_support_ == 30
    np.testing.assert_array_equal(model.support_, np.concatenate([m.support_ for m in alone]))
    np.testing.assert_allclose(
        model.support_vectors_, np.vstack([m.support_vectors_ for m in alone]), atol=1e-9
    )
    K = np.exp(-0.5 * ((X[:, None] - model.support_vectors_[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(K @ model.dual_coef_.T, model.decision_function(X), atol=1e-9)


def test_a_comparison_does_not_share_its_kernel_values():
    X, y = stream("random")
    models = [case_of(None).model(), case_of(None).model(), BSGD(10, gamma=0.5)]
    alone = [copy.deepcopy(model).progressive_fit(X, y).mistakes.sum() for model in models]
    found = compare({str(i): model for i, model in enumerate(models)}, (X, y))
    assert [result.mistakes for result in found] == alone
    fitted = copy.deepcopy(models[0]).fit(X, y)
    with pytest.raises(ValueError, match="merges supports"):
        LearnerGroup(list(fitted._learners))


@pytest.mark.parametrize("kernel", ["linear", "poly", "laplacian", lambda A, B: A @ B.T])
def test_other_kernels_are_refused(kernel):
    X, y = stream("random")
    model = BSGD(10, "merging", kernel=kernel)
    with pytest.raises(ValueError, match='variant="merging" needs kernel="rbf"'):
        model.fit(X, y)
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize("wrapper", [batch.AveragedClassifier, batch.PenalizedRiskClassifier])
def test_averages_are_refused(wrapper):
    X, y = stream("random")
    with pytest.raises(ValueError, match="merges supports cannot be averaged"):
        wrapper(case_of(None).model()).fit(X, y)


def test_new_features_and_memory():
    X, y = stream("random")
    model = case_of(None).model().partial_fit(X[:120, :2], y[:120], classes=[-1, 1])
    wide = np.hstack([X[:, :2], np.zeros((len(X), 1))])
    twin = case_of(None).model().partial_fit(wide[:120], y[:120], classes=[-1, 1])
    model._add_features(3)
    for one in (model, twin):
        one.partial_fit(X[120:], y[120:])
    assert_same_model(model, twin)
    assert model.nbytes_ == twin.nbytes_
