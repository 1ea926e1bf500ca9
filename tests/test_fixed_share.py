"""`FixedShare`, its bound, and the best sequence of experts."""

from functools import partial
from itertools import pairwise
from math import exp, inf, log, sqrt

import numpy as np
import pytest
from reference import experts as ref
from test_experts import SEEDS, absolute, assert_losses, squared, streams

from budgetron import bounds, certify, linear
from budgetron._base.theorems import SequenceTheorem
from budgetron.bounds import AssumptionError
from budgetron.experts import ExponentialWeights, FixedShare, best_sequence


def changing_losses(seed, rounds, n_experts, switches, wrong=0.1):
    """Return losses 0 and 1 of experts that err at random; one per segment errs less often."""
    rng = np.random.default_rng(seed)
    good = rng.permutation(n_experts)[: switches + 1]  # segments of equal length, a new expert in each
    errors = np.full((rounds, n_experts), 0.5)
    errors[np.arange(rounds), np.repeat(good, -(-rounds // len(good)))[:rounds]] = wrong
    return (rng.random((rounds, n_experts)) < errors).astype(float)


# ---------------------------------------------------------------------- the algorithm


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("loss", "function"), [("absolute", absolute), ("squared", squared)])
@pytest.mark.parametrize(("eta", "alpha"), [(0.1, 3e-4), (2.0, 0.05), (0.5, 0.9)])
def test_rounds_equal_the_reference(eta, alpha, loss, function, seed):
    advice, outcomes = streams(seed)
    predictions, own, weights = ref.fixed_share(advice.tolist(), outcomes.tolist(), function, eta, alpha)
    algorithm = FixedShare(eta, alpha, loss)
    trace = algorithm.play(advice, outcomes)
    np.testing.assert_allclose(trace.predictions, predictions, atol=1e-12)
    np.testing.assert_allclose(trace.weights, weights[-1], rtol=1e-10)
    assert_losses(algorithm, trace, function(advice, outcomes[:, None]), own)
    own_function = FixedShare(eta, alpha, function).play(advice, outcomes)
    np.testing.assert_allclose(own_function.predictions, predictions, atol=1e-12)
    rounds = FixedShare(eta, alpha, loss)
    for t, (y_t, y) in enumerate(zip(advice, outcomes, strict=True)):
        assert rounds.predict(y_t) == pytest.approx(predictions[t], abs=1e-12)
        assert rounds.update(y_t, y) == pytest.approx(own[t], abs=1e-12)
        np.testing.assert_allclose(rounds.weights_, weights[t], rtol=1e-10)


def test_the_loss_of_a_round_is_the_weight_of_the_wrong_experts():
    losses = changing_losses(0, 200, 6, 2)
    algorithm = FixedShare(0.3, 0.01)
    for row in losses:
        wrong = algorithm.weights_[row == 1.0].sum() if algorithm._is_started() else row.mean()
        assert algorithm.update(row, 0.0) == pytest.approx(wrong, abs=1e-12)
    assert FixedShare(0.3, 0.01).play_losses(losses).losses.sum() == pytest.approx(algorithm.loss_)


@pytest.mark.parametrize("n_experts", [1, 2, 7, 15, 200])
def test_any_cut_gives_the_same_bits(n_experts):
    rng = np.random.default_rng(n_experts)
    losses = rng.random((5000, n_experts))  # longer than a block
    whole = FixedShare(0.4, 0.01)
    trace = whole.play_losses(losses)
    cut = FixedShare(0.4, 0.01)
    edges = [0, 1, 2, 5, 300, 301, 4097, 4100, 5000]
    parts = [cut.play_losses(losses[start:end]) for start, end in pairwise(edges)]
    np.testing.assert_array_equal(np.concatenate([part.losses for part in parts]), trace.losses)
    np.testing.assert_array_equal(cut.weights_, whole.weights_)
    np.testing.assert_array_equal(trace.weights, whole.weights_)


def test_the_weights_after_a_million_rounds():
    # An expert that is always wrong has the smallest weight possible, from which it recovers.
    losses = np.zeros((10**6, 3))
    losses[:, 1] = 1.0
    losses[::2, 2] = 1.0
    eta, alpha = 5.0, 3e-4
    algorithm = FixedShare(eta, alpha)
    with np.errstate(all="raise", under="ignore"):
        trace = algorithm.play_losses(losses)
    assert abs(trace.weights.sum() - 1.0) < 1e-15
    # Fixed point of the weight of the second expert: its factor relative to the others is exp(-5).
    share = alpha / 3
    assert share < trace.weights[1] < 1.01 * (share + trace.weights[1] * exp(-eta))
    assert trace.best_expert == 0
    after = algorithm.play_losses([[1.0, 0.0, 1.0]] * 4)
    assert after.losses[-1] < 1e-2
    # The weights do not depend on rounding errors of earlier rounds: a short run has the same.
    short = FixedShare(eta, alpha).play_losses(losses[:1000])
    np.testing.assert_allclose(trace.weights, short.weights, rtol=1e-13)


@pytest.mark.parametrize("eta", [1e-300, 1.0, 800.0, 1e308])
@pytest.mark.parametrize("alpha", [1e-100, 1e-16, 0.5, 1 - 2**-53])
def test_extreme_rates(eta, alpha):
    rng = np.random.default_rng(0)
    losses = np.vstack([np.ones((3, 4)), np.eye(4), 1 - np.eye(4), rng.random((20, 4)), np.zeros((2, 4))])
    algorithm = FixedShare(eta, alpha)
    with np.errstate(all="raise", under="ignore"):
        for row in np.tile(losses, (3, 1)):
            algorithm.play_losses(row[None])
            assert algorithm.weights_.min() >= alpha / 4
            assert algorithm.weights_.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"eta": 0.0}, "eta"),
        ({"eta": -1.0}, "eta"),
        ({"eta": inf}, "eta"),
        ({"eta": "anytime"}, "eta"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1e-101}, "alpha"),
        ({"alpha": 1.0}, "alpha"),
        ({"loss": "cubic"}, "loss"),
    ],
)
def test_bad_parameters(parameters, name):
    algorithm = FixedShare(**parameters)
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        algorithm.predict([1.0, 0.0])
    assert not hasattr(algorithm, "n_experts_")


@pytest.mark.parametrize(
    "shares", [[0.5, 0.6, 0.1], [0.0, 0.5, 0.5], [-0.5, 1.0, 0.5], [np.nan, 0.5, 0.5], [np.inf, 0.5, 0.5]]
)
def test_bad_weights_in_a_state(shares):
    algorithm = FixedShare()
    algorithm.play_losses(np.eye(3))
    before, state = algorithm.learned_state(), algorithm.learned_state()
    with pytest.raises(ValueError, match="should be"):
        algorithm.set_learned_state(state | {"_shares": np.array(shares)})
    np.testing.assert_equal(algorithm.learned_state(), before)
    algorithm.set_params(alpha=0.9).set_learned_state(state)  # weights of another alpha are valid


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_whose_best_expert_changes_five_times(seed):
    losses = changing_losses(seed, 6000, 10, switches=5)
    shared = FixedShare().play_losses(losses).losses.sum()
    assert shared < losses.sum(axis=0).min()
    for eta in (0.1, "anytime", "doubling"):
        assert shared < ExponentialWeights(eta).play_losses(losses).losses.sum()


# ---------------------------------------------------------------------- the bound


STREAMS = {
    "noise": lambda T, N: np.random.default_rng(1).random((T, N)),
    "coins": lambda T, N: np.random.default_rng(2).integers(0, 2, (T, N)).astype(float),
    "changes": lambda T, N: changing_losses(3, T, N, min(5, N - 1)),
    "alternating": lambda T, N: (np.arange(T)[:, None] + np.arange(N)) % 2,
    "one at a time": lambda T, N: 1.0 - np.eye(N)[np.arange(T) // 20 % N],
    "all wrong": lambda T, N: np.ones((T, N)),
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("eta", "alpha"), [(0.1, 3e-4), (0.5, 0.02), (3.0, 0.4)])
@pytest.mark.parametrize("n_experts", [2, 9])
def test_the_bound_on_fixed_streams(n_experts, eta, alpha, stream):
    losses = STREAMS[stream](400, n_experts)
    own = FixedShare(eta, alpha).play_losses(losses).losses.sum()
    for switches, loss in enumerate(best_sequence(losses, 60).smallest_losses):
        assert own - loss <= bounds.fixed_share(n_experts, 400, switches, eta, alpha) + 1e-9


@pytest.mark.parametrize("n_experts", [2, 5])
@pytest.mark.parametrize("hit", ["heaviest", "above average"])
def test_the_bound_against_an_adversary(hit, n_experts):
    # The adversary sees the weights. It lets the heaviest experts err, who are the next to lose weight.
    eta, alpha = bounds.fixed_share_rates(n_experts, 1000, 10)
    algorithm, rows = FixedShare(eta, alpha), []
    algorithm.predict(np.zeros(n_experts))
    for _ in range(1000):
        weights = algorithm.weights_
        wrong = weights == weights.max() if hit == "heaviest" else weights >= weights.mean() - 1e-12
        rows.append(wrong.astype(float))
        algorithm.play_losses(rows[-1][None])
    for switches, loss in enumerate(best_sequence(rows, 40).smallest_losses):
        assert algorithm.loss_ - loss <= bounds.fixed_share(n_experts, 1000, switches, eta, alpha)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_bound_by_advice_with_convex_losses(seed):
    advice, outcomes = streams(seed)
    T, N = advice.shape
    for loss in (absolute, squared):
        own = FixedShare(0.7, 0.03, loss).play(advice, outcomes).losses.sum()
        for switches, best in enumerate(
            best_sequence(loss(advice, outcomes[:, None]), 8).smallest_losses[:T]
        ):
            assert own - best <= bounds.fixed_share(N, T, switches, 0.7, 0.03) + 1e-9


def mix_losses(losses, eta, alpha):
    """Return -log of the sum of w exp(-eta loss), in each round."""
    algorithm, found = FixedShare(eta, alpha), []
    algorithm.predict(np.zeros(losses.shape[1]))
    for row in losses:
        found.append(-log(algorithm.weights_ @ np.exp(-eta * row)))
        algorithm.play_losses(row[None])
    return np.array(found)


def test_the_weights_are_those_of_a_prior_over_all_sequences():
    # Each step of the proof, with all 729 sequences enumerated.
    eta, alpha, T, N = 0.8, 0.2, 6, 3
    losses = np.random.default_rng(0).random((T, N))
    mix = mix_losses(losses, eta, alpha)
    sequences = ref.sequences(losses.tolist(), alpha)
    assert sum(p for *_, p in sequences) == pytest.approx(1.0)
    assert mix.sum() == pytest.approx(-log(sum(p * exp(-eta * loss) for _, loss, p in sequences)), abs=1e-12)
    own = FixedShare(eta, alpha).play_losses(losses).losses
    assert np.all(own <= mix / eta + eta / 8)
    for switches, loss, p in sequences:
        cost = eta * (bounds.fixed_share(N, T, switches, eta, alpha) - eta * T / 8)
        assert cost == pytest.approx(-log(p))  # the first term of the bound
        assert mix.sum() <= eta * loss + cost + 1e-12
    for k in range(T):
        best = min(loss for switches, loss, _ in sequences if switches <= k)
        assert best_sequence(losses, k).loss == pytest.approx(best, abs=1e-12)


def test_the_first_term_of_the_bound_is_attained():
    # With a large eta only the one sequence without loss counts: the inequality of the proof is an equality.
    eta, alpha, T, N, k = 45.0, 0.01, 300, 4, 5
    sequence = np.arange(T) // 50 % N
    losses = 1.0 - np.eye(N)[sequence]
    assert best_sequence(losses, k).loss == 0.0
    first_term = eta * bounds.fixed_share(N, T, k, eta, alpha) - eta**2 * T / 8
    assert mix_losses(losses, eta, alpha).sum() == pytest.approx(first_term, rel=1e-12)
    assert best_sequence(losses, k - 1).loss == 50.0


def test_the_bound_is_not_far_above_the_regret_on_coin_flips():
    # No algorithm has a smaller expected loss than T / 2, and the best sequence gains more than half of what
    # the bound allows.
    T, N, k = 8000, 16, 7
    losses = np.random.default_rng(0).integers(0, 2, (T, N)).astype(float)
    own = FixedShare(*bounds.fixed_share_rates(N, T, k)).play_losses(losses).losses.sum()
    regret, bound = own - best_sequence(losses, k).loss, bounds.fixed_share(N, T, k)
    assert 0.5 * bound < regret < bound


@pytest.mark.parametrize(("n_experts", "rounds", "switches"), [(2, 50, 1), (15, 10000, 5), (3, 100, 60)])
def test_the_best_rates(n_experts, rounds, switches):
    bound = partial(bounds.fixed_share, n_experts, rounds, switches)
    eta, alpha = bounds.fixed_share_rates(n_experts, rounds, switches)
    smallest = bound(eta, alpha)
    assert bound() == pytest.approx(smallest)
    assert bound(eta) == pytest.approx(smallest)
    p = switches / (rounds - 1)
    entropy = -p * log(p) - (1 - p) * log(1 - p)
    cost = log(n_experts) + switches * log(n_experts - 1) + (rounds - 1) * entropy
    assert smallest == pytest.approx(sqrt(rounds / 2 * cost))
    for factor in (0.5, 0.99, 1.01, 2.0):
        assert bound(factor * eta, alpha) > smallest
        if factor * alpha < 1:
            assert bound(eta, factor * alpha) > smallest


def test_the_bound_without_switches_and_shares_is_that_of_exponential_weights():
    assert bounds.fixed_share(7, 500, 0, 0.2, 1e-90) == pytest.approx(bounds.exponential_weights(7, 500, 0.2))
    with_switches = [bounds.fixed_share(7, 500, k, 0.2, 0.9) for k in range(500)]
    assert np.all(np.diff(with_switches) > 0)


@pytest.mark.parametrize("values", [(3, 10, 10, 0.1, 0.1), (3, 10, -1, 0.1, 0.1), (3, 10, 1, 0.0, 0.1)])
@pytest.mark.parametrize("check", [True, False])
def test_assumptions_of_the_bound(values, check):
    if check:
        with pytest.raises(AssumptionError, match="is assumed"):
            bounds.fixed_share(*values)
    else:
        assumptions = []
        bounds.fixed_share(*values, check=assumptions)
        assert not all(assumption.holds for assumption in assumptions)


def test_rates_that_do_not_exist():
    for alpha in (0.0, 1.0):
        with pytest.raises(AssumptionError, match="an alpha between 0 and 1 is assumed"):
            bounds.fixed_share(3, 10, 1, 0.1, alpha)
    with pytest.raises(AssumptionError):
        bounds.fixed_share(3, 10, 0)  # the best alpha is 0
    for values in ((1, 10, 1), (3, 10, 0), (3, 10, 6), (2, 1, 1)):
        with pytest.raises(ValueError, match="must be at least"):
            bounds.fixed_share_rates(*values)


# ---------------------------------------------------------------------- the best sequence


@pytest.mark.parametrize("seed", range(20))
def test_the_best_of_all_sequences(seed):
    rng = np.random.default_rng(seed)
    T, N = int(rng.integers(1, 8)), int(rng.integers(1, 4))
    losses = rng.random((T, N)) if seed % 2 else rng.integers(0, 2, (T, N)).astype(float)  # with ties
    every = ref.sequences(losses.tolist(), 0.5)
    for k in range(T + 2):
        best = best_sequence(losses, k)
        smallest = [min(loss for switches, loss, _ in every if switches <= j) for j in range(k + 1)]
        np.testing.assert_allclose(best.smallest_losses, smallest, atol=1e-12)
        assert best.loss == pytest.approx(smallest[-1], abs=1e-12)
        assert best.loss == losses[np.arange(T), best.experts].sum()
        assert best.switches == min(switches for switches, loss, _ in every if loss <= best.loss + 1e-12)


def test_the_best_sequence_finds_the_segments():
    losses = changing_losses(0, 600, 5, 3, wrong=0.0)
    best = best_sequence(losses, 3)
    assert best.loss == 0.0
    assert best.switches == 3
    assert best_sequence(losses, 100).switches == 3  # no switch without need
    assert best_sequence(losses.tolist(), np.int64(0)).switches == 0
    assert best_sequence(losses, 0).loss == losses.sum(axis=0).min()


@pytest.mark.parametrize(
    ("losses", "switches", "message"),
    [
        (np.zeros(3), 1, "losses must have shape"),
        (np.zeros((0, 3)), 1, "losses must have shape"),
        (np.zeros((3, 0)), 1, "losses must have shape"),
        ([[np.nan, 1.0]], 1, "losses must be finite"),
        ([[1j, 1.0]], 1, "losses must be real"),
        (np.zeros((3, 2)), -1, "switches must be an integer"),
        (np.zeros((3, 2)), 1.0, "switches must be an integer"),
        (np.zeros((3, 2)), True, "switches must be an integer"),
    ],
)
def test_bad_arguments_of_best_sequence(losses, switches, message):
    with pytest.raises(ValueError, match=message):
        best_sequence(losses, switches)


# ---------------------------------------------------------------------- the certificate


class Vote(linear.Perceptron):
    """A learner that declares the theorem of a vote over experts, whose losses are given."""

    losses = changing_losses(0, 300, 4, 2)

    def _theorems(self, radius):
        def regret(run, switches, check):
            return bounds.fixed_share(4, 300, switches, 0.5, 0.01, check=check)

        own = float(FixedShare(0.5, 0.01).play_losses(self.losses).losses.sum())
        return [SequenceTheorem("fixed_share", lambda run: (own, self.losses), regret, "ABCD")]


@pytest.fixture(scope="module")
def vote():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    model = Vote()
    return model, X, y, model.progressive_fit(X, y, ledger=True)


def test_certificates_of_a_vote(vote):
    certificates = [certify(*vote, k) for k in range(20)]
    for k, certificate in enumerate(certificates):
        assert certificate.holds
        assert certificate.losses == best_sequence(Vote.losses, k).loss
        assert certificate.bound == certificate.losses + bounds.fixed_share(4, 300, k, 0.5, 0.01)
        assert (f"at most {k} switch" if k else "the best expert, ") in str(certificate)
        sequence = best_sequence(Vote.losses, k).experts
        names = ", ".join(f'"{"ABCD"[i]}"' for i in sequence[np.flatnonzero(np.diff(sequence, prepend=-1))])
        assert names[:18] in str(certificate)  # at most four are listed
    best = certify(*vote)
    assert best.bound == min(certificate.bound for certificate in certificates)
    assert best.count == pytest.approx(FixedShare(0.5, 0.01).play_losses(Vote.losses).losses.sum())
    assert best.theorem.startswith("Cesa-Bianchi, Lugosi (2006) section 5.2")


def test_competitors_that_are_no_sequence_of_experts(vote):
    for competitor in ("worst", np.zeros(2), -1, True, 2.0):
        with pytest.raises(ValueError, match="or a number of switches"):
            certify(*vote, competitor)
    with pytest.raises(AssumptionError, match="a number of switches from 0 to 299"):
        certify(*vote, 300)
    assert not certify(*vote, 300, check=False).applies
