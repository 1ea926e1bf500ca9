"""Classes added during the stream: `partial_fit(..., admit=True)`."""

import copy

import numpy as np
import pytest
from cases import stream
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits

import budgetron
from budgetron import CalibratedClassifier, Forgetron, RandomizedBudgetPerceptron, linear
from budgetron._base.access import add_class, hypotheses_of
from budgetron.batch import AveragedClassifier
from budgetron.experts import ExpertClassifier

LEARNERS = [cls() for cls in budgetron.learners() + linear.learners()]


def coefficients(model):
    """Return the coefficients or weights of each hypothesis."""
    rules = [getattr(hypothesis, "rule", hypothesis) for hypothesis in hypotheses_of(model)]
    return [
        rule.coefficients() if hasattr(rule, "coefficients") else rule.factor * rule.weights for rule in rules
    ]


def late_classes(n=300):
    """Return rows and labels; the classes appear one after the other."""
    X = np.random.default_rng(0).normal(size=(n, 5))
    y = X[:, :4].argmax(axis=1)
    for c, start in enumerate([0, 1, n // 3, 2 * n // 3]):
        y[:start][y[:start] == c] = 0
        y[start] = c
    return X, y


@pytest.mark.parametrize(
    "model", LEARNERS, ids=lambda m: f"{type(m).__module__.split('.')[1]}.{type(m).__name__}"
)
def test_any_cut_gives_the_same_model(model):
    X, y = late_classes()
    if "gamma" in model.get_params():
        model.set_params(gamma=0.3)
    if "random_state" in model.get_params():
        model.set_params(random_state=3)
    whole, cut = clone(model), clone(model)
    whole.partial_fit(X, y, admit=True)
    for a, b in [(0, 2), (2, 50), (50, 100), (100, 101), (101, 290), (290, 300)]:
        cut.partial_fit(X[a:b], y[a:b], admit=True)
    np.testing.assert_array_equal(whole.classes_, [0, 1, 2, 3])
    assert (whole.rounds_, whole.mistakes_) == (cut.rounds_, cut.mistakes_) == (300, whole.mistakes_)
    for of_whole, of_cut in zip(coefficients(whole), coefficients(cut), strict=True):
        np.testing.assert_allclose(
            of_whole, of_cut, rtol=0, atol=1e-9 * max(1.0, np.abs(of_cut).max(initial=0.0))
        )


@pytest.mark.parametrize(
    "model",
    [model for model in LEARNERS if not model._joint],  # others: test_joint_second_order.py
    ids=lambda m: f"{type(m).__module__.split('.')[1]}.{type(m).__name__}",
)
def test_a_third_class_splits_the_hypothesis_of_two_classes(model):
    X, y = stream("random", 200)
    if "gamma" in model.get_params():
        model.set_params(gamma=0.3)
    mirrored = copy.deepcopy(model).fit(X, -y)
    model.fit(X, y)
    before = coefficients(model)[0]
    add_class(model, 7)
    assert model.classes_.tolist() == [-1, 1, 7]
    lower, upper, new = coefficients(model)
    np.testing.assert_array_equal(upper, before)
    assert not np.any(new) or isinstance(model, linear.Winnow)
    assert {hypothesis.rounds for hypothesis in hypotheses_of(model)} == {200}
    if isinstance(model, linear.Winnow | linear.VotedPerceptron):  # the lower class starts from scratch
        assert len(lower) == len(before)
    elif "random_state" not in model.get_params():
        # The lower class has the hypothesis of a model that learned the opposite labels,
        # now and after more rounds.
        hypothesis, expected = hypotheses_of(model)[0], hypotheses_of(mirrored)[0]
        np.testing.assert_allclose(lower, coefficients(mirrored)[0], rtol=1e-12)
        np.testing.assert_allclose(hypothesis.decide(X), expected.decide(X), rtol=0, atol=1e-12)
        more, labels = stream("random", 400)
        hypothesis.learn(more, -labels.astype(float))
        expected.learn(more, -labels.astype(float))
        after = hypothesis.decide(X)
        scale = max(1.0, np.abs(after).max())
        np.testing.assert_allclose(after, expected.decide(X), rtol=0, atol=1e-9 * scale)


def test_a_new_class_is_learned():
    X, y = load_digits(return_X_y=True)
    order = np.argsort(np.where(y == 7, np.arange(len(y)) + 600, np.arange(len(y))), kind="stable")
    X, y = X[order], y[order]
    model = Forgetron(60, gamma=0.001)
    for a in range(0, len(y), 50):
        model.partial_fit(X[a : a + 50], y[a : a + 50], admit=True)
    assert model.score(X, y) > 0.85
    assert (model.predict(X[y == 7]) == 7).mean() > 0.8


def test_calibrated_classifiers_add_classes():
    X, y = late_classes()
    whole, cut = (CalibratedClassifier(Forgetron(20, gamma=0.3)) for _ in range(2))
    whole.partial_fit(X, y, admit=True)
    for a in range(0, 300, 30):
        cut.partial_fit(X[a : a + 30], y[a : a + 30], admit=True)
    np.testing.assert_allclose(whole.sigmoids_, cut.sigmoids_, rtol=1e-9)
    np.testing.assert_allclose(whole.predict_proba(X).sum(axis=1), 1.0)


def test_sparse_rows_and_text_labels():
    X, y = late_classes()
    names = np.array(["fig", "apple", "zucchini", "kiwi"])[y]
    dense, sparse = (Forgetron(20, gamma=0.3) for _ in range(2))
    dense.partial_fit(X, names, admit=True)
    sparse.partial_fit(csr_array(X), names.tolist(), admit=True)
    assert dense.classes_.tolist() == sparse.classes_.tolist() == ["apple", "fig", "kiwi", "zucchini"]
    np.testing.assert_allclose(dense.decision_function(X), sparse.decision_function(X), atol=1e-9)


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, 2**40, 2**50],
        [7.0, 3.0, 5.0, 2.0**60],
        [False, True, 2, 3],
        np.array([3, 5, 7, 200], np.uint8),
        np.array([1, 2, 3, 4], np.float32),
        np.array(["a", "b", "much longer", "c"], object),
        np.array(["a", "b", "much longer", "c"]),
    ],
    ids=str,
)
def test_labels_of_different_types(labels):
    X, y = late_classes()
    kind = object if getattr(labels, "dtype", np.dtype(int)).kind == "O" else None
    labels = labels.tolist() if isinstance(labels, np.ndarray) else labels
    model, twin = Forgetron(20, gamma=0.3), Forgetron(20, gamma=0.3)
    for a, b in [(0, 2), (2, 150), (150, 300)]:
        model.partial_fit(X[a:b], np.array([labels[code] for code in y[a:b]], kind), admit=True)
        twin.partial_fit(X[a:b], y[a:b], admit=True)
    assert model.classes_.tolist() == sorted(labels)
    assert model.predict(X).tolist() == [labels[code] for code in twin.predict(X)]


def test_each_class_has_its_own_random_generator():
    X, y = late_classes()
    model = RandomizedBudgetPerceptron(5, gamma=0.3, random_state=0).partial_fit(X, y, admit=True)
    increments = [h.rule.generator.bit_generator.state["state"]["inc"] for h in hypotheses_of(model)]
    assert len(set(increments)) == 4
    again = RandomizedBudgetPerceptron(5, gamma=0.3, random_state=0).partial_fit(X, y, admit=True)
    np.testing.assert_array_equal(model.dual_coef_, again.dual_coef_)


def test_a_loaded_model_adds_classes(tmp_path):
    X, y = late_classes()
    model = Forgetron(20, gamma=0.3).partial_fit(X[:150], y[:150], admit=True)
    budgetron.save(model, tmp_path / "model")
    loaded = budgetron.load(tmp_path / "model")
    for copied in (model, loaded):
        copied.partial_fit(X[150:], y[150:], admit=True)
    np.testing.assert_array_equal(model.dual_coef_, loaded.dual_coef_)


def state(model):
    return [model.classes_.tolist(), model.rounds_, model.mistakes_, *map(bytes, coefficients(model))]


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[np.nan] * 5], [9], "NaN"),
        ([[0.0] * 5, [0.0] * 4 + [np.inf]], [9, 1], "infinity"),
        ([[0.0] * 5], ["nine"], "the classes are numbers"),
        ([[0.0] * 3], [9], "features"),
    ],
)
def test_invalid_rows_change_nothing(X, y, message):
    rows, labels = late_classes()
    model = Forgetron(20, gamma=0.3).partial_fit(rows, labels, admit=True)
    before = state(model)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y, admit=True)
    assert state(model) == before


def test_a_failing_batch_adds_no_class():
    rows, labels = late_classes()
    model = Forgetron(20, kernel="poly", degree=9, gamma=1.0).partial_fit(rows, labels, admit=True)
    before = state(model)
    bad = np.vstack([rows[:40], np.full((1, rows.shape[1]), 1e60)])
    with pytest.raises(ValueError, match="finite"):
        model.partial_fit(bad, [*labels[:39], 8, 9], admit=True)
    assert state(model) == before


def test_new_classes_need_admit_and_two_classes_at_first():
    X, y = late_classes()
    model = Forgetron(20).partial_fit(X[:10], y[:10] % 2, [0, 1])
    with pytest.raises(ValueError, match="y must contain only the classes"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="two classes"):
        Forgetron(20).partial_fit(X[:1], y[:1], admit=True)


def test_averages_cannot_add_classes():
    X, y = late_classes()
    model = AveragedClassifier(linear.Perceptron()).partial_fit(X[:50], y[:50], [0, 1])
    with pytest.raises(ValueError, match="give all classes in the first call"):
        model.partial_fit(X, y, admit=True)


# ---------------------------------------------------------------------- labels that are compared exactly

LARGE = 2**53


def experts_of_two():
    return ExpertClassifier([linear.Perceptron(), linear.AROW()])


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (np.array([LARGE, LARGE + 1]), np.array([LARGE, LARGE + 1], np.uint64)),
        (np.array([LARGE, LARGE + 1], np.uint64), np.array([LARGE, LARGE + 1])),
        (np.array([-1, LARGE + 1]), np.array([LARGE + 1, LARGE + 1], np.uint64)),
        (np.array([1, 2**63 + 1], np.uint64), [1, 2**63 + 1]),
        ([1, 2**63 + 1], np.array([1, 2**63 + 1], np.uint64)),
        ([-1, 2**63 + 1], [2**63 + 1, -1]),
        ([2**70, 2**70 + 1], [2**70 + 1, 2**70]),
        (np.array([2**70, 1], object), [1, 2**70]),
        (np.array([1, 2], object), [1, 2]),
        ([1, 2], np.array([1, 2], object)),
        ([False, True], [0, 1]),
        ([0, 1], np.array([False, True])),
        ([0, 1], [0.0, 1.0]),
        ([0.0, 1.0], np.array([0, 1], np.uint64)),
        ([0.0, 1.0], np.array([0.0, 1.0], np.float32)),
    ],
)
@pytest.mark.parametrize("make", [linear.Perceptron, experts_of_two])
def test_equal_labels_of_any_type_are_equal(make, first, later):
    X = np.eye(2)
    model = make().fit(X, first)
    plain = sorted({int(label) for label in np.asarray(first, object)})
    assert model.classes_.tolist() == plain
    places = [plain.index(int(label)) for label in np.asarray(later, object)]
    for _ in range(3):
        model.partial_fit(X, later, classes=first)
    expected = make().fit(X, [plain.index(int(label)) for label in np.asarray(first, object)])
    for _ in range(3):
        expected.partial_fit(X, places)
    np.testing.assert_array_equal(model.decision_function(X), expected.decision_function(X))
    assert [plain.index(label) for label in model.predict(X).tolist()] == expected.predict(X).tolist()


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ([5, LARGE + 1], np.array([5, LARGE], np.float64)),
        ([5, LARGE + 1], np.array([5, LARGE], np.uint64)),
        (np.array([5, 2**63 + 1], np.uint64), [5, -1]),
        ([5, 2**70], [5, 2**70 + 1]),
        ([1, 2], ["1", "2"]),
        (["1", "2"], [1, 2]),
        ([1, 2], [1.0, np.nan]),
    ],
)
def test_different_labels_are_different(first, later):
    model = linear.Perceptron().fit(np.eye(2), first)
    with pytest.raises(ValueError, match=r"y must contain only the classes|NaN"):
        model.partial_fit(np.eye(2), later)
    with pytest.raises(ValueError, match=r"classes are .* since the first call|needs at least two"):
        model.partial_fit(np.eye(2), first, classes=[1, 2, 3])


def test_large_integers_become_classes(tmp_path):
    X = np.eye(3)
    for make in (linear.Perceptron, lambda: CalibratedClassifier(linear.AROW())):
        model = make().partial_fit(X[:2], [5, 6], admit=True)
        model.partial_fit(X, [2**63 + 1, 5, 2**70], admit=True)
        assert model.classes_.tolist() == [5, 6, 2**63 + 1, 2**70]
        model.partial_fit(X, np.array([2**63 + 1, 5, 6], np.uint64)).play(X[0], np.uint64(2**63 + 1))
        budgetron.save(model, tmp_path / "model")
        assert budgetron.load(tmp_path / "model").classes_.tolist() == model.classes_.tolist()
