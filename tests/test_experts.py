"""Expert algorithms against their references, their theorems, and bad input."""

import copy
from math import e, log, sqrt

import numpy as np
import pytest
from reference import experts as ref

from budgetron import bounds
from budgetron.experts import (
    ExponentialWeights,
    FixedShare,
    Halving,
    PolynomialWeights,
    Prod,
    RandomizedWeightedMajority,
    WeightedMajority,
)

SEEDS = range(6)


def absolute(p, y):
    return abs(p - y)


def squared(p, y):
    return (p - y) ** 2


def streams(seed, binary=False):
    """Return advice of experts of different quality, and outcomes."""
    rng = np.random.default_rng(seed)
    T, N = int(rng.integers(1, 300)), int(rng.integers(1, 12))
    if binary:
        outcomes = rng.integers(0, 2, T).astype(float)
        wrong = rng.random((T, N)) < rng.random(N) * 0.6
        return np.where(wrong, 1 - outcomes[:, None], outcomes[:, None]), outcomes
    outcomes = rng.random(T)
    return np.clip(outcomes[:, None] + rng.normal(size=(T, N)) * rng.random(N), 0, 1), outcomes


def assert_losses(algorithm, trace, losses, own):
    """Check losses, experts' losses, best expert and regret."""
    losses, own = np.asarray(losses), np.asarray(own)
    np.testing.assert_allclose(trace.losses, own, atol=1e-10)
    np.testing.assert_allclose(trace.expert_losses, losses.sum(axis=0), atol=1e-10)
    assert trace.best_expert == int(losses.sum(axis=0).argmin())
    assert trace.regret == pytest.approx(own.sum() - losses.sum(axis=0).min(), abs=1e-9)
    assert algorithm.regret_ == pytest.approx(trace.regret, abs=1e-9)
    assert algorithm.rounds_ == len(own)
    np.testing.assert_array_equal(algorithm.weights_, trace.weights)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("beta", [0.0, 0.3, 0.5, 0.9])
def test_weighted_majority(beta, seed):
    advice, outcomes = streams(seed, binary=True)
    predictions, w = ref.majority(advice.tolist(), outcomes.tolist(), beta)
    vote = WeightedMajority(beta)
    trace = vote.play(advice, outcomes)
    np.testing.assert_array_equal(trace.predictions, predictions)
    assert_losses(vote, trace, advice != outcomes[:, None], np.array(predictions) != outcomes)
    if sum(w):
        np.testing.assert_allclose(trace.weights, ref.share(w), rtol=1e-10)
    best = trace.expert_losses.min()
    if beta > 0:  # Theorem 8.3
        bound = (log(advice.shape[1]) + best * log(1 / beta)) / log(2 / (1 + beta))
        assert trace.losses.sum() <= bound + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_halving_is_weighted_majority_at_zero(seed):
    advice, outcomes = streams(seed, binary=True)
    halving, majority = Halving().play(advice, outcomes), WeightedMajority(0.0).play(advice, outcomes)
    np.testing.assert_array_equal(halving.predictions, majority.predictions)
    np.testing.assert_array_equal(halving.weights, majority.weights)
    # Theorem 8.1: one expert is always right.
    right = np.hstack([advice, outcomes[:, None]])
    assert Halving().play(right, outcomes).losses.sum() <= np.log2(right.shape[1])


def test_rounding_does_not_break_ties():
    # The same weights on both sides, in an order in which their sums round differently.
    vote = WeightedMajority(0.1)
    vote.play([[1, 1, 0, 0, 1, 0]] * 3, [0, 1, 0])
    vote._errors = np.array([3, 1, 2, 3, 2, 1])
    assert vote.predict([1, 1, 0, 0, 1, 0]) == 1.0
    assert vote.predict([0, 0, 1, 1, 0, 1]) == 1.0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("beta", [0.5, 0.8])
def test_randomized_majority(beta, seed):
    advice, outcomes = streams(seed, binary=True)
    losses = (advice != outcomes[:, None]).astype(float)
    own, w = ref.randomized_majority(losses.tolist(), beta)
    by_advice, by_losses = RandomizedWeightedMajority(beta, 0), RandomizedWeightedMajority(beta)
    for algorithm, trace in (
        (by_advice, by_advice.play(advice, outcomes)),
        (by_losses, by_losses.play_losses(losses)),
    ):
        assert_losses(algorithm, trace, losses, own)
        np.testing.assert_allclose(trace.weights, ref.share(w), rtol=1e-10)
        bound = log(advice.shape[1]) / (1 - beta) + (2 - beta) * trace.expert_losses.min()  # Theorem 8.4
        assert trace.losses.sum() <= bound + 1e-9


def test_experts_are_drawn_by_weight():
    algorithm = RandomizedWeightedMajority(0.5, random_state=0)
    algorithm.play_losses([[0, 1, 1], [0, 0, 1]])  # weights 1, 1/2, 1/4
    drawn = np.array([algorithm.predict([1, 0, 0]) for _ in range(4000)])
    assert abs(drawn.mean() - 4 / 7) < 5 * sqrt(0.25 / 4000)
    assert set(drawn) == {0.0, 1.0}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("beta", [0.5, 0.8])
def test_prod(beta, seed):
    advice, outcomes = streams(seed)
    losses = np.abs(advice - outcomes[:, None])
    own, w = ref.prod(losses.tolist(), beta)
    by_advice, by_losses = Prod(beta), Prod(beta)
    for algorithm, trace in (
        (by_advice, by_advice.play(advice, outcomes)),
        (by_losses, by_losses.play_losses(losses)),
    ):
        assert_losses(algorithm, trace, losses, own)
        np.testing.assert_allclose(trace.weights, ref.share(w), rtol=1e-10)
    T, N = losses.shape
    if N > 1:
        best = Prod(max(0.5, 1 - sqrt(log(N) / T))).play_losses(losses)
        assert best.regret <= 2 * sqrt(T * log(N)) + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("loss", "function"), [("absolute", absolute), ("squared", squared)])
@pytest.mark.parametrize("eta", [0.1, 2.0, "doubling", "anytime"])
def test_exponential_weights(eta, loss, function, seed):
    advice, outcomes = streams(seed)
    T, N = advice.shape
    predictions, own, totals = ref.exponential(advice.tolist(), outcomes.tolist(), function, eta)
    algorithm = ExponentialWeights(eta, loss)
    trace = algorithm.play(advice, outcomes)
    np.testing.assert_allclose(trace.predictions, predictions, atol=1e-10)
    assert_losses(algorithm, trace, function(advice, outcomes[:, None]), own)
    if not isinstance(eta, str):
        np.testing.assert_allclose(
            trace.weights, ref.share(np.exp(-eta * np.array(totals)).tolist()), rtol=1e-10
        )
        bound = log(N) / eta + eta * T / 8  # Theorem 8.6
    elif eta == "doubling":
        bound = sqrt(2) / (sqrt(2) - 1) * sqrt(T / 2 * log(N)) + sqrt(log(N) / 2)  # Theorem 8.7
    else:
        bound = 2 * sqrt(T / 2 * log(N)) + sqrt(log(N) / 8)
    assert trace.regret <= bound + 1e-9
    # A loss function of the caller, and one round at a time
    own_function = ExponentialWeights(eta, function).play(advice, outcomes)
    np.testing.assert_allclose(own_function.predictions, predictions, atol=1e-10)
    rounds = ExponentialWeights(eta, loss)
    for y_t, y, prediction, own_loss in zip(advice, outcomes, predictions, own, strict=True):
        assert rounds.predict(y_t) == pytest.approx(prediction, abs=1e-10)
        assert rounds.update(y_t, y) == pytest.approx(own_loss, abs=1e-10)


@pytest.mark.parametrize("T", [1, 2, 3, 6, 7, 8, 11, 100])
def test_doubling_with_incomplete_periods(T):
    advice, outcomes = streams(3)
    advice, outcomes = np.tile(advice, (3, 1))[:T], np.tile(outcomes, 3)[:T]
    predictions, *_ = ref.exponential(advice.tolist(), outcomes.tolist(), absolute, "doubling")
    for cut in (0, T // 3, T // 2):
        algorithm = ExponentialWeights("doubling")
        parts = [
            algorithm.play(a, o)
            for a, o in ((advice[:cut], outcomes[:cut]), (advice[cut:], outcomes[cut:]))
            if len(o)
        ]
        np.testing.assert_allclose(
            np.concatenate([part.predictions for part in parts]), predictions, atol=1e-10
        )


@pytest.mark.parametrize("T", [1, 2, 3, 6, 7, 8, 11, 100])
@pytest.mark.parametrize(
    ("algorithm", "reference", "bound"),
    [
        (RandomizedWeightedMajority, ref.randomized_majority, bounds.randomized_weighted_majority_doubling),
        (Prod, ref.prod, bounds.prod_doubling),
    ],
)
def test_doubling_of_the_betas(algorithm, reference, bound, T):
    binary = algorithm is RandomizedWeightedMajority
    for seed in SEEDS:
        advice, outcomes = streams(seed, binary=binary)
        losses = np.tile(np.abs(advice - outcomes[:, None]), (20, 1))[:T]
        own, w = ref.doubling(reference, losses.tolist())
        for cut in (0, T // 3, T // 2):
            model = algorithm("doubling")
            parts = [model.play_losses(part) for part in (losses[:cut], losses[cut:]) if len(part)]
            got = np.concatenate([part.losses for part in parts])
            np.testing.assert_allclose(got, own, rtol=1e-10, atol=1e-10)
            if T & (T + 1):  # otherwise a period has just ended, and the weights are those of the next
                np.testing.assert_allclose(parts[-1].weights, ref.share(w), rtol=1e-10)
            else:
                np.testing.assert_allclose(parts[-1].weights, 1 / losses.shape[1])
            assert model.regret_ <= bound(losses.shape[1], T) + 1e-9


@pytest.mark.parametrize("algorithm", [RandomizedWeightedMajority, Prod])
def test_doubling_has_a_small_regret_at_every_time(algorithm):
    losses = np.random.default_rng(0).integers(2, size=(5000, 6)).astype(float)
    losses[:2500, 0] = 0.0
    model = algorithm("doubling")
    trace = model.play_losses(losses)
    regrets = np.cumsum(trace.losses) - np.cumsum(losses, axis=0).min(axis=1)
    limits = [bounds.prod_doubling(6, T) for T in range(1, 5001)]
    assert np.all(regrets <= limits)
    assert bounds.prod_doubling(6, 100) == bounds.randomized_weighted_majority_doubling(6, 100)
    assert bounds.prod_doubling(6, 100) == pytest.approx(
        2 * sqrt(log(6)) * (sqrt(2) / (sqrt(2) - 1) * 10 + 1)
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("alpha", [None, 3.0, 7.5])
def test_polynomial_weights(alpha, seed):
    advice, outcomes = streams(seed)
    T, N = advice.shape
    exponent = max(4, 2 * log(N)) if alpha is None else alpha
    predictions, own, _ = ref.polynomial(advice.tolist(), outcomes.tolist(), absolute, exponent)
    algorithm = PolynomialWeights(alpha)
    trace = algorithm.play(advice, outcomes)
    np.testing.assert_allclose(trace.predictions, predictions, atol=1e-10)
    assert_losses(algorithm, trace, np.abs(advice - outcomes[:, None]), own)
    assert trace.regret <= sqrt((exponent - 1) * T) * N ** (1 / exponent) + 1e-9
    if e**2 < N and alpha is None:
        assert trace.regret <= sqrt(e * (2 * log(N) - 1) * T) + 1e-9


@pytest.mark.parametrize(
    "algorithm",
    [
        RandomizedWeightedMajority(0.5),
        Prod(0.5),
        RandomizedWeightedMajority("doubling"),
        Prod("doubling"),
        ExponentialWeights(5.0),
        ExponentialWeights(),
        ExponentialWeights("doubling"),
    ],
)
def test_a_million_rounds(algorithm):
    # The weight of an expert that is always wrong is too small for a float.
    losses = np.zeros((10**6, 3))
    losses[:, 1] = 1.0
    losses[::2, 2] = 1.0
    with np.errstate(all="raise", under="ignore"):
        trace = algorithm.play_losses(losses)
    assert np.isfinite(trace.losses).all()
    assert trace.weights[0] == pytest.approx(1.0)
    assert trace.losses[-1] < 1e-3
    assert trace.best_expert == 0


def test_predictions_stay_below_one():
    # All experts advise 1, and rounding makes the sum of their weights a little larger than 1.
    rng = np.random.default_rng(0)
    algorithm = ExponentialWeights()
    algorithm.play(rng.random((500, 7)), rng.random(500))
    trace = algorithm.play(np.ones((500, 7)), np.zeros(500))
    assert trace.predictions.max() <= 1.0
    assert trace.losses.max() <= 1.0


def test_thousands_of_experts():
    rng = np.random.default_rng(0)
    losses = rng.random((300, 5000))
    assert ExponentialWeights().play_losses(losses).regret <= 2 * sqrt(150 * log(5000)) + 2


BAD_ROUNDS = [
    (
        ExponentialWeights(),
        "play",
        ([[0.5, 1.2]], [1.0]),
        r"advice must be in \[0, 1\]; the value at \(0, 1\) is 1.2",
    ),
    (ExponentialWeights(), "play", ([[0.5, np.nan]], [1.0]), "advice must be"),
    (ExponentialWeights(), "play", ([[0.5, 0.5]], [2.0]), "outcomes must be"),
    (ExponentialWeights(), "play", ([[0.5, 0.5]], [1.0, 0.0]), "one per row of advice"),
    (ExponentialWeights(), "play", ([[0.5, 0.5, 0.5]], [1.0]), "the first round had 2 experts; got 3"),
    (ExponentialWeights(), "play", ([0.5, 0.5], [1.0]), "advice must have shape"),
    (ExponentialWeights(), "play_losses", ([[0.5, -0.1]],), "losses must be in"),
    (ExponentialWeights(), "play_losses", ([0.5, 0.1],), "losses must have shape"),
    (FixedShare(), "play", ([[0.5, 1.2]], [1.0]), "advice must be in"),
    (FixedShare(), "play", ([[0.5, 0.5, 0.5]], [1.0]), "the first round had 2 experts; got 3"),
    (FixedShare(), "play_losses", ([[0.5, -0.1]],), "losses must be in"),
    (
        FixedShare(loss=lambda p, y: 3 * abs(p - y)),
        "play",
        ([[0.0, 1.0]], [1.0]),
        "loss function's values must be",
    ),
    (WeightedMajority(), "play", ([[0.5, 1.0]], [1.0]), "advice must be 0 or 1"),
    (RandomizedWeightedMajority(), "play_losses", ([[0.5, 1.0]],), "losses must be 0 or 1"),
    (
        ExponentialWeights(loss=lambda p, y: 3 * abs(p - y)),
        "play",
        ([[0.0, 1.0]], [1.0]),
        "loss function's values must be",
    ),
]


@pytest.mark.parametrize(("algorithm", "method", "arguments", "message"), BAD_ROUNDS)
def test_bad_rounds_change_nothing(algorithm, method, arguments, message):
    algorithm = copy.deepcopy(algorithm)
    algorithm.play([[1.0, 1.0]], [1.0])
    before = copy.deepcopy(vars(algorithm))
    with pytest.raises(ValueError, match=message):
        getattr(algorithm, method)(*arguments)
    after = dict(vars(algorithm))
    for state in (before, after):
        if "_random" in state:
            state["_random"] = state["_random"].get_state(legacy=False)
    np.testing.assert_equal(after, before)


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        (WeightedMajority(1.0), "beta"),
        (WeightedMajority(-0.1), "beta"),
        (RandomizedWeightedMajority(0.4), "beta"),
        (Prod(0.4), "beta"),
        (Prod(1.0), "beta"),
        (Prod("halving"), "beta"),
        (ExponentialWeights(0.0), "eta"),
        (ExponentialWeights("fast"), "eta"),
        (ExponentialWeights(loss="cubic"), "loss"),
        (PolynomialWeights(2.0), "alpha"),
    ],
)
def test_bad_parameters(algorithm, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        algorithm.predict([1.0, 0.0])
    assert not hasattr(algorithm, "n_experts_")


def test_votes_refuse_losses():
    with pytest.raises(TypeError, match="needs advice, not losses"):
        Halving().play_losses([[0, 1]])
    with pytest.raises(AttributeError, match="has not seen any advice"):
        _ = Halving().weights_


@pytest.mark.parametrize(
    "algorithm", [Halving(), WeightedMajority(), ExponentialWeights(), FixedShare(), Prod()]
)
def test_invalid_advice_of_one_round(algorithm):
    for advice in (0.5, [[0.0, 1.0]], np.zeros((1, 1, 2))):
        for call in (algorithm.predict, lambda advice: algorithm.update(advice, 1.0)):
            with pytest.raises(ValueError, match="advice of one round must have shape"):
                call(advice)
    with pytest.raises(ValueError, match="advice must be real numbers"):
        algorithm.predict([1j, 0.0])
    with pytest.raises(ValueError, match="outcomes must be real numbers"):
        algorithm.update([1.0, 0.0], 1j)
    assert not hasattr(algorithm, "rounds_")


def test_a_loss_function_that_fails_in_the_first_round_changes_nothing():
    def loss(prediction, outcome):
        return np.full(np.broadcast(prediction, outcome).shape, 2.0)

    algorithm = ExponentialWeights(loss=loss)
    with pytest.raises(ValueError, match="loss function's values must be in"):
        algorithm.play(np.zeros((2, 3)), [0.0, 1.0])
    assert not hasattr(algorithm, "n_experts_")  # so another number of experts is possible
    assert algorithm.set_params(loss="absolute").play(np.zeros((2, 4)), [0.0, 1.0]).losses.shape == (2,)
