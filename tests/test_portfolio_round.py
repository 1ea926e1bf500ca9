"""Single rounds of a portfolio in compiled code: the same state as a batch of one row gives."""

import copy
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

from budgetron import BudgetClassifier
from budgetron._base.access import hypotheses_of
from budgetron.portfolio._schedule import ScheduledPool


def assert_same(found, expected, where="state"):
    """Compare two states, bit by bit."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_same(found[name], expected[name], f"{where}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, f"{where}[{i}]")
    else:
        np.testing.assert_array_equal(found, expected, err_msg=where)


def fitted(classes, dtype, memory, rows=500, **options):
    X, y = load_digits(return_X_y=True)
    model = BudgetClassifier(memory, random_state=0, **options)
    labels = y % 2 if classes == 2 else y
    return X.astype(dtype), labels, model.partial_fit(X[:rows].astype(dtype), labels[:rows], range(classes))


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("memory", ["4MB", "16MB"])
def test_single_rounds_equal_batches_of_one_row(classes, dtype, memory, monkeypatch):
    X, y, model = fitted(classes, dtype, memory, class_weight={1: 2.0})
    other, compiled = pickle.loads(pickle.dumps(model)), 0
    portfolio = hypotheses_of(model)[0]
    play_single = type(portfolio).play_single
    for i in range(500, 1100):
        before = portfolio.rounds
        if i < 510:
            single = play_single(copy.deepcopy(portfolio), X[i], 1.0, 1.0, np.ones(7))
            compiled += single is not None
        margins = model.play(X[i], y[i])
        assert portfolio.rounds == before + 1
        with monkeypatch.context() as patch:
            patch.setattr(type(other), "_play_single", lambda self, x, y: None)
            np.testing.assert_array_equal(margins, other.play(X[i], y[i]))
    assert compiled  # otherwise both were batches
    assert_same(portfolio.state(), hypotheses_of(other)[0].state())
    np.testing.assert_array_equal(model.sigmoids_, other.sigmoids_)
    assert model.nbytes_ == other.nbytes_ <= 16 << 20


def test_rows_that_are_not_ordinary_are_played_as_batches():
    X, _, model = fitted(2, np.float64, "4MB", rows=600)
    portfolio, sigmoid = hypotheses_of(model)[0], model.sigmoids_[0]
    state, before = copy.deepcopy(portfolio.state()), sigmoid.copy()
    rows = [X[600] * 1e20, np.full(64, np.nan), X[600][:5], csr_array(X[600:601]), ["a"] * 64, X[600:601]]
    for row in rows:
        assert portfolio.play_single(row, 1.0, 1.0, sigmoid) is None
    assert portfolio.play_single(X[600], 1.0, 1e7, sigmoid) is None  # a very large weight
    assert_same(portfolio.state(), state)
    np.testing.assert_array_equal(sigmoid, before)
    for row in (X[600].tolist(), X[601].astype(int), X[602:603, ::1][0]):
        assert portfolio.play_single(row, 1.0, 1.0, sigmoid) is not None


def test_the_schedule_runs_after_its_rounds(monkeypatch):
    """Rounds 640 and 704 end a chunk. Before them, no expert needs more room."""
    X, _, model = fitted(2, np.float64, "16MB", rows=630)
    portfolio, ran = hypotheses_of(model)[0], []
    for expert in portfolio.pool.experts:
        expert.allowed = expert.budget  # no expert grows
    run_schedule = ScheduledPool.run_schedule

    def recorded(pool, wrong):
        ran.append(pool.seen)
        assert not wrong.any()  # the mistakes of the round were counted before
        return run_schedule(pool, wrong)

    monkeypatch.setattr(ScheduledPool, "run_schedule", recorded)
    for i in range(630, 710):
        assert portfolio.play_single(X[i], 1.0, 1.0, model.sigmoids_[0]) is not None
    assert ran == [640, 704]


def test_copies_have_their_own_rounds():
    X, y, model = fitted(10, np.float64, "4MB", rows=600)
    model.play(X[600], y[600])
    other = copy.deepcopy(model)
    other.play(X[601], y[601])
    assert hypotheses_of(model)[0].rounds + 1 == hypotheses_of(other)[0].rounds
    state = copy.deepcopy(hypotheses_of(model)[0].state())
    other.play(X[602], y[602])
    assert_same(hypotheses_of(model)[0].state(), state)


@pytest.mark.parametrize("classes", [2, 10])
def test_the_number_of_threads_changes_nothing(classes):
    X, y = load_digits(return_X_y=True)
    labels = y % 2 if classes == 2 else y
    one, two = (BudgetClassifier("4MB", random_state=0, n_jobs=n_jobs) for n_jobs in (None, 3))
    for start in range(0, 1300, 130):
        rows = slice(start, start + 130)
        for model in (one, two):
            model.partial_fit(X[rows], labels[rows], range(classes))
    assert_same(hypotheses_of(two)[0].state(), hypotheses_of(one)[0].state())
    two.set_params(n_jobs=0)
    with pytest.raises(ValueError, match="n_jobs must be"):
        two.partial_fit(X[1300:1400], labels[1300:1400])
    assert_same(hypotheses_of(two)[0].state(), hypotheses_of(one)[0].state())
