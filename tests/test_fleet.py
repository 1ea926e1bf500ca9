"""`Fleet`: every key learns exactly as an estimator of its own, whatever happens to the fleet meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from fleet_identity import LEARNERS, assert_same, check, cuts, play_in_parts, stream
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import budgetron
from budgetron import Forgetron, KernelPerceptron, RandomizedBudgetPerceptron, RemoveOldestPerceptron, linear
from budgetron.fleet import Fleet


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSR"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", LEARNERS)
def test_each_key_learns_as_an_estimator_of_its_own(name, dtype, sparse, tmp_path):
    check(LEARNERS[name], dtype, sparse, keys=200, rows=1500, folder=tmp_path)


@pytest.mark.parametrize("text", [False, True], ids=["integers", "texts"])
def test_keys_come_in_many_forms(text):
    keys, X, y = stream(300, text=text)
    expected = Fleet(Forgetron(5, gamma=0.3)).play(keys, X, y, classes=[0, 1])
    pandas = pytest.importorskip("pandas")
    forms = [keys.tolist(), tuple(keys.tolist()), pandas.Series(keys), keys.astype(object)]
    forms += [keys.astype(str)] if text else [keys.astype(np.int16), keys.astype(np.uint64), keys[::-1][::-1]]
    for form in forms:
        fleet = Fleet(Forgetron(5, gamma=0.3))
        np.testing.assert_array_equal(fleet.play(form, X, y, classes=[0, 1]), expected)
        assert sorted(fleet.keys_.tolist()) == sorted(set(keys.tolist()))
        assert [key in fleet for key in keys[:3].tolist()] == [True] * 3
        assert "nobody" not in fleet
        assert 12345 not in fleet


def test_many_keys_are_found_again():
    """Enough keys that the index grows often, and extreme integers."""
    rng = np.random.default_rng(0)
    keys = np.unique(np.append(rng.integers(-(2**63), 2**63 - 1, 30_000), [0, -1, -(2**63), 2**63 - 1]))
    X, y = rng.normal(size=(len(keys), 2)), rng.integers(2, size=len(keys))
    fleet = Fleet(linear.Perceptron(fit_intercept=False))
    for part in np.array_split(rng.permutation(len(keys)), 7):
        fleet.partial_fit(keys[part], X[part], y[part], classes=[0, 1])
    assert len(fleet) == len(keys)
    order = rng.permutation(len(keys))
    margins = fleet.decision_function(keys[order], X[order])
    np.testing.assert_allclose(margins, (2 * y[order] - 1) * (X[order] ** 2).sum(axis=1))
    names = [f"{key:x}" * (i % 3 + 1) for i, key in enumerate(keys.tolist())]
    fleet = Fleet(linear.Perceptron(fit_intercept=False)).partial_fit(names, X, y, classes=[0, 1])
    np.testing.assert_array_equal(fleet.keys_, np.array(names, object))
    margins = fleet.decision_function([names[i] for i in order], X[order])
    np.testing.assert_allclose(margins, (2 * y[order] - 1) * (X[order] ** 2).sum(axis=1))


def test_idle_keys_are_forgotten():
    learner = Forgetron(5, gamma=0.3)
    keys, X, y = stream(3000, seed=4)
    keys = np.where(np.arange(3000) < 1500, keys, keys % 7)  # others have no rows in the second half
    fleet = Fleet(learner, idle=400)
    margins = [fleet.play(keys[part], X[part], y[part], classes=[0, 1]) for part in cuts(3000)]
    models, last, expected = {}, {}, []
    for i, key in enumerate(keys.tolist()):
        if i - last.get(key, i) > 400:
            del models[key]
        model = models.setdefault(key, clone(learner))
        expected.append(model.play(X[i], y[i], classes=[0, 1]))
        last[key] = i
    np.testing.assert_array_equal(np.concatenate(margins), expected)
    kept = {key for key in models if 3000 - last[key] <= 400}
    assert set(fleet.keys_.tolist()) == kept
    assert set(models) - kept
    assert fleet.expired_ > 0
    for key in kept:
        assert_same(fleet[key], models[key])


def test_text_keys_that_are_forgotten_free_their_memory():
    X, y = np.eye(2), [0, 1]
    fleet = Fleet(linear.Perceptron(), idle=1000)
    for start in range(0, 60_000, 500):
        keys = [f"a key with a rather long name, {start + i}" for i in range(500)]
        fleet.partial_fit(keys, np.tile(X, (250, 1)), y * 250)
    assert len(fleet) <= 1001
    assert fleet.nbytes_ < 700_000
    assert fleet.expired_ > 58_000


@pytest.mark.parametrize("split", [1, 2, 7])
def test_parts_are_the_same_for_every_fleet(split):
    keys, X, y = stream(600)
    first = (
        Fleet(Forgetron(5, gamma=0.3)).partial_fit(keys[:300], X[:300], y[:300], classes=[0, 1]).split(split)
    )
    second = Fleet(linear.AROW()).partial_fit(keys[300:], X[300:], y[300:], classes=[0, 1]).split(split)
    part_of = {key: i for i, part in enumerate(first) for key in part}
    for i, part in enumerate(second):
        assert all(part_of.get(key, i) == i for key in part)


def test_merging_refuses_what_does_not_fit():
    X, y = np.eye(2), [0, 1]

    def fleet(keys, learner=None, rows=X, **parameters):
        return Fleet(learner or Forgetron(3, gamma=1.0), **parameters).partial_fit(keys, rows, y)

    one = fleet([1, 2])
    before = one.to_bytes()
    for other, message in [
        (fleet([2, 3]), "key 2 is in two"),
        (fleet(["a", "b"]), "keys of different kinds"),
        (fleet([3, 4], Forgetron(4, gamma=1.0)), "different parameters"),
        (fleet([3, 4], idle=7), "different parameters"),
        (fleet([3, 4], rows=np.eye(2, 3)), "start alike"),
        (fleet([3, 4], rows=X.astype(np.float32)), "start alike"),
    ]:
        with pytest.raises(ValueError, match=message):
            one.merge(fleet([5, 6]), other)
        assert one.to_bytes() == before
    with pytest.raises(TypeError, match="merge takes fleets"):
        one.merge([1])
    assert sorted(one.merge(Fleet(Forgetron(3, gamma=1.0)), fleet([3, 4]))) == [1, 2, 3, 4]
    assert len(Fleet(Forgetron(3, gamma=1.0)).merge(one)) == 4
    with pytest.raises(ValueError, match="n must be an integer above 0"):
        one.split(0)


def test_merging_makes_no_key_idle():
    """Parts count their own rows, and one may have had many more than another."""
    keys, X, y = stream(600)
    fleet = Fleet(Forgetron(5, gamma=0.3), idle=100).partial_fit(keys, X, y, classes=[0, 1])
    first, second = fleet.split(2)
    busy, quiet = next(iter(first)), sorted(second)
    first.partial_fit([busy] * 300, X[:300], y[:300])
    for one, other in ((first, second), (second, first)):
        merged = Fleet.from_bytes(one.to_bytes()).merge(other)
        assert sorted(merged) == sorted([busy, *quiet])
        assert merged.rows_ == 900
        assert merged.expired_ == first.expired_ + second.expired_
        for key in quiet:
            assert_same(merged[key], second[key])
    last = dict(zip(*(second.stats()[name].tolist() for name in ("key", "last_seen")), strict=True))
    merged = first.merge(second)
    merged.partial_fit([busy] * 60, X[:60], y[:60])
    assert sorted(merged) == sorted([busy, *(key for key in quiet if last[key] + 100 >= 660)])


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (KernelPerceptron(counters=True), "does not support counters of KernelPerceptron"),
        (KernelPerceptron(initial_coefficients=(1.0,)), "does not support initial_coefficients"),
        (Forgetron(3, "greedy"), "variant='self-tuned' only"),
        (RandomizedBudgetPerceptron(3, "modified"), "variant='original' only"),
        (Forgetron(3, kernel=lambda a, b: a @ b.T), "kernels by name only"),
        (Forgetron(70_000), "budget must be at most 65534"),
        (RandomizedBudgetPerceptron(3, random_state=np.random.RandomState(0)), "random_state must be"),
        (Forgetron(0), "budget"),
    ],
)
def test_unsupported_learners_are_refused(learner, message):
    with pytest.raises(ValueError, match=message):
        Fleet(learner).partial_fit([1, 2], np.eye(2), [0, 1])


@pytest.mark.parametrize("learner", [budgetron.Stoptron(), Forgetron, None, linear.Winnow()])
def test_other_learners_are_refused(learner):
    with pytest.raises(TypeError, match="learner must be one of"):
        Fleet(learner).partial_fit([1, 2], np.eye(2), [0, 1])


def test_other_rows_and_classes_are_refused():
    with pytest.raises(ValueError, match="a fleet learns two classes; got 3"):
        Fleet(Forgetron()).partial_fit([1, 2, 3], np.eye(3), [0, 1, 2])
    wide = csr_array(np.eye(3, 2000))
    with pytest.raises(ValueError, match="stores whole rows"):
        Fleet(Forgetron()).partial_fit([1, 2, 3], wide, [0, 1, 1])
    assert len(Fleet(linear.Perceptron()).partial_fit([1, 2, 3], wide, [0, 1, 1])) == 3
    with pytest.raises(ValueError, match="at least two classes"):
        Fleet(Forgetron()).play([1], np.eye(1), [1])
    fleet = Fleet(Forgetron())
    assert not hasattr(fleet, "keys_")
    assert len(fleet) == 0
    with pytest.raises(NotFittedError):
        fleet.predict([1], np.eye(1))


def test_parameters_must_not_change():
    fleet = Fleet(Forgetron(3)).partial_fit([1, 2], np.eye(2), [0, 1])
    for name, value in (("learner__budget", 4), ("idle", 5), ("memory", "1MB"), ("random_state", 2)):
        before = fleet.get_params()[name]
        fleet.set_params(**{name: value})
        with pytest.raises(ValueError, match=f"{name.partition('__')[0]} changed since"):
            fleet.partial_fit([1, 2], np.eye(2), [0, 1])
        fleet.set_params(**{name: before})
    assert fleet.partial_fit([1, 2], np.eye(2), [0, 1]).rows_ == 4


@pytest.mark.parametrize("key", [1.5, None, True, (1, 2), [1], b"a", np.array([1])])
def test_one_key_must_be_an_integer_or_a_text(key):
    keys, X, y = stream(100)
    fleet = Fleet(Forgetron(5, gamma=0.3)).partial_fit(keys, X, y)
    for use in (fleet.__getitem__, fleet.__contains__, fleet.certificate):
        with pytest.raises(TypeError, match="a key must be an integer or a text; got "):
            use(key)
    with pytest.raises(ValueError, match=r"from -\(2 \*\* 63\) to 2 \*\* 63 - 1"):
        fleet[2**63]


def test_masked_keys_are_refused():
    fleet = Fleet(Forgetron(5, gamma=0.3)).partial_fit([1, 2], np.eye(2), [0, 1])
    before = fleet.to_bytes()
    with pytest.raises(ValueError, match="keys must not be missing; that of row 1 is masked"):
        fleet.partial_fit(np.ma.array([1, 2], mask=[False, True]), np.eye(2), [0, 1])
    assert fleet.to_bytes() == before
    fleet.partial_fit(np.ma.array([1, 2], mask=False), np.eye(2), [0, 1])
    assert fleet.rows_ == 4


def test_a_text_key_has_a_largest_length():
    _, X, y = stream(2)
    fleet = Fleet(Forgetron(5, gamma=0.3))
    with pytest.raises(ValueError, match="at most 65,536 bytes; that of row 1 has 65,538"):
        fleet.play(["a", "ä" * 32_769], X, y, classes=[0, 1])
    fleet.play(["a", "ä" * 32_768], X, y, classes=[0, 1])
    assert fleet["ä" * 32_768].rounds_ == 1


def test_a_fleet_before_its_first_row():
    fleet = Fleet(Forgetron(5, gamma=0.3))
    assert list(fleet) == []
    assert len(fleet) == 0
    assert 1 not in fleet
    assert not hasattr(fleet, "keys_")
    for use in (fleet.stats, lambda: fleet[1], lambda: fleet.certificate(1)):
        with pytest.raises(NotFittedError, match="call play or partial_fit first"):
            use()


def test_an_overflow_changes_nothing():
    """Rows that are valid but so extreme that a step overflows in the middle of the batch."""
    extreme = linear.PassiveAggressive(variant="PA", fit_intercept=False)
    for learner in (extreme, Forgetron(3, kernel="poly", degree=9, gamma=1.0)):
        fleet = Fleet(learner).partial_fit([1, 2], np.eye(2), [0, 1])
        before = fleet.to_bytes()
        X = np.array([[0.5, 0.5], [1e-160, 0.0], [1e50, 1e50], [1.0, 1.0]])
        with pytest.raises(ValueError, match="finite"):
            fleet.partial_fit([1, 3, 3, 2], X, [0, 1, 0, 1])
        assert fleet.to_bytes() == before
        assert 3 not in fleet


def test_exact_bytes():
    keys, X, y = np.arange(20_000), np.zeros((20_000, 10), np.float32), np.zeros(20_000, int)
    fleet = Fleet(Forgetron(20, gamma=0.1))
    for i in range(20):
        X[:] = np.random.default_rng(i).normal(size=X.shape)
        y = (fleet.decision_function(keys, X) <= 0).astype(int) if i else y
        fleet.partial_fit(keys, X, y, classes=[0, 1])
    assert fleet.stats()["supports"].min() == 20
    assert fleet.nbytes_ <= 1536 * 20_000
    table = fleet.stats()
    assert 0.9 * fleet.nbytes_ < table["bytes"].sum() <= fleet.nbytes_


def test_bytes_of_text_keys():
    keys, X, y = stream(2000, keys=200, text=True)
    names = np.array([f"{key} with a long name" for key in keys], object)
    table = Fleet(linear.Perceptron()).partial_fit(names, X, y, classes=[0, 1]).stats()
    codes = np.unique(names, return_inverse=True)[1]
    plain = Fleet(linear.Perceptron()).partial_fit(codes, X, y, classes=[0, 1]).stats()
    extra = table["bytes"] - plain["bytes"]
    assert extra.tolist() == [len(key.encode()) + 4 for key in table["key"]]


def test_the_random_numbers_are_those_of_numpy():
    """The fleet has a generator of its own, which must go on as NumPy's does."""
    learner = RandomizedBudgetPerceptron(3, gamma=0.3, random_state=5)
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(4000, 2)), rng.integers(2, size=4000)
    fleet, model = Fleet(learner), clone(learner)
    fleet.partial_fit(np.zeros(4000, int), X, y, classes=[0, 1])
    for x, label in zip(X, y, strict=True):
        model.play(x, label, classes=[0, 1])
    assert_same(fleet[0], model)
    assert model.mistakes_ > 1500


def literal_sum(budget, common_budget, keys, X, y, gamma):
    """Return the margins of Remove-Oldest Perceptrons, one per key and one for all, with plain lists."""
    supports = {"common": []}

    def value(name, x):
        return sum(
            sign * np.exp(-gamma * np.sum((x - row) ** 2)) for row, sign in supports.setdefault(name, [])
        )

    def add(name, x, sign, most):
        supports[name] = [*supports[name], (x, sign)][-most:]

    margins = []
    for key, x, sign in zip(keys.tolist(), X, 2 * y - 1, strict=True):
        common = value("common", x)
        margins.append(value(key, x) + common / np.sqrt(max(len(supports["common"]), 1)))
        if sign * common <= 0:
            add("common", x, sign, common_budget)
        if sign * margins[-1] <= 0:
            add(key, x, sign, budget)
    return np.array(margins), supports


@pytest.mark.parametrize("memory", [None, "1MB"])
def test_a_common_learner_is_added_to_each_key(memory, tmp_path):
    keys, X, y = stream(1500, seed=6)
    learner, common = RemoveOldestPerceptron(4, gamma=0.3), RemoveOldestPerceptron(30, gamma=0.3)
    expected, supports = literal_sum(4, 30, keys, X, y, 0.3)
    fleet, margins = play_in_parts(Fleet(learner, common=common, memory=memory), keys, X, y, tmp_path)
    np.testing.assert_allclose(margins, expected, atol=1e-9)
    np.testing.assert_array_equal(fleet.common_.support_vectors_, [row for row, _ in supports.pop("common")])
    for key, kept in supports.items():
        np.testing.assert_array_equal(
            fleet[key].support_vectors_, [row for row, _ in kept] or np.zeros((0, 6))
        )
    alone = Fleet(learner, common=common, memory=memory)
    np.testing.assert_array_equal(alone.play(keys, X, y, classes=[0, 1]), margins)
    size = fleet.common_.n_support_
    unknown = fleet.decision_function([999], X[:1])
    np.testing.assert_allclose(unknown, fleet.common_.decision_function(X[:1]) / np.sqrt(size))
    assert unknown != 0.0


def test_a_common_learner_is_restored_after_an_error():
    fleet = Fleet(Forgetron(3, gamma=1.0), common=Forgetron(9, kernel="poly", degree=9, gamma=1.0))
    fleet.partial_fit([1, 2], np.eye(2), [0, 1])
    before = fleet.to_bytes()
    with pytest.raises(ValueError, match="finite"):
        fleet.partial_fit([1, 2, 3], [[0.5, 0.5], [1e50, 0.0], [1e50, 1e50]], [0, 1, 0])
    assert fleet.to_bytes() == before
    with pytest.raises(ValueError, match="no guarantee"):
        fleet.certificate(1)
    with pytest.raises(AttributeError, match="no common learner"):
        Fleet(Forgetron(3)).partial_fit([1, 2], np.eye(2), [0, 1]).common_  # noqa: B018


@pytest.mark.parametrize("common", [KernelPerceptron(), linear.AROW()])
def test_a_common_learner_needs_a_budget(common):
    with pytest.raises(ValueError, match="common must be a kernel learner with a budget"):
        Fleet(Forgetron(3), common=common).partial_fit([1, 2], np.eye(2), [0, 1])
