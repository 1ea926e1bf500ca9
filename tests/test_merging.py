"""Merged models: natural parameters that are added, what is exact, and what is refused."""

import copy
import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.linear import JointAROW
from reference.merging import merged
from reference.second_order import JointSecondOrder
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

import budgetron
from budgetron import FOGD, BudgetClassifier, CalibratedClassifier, SecondOrderProjectron, learners
from budgetron.batch import AveragedClassifier
from budgetron.linear import AROW, Perceptron
from budgetron.merging import Delta, merge_period

LOSSES = ("hinge", "logistic", "squared")
R, GAMMA = 0.7, 0.3
SUPPORTS = {"budget": 12, "threshold": 0.05, "r": R}


def linear_stream(n_classes, n=240, d=5, seed=0):
    """Return sparse rows, some of them 0, and the codes of their classes, some of them noise."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.6, rng.normal(size=(n, d)) * np.arange(1, d + 1), 0.0)
    codes = (X @ rng.normal(size=(d, n_classes))).argmax(axis=1)
    return X, np.where(rng.random(n) < 0.1, rng.integers(n_classes, size=n), codes)


def curved_stream(n_classes, n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    codes = ((X[:, 0] * X[:, 1] > 0.0) + 2 * (X[:, 2] > 0.2)) % n_classes
    return X, np.where(rng.random(n) < 0.1, rng.integers(n_classes, size=n), codes)


def prior_of(loss):
    return 100.0 if loss == "logistic" else 1.0


def deltas_of(model, X, y, parts):
    """Return what copies of the model learn, each from one part of the rows."""
    workers = [copy.deepcopy(model) for _ in parts]
    for worker, part in zip(workers, parts, strict=True):
        worker.partial_fit(X[part], y[part])
    return [worker.delta(since=model) for worker in workers]


def covariance_of(model):
    (hypothesis,) = model._learners
    if isinstance(model, SecondOrderProjectron):
        return hypothesis.rule.gaussian.covariance()
    return (
        np.diag(hypothesis.variances()) if hypothesis.covariance is None else hypothesis.covariance.matrix()
    )


def rows_of(margins):
    return margins[:, None] if margins.ndim == 1 else margins


PARTS = [slice(60, 110), slice(110, 111), slice(111, 180)]


# ---------------------------------------------------------------------- the literal reference


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_arow_equals_the_reference(loss, n_classes, covariance):
    """Play, merge, and play again: every score, the covariance and the counts are those of the reference."""
    X, codes = linear_stream(n_classes)
    run = JointAROW(X.shape[1], n_classes, R, covariance, loss=loss, prior=prior_of(loss))
    model = AROW(R, covariance, loss)
    scores = [run.play(x, code) for x, code in zip(X[:60], codes[:60], strict=True)]
    trace = model.progressive_fit(X[:60], codes[:60], classes=range(n_classes))
    np.testing.assert_allclose(rows_of(trace.margins), scores, rtol=1e-7, atol=1e-8)
    copies = [copy.deepcopy(run) for _ in PARTS]
    for one, part in zip(copies, PARTS, strict=True):
        for x, code in zip(X[part], codes[part], strict=True):
            one.play(x, code)
    run = merged(run, copies)
    model.merge(deltas_of(model, X, codes, PARTS))
    np.testing.assert_allclose(covariance_of(model), run.sigma, rtol=1e-7, atol=1e-10)
    scores = [run.play(x, code) for x, code in zip(X[180:], codes[180:], strict=True)]
    trace = model.progressive_fit(X[180:], codes[180:])
    np.testing.assert_allclose(rows_of(trace.margins), scores, rtol=1e-6, atol=1e-7)
    assert (model.rounds_, model.mistakes_) == (len(X), run.mistakes)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_fixed_supports_equal_the_reference(loss, n_classes):
    X, codes = curved_stream(n_classes)
    square = (X**2).sum(axis=1)
    K = np.exp(-GAMMA * np.maximum(square[:, None] + square - 2.0 * X @ X.T, 0.0))
    linear = GAMMA * X @ X.T + 1.0
    run = JointSecondOrder(K, codes, n_classes, linear=linear, loss=loss, prior=prior_of(loss), **SUPPORTS)
    model = SecondOrderProjectron(gamma=GAMMA, loss=loss, **SUPPORTS)
    for t in range(60):
        run.play(t)
    model.partial_fit(X[:60], codes[:60], classes=range(n_classes)).fix_supports()
    run.threshold = np.inf
    copies = [copy.deepcopy(run) for _ in PARTS]
    for one, part in zip(copies, PARTS, strict=True):
        for t in range(part.start, part.stop):
            one.play(t)
    run = merged(run, copies)
    model.merge(deltas_of(model, X, codes, PARTS))
    np.testing.assert_allclose(model.dual_coef_, run.coefficients(), rtol=1e-5, atol=1e-6)
    scores = [run.play(t) for t in range(180, len(X))]
    trace = model.progressive_fit(X[180:], codes[180:])
    np.testing.assert_allclose(rows_of(trace.margins), scores, rtol=1e-5, atol=1e-6)
    assert model.support_.tolist() == run.supports
    assert model.support_.max() < 60
    assert (model.rounds_, model.mistakes_) == (len(X), run.mistakes)


# ---------------------------------------------------------------------- what is exact


def started(kind, loss, n_classes=2, **parameters):
    """Return a model that has learned 60 rows, and the whole stream."""
    if kind == "fixed supports":
        X, y = curved_stream(n_classes)
        model = SecondOrderProjectron(gamma=GAMMA, loss=loss, **SUPPORTS | parameters)
    else:
        X, y = linear_stream(n_classes)
        model = AROW(R, kind, loss, **parameters)
    model.partial_fit(X[:60], y[:60], classes=range(n_classes))
    return (model.fix_supports() if kind == "fixed supports" else model), X, y


KINDS = ("full", "diagonal", "fixed supports")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_one_delta_gives_the_later_state(kind, loss, n_classes):
    model, X, y = started(kind, loss, n_classes)
    later = copy.deepcopy(model).partial_fit(X[60:], y[60:])
    model.merge([later.delta(since=model)])
    np.testing.assert_allclose(model.decision_function(X), later.decision_function(X), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(covariance_of(model), covariance_of(later), rtol=1e-5, atol=1e-9)
    assert (model.rounds_, model.mistakes_) == (later.rounds_, later.mistakes_)
    if kind != "fixed supports":
        assert model.updates_ == later.updates_


@pytest.mark.parametrize("kind", ["full", "fixed supports"])
@pytest.mark.parametrize("n_classes", [2, 4])
@given(cuts=st.sets(st.integers(60, 200), max_size=6))
def test_squared_loss_is_exact_for_every_cut(kind, n_classes, cuts):
    """With the squared loss, a row adds x x' / r and y x / r, whatever was learned before."""
    model, X, y = started(kind, "squared", n_classes)
    whole = copy.deepcopy(model).partial_fit(X[60:], y[60:])
    parts = [slice(a, b) for a, b in pairwise(sorted({60, len(X), *cuts}))]
    model.merge(deltas_of(model, X, y, parts))
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(covariance_of(model), covariance_of(whole), rtol=1e-5, atol=1e-9)


def test_squared_loss_is_exact_with_weights():
    model, X, y = started("full", "squared", class_weight={1: 0.3})
    weights = np.random.default_rng(0).random(len(X))
    whole = copy.deepcopy(model).partial_fit(X[60:], y[60:], sample_weight=weights[60:])
    workers = [copy.deepcopy(model) for _ in range(2)]
    parts = [slice(60, 150), slice(150, len(X))]
    for worker, part in zip(workers, parts, strict=True):
        worker.partial_fit(X[part], y[part], sample_weight=weights[part])
    model.merge([worker.delta(since=model) for worker in workers])
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-8)


def test_hinge_loss_is_exact_if_the_same_rows_are_margin_errors():
    """A prior this small leaves every margin below 1, so that every row is a margin error."""
    model, X, y = started("full", "hinge", prior=1e-5)
    whole = copy.deepcopy(model)
    assert (np.abs(whole.progressive_fit(X[60:], y[60:]).margins) < 1.0).all()
    model.merge(deltas_of(model, X, y, [slice(60, 90), slice(90, 200), slice(200, len(X))]))
    assert model.updates_ == whole.updates_ == len(X)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-8)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_every_loss_is_exact_if_parts_have_no_features_in_common(kind, loss, n_classes):
    rng = np.random.default_rng(3)
    n, d = 150, 9
    group = rng.integers(3, size=n)
    X = np.where(np.arange(d) // 3 == group[:, None], rng.normal(size=(n, d)), 0.0)
    y = rng.integers(n_classes, size=n)
    model = AROW(R, kind, loss, fit_intercept=False)  # an intercept would be in common
    model.partial_fit(np.zeros((1, d)), [0], classes=range(n_classes))
    whole = copy.deepcopy(model).partial_fit(X, y)
    model.merge(deltas_of(model, X, y, [group == g for g in range(3)]))
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(covariance_of(model), covariance_of(whole), rtol=1e-8, atol=1e-12)
    assert (model.rounds_, model.updates_) == (whole.rounds_, whole.updates_)


@pytest.mark.parametrize("kind", KINDS)
def test_order_and_grouping_do_not_matter(kind):
    model, X, y = started(kind, "logistic", 4)
    deltas = deltas_of(model, X, y, PARTS)
    forward, backward, summed, one_by_one = (copy.deepcopy(model) for _ in range(4))
    forward.merge(deltas)
    backward.merge(reversed(deltas))
    summed.merge([deltas[0] + deltas[1] + deltas[2]])
    for delta in deltas:
        one_by_one.merge([delta])
    expected = forward.decision_function(X)
    for other in (backward, summed, one_by_one):
        np.testing.assert_allclose(other.decision_function(X), expected, rtol=1e-6, atol=1e-8)
        assert (other.rounds_, other.mistakes_) == (forward.rounds_, forward.mistakes_)


def test_nothing_learned_changes_nothing():
    model, X, _ = started("full", "hinge")
    before = model.decision_function(X)
    assert model.merge([]) is model
    assert np.array_equal(model.decision_function(X), before)
    model.merge([model.delta(since=model)])
    np.testing.assert_allclose(model.decision_function(X), before, rtol=1e-10)


# ---------------------------------------------------------------------- models, rows and files


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_merged_model_is_saved_and_goes_on(kind, dtype, tmp_path):
    """The merged state passes all checks of files, and a loaded model continues bit for bit."""
    model, X, y = started(kind, "logistic", 4)
    start = type(model)(**model.get_params()).partial_fit(X[:60].astype(dtype), y[:60], classes=range(4))
    if kind == "fixed supports":
        start.fix_supports()
    start.merge(deltas_of(start, X.astype(dtype), y, PARTS))
    budgetron.save(start, tmp_path / "merged.budgetron")
    loaded = budgetron.load(tmp_path / "merged.budgetron")
    unpickled = pickle.loads(pickle.dumps(start))
    for other in (loaded, unpickled):
        again = copy.deepcopy(start).progressive_fit(X[180:].astype(dtype), y[180:])
        assert np.array_equal(other.progressive_fit(X[180:].astype(dtype), y[180:]).margins, again.margins)
    if kind == "fixed supports":
        assert loaded.support_.max() < 60
        loaded.delta(since=start)


def test_wide_sparse_rows():
    """Above 1000 features, the linear part has variances only; supports are stored by their non-zeros."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((90, 1100)) < 0.01, 1.0, 0.0)
    y = (X[:, :550].sum(axis=1) > X[:, 550:].sum(axis=1)).astype(int)
    model = SecondOrderProjectron(6, gamma=0.1, loss="squared")
    model.partial_fit(csr_array(X[:40]), y[:40], classes=[0, 1]).fix_supports()
    later = copy.deepcopy(model).partial_fit(csr_array(X[40:]), y[40:])
    model.merge([later.delta(since=model)])
    np.testing.assert_allclose(model.decision_function(X), later.decision_function(X), rtol=1e-7, atol=1e-9)
    assert model.support_.tolist() == later.support_.tolist()


def test_fixed_supports_stay(tmp_path):
    X, y = curved_stream(2, 400)
    free = SecondOrderProjectron(6, threshold=0.0, gamma=3.0).fit(X[:20], y[:20])
    fixed = copy.deepcopy(free).fix_supports()
    shifted = X[20:] + 3.0
    assert free.partial_fit(shifted, y[20:]).support_.max() > 20
    before = fixed.support_.tolist()
    for x, label in zip(shifted[:30], y[20:50], strict=True):
        fixed.play(x, label)
    budgetron.save(fixed, tmp_path / "fixed.budgetron")
    for model in (fixed, copy.deepcopy(fixed), budgetron.load(tmp_path / "fixed.budgetron")):
        assert model.partial_fit(shifted, y[20:]).support_.tolist() == before
    assert fixed.fit(X[20:] + 3.0, y[20:]).support_.tolist() != before
    with pytest.raises(NotFittedError):
        SecondOrderProjectron().fix_supports()


def test_deltas_as_bytes():
    model, X, y = started("fixed supports", "hinge")
    (delta,) = deltas_of(model, X, y, [slice(60, 200)])
    data = delta.to_bytes()
    assert delta.nbytes < len(data) < delta.nbytes + 2000
    for again in (Delta.from_bytes(data), pickle.loads(pickle.dumps(delta))):
        assert (again.rounds, again.mistakes, again.coordinates) == (140, delta.mistakes, delta.coordinates)
        assert again.to_bytes() == data
        one, other = copy.deepcopy(model).merge([delta]), copy.deepcopy(model).merge([again])
        assert np.array_equal(one.decision_function(X), other.decision_function(X))
    assert repr(delta) == f"Delta(140 rounds, {delta.mistakes} mistakes)"


@given(place=st.integers(0, 10**9), value=st.integers(1, 255))
def test_damaged_bytes_are_refused(place, value):
    model, X, y = started("full", "hinge")
    data = bytearray(deltas_of(model, X, y, [slice(60, 70)])[0].to_bytes())
    data[place % len(data)] ^= value
    with pytest.raises(ValueError, match="delta"):
        Delta.from_bytes(bytes(data))


@pytest.mark.parametrize("length", [0, 7, 40, 100, -1])
def test_short_bytes_are_refused(length):
    model, X, y = started("full", "hinge")
    data = deltas_of(model, X, y, [slice(60, 70)])[0].to_bytes()
    with pytest.raises(ValueError, match="delta"):
        Delta.from_bytes(data[:length])
    with pytest.raises(ValueError, match="delta"):
        Delta.from_bytes(data + b"\0")


# ---------------------------------------------------------------------- what is refused


def unchanged(model, X):
    return model.decision_function(X).tobytes(), covariance_of(model).tobytes(), model.rounds_


def test_other_coordinates_are_refused():
    model, X, y = started("full", "hinge")
    (delta,) = deltas_of(model, X, y, [slice(60, 100)])
    before = unchanged(model, X)
    others = {
        "r 0.7": AROW(0.5, "full", "hinge").partial_fit(X[:60], y[:60], classes=[0, 1]),
        "covariance .full.": AROW(R, "diagonal", "hinge").partial_fit(X[:60], y[:60], classes=[0, 1]),
        "classes": AROW(R, "full", "hinge").partial_fit(X[:60], y[:60], classes=[0, 1, 2]),
        "number of features 5": AROW(R, "full", "hinge").partial_fit(X[:60, :4], y[:60], classes=[0, 1]),
    }
    for message, other in others.items():
        with pytest.raises(ValueError, match=message):
            other.merge([delta])
    with pytest.raises(ValueError, match="classes"):
        model.delta(since=others["classes"])
    with pytest.raises(ValueError, match="classes"):
        delta + others["classes"].delta(since=others["classes"])
    assert unchanged(model, X) == before


def test_other_supports_are_refused():
    model, X, y = started("fixed supports", "hinge")
    other = SecondOrderProjectron(gamma=GAMMA, loss="hinge", **SUPPORTS)
    other.partial_fit(X[10:70], y[10:70], classes=[0, 1]).fix_supports()
    with pytest.raises(ValueError, match="supports"):
        other.merge(deltas_of(model, X, y, [slice(60, 100)]))


def test_a_later_state_is_no_start():
    model, X, y = started("full", "hinge")
    later = copy.deepcopy(model).partial_fit(X[60:], y[60:])
    with pytest.raises(ValueError, match="earlier state"):
        model.delta(since=later)


@pytest.mark.parametrize("kind", KINDS)
def test_deltas_that_take_away_what_was_learned_are_refused(kind):
    """The Gaussian of such a sum would have variances above the prior's, or none at all."""
    model, X, y = started(kind, "hinge")
    (delta,) = deltas_of(model, X, y, [slice(60, 200)])
    before = unchanged(model, X)
    for factor in (-1.0, -100.0):
        natural = delta.natural.plus(delta.natural, factor - 1.0)
        with pytest.raises(ValueError, match="more than this model has learned"):
            model.merge([Delta(delta.rounds, 0, 0, delta.coordinates, natural)])
    for value in (np.inf, np.nan, -np.inf):
        infinite = replace(delta.natural, shifts=np.full_like(delta.natural.shifts, value))
        infinite = replace(infinite, own_shifts=np.full_like(delta.natural.own_shifts, value))
        with pytest.raises(ValueError, match="not finite"):
            model.merge([Delta(delta.rounds, 0, 0, delta.coordinates, infinite)])
    assert unchanged(model, X) == before


def test_wrong_arguments():
    model, X, y = started("full", "hinge")
    (delta,) = deltas_of(model, X, y, [slice(60, 70)])
    with pytest.raises(TypeError, match="list of deltas"):
        model.merge(delta)
    with pytest.raises(TypeError, match="results of delta"):
        model.merge([delta, delta.to_bytes()])
    with pytest.raises(TypeError, match="earlier copy"):
        model.delta(since=Perceptron())
    with pytest.raises(TypeError):
        delta + 1
    with pytest.raises(NotFittedError):
        AROW().merge([delta])
    with pytest.raises(NotFittedError):
        model.delta(since=AROW())


def test_supports_that_are_not_fixed_are_refused():
    X, y = curved_stream(2)
    model = SecondOrderProjectron(gamma=GAMMA).fit(X[:100], y[:100])
    fixed = copy.deepcopy(model).fix_supports()
    (delta,) = deltas_of(fixed, X, y, [slice(100, 200)])
    with pytest.raises(ValueError, match=r"fixed supports only.*fix_supports"):
        model.delta(since=copy.deepcopy(model))
    with pytest.raises(ValueError, match=r"fixed supports only.*fix_supports"):
        model.merge([delta])
    assert model.rounds_ == 100


@pytest.mark.parametrize("cls", [AROW, SecondOrderProjectron])
def test_forgetting_is_refused(cls):
    X, y = curved_stream(2)
    model = cls(forget=0.99).fit(X, y)
    with pytest.raises(ValueError, match="forgotten once per copy"):
        model.delta(since=copy.deepcopy(model))


def test_averages_are_refused():
    X, y = linear_stream(2)
    inside = AveragedClassifier(AROW()).fit(X, y).learner_
    with pytest.raises(ValueError, match="past hypotheses"):
        inside.delta(since=copy.deepcopy(inside))


@pytest.mark.parametrize("name", ["delta", "merge"])
def test_other_learners_say_why_not(name):
    """Kernel learners, linear learners without variances, and portfolios have no such methods."""
    for cls in learners():
        if cls not in (SecondOrderProjectron, FOGD):
            assert not hasattr(cls(), name)
            with pytest.raises(AttributeError, match=r"different supports.*fixed supports.*linear.AROW"):
                getattr(cls(), name)
    for other in (Perceptron(), BudgetClassifier(), FOGD()):
        assert not hasattr(other, name)
        with pytest.raises(AttributeError, match=r"how much was learned.*linear.AROW"):
            getattr(other, name)


def test_a_calibrated_learner_goes_on_with_the_merged_state():
    """The wrapper holds the same hypothesis as the learner inside, also after a merge."""
    X, y = linear_stream(2)
    wrapper = CalibratedClassifier(AROW()).fit(X[:100], y[:100])
    inside = wrapper.learner_
    inside.merge(deltas_of(inside, X, y, [slice(100, 150)]))
    assert wrapper.rounds_ == inside.rounds_ == 150
    wrapper.partial_fit(X[150:], y[150:])
    assert wrapper.rounds_ == inside.rounds_ == len(X)


# ---------------------------------------------------------------------- the period


def test_merge_period():
    assert [merge_period(rounds, 1) for rounds in (0, 31, 40, 4096, 10**6)] == [4, 4, 5, 512, 512]
    assert [merge_period(rounds, 5) for rounds in (0, 199, 200, 20480)] == [4, 4, 5, 512]
    assert merge_period(10**6, 2, most=None) == 62_500
    assert merge_period(0, 1, least=1) == 1
    periods = [merge_period(rounds, 3, most=None) for rounds in range(5000)]
    assert periods == sorted(periods)
    for wrong in ({"rounds": -1}, {"rounds": 1.5}, {"workers": 0}, {"least": 0}, {"most": 3}):
        with pytest.raises(ValueError, match="must be a whole number"):
            merge_period(**{"rounds": 5, "workers": 2} | wrong)
