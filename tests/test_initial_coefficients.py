"""The kernel Perceptron that starts from given coefficients (Mohri et al., figure 8.9)."""

import pickle

import numpy as np
import pytest
from reference.perceptron import KernelPerceptron as Reference
from scipy.sparse import csr_array
from sklearn.base import clone

import budgetron
from budgetron import KernelPerceptron, certify, linear
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier, learn_until_separated

GAMMA = 0.5


class FromAlpha(Reference):
    """Figure 8.9 literally: alpha counts the mistakes on each row, from alpha_0 on."""

    def __init__(self, K, y, start):
        super().__init__(K, y)
        self.alpha = {t: float(c) for t, c in enumerate(start) if c != 0.0}

    def update(self, t, margin):
        self.alpha[t] = self.alpha.get(t, 0.0) + self.y[t]


def stream(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    alpha = np.where(rng.random(n) < 0.3, np.round(rng.exponential(2.0, n), 2), 0.0)
    return X, y, alpha * y


def gram(X):
    return np.exp(-GAMMA * np.square(X[:, None] - X[None]).sum(axis=2))


@pytest.mark.parametrize("counters", [False, True])
@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
@pytest.mark.parametrize("seed", range(4))
def test_equals_the_reference(seed, kind, counters):
    X, y, start = stream(seed=seed)
    rows = {"dense": X, "float32": X.astype(np.float32), "sparse": csr_array(X)}[kind]
    reference = FromAlpha(gram(X), y, start)
    margins = [reference.play(t) for t in range(len(y))]
    model = KernelPerceptron(initial_coefficients=tuple(start), counters=counters, gamma=GAMMA)
    trace = model.progressive_fit(rows, y)
    tolerance = 1e-4 if kind == "float32" else 1e-9
    np.testing.assert_allclose(trace.margins, margins, rtol=tolerance, atol=tolerance)
    assert model.mistakes_ == reference.mistakes == trace.mistakes.sum()
    first = np.count_nonzero(start)
    assert model.rounds_ == len(y) + first
    # The coefficients of each row, added up.
    found = np.zeros(len(y))
    places = np.concatenate([np.flatnonzero(start), np.arange(len(y))])
    np.add.at(found, places[model.support_], model.dual_coef_[0])
    np.testing.assert_allclose(found, [reference.alpha.get(t, 0.0) for t in range(len(y))], atol=1e-12)
    if counters:
        assert model.n_support_ == len(reference.alpha)
    values = gram(X) @ found
    np.testing.assert_allclose(model.decision_function(rows), values, rtol=tolerance, atol=tolerance)


def test_zeros_change_nothing_and_repeated_rows_are_counted():
    X, y, _ = stream()
    plain, zeros = (
        KernelPerceptron(gamma=GAMMA),
        KernelPerceptron(initial_coefficients=(0,) * 80, gamma=GAMMA),
    )
    np.testing.assert_array_equal(plain.progressive_fit(X, y).margins, zeros.progressive_fit(X, y).margins)
    assert zeros.rounds_ == 80
    twice, labels = np.vstack([X[:5], X[:5]]), np.tile(y[:5], 2)
    model = KernelPerceptron(initial_coefficients=(1.0,) * 10, counters=True, gamma=GAMMA).fit(twice, labels)
    assert model.n_support_ == 5


def test_the_linear_kernel_equals_initial_weights():
    X, y, start = stream(seed=5)
    dual = KernelPerceptron(initial_coefficients=tuple(start), kernel="linear").fit(X, y)
    primal = linear.Perceptron(initial_weights=tuple(start @ X), fit_intercept=False).fit(X, y)
    assert dual.mistakes_ == primal.mistakes_
    np.testing.assert_allclose(dual.decision_function(X), primal.decision_function(X), atol=1e-9)


def test_copies_files_and_later_calls(tmp_path):
    X, y, start = stream(seed=2)
    model = KernelPerceptron(initial_coefficients=tuple(start), counters=True, gamma=GAMMA)
    model.partial_fit(X, y, classes=[-1.0, 1.0])
    budgetron.save(model, tmp_path / "model.budgetron")
    copies = [budgetron.load(tmp_path / "model.budgetron"), pickle.loads(pickle.dumps(model))]
    model.partial_fit(X[::-1], y[::-1])
    for copy in copies:
        assert copy.get_params() == model.get_params()
        copy.partial_fit(X[::-1], y[::-1])
        np.testing.assert_array_equal(copy.dual_coef_, model.dual_coef_)
        np.testing.assert_array_equal(copy.support_, model.support_)
    # A call with fewer rows than coefficients is refused, and nothing is learned.
    new = clone(model)
    with pytest.raises(
        ValueError, match="a tuple of 10 numbers, one per row of the first call; got 80 items"
    ):
        new.partial_fit(X[:10], y[:10], classes=[-1.0, 1.0])
    assert not new.__sklearn_is_fitted__()


def test_bad_coefficients_and_no_theorem():
    X, y, start = stream()
    for bad, message in (
        ((1.0,), "a tuple of 80 numbers"),
        (("a",) * 80, "a tuple of 80 numbers"),
        ((np.nan,) * 80, "must be finite"),
        ((1e300,) * 80, "must be finite and below"),
    ):
        with pytest.raises(ValueError, match=message):
            KernelPerceptron(initial_coefficients=bad, gamma=GAMMA).fit(X, y)
    with pytest.raises(ValueError, match="initial_coefficients are for two classes; got 3 classes"):
        KernelPerceptron(initial_coefficients=tuple(start), gamma=GAMMA).fit(X, np.arange(80) % 3)
    model = KernelPerceptron(initial_coefficients=tuple(start), gamma=GAMMA)
    trace = model.progressive_fit(X, y)
    with pytest.raises(ValueError, match="the papers state no theorem"):
        certify(model, X, y, trace)


def test_averages_are_refused():
    X, y, start = stream(seed=3)
    for wrapper in (AveragedClassifier, PenalizedRiskClassifier):
        with pytest.raises(ValueError, match="a learner with initial_coefficients cannot be averaged"):
            wrapper(KernelPerceptron(initial_coefficients=tuple(start), gamma=GAMMA)).fit(X, y)


def test_passes_until_a_sample_is_separated():
    X, y, start = stream(30, seed=4)
    model = KernelPerceptron(initial_coefficients=tuple(-start), counters=True, gamma=5.0)
    learn_until_separated(model, X, y)
    assert np.all(y * model.decision_function(X) > 0.0)
