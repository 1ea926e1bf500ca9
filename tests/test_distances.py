"""Distances shared by learners with different RBF widths: sharing must not change the results."""

import copy

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from budgetron import BudgetClassifier, SecondOrderProjectron
from budgetron._core.distances import shared
from budgetron.kernelized import KernelPerceptron, PassiveAggressive
from budgetron.portfolio import _experts, _pool

WIDTHS = (0.5, 2.0, 8.0)


def rows_of(kind, n, d, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    if kind == "mostly zeros":
        X *= rng.random((n, d)) < 0.1
    elif kind == "far from the origin":
        X += 3e3 if dtype == np.float32 else 3e7
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)  # random labels, so that learners keep updating
    return X.astype(dtype), y


def learners_of(d, dtype, linear=True):
    scale = 1.0 / (2.0 * d)
    models = [SecondOrderProjectron(150, gamma=width * scale, linear=linear) for width in WIDTHS]
    models += [PassiveAggressive(budget=100, gamma=width * scale) for width in WIDTHS]
    return [model.new_learner(np.zeros(d, dtype)) for model in models]


def slabs_of(learners):
    return [learner.supports for learner in learners]


@pytest.mark.parametrize("kind", ["any", "mostly zeros", "far from the origin"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [120, 300])
def test_shared_distances_give_the_same_rounds(d, dtype, kind):
    X, y = rows_of(kind, 1000, d, dtype)
    # Far from the origin, the variances of the linear part consist of rounding errors only.
    together, alone = (learners_of(d, dtype, kind != "far from the origin") for _ in range(2))
    shared_batches = exchanges = 0
    for start in range(0, len(y), 200):
        batch, labels = X[start : start + 200], y[start : start + 200]
        for learner, same, distances in zip(
            together, alone, shared(batch, slabs_of(together), [0] * len(together)), strict=True
        ):
            margins, expected = np.empty(len(labels)), np.empty(len(labels))
            sizes = np.empty(len(labels), np.int64)
            learner.learn(batch, labels, margins, sizes, distances=distances)
            exchanges += np.count_nonzero(np.diff(sizes[:-1]) < 0) if distances is not None else 0
            same.learn(batch, labels, expected)
            # Far from the origin, both ways to compute distances are only as precise as the rows.
            np.testing.assert_allclose(margins, expected, atol=1e-8 if dtype == np.float64 else 5e-3)
            shared_batches += distances is not None
    assert shared_batches >= 3 * len(together)
    assert exchanges > 3  # each followed by rounds that use the same distances
    for learner, same in zip(together, alone, strict=True):
        np.testing.assert_array_equal(learner.supports.rounds, same.supports.rounds)
        np.testing.assert_array_equal(learner.supports.order, same.supports.order)
        np.testing.assert_allclose(
            learner.rule.coef, same.rule.coef, atol=1e-7 if dtype == np.float64 else 5e-2
        )


@pytest.mark.parametrize("kind", ["any", "mostly zeros", "far from the origin"])
def test_each_distance_is_stored_once(kind):
    X, y = rows_of(kind, 600, 120, np.float64)
    learners = learners_of(120, np.float64)
    births = [0, 0, 100, 0, 100, 200]  # some learners started later
    for learner, birth in zip(learners, births, strict=True):
        learner.learn(X[birth:400], y[birth:400])
    readings = shared(X[400:], slabs_of(learners), births)
    stored_rounds = set()
    for learner, birth in zip(learners, births, strict=True):
        stored_rounds |= set(
            (learner.supports.rounds[learner.supports.order[: learner.supports.m]] + birth).tolist()
        )
    for learner, reading in zip(learners, readings, strict=True):
        assert reading is not None
        assert reading.table is readings[0].table
        slots = learner.supports.order[: learner.supports.m]
        expected = cdist(X[400:], learner.supports.rows(slots), "sqeuclidean")
        np.testing.assert_allclose(reading.table[:, reading.places[slots]], expected, rtol=1e-9)
        np.testing.assert_allclose(
            learner.decide(X[400:], distances=reading), learner.decide(X[400:]), rtol=1e-7, atol=1e-7
        )
    assert readings[0].table.shape == (200, len(stored_rounds) + 200)


def test_distances_are_not_shared_without_benefit():
    X, y = rows_of("any", 600, 120, np.float64)
    learners = learners_of(120, np.float64)
    for learner in learners:
        learner.learn(X[:400], y[:400])
    slabs = slabs_of(learners)
    assert shared(X[400:], slabs[:1], [0]) == [None]
    assert shared(X[400:401], slabs, [0] * 6) == [None] * 6
    assert shared(X[400:], slabs, [0, 1000, 2000, 3000, 4000, 5000]) == [None] * 6  # no row in common
    stored = shared(X[400:], slabs, [0] * 6)[0].table.shape[1] - 200
    memory = 8 * ((stored + 200) * 200 + stored * 120)
    assert shared(X[400:], slabs, [0] * 6, memory - 1) == [None] * 6
    assert None not in shared(X[400:], slabs, [0] * 6, memory)
    narrow = learners_of(3, np.float64)
    for learner in narrow:
        learner.learn(X[:400, :3].copy(), y[:400])
    assert shared(X[400:, :3].copy(), slabs_of(narrow), [0] * 6) == [None] * 6


def test_wrong_distances_raise():
    X, y = rows_of("any", 600, 120, np.float64)
    learners = learners_of(120, np.float64)
    for learner in learners:
        learner.learn(X[:400], y[:400])
    reading = shared(X[400:], slabs_of(learners), [0] * 6)[0]
    for learner, rows in [(learners[1], X[400:]), (learners[0], X[401:])]:
        with pytest.raises(ValueError, match="distances are of other rows, or for another learner"):
            learner.learn(rows, y[: len(rows)], distances=reading)
        with pytest.raises(ValueError, match="distances are of other rows, or for another learner"):
            learner.decide(rows, distances=reading)
    other = PassiveAggressive(budget=100, gamma=0.1).new_learner(np.zeros(7))
    with pytest.raises(ValueError, match="rows of the same width and type"):
        shared(X[400:], [learners[0].supports, other.supports], [0, 0])
    other = PassiveAggressive(budget=100, kernel="poly").new_learner(np.zeros(120))
    with pytest.raises(ValueError, match="must have RBF kernels"):
        shared(X[400:], [learners[0].supports, other.supports], [0, 0])
    unbudgeted = [KernelPerceptron(gamma=0.01).new_learner(np.zeros(120)) for _ in range(3)]
    for learner in unbudgeted:
        learner.learn(X[:400], y[:400])
    reading = shared(X[400:], slabs_of(unbudgeted), [0] * 3)[0]
    with pytest.raises(ValueError, match="must have a budget"):
        unbudgeted[0].learn(X[400:], y[400:], distances=reading)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_portfolio_gives_the_same_without_sharing(dtype, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 100)).astype(dtype)
    y = np.where(X[:, 0] * X[:, 1] + X[:, 2] > 0.0, 1, -1)
    readings = []

    def recorded(*arguments):
        readings.extend(shared(*arguments))
        return readings[-len(arguments[1]) :]

    monkeypatch.setattr(_pool, "shared", recorded)
    # Nearly all rows are novel here. With little free space, batches are short and little is shared.
    monkeypatch.setattr(_experts, "LEAST_ROOM", 64)
    model = BudgetClassifier("24MB", random_state=0)
    margins = np.concatenate(
        [
            model.progressive_fit(X[i : i + 200], y[i : i + 200], classes=[-1, 1]).margins
            for i in range(0, 1200, 200)
        ]
    )
    decisions = model.decision_function(X)
    assert sum(reading is not None for reading in readings) > len(readings) // 8
    monkeypatch.setattr(_pool, "shared", lambda X, slabs, births, room: [None] * len(slabs))
    alone = BudgetClassifier("24MB", random_state=0)
    expected = alone.progressive_fit(X, y, classes=[-1, 1]).margins
    atol = 1e-7 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(margins, expected, atol=atol)
    np.testing.assert_allclose(decisions, alone.decision_function(X), atol=atol)
    assert model.experts_ == alone.experts_


def test_two_rows_for_one_round_in_a_file_raise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))  # before the first review, when many experts store the same rows
    state = BudgetClassifier("500kB", random_state=0).fit(X, np.where(X[:, 0] > 0.0, 1, -1)).__getstate__()
    damaged = copy.deepcopy(state)
    experts = damaged["_learners"]["states"][0]["experts"]
    slab = [e for e in experts if e["learner"] is not None][-1]["learner"]["supports"]
    first, second = slab["order"][:2]
    for name in ("rows", "square", "own"):  # swap two rows together with all values stored for them
        slab[name][[first, second]] = slab[name][[second, first]]
    with pytest.raises(ValueError, match="experts should store the same row for a round"):
        BudgetClassifier().__setstate__(damaged)
