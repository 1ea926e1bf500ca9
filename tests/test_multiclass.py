"""More than two classes: one against the rest; each class equals the binary learner."""

import copy

import numpy as np
import pytest
from cases import CASES
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

from budgetron._base.access import hypotheses_of
from budgetron._base.batches import signed_margin

X, Y = load_digits(n_class=4, return_X_y=True)
X, Y = X[:300] / 16, np.array(["zero", "one", "two", "three"])[Y[:300]]


def binary(case, label):
    """Return the learner of one class against the rest, and its trace."""
    model = case.model("rbf")
    return model, model.progressive_fit(X, np.where(label == Y, 1, -1), classes=[-1, 1], ledger=True)


@pytest.mark.parametrize(
    "label",
    [
        label
        for label, case in CASES.items()
        # Not if each class draws its own random numbers, or if all classes have the same supports.
        if "random_state" not in case.parameters and not any(s in label for s in ("second order", "shared"))
    ],
)
def test_each_class_equals_the_binary_learner(label):
    case = CASES[label]
    model = case.model("rbf")
    trace = model.progressive_fit(X, Y, ledger=True)
    assert model.classes_.tolist() == ["one", "three", "two", "zero"]
    alone = [binary(case, name) for name in model.classes_]
    np.testing.assert_allclose(trace.margins, np.array([t.margins for _, t in alone]).T)
    np.testing.assert_array_equal(trace.support_sizes, sum(t.support_sizes for _, t in alone))
    for name, values in trace.ledger.items():
        np.testing.assert_allclose(values, np.array([t.ledger[name] for _, t in alone]).T, err_msg=name)
    np.testing.assert_allclose(
        model.decision_function(X), np.array([m.decision_function(X) for m, _ in alone]).T
    )
    rounds = sorted(set().union(*(m.support_.tolist() for m, _ in alone)))
    np.testing.assert_array_equal(model.support_, rounds)
    np.testing.assert_array_equal(model.support_vectors_, X[rounds])
    assert model.dual_coef_.shape == (4, model.n_support_)
    for row, (m, _) in zip(model.dual_coef_, alone, strict=True):
        expected = np.zeros(len(rounds))
        expected[np.searchsorted(rounds, m.support_)] = m.dual_coef_[0]
        np.testing.assert_array_equal(row, expected)
    assert model.nbytes_ == sum(m.nbytes_ for m, _ in alone)
    assert model.rounds_ == 300
    # A prediction is correct if the margin of the true class is above all others
    right = trace.margins[np.arange(300), np.searchsorted(model.classes_, Y)]
    others = np.where(model.classes_[None, :] == Y[:, None], -np.inf, trace.margins).max(axis=1)
    np.testing.assert_array_equal(trace.mistakes, right <= others)
    assert model.mistakes_ == trace.mistakes.sum()


@pytest.mark.parametrize("label", CASES)
def test_cuts_and_play(label):
    case = CASES[label]
    whole = case.model().fit(X, Y)
    pieces, rows = case.model(), case.model()
    for start in range(0, 300, 37):
        pieces.partial_fit(csr_array(X[start : start + 37]), Y[start : start + 37], classes=whole.classes_)
    margins = [rows.play(x, y, classes=whole.classes_) for x, y in zip(X, Y, strict=True)]
    assert np.shape(margins) == (300, 4)
    for model in (pieces, rows):
        np.testing.assert_array_equal(model.support_, whole.support_)
        np.testing.assert_allclose(model.dual_coef_, whole.dual_coef_, rtol=1e-9, atol=1e-9)
        assert model.mistakes_ == whole.mistakes_
    assert whole.score(X, Y) > 0.5


def test_each_class_has_its_own_random_generator():
    model = CASES["random"].model().fit(X, Y)
    increments = [h.rule.generator.bit_generator.state["state"]["inc"] for h in hypotheses_of(model)]
    assert len(set(increments)) == 4


def test_labels_of_different_types():
    for labels in ([0, 1], [False, True], ["no", "yes"], [-1.0, 1.0], [5, 3]):
        y = np.array(labels)[(Y == "two").astype(int)]
        model = CASES["forgetron self-tuned"].model().fit(X, y)
        assert set(model.predict(X)) <= set(model.classes_)
        # A NumPy label and the equal Python label give the same round
        twin = copy.deepcopy(model)
        assert model.play(X[0], y[0]) == twin.play(X[0], y.tolist()[0])
        assert model.mistakes_ == twin.mistakes_
        np.testing.assert_array_equal(model.dual_coef_, twin.dual_coef_)


def test_margins_whose_difference_overflows():
    huge = np.array([[1.7e308, -1.7e308, 0.0]] * 2)
    assert signed_margin(huge, np.array([0, 1]), multiclass=True).tolist() == [1.7e308, -np.inf]
