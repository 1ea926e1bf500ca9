"""The learner that needs no choice: its rounds, its memory, its guarantee, and its manners."""

import copy
import itertools
import pickle
import re
import signal

import numpy as np
import pytest
import skops.io
from reference.portfolio import Portfolio as Reference
from scipy.sparse import csr_array, random_array
from sklearn.datasets import load_digits

import budgetron
import budgetron.river
from budgetron import BudgetClassifier, SecondOrderProjectron, linear
from budgetron._base.access import hypotheses_of
from budgetron._util.units import parse_bytes
from budgetron.portfolio import Plan, _combiner, _experts, _pool, _sizes


def noisy(n, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.5, 20.0, d) + 3.0
    y = np.where((X[:, 0] - 3.0) * (X[:, 1] - 3.0) + 0.3 * rng.normal(size=n) > 0.0, 1, -1)
    return X, y


def easy(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1)


def batches(model, X, y, cuts, classes=(-1, 1)):
    for start, stop in zip([0, *cuts], [*cuts, len(y)], strict=True):
        model.partial_fit(X[start:stop], y[start:stop], classes=list(classes))
    return model


def test_equals_reference(monkeypatch):
    """Round by round, through the beginning of the kernel experts and the first move of memory."""
    monkeypatch.setattr(_pool, "STAGE", 120)
    X, y = noisy(200)
    model = BudgetClassifier("8MB", random_state=0)
    margins = model.progressive_fit(X, y).margins
    portfolio = hypotheses_of(model)[0]
    # Who began, with which width and budget at first: told by the model itself.
    begun = hypotheses_of(BudgetClassifier("8MB", random_state=0).fit(X[:119], y[:119]))[0].pool.experts
    # They grow before they are full: for the reference, as large as they will ever be.
    first = [
        (type(e.model)(**e.model.get_params() | ({"budget": 300} if e.second_order else {})), e.standardised)
        for e in begun
        if e.has_kernel and not e.ended
    ]
    assert len(first) == 10
    reference = Reference(
        [(type(e.model)(**e.model.get_params()), e.standardised) for e in begun if not e.has_kernel],
        first,
        _combiner.RATES,
        64,
        120,
    )
    told = [reference.play(x, label) for x, label in zip(X, y, strict=True)]
    shares, combined = map(np.array, zip(*told, strict=True))
    np.testing.assert_allclose(_combiner.vote_margins(shares, combined), margins, atol=1e-8)
    assert [not e.ended for e in portfolio.pool.experts if e.has_kernel] == reference.here
    weakest = sorted(e.mistakes for e in portfolio.pool.experts if e.second_order and not e.ended)
    assert len(weakest) == 4


def test_who_ends_leaves_its_weight_to_the_best():
    X, y = noisy(251)
    model = BudgetClassifier("1MB", random_state=0).fit(X[:249], y[:249])
    portfolio = hypotheses_of(model)[0]
    before = portfolio.combiner.rule.weights.copy()
    for pair in portfolio.pool.reassign_memory():
        portfolio.combiner.transfer_weight(*pair)
    after = portfolio.combiner.rule.weights
    kept = [i for i, e in enumerate(portfolio.pool.experts) if e.second_order and not e.ended]
    ended = [i for i, e in enumerate(portfolio.pool.experts) if e.ended]
    assert len(ended) == 4
    assert np.abs(before[ended]).min() > 0.0
    assert not after[ended].any()
    changed = np.flatnonzero(after != before)
    (heir,) = set(changed.tolist()) - set(ended)
    assert heir in kept
    assert after[heir] == pytest.approx(before[heir] + before[ended].sum())
    assert portfolio.combiner.rule.norm2 == pytest.approx(after @ after)


def test_the_best_are_kept(monkeypatch):
    monkeypatch.setattr(_pool, "STAGE", 200)
    monkeypatch.setattr(_pool, "LAST", 1600)
    X, y = noisy(1700)
    model = BudgetClassifier("1MB", random_state=0).fit(X[:199], y[:199])
    portfolio = hypotheses_of(model)[0]
    for stage, left in ((200, 4), (400, 2), (800, 2), (1600, 1)):
        if portfolio.rounds < stage - 1:
            model.partial_fit(X[portfolio.rounds : stage - 1], y[portfolio.rounds : stage - 1])
        before = {
            e.name: e.recent_mistakes
            for e in portfolio.pool.experts
            if e.second_order and e.learner is not None
        }
        sizes = {e.name: e.allowed for e in portfolio.pool.experts if e.has_kernel}
        model.partial_fit(X[stage - 1 : stage], y[stage - 1 : stage])
        after = [e for e in portfolio.pool.experts if e.second_order and e.learner is not None]
        assert len(after) == left
        gone = [late for name, late in before.items() if name not in {e.name for e in after}]
        kept = [late for name, late in before.items() if name in {e.name for e in after}]
        least = min(before.values())
        as_good = least + 1 + (least + 1) ** 0.5  # the round at hand counts too
        assert max(kept) <= max(min(gone, default=stage) + 1, as_good)
        if gone:
            assert all(e.allowed > sizes[e.name] for e in after)
        assert model.nbytes_ <= 1 << 20


@pytest.mark.parametrize("memory", ["150kB", "1MB", "5MB"])
@pytest.mark.parametrize("d", [1, 8, 300])
def test_memory_is_a_limit(d, memory):
    X, y = noisy(1200, d) if d > 1 else (noisy(1200, 2)[0][:, :1], noisy(1200, 2)[1])
    model = BudgetClassifier(memory, random_state=0)
    most = promised = 0
    for start in range(0, 1200, 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50], classes=[-1, 1])
        most, promised = max(most, model.nbytes_), max(promised, hypotheses_of(model)[0].pool.promised)
    limit = {"150kB": 150 << 10, "1MB": 1 << 20, "5MB": 5 << 20}[memory]
    assert max(most, promised) <= limit
    if d == 8 and memory != "150kB":
        assert promised > 0.9 * limit  # and it is given away


def test_any_cut_is_the_loop():
    X, y = noisy(700)
    whole = BudgetClassifier("500kB", random_state=0).fit(X, y)
    parts = batches(BudgetClassifier("500kB", random_state=0), X, y, [1, 10, 63, 64, 65, 300, 499, 500, 501])
    played = BudgetClassifier("500kB", random_state=0)
    for x, label in zip(X, y, strict=True):
        played.play(x, label, classes=[-1, 1])
    for other in (parts, played):
        np.testing.assert_allclose(other.decision_function(X), whole.decision_function(X), atol=1e-7)
        assert (other.mistakes_, other.nbytes_) == (whole.mistakes_, whole.nbytes_)
        np.testing.assert_allclose(other.predict_proba(X), whole.predict_proba(X), atol=1e-6)


def test_sizes_are_those_after_each_round():
    X, y = noisy(600)
    one, many = (BudgetClassifier("1MB", random_state=0) for _ in range(2))
    sizes = one.progressive_fit(X, y).support_sizes
    cuts = [0, 1, 2, 60, 64, 65, 300, 301, 600]
    parts = [many.progressive_fit(X[a:b], y[a:b], classes=[-1, 1]) for a, b in itertools.pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate([part.support_sizes for part in parts]), sizes)
    assert not sizes[:63].any()
    assert sizes[63] > 0
    assert sizes[-1] == hypotheses_of(one)[0].n_supports
    supports = hypotheses_of(BudgetClassifier("1MB", random_state=0).fit(X[:400], y[:400]))[0].n_supports
    assert sizes[399] == supports


def test_who_stays_is_decided_by_the_mistakes_of_late():
    X, y = noisy(260)
    portfolio = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0]
    here = [expert for expert in portfolio.pool.experts if expert.second_order and expert.learner is not None]
    assert len(here) == 4
    assert all(expert.allowed <= 500 for expert in here)  # no more than rounds until memory moves again
    for expert, late in zip(here, (9, 30, 8, 31), strict=True):
        expert.recent_mistakes, expert.mistakes = late, 1000 - late
    portfolio.seen = 500
    places = [portfolio.pool.experts.index(expert) for expert in here]
    before = portfolio.combiner.rule.weights[places]
    for pair in portfolio.pool.reassign_memory():
        portfolio.combiner.transfer_weight(*pair)
    assert [expert.ended for expert in here] == [False, True, False, True]
    # The first of those as good as the best is believed as those were that ended
    after = [before[0] + before[1] + before[3], 0.0, before[2], 0.0]
    np.testing.assert_allclose(portfolio.combiner.rule.weights[places], after, rtol=1e-12)
    assert not any(expert.recent_mistakes for expert in portfolio.pool.experts)


def test_less_memory_is_less_that_is_promised():
    X, y = noisy(300)
    portfolio = hypotheses_of(BudgetClassifier("16MB", random_state=0).fit(X, y))[0]
    memory = (portfolio.nbytes + portfolio.pool.promised) // 2
    assert portfolio.nbytes < memory < portfolio.pool.promised
    active = [expert.name for expert in portfolio.pool.experts if expert.learner is not None]
    portfolio.shrink(memory)
    assert portfolio.pool.promised <= memory
    assert [expert.name for expert in portfolio.pool.experts if expert.learner is not None] == active


@pytest.mark.parametrize("stop", [30, 300, 700])
@pytest.mark.parametrize("kind", ["dense", "float32", "three classes", "wide"])
def test_going_on_is_as_if_never_stopped(kind, stop, tmp_path):
    X, y = noisy(1100)
    classes = [-1, 1]
    if kind == "float32":
        X = X.astype(np.float32)
    elif kind == "three classes":
        y, classes = np.where(X[:, 2] > 4.0, 2, y), [-1, 1, 2]
    elif kind == "wide":
        X = csr_array(random_array((1100, 1500), density=0.01, rng=np.random.default_rng(0), format="csr"))
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


def test_damaged_files_are_refused(tmp_path):
    X, y = noisy(200)
    model = BudgetClassifier("500kB", random_state=0).fit(X, y)
    state = model.__getstate__()
    for path, value, message in [
        (("memory",), 1000, "memory must be at least"),
        (("seen",), -1, "seen should be an integer"),
        (("reservoir",), np.zeros((3, 6)), "the reservoir should be"),
        (("scaler", "mean"), np.full(6, np.nan), "means and spreads should be finite"),
        (("experts", 4, "ended"), True, "an expert is missing or unexpected"),
        (("experts", 4, "budget"), 10**6, "supports of an expert should be an integer from 1000000"),
        (("experts", 4, "budget"), 55, "a slab of 64 slots does not fit"),
        (("experts", 4, "allowed"), 100, "an expert should have room for a support more"),
        (("losses",), np.full(15, 1e9), "losses should be those of rounds played"),
    ]:
        damaged = copy.deepcopy(state)
        node = damaged["_learners"]["states"][0]
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
        with pytest.raises(ValueError, match=message):
            BudgetClassifier().__setstate__(damaged)


def test_room_is_made_as_supports_come():
    X, y = easy(1200)
    model = BudgetClassifier("4MB", random_state=0).partial_fit(X[:64], y[:64], classes=[-1, 1])
    portfolio = hypotheses_of(model)[0]
    start = most = model.nbytes_
    assert start < 2 << 20 < portfolio.pool.promised <= 4 << 20
    for row in range(64, 1200, 8):
        model.partial_fit(X[row : row + 8], y[row : row + 8])
        for expert in (e for e in portfolio.pool.experts if e.second_order and e.learner is not None):
            assert expert.n_supports < expert.model.budget or expert.n_supports == expert.allowed
            # no more than some supports ahead, whatever is allowed
            assert expert.model.budget <= max(_experts.FIRST, 1.25 * (expert.n_supports + _experts.LEFT) + 64)
        assert model.nbytes_ <= portfolio.pool.promised <= 4 << 20
        most = max(most, model.nbytes_)
    assert most > start
    state = model.__getstate__()
    told = [e for e in state["_learners"]["states"][0]["experts"] if e.get("allowed", 0) > e.get("budget", 0)]
    assert told
    before, told[0]["allowed"] = told[0]["allowed"], 2000
    with pytest.raises(ValueError, match="a portfolio should keep within its memory"):
        BudgetClassifier().__setstate__(copy.deepcopy(state))
    told[0]["allowed"] = before
    BudgetClassifier().__setstate__(state)


def test_regret_is_within_the_bound():
    for seed in range(3):
        X, y = noisy(900, seed=seed)
        model = BudgetClassifier("500kB", random_state=0).fit(X, y)
        assert model.regret_ <= model.regret_bound_
        # and the bound is what it says, of the losses that were counted by hand
        weights = hypotheses_of(model)[0].combiner.weights
        assert weights.loss_ - weights.expert_losses_.min() == model.regret_
        assert model.regret_bound_ < 2.0 * np.sqrt(900 * np.log(15) / 2.0) + 1.0


def test_when_the_best_expert_changes_it_ends_below_all_of_them():
    """First what rows say, which kernels learn; then what the last label says, which none of them sees."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1)
    y[2000:] = np.where(rng.random(2000) < 0.03, -1, 1).cumprod()
    model = BudgetClassifier("1MB", random_state=0)
    mistakes = model.progressive_fit(X, y).mistakes.sum()
    losses = hypotheses_of(model)[0].combiner.weights.expert_losses_[1:]
    assert mistakes < losses.min()
    assert mistakes < 0.8 * SecondOrderProjectron(100).progressive_fit(X, y).mistakes.sum()
    assert mistakes < 0.8 * linear.PassiveAggressive().progressive_fit(X, y).mistakes.sum()


def test_what_parts_are_good_for():
    X, y = easy(1500)

    def error(**parts):
        class Without(BudgetClassifier):
            _plan = Plan(**parts)

        return Without("500kB", random_state=0).progressive_fit(X, y).mistakes.mean()

    assert error() < 0.7 * error(second_order=False)
    names = {e["name"] for e in BudgetClassifier("1MB").fit(X, y).experts_}

    class Steady(BudgetClassifier):
        _plan = Plan(recency=False, moving=False)

    steady = Steady("1MB", random_state=0).fit(X, y)
    assert {e["name"] for e in steady.experts_} < names
    assert sum(e["active"] and "second" in e["name"] for e in steady.experts_) == 8


def test_what_is_inside():
    X, y = noisy(900)
    model = BudgetClassifier("1MB", random_state=0).fit(X, np.where(y > 0, "yes", "no"))
    told = model.experts_
    assert told[0]["name"] == "combiner"
    assert {e["class"] for e in told} == {"yes"}
    assert sum(e["share"] for e in told) == pytest.approx(1.0)
    assert sum(e["bytes"] for e in told) <= model.nbytes_
    assert sum(e["supports"] for e in told) == model.progressive_fit(X[:1], ["yes"]).support_sizes[-1]
    assert all(0.0 <= e["error"] <= 1.0 for e in told if e["active"])
    plain = {str, float, int, bool}
    assert {type(value) for e in told for value in e.values()} == plain


@pytest.mark.parametrize("wrap", [np.asarray, csr_array])
def test_a_row_that_is_not_finite_is_told_by_its_feature(wrap):
    X, y = easy(100)
    model = BudgetClassifier("1MB", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="x must be finite; feature 2 is inf"):
        model.play(wrap(np.array([[0.0, 1.0, np.inf]])), 1)
    assert model.rounds_ == 100


def test_dense_and_sparse_are_the_same():
    X, y = load_digits(return_X_y=True)
    X = X[:700]
    dense, sparse = (
        BudgetClassifier("1MB", random_state=0).fit(rows, y[:700] % 2) for rows in (X, csr_array(X))
    )
    np.testing.assert_array_equal(dense.predict(X), sparse.predict(csr_array(X)))
    assert dense.mistakes_ == sparse.mistakes_


def test_wide_rows_are_linear_and_within_memory():
    rng = np.random.default_rng(0)
    X = csr_array(random_array((600, 20000), density=0.002, rng=rng, format="csr"))
    y = np.where(X[:, :10000].sum(axis=1) > X[:, 10000:].sum(axis=1), 1, -1)
    model = BudgetClassifier("2MB").fit(X, y)
    assert model.nbytes_ <= 2 << 20
    assert {e["name"] for e in model.experts_} == {"combiner", "AROW", "PA, C = 1", "PA, C = 0.1"}
    assert model.mistakes_ < 300
    with pytest.raises(ValueError, match=r"memory must be at least 1,\d+,\d+ bytes.*hash the features"):
        BudgetClassifier("1MB").fit(X, y)


def test_probabilities():
    X, y = easy(3000)
    model = BudgetClassifier("1MB", random_state=0).fit(X[:2000], y[:2000])
    told = model.predict_proba(X[2000:])[:, 1]
    np.testing.assert_array_equal(told > 0.5, model.predict(X[2000:]) == 1)
    assert abs(told.mean() - (y[2000:] == 1).mean()) < 0.05
    sure = told > 0.9
    assert sure.sum() > 100
    assert (y[2000:][sure] == 1).mean() > 0.85
    many, digits = load_digits(return_X_y=True)
    model = BudgetClassifier("8MB", random_state=0).fit(many[:500], digits[:500])
    told = model.predict_proba(many[500:700])
    np.testing.assert_allclose(told.sum(axis=1), 1.0)
    np.testing.assert_array_equal(told.argmax(axis=1), model.predict(many[500:700]))


def test_classes_that_come_late():
    X, y = noisy(900)
    late = np.where(X[:, 3] > X[:, 3].mean() + 5.0, 2, y)
    model = BudgetClassifier("1MB", random_state=0).partial_fit(X[:400], y[:400], classes=[-1, 1])
    model.partial_fit(X[400:], late[400:], admit=True)
    assert model.classes_.tolist() == [-1, 1, 2]
    assert model.nbytes_ <= 1 << 20
    assert (model.predict(X[400:]) == late[400:]).mean() > 0.7


@pytest.mark.parametrize("memory", [1 << 20, "1MB", "1 MB", "1024kB", "1048576", "1MiB"])
def test_memory_by_many_names(memory):
    X, y = noisy(80)
    model = BudgetClassifier(memory, random_state=0).fit(X, y)
    assert hypotheses_of(model)[0].memory == (1 << 20) - model.sigmoids_.nbytes


def test_rows_that_are_too_large_change_nothing():
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


def test_a_stream_whose_scale_changes_renews_an_expert(monkeypatch):
    X, y = easy(2100)
    # Small features that say nothing: experts on rows as they are do better than those on standardised ones
    X = np.hstack([X, 0.01 * np.random.default_rng(1).normal(size=(len(y), 12))])
    X[1100:] *= 100.0
    monkeypatch.setattr(_pool, "LAST", 4000)  # so that there are two, of which one is not the best
    model = BudgetClassifier("300kB", random_state=0).fit(X[:1999], y[:1999])

    def widths():
        experts = hypotheses_of(model)[0].pool.experts
        return {e.name: e.model.gamma for e in experts if e.second_order and e.learner is not None}

    before = widths()
    assert len(before) == 2
    model.partial_fit(X[1999:], y[1999:])
    changed = [name for name, gamma in widths().items() if gamma < before[name] / 100.0]
    assert len(changed) == 1
    assert "raw" in changed[0]
    assert model.nbytes_ <= 300 << 10


def test_certificate():
    X, y = easy(800)
    model = BudgetClassifier("500kB", random_state=0)
    trace = model.progressive_fit(X, y)
    certificate = budgetron.certify(model, X, y, trace)
    assert certificate.holds
    assert certificate.count == hypotheses_of(model)[0].combiner.weights.loss_
    assert certificate.bound == certificate.losses + model.regret_bound_
    assert "the best expert, " in str(certificate)
    assert 2.0 * certificate.count >= model.mistakes_  # half of the votes at least were wrong in a mistake
    with pytest.raises(ValueError, match='competitor must be "best"'):
        budgetron.certify(model, X, y, trace, competitor=np.ones(3))


def test_features_that_come_late_have_a_limit():
    model = budgetron.river.BudgetClassifier("1MB", max_features=3000)
    model.learn_one({"a": 1.0}, "yes")
    model.learn_one({f"f{i}": 1.0 for i in range(900)}, "no")
    before = model.nbytes_, model.predict_proba_one({"a": 1.0, "f3": 2.0}), model._model.rounds_
    assert before[0] <= 1 << 20
    with pytest.raises(ValueError, match=r"up to 1,000, and there would be 1,101; hash them"):
        model.learn_one({f"g{i}": 1.0 for i in range(200)}, "no")
    assert (model.nbytes_, model.predict_proba_one({"a": 1.0, "f3": 2.0}), model._model.rounds_) == before
    model.learn_one({"a": 2.0}, "yes")
    wide = budgetron.river.BudgetClassifier("1MB", max_features=3000)
    wide.learn_one({f"f{i}": 1.0 for i in range(1500)}, "no")
    with pytest.raises(ValueError, match="hash the features"):
        wide.learn_one({"new": 1.0}, "yes")


@pytest.mark.parametrize("d", [1, 7, 123, 400])
def test_how_large_an_expert_may_be(d):
    """What is reckoned is what it takes, or a little more."""
    for model in (SecondOrderProjectron(gamma=1.0), budgetron.PassiveAggressive(budget=9, gamma=1.0)):
        for dtype in (np.float32, np.float64):
            row = np.zeros(d, dtype)
            for share in (100_000, 900_000, 5_000_000):
                expert = _experts.KernelExpert("", model, standardised=False)
                full = 1500 if expert.second_order else _experts.MOST_RECENT
                budget = _sizes.largest_budget(_sizes.bytes_of_budget(model, row), share, 1, full)
                taken = _sizes.with_params(model, budget=max(budget, 1)).new_learner(row).nbytes
                if budget:
                    assert taken <= share
                if budget < full:
                    more = _sizes.with_params(model, budget=budget + 90).new_learner(row)
                    assert more.nbytes > share


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_slabs_that_are_a_line_longer_are_reckoned(dtype):
    """Rows of a slab must not all lie at the same places of the cache: at some lengths it is longer."""
    row = np.zeros(300, dtype)
    expert = _experts.KernelExpert("", SecondOrderProjectron(gamma=1.0, linear=False), standardised=False)
    size = _sizes.bytes_of_budget(expert.model, row)
    for budget in (64, 240, 495, 496, 505, 511, 1007, 1008, 1015, 1022, 1023):
        taken = _sizes.with_params(expert.model, budget=budget).new_learner(row).nbytes
        assert taken <= size(budget)


def test_one_feature_on_another_scale():
    X, y = noisy(700, 4)
    X[:, 3] = 1.6e9 + np.arange(700)  # a clock
    model = BudgetClassifier("500kB", random_state=0)
    trace = model.progressive_fit(X, y)
    assert np.isfinite(trace.margins).all()
    assert trace.mistakes[300:].mean() < 0.3
    for x, label in zip(X[:50], y, strict=False):
        assert np.isfinite(model.play(x, label))


@pytest.mark.parametrize("scale", [1e-22, 1e-10, 1e10])
def test_units_do_not_matter(scale):
    X, y = easy(1200)
    plain = BudgetClassifier("1MB", random_state=0).progressive_fit(X.astype(np.float32), y)
    X[:, 0] *= scale
    scaled = BudgetClassifier("1MB", random_state=0).progressive_fit(X.astype(np.float32), y)
    assert scaled.mistakes.mean() < plain.mistakes.mean() + 0.05


def test_one_row_that_is_far_away_does_not_set_the_widths():
    X, y = easy(1200)
    plain = BudgetClassifier("1MB", random_state=0).progressive_fit(X, y).mistakes.mean()
    X[10] = 1e9
    assert BudgetClassifier("1MB", random_state=0).progressive_fit(X, y).mistakes.mean() < plain + 0.05


def test_values_that_cannot_be_squared_are_refused():
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


def test_a_class_that_comes_late_finds_two_that_were_known():
    X, y = easy(4000)
    model = BudgetClassifier("4MB", random_state=0).partial_fit(X[:3000], y[:3000], classes=[-1, 1])
    before = (model.predict(X[3000:]) != y[3000:]).mean()
    margins = model.decision_function(X[3000:])
    supports = [e["supports"] for e in model.experts_ if "second" in e["name"] and e["active"]]
    model.partial_fit(X[:1], [5], admit=True)
    assert model.nbytes_ <= 4 << 20
    # Of the new one nothing is known but a row; what told the two apart still does, each with its sign
    assert (model.predict(X[3000:]) != y[3000:]).mean() < before + 0.15
    told = model.decision_function(X[3000:])
    assert np.mean(np.sign(told[:, 1]) == np.sign(margins)) > 0.95
    assert np.mean(np.sign(told[:, 0]) == -np.sign(margins)) > 0.95
    left = [e["supports"] for e in model.experts_ if "second" in e["name"] and e["active"]]
    assert len(left) == 2 * len(supports)
    assert 0.4 * max(supports) < min(left)
    assert max(left) <= max(supports)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert model.regret_ <= model.regret_bound_


def test_a_truncated_hypothesis_keeps_its_first_coordinates():
    X, y = noisy(300)
    large = SecondOrderProjectron(80, gamma=0.3).fit(X, y)
    learner = hypotheses_of(large)[0]
    kept = copy.deepcopy(learner)
    kept.truncate(30)
    L = learner.rule.projection.rows()[:30, :30]
    S = learner.supports.rows(np.arange(30))
    K = np.exp(-0.3 * ((X[:, None] - S) ** 2).sum(axis=2))
    phi = np.hstack([np.ones((len(X), 1)), np.sqrt(0.3) * X, np.linalg.solve(L, K.T).T])
    np.testing.assert_allclose(kept.decide(X), phi @ learner.rule.gaussian.mean[: phi.shape[1]], atol=1e-9)
    assert kept.supports.m == 30
    assert kept.nbytes < learner.nbytes / 2
    kept.learn(X, y.astype(float))  # and it goes on
    assert kept.rounds == 600
    assert np.isfinite(kept.decide(X)).all()


def test_a_class_that_does_not_fit_changes_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 5)), rng.choice([0, 1], 600)
    model = BudgetClassifier("30kB", random_state=0).partial_fit(X, y, classes=[0, 1])
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="memory must be at least"):
        model.partial_fit(X, np.r_[y[:300], np.arange(2, 302)], admit=True)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_features_that_come_late_shrink_the_sample():
    model = budgetron.river.BudgetClassifier(memory="150kB", seed=0)
    rng = np.random.default_rng(0)
    for i in range(100):
        model.learn_one({"a": rng.normal(), "b": rng.normal()}, i % 2)
    model.learn_one({f"f{j}": 1.0 for j in range(300)}, 1)
    assert model.nbytes_ <= 150 << 10


def test_predict_is_for_any_rows():
    """Labels that follow each other help in the stream, and nowhere else."""
    rng = np.random.default_rng(0)
    y = np.tile(np.repeat([-1, 1], 50), 20)
    X = np.column_stack([y * 1.0, np.zeros(2000)]) + rng.normal(size=(2000, 2))
    model = BudgetClassifier("500kB", random_state=0)
    assert model.progressive_fit(X, y).mistakes[500:].mean() < 0.05
    assert (model.predict(X) != y).mean() < 0.25  # the best that a row can tell is 0.16
    x = X[:1].astype(float)
    assert hypotheses_of(model)[0].decide(x)[0] != hypotheses_of(model)[0].open_round(x)


@pytest.mark.parametrize(
    ("memory", "size"),
    [("16 mb", 16 << 20), ("64KB", 64 << 10), ("1.5GiB", 3 << 29), (np.int64(5000), 5000), ("16", 16)],
)
def test_memory_as_people_write_it(memory, size):
    assert parse_bytes(memory) == size


@pytest.mark.parametrize("memory", ["16 apples", "", "0", 0, -5, "-1MB", True, "1TB", "MB", 1.5])
def test_memory_that_is_none(memory):
    with pytest.raises(ValueError, match="memory"):
        BudgetClassifier(memory).fit(*easy(20))


def test_little_memory_goes_to_experts_that_need_little():
    X, y = easy(2000)
    model = BudgetClassifier("30kB", random_state=0)
    assert model.progressive_fit(X, y).mistakes.mean() < 0.25
    assert model.nbytes_ <= 30 << 10
    assert any(e["supports"] for e in model.experts_)


def test_no_average():
    with pytest.raises(ValueError, match="no average"):
        budgetron.batch.AveragedClassifier(BudgetClassifier()).fit(*easy(50))


def test_the_river_face_tells_what_is_inside():
    model = budgetron.river.BudgetClassifier("300kB", seed=0)
    X, y = easy(150)
    for row, label in zip(X, np.where(y > 0, "yes", "no").tolist(), strict=True):
        model.learn_one(dict(enumerate(row)), label)
    assert {expert["class"] for expert in model.experts_} == {"yes"}
    assert len(model.experts_) == 15
    assert model.regret_ <= model.regret_bound_
    assert "gamma" not in type(model).__doc__
    assert not hasattr(budgetron.river.Forgetron(), "experts_")
    assert "gamma" in budgetron.river.Forgetron.__doc__


@pytest.mark.parametrize("far", [0.0, 1e9])
def test_widths_of_rows_that_are_far_from_the_origin(far):
    X = np.round(np.random.default_rng(0).normal(size=(40, 3)) * 100.0)
    apart = [((a - b) ** 2).sum() for i, a in enumerate(X) for b in X[i + 1 :]]
    assert _pool.median_distance(X + far) == np.median(apart)
    assert _pool.median_distance(np.vstack([X, X]) + far) == np.median(
        [
            d
            for d in (((a - b) ** 2).sum() for i, a in enumerate([*X, *X]) for b in [*X, *X][i + 1 :])
            if d > 0
        ]
    )
    assert _pool.median_distance(np.ones((5, 3))) == 3.0


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_waits_until_all_stand_at_the_same_round(monkeypatch):
    X, labels = load_digits(return_X_y=True)
    y = labels % 3
    pressed, real = [], _experts.Expert.learn_rows

    def learn_rows(expert, *rows):
        margins = real(expert, *rows)
        if not pressed and expert.rounds > 500:  # of the first class, with experts and classes after it
            pressed.append(expert.name)
            signal.raise_signal(signal.SIGINT)
        return margins

    model = BudgetClassifier(memory="3MB", random_state=0).partial_fit(X[:256], y[:256], classes=range(3))
    with monkeypatch.context() as patch:
        patch.setattr(_experts.Expert, "learn_rows", learn_rows)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[256:], y[256:])
    assert pressed == ["AROW"]
    assert {learner.rounds for learner in hypotheses_of(model)} == {768}
    whole = BudgetClassifier(memory="3MB", random_state=0).partial_fit(X[:768], y[:768], classes=range(3))
    np.testing.assert_array_equal(model.decision_function(X), whole.decision_function(X))
    np.testing.assert_array_equal(model.predict_proba(X), whole.predict_proba(X))
    assert model.mistakes_ == whole.mistakes_ > 0


def test_an_expert_without_room_does_not_stop_the_stream(monkeypatch):
    X, y = easy(200)
    model = BudgetClassifier(random_state=0).fit(X, y)
    monkeypatch.setattr(_experts.KernelExpert, "room", 0)
    assert list(itertools.islice(hypotheses_of(model)[0].pool.block_ends(10), 11)) == list(range(1, 11))


@pytest.mark.parametrize("classes", [2, 5])
def test_the_memory_that_would_be_enough_is_enough(classes):
    X = np.random.default_rng(0).normal(size=(30, 120))
    y = np.arange(30) % classes
    with pytest.raises(ValueError, match=rf"for {classes} classes and rows of 120 features; it is 1,000"):
        BudgetClassifier(memory=1000).fit(X, y)
    with pytest.raises(ValueError, match="hash the features") as raised:
        BudgetClassifier(memory=1000).fit(X, y)
    enough = int(re.search(r"at least ([0-9,]+) bytes", str(raised.value))[1].replace(",", ""))
    assert BudgetClassifier(memory=enough).fit(X, y).nbytes_ <= enough
    with pytest.raises(ValueError, match=f"at least {enough:,} bytes"):
        BudgetClassifier(memory=enough - classes).fit(X, y)
