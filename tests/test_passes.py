"""Passes over a sample until it is separated, and the leave-one-out bounds of the Perceptron."""

from math import sqrt

import numpy as np
import pytest
from cases import all_weights, with_ones
from sklearn.svm import SVC

import budgetron
from budgetron import bounds, linear, streams
from budgetron.batch import learn_until_separated
from budgetron.bounds import AssumptionError


def literal(X, y):
    """Run the Perceptron of 004 figure 8.6 cyclically; return its weights, updates and passes."""
    w, updates, passes, changed = np.zeros(X.shape[1]), 0, 0, True
    while changed:
        changed = False
        passes += 1
        for x, label in zip(X, y, strict=True):
            if label * (w @ x) <= 0:
                w, updates, changed = w + label * x, updates + 1, True
    return w, updates, passes


@pytest.mark.parametrize("seed", range(8))
def test_an_intercept_counts_as_a_feature_of_1(seed):
    X, y, _ = streams.separable(150, 4, 0.03, random_state=seed)
    weights, updates, passes = literal(with_ones(X), y)
    model = linear.Perceptron()
    result = learn_until_separated(model, X, y, margin=0.03)
    assert (result.updates, result.passes) == (updates, passes)
    np.testing.assert_allclose(all_weights(model)[0], weights, rtol=1e-9, atol=1e-9)
    assert result.updates <= result.limit == pytest.approx(bounds.perceptron_separable(2.0**0.5, 0.03))


@pytest.mark.parametrize("seed", range(8))
def test_linear_and_kernel_perceptron_equal_literal_code(seed):
    X, y, _ = streams.separable(150, 4, 0.03, random_state=seed)
    weights, updates, passes = literal(X, y)
    model = linear.Perceptron(fit_intercept=False)
    result = learn_until_separated(model, X, y, margin=0.03)
    assert (result.updates, result.passes) == (updates, passes)
    np.testing.assert_allclose(model.coef_[0], weights, rtol=1e-9, atol=1e-9)
    assert result.updates <= result.limit == pytest.approx(bounds.perceptron_separable(1.0, 0.03))
    assert result.passes > 1
    for counters in (False, True):
        dual = budgetron.KernelPerceptron(kernel="linear", counters=counters)
        same = learn_until_separated(dual, X, y, margin=0.03)
        assert (same.updates, same.passes) == (updates, passes)
        np.testing.assert_allclose(dual.dual_coef_[0] @ dual.support_vectors_, weights, atol=1e-9)
        assert dual.n_support_ == (updates if not counters else len(np.unique(dual.support_vectors_, axis=0)))
    assert np.all(y * model.decision_function(X) > 0)


def test_kernel_separates_what_a_hyperplane_does_not():
    X = np.random.default_rng(0).normal(size=(80, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "in", "out")
    model = budgetron.KernelPerceptron(counters=True, gamma=2.0)
    result = learn_until_separated(model, X, y)
    assert model.score(X, y) == 1.0
    assert model.n_support_ <= 80
    assert result.limit == np.inf
    with pytest.raises(ValueError, match="not separated after 5 passes"):
        learn_until_separated(linear.Perceptron(), X, y, max_passes=5)
    with pytest.raises(AssumptionError, match=r"separable with margin 0\.5 is assumed"):
        learn_until_separated(linear.Perceptron(), X, y, margin=0.5)
    for wrong, message in [({"margin": 0.0}, "margin must be above 0"), ({"max_passes": 0}, "max_passes")]:
        with pytest.raises(ValueError, match=message):
            learn_until_separated(linear.Perceptron(), X, y, **wrong)
    with pytest.raises(ValueError, match="two classes"):
        learn_until_separated(linear.Perceptron(), X, np.arange(80) % 3)


def test_leave_one_out_bounds():
    # 004 Theorems 8.9 and 8.10, simulated: the mean risk of m rows is at most the mean bound of m + 1 rows.
    m, margin = 25, 0.1
    test, labels, w = streams.separable(4000, 3, margin, random_state=0)
    rng = np.random.default_rng(1)
    risks, found = [], []
    for _ in range(300):
        rows = rng.integers(len(test), size=m + 1)  # the distribution is that of the rows of `test`
        X, y = test[rows], labels[rows]
        own_margin = np.min(y * (X @ w))  # at most the largest margin of this sample
        model = linear.Perceptron()
        learn_until_separated(model, X[:m], y[:m])
        updates = learn_until_separated(linear.Perceptron(), X, y).updates
        few, _ = svm(X[:m], y[:m])
        _, supports = svm(X, y)
        risks.append(
            [np.mean(labels * model.decision_function(test) <= 0), np.mean(labels * (test @ few) <= 0)]
        )
        found.append([bounds.leave_one_out(n, 1.0, own_margin, m + 1) for n in (updates, supports)])
    risks, found = np.array(risks), np.array(found)
    error = np.std(risks - found, axis=0) / sqrt(len(risks))
    assert np.all(risks.mean(axis=0) <= found.mean(axis=0) + 4 * error)
    assert np.all((risks.mean(axis=0) > 0.005) & (found.mean(axis=0) < 1))


def svm(X, y):
    """Return the weights of the SVM without offset for separable rows, and its number of support vectors."""
    # Rows and their opposites are separated symmetrically, so that the offset is 0.
    both = SVC(kernel="linear", C=1e6).fit(np.vstack([X, -X]), np.append(y, -y))
    assert abs(both.intercept_[0]) < 1e-3
    return both.coef_[0], len(np.unique(both.support_ % len(y)))
