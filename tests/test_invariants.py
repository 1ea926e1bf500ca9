"""Invariants and bounds that the papers prove for every stream."""

from math import log, log2, sqrt

import numpy as np
import pytest
from cases import CASES, STREAMS, gram_of, stream, with_budget
from hypothesis import given
from hypothesis import strategies as st

import budgetron
from budgetron import bounds
from budgetron.bounds import norm_limit

SHARE = 15 / 32
FORGETRONS = ["self-tuned", "basic", "greedy", "greedy-cumulative"]


def hinge(values, y):
    return np.maximum(0.0, 1.0 - y * values)


def competitors(K, y, limit=np.inf, count=20, seed=0):
    """Yield the norms and values of random functions in the span of the stream, of at most this norm."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        coef = rng.random(len(y)) * y * (rng.random(len(y)) < rng.random())
        norm = sqrt(coef @ K @ coef)
        if norm > 0:
            coef *= min(rng.choice([0.5, 1.0, 2.0, 5.0, 10.0]), limit) / norm
            yield sqrt(max(coef @ K @ coef, 0.0)), K @ coef


@pytest.mark.parametrize("budget", [1, 2, 7, 40])
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("label", [label for label, case in CASES.items() if with_budget(case, 1)])
def test_never_more_supports_than_the_budget(label, name, budget):
    X, y = stream(name)
    model = with_budget(CASES[label], budget).model()
    trace = model.progressive_fit(X, y, classes=[-1, 1])
    assert trace.support_sizes.max() <= budget
    assert model.n_support_ == len(model.support_vectors_) == trace.support_sizes[-1]


@given(
    variant=st.sampled_from(FORGETRONS),
    name=st.sampled_from(sorted(STREAMS)),
    budget=st.integers(1, 60),
    gamma=st.floats(0.01, 10.0),
    seed=st.integers(0, 5),
)
def test_forgetron_invariants(variant, name, budget, gamma, seed):
    X, y = stream(name, 240, seed)
    model = budgetron.Forgetron(budget, variant, gamma=gamma)
    trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
    mistakes, ledger = np.cumsum(trace.mistakes), trace.ledger
    phi = ledger["phi"][trace.mistakes]
    assert np.all((phi > 0) & (phi <= 1))
    assert np.isnan(ledger["phi"][~trace.mistakes]).all()
    # Q is the running sum of psi
    np.testing.assert_allclose(
        ledger["Q"] + np.nan_to_num(ledger["psi"]), np.cumsum(np.nan_to_num(ledger["psi"])), atol=1e-9
    )
    after = ledger["Q"] + np.nan_to_num(ledger["psi"])
    if variant == "basic":
        # The hypothesis is shrunk to norm U, then one support is removed.
        assert np.all(ledger["norm"] <= norm_limit(budget) + 1 + 1e-9)
        assert np.all(np.abs(model.dual_coef_) <= 1)
        if budget >= 83:
            assert np.all(after <= SHARE * mistakes + 1e-9)
    else:
        assert np.all(after <= SHARE * mistakes + 1e-9)  # (41)
    if variant.startswith("greedy"):  # whenever it shrinks, it removes the oldest support
        shrunk = np.flatnonzero(trace.mistakes & (ledger["phi"] < 1))
        alive = set()
        for t in np.flatnonzero(trace.mistakes):
            if t in shrunk:
                assert ledger["removed"][t] == min(alive)
            alive.add(t)
            alive.discard(ledger["removed"][t])
    elif variant == "self-tuned":
        assert np.all(np.diff(model.support_) > 0)
        assert np.all(
            ledger["phi"][: np.searchsorted(mistakes, budget + 1)][
                trace.mistakes[: np.searchsorted(mistakes, budget + 1)]
            ]
            == 1
        )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", STREAMS)
def test_greedy_tests_differ(name, seed):
    # (51) limits the damage of removing a support that is not the oldest; the cumulative test does not.
    X, y = stream(name, 400, seed)
    largest = {}
    for variant in ("greedy", "greedy-cumulative"):
        model = budgetron.Forgetron(20, variant, gamma=0.5)
        trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
        alive, damages = set(), []
        for t in np.flatnonzero(trace.mistakes):
            removed = trace.ledger["removed"][t]
            if removed >= 0 and removed != min(alive):
                assert trace.ledger["phi"][t] == 1
                damages.append(trace.ledger["psi"][t])
            alive.add(t)
            alive.discard(removed)
        largest[variant] = max(damages)
    assert largest["greedy"] <= SHARE < largest["greedy-cumulative"]


@pytest.mark.parametrize("budget", [83, 120])
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("variant", ["self-tuned", "greedy", "greedy-cumulative"])
def test_product_of_the_shrinking(variant, name, budget):
    # (48) of the proof of 003 Theorem 3: the product of Phi is at least (B + 1)^(-M / (2 (B + 1))).
    X, y = stream(name, 900, 2)
    trace = budgetron.Forgetron(budget, variant, gamma=5.0).progressive_fit(
        X, y, classes=[-1, 1], ledger=True
    )
    phi, norm = (trace.ledger[column][trace.mistakes] for column in ("phi", "step_norm"))
    U = norm_limit(budget)
    logs = [
        0.0 if p * n >= U else log(p) if n <= U else log(p * n / U)  # (24)
        for p, n in zip(phi, norm, strict=True)
    ]
    M = np.arange(1, len(logs) + 1)
    assert np.all(np.cumsum(logs) >= -M * log(budget + 1) / (2 * (budget + 1)) - 1e-12)
    assert bounds.log_shrinking(phi, phi * norm, U) == pytest.approx(sum(logs), abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("variant", FORGETRONS)
def test_forgetron_mistake_bound(variant, name, seed):
    # 003 Theorems 2 and 3, and the basic variant's Lemma 8, need B >= 83.
    X, y = stream(name, 400, seed)
    K = gram_of(name, "rbf", 400, seed)
    trace = budgetron.Forgetron(83, variant, gamma=0.5).progressive_fit(X, y, classes=[-1, 1], ledger=True)
    assert np.nansum(trace.ledger["psi"]) <= SHARE * trace.mistakes.sum()
    for norm, values in competitors(K, y, norm_limit(83)):
        assert trace.mistakes.sum() <= 2 * norm**2 + 4 * hinge(values, y).sum()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", STREAMS)
def test_perceptron_and_remove_oldest_bounds(name, seed):
    X, y = stream(name, 400, seed)
    K = gram_of(name, "rbf", 400, seed)
    plain = budgetron.KernelPerceptron(gamma=0.5).progressive_fit(X, y, classes=[-1, 1])
    oldest = budgetron.RemoveOldestPerceptron(20, gamma=0.5).progressive_fit(
        X, y, classes=[-1, 1], ledger=True
    )
    for norm, values in competitors(K, y):
        assert plain.mistakes.sum() <= norm**2 + 2 * hinge(values, y).sum()  # 003 Theorem 1
        damage = np.nansum(oldest.ledger["psi"])
        assert oldest.mistakes.sum() <= norm**2 + 2 * hinge(values, y).sum() + damage  # 003 Corollary 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("bound", [1.0, 3.0])
def test_projectron_bounds(name, seed, bound):
    X, y = stream(name, 400, seed)
    K = gram_of(name, "rbf", 400, seed)
    plain = budgetron.Projectron(norm_bound=bound, gamma=0.5).progressive_fit(
        X, y, classes=[-1, 1], ledger=True
    )
    better = budgetron.ProjectronPlusPlus(bound, gamma=0.5).progressive_fit(
        X, y, classes=[-1, 1], ledger=True
    )
    for trace in (plain, better):
        delta = trace.ledger["delta"]
        assert np.all(delta[~np.isnan(delta)] >= 0)
        assert np.all(delta[trace.mistakes] <= 1 + 1e-12)
    tau, beta = better.ledger["tau"], better.ledger["beta"]
    assert np.all(tau[~np.isnan(tau)] >= 0)
    assert np.all(tau[~np.isnan(tau)] <= 1)
    assert np.all(beta[~np.isnan(beta)] >= 0)
    for norm, values in competitors(K, y, bound):
        loss = hinge(values, y).sum()
        assert plain.mistakes.sum() <= 2 * norm**2 + 4 * loss  # 002 Corollary 1
        assert better.mistakes.sum() <= 2 * (norm**2 + 2 * loss - np.nansum(beta))  # 002 (15)
    for eta in (0.0, 0.05):
        trace = budgetron.Projectron(eta=eta, gamma=0.5).progressive_fit(X, y, classes=[-1, 1])
        for norm, values in competitors(K, y, 5.0):
            if 2 * eta * norm < 1:  # 002 Theorem 2 with R = 1
                assert trace.mistakes.sum() <= (norm**2 + 2 * hinge(values, y).sum()) / (1 - 2 * eta * norm)


def test_projectron_with_eta_0_equals_the_perceptron():
    # The space of the linear kernel is finite, so there are only as many supports as dimensions.
    X, y = stream("random", 400)
    plain = budgetron.KernelPerceptron(kernel="linear").fit(X, y)
    projected = budgetron.Projectron(eta=0.0, kernel="linear").fit(X, y)
    np.testing.assert_allclose(
        projected.decision_function(X), plain.decision_function(X), rtol=1e-8, atol=1e-8
    )
    assert projected.n_support_ == 3 < plain.n_support_


def test_small_norm_bound_never_learns():
    # If U < 0.75, (13) without supports is above sqrt k(x, x) = 1, so every update is projected to 0.
    X, y = stream("random")
    assert budgetron.Projectron(norm_bound=0.74, gamma=0.5).fit(X, y).n_support_ == 0
    assert budgetron.Projectron(norm_bound=0.76, gamma=0.5).fit(X, y).n_support_ > 0


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("budget", [10, 40])
def test_simplified_forgetron(name, budget):
    X, y = stream(name)
    model = budgetron.Forgetron(budget, "simplified", gamma=0.5)
    trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
    U2 = budget / (32 * log2(8 * budget))
    keep = 1 - 1 / (32 * U2)
    error = trace.ledger["grad_error"][trace.mistakes]
    assert np.all(np.abs(error) <= keep**budget * (1 + 1e-9))  # 000 section 3.2
    assert np.any(error != 0)
    assert np.all(trace.ledger["norm"] <= sqrt(U2) / 2 * (1 + 1e-9))
    assert np.all(np.abs(model.dual_coef_) <= 1 / 32)  # Fact 1
    assert np.all(
        np.diff(np.abs(model.dual_coef_[0])) >= 0
    )  # the oldest support has the smallest coefficient


@pytest.mark.parametrize("name", STREAMS)
def test_modified_random_budget(name):
    X, y = stream(name)
    model = budgetron.RandomizedBudgetPerceptron(30, "modified", gamma=0.5, random_state=1)
    trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
    assert np.all(trace.ledger["norm"] <= sqrt(30) / 8 * (1 + 1e-9))
    assert np.all(np.abs(model.dual_coef_) <= 1 / 16)  # Fact 1


def test_unit_vectors_defeat_every_budget():
    # 003 section 2: each round has the first unit vector that is not a support, and f = 0 is a mistake.
    budget = 6
    basis = np.eye(budget + 1)
    for label, case in CASES.items():
        case = with_budget(case, budget)
        if case is None or "projectron" in label:
            continue
        model = case.model("linear")
        model.play(basis[0], 1, classes=[-1, 1])
        for _ in range(99):
            stored = {int(row.argmax()) for row in model.support_vectors_}
            free = min(set(range(budget + 1)) - stored)
            assert model.play(basis[free], 1) == 0, label
        assert model.mistakes_ == 100, label


def test_norm_limit():
    assert norm_limit(1500) == pytest.approx(0.25 * sqrt(1501 / log(1501)))


def test_random_states():
    X, y = stream("random")
    runs = [
        budgetron.RandomizedBudgetPerceptron(10, gamma=0.5, random_state=seed).fit(X, y).support_.tolist()
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]
    # Supports are chosen uniformly: over many rounds each age is removed about equally often.
    trace = budgetron.RandomizedBudgetPerceptron(4, kernel="linear", random_state=0).progressive_fit(
        np.eye(3000), np.ones(3000), classes=[-1, 1], ledger=True
    )
    alive, positions = [], []
    for t in range(3000):
        if trace.ledger["removed"][t] >= 0:
            positions.append(alive.index(trace.ledger["removed"][t]))
            alive.pop(positions[-1])
        alive.append(t)
    counts = np.bincount(positions, minlength=4)
    assert np.all(np.abs(counts - counts.mean()) < 5 * np.sqrt(counts.mean()))
