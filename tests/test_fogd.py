"""FOGD: equal to its reference in every round, for any cut, for every form of the rows."""

import copy
import pickle

import numpy as np
import pytest
import reference as ref
from cases import STREAMS, stream
from scipy.sparse import csr_array

import budgetron
from budgetron import FOGD, OGD, certify
from budgetron._base.access import competitor_kernel
from budgetron._core import fourier

VARIANTS = {
    "hinge": {"eta": 0.3},
    "hinge decay": {"eta": 0.3, "decay": 0.2},
    "logistic": {"eta": 0.7, "decay": 0.01, "loss": "logistic", "schedule": "sqrt"},
    "squared": {"eta": 0.2, "loss": "squared"},
    "pegasos": {"eta": 2.0, "decay": 0.5, "schedule": "inverse"},
}


def make(label, **parameters):
    return FOGD(**{"n_components": 7, "gamma": 0.5, "random_state": 3} | VARIANTS[label] | parameters)


def rows(name, classes, n=240):
    """Return a stream, with -1 and +1 or with the numbers of more classes."""
    X, y = stream(name, n)
    if classes == 2:
        return X, y
    return X, (np.floor(3 * X[:, 0]).astype(int) + (y > 0)) % classes


def replay(model, X, y, classes):
    """Return the reference after all rounds, the scores and the ledger of each round."""
    parameters = model.get_params()
    rng = model._generators(1)[0]
    del parameters["random_state"]
    slow = ref.FOGD(rng, X.shape[1], classes=classes, **parameters)
    scores, ledger = [], []
    for x, label in zip(X, y, strict=True):
        scores.append(slow.play(x.tolist(), label))
        assert slow.gap > 1e-10, "a decision that rounding may change"
        ledger.append(slow.entry)
    return slow, np.array(scores), ledger


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("label", VARIANTS)
def test_equals_reference(label, name, classes):
    X, y = rows(name, classes)
    model = make(label)
    slow, scores, ledger = replay(model, X, y, classes)
    trace = model.progressive_fit(X, y, ledger=True)
    expected = scores[:, 0] if classes == 2 else scores
    np.testing.assert_allclose(trace.margins, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.frequencies_, slow.U, rtol=1e-12)
    np.testing.assert_allclose(model.weights_, slow.W, rtol=1e-9, atol=1e-9)
    for entry in ("tau", "norm"):
        values = trace.ledger[entry]
        np.testing.assert_allclose(values, [e[entry] for e in ledger], rtol=1e-8, atol=1e-8, err_msg=entry)
    assert model.mistakes_ == slow.mistakes == trace.mistakes.sum()
    assert not trace.support_sizes.any()
    np.testing.assert_allclose(
        model.decision_function(X[:9]).T,
        np.array([slow.scores(x.tolist()) for x in X[:9]]).T.squeeze(),
        atol=1e-9,
    )


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_the_gradients_of_the_reference_are_those_of_its_loss(loss, classes):
    rng = np.random.default_rng(0)
    slow = ref.FOGD(rng, 3, 5, 0.5, 0.1, loss=loss, classes=classes)
    for y in [-1, 1] if classes == 2 else range(4):
        s = rng.normal(size=1 if classes == 2 else 4)
        steps = 1e-6 * np.eye(len(s))
        slopes = [(slow.loss_of(s + e, y) - slow.loss_of(s - e, y)) / 2e-6 for e in steps]
        np.testing.assert_allclose(slow.gradients(s, y), slopes, atol=1e-6)


def test_the_inner_product_of_features_approximates_the_kernel():
    X, _ = stream("random")
    U = FOGD(20_000, gamma=0.5, random_state=0).fit(X[:50], [0, 1] * 25).frequencies_
    Z = fourier.fourier_features(X[:50], U)
    np.testing.assert_allclose((Z**2).sum(axis=1), 1.0, rtol=1e-12)
    distances = ((X[:50, None] - X[None, :50]) ** 2).sum(axis=2)
    np.testing.assert_allclose(Z @ Z.T, np.exp(-0.5 * distances), atol=0.03)


def state(model):
    return model.weights_, model.frequencies_, model.mistakes_, model.rounds_


def assert_same(a, b, tolerance=1e-9):
    for left, right in zip(state(a), state(b), strict=True):
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("label", VARIANTS)
def test_any_cut(label, classes, monkeypatch):
    X, y = rows("random", classes)
    whole = make(label).fit(X, y)
    rng = np.random.default_rng(0)
    for sparse in (False, True):
        pieces = np.split(np.arange(len(y)), np.sort(rng.integers(0, len(y), 5)))
        model = make(label)
        for piece in pieces:
            part = csr_array(X[piece]) if sparse else X[piece]
            if len(piece):
                model.partial_fit(part, y[piece], classes=np.unique(y))
        assert_same(model, whole)
    one_by_one = make(label)
    for i, (x, c) in enumerate(zip(X, y, strict=True)):
        one_by_one.play(csr_array(x[None]) if i % 2 else x, c, classes=np.unique(y))
    assert_same(one_by_one, whole)
    monkeypatch.setattr(fourier, "BLOCK_BYTES", 1)  # short blocks
    assert_same(make(label).fit(X, y), whole)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("label", VARIANTS)
def test_float32(label, classes):
    X, y = rows("random", classes, 120)
    whole = make(label).progressive_fit(X, y)
    for part in (X.astype(np.float32), csr_array(X.astype(np.float32))):
        model = make(label)
        trace = model.progressive_fit(part, y)
        assert model.frequencies_.dtype == np.float32
        np.testing.assert_allclose(trace.margins, whole.margins, atol=2e-3)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("classes", [2, 4])
def test_a_copy_continues_exactly(classes, copied, tmp_path):
    X, y = rows("random", classes)
    model = make("logistic").partial_fit(X[:100], y[:100], classes=np.unique(y))
    twin = copied(model)
    budgetron.save(model, tmp_path / "model")
    loaded = budgetron.load(tmp_path / "model")
    model.partial_fit(X[100:], y[100:])
    for other in (twin, loaded):
        assert other.rounds_ == 100
        other.partial_fit(X[100:], y[100:])
        for left, right in zip(state(model), state(other), strict=True):
            np.testing.assert_array_equal(left, right)


def test_features_that_are_added_later_get_the_frequencies_of_a_model_that_had_them():
    X, y = stream("random")
    whole = make("hinge").fit(X, y)
    model = make("hinge").fit(np.hstack([X[:, :1], np.zeros((len(X), 0))]), y)
    model._add_features(3)
    np.testing.assert_array_equal(model.frequencies_, whole.frequencies_)
    assert model.decision_function(X).shape == (len(X),)
    twin = pickle.loads(pickle.dumps(make("hinge").fit(X[:, :1], y)))
    twin._add_features(3)  # the generator continues where it was
    np.testing.assert_array_equal(twin.frequencies_, whole.frequencies_)


def test_classes_that_are_added_later():
    X, y = rows("random", 4)
    model = make("hinge").partial_fit(X[:60], y[:60] % 2, classes=[0, 1])
    before = model.decision_function(X)
    model.partial_fit(X[60:], y[60:], admit=True)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    twin = make("hinge").partial_fit(X[:60], y[:60] % 2, classes=[0, 1])
    twin._admit(2)
    np.testing.assert_allclose(
        twin.decision_function(X), np.column_stack([-before, before, 0 * before]), atol=1e-12
    )


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s: s.update(frequencies=s["frequencies"][:-1].copy()), "frequencies"),
        (lambda s: s.update(frequencies=np.full_like(s["frequencies"], np.nan)), "frequencies"),
        (lambda s: s.update(bits={}), "generator|bits|random"),
        (lambda s: s["rule"].update(weights=np.zeros(3)), "weights"),
        (lambda s: s.pop("rule"), "rule"),
    ],
)
def test_an_invalid_state_is_refused(spoil, message):
    X, y = stream("random")
    model = make("hinge").fit(X, y)
    broken = copy.deepcopy(model.__getstate__())
    spoil(broken["_learners"]["states"][0])
    with pytest.raises(ValueError, match=message):
        make("hinge").__setstate__(broken)


def test_large_values_are_refused_and_change_nothing():
    X, y = stream("random")
    model = make("hinge").fit(X, y)
    before = model.weights_
    large = X[:5].copy()
    large[3, 1] = 1e308
    for attempt in (
        lambda: model.partial_fit(large, y[:5]),
        lambda: model.play(large[3], 1.0),
        lambda: model.decision_function(large),
    ):
        with pytest.raises(ValueError, match="feature 1"):
            attempt()
        np.testing.assert_array_equal(model.weights_, before)
        assert model.rounds_ == len(y)
    with pytest.raises(ValueError, match=r"eta \* decay must be at most 1"):
        FOGD(eta=2.0, decay=1.0).fit(X, y)


def test_divergence_is_an_error_that_changes_nothing():
    X, y = stream("random")
    model = FOGD(5, eta=1e200, loss="squared", gamma=0.5, random_state=0)
    with pytest.raises(ValueError, match="use an eta below"):
        model.fit(X, y)
    assert not model.__sklearn_is_fitted__()
    model = FOGD(5, eta=1e150, loss="squared", gamma=0.5, random_state=0).partial_fit(
        X[:1], y[:1], classes=[-1, 1]
    )
    before = model.weights_
    with pytest.raises(ValueError, match="use an eta below"):
        model.play(X[1], y[1])
    np.testing.assert_array_equal(model.weights_, before)
    assert model.rounds_ == 1


def test_the_certificate_compares_with_functions_of_the_approximate_kernel():
    X, y = stream("random")
    model = make("hinge", n_components=40)
    trace = model.progressive_fit(X, y, ledger=True)
    U, coef = model.frequencies_, np.ones(5)
    Z = fourier.fourier_features(X[:5], U)
    certificate = certify(model, X, y, trace, (X[:5], coef))
    assert certificate.norm == pytest.approx(float(np.linalg.norm(coef @ Z)))
    losses = np.maximum(0, 1 - y * (fourier.fourier_features(X, U) @ (coef @ Z))).sum()
    assert certificate.losses == pytest.approx(float(losses))
    updates = np.count_nonzero(trace.ledger["tau"] > 0)
    assert certificate.bound == pytest.approx(losses + certificate.norm**2 / 0.6 + 0.15 * updates)
    assert "hinge losses" in str(certificate)
    kernel = competitor_kernel(model)
    assert kernel.equals(competitor_kernel(copy.deepcopy(model)))


@pytest.mark.parametrize("cls", [FOGD, OGD])
def test_the_certificate_names_the_loss_of_the_learner(cls):
    X, y = stream("random")
    model = cls(eta=0.2, loss="squared", gamma=0.5)
    certificate = certify(model, X, y, model.progressive_fit(X, y, ledger=True))
    assert "squared losses" in str(certificate)
    margins = y * ((competitor_kernel(model).matrix(X, certificate.expansion[0])) @ certificate.expansion[1])
    assert certificate.losses == pytest.approx(float(((1 - margins) ** 2).sum() / 2))


def test_memory_does_not_grow():
    X, y = stream("random")
    model = make("hinge").partial_fit(X[:2], y[:2], classes=[-1, 1])
    before = model.nbytes_
    assert model.partial_fit(X, y).nbytes_ == before
