"""Exported `BudgetClassifier` models agree with the model to float32 accuracy.

A vote changes at once if an expert's scores are tied. Rows where a voter is that close to a tie are compared
up to the shares of such voters.
"""

import re

import numpy as np
import onnx
import onnx.reference
import pytest
from exported import FORMATS, runner
from reference import frozen_portfolio
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from budgetron import BudgetClassifier, CalibratedClassifier, SecondOrderProjectron, export
from budgetron._base.access import add_class, add_features, hypotheses_of
from budgetron.portfolio import Plan
from budgetron.portfolio._frozen import frozen

# The largest error of a voter's score, relative to the sizes of its terms.
TOLERANCE = 2e-6
# The rounding error of a margin or a probability whose terms are at most 1.
ROUNDING = 1e-6

LABELS = {
    "two numbers": [0, 1],
    "two texts": ["no", "yes"],
    "three numbers": [-1, 4, 17],
    "four texts": ["a", "b", "c", "d"],
}


@pytest.fixture(params=FORMATS)
def run(request, tmp_path):
    """Return the function that runs the exported model."""
    return runner(request.param, tmp_path)


def stream(n, classes, seed=0, changed=0):
    """Return rings, with features of various means and deviations, in float32.

    Two features carry the class, and others after `changed` rows. Of the others, one has a large mean, one is
    constant, one is almost always 0, and one is tiny.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    informative = np.where(np.arange(n)[:, None] < (changed or n), X[:, :2], X[:, 2:4])
    codes = (np.hypot(*informative.T) * classes / 2.4 + 0.1 * rng.normal(size=n)).astype(int)
    X[:, 4] = 300_000.0 + 20.0 * X[:, 4]
    X[:, 5] = 0.1
    X[:, 6] *= rng.random(n) < 0.02
    X[:, 7] *= 1e-6
    return X.astype(np.float32), np.clip(codes, 0, classes - 1)


def fitted(n, labels="two numbers", dtype=np.float64, memory="1MB", changed=0):
    """Return a model after n rows."""
    names = np.array(LABELS[labels])
    X, codes = stream(n, len(names), changed=changed)
    model = BudgetClassifier(memory, random_state=0)
    return model.partial_fit(X.astype(dtype), names[codes], classes=names)


def portfolio_of(model):
    return hypotheses_of(model)[0]


def assert_agrees(model, X, scores, labels, probabilities, at_least=0.98):
    """Compare the results of an exported model with the model, and with the literal reference in float64."""
    given = X.toarray() if not isinstance(X, np.ndarray) else X
    described = frozen(portfolio_of(model))
    dtype = portfolio_of(model).dtype
    margins = model.decision_function(X.astype(dtype)).reshape(len(given), -1)
    assert scores.shape == margins.shape
    errors, ties = np.zeros(len(given)), np.zeros(len(given))
    expected = np.zeros(margins.shape)
    for t, x in enumerate(given.astype(np.float64)):
        combiners, experts = frozen_portfolio.voters(described, x)
        expected[t] = frozen_portfolio.margins(described, combiners, experts)
        close = [voter.is_close_to_a_tie(TOLERANCE) for voter in [*combiners, *experts]]
        ties[t] = 2.0 * described.shares[close].sum()
        sizes = described.blend @ [voter.sizes for voter in combiners]
        errors[t] = ROUNDING + 0.5 * TOLERANCE * sizes.max()
    clear = ties == 0.0
    assert clear.mean() >= at_least
    assert (np.abs(scores - expected).max(axis=1) <= errors + ties).all()
    assert (np.abs(scores - margins).max(axis=1) <= errors)[clear].all()
    np.testing.assert_array_equal(labels[clear], model.predict(X.astype(dtype))[clear])
    slope, _, square = model.sigmoids_[0, :3]
    errors = ROUNDING + errors * slope / np.sqrt(square)
    differences = np.abs(probabilities - model.predict_proba(X.astype(dtype))).max(axis=1)
    assert (differences <= errors)[clear].all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)


def active(model):
    return [expert for expert in portfolio_of(model).pool.experts if expert.active]


def kinds(model):
    """Return the kinds of the active experts."""
    return {expert.design.kind for expert in active(model)}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 10, 40, 300, 600, 1100])
def test_every_stage_of_a_model(n, dtype, labels, run):
    # With 4 MB, there is room for an expert with learned scales besides the others.
    model = fitted(n, labels, dtype, memory="4MB" if n == 600 else "1MB")
    expected = {300: {"kernel", "recent"}, 600: {"kernel", "recent", "scaled"}, 1100: {"recent"}}
    assert kinds(model) >= {"first order", "linear"} | expected.get(n, set())
    assert any(expert.design.has_kernel for expert in active(model)) == (n >= 16)
    # At the reviews, experts end.
    assert any(expert.ended for expert in portfolio_of(model).pool.experts) == (n > 256)
    X = stream(100, len(LABELS[labels]), seed=1)[0]
    assert_agrees(model, X, *run(model, X))


def test_experts_that_started_after_a_change(run):
    model = fitted(6000, "three numbers", changed=3000, memory="2MB")
    experts = portfolio_of(model).pool.experts
    assert any(expert.late and expert.active for expert in experts)
    assert any(expert.ended for expert in experts)
    X = stream(200, 3, seed=1)[0]
    assert_agrees(model, X, *run(model, X))


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("memory", ["600kB", "4MB"])
def test_digits(memory, classes, run):
    # With less memory, kernel experts have no linear part. Some features are constant.
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    model = BudgetClassifier(memory, random_state=0).fit(X[:1000], y[:1000] % classes)
    second = [e for e in portfolio_of(model).pool.experts if e.design.second_order and e.learner is not None]
    assert second
    assert all(expert.linear == (memory == "4MB") for expert in second)
    assert_agrees(model, X[1000:1200], *run(model, X[1000:1200]))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_wide_rows(dtype, classes, run):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 1200)) < 0.02, rng.normal(size=(300, 1200)), 0.0).astype(np.float32)
    y = X.reshape(-1, 3, 400).sum(axis=2).argmax(axis=1) % classes
    model = BudgetClassifier("2MB").fit(csr_array(X[:200].astype(dtype)), y[:200])
    assert kinds(model) == {"first order", "linear"}
    scores, labels, probabilities = run(model, X[200:])
    assert_agrees(model, csr_array(X[200:]), scores, labels, probabilities)


def test_rows_far_from_all_supports(run):
    # Kernel values are too small for float32, and experts vote by the sign of their sum.
    for dtype in (np.float64, np.float32):
        for labels in ("two texts", "four texts"):
            model = fitted(300, labels, dtype, memory="300kB")
            recent = [e for e in portfolio_of(model).pool.experts if e.design.kind == "recent"]
            X = stream(200, 4, seed=1)[0]
            X[:, :4] *= np.linspace(1.0, 8.0, 200, dtype=np.float32)[:, None]
            views = portfolio_of(model).pool.scaler.apply(X.astype(dtype))
            values = np.abs(recent[1].learner.decide(views)).reshape(200, -1).max(axis=1)
            assert (values < 1e-45).mean() > 0.2, "the test has rows with tiny kernel values"
            assert_agrees(model, X, *run(model, X))


def test_a_feature_that_was_constant(run):
    # 0.1 has no exact representation. In float32 it is another number than the mean in float64.
    X, codes = stream(400, 2)
    X = X.astype(np.float64)
    X[:, 5] = 0.1
    model = BudgetClassifier("1MB", random_state=0).fit(X[:300], codes[:300])
    scores, _, probabilities = run(model, X[300:].astype(np.float32))
    np.testing.assert_allclose(scores[:, 0], model.decision_function(X[300:]), rtol=0, atol=1e-3)
    np.testing.assert_allclose(probabilities, model.predict_proba(X[300:]), rtol=0, atol=1e-3)
    # Another value is far from the mean, in units of the deviation.
    X[300:, 5] = 0.1001
    assert_agrees(model, X[300:].astype(np.float32), *run(model, X[300:].astype(np.float32)))


@pytest.mark.parametrize("labels", ["two numbers", "four texts"])
def test_ties_of_votes(labels, run):
    # Four voters have equal shares, so that votes are often tied. The first combiner decides, or the first
    # class wins.
    model = fitted(300, labels)
    combination = portfolio_of(model).combination
    combination.shares[:] = 0.0
    combination.shares[:4] = 0.25
    described = frozen(portfolio_of(model))
    X = stream(300, 4, seed=1)[0]
    tied = 0
    for x in X.astype(np.float64):
        combiners, experts = frozen_portfolio.voters(described, x)
        votes = np.zeros(len(LABELS[labels]))
        for share, voter in zip(described.shares, [*combiners, *experts], strict=True):
            votes[voter.choice] += share
        tied += np.diff(np.sort(votes))[-1] < 1e-12
    assert tied > 3
    assert_agrees(model, X, *run(model, X))


def test_probabilities_agree_with_the_predicted_class(run):
    # The sigmoid alone would make the second class more probable everywhere.
    model = fitted(300)
    model.sigmoids_[0, 1] = 5.0
    X = stream(200, 2, seed=1)[0]
    scores, labels, probabilities = run(model, X)
    assert set(labels.tolist()) == {0, 1}
    assert (probabilities[labels == 0] == 0.5).all()
    assert_agrees(model, X, scores, labels, probabilities)


@pytest.mark.parametrize("labels", ["two texts", "three numbers"])
def test_a_calibrated_portfolio(labels, run):
    names = np.array(LABELS[labels])
    X, codes = stream(500, len(names))
    model = CalibratedClassifier(BudgetClassifier("1MB", random_state=0)).fit(X[:300], names[codes[:300]])
    scores, predicted, probabilities = run(model, X[300:])
    described = frozen(portfolio_of(model.learner_))
    clear = np.array(
        [
            not any(
                voter.is_close_to_a_tie(TOLERANCE)
                for group in frozen_portfolio.voters(described, x)
                for voter in group
            )
            for x in X[300:].astype(np.float64)
        ]
    )
    assert clear.mean() > 0.95
    expected = model.decision_function(X[300:]).reshape(scores.shape)
    np.testing.assert_allclose(scores[clear], expected[clear], rtol=0, atol=1e-4)
    np.testing.assert_allclose(probabilities[clear], model.predict_proba(X[300:])[clear], rtol=0, atol=1e-4)
    assert (predicted == model.predict(X[300:]))[clear].mean() > 0.99


def test_classes_and_features_that_were_added_later(run):
    model = fitted(300)
    add_class(model, 5)
    add_features(model, 10)
    X = np.hstack([stream(200, 3, seed=1)[0], np.ones((200, 2), np.float32)])
    assert_agrees(model, X, *run(model, X))


@pytest.mark.parametrize("labels", ["two texts", "three numbers"])
def test_an_onnx_file_means_the_same_to_another_runtime(labels):
    model = fitted(1100, labels)
    content, X = export.onnx(model), stream(50, 3, seed=1)[0]
    scores, predicted, probabilities = runner("onnx", None)(model, X)
    literal = onnx.reference.ReferenceEvaluator(onnx.load_from_string(content)).run(None, {"X": X})
    np.testing.assert_array_equal(literal[0], predicted)
    np.testing.assert_allclose(literal[1], scores, rtol=0, atol=5e-5)
    np.testing.assert_allclose(literal[2], probabilities, rtol=0, atol=5e-5)


PLANS = {
    "one combiner": Plan(forgetting=False),
    "exponential weights": Plan(sharing=False),
    "linear experts only": Plan(second_order=False, recency=False),
}


@pytest.mark.parametrize("label", PLANS)
def test_portfolios_with_fewer_parts(label, run):
    class Smaller(BudgetClassifier):
        _plan = PLANS[label]

    X, codes = stream(400, 3)
    model = Smaller("1MB", random_state=0).fit(X[:300], codes[:300])
    assert_agrees(model, X[300:], *run(model, X[300:]))


def test_a_batch_without_rows_and_single_rows():
    model = fitted(300, "four texts")
    X = stream(3, 4, seed=1)[0]
    together = runner("onnx", None)(model, X)
    for i in range(3):
        for one, all_rows in zip(runner("onnx", None)(model, X[i : i + 1]), together, strict=True):
            if one.dtype == object:
                assert one[0] == all_rows[i]
            else:
                np.testing.assert_allclose(one[0], all_rows[i], rtol=0, atol=1e-6)
    scores, labels, probabilities = runner("onnx", None)(model, X[:0])
    assert (scores.shape, labels.shape, probabilities.shape) == ((0, 4), (0,), (0, 4))


def test_later_rounds_do_not_change_what_is_frozen():
    model = fitted(300)
    described, X = frozen(portfolio_of(model)), stream(20, 2, seed=1)[0].astype(np.float64)
    before = [frozen_portfolio.margins(described, *frozen_portfolio.voters(described, x)) for x in X]
    np.testing.assert_allclose(np.ravel(before), model.decision_function(X), rtol=0, atol=1e-9)
    more, codes = stream(500, 2, seed=2)
    model.partial_fit(more.astype(np.float64), codes)
    after = [frozen_portfolio.margins(described, *frozen_portfolio.voters(described, x)) for x in X]
    np.testing.assert_array_equal(before, after)
    assert not np.allclose(np.ravel(before), model.decision_function(X))


@pytest.mark.parametrize("exported", [export.onnx, export.c])
def test_exporting_changes_nothing_and_is_deterministic(exported):
    model = fitted(600, "four texts")
    X = stream(100, 4, seed=1)[0]
    before = model.decision_function(X)
    assert exported(model) == exported(model) == exported(fitted(600, "four texts"))
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_supports_are_stored_once():
    model = fitted(300, "four texts")
    described = frozen(portfolio_of(model))
    views = {}
    for expert in described.experts:
        rows = views.setdefault((expert.standardised, expert.scales.tobytes()), [])
        rows += [row.astype(np.float32).tobytes() for row in expert.supports]
    stored = sum(len(set(rows)) for rows in views.values())
    assert stored < sum(map(len, views.values())) / 2
    header = export.c(model)
    tables = re.findall(r"model_supports\d+\[(\d+)\]\[MODEL_FEATURES\]", header.split("model_scores")[0])
    assert sum(map(int, tables)) == stored
    shapes = [list(c.dims) for c in onnx.load_from_string(export.onnx(model)).graph.initializer]
    supports = [shape[1] for shape in shapes if len(shape) == 2 and shape[0] == 8 and shape[1] != 4]
    assert sum(supports) == stored


def test_classes_share_the_supports_of_an_onnx_file():
    X, y = load_digits(return_X_y=True)
    model = SecondOrderProjectron(200, gamma=0.001, loss="logistic").fit(X, y)
    numbers = model.n_support_ * (64 + 10) + 10 * 65
    assert 4 * numbers < len(export.onnx(model)) < 4 * numbers + 4000


@pytest.mark.parametrize("exported", [export.onnx, export.c])
def test_portfolios_that_cannot_be_exported(exported, tmp_path):
    with pytest.raises(NotFittedError):
        exported(BudgetClassifier(), tmp_path / "exported")
    X, codes = stream(100, 2)
    X = X.astype(np.float64)
    X[:, 0] *= 1e50
    model = BudgetClassifier("1MB").fit(X, codes)
    with pytest.raises(ValueError, match=r"means up to .* are too large for float32; scale"):
        exported(model, tmp_path / "exported")
    assert list(tmp_path.iterdir()) == []
