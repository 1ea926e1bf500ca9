"""The contract of a hypothesis, for every kind: compiled kernel learner, linear rule, portfolio."""

import copy
import pickle

import numpy as np
import pytest

import budgetron
from budgetron import BudgetClassifier, CalibratedClassifier, kernelized, linear
from budgetron._base.access import add_features, hypotheses_of
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier
from budgetron.experts import ExpertClassifier

LEARNERS = {
    **{cls.__name__: cls for cls in kernelized.learners()},
    **{f"linear.{cls.__name__}": cls for cls in linear.learners()},
    "BudgetClassifier": lambda: BudgetClassifier("300kB", random_state=0),
}
# These keep an average or a journal, or weights that are never negative.
NO_MIRROR = {"BudgetClassifier", "linear.VotedPerceptron", "linear.Winnow"}


def stream(n=150, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1, 0)


def fitted(name, n=150):
    model = LEARNERS[name]()
    parameters = model.get_params()
    changes = {"gamma": 0.5, "budget": 20, "random_state": 0}
    model.set_params(**{key: value for key, value in changes.items() if key in parameters})
    X, y = stream(n)
    return model.partial_fit(X, y, classes=[0, 1])


@pytest.fixture(params=sorted(LEARNERS))
def name(request):
    return request.param


def test_properties(name):
    model = fitted(name)
    (hypothesis,) = hypotheses_of(model)
    assert hypothesis.dtype == np.float64
    assert hypothesis.n_features == 4
    assert hypothesis.rounds == model.rounds_ == 150
    assert hypothesis.mistakes == model.mistakes_
    assert hypothesis.nbytes <= model.nbytes_
    assert hypothesis.n_supports == getattr(model, "n_support_", hypothesis.n_supports)
    assert isinstance(hypothesis.ledger, tuple)
    if hypothesis.budget:
        assert hypothesis.n_supports <= hypothesis.budget


def test_state_is_plain(name):
    def check(value):
        if isinstance(value, dict):
            assert all(isinstance(key, str) for key in value)
            for item in value.values():
                check(item)
        elif isinstance(value, list):
            for item in value:
                check(item)
        else:
            assert value is None or isinstance(value, bool | int | float | str | np.ndarray)

    check(hypotheses_of(fitted(name))[0].state())


def test_restore_from_a_copy(name):
    model = fitted(name)
    X, y = stream(60, seed=1)
    (hypothesis,) = hypotheses_of(model)
    before, saved = hypothesis.decide(X), copy.deepcopy(hypothesis)
    hypothesis.learn(X, np.where(y == 1, 1.0, -1.0))
    assert hypothesis.rounds == 210
    hypothesis.restore_from(saved)
    assert hypothesis.rounds == 150
    np.testing.assert_array_equal(hypothesis.decide(X), before)


def test_set_round_count(name):
    hypothesis = copy.deepcopy(hypotheses_of(fitted(name))[0])
    hypothesis.set_round_count(1000)
    assert hypothesis.rounds == 1000


def test_mirrored_is_the_hypothesis_of_opposite_labels(name):
    X, y = stream(60, seed=1)
    (hypothesis,) = hypotheses_of(fitted(name))
    generator = getattr(getattr(hypothesis, "rule", None), "generator", None)
    mirrored = hypothesis.mirrored(generator)  # which draws the same numbers
    assert (mirrored is None) == (name in NO_MIRROR)
    if mirrored is None:
        return
    np.testing.assert_array_equal(mirrored.decide(X), -hypothesis.decide(X))
    signs = np.where(y == 1, 1.0, -1.0)
    margins, opposite = np.empty(60), np.empty(60)
    hypothesis.learn(X, signs, margins)
    mirrored.learn(X, -signs, opposite)
    np.testing.assert_array_equal(opposite, -margins)


@pytest.mark.parametrize(
    "learner", [budgetron.AUCMaximizer, budgetron.BOGD, budgetron.RandomizedBudgetPerceptron]
)
def test_mirrored_starts_with_the_state_of_the_generator(learner):
    (hypothesis,) = hypotheses_of(learner(5, random_state=1).fit(*stream()))
    mirrored = hypothesis.mirrored(np.random.default_rng(0))
    assert mirrored.rule.generator.random() == np.random.default_rng(0).random()


def test_added_features_were_0_all_along(name):
    """As if the rows had always had six features."""
    X, y = stream()
    wide = np.pad(X, ((0, 0), (0, 2)))
    late = fitted(name)
    add_features(late, 6)
    early = fitted(name)
    early = early.__class__(**early.get_params()).partial_fit(wide, y, classes=[0, 1])
    more, labels = stream(80, 6, seed=2)
    if name == "linear.Winnow":  # the number of features is part of its first weights
        late.partial_fit(more, labels)
        assert np.isfinite(late.decision_function(more)).all()
        return
    if name == "BudgetClassifier":  # memory and distances depend on the number of features
        late.partial_fit(more, labels)
        assert late.nbytes_ <= 300 * 1024
        return
    traces = [model.progressive_fit(more, labels) for model in (late, early)]
    np.testing.assert_allclose(traces[0].margins, traces[1].margins, atol=1e-9)
    np.testing.assert_array_equal(traces[0].support_sizes, traces[1].support_sizes)
    assert late.n_features_in_ == 6


def test_truncate_keeps_the_first_supports():
    (hypothesis,) = hypotheses_of(fitted("SecondOrderProjectron"))
    rounds = hypothesis.supports.rounds[:7].copy()
    hypothesis.truncate(7)
    assert hypothesis.n_supports == hypothesis.budget == 7
    np.testing.assert_array_equal(hypothesis.supports.rounds[:7], rounds)


def test_truncate_is_exact_or_refused(name):
    (hypothesis,) = hypotheses_of(fitted(name))
    X, _ = stream(50, seed=3)
    before = hypothesis.decide(X)
    stores_no_rows = name == "FOGD" or name.startswith("linear.")
    if name == "SecondOrderProjectron" or stores_no_rows:
        hypothesis.truncate(7)
        assert hypothesis.n_supports <= 7
        if stores_no_rows:
            np.testing.assert_array_equal(hypothesis.decide(X), before)
    else:
        with pytest.raises(ValueError, match=r"second-order|fewer supports"):
            hypothesis.truncate(7)
        np.testing.assert_array_equal(hypothesis.decide(X), before)


def test_copies_keep_a_changed_budget():
    X, y = stream()
    signs = np.where(y == 1, 1.0, -1.0)
    for change in ("extend", "truncate"):
        (hypothesis,) = hypotheses_of(fitted("SecondOrderProjectron"))
        getattr(hypothesis, change)(60 if change == "extend" else 7)
        copied = copy.deepcopy(hypothesis)
        assert copied.budget == hypothesis.budget
        for one in (hypothesis, copied):
            one.learn(X, signs)
        assert copied.n_supports == hypothesis.n_supports
        np.testing.assert_array_equal(copied.decide(X), hypothesis.decide(X))


def test_a_calibrated_portfolio_is_saved_and_pickled(tmp_path):
    X, y = stream()
    model = CalibratedClassifier(BudgetClassifier("300kB", random_state=0)).fit(X, y)
    budgetron.save(model, tmp_path / "model")
    for loaded in (budgetron.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_predictions_of_a_trace():
    X, y = stream()
    labels = np.array(["no", "yes"])[y]
    trace = budgetron.Forgetron(20, gamma=0.5).progressive_fit(X, labels)
    assert trace.predictions.tolist() == np.where(trace.margins > 0, "yes", "no").tolist()
    np.testing.assert_array_equal((trace.predictions != labels) | (trace.margins == 0), trace.mistakes)
    several = budgetron.Forgetron(20, gamma=0.5).progressive_fit(X, np.arange(150) % 3)
    np.testing.assert_array_equal(several.codes, several.margins.argmax(axis=1))


def test_pickled_state_is_checked_like_that_of_a_file(name):
    model = fitted(name)
    state = model.__getstate__()
    damages = [
        {"classes_": np.array([0, 1, 2])},
        {"n_features_in_": 5},
        {"_mistakes": -1},
        {"_learners": model._learners},
    ]
    for damage in damages:
        with pytest.raises(ValueError, match="should"):
            type(model).__new__(type(model)).__setstate__(state | damage)


@pytest.mark.parametrize("wrapper", [AveragedClassifier, CalibratedClassifier])
def test_the_state_of_a_wrapper_is_checked(wrapper):
    X, y = stream()
    model = wrapper(budgetron.Forgetron(20, gamma=0.5)).fit(X, y)
    state = model.__getstate__()
    other = budgetron.Forgetron(20, gamma=0.5).fit(X[:, :3], y)
    for damage in ({"n_features_in_": 3}, {"classes_": np.array([0, 1, 2])}, {"learner_": other}):
        with pytest.raises(ValueError, match="should"):
            wrapper.__new__(wrapper).__setstate__(state | damage)
    if wrapper is CalibratedClassifier:
        for sigmoids in (np.zeros((1, 0)), np.zeros((1, 7), np.float32), np.full((1, 7), np.nan)):
            with pytest.raises(ValueError, match="sigmoids"):
                wrapper.__new__(wrapper).__setstate__(state | {"sigmoids_": sigmoids})
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize(
    "model",
    [
        AveragedClassifier(budgetron.Forgetron(5, gamma=0.5)),
        PenalizedRiskClassifier(linear.Perceptron()),
        CalibratedClassifier(linear.AROW()),
        ExpertClassifier([linear.Perceptron(), linear.AROW()]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_copy_shares_no_learner(model):
    X, y = stream()
    model.fit(X[:50], y[:50])
    before = pickle.dumps(model)
    copy.copy(model).partial_fit(X[50:], y[50:])
    assert pickle.dumps(model) == before
