"""The theorem of second-order learners: its proof step by step, its certificates, and where it is tight."""

from collections import defaultdict

import numpy as np
import pytest
from cases import all_weights, with_ones
from reference.second_order_bound import RecordedRun, arow
from scipy.sparse import csr_array
from sklearn.svm import SVC, LinearSVC
from test_certificates import KINDS, make_stream

import budgetron
from budgetron import SecondOrderProjectron, bounds, certify, linear
from budgetron._base.access import competitor_kernel
from budgetron.bounds import AssumptionError

GAMMA = 0.5


def rbf(X, Z):
    return np.exp(-GAMMA * np.square(X[:, None] - Z[None]).sum(axis=2))


def clusters(seed, n=400, jump=80):
    """Return points near centres that move away after some rounds, so that supports are exchanged."""
    rng = np.random.default_rng([seed, 4])
    centres = 3.0 * rng.normal(size=(-(-n // jump), 6, 2))
    which = rng.integers(6, size=n)
    X = centres[np.arange(n) // jump, which] + 0.3 * rng.normal(size=(n, 2))
    y = np.where((which % 2 == 0) ^ (rng.random(n) < 0.1), 1.0, -1.0)
    return X, y


def recorded(X, y, model, linear_part):
    options = {"budget": model.budget, "threshold": model.threshold, "r": model.r}
    inner = GAMMA * X @ X.T + 1.0 if linear_part else None
    return RecordedRun(rbf(X, X), y, prior=model.prior or 1.0, linear=inner, **options)


# ---------------------------------------------------------------------- the proof


@pytest.mark.parametrize("linear_part", [False, True])
@pytest.mark.parametrize(("r", "prior"), [(1.0, 1.0), (0.3, 2.0)])
def test_the_steps_of_the_proof(r, prior, linear_part):
    X, y = clusters(0, 200, 40)
    model = SecondOrderProjectron(8, 0.05, r, linear_part, prior=prior, gamma=GAMMA)
    run = recorded(X, y, model, linear_part)
    assert len(run.exchanges) >= 3
    rng = np.random.default_rng(0)
    learned = np.flatnonzero(run.learned)
    # The potential of the mean is the sum of the gains until the first exchange, and at most this later on.
    gains = np.cumsum(run.gains)
    assert np.all(np.array(run.potentials) <= gains + 1e-8)
    np.testing.assert_allclose(run.potentials[:20], gains[:20], atol=1e-8)
    variances = model.progressive_fit(X, y, ledger=True).ledger["variance"][learned]
    correct_updates = np.sum(np.array(run.margins)[learned] > 0.0)
    assert gains[-1] <= np.log1p(variances / r).sum() + correct_updates
    margins = np.array(run.margins)[learned]
    assert gains[-1] == pytest.approx(bounds.second_order_gain(margins, variances, r), abs=1e-6)
    for size in (0.1, 1.0, 10.0, 100.0):
        u = size * rng.normal(size=len(run.sigma))
        squares, _, gain, _, exchanged = run.sums(u)
        product = sum(y[t] * float(run.images[t] @ u) for t in learned)
        assert product <= np.sqrt(r / prior * (u @ u + exchanged) + squares) * np.sqrt(gain) + 1e-9
    # For the last mean, without an exchange, it is an equality.
    few = RecordedRun(rbf(X, X)[:40, :40], y[:40], budget=40, threshold=0.05, r=r, prior=prior)
    assert not few.exchanges
    u = few.w[0]
    squares, _, gain, *_ = few.sums(u)
    product = sum(y[t] * float(few.images[t] @ u) for t in np.flatnonzero(few.learned))
    assert product == pytest.approx(np.sqrt(r / prior * (u @ u) + squares) * np.sqrt(gain), rel=1e-9)


# ---------------------------------------------------------------------- equality with the reference


@pytest.mark.parametrize("linear_part", [False, True])
@pytest.mark.parametrize("budget", [7, 200])
@pytest.mark.parametrize(("r", "prior"), [(1.0, None), (0.3, 2.0)])
def test_certificates_equal_the_reference(r, prior, budget, linear_part):
    for seed, (X, y) in enumerate([clusters(1, 160, 40), make_stream("noisy", 3, 160)]):
        model = SecondOrderProjectron(budget, 0.05, r, linear_part, prior=prior, gamma=GAMMA)
        trace = model.progressive_fit(X, y, ledger=True)
        run = recorded(X, y, model, linear_part)
        np.testing.assert_allclose(y * trace.margins, run.margins, atol=1e-7)
        coefs = np.random.default_rng(seed).normal(size=(3, len(y))) * [[0.01], [0.1], [1.0]]
        drops = int(np.sum(np.diff(trace.support_sizes) < 0))
        assert drops == len(run.exchanges)
        added = np.diff(trace.support_sizes, prepend=0) > 0
        deltas = np.where(added, 0.0, trace.ledger["delta"])[np.array(run.learned)]
        for coef in coefs:
            certificate = certify(model, X, y, trace, (X, coef))
            u = run.vector(coef)
            assert certificate.bound == pytest.approx(run.bound(u), rel=1e-6)
            assert certificate.norm == pytest.approx(np.linalg.norm(u), rel=1e-6)
            assert certificate.losses == pytest.approx(run.sums(u)[1], rel=1e-6)
            assert certificate.count == run.mistakes <= certificate.bound
            rows = certify(model, X, y, trace, (X, coef), theorem="second_order_rows")
            values, norm = rbf(X, X) @ coef, np.sqrt(coef @ rbf(X, X) @ coef)
            expected = run.bound_at_rows(u, values, norm, deltas, drops)
            assert rows.bound == pytest.approx(expected, rel=1e-5)
            assert certificate.bound <= rows.bound * (1 + 1e-9)


@pytest.mark.parametrize(("r", "prior"), [(1.0, 1.0), (0.2, 3.0)])
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_certificates_of_arow_equal_the_reference(kind, covariance, fit_intercept, r, prior):
    X, y = make_stream(kind, 5)
    model = linear.AROW(r, covariance, prior=prior, fit_intercept=fit_intercept)
    trace = model.progressive_fit(X, y, ledger=True)
    rows = with_ones(X) if fit_intercept else X
    mistakes, bound, w = arow(rows, y, covariance == "diagonal", r, prior)
    np.testing.assert_allclose(all_weights(model)[0, -len(w) :], w, atol=1e-9)
    rng = np.random.default_rng(0)
    for size in (0.03, 1.0, 30.0):
        u = size * rng.normal(size=rows.shape[1])
        certificate = certify(model, X, y, trace, u)
        assert certificate.count == mistakes
        assert certificate.bound == pytest.approx(bound(u), rel=1e-8)


def test_nothing_is_dropped_if_each_row_has_one_feature():
    rng = np.random.default_rng(0)
    X, y = np.eye(4)[rng.integers(4, size=60)] * rng.normal(size=(60, 1)), rng.choice([-1.0, 1.0], 60)
    found = []
    for covariance in ("full", "diagonal"):
        model = linear.AROW(0.5, covariance, fit_intercept=False)
        trace = model.progressive_fit(X, y, ledger=True)
        found.append([certify(model, X, y, trace, u).bound for u in (np.ones(4), X[0], -X[1])])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


# ---------------------------------------------------------------------- many streams


LEARNERS = {
    "AROW": lambda: linear.AROW(),
    "AROW, r": lambda: linear.AROW(0.1, prior=3.0),
    "AROW, large r": lambda: linear.AROW(10.0),
    "diagonal": lambda: linear.AROW(covariance="diagonal"),
    "diagonal, r": lambda: linear.AROW(0.3, covariance="diagonal", prior=2.0),
    "second order": lambda: SecondOrderProjectron(50, gamma=GAMMA),
    "small budget": lambda: SecondOrderProjectron(8, gamma=GAMMA),
    "no linear part": lambda: SecondOrderProjectron(12, linear=False, gamma=GAMMA),
    "r and prior": lambda: SecondOrderProjectron(20, r=0.1, prior=2.0, gamma=GAMMA),
    "large r": lambda: SecondOrderProjectron(20, r=5.0, gamma=GAMMA),
    "threshold": lambda: SecondOrderProjectron(300, 0.5, gamma=GAMMA),
    "polynomial": lambda: SecondOrderProjectron(15, kernel="poly", degree=2, coef0=1.0, gamma=GAMMA),
    "laplacian": lambda: SecondOrderProjectron(15, kernel="laplacian", gamma=GAMMA),
}


def competitors(model, X, y, rng):
    """Yield competitors of several norms, as expansions over the learner's kernel, and an SVM."""
    kernel = competitor_kernel(model)
    for size in (3, len(y)):
        rows = X[rng.integers(len(y), size=size)]
        coef = rng.random(size) * rng.choice([-1.0, 1.0], size)
        norm = np.sqrt(max(coef @ kernel.matrix(rows, rows) @ coef, 1e-12))
        yield rows, coef * rng.choice([0.3, 1.0, 3.0, 10.0]) / norm
    svm = SVC(kernel="precomputed", C=1.0).fit(kernel.matrix(X, X), y)
    yield X[svm.support_], svm.dual_coef_[0]


@pytest.mark.parametrize("label", LEARNERS)
def test_no_bound_is_violated(label, record_property):
    # 13 learners with 45 streams each, against the best competitor and three others.
    first = 100 * list(LEARNERS).index(label)
    ratios = defaultdict(list)
    exchanges = 0
    for kind in (*KINDS, "clusters"):
        for seed in range(first, first + 9):
            X, y = clusters(seed, 250, 50) if kind == "clusters" else make_stream(kind, seed)
            if seed % 3 == 2:
                X = X.astype(np.float32)
            model = LEARNERS[label]()
            trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
            exchanges += int(np.sum(np.diff(trace.support_sizes) < 0))
            chosen = ["best", *competitors(model, X.astype(float), y, np.random.default_rng(seed))]
            theorems = ["second_order"]
            if isinstance(model, SecondOrderProjectron):
                theorems.append("second_order_rows")
            for theorem in theorems:
                found = [certify(model, X, y, trace, competitor, theorem=theorem) for competitor in chosen]
                for certificate in found:
                    assert certificate.holds, str(certificate)
                best = found[0]
                assert best.most == len(y) - np.sum(~np.isnan(trace.ledger["tau"]) & ~trace.mistakes)
                assert best.bound <= best.most * (1 + 1e-9)  # the competitor 0 is one of those compared
                # No other competitor has a smaller bound, up to the accuracy of the search.
                assert best.bound <= min(certificate.bound for certificate in found) + 0.01 * best.bound + 0.5
                ratios[theorem].append(best.ratio)
    assert exchanges >= 10 or label not in ("small budget", "no linear part")
    for theorem, values in ratios.items():
        text = f"{len(values)} runs, largest ratio {max(values):.4f}, median {np.median(values):.4f}"
        record_property(theorem, text)
        print(f"{label}: {theorem}: {text}")
        assert len(values) == 45


# ---------------------------------------------------------------------- where it is tight


def test_it_is_tight_on_orthonormal_rows():
    T = 30
    X, y = np.eye(T), np.random.default_rng(0).choice([-1.0, 1.0], T)
    for model in (
        linear.AROW(fit_intercept=False),
        linear.AROW(covariance="diagonal", fit_intercept=False),
        SecondOrderProjectron(T, linear=False, kernel="linear"),
    ):
        trace = model.progressive_fit(X, y, ledger=True)
        certificate = certify(model, X, y, trace, (X, y))
        assert certificate.count == T
        assert certificate.losses == pytest.approx(0.0, abs=1e-9)
        assert certificate.bound == pytest.approx(T, abs=1e-6)


def forgetful_stream(budget, cycles):
    """Return orthonormal rows and labels such that in each cycle one support is removed, and needed again.

    Only the first support is used. Then as many rows as the budget are refused, and of the others the oldest
    support is removed. The last row of the cycle brings it back.
    """
    order = [*range(budget)]
    for cycle in range(cycles):
        order += [0, *range(budget, 2 * budget), 1 + cycle % (budget - 1)]
    return np.eye(2 * budget)[order], np.where(np.array(order) % 2 == 0, 1.0, -1.0)


@pytest.mark.parametrize("budget", [4, 7])
def test_the_term_of_an_exchange_is_needed(budget):
    X, y = forgetful_stream(budget, 40)
    model = SecondOrderProjectron(budget, linear=False, kernel="linear")
    trace = model.progressive_fit(X, y, ledger=True)
    assert np.sum(np.diff(trace.support_sizes) < 0) == 40
    rows, coef = np.eye(2 * budget)[:budget], np.where(np.arange(budget) % 2 == 0, 1.0, -1.0)
    certificate = certify(model, X, y, trace, (rows, coef))
    assert certificate.holds
    assert certify(model, X, y, trace, (rows, coef), theorem="second_order_rows").holds
    run = RecordedRun(X @ X.T, y, budget=budget, threshold=0.02)
    over_rows = np.concatenate([coef, np.zeros(len(y) - budget)])  # the stream begins with these rows
    u = run.vector(over_rows)
    assert certificate.bound == pytest.approx(run.bound(u), rel=1e-9)
    assert run.sums(u)[-1] == pytest.approx(40.0)  # in each exchange a part of norm 1 is removed
    assert run.bound(u, exchange_term=False) < certificate.count


def test_the_term_of_the_distances_is_needed():
    # No row becomes a support, so that nothing is learned and all rounds are mistakes.
    X, y = make_stream("separable", 0)
    model = SecondOrderProjectron(10, threshold=1.5, linear=False, gamma=GAMMA)
    trace = model.progressive_fit(X, y, ledger=True)
    assert trace.mistakes.all()
    svm = SVC(kernel="rbf", gamma=GAMMA, C=1e4).fit(X, y)
    competitor = (svm.support_vectors_, svm.dual_coef_[0])
    certificate = certify(model, X, y, trace, competitor, theorem="second_order_rows")
    assert certificate.holds
    values, norm = certificate.losses, certificate.norm
    learned = ~np.isnan(trace.ledger["tau"])
    gain = bounds.second_order_gain(np.zeros(learned.sum()), trace.ledger["variance"][learned])
    without = bounds.second_order_rows(norm, 1e9, values, gain, 0, [], norm)
    assert gain == 0.0
    assert without < certificate.count


# ---------------------------------------------------------------------- assumptions and input


def test_assumptions():
    X, y = make_stream("noisy", 0)
    for model, message in (
        (linear.AROW(forget=0.99), "a forget of 1 is assumed; it is 0.99"),
        (linear.AROW(class_weight={1.0: 2.0}), "a weight of 1 for all rows is assumed; it is 2"),
        (linear.AROW(loss="squared"), "the hinge loss and the logistic loss; the model has the squared loss"),
        (SecondOrderProjectron(20, forget=0.9, gamma=GAMMA), "a forget of 1"),
        (SecondOrderProjectron(20, loss="squared", gamma=GAMMA), "the squared loss"),
        (SecondOrderProjectron(20, loss="logistic", forget=0.9, gamma=GAMMA), "a forget of 1"),
    ):
        trace = model.progressive_fit(X, y, ledger=True)
        with pytest.raises(AssumptionError, match=message):
            certify(model, X, y, trace)
    forgetting = linear.AROW(forget=0.99)
    trace = forgetting.progressive_fit(X, y, ledger=True)
    assert not certify(forgetting, X, y, trace, check=False).applies
    close = SecondOrderProjectron(20, threshold=0.0, gamma=GAMMA)
    trace = close.progressive_fit(X.astype(np.float32), y, ledger=True)
    with pytest.raises(AssumptionError, match="a threshold of at least 1e-06 for float32 rows"):
        certify(close, X.astype(np.float32), y, trace)
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(40, 1100))
    label = np.where(wide[:, 0] > 0.0, 1.0, -1.0)
    model = SecondOrderProjectron(20, gamma=0.001)
    trace = model.progressive_fit(wide, label, ledger=True)
    with pytest.raises(AssumptionError, match="at most 1000 features"):
        certify(model, wide, label, trace)
    without_linear_part = SecondOrderProjectron(20, linear=False, gamma=0.001)
    trace = without_linear_part.progressive_fit(wide, label, ledger=True)
    assert certify(without_linear_part, wide, label, trace).holds
    diagonal = linear.AROW()  # with so many features
    assert certify(diagonal, wide, label, diagonal.progressive_fit(wide, label, ledger=True)).holds


def test_competitors_and_input():
    X, y = make_stream("noisy", 1)
    model = SecondOrderProjectron(30, gamma=GAMMA)
    trace = model.progressive_fit(X, y, ledger=True)
    svm = SVC(gamma=GAMMA).fit(X, y)
    for competitor in (svm, budgetron.Forgetron(50, gamma=GAMMA).fit(X, y), model):
        for theorem in ("second_order", "second_order_rows"):
            assert certify(model, X, y, trace, competitor, theorem=theorem).holds
    with pytest.raises(ValueError, match="one competitor for all rounds"):
        certify(model, X, y, trace, [(0, svm), (10, svm)])
    with pytest.raises(ValueError, match=r"gamma is 2\.0 in SVC"):
        certify(model, X, y, trace, SVC(gamma=2.0).fit(X, y))
    other = SecondOrderProjectron(30, gamma=GAMMA)
    plain = other.progressive_fit(X, y)
    with pytest.raises(ValueError, match="ledger=True"):
        certify(other, X, y, plain)
    arow = linear.AROW()
    trace = arow.progressive_fit(X, y, ledger=True)
    certificate = certify(arow, X, y, trace)
    again = certify(arow, X, y, trace, certificate.expansion)
    assert again.bound == pytest.approx(certificate.bound)
    assert certify(arow, X, y, trace, LinearSVC().fit(X, y)).bound >= 0.99 * certificate.bound
    zero = certify(arow, X, y, trace, np.zeros(X.shape[1]))
    assert zero.vacuous
    assert zero.bound == zero.most
    assert "which is known anyway" in str(zero)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_and_exchanges(dtype):
    X, y = clusters(0)
    rows = csr_array(X.astype(dtype))
    model = SecondOrderProjectron(8, gamma="scale")
    trace = model.progressive_fit(rows, y, ledger=True)
    assert np.any(np.diff(trace.support_sizes) < 0)
    assert certify(model, rows, y, trace).holds
    # Other rows than those that were learned give other supports.
    moved = csr_array((X * [1.0, 1.3]).astype(dtype))
    with pytest.raises(ValueError, match="the run cannot be repeated"):
        certify(model, moved, y, trace)
