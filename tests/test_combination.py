"""The parts of a portfolio: combination of experts, first-order experts, and the detector of changes."""

import copy
import pickle

import numpy as np
import pytest
from reference.portfolio import Combination as Reference
from reference.portfolio import FirstOrder, limit_of_change
from scipy.sparse import csr_array

from budgetron import bounds, experts
from budgetron._core.combination import Combination
from budgetron._core.linear_experts import LinearExperts
from budgetron.portfolio._changes import CHUNK, DELTA, ChangeDetector

KINDS = ((False, 1.0), (False, 0.1), (True, 0.01), (True, 0.03))


def stream(outputs, n=300, experts_count=5, seed=0):
    """Return scores of experts of different quality, and the classes."""
    rng = np.random.default_rng(seed)
    classes = max(outputs, 2)
    codes = rng.integers(classes, size=n)
    truth = np.where(np.arange(classes) == codes[:, None], 1.0, -1.0)
    truth = truth[:, 1:] if outputs == 1 else truth
    noise = rng.normal(size=(n, experts_count, outputs)) * np.linspace(0.3, 3.0, experts_count)[:, None]
    return truth[:, None, :] + noise, codes


def labels_of(codes, outputs):
    return codes.astype(float) if outputs > 1 else 2.0 * codes - 1.0


@pytest.mark.parametrize("outputs", [1, 3, 5])
@pytest.mark.parametrize("keeps", [(1.0,), (1.0, 0.99)])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_reference(outputs, keeps, weighted):
    scores, codes = stream(outputs)
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], len(codes)) if weighted else None
    labels = labels_of(codes, outputs)
    active = np.array([True, True, False, True, True])
    ours, parts = Combination(5, outputs, keeps, 0.2, 0.01), Combination(5, outputs, keeps, 0.2, 0.01)
    margins, part_margins = np.empty((300, outputs)), np.empty((300, outputs))
    ledger = np.empty((300, 2 + len(keeps) + 5))
    wrong = ours.learn(scores, active, labels, margins, weights)
    for a, b in ((0, 1), (1, 17), (17, 300)):
        own = None if weights is None else weights[a:b]
        parts.learn(scores[a:b], active, labels[a:b], part_margins[a:b], own, ledger[a:b])
    np.testing.assert_array_equal(part_margins, margins)
    reference = Reference(5, outputs, keeps, 0.2, 0.01)
    expected = [
        reference.play(s, active, c, 1.0 if weights is None else weights[t])
        for t, (s, c) in enumerate(zip(scores, codes, strict=True))
    ]
    np.testing.assert_allclose(margins, expected, atol=1e-9)
    np.testing.assert_allclose(ours.shares, reference.shares, atol=1e-12)
    np.testing.assert_allclose(ours.losses, [*reference.losses, reference.loss], atol=1e-9)
    np.testing.assert_array_equal(wrong, reference.losses[len(keeps) :])
    np.testing.assert_allclose(ledger[:, 0], [loss for loss, _ in reference.history], atol=1e-12)
    np.testing.assert_array_equal(ledger[:, 1], np.ones(300) if weights is None else weights)
    np.testing.assert_array_equal(ledger[:, 2:], [wrong for _, wrong in reference.history])
    with pytest.raises(ValueError, match="a ledger must have"):
        ours.learn(scores, active, labels, margins, weights, ledger[:, 1:])
    np.testing.assert_allclose(ours.weights, reference.w, atol=1e-9)
    np.testing.assert_allclose(ours.sigma, reference.sigma, atol=1e-9)


@pytest.mark.parametrize("outputs", [1, 4])
def test_the_prediction_has_the_largest_margin_and_copies_continue(outputs):
    scores, codes = stream(outputs)
    labels, active = labels_of(codes, outputs), np.ones(5, bool)
    ours = Combination(5, outputs)
    margins = np.empty((300, outputs))
    ours.learn(scores[:200], active, labels[:200], margins[:200])
    copies = [copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))]
    decided = np.empty((100, outputs))
    ours.decide(scores[200:], active, decided, False)
    assert np.abs(decided).max() <= 1.0 + 1e-8
    for other in (ours, *copies):
        after = np.empty((100, outputs))
        other.learn(scores[200:], active, labels[200:], after)
        margins[200:] = after
        np.testing.assert_array_equal(after, margins[200:])
    assert ours.recent.any()


def test_the_regret_against_sequences_is_within_the_bound():
    """On a stream whose best expert changes five times, the vote is better than any expert."""
    rng = np.random.default_rng(0)
    n, k = 3000, 5
    y = rng.choice([-1.0, 1.0], n)
    scores = np.where(rng.random((n, 4, 1)) < 0.4, -1.0, 1.0) * y[:, None, None]
    for part in range(k + 1):
        rows = slice(part * 500, (part + 1) * 500)
        scores[rows, part % 4, 0] = np.where(rng.random(500) < 0.05, -1.0, 1.0) * y[rows]
    ours, margins = Combination(4, 1), np.empty((n, 1))
    ours.learn(scores, np.ones(4, bool), y, margins)
    table = (scores[:, :, 0] > 0.0) != (y > 0.0)[:, None]
    best = experts.best_sequence(table.astype(float), k)
    assert ours.losses[-1] <= best.loss + bounds.fixed_share(6, n, k, ours.eta, ours.alpha)
    plain = experts.ExponentialWeights()
    plain.play((scores[:, :, 0] > 0.0).astype(float), (y > 0.0).astype(float))
    assert ours.losses[-1] < min(table.sum(axis=0).min(), plain.loss_)
    assert np.count_nonzero(y * margins[:, 0] <= 0.0) <= 2.0 * ours.losses[-1]


def test_a_transferred_weight_and_a_new_expert():
    scores, codes = stream(3)
    ours = Combination(5, 3)
    ours.learn(scores, np.ones(5, bool), labels_of(codes, 3), np.empty((300, 3)))
    before = ours.weights.copy()
    ours.transfer_weight(1, 2)
    np.testing.assert_allclose(ours.weights[:, :, 2], before[:, :, 1] + before[:, :, 2])
    assert not ours.weights[:, :, 1].any()
    ours.reset(0, 0.25)
    assert not ours.weights[:, :, 0].any()
    assert (ours.sigma[:, :, 0, 0] == 0.25).all()
    assert not ours.sigma[:, :, 0, 1:].any()
    assert np.linalg.eigvalsh(ours.sigma).min() > 0.0


def test_a_new_class_keeps_the_predictions_of_the_others():
    scores, codes = stream(1)
    ours = Combination(5, 1)
    ours.learn(scores, np.ones(5, bool), labels_of(codes, 1), np.empty((300, 1)))
    before, after = np.empty((300, 1)), np.empty((300, 3))
    ours.decide(scores, np.ones(5, bool), before, False)
    ours.add_output(1)
    three = np.concatenate([-scores, np.full_like(scores, -3.0), scores], axis=2)
    ours.decide(three, np.ones(5, bool), after, False)
    agree = (after.argmax(axis=1) == np.where(before[:, 0] > 0.0, 2, 0)).mean()
    assert agree > 0.97
    assert ours.recent[1].tolist() == [-1.0, -1.0]


@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_first_order_experts_equal_reference(outputs, dtype, form):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((200, 7)) < 0.5, rng.normal(size=(200, 7)), 0.0).astype(dtype)
    codes = rng.integers(max(outputs, 2), size=200)
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], 200)
    ours, reference = LinearExperts(KINDS, 7, np.dtype(dtype), outputs), FirstOrder(KINDS, 7, outputs)
    scores, decided = np.empty((200, 4, outputs)), np.empty((200, 4, outputs))
    ours.learn(form(X), labels_of(codes, outputs), scores, weights)
    for t in range(200):
        y = [2.0 * codes[t] - 1.0] if outputs == 1 else np.where(np.arange(outputs) == codes[t], 1.0, -1.0)
        np.testing.assert_allclose(scores[t], reference.play(X[t].astype(float), y, weights[t]), atol=1e-9)
    np.testing.assert_allclose(ours.weights, reference.w, atol=1e-9)
    pickle.loads(pickle.dumps(ours)).decide(form(X), decided)
    np.testing.assert_allclose(decided, np.einsum("eco,to->tec", reference.w, X), atol=1e-9)
    ours.add_features(9)
    assert ours.weights.shape == (4, outputs, 9)


def test_the_detector_finds_an_increase_and_no_decrease():
    rng = np.random.default_rng(0)
    detector = ChangeDetector()
    for rate in (0.3, 0.2, 0.05):  # fewer errors are no alarm
        for _ in range(30):
            assert not detector.add(CHUNK, rng.binomial(CHUNK, rate))
    assert len(detector.counts) < 30
    detector = ChangeDetector()
    for _ in range(60):
        assert not detector.add(CHUNK, rng.binomial(CHUNK, 0.05))
    delay = next(i for i in range(20) if detector.add(CHUNK, rng.binomial(CHUNK, 0.3)))
    assert delay <= 2
    assert detector.counts[:, 0].sum() <= (delay + 2) * CHUNK


def test_the_detector_raises_few_false_alarms():
    rng = np.random.default_rng(1)
    alarms = 0
    for rate in (0.02, 0.1, 0.3, 0.5):
        detector = ChangeDetector()
        alarms += sum(detector.add(CHUNK, rng.binomial(CHUNK, rate)) for _ in range(2000))
    assert alarms <= 4 * 2000 * DELTA
    detector = ChangeDetector(np.array([[64.0, 0.0]]))
    errors = next(e for e in range(65) if ChangeDetector(np.array([[64.0, 0.0]])).add(CHUNK, e))
    assert errors / 64 > limit_of_change(64, 64, errors / 128, 1, DELTA)
    assert not detector.add(CHUNK, errors - 1)
