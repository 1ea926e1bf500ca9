"""Perceptrons, one for each class, that share one budget."""

import pickle

import numpy as np
import pytest
from reference.shared_budget import SharedBudget
from scipy.sparse import csr_array
from test_joint_second_order import stream

import budgetron
from budgetron import RemoveOldestPerceptron, SharedBudgetPerceptron, bounds, certify
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier

GAMMA = 0.3


def without_ties(n_classes, budget, n=260, seed=0):
    """Return a stream without the rounds in which a score is near 0, and the reference's run on it."""
    X, codes = stream(n_classes, n, seed)
    K = np.exp(-GAMMA * ((X[:, None] - X) ** 2).sum(axis=2))
    kept = np.arange(n)
    while True:
        run = SharedBudget(K[np.ix_(kept, kept)], codes[kept], n_classes, budget)
        scores, removed, sizes, near = [], [], [], []
        for t in range(len(kept)):
            scores.append(run.play(t))
            removed.append(run.removed)
            sizes.append(len(run.supports))
            near.append(0 < run.gap < 1e-9)
        if not any(near):
            return X[kept], codes[kept], run, np.array(scores), removed, sizes
        kept = np.delete(kept, np.flatnonzero(near)[0])


@pytest.mark.parametrize("budget", [1, 7, 30, 500])
@pytest.mark.parametrize("n_classes", [3, 5])
def test_equals_reference(n_classes, budget):
    X, codes, run, scores, removed, sizes = without_ties(n_classes, budget)
    model = SharedBudgetPerceptron(budget, gamma=GAMMA)
    trace = model.progressive_fit(X, codes, classes=range(n_classes), ledger=True)
    np.testing.assert_allclose(trace.margins, scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(trace.support_sizes, sizes)
    np.testing.assert_array_equal(trace.ledger["removed"], removed)
    assert set(trace.ledger) == {"removed"}
    assert model.support_.tolist() == run.supports
    expected = [[one.get(t, 0.0) for t in run.supports] for one in run.alpha]
    np.testing.assert_array_equal(model.dual_coef_, expected)
    right = scores[np.arange(len(codes)), codes]
    others = np.where(np.arange(n_classes) == codes[:, None], -np.inf, scores).max(axis=1)
    np.testing.assert_array_equal(trace.mistakes, right <= others)
    assert model.mistakes_ == trace.mistakes.sum()


@pytest.mark.parametrize("kind", ["dense", "float32", "sparse", "wide"])
def test_cuts_single_rounds_and_files(kind, tmp_path):
    X, codes, *_ = without_ties(4, 15)
    rows = X.astype(np.float32) if kind == "float32" else X
    if kind in ("sparse", "wide"):
        rows = csr_array(np.hstack([X, np.zeros((len(X), 1200))]) if kind == "wide" else X)
    labels = np.array(["a", "b", "c", "d"])[codes]
    whole = SharedBudgetPerceptron(15, gamma=GAMMA)
    trace = whole.progressive_fit(rows, labels, classes=list("abcd"))
    pieces, single = SharedBudgetPerceptron(15, gamma=GAMMA), SharedBudgetPerceptron(15, gamma=GAMMA)
    for start in range(0, len(labels), 41):
        part = slice(start, start + 41)
        pieces.partial_fit(rows[part], labels[part], classes=list("abcd"))
        if start % 2:
            pieces = pickle.loads(pickle.dumps(pieces))
        else:
            budgetron.save(pieces, tmp_path / "model")
            pieces = budgetron.load(tmp_path / "model")
    margins = [
        single.play(rows[[i]] if kind in ("sparse", "wide") else rows[i], labels[i], classes=list("abcd"))
        for i in range(len(labels))
    ]
    tolerance = 1e-4 if kind == "float32" else 1e-9
    np.testing.assert_allclose(margins, trace.margins, rtol=tolerance, atol=tolerance)
    for other in (pieces, single):
        np.testing.assert_array_equal(other.support_, whole.support_)
        np.testing.assert_array_equal(other.dual_coef_, whole.dual_coef_)
        assert other.nbytes_ == whole.nbytes_ or kind == "wide"
        np.testing.assert_array_equal(other.predict(rows), whole.predict(rows))


def test_two_classes_are_remove_oldest():
    X, codes = stream(2)
    shared, separate = SharedBudgetPerceptron(9, gamma=GAMMA), RemoveOldestPerceptron(9, gamma=GAMMA)
    traces = [model.progressive_fit(X, codes, ledger=True) for model in (shared, separate)]
    np.testing.assert_array_equal(traces[0].margins, traces[1].margins)
    for name in ("psi", "removed", "norm"):
        np.testing.assert_array_equal(traces[0].ledger[name], traces[1].ledger[name])


def test_a_budget_that_is_never_full_is_a_perceptron_for_each_class():
    X, codes = stream(4)
    shared = SharedBudgetPerceptron(1000, gamma=GAMMA)
    separate = budgetron.KernelPerceptron(gamma=GAMMA)
    traces = [model.progressive_fit(X, codes) for model in (shared, separate)]
    np.testing.assert_allclose(traces[0].margins, traces[1].margins, rtol=1e-9, atol=1e-9)
    assert shared.n_support_ == separate.n_support_
    np.testing.assert_array_equal(shared.dual_coef_, separate.dual_coef_)


def test_memory_moves_to_the_classes_that_err():
    rng = np.random.default_rng(0)
    n = 3000
    codes = rng.choice(4, n, p=[0.4, 0.4, 0.1, 0.1])
    X = rng.normal(size=(n, 2)) + np.array([[0, 0], [1, 0], [30, 0], [60, 0]])[codes]  # two of them overlap
    model = SharedBudgetPerceptron(80, gamma=0.5).fit(X, codes)
    counts = (model.dual_coef_ != 0).sum(axis=1)
    assert model.n_support_ == 80
    assert counts[:2].min() > 3 * counts[2:].max()
    separate = RemoveOldestPerceptron(20, gamma=0.5)
    assert model.mistakes_ < separate.fit(X, codes).mistakes_


def test_new_classes():
    X, codes = stream(4, 600)
    order = np.argsort(codes >= 2, kind="stable")  # the last two classes come later
    X, codes = X[order], codes[order]
    model = SharedBudgetPerceptron(20, gamma=GAMMA)
    for start in range(0, 600, 60):
        model.partial_fit(X[start : start + 60], codes[start : start + 60], admit=True)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.n_support_ == 20
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        twin.progressive_fit(X, codes).margins, model.progressive_fit(X, codes).margins
    )


@pytest.mark.parametrize("wrapper", [AveragedClassifier, PenalizedRiskClassifier])
def test_past_hypotheses(wrapper):
    X, codes = stream(3)
    with pytest.raises(ValueError, match="cannot be averaged or recorded; use RemoveOldestPerceptron"):
        wrapper(SharedBudgetPerceptron(9, gamma=GAMMA)).fit(X, codes)
    X, codes = stream(2)
    model = wrapper(SharedBudgetPerceptron(9, gamma=GAMMA)).fit(X, codes)
    same = wrapper(RemoveOldestPerceptron(9, gamma=GAMMA)).fit(X, codes)
    np.testing.assert_array_equal(model.decision_function(X), same.decision_function(X))


# ---------------------------------------------------------------------- its theorem


@pytest.mark.parametrize("budget", [1, 7, 30, 500])
@pytest.mark.parametrize("n_classes", [3, 5])
def test_the_certificate_equals_the_reference(n_classes, budget):
    X, codes, run, *_ = without_ties(n_classes, budget)
    model = SharedBudgetPerceptron(budget, gamma=GAMMA)
    trace = model.progressive_fit(X, codes, classes=range(n_classes), ledger=True)
    K = np.exp(-GAMMA * ((X[:, None] - X) ** 2).sum(axis=2))
    signs = np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0)
    best = certify(model, X, codes, trace)
    assert best.count == model.mistakes_ <= sum(run.errors) <= best.bound
    for size in (0.0, 0.01, 0.1, 1.0):
        coef = size * np.random.default_rng(0).normal(size=(n_classes, len(X)))
        values = K @ coef.T
        squares = sum(float(own @ K @ own) for own in coef)
        losses = float(np.maximum(0.0, 1.0 - signs * values).sum())
        certificate = certify(model, X, codes, trace, (X, coef))
        assert certificate.bound == pytest.approx(squares + 2 * losses + run.damage)
        assert certificate.bound == pytest.approx(bounds.shared_budget(squares**0.5, losses, run.damage))
        assert sum(run.errors) <= certificate.bound
        assert best.bound <= certificate.bound * (1 + 1e-6)
    again = certify(model, X, codes, trace, model)
    assert best.bound <= again.bound * (1 + 1e-6)


def test_no_bound_is_violated_and_it_can_be_tight():
    for seed in range(20):
        for n_classes, budget in ((3, 3), (4, 12), (6, 40)):
            X, codes = stream(n_classes, 150, seed)
            X = X.astype(np.float32) if seed % 3 == 2 else X
            model = SharedBudgetPerceptron(budget, gamma=GAMMA)
            trace = model.progressive_fit(X, codes, classes=range(n_classes), ledger=True)
            assert certify(model, X, codes, trace).holds
    # Of orthonormal rows, every class errs in every round.
    X, codes = np.eye(12), np.arange(12) % 3
    model = SharedBudgetPerceptron(20, kernel="linear")
    trace = model.progressive_fit(X, codes, ledger=True)
    signs = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    assert certify(model, X, codes, trace, (X, signs.T)).bound == pytest.approx(36.0)


def test_competitors_of_other_shapes_are_refused():
    X, codes = stream(3, 60, 0)
    model = SharedBudgetPerceptron(10, gamma=GAMMA)
    trace = model.progressive_fit(X, codes, ledger=True)
    with pytest.raises(ValueError, match="must have 3 outputs; an expansion has 1"):
        certify(model, X, codes, trace, (X, np.zeros(60)))
    with pytest.raises(ValueError, match="a model of the same classes"):
        certify(model, X, codes, trace, [(0, model)])
    other = SharedBudgetPerceptron(10, gamma=GAMMA)
    plain = other.progressive_fit(X, codes)
    with pytest.raises(ValueError, match="ledger=True"):
        certify(other, X, codes, plain)
    separate = RemoveOldestPerceptron(10, gamma=GAMMA)
    with pytest.raises(ValueError, match="the theorems are about two classes"):
        certify(separate, X, codes, separate.progressive_fit(X, codes, ledger=True))
