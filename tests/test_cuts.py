"""Batches are equivalent to single rounds: the model does not depend on how the stream is cut."""

import copy
import pickle

import numpy as np
import pytest
from cases import CASES, stream
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from test_reference import replay


def state(model):
    return model.support_, model.dual_coef_, model.support_vectors_, model.mistakes_, model.rounds_


def assert_same_model(a, b, tolerance=1e-9):
    for left, right in zip(state(a), state(b), strict=True):
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


def in_pieces(model, X, y, cuts, *, sparse=False):
    pieces = np.split(np.arange(len(y)), sorted(cuts))
    for piece in pieces:
        if len(piece):
            model.partial_fit(csr_array(X[piece]) if sparse else X[piece], y[piece], classes=[-1, 1])
    return model


@pytest.mark.parametrize("label", CASES)
@given(cuts=st.lists(st.integers(0, 300), max_size=12), sparse=st.booleans())
def test_any_cut(label, cuts, sparse):
    X, y, *_ = replay_cached(label)
    whole = whole_cached(label)
    assert_same_model(in_pieces(CASES[label].model(), X, y, cuts, sparse=sparse), whole)


@pytest.mark.parametrize(
    "kernel", ["rbf", "linear", "poly", "laplacian", "allsubsets", "callable", "normalized poly"]
)
@pytest.mark.parametrize("label", CASES)
def test_play_and_progressive_fit(label, kernel):
    case = CASES[label]
    X, y, *_ = replay(case, "sparse", kernel)
    whole = case.model(kernel).fit(X, y)
    one_by_one = case.model(kernel)
    margins = [one_by_one.play(x, label, classes=[-1, 1]) for x, label in zip(X, y, strict=True)]
    assert_same_model(one_by_one, whole)
    if kernel == "rbf":
        sparse = case.model(kernel)
        for x, label in zip(csr_array(X), y, strict=True):
            sparse.play(x, label, classes=[-1, 1])
        assert_same_model(sparse, whole)
    progressive = case.model(kernel)
    trace = progressive.progressive_fit(X, y)
    assert_same_model(progressive, whole)
    np.testing.assert_allclose(margins, trace.margins, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", CASES)
def test_play_after_batches_and_back(label, dtype):
    case = CASES[label]
    X, y, *_ = replay(case, "random", "rbf", tie=2e-3)
    X = X.astype(dtype)
    whole = case.model().fit(X, y)
    mixed = case.model().partial_fit(X[:50], y[:50], classes=[-1, 1])
    for i in range(50, 100):
        mixed.play(X[i], y[i])
    mixed.partial_fit(X[100:], y[100:])
    assert mixed.support_vectors_.dtype == dtype
    assert_same_model(mixed, whole, 1e-9 if dtype == np.float64 else 1e-3)


@pytest.mark.parametrize("label", CASES)
def test_ledger_may_start_in_the_middle_of_the_stream(label):
    case = CASES[label]
    X, y, *_ = replay(case, "random", "rbf")
    whole = case.model().progressive_fit(X, y, ledger=True)
    model = case.model()
    model.partial_fit(X[:150], y[:150], classes=[-1, 1])
    second = model.progressive_fit(X[150:], y[150:], ledger=True)
    for name, values in second.ledger.items():
        np.testing.assert_allclose(values, whole.ledger[name][150:], rtol=1e-7, atol=1e-7, err_msg=name)
    assert case.model().progressive_fit(X, y).ledger is None


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("label", CASES)
def test_copy_continues_exactly_and_is_independent(label, copied):
    X, y = stream("random")
    model = CASES[label].model().partial_fit(X[:120], y[:120], classes=[-1, 1])
    twin = copied(model)
    model.partial_fit(X[120:], y[120:])
    assert twin.rounds_ == 120
    twin.partial_fit(X[120:], y[120:])
    for left, right in zip(state(model), state(twin), strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(model.decision_function(X), twin.decision_function(X))


@pytest.mark.parametrize("label", CASES)
def test_fit_starts_again(label):
    X, y = stream("random")
    model = CASES[label].model().fit(X, y)
    np.testing.assert_array_equal(model.fit(X, y).dual_coef_, CASES[label].model().fit(X, y).dual_coef_)
    assert model.rounds_ == len(y)


_replayed, _whole = {}, {}


def replay_cached(label):
    if label not in _replayed:
        _replayed[label] = replay(CASES[label], "random", "rbf", n=300)
    return _replayed[label]


def whole_cached(label):
    if label not in _whole:
        X, y, *_ = replay_cached(label)
        _whole[label] = CASES[label].model().fit(X, y)
    return _whole[label]


def test_play_accepts_an_array_of_one_row():
    X, y = stream("random")
    one, other = CASES["perceptron"].model(), CASES["perceptron"].model()
    for i in range(20):
        assert one.play(X[i], y[i], classes=[-1, 1]) == other.play(X[i : i + 1], y[i], classes=[-1, 1])
