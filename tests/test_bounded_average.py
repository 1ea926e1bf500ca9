"""Averages in bounded memory, and counters for repeated rows in the kernel Perceptron."""

import pickle

import numpy as np
import pytest
from cases import CASES, gram_of, stream
from reference import KernelPerceptron as Reference
from reference import thinning as ref
from scipy.sparse import csr_array

import budgetron
from budgetron import linear
from budgetron._core.thinning import thin
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier

LABELS = ["remove oldest", "forgetron self-tuned", "forgetron basic", "forgetron greedy", "random", "cks"]


@pytest.mark.parametrize("seed", range(6))
def test_thin_equals_its_definition(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 2))
    X[10:15] = X[:5]  # repeated rows lie in the span of the others
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)) if seed % 2 else X @ X.T
    coef = rng.normal(size=30)
    for limit in (1, 2, 7):
        kept, new, residual = thin(K, coef, limit)
        assert kept.tolist() == ref.chosen(K, limit)
        expected, rest = ref.projection(K, coef, kept.tolist())
        np.testing.assert_allclose(K[:, kept] @ new, K[:, kept] @ expected, rtol=1e-7, atol=1e-7)
        assert residual == pytest.approx(rest, rel=1e-6, abs=1e-6)
    if seed % 2 == 0:  # the space of the linear kernel has two dimensions
        assert len(kept) == 2
        assert residual < 1e-6


def expansion(model):
    """Return the rows and coefficients of the stored average."""
    rule = model.learner_._learners[0].rule
    rows, coef = [], []
    for slab, sums in ((rule.supports, rule.average.total(rule.coef)), (rule.departed, rule.departed_sums)):
        slots = slab.order[: slab.m]
        rows.append(slab.rows(slots))
        coef.append(sums[slots])
    return np.vstack(rows), np.concatenate(coef) / model.rounds_


@pytest.mark.parametrize("budget", [3, 20, 1000])
@pytest.mark.parametrize("name", ["random", "nasty"])
@pytest.mark.parametrize("label", LABELS)
def test_residual_bounds_the_distance_from_the_average(label, name, budget):
    X, y = stream(name, 700, 1)
    learner = CASES[label].model()
    exact = AveragedClassifier(learner).fit(X, y)
    bounded = AveragedClassifier(learner, budget=budget).fit(X, y)
    (a, alpha), (b, beta) = expansion(exact), expansion(bounded)
    rows, coef = np.vstack([a, b]), np.append(alpha, -beta)
    K = np.exp(-0.5 * ((rows[:, None] - rows) ** 2).sum(axis=2))
    distance = np.sqrt(max(coef @ K @ coef, 0.0))
    assert distance <= bounded.residual_ + 1e-6
    difference = np.abs(exact.decision_function(X) - bounded.decision_function(X))
    assert difference.max() <= bounded.residual_ + 1e-6  # k(x, x) = 1
    assert bounded.learner_._learners[0].rule.departed.m < 2 * budget
    assert bounded.risk_bound_ == pytest.approx(exact.risk_bound_ + bounded.residual_)
    if budget == 1000:
        assert bounded.residual_ == 0
        np.testing.assert_allclose(bounded.decision_function(X), exact.decision_function(X), rtol=1e-12)
    elif budget == 3:
        assert bounded.residual_ > 0
    # The learner itself is the same.
    np.testing.assert_array_equal(bounded.learner_.support_, exact.learner_.support_)


@pytest.mark.parametrize("label", ["forgetron self-tuned", "random"])
def test_memory_is_bounded(label):
    X, y = stream("random", 3000, 2)
    sizes = []
    model = AveragedClassifier(CASES[label].model(), budget=15)
    for start in range(0, 3000, 500):
        model.partial_fit(X[start : start + 500], y[start : start + 500], classes=[-1, 1])
        sizes.append(model.nbytes_)
    assert len(set(sizes)) == 1
    plain = AveragedClassifier(CASES[label].model()).fit(X, y)
    assert plain.nbytes_ > 2 * sizes[0]
    assert model.score(X, y) > plain.score(X, y) - 0.05


@pytest.mark.parametrize("kind", ["dense", "float32", "sparse", "wide"])
def test_cuts_files_and_kinds_of_rows(kind, tmp_path):
    X, y = stream("sparse", 600, 3)
    if kind == "float32":
        X = X.astype(np.float32)
    elif kind == "sparse":
        X = csr_array(X)
    elif kind == "wide":
        X = csr_array(np.hstack([X, np.zeros((600, 1200))]))
    make = lambda: AveragedClassifier(budgetron.Forgetron(8, gamma=0.5), budget=6)  # noqa: E731
    whole = make().fit(X, y)
    pieces = make()
    for start in range(0, 600, 71):
        pieces.partial_fit(X[start : start + 71], y[start : start + 71], classes=[-1, 1])
        if start % 2:
            pieces = pickle.loads(pickle.dumps(pieces))
        else:
            budgetron.save(pieces, tmp_path / "model.bt")
            pieces = budgetron.load(tmp_path / "model.bt")
    tolerance = 1e-4 if kind == "float32" else 1e-9
    np.testing.assert_allclose(
        pieces.decision_function(X), whole.decision_function(X), rtol=tolerance, atol=tolerance
    )
    assert pieces.residual_ == pytest.approx(whole.residual_, rel=1e-3 if kind == "float32" else 1e-6)
    assert whole.residual_ > 0


def test_several_classes_and_bad_parameters():
    X, _ = stream("random", 600, 4)
    y = np.digitize(X[:, 0], [-0.3, 0.6])
    exact = AveragedClassifier(budgetron.Forgetron(8, gamma=0.5)).fit(X, y)
    bounded = AveragedClassifier(budgetron.Forgetron(8, gamma=0.5), budget=6).fit(X, y)
    difference = np.abs(exact.decision_function(X) - bounded.decision_function(X))
    assert difference.max() <= bounded.residual_ + 1e-9
    assert bounded.risk_bound_ == pytest.approx(exact.risk_bound_ + 2 * bounded.residual_)
    with pytest.raises(ValueError, match="budget is for kernel learners"):
        AveragedClassifier(linear.Perceptron(), budget=5).fit(X, y)
    with pytest.raises(ValueError, match="'budget' parameter"):
        AveragedClassifier(budgetron.Forgetron(8), budget=0).fit(X, y)


# ---------------------------------------------------------------------- counters


class Counters(Reference):
    """004 figure 8.9: `row[t]` is the first round with the row of round t, and alpha its counter."""

    def __init__(self, K, y, row):
        super().__init__(K, y)
        self.row = row

    def update(self, t, margin):
        first = self.row[t]
        known = [i for i in self.alpha if self.row[i] == first]
        place = known[0] if known else t
        self.alpha[place] = self.alpha.get(place, 0.0) + self.y[t]


def repeated(name, passes=4):
    X, y = stream(name, 120)
    return np.tile(X, (passes, 1)), np.tile(y, passes)


@pytest.mark.parametrize("kind", ["dense", "float32", "sparse", "wide"])
@pytest.mark.parametrize("name", ["random", "sparse", "nasty"])
def test_counters_equal_the_reference(name, kind):
    X, y = repeated(name)
    rows = {"dense": X, "float32": X.astype(np.float32), "sparse": csr_array(X)}.get(kind)
    if kind == "wide":
        rows = csr_array(np.hstack([X, np.zeros((len(X), 1200))]))
    K = np.tile(gram_of(name, "rbf", 120), (4, 4))
    first = {}
    row = [first.setdefault(x.tobytes(), t) for t, x in enumerate(X)]
    reference = Counters(K, y, row)
    margins = [reference.play(t) for t in range(len(y))]
    plain = budgetron.KernelPerceptron(gamma=0.5)
    plain_trace = plain.progressive_fit(rows, y, classes=[-1, 1])
    model = budgetron.KernelPerceptron(counters=True, gamma=0.5)
    trace = model.progressive_fit(rows, y, classes=[-1, 1])
    if kind != "float32" and np.abs(margins)[np.abs(margins) > 0].min() > 1e-9:
        np.testing.assert_allclose(trace.margins, margins, rtol=1e-9, atol=1e-9)
        assert dict(zip(model.support_.tolist(), model.dual_coef_[0], strict=True)) == reference.alpha
    np.testing.assert_array_equal(trace.mistakes, plain_trace.mistakes)
    np.testing.assert_allclose(trace.margins, plain_trace.margins, rtol=1e-4, atol=1e-4)
    assert model.n_support_ < plain.n_support_ == plain.mistakes_
    distinct = {x.tobytes() for x in model.support_vectors_[:] if not hasattr(x, "indptr")}
    assert len(distinct) in (0, model.n_support_)
    one_by_one = budgetron.KernelPerceptron(counters=True, gamma=0.5)
    for i in range(len(y)):
        one_by_one.play(rows[[i]] if kind in ("sparse", "wide") else rows[i], y[i], classes=[-1, 1])
    np.testing.assert_array_equal(one_by_one.support_, model.support_)
    np.testing.assert_array_equal(one_by_one.dual_coef_, model.dual_coef_)


@pytest.mark.parametrize("wrapper", ["average", "journal"])
def test_counters_with_past_hypotheses(wrapper):
    X, y = repeated("random", 3)
    make = AveragedClassifier if wrapper == "average" else PenalizedRiskClassifier
    plain = make(budgetron.KernelPerceptron(gamma=0.5)).fit(X, y)
    counted = make(budgetron.KernelPerceptron(counters=True, gamma=0.5)).fit(X, y)
    np.testing.assert_allclose(counted.decision_function(X), plain.decision_function(X), rtol=1e-9, atol=1e-9)
    assert counted.learner_.n_support_ < plain.learner_.n_support_


def test_a_counter_may_return_to_0():
    model = budgetron.KernelPerceptron(counters=True, kernel="linear")
    X = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    model.fit(X, [1, -1, 1])
    assert model.n_support_ == 1
    assert model.dual_coef_.tolist() == [[1.0]]
    assert model.mistakes_ == 3
