"""The certificate of `BudgetClassifier` against the best sequence of its combiners and experts."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from budgetron import BudgetClassifier, bounds, certify, linear
from budgetron._base.access import hypotheses_of
from budgetron.bounds import AssumptionError
from budgetron.experts import ExponentialWeights, FixedShare, best_sequence


def sectors(n, n_classes, seed=0, noise=0.1, turn=0.0):
    """Return points of the plane, and the sector of each; all sectors turn by `turn` radians per row."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    angles = np.arctan2(X[:, 1], X[:, 0]) + turn * np.arange(n)
    codes = np.floor(angles / (2 * np.pi) * n_classes).astype(int) % n_classes
    return X, np.where(rng.random(n) < noise, rng.integers(n_classes, size=n), codes)


def alternating(seed, part=600):
    """Return a stream in which labels depend on the row, or on the label before, and this changes five times.

    No expert learns the second kind, where the best of them is one that follows recent rows.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6 * part, 4))
    y = X[:, 0] * X[:, 1] > 0.0
    for start in (part, 3 * part, 5 * part):
        y[start : start + part] = np.where(rng.random(part) < 0.03, -1, 1).cumprod() > 0
    return X, y.astype(int)


STREAMS = {
    "two classes": lambda seed: sectors(700, 2, seed),
    "two classes, noise": lambda seed: sectors(700, 2, seed, noise=0.6),
    "three classes": lambda seed: sectors(700, 3, seed),
    "seven classes": lambda seed: sectors(700, 7, seed, noise=0.0),
    "two classes, drift": lambda seed: sectors(700, 2, seed, turn=0.01),
    "four classes, drift": lambda seed: sectors(700, 4, seed, turn=0.01),
    "changes": lambda seed: alternating(seed, 120),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", STREAMS)
def test_the_bound_holds_for_every_number_of_switches(name, seed):
    X, y = STREAMS[name](seed)
    model = BudgetClassifier("300kB", random_state=seed)
    trace = model.progressive_fit(X, y, ledger=True)
    table, voters = trace.ledger["expert_losses"], len(model.experts_)
    assert table.shape == (len(y), voters)
    certificates = [certify(model, X, y, trace, k) for k in range(0, 25, 3)]
    for k, certificate in zip(range(0, 25, 3), certificates, strict=True):
        best = best_sequence(table, k)
        assert certificate.holds
        assert certificate.losses == best.loss
        assert certificate.count == pytest.approx(trace.ledger["loss"].sum())
        assert certificate.bound == pytest.approx(
            best.loss + bounds.fixed_share(voters, len(y), k, 0.1, 3e-4)
        )
        # In a mistake, the classes that are wrong have at least half of the votes.
        assert trace.mistakes.sum() <= 2.0 * certificate.count + 1e-9
    assert np.all(trace.ledger["loss"][trace.mistakes] >= 0.5 - 1e-9)
    chosen = certify(model, X, y, trace)
    assert chosen.bound <= min(certificate.bound for certificate in certificates)
    assert "the best " in chosen.competitor


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_ledger_equals_the_counts_of_the_model(n_classes):
    X, y = sectors(700, n_classes)
    model = BudgetClassifier("300kB", random_state=0)
    trace = model.progressive_fit(X, y, ledger=True)
    ledger, losses = trace.ledger, hypotheses_of(model)[0].combination.losses
    assert set(ledger) == {"loss", "weight", "expert_losses"}
    np.testing.assert_array_equal(ledger["expert_losses"].sum(axis=0), losses[:-1])
    assert ledger["loss"].sum() == pytest.approx(losses[-1])
    np.testing.assert_array_equal(ledger["weight"], 1.0)
    # The losses of the vote are those of `FixedShare` on the losses of its experts.
    shared = FixedShare(0.1, 3e-4).play_losses(ledger["expert_losses"])
    np.testing.assert_allclose(ledger["loss"], shared.losses, atol=1e-12)
    # A ledger does not change the rounds, and is not recorded unless it is requested.
    other = BudgetClassifier("300kB", random_state=0)
    plain = other.progressive_fit(X, y)
    assert plain.ledger is None
    np.testing.assert_array_equal(plain.margins, trace.margins)
    assert other.nbytes_ == model.nbytes_
    # It does not depend on how the stream is cut.
    cut = BudgetClassifier("300kB", random_state=0)
    parts = [
        cut.progressive_fit(X[a:b], y[a:b], classes=np.unique(y), ledger=True)
        for a, b in ((0, 1), (1, 300), (300, 700))
    ]
    for name, values in ledger.items():
        joined = np.concatenate([part.ledger[name] for part in parts])
        np.testing.assert_allclose(joined, values, atol=1e-9, err_msg=name)


def test_without_a_ledger_the_best_expert_is_the_competitor():
    X, y = sectors(500, 3)
    model = BudgetClassifier("300kB", random_state=0)
    plain = model.progressive_fit(X, y)
    with_ledger = BudgetClassifier("300kB", random_state=0).progressive_fit(X, y, ledger=True)
    for competitor in ("best", 0):
        a, b = certify(model, X, y, plain, competitor), certify(model, X, y, with_ledger, 0)
        assert (a.losses, a.competitor) == (b.losses, b.competitor)
        assert (a.bound, a.count) == (pytest.approx(b.bound), pytest.approx(b.count))
        assert a.bound == a.losses + model.regret_bound_
    with pytest.raises(ValueError, match="ledger=True"):
        certify(model, X, y, plain, 1)
    with pytest.raises(AssumptionError, match="a number of switches from 0 to 499"):
        certify(model, X, y, with_ledger, 500)
    for competitor in ("worst", -1, 1.5, X[0]):
        with pytest.raises(ValueError, match="or a number of switches, for BudgetClassifier"):
            certify(model, X, y, with_ledger, competitor)


@pytest.mark.parametrize("weights", [{0: 3.0}, {0: 0.2, 1: 0.0}, {1: 25.0}])
def test_weights_of_classes(weights):
    X, y = sectors(700, 3, noise=0.3)
    model = BudgetClassifier("300kB", random_state=0, class_weight=weights)
    trace = model.progressive_fit(X, y, ledger=True)
    w = np.array([weights.get(label, 1.0) for label in y])
    np.testing.assert_array_equal(trace.ledger["weight"], w)
    table = w[:, None] * trace.ledger["expert_losses"]
    for k in (0, 2, 10):
        certificate = certify(model, X, y, trace, k)
        cost = bounds.fixed_share(table.shape[1], 700, k, 0.1, 3e-4) - 0.1 * 700 / 8
        regret = cost + 0.1 / 8 * np.square(w).sum()
        assert certificate.bound == pytest.approx(best_sequence(table, k).loss + regret)
        assert certificate.count == pytest.approx(w @ trace.ledger["loss"])
        assert certificate.holds
    unrecorded = BudgetClassifier("300kB", random_state=0, class_weight=weights)
    plain = unrecorded.progressive_fit(X, y)
    with pytest.raises(ValueError, match="ledger=True"):  # weights are recorded there
        certify(unrecorded, X, y, plain)


def test_sparse_rows_of_many_features():
    rng = np.random.default_rng(0)
    X = csr_array((rng.random((400, 1200)) < 0.01).astype(np.float32))
    y = np.where(X[:, :600].sum(axis=1) > X[:, 600:].sum(axis=1), 2, 5)
    model = BudgetClassifier("2MB", random_state=0)
    trace = model.progressive_fit(X, y, ledger=True)
    for k in (0, 4):
        assert certify(model, X, y, trace, k).holds


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_whose_best_expert_changes_five_times(seed):
    X, y = alternating(seed)
    model = BudgetClassifier("1MB", random_state=0)
    trace = model.progressive_fit(X, y, ledger=True)
    experts = trace.ledger["expert_losses"][:, 2:]  # without the two combiners
    segments = experts.reshape(6, 600, -1).sum(axis=1)
    best = segments.argmin(axis=1)
    assert np.all(np.diff(best) != 0)
    loss, mistakes = trace.ledger["loss"].sum(), trace.mistakes.sum()
    single = experts.sum(axis=0).min()
    plain = min(ExponentialWeights(eta).play_losses(experts).losses.sum() for eta in (0.1, "anytime"))
    assert max(loss, mistakes) < min(single, plain)
    assert certify(model, X, y, trace, 5).holds


# ---------------------------------------------------------------------- the theorems of the experts


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["two classes", "two classes, noise", "two classes, drift", "changes"])
def test_the_bound_of_an_expert_and_the_regret(name, dtype):
    for seed in range(4):
        X, y = STREAMS[name](seed)
        X = (X * [1.0, 3.0, 1.0, 1.0][: X.shape[1]]).astype(dtype)
        model = BudgetClassifier("300kB", random_state=seed)
        trace = model.progressive_fit(X, y, ledger=True)
        certificate = certify(model, X, y, trace, theorem="second_order")
        assert certificate.holds
        assert certificate.count == pytest.approx(trace.ledger["loss"].sum())
        # The bound of an expert is at least its mistakes, so that this bound is at least the other one.
        names = [expert["name"] for expert in model.experts_]
        place = names.index(certificate.competitor.split('"')[1])
        mistakes = trace.ledger["expert_losses"][:, place].sum()
        assert certificate.bound >= mistakes + model.regret_bound_ >= certify(model, X, y, trace, 0).bound
        # The experts are AROW with a constant feature, on the rows as they are and on standardised ones.
        found = []
        for rows in (X, standardised(X)):
            rows = np.hstack([np.ones((len(y), 1)), rows])
            alone = linear.AROW(covariance="full", fit_intercept=False)
            own = alone.progressive_fit(rows, y, ledger=True)
            found.append(certify(alone, rows, y, own).bound)
        assert certificate.bound - model.regret_bound_ == pytest.approx(min(found), rel=1e-3)


def standardised(X):
    """Return each row standardised by itself and the rows before it."""
    rows = []
    for t in range(len(X)):
        seen = X[: t + 1].astype(float)
        spread = seen.std(axis=0)
        rows.append(
            np.divide(seen[t] - seen.mean(axis=0), spread, out=np.zeros(X.shape[1]), where=spread > 1e-9)
        )
    return np.array(rows)


def test_where_the_experts_have_no_theorem():
    X, y = sectors(300, 3)
    for labels, weights, error, message in (
        (y, None, ValueError, "the theorems are about two classes, the model has 3"),
        (y > 0, {True: 2.0}, AssumptionError, "a weight of 1 for all rows is assumed; it is 2"),
    ):
        model = BudgetClassifier("300kB", random_state=0, class_weight=weights)
        trace = model.progressive_fit(X, labels, ledger=True)
        with pytest.raises(error, match=message):
            certify(model, X, labels, trace, theorem="second_order")
    model = BudgetClassifier("300kB", random_state=0)
    trace = model.progressive_fit(X, y > 0)
    with pytest.raises(ValueError, match="ledger=True"):
        certify(model, X, y > 0, trace, theorem="second_order")
    model = BudgetClassifier("300kB", random_state=0)
    trace = model.progressive_fit(X, y > 0, ledger=True)
    with pytest.raises(ValueError, match='competitor must be "best" for this theorem'):
        certify(model, X, y > 0, trace, 3, theorem="second_order")
    wide = np.random.default_rng(0).normal(size=(60, 1100))
    model = BudgetClassifier("2MB", random_state=0)
    trace = model.progressive_fit(wide, wide[:, 0] > 0, ledger=True)
    with pytest.raises(ValueError, match="no expert of this model has the theorem second_order"):
        certify(model, wide, wide[:, 0] > 0, trace, theorem="second_order")
