"""BudgetClassifier: its rounds, memory limit, regret bound, and handling of invalid input."""

import copy
import itertools
import pickle
import re
import signal

import numpy as np
import pytest
import skops.io
from reference.portfolio import Combination as RefCombination
from reference.portfolio import FirstOrder
from reference.portfolio import Portfolio as Reference
from scipy.sparse import csr_array, random_array
from sklearn.datasets import load_digits

import budgetron
import budgetron.river
from budgetron import BudgetClassifier, SecondOrderProjectron, linear
from budgetron._base.access import hypotheses_of
from budgetron._util.units import parse_bytes
from budgetron.portfolio import Plan, _experts, _pool


def noisy(n, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.5, 20.0, d) + 3.0
    y = np.where((X[:, 0] - 3.0) * (X[:, 1] - 3.0) + 0.3 * rng.normal(size=n) > 0.0, 1, -1)
    return X, y


def easy(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1)


def fit_in_batches(model, X, y, cuts, classes=(-1, 1)):
    for start, stop in zip([0, *cuts], [*cuts, len(y)], strict=True):
        model.partial_fit(X[start:stop], y[start:stop], classes=list(classes))
    return model


@pytest.mark.parametrize("outputs", [1, 3])
def test_equals_reference(outputs):
    """Compare round by round until the first review, including the start of the kernel experts."""
    X, y = noisy(250)
    codes = (y > 0).astype(int) + (X[:, 2] > 4.0) * (outputs > 1)
    model = BudgetClassifier("8MB", random_state=0)
    margins = model.progressive_fit(X, codes).margins.reshape(250, outputs)
    pool = hypotheses_of(model)[0].pool
    # The experts that started, with their widths, are taken from the model. Budgets of second-order experts
    # are never reached before the first review.
    places = [i for i, e in enumerate(pool.experts) if e.learner is not None]
    kinds = {i: pool.experts[i].design.kind for i in places}
    assert sorted(kinds.values()) == ["kernel"] * 8 + ["linear"] * 3 + ["recent"] * 2

    def fresh(pool, linear):
        experts = [pool.experts[i] for i in places if (kinds[i] == "linear") == linear]
        budgets = [300 if expert.design.kind == "kernel" else expert.budget for expert in experts]
        learners = [e.new_learner(pool.row, outputs, n) for e, n in zip(experts, budgets, strict=True)]
        return [(a, e.design.standardised, e.score_factor) for a, e in zip(learners, experts, strict=True)]

    early = BudgetClassifier("8MB", random_state=0)
    early.partial_fit(X[:16], codes[:16], classes=model.classes_)
    reference = Reference(
        FirstOrder(_experts.FIRST_ORDER, 7, outputs),
        fresh(pool, linear=True),
        {16: fresh(hypotheses_of(early)[0].pool, linear=False), 64: fresh(pool, linear=False)},
        places,
        len(pool.experts),
        outputs,
        RefCombination(len(pool.experts), outputs, (1.0, 0.9999), 0.1, 3e-4),
    )
    expected = [reference.play(x, code) for x, code in zip(X, codes, strict=True)]
    np.testing.assert_allclose(margins, expected, atol=1e-7)
    combination = hypotheses_of(model)[0].combination
    np.testing.assert_allclose(combination.shares, reference.combination.shares, atol=1e-9)


def test_experts_that_end_transfer_their_weight():
    X, y = noisy(256)
    model = BudgetClassifier("1MB", random_state=0).fit(X[:255], y[:255])
    portfolio = hypotheses_of(model)[0]
    before = portfolio.combination.weights.copy()
    model.partial_fit(X[255:], y[255:])
    kernels = [i for i, e in enumerate(portfolio.pool.experts) if e.design.kind == "kernel" and e.rounds]
    ended = [i for i in kernels if portfolio.pool.experts[i].ended]
    assert len(ended) >= 3
    assert np.abs(before[0, 0, ended]).min() > 0.0
    assert not portfolio.combination.weights[:, :, ended].any()


def test_reviews_end_experts_and_let_the_others_grow():
    X, y = noisy(2100)
    model = BudgetClassifier("1MB", random_state=0)
    left = {255: 8, 256: 5, 512: 3, 1024: 2, 2048: 1}
    start = 0
    for stop, most in left.items():
        model.partial_fit(X[start:stop], y[start:stop], classes=[-1, 1])
        pool = hypotheses_of(model)[0].pool
        active = [e for e in pool.experts if e.design.kind == "kernel" and e.learner is not None]
        on_trial = {young for young, _, _ in pool.trials}
        active = [e for e in active if pool.experts.index(e) not in on_trial]
        assert 1 <= len(active) <= most
        assert pool.nbytes <= pool.reserved_bytes <= 1 << 20
        start = stop
    # With more memory, there is room for new experts besides the best one.
    pool = hypotheses_of(BudgetClassifier("4MB", random_state=0).fit(X, y))[0].pool
    assert sum(e.design.kind == "scaled" and e.learner is not None for e in pool.experts) >= 1


@pytest.mark.parametrize("memory", ["150kB", "1MB", "5MB"])
@pytest.mark.parametrize("d", [1, 8, 300])
def test_memory_is_a_limit(d, memory):
    X, y = noisy(1200, d) if d > 1 else (noisy(1200, 2)[0][:, :1], noisy(1200, 2)[1])
    model = BudgetClassifier(memory, random_state=0)
    largest = reserved = 0
    for start in range(0, 1200, 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50], classes=[-1, 1])
        largest, reserved = (
            max(largest, model.nbytes_),
            max(reserved, hypotheses_of(model)[0].pool.reserved_bytes),
        )
    limit = {"150kB": 150 << 10, "1MB": 1 << 20, "5MB": 5 << 20}[memory]
    assert max(largest, reserved) <= limit
    if d == 8 and memory != "150kB":
        assert reserved > 0.9 * limit  # nearly all memory is assigned to experts


def test_any_cut_gives_the_same_model():
    X, y = noisy(700)
    whole = BudgetClassifier("500kB", random_state=0).fit(X, y)
    parts = fit_in_batches(
        BudgetClassifier("500kB", random_state=0), X, y, [1, 10, 63, 64, 65, 300, 499, 500, 501]
    )
    played = BudgetClassifier("500kB", random_state=0)
    for x, label in zip(X, y, strict=True):
        played.play(x, label, classes=[-1, 1])
    for other in (parts, played):
        np.testing.assert_allclose(other.decision_function(X), whole.decision_function(X), atol=1e-7)
        assert (other.mistakes_, other.nbytes_) == (whole.mistakes_, whole.nbytes_)
        np.testing.assert_allclose(other.predict_proba(X), whole.predict_proba(X), atol=1e-6)


def test_support_sizes_are_those_after_each_round():
    X, y = noisy(600)
    one, many = (BudgetClassifier("1MB", random_state=0) for _ in range(2))
    sizes = one.progressive_fit(X, y).support_sizes
    cuts = [0, 1, 2, 15, 16, 60, 64, 65, 300, 301, 600]
    parts = [many.progressive_fit(X[a:b], y[a:b], classes=[-1, 1]) for a, b in itertools.pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate([part.support_sizes for part in parts]), sizes)
    assert not sizes[:15].any()
    assert sizes[15] > 0
    assert sizes[-1] == hypotheses_of(one)[0].n_supports
    supports = hypotheses_of(BudgetClassifier("1MB", random_state=0).fit(X[:400], y[:400]))[0].n_supports
    assert sizes[399] == supports


def test_significantly_worse_experts_end():
    X, y = noisy(300)
    pool = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0].pool
    active = [i for i, e in enumerate(pool.experts) if e.design.kind == "kernel" and e.learner is not None]
    assert len(active) >= 3
    pool.seen, pool.only_first_wrong[:] = 512, 0
    for rank, i in enumerate(active):
        pool.experts[i].recent_mistakes = 10 + 20 * rank
    best, tied, worse = active[:3]
    pool.only_first_wrong[tied, best], pool.only_first_wrong[best, tied] = 30, 13  # 17 < 3 sqrt(43)
    pool.only_first_wrong[worse, best], pool.only_first_wrong[best, worse] = 30, 8  # 22 > 3 sqrt(38)
    changes = pool._end_weak()
    assert (worse, best) in changes
    assert pool.experts[best].learner is not None
    assert pool.experts[tied].learner is not None
    still = [i for i in active[1:] if pool.experts[i].learner is not None]
    pool.seen = 4096  # from the fourth review on, one stays
    assert pool._end_weak() == [(i, best) for i in still]


def test_the_best_expert_of_each_loss_stays_at_first():
    X, y = noisy(300)
    pool = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0].pool
    active = [e for e in pool.experts if e.design.kind == "kernel" and e.learner is not None]
    assert len(active) >= 4
    pool.seen, pool.only_first_wrong[:] = 1024, 0  # two stay
    for rank, expert in enumerate(active):
        expert.recent_mistakes, expert.loss = 10 + 20 * rank, "logistic" if rank < 2 else "hinge"
    pool._end_weak()
    assert [expert.learner is not None for expert in active[:4]] == [True, False, True, False]


def test_a_significantly_worse_expert_takes_no_place():
    X, y = noisy(300)
    pool = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0].pool
    active = pool._second_order("kernel")
    assert len(active) >= 4
    pool.seen, pool.only_first_wrong[:] = 1024, 0  # two stay
    for rank, expert in enumerate(active):
        expert.recent_mistakes, expert.loss = 10 + 20 * rank, "hinge" if rank == 1 else "logistic"
    best, worse = (pool.experts.index(expert) for expert in active[:2])
    pool.only_first_wrong[worse, best] = 30
    pool._end_weak()
    assert [expert.learner is not None for expert in active[:4]] == [True, False, True, False]


def test_a_trial_against_an_expert_that_has_ended_compares_with_the_best():
    X, y = noisy(1100)
    pool = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0].pool
    best = pool.experts.index(pool._best())
    new, previous = [
        i for i, e in enumerate(pool.experts) if e.design.second_order and e.learner and i != best
    ][:2]
    pool.experts[previous].end()
    pool.only_first_wrong[best, new] = 9
    for a, changes in ((12, []), (30, [(new, best)])):  # 3 < sqrt(21), and 21 > sqrt(39)
        pool.only_first_wrong[new, best] = a
        assert pool._end_trial(new, previous) == changes


def test_the_loss_with_fewer_mistakes_in_common_rounds_is_chosen():
    X, y = noisy(300)
    pool = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0].pool
    first, second, third = pool._second_order("kernel")[:3]
    places = [pool.experts.index(expert) for expert in (first, second, third)]
    pool.only_first_wrong[:] = 0
    pool.only_first_wrong[places[0], places[1]] = 5
    pool.only_first_wrong[places[2], places[1]] = 1
    first.mistakes = second.mistakes = third.mistakes = 0  # mistakes of other rounds do not matter
    second.mistakes = second.rounds
    assert pool._fewest_errors([first, second, third]) is second


def test_a_trial_ends_the_worse_expert():
    X = np.random.default_rng(0).normal(size=(1100, 10))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1)
    pool = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0].pool
    kinds = [expert.design.kind for expert in pool.experts]
    new, previous, until = next(t for t in pool.trials if kinds[t[0]] == kinds[t[1]] == "scaled")
    assert until == 1024 + 512
    pool.watched, pool.experts[previous].allowed = previous, 600
    hinge, logistic = "hinge", "logistic"
    cases = [
        (12, 9, hinge, previous),  # 3 > sqrt(21) / 2 > 1
        (10, 9, hinge, new),
        (9, 12, hinge, new),
        (12, 9, logistic, new),  # with another loss: 3 < sqrt(21) < 6
        (15, 9, logistic, previous),
    ]
    for a, b, loss, winner in cases:
        other = copy.deepcopy(pool)
        other.experts[new].loss, other.experts[previous].loss = loss, hinge
        other.only_first_wrong[new, previous], other.only_first_wrong[previous, new] = a, b
        other._end_trial(new, previous)
        assert other.watched == winner
        assert [other.experts[i].learner is not None for i in (new, previous)] == [
            winner == new,
            winner == previous,
        ]
        assert other.experts[winner].allowed == 600  # a new expert gets the memory of the old one
        assert other.reserved_bytes <= other.memory


def test_a_trial_between_kinds_ends_only_a_new_expert_that_is_clearly_worse():
    X, y = noisy(1100)
    pool = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0].pool
    active = {e.design.kind: i for i, e in enumerate(pool.experts) if e.learner is not None}
    new, previous = active["kernel"], active["scaled"]
    for a, b, ended in ((20, 9, [new]), (12, 9, []), (9, 20, [])):  # 11 > sqrt(29), and 3 < sqrt(21)
        other = copy.deepcopy(pool)
        other.only_first_wrong[new, previous], other.only_first_wrong[previous, new] = a, b
        assert [place for place, _ in other._end_trial(new, previous)] == ended
        assert [i for i in (new, previous) if other.experts[i].learner is None] == ended


def test_experts_of_all_kinds_are_compared_later():
    X, y = noisy(1100)
    pool = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0].pool
    kinds = {e.design.kind: i for i, e in enumerate(pool.experts) if e.learner is not None}
    kernel, scaled = kinds["kernel"], kinds["scaled"]
    for i, expert in enumerate(pool.experts):
        if expert.design.second_order and i not in (kernel, scaled):
            expert.end()
    pool.trials, pool.only_first_wrong[:] = [], 0
    pool.experts[kernel].recent_mistakes, pool.experts[scaled].recent_mistakes = 40, 20
    pool.experts[scaled].rounds = 1100
    for seen, a, ended in ((2048, 40, []), (4096, 30, []), (4096, 40, [(kernel, scaled)])):
        other = copy.deepcopy(pool)
        other.seen = seen
        other.only_first_wrong[kernel, scaled], other.only_first_wrong[scaled, kernel] = a, 13
        for expert in other.experts:
            expert.rounds = max(expert.rounds, seen)
        assert other._end_weak() == ended


def test_a_former_best_expert_that_is_probably_worse_shrinks():
    X, y = noisy(1100)
    pool = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0].pool
    pool.seen, pool.trials, pool.only_first_wrong[:] = 1024, [], 0
    first, second = (pool.experts.index(expert) for expert in pool._second_order()[:2])
    pool.experts[first].allowed = 500
    pool.experts[second].recent_mistakes = -1  # now the best one
    for a, shrinks in ((10, False), (40, True)):
        other = copy.deepcopy(pool)
        other.only_first_wrong[first, second], other.only_first_wrong[second, first] = a, 10
        other._grow()
        assert (other.experts[first].allowed <= 350) == shrinks


def test_scales_are_learned_again_after_a_change():
    """Labels first depend on the first two of ten features, then on the last two."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 10))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1)
    y[3000:] = np.where(X[3000:, 8] * X[3000:, 9] > 0.0, 1, -1)
    model = BudgetClassifier("4MB", random_state=0).partial_fit(X[:3000], y[:3000], classes=[-1, 1])
    importances = model.feature_importances_
    assert importances.sum() == pytest.approx(1.0)
    assert importances[:2].sum() > 0.8
    errors = model.progressive_fit(X[3000:], y[3000:]).mistakes
    assert model.feature_importances_[8:].sum() > 0.8
    assert errors[1500:].mean() < 0.15


def test_rows_from_before_a_change_are_not_used():
    X, y = noisy(2200)
    pool = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0].pool
    assert pool.alarm_at == -1
    assert pool._rows_since_change() == len(pool.window) == 2048
    pool.alarm_at = 2200 - 1200
    assert pool._rows_since_change() == 1200 + 64  # the change came in the chunk before the alarm
    for passed, after in ((1024, True), (1088, False)):
        pool.alarm_at = pool.seen - passed
        assert pool._is_after_change() == after


def test_a_new_expert_may_have_as_many_supports_as_its_rivals():
    """The one that it may replace has learned scales, too; the best one may have none."""
    X = np.random.default_rng(0).normal(size=(2000, 10))
    y = np.where(X[:, 0] * X[:, 1] * X[:, 2] > 0.0, 1, -1)
    pool = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0].pool
    stays = next(i for i, e in enumerate(pool.experts) if e.design.kind == "scaled" and e.learner is not None)
    pool.trials = []
    assert pool.experts[stays].allowed > 350
    for changed, most in ((False, pool.experts[stays].allowed), (True, 350)):
        other = copy.deepcopy(pool)
        place = other._start_scaled(1024, changed=changed)[-1][0]
        assert other.experts[place].allowed == most
    for expert in pool._second_order("scaled"):
        expert.end()
    assert pool._best().design.kind == "kernel"
    for allowed, most in ((350, 350), (600, 600)):
        other = copy.deepcopy(pool)
        other._best().allowed = allowed
        place = other._start_scaled(1024)[-1][0]
        assert other.experts[place].allowed == most


def test_weights_of_classes_and_rows():
    X, y = noisy(600)
    heavy = BudgetClassifier("1MB", random_state=0, class_weight={1: 20.0}).fit(X, y)
    plain = BudgetClassifier("1MB", random_state=0).fit(X, y)
    assert (heavy.predict(X) == 1).mean() > (plain.predict(X) == 1).mean()
    by_row = BudgetClassifier("1MB", random_state=0).fit(X, y, sample_weight=np.where(y > 0, 20.0, 1.0))
    np.testing.assert_array_equal(by_row.decision_function(X), heavy.decision_function(X))
    played = BudgetClassifier("1MB", random_state=0, class_weight={1: 20.0})
    for x, label in zip(X, y, strict=True):
        played.play(x, label, classes=[-1, 1])
    np.testing.assert_allclose(played.decision_function(X), heavy.decision_function(X), atol=1e-6)


def test_shrink_reduces_the_reserved_memory():
    X, y = noisy(300)
    portfolio = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0]
    memory = (portfolio.nbytes + portfolio.pool.reserved_bytes) // 2
    assert portfolio.nbytes < memory < portfolio.pool.reserved_bytes
    active = [expert.design.name for expert in portfolio.pool.experts if expert.learner is not None]
    portfolio.shrink(memory)
    assert portfolio.pool.reserved_bytes <= memory
    assert [expert.design.name for expert in portfolio.pool.experts if expert.learner is not None] == active


@pytest.mark.parametrize("stop", [30, 300, 700])
@pytest.mark.parametrize("kind", ["dense", "float32", "three classes", "wide"])
def test_copies_continue_exactly(kind, stop, tmp_path):
    X, y = noisy(1100)
    classes = [-1, 1]
    if kind == "float32":
        X = X.astype(np.float32)
    elif kind == "three classes":
        y, classes = np.where(X[:, 2] > 4.0, 2, y), [-1, 1, 2]
    elif kind == "wide":
        X = csr_array(
            random_array((1100, 1500), density=0.01, random_state=np.random.default_rng(0), format="csr")
        )
    model = BudgetClassifier("600kB", random_state=0).partial_fit(X[:stop], y[:stop], classes=classes)
    budgetron.save(model, tmp_path / "model")
    data = skops.io.dumps(model)
    copies = [
        budgetron.load(tmp_path / "model"),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data)),
    ]
    margins = model.progressive_fit(X[stop:], y[stop:]).margins
    for other in copies:
        assert other.nbytes_ <= 600 << 10
        np.testing.assert_array_equal(other.progressive_fit(X[stop:], y[stop:]).margins, margins)
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
        assert other.nbytes_ == model.nbytes_


def test_inconsistent_states_are_refused():
    X, y = noisy(200)
    model = BudgetClassifier("500kB", random_state=0).fit(X, y)
    state = model.__getstate__()
    for path, value, message in [
        (("memory",), 1000, "memory must be at least"),
        (("seen",), -1, "seen should be an integer"),
        (("reservoir",), np.zeros((3, 6)), "the reservoir should be"),
        (("scaler", "mean"), np.full(6, np.nan), "means and spreads should be finite"),
        (("experts", 7, "ended"), True, "an expert is unexpected"),
        (("experts", 7, "budget"), 10**6, "an expert should have room for the supports"),
        (("experts", 7, "budget"), 55, "a slab of .* slots does not fit"),
        (("experts", 7, "loss"), "squared", "the loss of an expert should be known"),
        (("experts", 7, "scales"), np.ones(6), "scales of the features"),
        (("window_labels",), np.full(499, 0.5), "labels of rows should be classes"),
        (("trials",), np.zeros((1, 3), np.int64), "trials should be of experts"),
        (("chunks",), np.array([[1e9, 0.0]]), "chunks should be counts"),
        (("combination", "losses"), np.full(22, 1e9), "losses should be those of rounds"),
        (("combination", "shares"), np.full(21, 1.0), "shares should sum to 1"),
        (("combination", "sigma"), np.full((44, 22), 5.0), "covariances of combiners"),
    ]:
        damaged = copy.deepcopy(state)
        node = damaged["_learners"]["states"][0]
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
        with pytest.raises(ValueError, match=message):
            BudgetClassifier().__setstate__(damaged)


def test_budgets_grow_with_the_supports():
    X, y = easy(1200)
    model = BudgetClassifier("4MB", random_state=0).partial_fit(X[:64], y[:64], classes=[-1, 1])
    portfolio = hypotheses_of(model)[0]
    start = largest = model.nbytes_
    assert start < 2 << 20 < portfolio.pool.reserved_bytes <= 4 << 20
    for row in range(64, 1200, 8):
        model.partial_fit(X[row : row + 8], y[row : row + 8])
        for expert in (e for e in portfolio.pool.experts if e.design.second_order and e.learner is not None):
            assert expert.n_supports < expert.budget or expert.n_supports == expert.allowed
            # Only a little room is allocated in advance, even if more is allowed.
            assert expert.budget <= max(
                _experts.FIRST_ROOM, 1.25 * (expert.n_supports + _experts.LEAST_ROOM) + 64
            )
        assert model.nbytes_ <= portfolio.pool.reserved_bytes <= 4 << 20
        largest = max(largest, model.nbytes_)
    assert largest > start
    state = model.__getstate__()
    growing = [
        e
        for e in state["_learners"]["states"][0]["experts"]
        if e["learner"] is not None and e["allowed"] > e["budget"]
    ]
    assert growing
    before, growing[0]["allowed"] = growing[0]["allowed"], 2000
    with pytest.raises(ValueError, match="a portfolio should keep within its memory"):
        BudgetClassifier().__setstate__(copy.deepcopy(state))
    growing[0]["allowed"] = before
    BudgetClassifier().__setstate__(state)


def test_regret_is_within_the_bound():
    for seed in range(3):
        X, y = noisy(900, seed=seed)
        model = BudgetClassifier("500kB", random_state=0).fit(X, y)
        assert model.regret_ <= model.regret_bound_
        # The regret equals the difference of the counted losses.
        losses = hypotheses_of(model)[0].combination.losses
        assert losses[-1] - losses[:-1].min() == model.regret_
        assert model.regret_bound_ < 50.0


def test_fewer_mistakes_than_every_expert_when_the_best_expert_changes():
    """Labels first depend on the row, which kernels learn; then on the label before, which no expert sees."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1)
    y[2000:] = np.where(rng.random(2000) < 0.03, -1, 1).cumprod()
    model = BudgetClassifier("1MB", random_state=0)
    mistakes = model.progressive_fit(X, y).mistakes.sum()
    losses = hypotheses_of(model)[0].combination.losses[2:-1]
    assert mistakes < losses.min()
    assert mistakes < 0.8 * SecondOrderProjectron(100).progressive_fit(X, y).mistakes.sum()
    assert mistakes < 0.8 * linear.PassiveAggressive().progressive_fit(X, y).mistakes.sum()


def test_the_parts_of_the_plan_have_an_effect():
    X, y = easy(1500)

    def error(**parts):
        class Without(BudgetClassifier):
            _plan = Plan(**parts)

        return Without("500kB", random_state=0).progressive_fit(X, y).mistakes.mean()

    assert error() < 0.7 * error(second_order=False)
    names = {e["name"] for e in BudgetClassifier("1MB").fit(X, y).experts_}

    class Steady(BudgetClassifier):
        _plan = Plan(recency=False, reassigns_memory=False)

    steady = Steady("1MB", random_state=0).fit(X, y)
    assert {e["name"] for e in steady.experts_} < names
    assert sum(e["active"] and "width" in e["name"] for e in steady.experts_) == 8

    class Plain(BudgetClassifier):
        _plan = Plan(relevance=False, forgetting=False, sharing=False, restarts=False)

    plain = Plain("1MB", random_state=0).fit(X, y)
    assert {e["name"] for e in plain.experts_} < names
    portfolio = hypotheses_of(plain)[0]
    assert (portfolio.combination.alpha, portfolio.combination.n_combiners) == (0.0, 1)
    assert not len(portfolio.pool.window)
    assert plain.regret_ <= plain.regret_bound_


def test_summary_of_the_experts():
    X, y = noisy(900)
    model = BudgetClassifier("1MB", random_state=0).fit(X, np.where(y > 0, "yes", "no"))
    summary = model.experts_
    assert summary[0]["name"] == "combiner"
    assert sum(e["share"] for e in summary) == pytest.approx(1.0)
    assert sum(e["bytes"] for e in summary) <= model.nbytes_
    assert sum(e["supports"] for e in summary) == model.progressive_fit(X[:1], ["yes"]).support_sizes[-1]
    assert all(0.0 <= e["error"] <= 1.0 for e in summary if e["active"])
    plain = {str, float, int, bool}
    assert {type(value) for e in summary for value in e.values()} == plain


@pytest.mark.parametrize("wrap", [np.asarray, csr_array])
def test_errors_name_the_feature_that_is_not_finite(wrap):
    X, y = easy(100)
    model = BudgetClassifier("1MB", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="x must be finite; feature 2 is inf"):
        model.play(wrap(np.array([[0.0, 1.0, np.inf]])), 1)
    assert model.rounds_ == 100


def test_dense_and_sparse_rows_give_the_same_model():
    X, y = load_digits(return_X_y=True)
    X = X[:700]
    dense, sparse = (
        BudgetClassifier("1MB", random_state=0).fit(rows, y[:700] % 2) for rows in (X, csr_array(X))
    )
    np.testing.assert_array_equal(dense.predict(X), sparse.predict(csr_array(X)))
    assert dense.mistakes_ == sparse.mistakes_


def test_wide_rows_get_only_linear_experts():
    rng = np.random.default_rng(0)
    X = csr_array(random_array((600, 20000), density=0.002, random_state=rng, format="csr"))
    y = np.where(X[:, :10000].sum(axis=1) > X[:, 10000:].sum(axis=1), 1, -1)
    model = BudgetClassifier("2MB").fit(X, y)
    assert model.nbytes_ <= 2 << 20
    assert all(e["supports"] == 0 for e in model.experts_)
    assert len(model.experts_) == 9
    assert model.mistakes_ < 300
    with pytest.raises(ValueError, match=r"memory must be at least 1,\d+,\d+ bytes.*hash the features"):
        BudgetClassifier("1MB").fit(X, y)


def test_probabilities():
    X, y = easy(3000)
    model = BudgetClassifier("1MB", random_state=0).fit(X[:2000], y[:2000])
    p = model.predict_proba(X[2000:])[:, 1]
    np.testing.assert_array_equal(p > 0.5, model.predict(X[2000:]) == 1)
    assert abs(p.mean() - (y[2000:] == 1).mean()) < 0.05
    sure = p > 0.9
    assert sure.sum() > 100
    assert (y[2000:][sure] == 1).mean() > 0.85
    many, digits = load_digits(return_X_y=True)
    model = BudgetClassifier("8MB", random_state=0).fit(many[:500], digits[:500])
    P = model.predict_proba(many[500:700])
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(P.argmax(axis=1), model.predict(many[500:700]))


def test_classes_added_during_the_stream():
    X, y = noisy(900)
    three = np.where(X[:, 3] > X[:, 3].mean() + 5.0, 2, y)
    model = BudgetClassifier("1MB", random_state=0).partial_fit(X[:400], y[:400], classes=[-1, 1])
    model.partial_fit(X[400:], three[400:], admit=True)
    assert model.classes_.tolist() == [-1, 1, 2]
    assert model.nbytes_ <= 1 << 20
    assert (model.predict(X[400:]) == three[400:]).mean() > 0.7


@pytest.mark.parametrize("memory", [1 << 20, "1MB", "1 MB", "1024kB", "1048576", "1MiB"])
def test_memory_in_different_units(memory):
    X, y = noisy(80)
    model = BudgetClassifier(memory, random_state=0).fit(X, y)
    assert hypotheses_of(model)[0].memory == (1 << 20) - model.sigmoids_.nbytes


def test_invalid_rows_change_nothing():
    X, y = noisy(150)
    model = BudgetClassifier("500kB", random_state=0).fit(X, y)
    before = model.decision_function(X)
    huge = np.full((4, X.shape[1]), 1e200)
    for attempt in (lambda: model.partial_fit(huge, y[:4]), lambda: model.play(huge[0], 1)):
        with pytest.raises(ValueError, match=r"finite|overflow|scale"):
            attempt()
        np.testing.assert_array_equal(model.decision_function(X), before)
    for x in ([np.nan] * 6, [1.0] * 5):
        with pytest.raises(ValueError, match="x must be"):
            model.play(x, 1)
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_certificate_of_the_regret_bound():
    X, y = easy(800)
    model = BudgetClassifier("500kB", random_state=0)
    trace = model.progressive_fit(X, y)
    certificate = budgetron.certify(model, X, y, trace)
    assert certificate.holds
    assert certificate.count == hypotheses_of(model)[0].combination.losses[-1]
    assert certificate.bound == certificate.losses + model.regret_bound_
    assert "the best expert, " in str(certificate)
    assert 2.0 * certificate.count >= model.mistakes_  # in a mistake, at least half of the votes are wrong
    with pytest.raises(ValueError, match='competitor must be "best"'):
        budgetron.certify(model, X, y, trace, competitor=np.ones(3))


def test_the_number_of_new_features_is_limited():
    model = budgetron.river.BudgetClassifier("1MB", max_features=3000)
    model.learn_one({"a": 1.0}, "yes")
    model.learn_one({f"f{i}": 1.0 for i in range(900)}, "no")
    before = model.nbytes_, model.predict_proba_one({"a": 1.0, "f3": 2.0}), model.to_parts()["model"].rounds_
    assert before[0] <= 1 << 20
    with pytest.raises(ValueError, match=r"up to 1,000, and there would be 1,101; hash the features"):
        model.learn_one({f"g{i}": 1.0 for i in range(200)}, "no")
    assert (
        model.nbytes_,
        model.predict_proba_one({"a": 1.0, "f3": 2.0}),
        model.to_parts()["model"].rounds_,
    ) == before
    model.learn_one({"a": 2.0}, "yes")
    wide = budgetron.river.BudgetClassifier("1MB", max_features=3000)
    wide.learn_one({f"f{i}": 1.0 for i in range(1500)}, "no")
    with pytest.raises(ValueError, match="hash the features"):
        wide.learn_one({"new": 1.0}, "yes")


@pytest.mark.parametrize("outputs", [1, 5])
@pytest.mark.parametrize("d", [1, 7, 123, 400])
def test_the_largest_budget_that_fits(d, outputs):
    """The estimated memory use of an expert is at least the actual one, and not much more."""
    for kind in ("kernel", "recent"):
        expert = _experts.Expert(_experts.Design("", kind, False))
        full = 1500 if kind == "kernel" else _experts.MOST_RECENT_SUPPORTS
        for dtype in (np.float32, np.float64):
            row = np.zeros(d, dtype)
            for share in (100_000, 900_000, 5_000_000):
                budget = expert.largest(row, outputs, share, 1, full)
                if budget:
                    assert expert.new_learner(row, outputs, budget).nbytes <= share
                if budget < full:
                    assert expert.new_learner(row, outputs, budget + 90).nbytes > share


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_padding_of_slabs_is_included_in_the_estimate(dtype):
    """Some slabs are padded, so that their rows do not share cache sets."""
    row = np.zeros(300, dtype)
    expert = _experts.Expert(_experts.Design("", "kernel", False), linear=False)
    for budget in (64, 240, 495, 496, 505, 511, 1007, 1008, 1015, 1022, 1023):
        assert expert.new_learner(row, 1, budget).nbytes <= expert.bytes_at(row, 1, budget)


def test_one_feature_with_a_large_scale():
    X, y = noisy(700, 4)
    X[:, 3] = 1.6e9 + np.arange(700)  # a timestamp
    model = BudgetClassifier("500kB", random_state=0)
    trace = model.progressive_fit(X, y)
    assert np.isfinite(trace.margins).all()
    assert trace.mistakes[300:].mean() < 0.3
    for x, label in zip(X[:50], y, strict=False):
        assert np.isfinite(model.play(x, label))


@pytest.mark.parametrize("scale", [1e-22, 1e-10, 1e10])
def test_scaling_a_feature_changes_little(scale):
    X, y = easy(1200)
    plain = BudgetClassifier("1MB", random_state=0).progressive_fit(X.astype(np.float32), y)
    X[:, 0] *= scale
    scaled = BudgetClassifier("1MB", random_state=0).progressive_fit(X.astype(np.float32), y)
    assert scaled.mistakes.mean() < plain.mistakes.mean() + 0.05


def test_one_outlier_does_not_determine_the_widths():
    X, y = easy(1200)
    plain = BudgetClassifier("1MB", random_state=0).progressive_fit(X, y).mistakes.mean()
    X[10] = 1e9
    assert BudgetClassifier("1MB", random_state=0).progressive_fit(X, y).mistakes.mean() < plain + 0.05


def test_values_whose_square_overflows_are_refused():
    X, y = easy(200)
    model = BudgetClassifier("300kB", random_state=0).fit(X, y)
    before = model.decision_function(X)
    far = X[:2].copy()
    far[1, 0] = 1e155
    for learn in (lambda: model.partial_fit(far, y[:2]), lambda: model.play(far[1], y[1])):
        with pytest.raises(ValueError, match="features must be below"):
            learn()
    np.testing.assert_array_equal(model.decision_function(X), before)
    assert copy.deepcopy(model).rounds_ == 200


def test_a_third_class_keeps_what_was_learned_about_two():
    X, y = easy(4000)
    model = BudgetClassifier("4MB", random_state=0).partial_fit(X[:3000], y[:3000], classes=[-1, 1])
    before = (model.predict(X[3000:]) != y[3000:]).mean()
    margins = model.decision_function(X[3000:])
    supports = [e["supports"] for e in model.experts_]
    model.partial_fit(X[:1], [5], admit=True)
    assert model.nbytes_ <= 4 << 20
    # Only one row of the new class was seen. The margins of the first two classes keep their signs.
    assert (model.predict(X[3000:]) != y[3000:]).mean() < before + 0.15
    scores = model.decision_function(X[3000:])
    assert np.mean((scores[:, 1] > scores[:, 0]) == (margins > 0.0)) > 0.95
    after = [e["supports"] for e in model.experts_]
    assert all(b <= a <= b + 1 for a, b in zip(after, supports, strict=True))
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert model.regret_ <= model.regret_bound_


def test_a_truncated_hypothesis_keeps_its_first_coordinates():
    X, y = noisy(300)
    large = SecondOrderProjectron(80, gamma=0.3).fit(X, y)
    hypothesis = hypotheses_of(large)[0]
    truncated = copy.deepcopy(hypothesis)
    truncated.truncate(30)
    L = hypothesis.rule.projection.rows()[:30, :30]
    S = hypothesis.supports.rows(np.arange(30))
    K = np.exp(-0.3 * ((X[:, None] - S) ** 2).sum(axis=2))
    phi = np.hstack([np.ones((len(X), 1)), np.sqrt(0.3) * X, np.linalg.solve(L, K.T).T])
    np.testing.assert_allclose(
        truncated.decide(X), phi @ hypothesis.rule.gaussian.means[0, : phi.shape[1]], atol=1e-9
    )
    assert truncated.n_supports == 30
    assert truncated.nbytes < hypothesis.nbytes / 2
    truncated.learn(X, y.astype(float))
    assert truncated.rounds == 600
    assert np.isfinite(truncated.decide(X)).all()


def test_a_class_that_does_not_fit_into_memory_changes_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 5)), rng.choice([0, 1], 600)
    model = BudgetClassifier("30kB", random_state=0).partial_fit(X, y, classes=[0, 1])
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="memory must be at least"):
        model.partial_fit(X, np.r_[y[:300], np.arange(2, 302)], admit=True)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_new_features_keep_within_memory():
    model = budgetron.river.BudgetClassifier(memory="150kB", seed=0)
    rng = np.random.default_rng(0)
    for i in range(100):
        model.learn_one({"a": rng.normal(), "b": rng.normal()}, i % 2)
    model.learn_one({f"f{j}": 1.0 for j in range(300)}, 1)
    assert model.nbytes_ <= 150 << 10


def test_predict_ignores_recent_labels():
    """Successive equal labels help to predict the next row of the stream, but not other rows."""
    rng = np.random.default_rng(0)
    y = np.tile(np.repeat([-1, 1], 50), 20)
    X = np.column_stack([y * 1.0, np.zeros(2000)]) + rng.normal(size=(2000, 2))
    model = BudgetClassifier("500kB", random_state=0)
    assert model.progressive_fit(X, y).mistakes[500:].mean() < 0.05
    assert (model.predict(X) != y).mean() < 0.25  # the Bayes error of a row alone is 0.16
    x = X[:1].astype(float)
    assert hypotheses_of(model)[0].decide(x)[0] != hypotheses_of(model)[0].open_round(x)


@pytest.mark.parametrize(
    ("memory", "size"),
    [("16 mb", 16 << 20), ("64KB", 64 << 10), ("1.5GiB", 3 << 29), (np.int64(5000), 5000), ("16", 16)],
)
def test_parse_bytes(memory, size):
    assert parse_bytes(memory) == size


@pytest.mark.parametrize("memory", ["16 apples", "", "0", 0, -5, "-1MB", True, "1TB", "MB", 1.5])
def test_invalid_memory(memory):
    with pytest.raises(ValueError, match="memory"):
        BudgetClassifier(memory).fit(*easy(20))


def test_kernel_experts_in_little_memory():
    X, y = easy(2000)
    model = BudgetClassifier("50kB", random_state=0)
    assert model.progressive_fit(X, y).mistakes.mean() < 0.25
    assert model.nbytes_ <= 50 << 10
    assert any(e["supports"] for e in model.experts_)


def test_averages_are_refused():
    with pytest.raises(ValueError, match="no average"):
        budgetron.batch.AveragedClassifier(BudgetClassifier()).fit(*easy(50))


def test_the_river_adapter_provides_the_summary_of_the_experts():
    model = budgetron.river.BudgetClassifier("300kB", seed=0)
    X, y = easy(150)
    for row, label in zip(X, np.where(y > 0, "yes", "no").tolist(), strict=True):
        model.learn_one(dict(enumerate(row)), label)
    assert len(model.experts_) == 21
    assert sum(model.feature_importances_.values()) == pytest.approx(1.0)
    assert model.regret_ <= model.regret_bound_
    assert "gamma" not in type(model).__doc__
    assert not hasattr(budgetron.river.Forgetron(), "experts_")
    assert "gamma" in budgetron.river.Forgetron.__doc__


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_median_distance_of_rows_far_from_the_origin(offset):
    X = np.round(np.random.default_rng(0).normal(size=(40, 3)) * 100.0)
    distances = [((a - b) ** 2).sum() for i, a in enumerate(X) for b in X[i + 1 :]]
    assert _pool.median_distance(X + offset) == np.median(distances)
    assert _pool.median_distance(np.vstack([X, X]) + offset) == np.median(
        [
            d
            for d in (((a - b) ** 2).sum() for i, a in enumerate([*X, *X]) for b in [*X, *X][i + 1 :])
            if d > 0
        ]
    )
    assert _pool.median_distance(np.ones((5, 3))) == 3.0


@pytest.mark.usefixtures("interrupts")
def test_ctrl_c_is_deferred_until_all_experts_finished_the_round(monkeypatch):
    X, labels = load_digits(return_X_y=True)
    y = labels % 3
    interrupted, original = [], _experts.Expert.learn

    def learn(expert, *arguments):
        original(expert, *arguments)
        # Other experts have not learned the rows yet.
        if not interrupted and expert.rounds > 500:
            interrupted.append(expert.design.name)
            signal.raise_signal(signal.SIGINT)

    model = BudgetClassifier(memory="3MB", random_state=0).partial_fit(X[:256], y[:256], classes=range(3))
    with monkeypatch.context() as patch:
        patch.setattr(_experts.Expert, "learn", learn)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[256:], y[256:])
    assert interrupted == ["AROW"]
    assert {hypothesis.rounds for hypothesis in hypotheses_of(model)} == {768}
    whole = BudgetClassifier(memory="3MB", random_state=0).partial_fit(X[:768], y[:768], classes=range(3))
    np.testing.assert_array_equal(model.decision_function(X), whole.decision_function(X))
    np.testing.assert_array_equal(model.predict_proba(X), whole.predict_proba(X))
    assert model.mistakes_ == whole.mistakes_ > 0


def test_blocks_advance_when_an_expert_has_no_room(monkeypatch):
    X, y = easy(200)
    model = BudgetClassifier(random_state=0).fit(X, y)
    monkeypatch.setattr(_experts.Expert, "room", 0)
    assert list(itertools.islice(hypotheses_of(model)[0].pool.block_ends(10), 11)) == list(range(1, 11))


@pytest.mark.parametrize("classes", [2, 5])
def test_the_memory_named_in_the_error_is_sufficient(classes):
    X = np.random.default_rng(0).normal(size=(30, 120))
    y = np.arange(30) % classes
    with pytest.raises(ValueError, match=rf"for {classes} classes and rows of 120 features; it is 1,000"):
        BudgetClassifier(memory=1000).fit(X, y)
    with pytest.raises(ValueError, match="hash the features") as raised:
        BudgetClassifier(memory=1000).fit(X, y)
    required = int(re.search(r"at least ([0-9,]+) bytes", str(raised.value))[1].replace(",", ""))
    assert BudgetClassifier(memory=required).fit(X, y).nbytes_ <= required
    with pytest.raises(ValueError, match=f"at least {required:,} bytes"):
        BudgetClassifier(memory=required - 1).fit(X, y)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_rows_that_are_not_numbers_are_refused_by_play(form):
    X, y = noisy(80)
    model = BudgetClassifier("300kB", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="x must hold numbers; got an array of dtype complex128"):
        model.play(form(X[:1] + 1j), y[0])
    assert model.rounds_ == 80


def test_widths_of_experts_that_start_late_follow_the_scale():
    X, y = easy(2200)
    X[900:] *= 100.0
    first = BudgetClassifier("4MB", random_state=0).fit(X[:900], y[:900])
    later = BudgetClassifier("4MB", random_state=0).fit(X, y)
    before, after = (hypotheses_of(model)[0].pool for model in (first, later))
    assert after.medians[0] > 100.0 * before.medians[0]
    late = [e for e in after.experts if e.learner is not None and e.late and e.rounds == 2200 - 2048]
    assert late
    assert all(e.gamma == e.design.width / after.medians[int(e.design.standardised)] for e in late)
    other = BudgetClassifier("4MB", random_state=1).fit(X, y)
    assert not np.array_equal(hypotheses_of(other)[0].pool.medians, after.medians)


def test_a_very_large_weight_keeps_the_vote_finite():
    X, y = easy(300)
    model = BudgetClassifier("1MB", random_state=0)
    model.partial_fit(X[:10], y[:10], classes=[-1, 1], sample_weight=np.r_[1e8, np.ones(9)])
    heavy = BudgetClassifier("1MB", random_state=0, class_weight={1: 1e300}).fit(X, y)
    for one in (model, heavy):
        assert np.isfinite(hypotheses_of(one)[0].combination.shares).all()
        assert np.isfinite(one.decision_function(X)).all()


def test_rows_of_weight_zero_are_not_learned():
    X, y = easy(1200)
    weights = np.tile([1.0, 0.0], 600)
    kept, changed = (BudgetClassifier("1MB", random_state=0) for _ in range(2))
    kept.fit(X, y, sample_weight=weights)
    changed.fit(X, np.where(weights > 0.0, y, -y), sample_weight=weights)
    # The labels decide which products are computed together, and so the last digits.
    np.testing.assert_allclose(kept.decision_function(X), changed.decision_function(X), rtol=1e-9)


@pytest.mark.parametrize("memory", range(1_100_000, 1_103_000, 344))
def test_copies_fit_into_the_memory(memory):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1100, 17))
    y = (np.sin(2.0 * X[:, :4]) @ rng.normal(size=(4, 2))).argmax(axis=1)
    model = BudgetClassifier(memory, random_state=0).fit(X, y)
    pool = hypotheses_of(model)[0].pool
    assert pool.reserved_bytes <= pool.memory
    pickle.loads(pickle.dumps(model))
