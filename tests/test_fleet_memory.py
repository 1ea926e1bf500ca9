"""Fleets with one memory for all keys: compared with a literal reference, and the guarantee of every key."""

from __future__ import annotations

import numpy as np
import pytest
from reference.fleet import SharedMemory

import budgetron
from budgetron import Forgetron, RandomizedBudgetPerceptron, RemoveOldestPerceptron, bounds, linear
from budgetron._base.sizes import MemoryTooSmallError
from budgetron._certify.competitors import expansion_of
from budgetron.fleet import Fleet

GAMMA, D = 0.3, 4


def stream(n=3000, keys=60, seed=0, dtype=np.float64, even=False):
    rng = np.random.default_rng(seed)
    chosen = rng.integers(keys, size=n) if even else np.minimum(rng.zipf(1.2, n) - 1, keys - 1)
    X = rng.normal(size=(n, D)).astype(dtype)
    w = rng.normal(size=(keys, D))
    y = (np.einsum("ij,ij->i", X, w[chosen]) > 0) ^ (rng.random(n) < 0.1)
    return chosen, X, y.astype(int)


def small_memory(learner, keys, X, y, supports):
    """Return bytes that allow about this many supports besides the keys, and the states of such a fleet."""
    memory = 1 << 20
    for _ in range(10):  # the pages are smaller in a smaller memory
        states = (
            Fleet(learner, memory=memory).partial_fit(keys[:2], X[:2], y[:2], classes=[0, 1])._store.states
        )
        memory = int(
            states.bytes_of_keys(len(np.unique(keys)), 0) + supports * states.support_bytes * 64 / 63
        )
    return memory, states


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("budget", "even", "supports"), [(4, False, 60), (12, False, 60), (12, True, 120)])
def test_the_shared_memory_is_that_of_the_reference(budget, even, supports, seed):
    keys, X, y = stream(1200, seed=seed, even=even)
    memory, states = small_memory(Forgetron(budget, gamma=GAMMA), keys, X, y, supports)
    fleet = Fleet(Forgetron(budget, gamma=GAMMA), memory=memory, random_state=seed)
    each = states.bytes_of_keys(1, 0) - states.bytes_of_keys(0, 0)
    fixed = None

    def limit(n):
        return max(0, memory - fixed - n * each) // 64 * 63

    def block_bytes(m):
        return states.store.cost(m - 1)

    def kernel(a, b):
        return np.exp(-GAMMA * np.sum((a - b) ** 2))

    reference = SharedMemory(kernel, budget, limit, block_bytes, seed)
    for i in range(len(y)):
        margin = fleet.play(keys[[i]], X[[i]], y[[i]], classes=[0, 1])[0]
        if fixed is None:
            fixed = fleet._store.states.bytes_of_keys(0, 0)
        assert margin == pytest.approx(reference.play(keys[i], X[i], 2 * y[i] - 1), abs=1e-9), i
    assert reference.evicted == fleet.evicted_ > 50
    table = fleet.stats()
    for i, key in enumerate(table["key"].tolist()):
        expected = reference.keys[key]
        assert table["supports"][i] == len(expected.supports)
        assert table["mistakes"][i] == expected.mistakes
        assert table["damage"][i] == pytest.approx(expected.damage, abs=1e-9)
        assert table["shrinking"][i] == pytest.approx(expected.shrinking, abs=1e-9)
        model = fleet[key]
        np.testing.assert_allclose(model.dual_coef_[0], [c for _, _, c in expected.supports], rtol=1e-7)


def test_even_traffic_leaves_pairs_of_supports():
    """With room for two supports per key, nearly every key has two, as with equal shares."""
    keys, X, y = stream(30_000, keys=300, even=True)
    memory, _ = small_memory(Forgetron(40, gamma=GAMMA), keys, X, y, 600)
    fleet = Fleet(Forgetron(40, gamma=GAMMA), memory=memory).partial_fit(keys, X, y, classes=[0, 1])
    assert fleet.evicted_ > 5000
    assert np.mean(fleet.stats()["supports"] < 2) < 0.1


def test_every_key_keeps_its_guarantee():
    keys, X, y = stream(60_000, keys=500, seed=5)
    memory, _ = small_memory(Forgetron(40, gamma=GAMMA), keys, X, y, 1500)
    fleet = Fleet(Forgetron(40, gamma=GAMMA), memory=memory)
    fleet.partial_fit(keys, X, y, classes=[0, 1])
    assert fleet.evicted_ > 5000
    table = fleet.stats()
    assert len(table["key"]) == 500
    assert np.all(table["damage"] <= 15 / 32 * table["mistakes"] + 1e-4)
    rng = np.random.default_rng(0)
    checks = 0
    for key in table["key"].tolist():
        certificate = fleet.certificate(key)
        own_X, own_y = X[keys == key], 2 * y[keys == key] - 1
        assert certificate.rows == len(own_y)
        kernel = fleet[key]._competitor_kernel()
        for scale in (0.0, 0.3, 1.0, 3.0):  # competitors: 0, and sums over rows of the key
            some = rng.choice(len(own_y), min(len(own_y), 30), replace=False)
            g = expansion_of((own_X[some], scale * own_y[some] / np.sqrt(len(some))), kernel, D)
            losses = np.maximum(0.0, 1.0 - own_y * g.values(own_X)).sum()
            assert certificate.mistakes <= certificate.bound(g.norm(), losses)
            checks += 1
    assert checks == 2000


def test_the_bound_is_that_of_the_perceptron_without_removals():
    assert bounds.removals_at_any_time(3.0, 10.0, 0.0, 0.0) == bounds.perceptron(3.0, 10.0)
    assert bounds.removals_at_any_time(3.0, 10.0, 2.0, 0.5) == 9.0 * 1.5 + 20.0 + 2.0
    with pytest.raises(bounds.AssumptionError):
        bounds.removals_at_any_time(3.0, 10.0, 2.0, 0.5, radius=2.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "learner",
    [
        Forgetron(8, gamma=GAMMA),
        RemoveOldestPerceptron(8, gamma=GAMMA),
        RandomizedBudgetPerceptron(8, gamma=GAMMA, random_state=0),
        Forgetron(80, kernel="poly", gamma=0.1),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_the_result_does_not_depend_on_cuts_or_files(learner, dtype, tmp_path):
    keys, X, y = stream(6000, seed=3, dtype=dtype)
    memory, _ = small_memory(learner, keys, X, y, 120)
    whole = Fleet(learner, memory=memory, idle=2000)
    margins = whole.play(keys, X, y, classes=[0, 1])
    cut, found = Fleet(learner, memory=memory, idle=2000), []
    for part in np.array_split(np.arange(len(y)), [1, 17, 1000, 3500]):
        found.append(cut.play(keys[part], X[part], y[part], classes=[0, 1]))
        assert cut.nbytes_ <= memory
        budgetron.save(cut, tmp_path / "fleet")
        cut = budgetron.load(tmp_path / "fleet")
    np.testing.assert_array_equal(np.concatenate(found), margins)
    assert cut.evicted_ == whole.evicted_ > 100
    assert sorted(cut.keys_.tolist()) == sorted(whole.keys_.tolist())


def test_a_saved_fleet_with_a_common_learner_goes_on_with_the_same_memory():
    keys, X, y = stream(1500, seed=3, even=True)
    settings = {"common": RemoveOldestPerceptron(20, gamma=GAMMA), "memory": 80_000}
    whole = Fleet(Forgetron(100, gamma=GAMMA), **settings)
    saved, margins = Fleet(Forgetron(100, gamma=GAMMA), **settings), whole.play(keys, X, y, classes=[0, 1])
    for part in np.array_split(np.arange(len(y)), 5):
        found = saved.play(keys[part], X[part], y[part], classes=[0, 1])
        np.testing.assert_array_equal(found, margins[part])
        assert saved.nbytes_ <= 80_000
        saved = Fleet.from_bytes(saved.to_bytes())
    assert saved.evicted_ == whole.evicted_ > 50


def changing_keys(traffic, n=6000, seed=0):
    """Return keys that have rows for a while only, so that most of them become idle; and rows and labels."""
    rng, time = np.random.default_rng(seed), np.arange(n)
    keys = {
        "passing": lambda: time // 25 + rng.integers(0, 80, n),
        "returning": lambda: (time // 1500 % 2) * 150 + rng.integers(0, 150, n),
        "crowd, then few": lambda: np.where(time < n // 3, rng.integers(0, 250, n), rng.integers(0, 5, n)),
    }[traffic]()
    return keys, rng.normal(size=(n, D)), rng.integers(0, 2, n)


@pytest.mark.parametrize("memory", [82_000, 92_000])
@pytest.mark.parametrize("text", [False, True], ids=["integers", "texts"])
@pytest.mark.parametrize("traffic", ["passing", "returning", "crowd, then few"])
def test_idle_keys_leave_no_memory_behind_in_batches_of_any_size(traffic, text, memory):
    keys, X, y = changing_keys(traffic)
    if text:
        keys, memory = np.array([f"key {key}" for key in keys], object), memory + 20_000
    margins, summaries = [], []
    for rows in (len(y), 2500, 400, 37, 1):
        fleet, found = Fleet(Forgetron(12, gamma=GAMMA), memory=memory, idle=700), []
        for start in range(0, len(y), rows):
            part = slice(start, start + rows)
            found.append(fleet.play(keys[part], X[part], y[part], classes=[0, 1]))
            assert fleet.nbytes_ <= memory, (rows, start)
        margins.append(np.concatenate(found))
        summaries.append((sorted(fleet.keys_.tolist()), fleet.evicted_, fleet.expired_))
    for other in margins[1:]:
        np.testing.assert_array_equal(other, margins[0])
    assert all(other == summaries[0] for other in summaries[1:])
    assert fleet.evicted_ > 100
    assert fleet.expired_ > 100


def test_looking_at_a_fleet_or_saving_it_changes_no_result():
    keys, X, y = changing_keys("passing")
    settings = {"memory": 96_000, "idle": 700}
    whole = Fleet(Forgetron(12, gamma=GAMMA), **settings)
    margins = whole.play(keys, X, y, classes=[0, 1])
    watched, found = Fleet(Forgetron(12, gamma=GAMMA), **settings), []
    for start in range(0, len(y), 150):
        part = slice(start, start + 150)
        found.append(watched.play(keys[part], X[part], y[part], classes=[0, 1]))
        recent = np.unique(keys[max(0, start + 150 - 700) : start + 150])
        np.testing.assert_array_equal(np.sort(watched.keys_), recent)
        assert len(watched) == len(recent) == len(watched.stats()["key"])
        assert sum(map(len, watched.split(3))) == len(recent)
        watched = Fleet.from_bytes(watched.to_bytes())
        assert watched.nbytes_ <= 96_000
    np.testing.assert_array_equal(np.concatenate(found), margins)
    assert whole.evicted_ == watched.evicted_ > 100
    assert whole.expired_ == watched.expired_ > 100


def test_keys_that_became_idle_make_room_for_new_ones():
    X, y = np.zeros((250, D)), np.arange(250) % 2
    fleet = Fleet(Forgetron(4, gamma=GAMMA), memory="48kB", idle=240)
    for first in range(0, 1000, 250):  # no room for 500 keys, and the first scan is due after 1024 rows
        fleet.partial_fit(np.arange(first, first + 250), X, y)
        assert fleet.nbytes_ <= 48 * 1024
        fleet.partial_fit(np.full(250, first), X, y)
        assert fleet.keys_.tolist() == [first]
    before = fleet.to_bytes()
    with pytest.raises(MemoryTooSmallError):
        fleet.partial_fit(np.arange(5000, 7000), np.zeros((2000, D)), np.arange(2000) % 2)
    assert fleet.to_bytes() == before
    assert fleet.nbytes_ <= 48 * 1024


def test_text_keys_count_in_the_memory():
    keys, X, y = stream(4000, seed=2)
    names = np.array([f"{'long name ' * 10}{key}" for key in keys], object)
    memory, _ = small_memory(Forgetron(8, gamma=GAMMA), keys, X, y, 200)
    memory += 60 * 150
    fleet = Fleet(Forgetron(8, gamma=GAMMA), memory=memory).partial_fit(names, X, y, classes=[0, 1])
    assert fleet.nbytes_ <= memory
    assert fleet.evicted_ > 0


def test_enough_memory_changes_nothing():
    keys, X, y = stream(3000)
    limited = Fleet(Forgetron(8, gamma=GAMMA), memory="64MB")
    plain = Fleet(Forgetron(8, gamma=GAMMA))
    np.testing.assert_array_equal(
        limited.play(keys, X, y, classes=[0, 1]), plain.play(keys, X, y, classes=[0, 1])
    )
    assert limited.evicted_ == plain.evicted_ == 0


def test_more_keys_than_the_memory_holds_are_refused():
    keys, X, y = np.arange(3000), np.zeros((3000, D)), np.arange(3000) % 2
    fleet = Fleet(Forgetron(4, gamma=GAMMA), memory="64kB")
    fleet.partial_fit(keys[:100], X[:100], y[:100])
    before = fleet.to_bytes()
    with pytest.raises(MemoryTooSmallError, match=r"3,000 keys take .* memory is 64 kB"):
        fleet.partial_fit(keys, X, y)
    assert fleet.to_bytes() == before
    assert fleet.nbytes_ <= 64 * 1024
    fleet.partial_fit(keys[:200], X[:200], y[:200])
    assert len(fleet) == 200


def test_memory_that_is_too_small_for_one_key_is_refused():
    with pytest.raises(MemoryTooSmallError, match="memory must be at least"):
        Fleet(Forgetron(50, gamma=GAMMA), memory=2000).partial_fit([1, 2], np.zeros((2, D)), [0, 1])


@pytest.mark.parametrize("learner", [budgetron.KernelPerceptron(), linear.AROW()])
def test_memory_needs_a_budget(learner):
    with pytest.raises(ValueError, match="kernel learners with a budget"):
        Fleet(learner, memory="1MB").partial_fit([1, 2], np.zeros((2, D)), [0, 1])


@pytest.mark.parametrize("learner", [RemoveOldestPerceptron(4), linear.AROW()])
def test_learners_that_do_not_shrink_have_no_certificate(learner):
    fleet = Fleet(learner).partial_fit([1, 2], np.eye(2), [0, 1])
    name = type(learner).__name__
    with pytest.raises(ValueError, match=f"are for fleets of Forgetron.* the learner is {name}"):
        fleet.certificate(1)


def test_a_key_without_rows_has_no_certificate():
    with pytest.raises(KeyError):
        Fleet(Forgetron(4)).partial_fit([1, 2], np.eye(2), [0, 1]).certificate(3)
