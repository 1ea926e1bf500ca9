"""The linear learners compared with their references in every round, and identities between learners."""

import copy
import pickle
from math import exp, inf

import numpy as np
import pytest
import sklearn
from cases import STREAMS, all_weights, stream, with_ones
from hypothesis import given
from hypothesis import strategies as st
from reference import linear as ref
from scipy.sparse import coo_array, csr_array, csr_matrix
from sklearn.linear_model import PassiveAggressiveClassifier, SGDClassifier
from sklearn.utils.fixes import parse_version

import budgetron
from budgetron import CalibratedClassifier, linear
from budgetron._base.access import add_features
from budgetron.batch import AveragedClassifier
from budgetron.experts import WeightedMajority

TIE = 1e-10

CASES = {
    "perceptron": (linear.Perceptron, ref.Perceptron, {}),
    "perceptron eta": (linear.Perceptron, ref.Perceptron, {"eta": 0.3}),
    "normalized": (linear.Perceptron, ref.Perceptron, {"normalize": True}),
    "margin": (linear.MarginPerceptron, ref.MarginPerceptron, {"margin": 0.5}),
    "voted": (linear.VotedPerceptron, ref.Perceptron, {}),
    "winnow": (linear.Winnow, ref.Winnow, {"eta": 0.4}),
    "winnow balanced": (linear.Winnow, ref.Winnow, {"eta": 0.4, "balanced": True}),
    "svm": (linear.OnlineSVM, ref.OnlineSVM, {"eta": 0.05, "C": 2.0}),
    "svm forgetful": (linear.OnlineSVM, ref.OnlineSVM, {"eta": 0.9, "C": 1.5}),
    "pa": (linear.PassiveAggressive, ref.PassiveAggressive, {"C": 1.0, "variant": "PA"}),
    "pa-i": (linear.PassiveAggressive, ref.PassiveAggressive, {"C": 0.1, "variant": "PA-I"}),
    "pa-ii": (linear.PassiveAggressive, ref.PassiveAggressive, {"C": 0.1, "variant": "PA-II"}),
    "arow": (linear.AROW, ref.AROW, {"r": 0.7, "covariance": "full"}),
    "arow diagonal": (linear.AROW, ref.AROW, {"r": 0.7, "covariance": "diagonal"}),
}
# Each once more with the opposite of its default: without an intercept, and Winnow with one.
CASES |= {
    f"{label}, {'with' if learner is linear.Winnow else 'no'} intercept": (
        learner,
        reference,
        parameters | {"fit_intercept": learner is linear.Winnow},
    )
    for label, (learner, reference, parameters) in CASES.items()
}


def make(label, **more):
    learner, _, parameters = CASES[label]
    return learner(**parameters, **more)


def weights(model):
    """Return the weights of the current hypothesis, which may differ from `coef_`."""
    return np.vstack([learner.factor * learner.weights for learner in model._learners])


def replay(label, name, n=240, tie=TIE, seed=0):
    """Run the reference, leave out rounds that rounding might decide, and return the other results."""
    X, y = stream(name, n, seed)
    _, reference, parameters = CASES[label]
    run = reference(X.shape[1], **parameters)
    kept, margins, after, ledger = [], [], [], []
    for t in range(n):
        attempt = copy.copy(run)
        margin = attempt.play(X[t], y[t])
        if attempt.gap < tie:
            continue
        run = attempt
        kept.append(t)
        margins.append(margin)
        after.append(run.w)
        ledger.append(run.entry)
    return X[kept], y[kept], np.array(margins), np.array(after), ledger, run


def assert_same(model, trace, run, tolerance=1e-10):
    _, y, margins, after, ledger, reference = run
    scale = max(1.0, np.abs(margins).max())
    np.testing.assert_allclose(trace.margins, margins, rtol=tolerance, atol=tolerance * scale)
    np.testing.assert_array_equal(trace.mistakes, y * margins <= 0)
    np.testing.assert_allclose(weights(model)[0], after[-1], rtol=tolerance, atol=tolerance * scale)
    assert model.mistakes_ == reference.mistakes
    assert model.updates_ == reference.updates
    assert model.rounds_ == len(y)
    assert set(trace.ledger) == set(reference.names)
    for name, values in trace.ledger.items():
        expected = np.array([entry[name] for entry in ledger])
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9 * scale, err_msg=name)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("label", CASES)
def test_equals_reference(label, name, sparse, record_property):
    run = replay(label, name)
    record_property("ties left out", 240 - len(run[1]))
    assert len(run[1]) > 60
    model = make(label)
    X = csr_array(run[0]) if sparse else run[0]
    trace = model.progressive_fit(X, run[1], classes=[-1, 1], ledger=True)
    assert_same(model, trace, run)
    # Compare the weights after each round, too.
    model = make(label)
    rows = [csr_array(x[None]) for x in run[0]] if sparse else run[0]
    scale = max(1.0, np.abs(run[2]).max())
    for x, y, margin, after in zip(rows, *run[1:4], strict=True):
        assert model.play(x, y, classes=[-1, 1]) == pytest.approx(margin, rel=1e-10, abs=1e-10 * scale)
        np.testing.assert_allclose(weights(model)[0], after, rtol=1e-10, atol=1e-10 * scale)


@pytest.mark.parametrize("label", ["perceptron", "voted", "margin"])
def test_exact_ties(label):
    # With integers neither side rounds, so no round is left out.
    run = replay(label, "exact", tie=-inf)
    assert np.sum(run[2] == 0) > 3
    model = make(label)
    assert_same(model, model.progressive_fit(run[0], run[1], classes=[-1, 1], ledger=True), run)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("label", CASES)
def test_float32(label, sparse):
    X, y, margins, after, *_ = replay(label, "sparse", tie=1e-4)
    X = X.astype(np.float32)
    model = make(label)
    trace = model.progressive_fit(csr_array(X) if sparse else X, y, classes=[-1, 1])
    np.testing.assert_allclose(trace.margins, margins, rtol=1e-4, atol=1e-4 * max(1, abs(margins).max()))
    np.testing.assert_allclose(weights(model)[0], after[-1], rtol=1e-3, atol=1e-4 * max(1, abs(after).max()))
    assert model.decision_function(X).dtype == np.float64
    # Rows are float32 but sums are float64, so the result equals that of the float64 learner.
    double = make(label)
    double_trace = double.progressive_fit(X.astype(float), y, classes=[-1, 1])
    np.testing.assert_allclose(trace.margins, double_trace.margins, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("vote", ["average", "majority"])
@pytest.mark.parametrize("name", ["random", "sparse", "exact"])
def test_votes(name, vote):
    X, y, *_, reference = replay("voted", name, tie=-inf if name == "exact" else TIE)
    model = linear.VotedPerceptron(vote).fit(X, y)
    hypotheses = np.array(reference.predictors)
    values = hypotheses @ with_ones(X).T
    expected = (values if vote == "average" else np.sign(values)).mean(axis=0)
    assert np.abs(values[values != 0]).min() > 1e-9  # rounding cannot change a sign
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(model.decision_function(csr_array(X)), expected, rtol=1e-10, atol=1e-10)
    if vote == "average":
        np.testing.assert_allclose(all_weights(model)[0], hypotheses.mean(axis=0), rtol=1e-10, atol=1e-12)
        # The sum of each distinct weight vector times the number of rounds that it survived.
        distinct, starts = [hypotheses[0]], [0]
        for t, w in enumerate(hypotheses):
            if not np.array_equal(w, distinct[-1]):
                distinct.append(w)
                starts.append(t)
        survived = np.diff([*starts, len(y)])
        np.testing.assert_allclose(
            all_weights(model)[0] * len(y), survived @ np.array(distinct), rtol=1e-10, atol=1e-9
        )
    else:
        assert not hasattr(model, "coef_")
        assert not hasattr(model, "intercept_")


def in_pieces(model, X, y, cuts, *, sparse=False, classes=(-1, 1)):
    for piece in np.split(np.arange(len(y)), sorted(cuts)):
        if len(piece):
            model.partial_fit(csr_array(X[piece]) if sparse else X[piece], y[piece], classes=classes)
    return model


@pytest.mark.parametrize("label", CASES)
@given(cuts=st.lists(st.integers(0, 240), max_size=10), sparse=st.booleans(), single=st.integers(0, 240))
def test_any_cut(label, cuts, sparse, single):
    X, y, *_, after, _, _ = replay(label, "sparse")
    model = in_pieces(make(label), X[:single], y[:single], cuts, sparse=sparse)
    for x, outcome in zip(X[single : single + 3], y[single : single + 3], strict=True):
        model.play(csr_array(x[None]) if sparse else x, outcome, classes=[-1, 1])
    in_pieces(model, X[single + 3 :], y[single + 3 :], [], sparse=not sparse)
    np.testing.assert_allclose(weights(model)[0], after[-1], rtol=1e-9, atol=1e-9 * abs(after).max())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("label", [*CASES, "majority"])
def test_copy_continues_exactly_and_is_independent(label, copied):
    X, y = stream("random")
    model = linear.VotedPerceptron("majority") if label == "majority" else make(label)
    model.partial_fit(X[:120], y[:120], classes=[-1, 1])
    twin = copied(model)
    model.partial_fit(X[120:], y[120:])
    assert twin.rounds_ == 120
    twin.partial_fit(X[120:], y[120:])
    np.testing.assert_array_equal(weights(model), weights(twin))
    np.testing.assert_array_equal(model.decision_function(X), twin.decision_function(X))


@pytest.mark.parametrize("label", [label for label in CASES if not CASES[label][0]._joint])
def test_each_class_equals_a_binary_learner(label):
    X, _ = stream("sparse")
    y = np.argmax(X[:, :3] + 0.1, axis=1)
    model = make(label)
    trace = model.progressive_fit(csr_array(X), y, ledger=True)
    for c in range(3):
        binary_model = make(label)
        binary = binary_model.progressive_fit(X, np.where(y == c, 1, -1), ledger=True)
        np.testing.assert_allclose(trace.margins[:, c], binary.margins, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(weights(model)[c], weights(binary_model)[0], rtol=1e-9, atol=1e-9)
    single = make(label)
    margins = [
        single.play(csr_array(x[None]), outcome, classes=[0, 1, 2]) for x, outcome in zip(X, y, strict=True)
    ]
    np.testing.assert_allclose(margins, trace.margins, rtol=1e-9, atol=1e-9)
    assert single.mistakes_ == model.mistakes_ == trace.mistakes.sum()
    assert model.coef_.shape == (3, X.shape[1])
    assert model.intercept_.shape == (3,)
    assert bool(np.any(model.intercept_)) == model.fit_intercept


@pytest.mark.parametrize("label", CASES)
def test_sparse_rows_of_any_kind(label):
    X, y = stream("sparse")
    expected = make(label).fit(X, y)
    # The same values as duplicates, unsorted, with explicit zeros, and with 64-bit indices.
    rows, columns = np.nonzero(X)
    rows, columns, values = (
        np.concatenate(pair) for pair in ((rows, rows), (columns, columns), (X[X != 0],) * 2)
    )
    order = np.random.default_rng(0).permutation(len(rows))
    messy = coo_array((values[order] / 2, (rows[order], columns[order])), shape=X.shape)
    duplicated = csr_matrix((messy.data, messy.coords), shape=X.shape)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(messy.coords[0], minlength=len(X)))])
    by_row = np.argsort(messy.coords[0], kind="stable")
    duplicated = csr_array(
        (messy.data[by_row], messy.coords[1][by_row].astype(np.int64), indptr), shape=X.shape
    )
    original = duplicated.copy()
    assert not duplicated.has_canonical_format
    zeros = csr_array(
        (np.ones(X.size), np.tile(np.arange(12), 240), np.arange(0, X.size + 1, 12)), shape=X.shape
    )
    zeros.data[:] = X.ravel()
    for matrix in (duplicated, zeros, csr_matrix(X)):
        model = make(label).fit(matrix, y)
        np.testing.assert_allclose(weights(model), weights(expected), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(model.decision_function(matrix), expected.decision_function(X), atol=1e-9)
        one_by_one = make(label)
        for i, outcome in enumerate(y):
            one_by_one.play(matrix[[i]], outcome, classes=[-1, 1])
        np.testing.assert_allclose(weights(one_by_one), weights(expected), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(duplicated.indices, original.indices)  # the caller's matrix is not changed


def test_round_without_an_update_reads_only_its_row():
    # Ten million features: if more than the three features of the row were read, this would take hours.
    d, n = 10_000_000, 20_000
    rng = np.random.default_rng(0)
    places = np.sort(rng.integers(0, d, size=(n, 3)) // 3 * 3 + np.arange(3), axis=1)
    X = csr_array((rng.normal(size=3 * n), places.ravel(), np.arange(0, 3 * n + 1, 3)), shape=(n, d))
    y = rng.choice([-1, 1], n)
    for model in (linear.VotedPerceptron(), linear.OnlineSVM(eta=0.01), linear.AROW(covariance="diagonal")):
        model.partial_fit(X, y, classes=[-1, 1])
        assert model.rounds_ == n


def test_dual_equals_primal():
    # The kernel Perceptron with a linear kernel equals the Perceptron (004 figures 8.6 and 8.8).
    X, y = stream("exact")
    primal, dual = linear.Perceptron(fit_intercept=False), budgetron.KernelPerceptron(kernel="linear")
    np.testing.assert_array_equal(primal.progressive_fit(X, y).margins, dual.progressive_fit(X, y).margins)
    np.testing.assert_array_equal(primal.coef_, dual.dual_coef_ @ dual.support_vectors_)
    voted = linear.VotedPerceptron(fit_intercept=False).fit(X, y)
    dual = budgetron.VotedKernelPerceptron(kernel="linear").fit(X, y)
    np.testing.assert_allclose(voted.decision_function(X), dual.decision_function(X), atol=1e-12)


@pytest.mark.parametrize("C", [0.05, 1.0])
@pytest.mark.parametrize("variant", ["PA", "PA-I", "PA-II"])
def test_passive_aggressive_with_and_without_kernel(variant, C):
    X, y, *_ = replay("pa-i", "random")
    dual = budgetron.PassiveAggressive(C, variant, kernel="linear").fit(X, y)
    primal = linear.PassiveAggressive(C, variant, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(primal.coef_, dual.dual_coef_ @ dual.support_vectors_, rtol=1e-9, atol=1e-12)
    # With an intercept, the kernel is x . x' + 1.
    dual = budgetron.PassiveAggressive(C, variant, kernel="poly", degree=1, gamma=1.0, coef0=1.0).fit(X, y)
    primal = linear.PassiveAggressive(C, variant).fit(X, y)
    expected = dual.dual_coef_ @ with_ones(dual.support_vectors_)
    np.testing.assert_allclose(all_weights(primal), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("eta", [0.1, 0.5, 2.0])
def test_winnow_equals_weighted_majority(eta):
    # Features of -1 and +1 are votes of experts. The two differ only in ties; seven experts have none.
    rng = np.random.default_rng(1)
    X = rng.choice([-1.0, 1.0], size=(300, 7))
    y = np.where(rng.random(300) < 0.2, rng.choice([-1.0, 1.0], 300), X[:, 2])
    model, majority = linear.Winnow(eta), WeightedMajority(beta=exp(-2 * eta))
    for x, outcome in zip(X, y, strict=True):
        advice = (x > 0).astype(int)
        vote = majority.predict(advice)
        margin = model.play(x, outcome, classes=[-1, 1])
        assert abs(margin) > 1e-9
        assert vote == (margin > 0)
        majority.update(advice, int(outcome > 0))
        np.testing.assert_allclose(model.coef_[0], majority.weights_, rtol=1e-9)


def test_winnow_recovers_tiny_weights():
    # A weight below the smallest float grows again when its feature is right again.
    X = np.array([[1.0, -1.0]] * 3)
    model = linear.Winnow(eta=1000.0)
    for outcome in (1, -1, -1, 1, 1, -1, 1):
        model.play(X[0], outcome, classes=[-1, 1])
        assert np.isfinite(model.coef_).all()
        assert model.coef_.sum() == pytest.approx(1.0)
    theta = model._learners[0].extra["theta"]
    assert theta[0] == -theta[1]


def test_winnow_bound():
    # 004 Theorem 8.13 with its own eta, for a competitor that uses three of 200 features.
    rng = np.random.default_rng(2)
    X = rng.choice([-1.0, 1.0], size=(4000, 200))
    y = np.sign(X[:, :3].sum(axis=1))
    rho = 1 / 3
    model = linear.Winnow(eta=rho)
    model.fit(X, y)
    assert 10 < model.updates_ <= 2 / rho**2 * np.log(200)
    perceptron = linear.Perceptron().fit(X, y)
    assert perceptron.updates_ <= 200 / (1 / 3**0.5) ** 2  # Theorem 8.8


def test_margin_perceptron_bound():
    # 004 exercise 8.6: until convergence at most 16 (r / rho)^2 updates, with at least half the margin.
    rng = np.random.default_rng(3)
    v = rng.normal(size=5)
    v /= np.linalg.norm(v)
    X = rng.normal(size=(400, 5))
    X = X[np.abs(X @ v) > 0.3]
    y = np.sign(X @ v)
    rho, r = np.min(y * (X @ v)), np.linalg.norm(X, axis=1).max()
    model, before = linear.MarginPerceptron(rho), -1
    model.partial_fit(X, y, classes=[-1, 1])
    while model.updates_ != before:
        before = model.updates_
        model.partial_fit(X, y)
    assert model.updates_ <= 16 * (r / rho) ** 2
    w = model.coef_[0]
    assert np.min(y * (X @ w)) / np.linalg.norm(w) >= rho / 2


@pytest.mark.parametrize("variant", ["PA-I", "PA-II"])
def test_steps_equal_those_of_scikit_learn(variant):
    X, y, *_ = replay("pa-i", "random")
    once = {"fit_intercept": False, "shuffle": False, "max_iter": 1, "tol": None}
    if parse_version(sklearn.__version__) >= parse_version("1.8"):
        rate = {"PA-I": "pa1", "PA-II": "pa2"}[variant]
        theirs = SGDClassifier(loss="hinge", penalty=None, learning_rate=rate, eta0=0.2, **once)
    else:
        loss = {"PA-I": "hinge", "PA-II": "squared_hinge"}[variant]
        theirs = PassiveAggressiveClassifier(C=0.2, loss=loss, **once)
    theirs.fit(X, y)
    ours = linear.PassiveAggressive(C=0.2, variant=variant, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9)


def test_decay_over_a_long_stream():
    # The common factor of the decay is applied to the weights many times; averages stay correct.
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(3000, 4)), rng.choice([-1.0, 1.0], 3000)
    model, reference = linear.OnlineSVM(eta=0.6, C=1.0), ref.OnlineSVM(4, 0.6, 1.0)
    model._validate_params()
    average = budgetron.batch.AveragedClassifier(model)
    for t in range(3000):
        reference.play(X[t], y[t])
    model.fit(X, y)
    average.fit(X, y)
    np.testing.assert_allclose(weights(model)[0], reference.w, rtol=1e-10)
    expected = np.mean(reference.predictors, axis=0)
    np.testing.assert_allclose(all_weights(average)[0], expected, rtol=1e-9, atol=1e-12)


def test_arow_variance_stays_positive_on_any_scale():
    # With one feature of value v, sigma is exactly 1 / (1 + t v^2 / r) after t margin errors.
    rows = np.array([[1.7e9]] * 6)
    trace = linear.AROW(fit_intercept=False).progressive_fit(rows, [0, 1, 0, 1, 0, 1], ledger=True)
    w, precision = 0.0, 1.0
    for x, y, margin in zip(rows[:, 0], [-1, 1] * 3, trace.margins, strict=True):
        assert margin == pytest.approx(w * x, rel=1e-9, abs=1e-9)
        v = x * x / precision
        w += (1 - y * w * x) / (v + 1) * y * x / precision
        precision += x * x
    X = 1e9 + 1e8 * np.arange(6)[:, None]
    tau = linear.AROW().progressive_fit(X, [0, 1, 0, 1, 0, 1], ledger=True).ledger["tau"]
    assert np.all(tau[~np.isnan(tau)] > 0)
    model = linear.AROW().fit(*stream("random"))
    sigma = model._learners[0].covariance.matrix()
    assert np.linalg.eigvalsh(sigma).min() > 0


def wide_stream(d, n=60, seed=0):
    """Return sparse rows of d features with three classes that depend on the first ones."""
    rng = np.random.default_rng(seed)
    X = csr_array(np.where(rng.random((n, d)) < 0.02, rng.normal(size=(n, d)), 0.0))
    return X, np.digitize(X[:, :50].sum(axis=1), [-0.5, 0.5])


@pytest.mark.parametrize(("d", "kind"), [(3, "full"), (1000, "full"), (1001, "diagonal")])
def test_the_covariance_is_chosen_by_the_number_of_features(d, kind):
    X, y = wide_stream(d)
    model, chosen = linear.AROW().fit(X, y), linear.AROW(covariance=kind).fit(X, y)
    np.testing.assert_array_equal(model.coef_, chosen.coef_)
    assert model.nbytes_ == chosen.nbytes_
    assert linear.AROW().covariance == "auto"
    assert pickle.loads(pickle.dumps(model)).covariance == "auto"
    # A class that appears later has a covariance of the same kind.
    labels = np.where(y == 2, 7, y)
    for learner in (model, chosen):
        learner.partial_fit(X, labels, admit=True)
    np.testing.assert_array_equal(model.coef_, chosen.coef_)
    assert model.nbytes_ == chosen.nbytes_


def test_wide_rows_need_little_memory_by_default():
    X = csr_array((np.ones(4), (np.arange(4), np.arange(4))), shape=(4, 50_000))
    assert linear.AROW().fit(X, [0, 1, 2, 3]).nbytes_ < 20 * 50_000 * 8


@pytest.mark.parametrize("wrap", [lambda learner: learner, CalibratedClassifier, AveragedClassifier])
def test_added_features_may_make_the_covariance_diagonal(wrap, tmp_path):
    X, y = wide_stream(1001)
    narrow, wide = X[:, :1000].tocsr(), X
    model = wrap(linear.AROW(r=0.5, loss="hinge")).fit(narrow, y)
    before, coef = [rule.covariance.matrix() for rule in model._learners], weights(model)
    rounds, mistakes = model.rounds_, model.mistakes_
    add_features(model, 1001)
    # The variances and weights stay; those of the new feature are as at the start.
    for rule, sigma in zip(model._learners, before, strict=True):
        assert rule.covariance is None
        np.testing.assert_array_equal(rule.extra["sigma"], np.append(sigma.diagonal(), 1.0))
    np.testing.assert_array_equal(weights(model), np.pad(coef, ((0, 0), (0, 1))))
    assert (model.rounds_, model.mistakes_) == (rounds, mistakes)
    assert model.nbytes_ < 3 * 1001 * 8 * 6
    # The rounds after it are those of the diagonal rule from this state on.
    twin = linear.AROW(0.5, "diagonal", "hinge").partial_fit(wide[:1], y[:1], classes=[0, 1, 2])
    for copied, rule in zip(twin._learners, model._learners, strict=True):
        copied.__setstate__(copy.deepcopy(rule).__getstate__() | {"average": None})
    budgetron.save(model, tmp_path / "model")
    loaded = budgetron.load(tmp_path / "model")
    for learner in (model, loaded, twin):
        learner.partial_fit(wide, y)
    np.testing.assert_array_equal(weights(model), weights(twin))
    np.testing.assert_array_equal(weights(loaded), weights(twin))


def test_a_chosen_covariance_stays_as_features_are_added():
    X, y = wide_stream(1000)
    full = linear.AROW(covariance="full").fit(X, y)
    add_features(full, 1001)
    assert all(rule.covariance.d == 1002 for rule in full._learners)
    wide = linear.AROW().fit(*wide_stream(1001))
    add_features(wide, 1010)
    assert all(len(rule.extra["sigma"]) == 1011 for rule in wide._learners)


def test_a_state_with_another_covariance_is_refused():
    X, y = stream("random")
    model = linear.AROW(covariance="diagonal").fit(X, y)
    state = model.learned_state()
    state["_started_with"]["covariance"] = "auto"
    with pytest.raises(ValueError, match="rule's own arrays"):
        linear.AROW().set_learned_state(state)


def test_failed_round_changes_nothing():
    X, y = stream("random")
    huge = np.array([1e200, 1e200, -1e200])
    for label in ("voted", "svm", "perceptron", "margin", "pa"):
        for classes in (2, 3):
            labels = y if classes == 2 else np.digitize(X[:, 0], [-0.5, 0.5])
            model = make(label).fit(X, labels)
            before = pickle.dumps(model)
            for outcome in model.classes_:
                try:
                    model.play(huge, outcome)
                except ValueError:
                    twin = pickle.loads(before)
                    assert {learner.rounds for learner in model._learners} == {len(y)}
                    np.testing.assert_array_equal(model.coef_, twin.coef_)
                    model.partial_fit(X, labels)
                    np.testing.assert_array_equal(model.coef_, twin.partial_fit(X, labels).coef_)
                model = pickle.loads(before)
