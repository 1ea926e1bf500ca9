"""The theorem of second-order learners with the logistic loss: its proof, its certificates, many streams."""

import numpy as np
import pytest
from reference.second_order_bound import RecordedRun, logistic_arow
from scipy.sparse import csr_array
from sklearn.svm import SVC
from test_certificates import KINDS, make_stream
from test_second_order_bound import GAMMA, clusters, competitors, rbf

from budgetron import SecondOrderProjectron, bounds, certify, linear


def recorded(X, y, model):
    options = {"budget": model.budget, "threshold": model.threshold, "r": model.r, "loss": "logistic"}
    inner = GAMMA * X @ X.T + 1.0 if model.linear else None
    return RecordedRun(rbf(X, X), y, prior=model.prior or 100.0, linear=inner, **options)


@pytest.mark.parametrize("linear_part", [False, True])
@pytest.mark.parametrize(("r", "prior"), [(1.0, 100.0), (0.3, 2.0)])
def test_the_steps_of_the_proof(r, prior, linear_part):
    X, y = clusters(0, 120, 40)
    exchanging = SecondOrderProjectron(8, 0.05, r, linear_part, "logistic", prior=prior, gamma=GAMMA)
    run = recorded(X, y, exchanging)
    assert len(run.exchanges) >= 1
    rng = np.random.default_rng(0)
    learned = np.flatnonzero(run.learned)
    own = np.logaddexp(0.0, -np.array(run.margins)[learned]).sum()
    for size in (0.1, 1.0, 10.0):
        u = size * rng.normal(size=len(run.sigma))
        losses, _, remainder, gain, _ = run.logistic_terms(u)
        exchanged = sum(float(np.square((a - b) @ u).sum()) for a, b in run.exchanges)
        assert own <= losses + r / (2 * prior) * (u @ u + exchanged) + remainder + gain + 1e-7
    # Without an exchange the difference is half the squared distance of u from the last mean.
    few = recorded(X[:40], y[:40], SecondOrderProjectron(40, 0.05, r, linear_part, "logistic", prior=prior))
    assert not few.exchanges
    learned = np.flatnonzero(few.learned)
    own = np.logaddexp(0.0, -np.array(few.margins)[learned]).sum()
    for u in (few.w[0], *rng.normal(size=(3, len(few.sigma)))):
        losses, _, remainder, gain, _ = few.logistic_terms(u)
        away = u - few.w[0]
        distance = r * float(away @ np.linalg.solve(few.sigma, away))
        total = losses + r / (2 * prior) * (u @ u) + remainder + gain
        assert own == pytest.approx(total - distance / 2, rel=1e-6, abs=1e-6)


def test_the_remainder_is_at_most_cubic():
    after, d = np.meshgrid(np.linspace(-6, 6, 49), np.linspace(-8, 8, 65))
    g = 1.0 / (1.0 + np.exp(after))
    above = np.logaddexp(0.0, -after - d) - np.logaddexp(0.0, -after) + g * d
    assert np.all(g * (1 - g) * d**2 / 2 - above <= g * (1 - g) * np.abs(d) ** 3 / 6 + 1e-12)


@pytest.mark.parametrize("linear_part", [False, True])
@pytest.mark.parametrize("budget", [7, 200])
@pytest.mark.parametrize(("r", "prior"), [(1.0, None), (0.3, 2.0)])
def test_certificates_equal_the_reference(r, prior, budget, linear_part):
    for seed, (X, y) in enumerate([clusters(1, 120, 40), make_stream("noisy", 3, 120)]):
        model = SecondOrderProjectron(budget, 0.05, r, linear_part, "logistic", prior=prior, gamma=GAMMA)
        trace = model.progressive_fit(X, y, ledger=True)
        run = recorded(X, y, model)
        np.testing.assert_allclose(y * trace.margins, run.margins, atol=1e-6)
        assert int(np.sum(np.diff(trace.support_sizes) < 0)) == len(run.exchanges)
        assert budget > 7 or seed or run.exchanges
        for coef in np.random.default_rng(seed).normal(size=(3, len(y))) * [[0.01], [0.1], [1.0]]:
            certificate = certify(model, X, y, trace, (X, coef))
            u = run.vector(coef)
            assert certificate.bound == pytest.approx(run.logistic_bound(u), rel=1e-5)
            assert certificate.losses == pytest.approx(run.logistic_terms(u)[1], rel=1e-6)
            assert certificate.count == run.mistakes <= certificate.bound
            assert certificate.loss == "logistic"
            assert "logistic losses" in str(certificate)


@pytest.mark.parametrize(("r", "prior"), [(1.0, 100.0), (0.2, 3.0)])
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("kind", KINDS)
def test_certificates_of_arow_equal_the_reference(kind, covariance, r, prior):
    X, y = make_stream(kind, 5)
    model = linear.AROW(r, covariance, "logistic", prior=prior, fit_intercept=False)
    trace = model.progressive_fit(X, y, ledger=True)
    mistakes, bound, w = logistic_arow(X, y, covariance == "diagonal", r, prior)
    np.testing.assert_allclose(model.coef_[0], w, atol=1e-7)
    rng = np.random.default_rng(0)
    for size in (0.03, 1.0, 30.0):
        u = size * rng.normal(size=X.shape[1])
        certificate = certify(model, X, y, trace, u)
        assert certificate.count == mistakes
        assert certificate.bound == pytest.approx(bound(u), rel=1e-6)
    assert certify(model, X, y, trace).bound == pytest.approx(bound(model.coef_[0]), rel=0.5)


LEARNERS = {
    "AROW": lambda: linear.AROW(loss="logistic"),
    "AROW, prior": lambda: linear.AROW(0.1, loss="logistic", prior=3.0),
    "diagonal": lambda: linear.AROW(covariance="diagonal", loss="logistic"),
    "second order": lambda: SecondOrderProjectron(50, loss="logistic", gamma=GAMMA),
    "small budget": lambda: SecondOrderProjectron(8, loss="logistic", gamma=GAMMA),
    "no linear part": lambda: SecondOrderProjectron(12, linear=False, loss="logistic", gamma=GAMMA),
    "laplacian": lambda: SecondOrderProjectron(15, kernel="laplacian", loss="logistic", gamma=GAMMA),
}


@pytest.mark.parametrize("label", LEARNERS)
def test_no_bound_is_violated(label, record_property):
    # 7 learners with 20 streams each, against the best competitor and three others.
    first, ratios = 100 * list(LEARNERS).index(label), []
    for kind in (*KINDS, "clusters"):
        for seed in range(first, first + 4):
            X, y = clusters(seed, 250, 50) if kind == "clusters" else make_stream(kind, seed)
            if seed % 4 == 2:
                X = X.astype(np.float32)
            model = LEARNERS[label]()
            trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
            chosen = ["best", *competitors(model, X.astype(float), y, np.random.default_rng(seed))]
            found = [certify(model, X, y, trace, competitor) for competitor in chosen]
            for certificate in found:
                assert certificate.holds, str(certificate)
            assert found[0].bound <= min(certificate.bound for certificate in found) * (1 + 1e-6)
            ratios.append(found[0].ratio)
    text = f"{len(ratios)} runs, largest ratio {max(ratios):.4f}, median {np.median(ratios):.4f}"
    record_property("second_order_logistic", text)
    print(f"{label}: {text}")
    assert len(ratios) == 20


def test_the_term_of_an_exchange_is_needed():
    # One row again and again. Its support is removed after each round, so that it must be learned again.
    T = 50
    options = {"budget": 1, "threshold": 0.02, "loss": "logistic", "prior": 100.0}
    run = RecordedRun(np.ones((T, T)), np.ones(T), budgets=dict.fromkeys(range(T), 0), **options)
    own = np.logaddexp(0.0, -np.array(run.margins)).sum()
    assert own == pytest.approx(T * np.log(2.0))
    after = np.log(1.0 / run.slopes[0] - 1.0)  # the margin after a step
    u = run.vector(np.eye(T)[0] * after)
    losses, _, remainder, gain, _ = run.logistic_terms(u)
    without = losses + u @ u / 200.0 + remainder + gain
    assert without < own <= without + T * after**2 / 200.0
    assert run.logistic_bound(u, exchange_term=False) < run.mistakes <= run.logistic_bound(u)


def test_sparse_rows_and_input():
    X, y = clusters(0)
    model = SecondOrderProjectron(8, loss="logistic", gamma="scale")
    rows = csr_array(X)
    trace = model.progressive_fit(rows, y, ledger=True)
    assert certify(model, rows, y, trace).holds
    assert certify(model, rows, y, trace, SVC(gamma=model.gamma_).fit(X, y)).holds
    with pytest.raises(ValueError, match=r"theorem must be one of \['second_order_logistic'\]"):
        certify(model, rows, y, trace, theorem="second_order")
    with pytest.raises(bounds.AssumptionError, match="an r and a prior above 0"):
        bounds.second_order_logistic(1.0, 1.0, 0.0, 1.0, 0.0, r=0.0)
