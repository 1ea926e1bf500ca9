"""The bounds of `BudgetClassifier` through the theorems of its second-order experts."""

import numpy as np
import pytest
from reference.second_order_bound import RecordedRun
from test_second_order_bound import clusters
from test_tracking import sectors

from budgetron import BudgetClassifier, certify
from budgetron._base.access import hypotheses_of
from budgetron._certify.certify import _run_of
from budgetron._certify.competitors import Expansion
from budgetron._certify.second_order import evaluate_images
from budgetron._certify.votes import _expert_bound
from budgetron._core.kernel import Kernel
from budgetron.portfolio._expert_runs import THEOREMS_OF_LOSSES, _theorem, voting_experts
from budgetron.portfolio._experts import THRESHOLD, Design, Expert
from budgetron.portfolio._recorded import Period, recorded_periods

THEOREMS = [name for names in THEOREMS_OF_LOSSES.values() for name in names]
STREAMS = {
    "sectors": lambda seed: sectors(900, 2, seed),
    "drift": lambda seed: sectors(1500, 2, seed, turn=0.005),
    "clusters": lambda seed: clusters(seed, 1200, 300),
    "xor": lambda seed: xor(seed),
}


def xor(seed):
    """Return rows whose label depends on two of eight features, so that feature scales help."""
    X = np.random.default_rng(seed).normal(size=(1500, 8))
    return X, np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)


def learned(name, seed, dtype=np.float64, memory="1MB"):
    X, y = STREAMS[name](seed)
    X, y = (X * np.linspace(1.0, 3.0, X.shape[1])).astype(dtype), y > 0
    model = BudgetClassifier(memory, random_state=seed)
    return model, X, y, model.progressive_fit(X, y, ledger=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("memory", ["300kB", "3MB"])
@pytest.mark.parametrize("name", STREAMS)
def test_no_bound_is_violated(name, memory, dtype, monkeypatch):
    """The bound of every expert is at least its losses; those of the vote hold, too."""
    seen = []

    def checked(expert):
        found = _expert_bound(expert)
        seen.append((expert, found))
        return found

    monkeypatch.setattr("budgetron._certify.votes._expert_bound", checked)
    model, X, y, trace = learned(name, 0 if dtype == np.float64 else 1, dtype, memory)
    names = [expert["name"] for expert in model.experts_]
    for theorem in THEOREMS:
        seen.clear()
        certificate = certify(model, X, y, trace, theorem=theorem)
        assert certificate.holds, str(certificate)
        # The best is one of those that took part in at least half as many rounds as any other.
        longest = max(found.rounds for _, found in seen)
        best = min(found.bound for _, found in seen if 2 * found.rounds >= longest)
        assert certificate.bound == pytest.approx(best + model.regret_bound_)
        for expert, found in seen:
            losses = trace.ledger["expert_losses"][:, names.index(expert.name)].sum()
            assert losses <= found.bound * (1 + 1e-6), expert.name
            assert losses <= found.most


def test_experts_of_all_kinds_are_compared():
    kinds = set()
    for name, seed in (("xor", 0), ("drift", 1), ("clusters", 2)):
        model, X, y, _ = learned(name, seed, memory="3MB")
        portfolio = hypotheses_of(model)[0]
        labels = np.where(y, 1.0, -1.0)
        for periods in recorded_periods(portfolio, X, labels):
            for period in periods:
                expert = period.expert
                kinds.add((expert.design.kind, expert.loss, expert.design.standardised))
                assert period.replayed == 0 or expert.design.kind != "linear"
                assert (len(expert.scales) > 0) == (expert.design.kind == "scaled")
    assert {(kind, standardised) for kind, _, standardised in kinds} >= {
        ("linear", False),
        ("linear", True),
        ("kernel", False),
        ("kernel", True),
        ("scaled", True),
    }
    assert {loss for _, loss, _ in kinds} == {"hinge", "logistic"}


@pytest.mark.parametrize("random_state", [0, None])
def test_a_raw_kernel_expert_is_the_reference(random_state):
    """It learns all rows as they are, so that the reference on the whole stream is the same run."""
    X, y = sectors(330, 2, 0)
    signs = np.where(y > 0, 1.0, -1.0)
    model = BudgetClassifier("3MB", random_state=random_state)
    trace = model.progressive_fit(X, y > 0, ledger=True)
    run = _run_of(model, X, y > 0, trace)
    checked = 0
    for name in ("second_order", "second_order_logistic"):
        for expert in voting_experts(hypotheses_of(model)[0], run, name):
            if "raw" not in expert.name or expert.name.startswith("AROW"):
                continue
            place = [one["name"] for one in model.experts_].index(expert.name)
            losses = trace.ledger["expert_losses"][:, place]
            outside = losses.sum()
            # It starts after 16 rows and again after 64, each time with all rows so far.
            assert [replayed for _, _, replayed in expert.runs] == [16, 64]
            for own, theorem, replayed in expert.runs:
                n = len(own.y)
                np.testing.assert_array_equal(own.X, X[:n])
                gamma, loss = own.kernel.gamma, "hinge" if name == "second_order" else "logistic"
                K = np.exp(-gamma * np.square(X[:n, None] - X[None, :n]).sum(axis=2))
                reference = RecordedRun(
                    K,
                    signs[:n],
                    budget=1000,
                    threshold=THRESHOLD,
                    prior=theorem.prior,
                    loss=loss,
                    linear=gamma * X[:n] @ X[:n].T + 1.0,
                )
                np.testing.assert_allclose(own.y * own.trace.margins, reference.margins, atol=1e-6)
                coef = np.random.default_rng(0).normal(size=n) * 0.1
                competitor = Expansion(own.kernel, X[:n], coef, "")
                bound, _ = evaluate_images(own, theorem, competitor, [])
                u = reference.vector(coef)
                literal = reference.bound(u) if loss == "hinge" else reference.logistic_bound(u)
                assert bound == pytest.approx(literal, rel=1e-5)
                outside -= losses[replayed:n].sum()
            # In the rounds before it took part, and after it ended, it votes as the first combiner.
            assert expert.known == outside
            checked += 1
    assert checked >= 3


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("with_scales", [False, True])
def test_budgets_that_change_and_exchanges_equal_the_reference(loss, with_scales):
    X, y = clusters(3, 240, 60)
    scales = np.array([0.8, 1.3]) if with_scales else np.zeros(0)
    expert = Expert(Design("", "kernel", False, loss), gamma=0.5, loss=loss, budget=8)
    period = Period(expert, first=0)
    learner_like = Expert(expert.design, scales=scales)
    rows = X * scales if with_scales else X
    changes = {100: 4, 150: 9}
    start = 0
    for stop in (30, 100, 150, 240):  # cut anywhere, and where the budget changes
        period.add(learner_like, rows[start:stop], y[start:stop])
        if stop in changes:
            period.resize(changes[stop], removes=changes[stop] < 8)
        start = stop
    own, removals, supports = period.repeated(np.array([-1, 1]))
    K = np.exp(-0.5 * np.square(rows[:, None] - rows[None]).sum(axis=2))
    prior = {"hinge": 1.0, "logistic": 200.0}[loss]
    reference = RecordedRun(
        K,
        y,
        budget=8,
        threshold=THRESHOLD,
        loss=loss,
        prior=prior,
        linear=0.5 * rows @ rows.T + 1.0,
        budgets={t - 1: budget for t, budget in changes.items()},
    )
    np.testing.assert_allclose(own.y * own.trace.margins, reference.margins, atol=1e-6)
    reduced = [(a, b) for a, b in reference.exchanges if np.linalg.norm(a - b) > 0.5]
    assert len(removals) == len(reduced) >= 2
    assert any(removal.round == 99 for removal in removals)
    name = THEOREMS_OF_LOSSES[loss][0]
    theorem = _theorem(name, expert, period, removals, supports)
    for size in (0.1, 10.0):
        coef = size * np.random.default_rng(1).normal(size=len(y))
        bound, _ = evaluate_images(own, theorem, Expansion(Kernel("rbf", 0.5), rows, coef, ""), [])
        u = reference.vector(coef)
        literal = reference.bound(u) if loss == "hinge" else reference.logistic_bound(u)
        without = (reference.bound if loss == "hinge" else reference.logistic_bound)(u, exchange_term=False)
        assert bound == pytest.approx(literal, rel=1e-5)
        assert bound > without
    assert bound > without * (1 + 1e-4)
    if loss == "hinge":
        rows_theorem = _theorem("second_order_rows", expert, period, removals, supports)
        found, _ = evaluate_images(own, rows_theorem, Expansion(Kernel("rbf", 0.5), rows, coef, ""), [])
        assert found >= bound * (1 - 1e-9)


def test_a_run_that_cannot_be_repeated_has_no_certificate():
    X, y = sectors(400, 2, 0)
    model = BudgetClassifier("300kB", random_state=0)
    trace = model.progressive_fit(X, y > 0, ledger=True)
    with pytest.raises(ValueError, match="whose rounds can be repeated from the stream"):
        certify(model, X**3, y > 0, trace, theorem="second_order")
    weighted = BudgetClassifier("300kB", random_state=0, class_weight={True: 2.0})
    trace = weighted.progressive_fit(X, y > 0, ledger=True)
    with pytest.raises(ValueError, match="a weight of 1 for all rows is assumed; it is 2"):
        certify(weighted, X, y > 0, trace, theorem="second_order_logistic")
