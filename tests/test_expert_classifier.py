"""Learners as experts."""

import copy
from math import log, sqrt

import numpy as np
import pytest
from cases import stream
from sklearn.linear_model import SGDClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_certificates import KINDS, make_stream

from budgetron import OGD, Forgetron, KernelPerceptron, ProjectronPlusPlus, bounds, linear
from budgetron.batch import AveragedClassifier
from budgetron.experts import (
    ExpertClassifier,
    ExponentialWeights,
    RandomizedWeightedMajority,
    WeightedMajority,
)

X, Y = stream("random", 700, 1)
WIDTHS = (0.01, 0.1, 0.5, 2.0, 10.0)
COMBINE = ["exponential", "majority", "randomized"]


def widths():
    return [Forgetron(40, gamma=gamma) for gamma in WIDTHS]


@parametrize_with_checks(
    [ExpertClassifier([KernelPerceptron(), ProjectronPlusPlus(1.0)], combine) for combine in COMBINE]
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("combine", COMBINE)
def test_agrees_with_the_algorithm_over_separate_learners(combine):
    advice = np.stack([learner.progressive_fit(X, Y).margins > 0 for learner in widths()], axis=1)
    algorithm = {
        "exponential": ExponentialWeights("anytime"),
        "majority": WeightedMajority(0.6),
        "randomized": RandomizedWeightedMajority(0.6, random_state=3),
    }[combine]
    # A tie of WeightedMajority predicts 1; here 1 is the first class, so that a tie predicts the first class.
    first = combine == "majority"
    expected = algorithm.play(advice != first, (Y > 0) != first)
    model = ExpertClassifier(widths(), combine, beta=0.6, random_state=3)
    trace = model.progressive_fit(X, Y)
    sign = -1 if first else 1
    np.testing.assert_allclose(trace.margins, sign * (2 * expected.predictions - 1))
    np.testing.assert_array_equal(trace.mistakes, Y * sign * (expected.predictions - 0.5) <= 0)
    np.testing.assert_array_equal(model.learner_mistakes_, (advice != (Y > 0)[:, None]).sum(axis=0))
    np.testing.assert_allclose(model.weights_[0], expected.weights)
    assert model.regret_ == pytest.approx(expected.regret)
    assert model.best_learner_ == model.learner_mistakes_.argmin()
    assert model.mistakes_ == trace.mistakes.sum()
    separate = [learner.fit(X, Y).decision_function(X) > 0 for learner in widths()]
    votes = 2 * np.stack(separate, axis=1) @ expected.weights - 1
    np.testing.assert_allclose(model.decision_function(X), votes, atol=1e-12)
    assert trace.support_sizes[-1] == sum(learner.n_support_ for learner in model.learners_)


@pytest.mark.parametrize("combine", ["exponential", "majority"])
def test_any_cut(combine):
    whole = ExpertClassifier(widths(), combine).fit(X, Y)
    pieces = ExpertClassifier(widths(), combine)
    for start in range(0, len(Y), 90):
        pieces.partial_fit(X[start : start + 90], Y[start : start + 90], classes=[-1, 1])
    np.testing.assert_allclose(pieces.weights_, whole.weights_, rtol=1e-9)
    assert pieces.mistakes_ == whole.mistakes_
    assert pieces.regret_ == pytest.approx(whole.regret_)


def test_regret_is_within_the_theorem():
    T, N = len(Y), len(WIDTHS)
    doubling = ExpertClassifier(widths(), eta="doubling").fit(X, Y)
    assert doubling.regret_ <= sqrt(2) / (sqrt(2) - 1) * sqrt(T / 2 * log(N)) + sqrt(log(N) / 2)
    fixed = ExpertClassifier(widths(), eta=sqrt(8 * log(N) / T)).fit(X, Y)
    assert fixed.regret_ <= sqrt(T / 2 * log(N))
    vote = ExpertClassifier(widths(), "majority", beta=0.5).fit(X, Y)
    best = vote.learner_mistakes_.min()
    assert vote.mistakes_ <= (log(N) + best * log(2)) / log(4 / 3)
    drawn = ExpertClassifier(widths(), "randomized", beta=0.5).fit(X, Y)
    assert drawn.algorithms_[0].loss_ <= 2 * log(N) + 1.5 * best


# Online multiple-kernel classification: one learner for each kernel.
KERNELS = (
    {"gamma": 0.05},
    {"gamma": 0.5},
    {"gamma": 5.0},
    {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5},
)
BETA = 0.6


def multiple_kernels(combine, seed):
    learners = [OGD(0.3, decay=0.01, budget=15, **kernel) for kernel in KERNELS]
    return ExpertClassifier(learners, combine, beta=BETA, random_state=seed)


def assert_within_the_bounds(model, combine, rounds):
    best = int(model.learner_mistakes_.min())
    (algorithm,) = model.algorithms_
    if combine == "exponential":
        assert model.regret_ == pytest.approx(algorithm.loss_ - best)
        assert model.regret_ <= bounds.exponential_weights_anytime(len(KERNELS), rounds)
    elif combine == "majority":
        assert model.mistakes_ <= bounds.weighted_majority(len(KERNELS), BETA, best)
    else:
        assert algorithm.loss_ <= bounds.randomized_weighted_majority(len(KERNELS), BETA, best)


@pytest.mark.parametrize("combine", COMBINE)
def test_multiple_kernels_are_within_the_bound_on_200_streams(combine):
    streams = 0
    for kind in (*KINDS, "against the vote"):
        for seed in range(40):
            model = multiple_kernels(combine, seed)
            if kind in KINDS:
                X, y = make_stream(kind, seed, 80)
                model.partial_fit(X, y, classes=[-1, 1])
            else:  # each label is the one that the vote does not predict
                X = np.random.default_rng(seed).normal(size=(60, 2))
                model.partial_fit(X[:1], [1], classes=[-1, 1])
                for x in X[1:]:
                    model.partial_fit(x[None], -model.predict(x[None]))
                if combine != "randomized":
                    assert model.mistakes_ >= 59
            assert_within_the_bounds(model, combine, model.rounds_)
            streams += 1
    assert streams == 200


def test_learners_of_other_libraries():
    model = ExpertClassifier([SGDClassifier(random_state=0), Forgetron(40, gamma=0.5)])
    trace = model.progressive_fit(X[:150], Y[:150])
    sgd, predicted = SGDClassifier(random_state=0), []
    for t in range(150):
        predicted.append(sgd.predict(X[t : t + 1])[0] if t else -1.0)
        sgd.partial_fit(X[t : t + 1], Y[t : t + 1], classes=[-1, 1])
    assert model.learner_mistakes_[0] == np.sum(np.array(predicted) != Y[:150])
    assert len(trace) == 150


def test_many_classes():
    y = np.digitize(X[:, 0], [-1, 0, 1])
    model = ExpertClassifier(widths())
    trace = model.progressive_fit(X, y)
    assert trace.margins.shape == (700, 4)
    assert model.weights_.shape == (4, 5)
    bound = 2 * sqrt(700 / 2 * log(5)) + sqrt(log(5) / 8)  # for each class
    assert model.regret_ <= bound
    assert set(model.predict(X)) == {0, 1, 2, 3}


def test_a_failing_learner_leaves_all_unchanged():
    def kernel(A, B):
        values = np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2))
        return values if A.max() < 50 else values * np.nan

    model = ExpertClassifier([Forgetron(40, gamma=0.5), Forgetron(40, kernel=kernel)]).fit(X, Y)
    before = copy.deepcopy(model)
    bad = X.copy()
    bad[600] = 100.0
    with pytest.raises(ValueError, match="kernel function returned"):
        model.partial_fit(bad, Y)
    assert model.rounds_ == before.rounds_ == model.learners_[0].rounds_
    np.testing.assert_array_equal(model.decision_function(X), before.decision_function(X))


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (ExpertClassifier([]), ValueError, "at least one classifier"),
        (ExpertClassifier([3]), TypeError, "partial_fit and decision_function"),
        (ExpertClassifier(widths(), "vote"), ValueError, "'combine' parameter"),
        (ExpertClassifier(widths(), eta=0.0), ValueError, "'eta' parameter"),
        (ExpertClassifier(widths(), "randomized", beta=0.2), ValueError, "'beta' parameter"),
    ],
)
def test_bad_parameters(model, error, message):
    with pytest.raises(error, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "learners_")


def test_learners_whose_predictions_are_not_in_the_trace():
    # The weight of an averaged classifier depends on the predictions of the average, not of its learner.
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 5))
    y = ((X @ rng.normal(size=5) > 0) ^ (rng.random(400) < 0.2)).astype(int)
    model = ExpertClassifier(
        [AveragedClassifier(linear.Perceptron()), linear.VotedPerceptron(), linear.Perceptron()]
    )
    model.fit(X, y)
    predicted, learner = [0], AveragedClassifier(linear.Perceptron())
    for t in range(400):
        if t:
            predicted.append(int(learner.predict(X[t : t + 1])[0]))
        learner.partial_fit(X[t : t + 1], y[t : t + 1], classes=[0, 1])
    assert model.learner_mistakes_[0] == model.learner_mistakes_[1] == np.sum(np.array(predicted) != y)
    assert model.learner_mistakes_[0] < model.learner_mistakes_[2]


def test_parameters_may_not_change_after_the_first_call():
    X, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 2
    model = ExpertClassifier([linear.Perceptron()], eta=0.1).fit(X, y).set_params(eta=5.0)
    with pytest.raises(ValueError, match="eta changed since the first call"):
        model.partial_fit(X, y)


def test_before_learning():
    model = ExpertClassifier([linear.Perceptron()])
    for name in ("weights_", "regret_", "best_learner_"):
        assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="has not seen any outcome yet"):
        _ = ExponentialWeights().regret_
