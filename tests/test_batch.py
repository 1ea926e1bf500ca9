"""Online-to-batch conversion, compared with its definition: every hypothesis on every row."""

import copy
import pickle

import numpy as np
import pytest
import test_linear
from cases import CASES, gram_of, stream, with_budget, with_ones
from reference import batch as ref
from scipy.sparse import csr_array
from test_memory import memory_of
from test_reference import replay

import budgetron
from budgetron import linear
from budgetron._base.access import hypotheses_of
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier

DELTA = 0.1
CONVERTERS = [AveragedClassifier, PenalizedRiskClassifier]
# SecondOrderProjectron stores its hypotheses in coordinates, and cannot be converted.
LABELS = [label for label in CASES if label != "second order"]
LABELS += [f"linear {label}" for label in test_linear.CASES]


def run_of(label, name="random", n=100):
    """Return a learner, its rows and labels, and two matrices of one row per hypothesis.

    They contain the value of the hypothesis on each row, and the sum of the absolute terms of this value.
    """
    if label.startswith("linear "):
        label = label.removeprefix("linear ")
        X, y, *_, reference = test_linear.replay(label, name, n)
        weights = np.array(reference.predictors)
        rows = with_ones(X) if reference.fit_intercept else X
        return test_linear.make(label), X, y, weights @ rows.T, np.abs(weights) @ np.abs(rows.T)
    case = CASES[label]
    case = with_budget(case, 6) or case
    X, y, rounds, *_ = replay(case, name, "rbf", n)
    reference = case.start_reference(gram_of(name, "rbf", n), stream(name, n)[1])
    values, sizes = np.empty((2, len(rounds), len(rounds)))
    for i, t in enumerate(rounds):
        values[i] = [reference.f(other) for other in rounds]
        absolute = {s: abs(c) for s, c in reference.alpha.items()}
        sizes[i] = [reference.f(other, absolute) for other in rounds]
        reference.play(t)
    return case.model(), X, y, values, sizes


@pytest.mark.parametrize("name", ["random", "nasty"])
@pytest.mark.parametrize("label", LABELS)
def test_averages_equal_their_definition(label, name):
    learner, X, y, values, _ = run_of(label, name)
    model = AveragedClassifier(learner, DELTA).fit(X, y)
    scale = max(1.0, np.abs(values).max())
    np.testing.assert_allclose(model.decision_function(X), ref.average(values), rtol=1e-9, atol=1e-10 * scale)
    bound = AveragedClassifier(learner, DELTA, loss_bound=1e6).fit(X, y).risk_bound_
    assert bound == pytest.approx(ref.averaged_risk_bound(values, y, 1e6, DELTA), rel=1e-9)
    assert model.total_loss_ / len(y) == pytest.approx(
        ref.averaged_risk_bound(values, y, 0.0, DELTA), rel=1e-9
    )
    assert model.risk_bound_ > model.total_loss_ / len(y)
    # No loss of any hypothesis on any row exceeds the estimate of M
    M = (model.risk_bound_ - model.total_loss_ / len(y)) / (2 * np.log(1 / DELTA) / len(y)) ** 0.5
    assert np.max(1 - y * values) <= M * (1 + 1e-9)
    # The trace is that of the learner
    np.testing.assert_array_equal(
        AveragedClassifier(learner).progressive_fit(X, y).mistakes, y * np.diag(values) <= 0
    )


@pytest.mark.parametrize("name", ["random", "sparse"])
@pytest.mark.parametrize("label", LABELS)
def test_penalized_risks_equal_their_definition(label, name):
    learner, X, y, values, sizes = run_of(label, name)
    sure = np.abs(values) > 1e-9 * sizes
    wrong = y * values <= 0
    model = PenalizedRiskClassifier(learner, DELTA).fit(X, y)
    assert model.risk_bound_ == pytest.approx(ref.penalized_risk_bound(wrong, DELTA), rel=1e-12)
    risks = ref.penalized_risks(wrong, DELTA)
    births = model.births_[model.births_ < len(y)]
    later = np.triu(np.ones_like(wrong))[births] > 0
    # Values that are 0 up to rounding may have either sign; they are few
    doubtful = (later & ~(sure | (sizes == 0))[births]).sum(axis=1)
    np.testing.assert_array_less(
        np.abs(model.losses_[: len(births)] - (wrong[births] & later).sum(axis=1)), doubtful + 1
    )
    assert (doubtful > 0).mean() < 0.5
    np.testing.assert_allclose(
        model.penalized_risks_[: len(births)][doubtful == 0], risks[births][doubtful == 0], rtol=1e-12
    )
    # Rounds that are not candidates have a larger risk
    others = np.setdiff1d(np.arange(len(y)), births)
    assert np.all(risks[others] > risks.min())
    chosen = model.births_[model.chosen_]
    if not doubtful.any():
        assert chosen == np.argmin(risks)
    scale = max(1.0, np.abs(values).max())
    np.testing.assert_allclose(model.decision_function(X), values[chosen], rtol=1e-9, atol=1e-10 * scale)


def assert_same(a, b, X):
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), rtol=1e-8, atol=1e-8)
    assert a.risk_bound_ == pytest.approx(b.risk_bound_, rel=1e-9)
    assert a.rounds_ == b.rounds_
    assert a.mistakes_ == b.mistakes_


@pytest.mark.parametrize("converter", CONVERTERS)
@pytest.mark.parametrize(
    "label", ["forgetron self-tuned", "random", "projectron", "linear svm", "linear voted"]
)
def test_cuts_play_copies_and_sparse_rows(label, converter):
    learner, X, y, *_ = run_of(label)
    whole = converter(learner).fit(X, y)
    pieces = converter(learner)
    for start in range(0, len(y), 37):
        rows = X[start : start + 37]
        pieces.partial_fit(csr_array(rows) if start % 2 else rows, y[start : start + 37], classes=[-1, 1])
        pieces = pickle.loads(pickle.dumps(pieces))
    assert_same(pieces, whole, X)
    played = converter(learner)
    for i, (x, outcome) in enumerate(zip(X, y, strict=True)):
        played.play(csr_array(x[None]) if i % 3 == 0 else x, outcome, classes=[-1, 1])
        if i == 50:
            twin = copy.deepcopy(played)
    assert_same(played, whole, X)
    assert twin.rounds_ == 51
    assert_same(twin.partial_fit(X[51:], y[51:]), whole, X)
    assert_same(whole, converter(learner).fit(csr_array(X), y), X)
    assert whole.learner_.rounds_ == len(y)


@pytest.mark.parametrize("converter", CONVERTERS)
@pytest.mark.parametrize("label", LABELS)
def test_nbytes_is_the_sum_of_the_parts(label, converter):
    learner, X, y, *_ = run_of(label)
    model = converter(learner).fit(X, y)
    arrays, bare = memory_of(model)
    assert model.nbytes_ == bare + sum(array.nbytes for array in arrays)


@pytest.mark.parametrize(
    "label", ["perceptron", "forgetron self-tuned", "linear perceptron", "linear winnow"]
)
def test_more_than_two_classes(label):
    learner, X, *_ = run_of(label)
    y = np.digitize(X[:, 0], [-0.3, 0.6])
    average = AveragedClassifier(learner).fit(X, y)
    best = PenalizedRiskClassifier(learner, DELTA).fit(X, y)
    alone = [AveragedClassifier(learner).fit(X, y == c).decision_function(X) for c in range(3)]
    np.testing.assert_allclose(average.decision_function(X), np.transpose(alone), rtol=1e-9, atol=1e-12)
    # Every hypothesis, from a run that stops before each round
    T = len(y)
    wrong = np.ones((T, T), bool)
    stopped = type(learner)(**learner.get_params())
    values = [np.zeros((T, 3))]
    for t in range(T):
        stopped.play(X[t], y[t], classes=[0, 1, 2])
        values.append(stopped.decision_function(X))
    if label == "linear winnow":
        values[0] = np.tile(X.mean(axis=1)[:, None], 3)  # starts with equal weights, not with zeros
    for i in range(T):
        right = values[i][np.arange(T), y]
        others = np.where(np.arange(3) == y[:, None], -np.inf, values[i]).max(axis=1)
        wrong[i] = right <= others
    risks = ref.penalized_risks(wrong, DELTA)
    np.testing.assert_allclose(best.penalized_risks_[:-1], risks[best.births_[:-1]], rtol=1e-12)
    assert best.births_[best.chosen_] == np.argmin(risks)
    np.testing.assert_allclose(best.decision_function(X), values[np.argmin(risks)], rtol=1e-9, atol=1e-9)
    losses = [max(0.0, 1 - values[t][t, y[t]] + np.delete(values[t][t], y[t]).max()) for t in range(T)]
    assert average.total_loss_ == pytest.approx(sum(losses), rel=1e-9)


def test_stored_supports_and_hypotheses():
    X, y = stream("random", 700, 1)
    bounded = AveragedClassifier(budgetron.Projectron(gamma=0.5, eta=0.5)).fit(X, y)
    plain = budgetron.Projectron(gamma=0.5, eta=0.5).fit(X, y)
    assert bounded.learner_.n_support_ == plain.n_support_
    assert hypotheses_of(bounded)[0].rule.departed.m == 0
    # The average keeps removed supports: all that were ever added
    trace = budgetron.RemoveOldestPerceptron(10, gamma=0.5).progressive_fit(X, y)
    growing = AveragedClassifier(budgetron.RemoveOldestPerceptron(10, gamma=0.5)).fit(X, y)
    assert hypotheses_of(growing)[0].rule.departed.m == trace.mistakes.sum() - 10
    # Hypotheses are stored as changes, one per update
    journal = hypotheses_of(PenalizedRiskClassifier(linear.Perceptron()).fit(X, y))[0].journal
    assert journal.n == linear.Perceptron().fit(X, y).updates_ + 1
    assert journal.size <= (journal.n - 1) * (X.shape[1] + 1)  # with the intercept


def test_hypotheses_that_shrink_for_many_rounds():
    X, y = stream("random", 700, 1)
    for learner in (
        budgetron.ShrinkingPerceptron(0.5, gamma=0.5),
        budgetron.Forgetron(20, gamma=0.5),
        linear.OnlineSVM(eta=0.5),
        linear.Winnow(eta=3.0),
        linear.Winnow(eta=3.0, balanced=True),
    ):
        model, plain = AveragedClassifier(learner), copy.deepcopy(learner)
        best = PenalizedRiskClassifier(learner).fit(X, y)
        values = []
        for t in range(len(y)):
            if t:
                values.append(plain.decision_function(X))
            plain.play(X[t], y[t], classes=[-1, 1])
        model.fit(X, y)
        first = X.mean(axis=1) if learner.get_params().get("balanced") is False else np.zeros(len(y))
        expected = np.mean([first, *values], axis=0)
        np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-8, atol=1e-10)
        wrong = y * np.array([first, *values]) <= 0
        births = best.births_[best.births_ < len(y)]
        expected = [wrong[i, i:].sum() for i in births]
        np.testing.assert_array_equal(best.losses_[: len(births)], expected)


def test_invalid_arguments_and_rows():
    X, y = stream("random")
    for converter in CONVERTERS:
        with pytest.raises(ValueError, match="'learner' parameter"):
            converter("Forgetron").fit(X, y)
        with pytest.raises(ValueError, match="'budget' parameter of Forgetron"):
            converter(budgetron.Forgetron(0)).fit(X, y)
        with pytest.raises(ValueError, match="a kernel or linear learner of Budgetron"):
            converter(converter(budgetron.Forgetron())).fit(X, y)
        for delta in (0.0, 1.0, -1, "small"):
            with pytest.raises(ValueError, match="'delta' parameter"):
                converter(budgetron.Forgetron(), delta=delta).fit(X, y)
        with pytest.raises(ValueError, match="put pipelines around"):
            converter(linear.AROW).fit(X, y)
        changed = converter(linear.AROW()).fit(X, y).set_params(learner__r=3.0)
        with pytest.raises(ValueError, match="learner__r changed since the first call"):
            changed.partial_fit(X, y)
        model = converter(linear.AROW()).fit(X, y)
        before = pickle.dumps(model)
        for bad in (np.where(X > 2, np.nan, X), X[:, :2], X * 1e200):
            with pytest.raises(ValueError, match=r"NaN|features|not finite"):
                model.partial_fit(bad, y)
            with pytest.raises(ValueError, match=r"finite|features|must be one row"):
                [
                    model.play(x, outcome)
                    for x, outcome in zip(bad[np.argsort(-bad.max(axis=1))], y, strict=True)
                ]
            model = pickle.loads(before)
        with pytest.raises(ValueError, match="too large"):
            model.partial_fit(np.vstack([X, X * 1e200]), np.concatenate([y, y]))
        assert_same(model, pickle.loads(before), X)
    with pytest.raises(AttributeError, match="not a linear learner"):
        _ = AveragedClassifier(budgetron.Forgetron()).fit(X, y).coef_
    with pytest.raises(ValueError, match="'loss_bound' parameter"):
        AveragedClassifier(linear.AROW(), loss_bound=0).fit(X, y)
    with pytest.raises(ValueError, match=r"but a loss of \S+ occurred; use a larger loss_bound"):
        _ = AveragedClassifier(linear.AROW(), loss_bound=0.01).fit(X, y).risk_bound_


@pytest.mark.parametrize("converter", CONVERTERS)
def test_weights_of_linear_learners(converter):
    X, y = stream("sparse")
    model = converter(linear.OnlineSVM()).fit(X, y)
    decided = X @ model.coef_[0] + model.intercept_
    np.testing.assert_allclose(decided, model.decision_function(X), rtol=1e-9, atol=1e-12)
    assert model.intercept_ != 0


def test_wide_sparse_rows_stay_sparse():
    rng = np.random.default_rng(0)
    n, d = 300, 3_000_000
    X = csr_array((np.ones(5 * n), rng.integers(0, d, 5 * n), np.arange(0, 5 * n + 1, 5)), shape=(n, d))
    y = rng.choice([-1, 1], n)
    model = PenalizedRiskClassifier(linear.Perceptron()).fit(X, y)
    assert model.losses_[0] == n
    assert model.score(X, y) >= 0.5
    assert 0 <= linear.VotedPerceptron("majority").fit(X, y).score(X, y) <= 1


def test_winnow_with_large_learning_rates():
    # One update can multiply weights by more than e^40. The average and old hypotheses must stay accurate.
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 17, size=(300, 6)).astype(float), rng.choice([-1.0, 1.0], 300)
    for eta in (0.1, 1.0, 5.0):
        for balanced in (False, True):
            plain, weights = linear.Winnow(eta, balanced), [np.zeros(6) if balanced else np.full(6, 1 / 6)]
            for x, outcome in zip(X, y, strict=True):
                plain.play(x, outcome, classes=[-1, 1])
                weights.append(plain.coef_[0])
            average = AveragedClassifier(linear.Winnow(eta, balanced)).fit(X, y)
            np.testing.assert_allclose(average.coef_[0], np.mean(weights[:-1], axis=0), rtol=1e-9, atol=1e-12)
            best = PenalizedRiskClassifier(linear.Winnow(eta, balanced)).fit(X, y)
            births = best.births_[best.births_ < len(y)]
            wrong = y * (np.array(weights)[births] @ X.T) <= 0
            expected = np.array([row[i:].sum() for row, i in zip(wrong, births, strict=True)])
            # They may differ where a weight underflows to 0.
            assert np.mean(best.losses_[: len(births)] != expected) < 0.02
