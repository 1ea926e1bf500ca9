"""What `AUCMaximizer` promises, besides equality of every round with its reference."""

import pickle

import numpy as np
import pytest
from cases import CASES, STREAMS, stream
from scipy.stats import chi2
from sklearn.metrics import roc_auc_score

from budgetron import AUCMaximizer, CalibratedClassifier, Forgetron


def rare_stream(n=4000, share=0.03, seed=0):
    """Return rows of a common class around a ring, and of a rare one in the middle."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    angle, radius = rng.uniform(0, 2 * np.pi, n), np.where(y == 1, 0.0, 3.0)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) + 0.7 * rng.normal(size=(n, 2))
    return X, y


def labels_of(model):
    """Return the labels of the supports, the oldest first."""
    state = model._learners[0].rule.__getstate__()
    return state["labels"][state["supports"].order[: model.n_support_]]


def test_it_ranks_a_rare_class_better_than_a_learner_that_counts_mistakes():
    X, y = rare_stream()
    scores = {
        cls: cls(budget=60, gamma=0.5, **more).progressive_fit(X, y).margins
        for cls, more in ((AUCMaximizer, {"random_state": 0}), (Forgetron, {}))
    }
    auc = {cls: roc_auc_score(y[1000:], margins[1000:]) for cls, margins in scores.items()}
    assert auc[AUCMaximizer] > 0.98
    assert auc[AUCMaximizer] > auc[Forgetron] + 0.04


def test_predict_treats_both_labels_as_equally_frequent():
    X, y = rare_stream()
    model = AUCMaximizer(budget=60, gamma=0.5, random_state=0).fit(X, y)
    rows, labels = rare_stream(seed=1)
    predicted = model.predict(rows)
    assert predicted[labels == 1].mean() > 0.85
    assert predicted[labels == 0].mean() < 0.15
    # For few mistakes, the threshold must be learned.
    calibrated = CalibratedClassifier(AUCMaximizer(budget=60, gamma=0.5, random_state=0)).fit(X, y)
    assert np.mean(calibrated.predict(rows) != labels) < 0.6 * np.mean(predicted != labels)


@pytest.mark.parametrize("budget", [1, 2, 7, 20])
def test_both_labels_have_their_share_of_the_budget(budget):
    X, y = rare_stream(share=0.05)
    model = AUCMaximizer(budget=budget, gamma=5.0, random_state=0)
    most = 0
    for rows in np.array_split(np.arange(len(y)), 40):
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
        labels = labels_of(model)
        assert np.all(np.abs(labels) == 1)
        np.testing.assert_array_equal(labels, 2 * y[model.support_] - 1)
        assert np.sum(labels == 1) >= most  # a rare label never loses a place that it has
        most = np.sum(labels == 1)
    assert len(labels) == budget
    assert abs(np.sum(labels)) <= 1


def test_the_supports_are_a_uniform_sample():
    # Rows that differ from all others, and so small a step that each has a loss.
    n, budget, runs = 40, 8, 400
    X, y = np.eye(n), np.where(np.arange(n) % 5 == 0, 1, -1)
    stored = np.zeros(n)
    for seed in range(runs):
        stored[AUCMaximizer(budget, 1e-9, kernel="linear", random_state=seed).fit(X, y).support_] += 1
    for label in (-1, 1):
        counts = stored[y == label]
        expected = runs * (budget // 2) / len(counts)
        assert counts.sum() == runs * (budget // 2)
        statistic = np.sum((counts - expected) ** 2 / (expected * (1 - expected / runs)))
        statistic *= (len(counts) - 1) / len(counts)
        assert statistic < chi2(len(counts) - 1).ppf(0.999), label


@pytest.mark.parametrize("name", STREAMS)
def test_long_steps_end_at_the_level_0(name):
    X, y = stream(name)
    model = AUCMaximizer(10, 100.0, gamma=0.5, random_state=0)
    updates, before = 0, np.zeros(0)
    for x, label in zip(X, y, strict=True):
        model.play(x, label, classes=[-1, 1])
        labels, coef = labels_of(model), model.dual_coef_
        if np.array_equal(coef, before) or abs(labels.sum()) == len(labels):
            continue
        values = model.decision_function(model.support_vectors_)
        level = values[labels > 0].mean() + values[labels < 0].mean()
        assert abs(level) < 1e-8 * max(1.0, np.abs(values).max())
        updates, before = updates + 1, coef
    assert updates > 0


def test_no_step_without_a_pair_with_a_loss():
    X, y = stream("random")
    model = AUCMaximizer(10, 0.5, gamma=0.5, random_state=0)
    trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
    tau = trace.ledger["tau"]
    assert np.isnan(tau[1:]).any()
    assert tau[0] == 0.0
    assert np.nanmax(tau) <= 0.5 * (1 + 1e-12)  # the mean over the pairs
    alone = AUCMaximizer(10, gamma=0.5).partial_fit(X[y > 0], y[y > 0], classes=[-1, 1])
    assert alone.n_support_ == 1
    assert not alone.dual_coef_.any()


def test_opposite_labels_give_the_opposite_function():
    X, y = stream("random")
    one, other = (
        AUCMaximizer(10, gamma=0.5, random_state=0).partial_fit(X, labels, classes=[-1, 1])
        for labels in (y, -y)
    )
    np.testing.assert_array_equal(one.dual_coef_, -other.dual_coef_)
    np.testing.assert_array_equal(one.support_, other.support_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rule: rule["labels"].__setitem__(rule["supports"]["order"][0], 0.5), "should be -1 or 1"),
        (lambda rule: rule["labels"].__setitem__(rule["supports"]["order"][-1], 1.0), "free slot"),
        (lambda rule: rule.update(labels=rule["labels"][:-1]), "labels"),
        (lambda rule: rule.update(negatives=0), "negatives"),
        (lambda rule: rule.update(positives=10**6), "positives"),
    ],
)
def test_invalid_states_are_refused(change, message):
    X, y = stream("random")
    model = CASES["auc"].model().fit(X, y)
    state = pickle.loads(pickle.dumps(model.learned_state()))
    change(state["_learners"]["states"][0])
    with pytest.raises(ValueError, match=message):
        CASES["auc"].model().set_learned_state(state)
