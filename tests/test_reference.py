"""Each learner compared with its slow, literal reference in every round."""

import copy

import numpy as np
import pytest
from cases import CASES, STREAMS, gram_of, stream, with_budget
from reference import KERNELS
from scipy.sparse import csr_array, issparse

from budgetron._base import kernel_estimator

TIE = 1e-10
# Runs with a larger `tie` than this are compared with float32 rows, where more values are ties.
DOUBLE_GAP, SINGLE_TIE = 1e-6, 1e-4
RUNS = {}


def replay(case, name, kernel, n=240, tie=TIE, seed=0):
    """Return the result of `play_reference`, from a cache if possible: the references are slow."""
    key = (case.learner, repr(case.parameters), name, kernel, n, tie, seed)
    if key not in RUNS:
        RUNS[key] = play_reference(case, name, kernel, n, tie, seed)
    return RUNS[key]


def play_reference(case, name, kernel, n, tie, seed):
    """Run the reference; return the rounds that were kept, the results of each, and the reference at the end.

    A round with a decision closer than `tie` is left out of the stream, for the learner too, because rounding
    might decide it.
    """
    X, y = stream(name, n, seed)
    K = gram_of(name, kernel, n, seed)
    reference = case.start_reference(K, y)
    reference.tie = SINGLE_TIE if tie > DOUBLE_GAP else reference.tie
    kept, margins, sizes, ledger = [], [], [], []
    for t in range(n):
        attempt = copy.copy(reference)
        attempt.alpha = dict(reference.alpha)
        attempt.rng = copy.deepcopy(getattr(reference, "rng", None))
        attempt.predictors = list(getattr(reference, "predictors", []))
        margin = attempt.play(t)
        if attempt.gap < tie:
            continue
        reference = attempt
        kept.append(t)
        margins.append(margin)
        sizes.append(len(reference.alpha))
        ledger.append(reference.entry)
    kept = np.array(kept)
    return X[kept], y[kept], kept, np.array(margins), np.array(sizes), ledger, reference


def assert_same(model, trace, run, tolerance=1e-9, ledger_tolerance=1e-8):
    X, y, kept, margins, sizes, ledger, reference = run
    position = {t: i for i, t in enumerate(kept.tolist())}
    scale = max(1.0, np.abs(margins).max())
    np.testing.assert_allclose(trace.margins, margins, rtol=tolerance, atol=tolerance * scale)
    np.testing.assert_array_equal(trace.mistakes, y * margins <= 0)
    np.testing.assert_array_equal(trace.support_sizes, sizes)
    np.testing.assert_array_equal(model.support_, [position[t] for t in reference.alpha])
    rows = model.support_vectors_
    np.testing.assert_array_equal(
        rows.toarray() if issparse(rows) else rows, X[model.support_].astype(rows.dtype)
    )
    coef = np.array(list(reference.alpha.values()))
    np.testing.assert_allclose(model.dual_coef_[0], coef, rtol=tolerance, atol=tolerance)
    assert model.mistakes_ == reference.mistakes
    assert model.rounds_ == len(y)
    assert set(trace.ledger) == set(reference.names)
    for name in reference.names:
        expected = np.array([entry[name] for entry in ledger])
        if name == "removed":
            expected = [position.get(t, -1) for t in expected]
            np.testing.assert_array_equal(trace.ledger[name], expected, err_msg=name)
        else:
            actual, power = trace.ledger[name], 2 if name in ("norm", "delta", "error") else 1
            # A norm is the root of a sum that may cancel, so near 0 only its square can be compared.
            np.testing.assert_allclose(
                actual**power,
                expected**power,
                rtol=ledger_tolerance,
                atol=ledger_tolerance * scale if power == 1 else ledger_tolerance / 100 * scale**2,
                err_msg=name,
            )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("label", CASES)
def test_equals_reference(label, name, kernel, record_property):
    case = CASES[label]
    run = replay(case, name, kernel)
    record_property("ties left out", 240 - len(run[2]))
    assert len(run[2]) > 60
    model = case.model(kernel)
    trace = model.progressive_fit(run[0], run[1], classes=[-1, 1], ledger=True)
    assert_same(model, trace, run)


@pytest.mark.parametrize("budget", [1, 2, 3])
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("label", [label for label, case in CASES.items() if with_budget(case, 1)])
def test_small_budgets(label, name, budget):
    case = with_budget(CASES[label], budget)
    run = replay(case, name, "rbf")
    model = case.model("rbf")
    assert_same(model, model.progressive_fit(run[0], run[1], classes=[-1, 1], ledger=True), run)
    assert model.n_support_ <= budget


@pytest.mark.parametrize("label", CASES)
def test_stream_shorter_than_the_budget(label):
    case = with_budget(CASES[label], 100) or CASES[label]
    run = replay(case, "random", "rbf", n=40)
    model = case.model("rbf")
    assert_same(model, model.progressive_fit(run[0], run[1], classes=[-1, 1], ledger=True), run)


# With small integers, inner products and integer coefficients these learners compute without rounding.
# Ties are then exact in the learner and in the reference, and no round is left out.
EXACT = ["perceptron", "remove oldest", "shared budget", "random", "cks", "stoptron", "voted"]


@pytest.mark.parametrize("kernel", ["linear", "allsubsets"])
@pytest.mark.parametrize("label", EXACT)
def test_exact_ties(label, kernel):
    case = CASES[label]
    run = replay(case, "exact", kernel, tie=0.0)
    assert len(run[2]) == 240
    assert np.sum(run[3] == 0) > 3
    model = case.model(kernel)
    assert_same(model, model.progressive_fit(run[0], run[1], classes=[-1, 1], ledger=True), run)


@pytest.mark.parametrize("name", ["random", "sparse"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian", "allsubsets", "normalized poly"])
@pytest.mark.parametrize("label", CASES)
def test_float32(label, kernel, name):
    # Rounds that float32 might decide differently are left out. All other decisions must be the same.
    case = CASES[label]
    run = replay(case, name, kernel, tie=2e-3)
    assert len(run[2]) > 40
    model = case.model(kernel)
    trace = model.progressive_fit(run[0].astype(np.float32), run[1], classes=[-1, 1])
    assert model.support_vectors_.dtype == np.float32
    scale = max(1.0, np.abs(run[3]).max())
    np.testing.assert_allclose(trace.margins, run[3], rtol=1e-3, atol=1e-3 * scale)
    np.testing.assert_array_equal(trace.support_sizes, run[4])
    position = {t: i for i, t in enumerate(run[2].tolist())}
    np.testing.assert_array_equal(model.support_, [position[t] for t in run[6].alpha])


# How a slab may store the rows of a CSR matrix: all features, or only the non-zeros.
STORAGE = {"columns": (10**9, 32), "non-zeros": (0, 1)}


@pytest.fixture(params=STORAGE)
def storage(request, monkeypatch):
    wide, sparse = STORAGE[request.param]
    monkeypatch.setattr(kernel_estimator, "WIDE", wide)
    monkeypatch.setattr(kernel_estimator, "SPARSE", sparse)
    return request.param


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("label", CASES)
def test_sparse_rows(label, kernel, storage):
    case = CASES[label]
    run = replay(case, "sparse", kernel)
    model = case.model(kernel)
    trace = model.progressive_fit(csr_array(run[0]), run[1], classes=[-1, 1], ledger=True)
    assert model._learners[0].supports.sparse == (storage == "non-zeros" and "callable" not in kernel)
    assert_same(model, trace, run)
    dense = case.model(kernel).fit(run[0], run[1])
    np.testing.assert_allclose(
        model.decision_function(csr_array(run[0])), dense.decision_function(run[0]), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("label", CASES)
def test_float32_sparse_rows(label, storage):
    case = CASES[label]
    run = replay(case, "sparse", "rbf", tie=2e-3)
    model = case.model("rbf")
    trace = model.progressive_fit(csr_array(run[0].astype(np.float32)), run[1], classes=[-1, 1])
    np.testing.assert_allclose(trace.margins, run[3], rtol=1e-3, atol=1e-3 * max(1.0, np.abs(run[3]).max()))
    np.testing.assert_array_equal(trace.support_sizes, run[4])


@pytest.mark.parametrize("label", CASES)
def test_sparse_rows_one_by_one(label, storage):
    # Single rounds and batches, of sparse and dense rows, on the kind of slab that the first batch chose.
    case = CASES[label]
    X, y, *_, margins, sizes, _, _ = replay(case, "sparse", "rbf")
    model = case.model("rbf")
    model.partial_fit(csr_array(X[:1]), y[:1], classes=[-1, 1])
    got = [model.play(csr_array(X[i : i + 1]) if i % 2 else X[i], y[i]) for i in range(1, 60)]
    scale = max(1.0, np.abs(margins).max())
    np.testing.assert_allclose(got, margins[1:60], rtol=1e-9, atol=1e-9 * scale)
    rest = model.progressive_fit(X[60:], y[60:])
    np.testing.assert_allclose(rest.margins, margins[60:], rtol=1e-9, atol=1e-9 * scale)
    np.testing.assert_array_equal(rest.support_sizes, sizes[60:])


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("label", CASES)
def test_dense_rows_with_many_zeros(label, kernel):
    # With this many features, products use only the non-zeros, for dense and for sparse rows.
    case = CASES[label]
    X, y, *_, margins, sizes, _, _ = replay(case, "sparse", kernel)
    wide = np.hstack([X, np.zeros((len(X), 40))])
    for rows in (wide, csr_array(wide)):
        trace = case.model(kernel).progressive_fit(rows, y, classes=[-1, 1])
        scale = max(1.0, np.abs(margins).max())
        np.testing.assert_allclose(trace.margins, margins, rtol=1e-9, atol=1e-9 * scale)
        np.testing.assert_array_equal(trace.support_sizes, sizes)


@pytest.mark.parametrize("vote", ["average", "majority"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "callable"])
def test_votes(kernel, vote):
    case = CASES["voted"]
    X, y, kept, *_, reference = replay(case, "random", kernel)
    model = case.model(kernel, vote=vote).fit(X, y)
    expected = [getattr(reference, vote)(t) for t in kept]
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-9, atol=1e-9)


def test_decision_function_equals_the_hypothesis_of_the_reference():
    for label, case in CASES.items():
        if label != "voted":
            X, y, kept, *_, reference = replay(case, "random", "rbf")
            model = case.model("rbf").fit(X, y)
            expected = [reference.f(t) for t in kept]
            np.testing.assert_allclose(
                model.decision_function(X), expected, rtol=1e-9, atol=1e-9, err_msg=label
            )


@pytest.mark.parametrize("label", CASES)
def test_long_streams_with_many_blocks(label):
    case = with_budget(CASES[label], 25) or CASES[label]
    run = replay(case, "random", "rbf", n=700, seed=1)
    model = case.model("rbf")
    assert_same(model, model.progressive_fit(run[0], run[1], classes=[-1, 1], ledger=True), run)
