"""Bounds, certificates and adversaries: no bound is violated, and some are tight as the papers state."""

import json
from collections import defaultdict
from math import log, sqrt

import numpy as np
import pytest
from sklearn.svm import SVC, LinearSVC

import budgetron
from budgetron import bounds, certify, experts, linear, streams
from budgetron._base.access import competitor_kernel
from budgetron._certify.svm import Dual
from budgetron.bounds import THEOREMS, AssumptionError
from budgetron.kernels import Normalized

# Every learner that has a theorem, and the largest norm that a competitor may have.
LEARNERS = {
    "perceptron": (lambda: budgetron.KernelPerceptron(gamma=0.5), np.inf),
    "voted": (lambda: budgetron.VotedKernelPerceptron(gamma=0.5), np.inf),
    "remove oldest": (lambda: budgetron.RemoveOldestPerceptron(15, gamma=0.5), np.inf),
    "shared budget": (lambda: budgetron.SharedBudgetPerceptron(15, gamma=0.5), np.inf),
    "shrinking": (lambda: budgetron.ShrinkingPerceptron(0.95, gamma=0.5), np.inf),
    "self-tuned": (lambda: budgetron.Forgetron(83, gamma=0.5), bounds.norm_limit(83)),
    "basic": (lambda: budgetron.Forgetron(83, "basic", gamma=0.5), bounds.norm_limit(83)),
    "greedy": (lambda: budgetron.Forgetron(83, "greedy", gamma=0.5), bounds.norm_limit(83)),
    "greedy-cumulative": (
        lambda: budgetron.Forgetron(83, "greedy-cumulative", gamma=0.5),
        bounds.norm_limit(83),
    ),
    "shifting": (lambda: budgetron.ShrinkingPerceptron(variant="shifting", rate=3.0, gamma=0.5), np.inf),
    "simplified": (lambda: budgetron.Forgetron(500, "simplified", gamma=0.5), bounds.drift_limit(500) / 2),
    "simplified, parameters": (
        lambda: budgetron.Forgetron(60, "simplified", eta=0.1, decay=0.5, radius=0.5, gamma=0.5),
        0.5,
    ),
    "original": (
        lambda: budgetron.RandomizedBudgetPerceptron(100, gamma=0.5, random_state=0),
        9.9,
    ),
    "modified, parameters": (
        lambda: budgetron.RandomizedBudgetPerceptron(
            100, "modified", eta=0.2, radius=2.0, gamma=0.5, random_state=0
        ),
        2.0,
    ),
    "modified": (
        lambda: budgetron.RandomizedBudgetPerceptron(100, "modified", gamma=0.5, random_state=0),
        10 / 8,
    ),
    "projectron": (lambda: budgetron.Projectron(eta=0.05, gamma=0.5), 9.9),
    "small budget": (lambda: budgetron.Forgetron(12, gamma=0.5), np.inf),
    "projectron norm": (lambda: budgetron.Projectron(norm_bound=2.0, gamma=0.5), 2.0),
    "projectron++": (lambda: budgetron.ProjectronPlusPlus(2.0, gamma=0.5), 2.0),
    "linear": (lambda: linear.Perceptron(eta=0.3), np.inf),
    "normalized": (lambda: linear.Perceptron(normalize=True), np.inf),
}


def make_stream(kind, seed, n=250):
    rng = np.random.default_rng([seed, 9])
    if kind == "separable":
        X, y, _ = streams.separable(n, 4, 0.1, seed)
    elif kind == "noisy":
        X, y = streams.two_gaussians(n, 0.2, random_state=seed)
    elif kind == "drifting":
        X, y, *_ = streams.drifting_gaussians(n, noise=0.05, random_state=seed)
    else:  # duplicates with both labels, and rows of zeros
        points = rng.normal(size=(20, 2))
        points[0] = 0
        X, y = points[rng.integers(20, size=n)], rng.choice([-1.0, 1.0], n)
    return X, y


LEMMA = "simplified_forgetron_ledger"
KINDS = ("separable", "noisy", "drifting", "duplicates")


def competitors(model, X, y, limit, rng):
    """Yield competitors of several norms within the limit, as kernel expansions; the last is an SVM."""
    kernel = competitor_kernel(model)
    for size in (3, 30, len(y)):
        rows = X[rng.integers(len(y), size=size)]
        coef = rng.random(size) * rng.choice([-1.0, 1.0], size)
        K = kernel.matrix(rows, rows)
        norm = sqrt(max(coef @ K @ coef, 1e-300))
        yield rows, coef * min(limit, rng.choice([0.3, 1.0, 3.0, 10.0])) / max(norm, 1e-12)
    K = kernel.matrix(X, X)
    svm = SVC(kernel="precomputed", C=1.0).fit(K, y)
    coef = np.zeros(len(y))
    coef[svm.support_] = svm.dual_coef_[0]
    norm = sqrt(max(coef @ K @ coef, 1e-300))
    yield X, coef * min(1.0, limit / max(norm, 1e-12) * (1 - 1e-9))


@pytest.mark.parametrize("label", LEARNERS)
def test_no_bound_is_violated(label, record_property):
    # 21 learners with 36 streams each, against four competitors and in some runs the best competitor.
    make, limit = LEARNERS[label]
    first = 100 * list(LEARNERS).index(label)
    checks, largest = defaultdict(int), defaultdict(float)
    for kind in KINDS:
        for seed in range(first, first + 9):
            X, y = make_stream(kind, seed)
            model = make()
            trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
            rng = np.random.default_rng(seed)
            chosen = list(competitors(model, X, y, limit, rng)) + (["best"] if seed < first + 2 else [])
            theorems = {
                "perceptron": ["perceptron", "perceptron_l1", "perceptron_l2"],
                "projectron": ["projectron", "projectron_root"],
                "small budget": ["forgetron_ledger"],
                "shifting": ["shifting_perceptron", "shrinking_perceptron"],
                "simplified": ["simplified_forgetron", "simplified_forgetron_general", LEMMA],
                "simplified, parameters": ["simplified_forgetron_general", LEMMA],
                "modified": ["modified_randomized_budget", "modified_randomized_budget_general"],
            }.get(label, [None])
            for competitor in chosen:
                for theorem in theorems:
                    certificate = certify(model, X, y, trace, competitor, theorem=theorem)
                    assert certificate.applies
                    assert certificate.holds, str(certificate)
                    name = certificate.theorem.split(",")[0]
                    checks[name] += 1
                    largest[name] = max(largest[name], certificate.ratio)
    for theorem, count in checks.items():
        record_property(theorem, f"{count} checks, largest ratio {largest[theorem]:.3f}")
        print(f"{label}: {theorem}: {count} checks, largest ratio {largest[theorem]:.3f}")
    assert sum(checks.values()) >= 36 * 4


def test_bounds_are_tight_on_orthonormal_streams():
    T = 40
    X, _ = streams.unit_vectors(T)
    y = np.random.default_rng(0).choice([-1.0, 1.0], T)
    competitor = (X, y)
    perceptron = budgetron.KernelPerceptron(kernel="linear")
    trace = perceptron.progressive_fit(X, y)
    assert trace.mistakes.all()
    for theorem in ("perceptron", "perceptron_l1", "perceptron_l2"):
        certificate = certify(perceptron, X, y, trace, competitor, theorem=theorem)
        assert certificate.bound == pytest.approx(T, abs=1e-9)
        assert certificate.ratio == pytest.approx(1.0, abs=1e-9)
    for infimum in (bounds.perceptron_l1_infimum, bounds.perceptron_l2_infimum):
        assert infimum(1.0, np.full(T, 1 / sqrt(T))) == pytest.approx(T, abs=1e-9)
    projectron = budgetron.Projectron(eta=0.0, kernel="linear")
    trace = projectron.progressive_fit(X, y, ledger=True)
    for theorem in ("projectron", "projectron_root"):
        certificate = certify(projectron, X, y, trace, competitor, theorem=theorem)
        assert certificate.bound == pytest.approx(T, abs=1e-9)
        assert certificate.count == T
    primal = linear.Perceptron(fit_intercept=False)
    trace = primal.progressive_fit(X, np.ones(T), classes=[-1, 1])
    assert certify(primal, X, np.ones(T), trace, np.ones(T)).ratio == pytest.approx(1.0, abs=1e-9)
    # exercise 8.3: (r / rho)^2 with r = 1, rho = 1 / sqrt(T)
    assert bounds.perceptron_separable(1.0, 1 / sqrt(T)) == pytest.approx(primal.updates_, abs=1e-9)


BUDGETED = {
    "remove oldest": lambda b: budgetron.RemoveOldestPerceptron(b, kernel="linear"),
    "self-tuned": lambda b: budgetron.Forgetron(b, kernel="linear"),
    "basic": lambda b: budgetron.Forgetron(b, "basic", kernel="linear"),
    "greedy": lambda b: budgetron.Forgetron(b, "greedy", kernel="linear"),
    "greedy-cumulative": lambda b: budgetron.Forgetron(b, "greedy-cumulative", kernel="linear"),
    "simplified": lambda b: budgetron.Forgetron(b, "simplified", kernel="linear"),
    "random": lambda b: budgetron.RandomizedBudgetPerceptron(b, kernel="linear", random_state=0),
    "modified": lambda b: budgetron.RandomizedBudgetPerceptron(
        b, "modified", kernel="linear", random_state=0
    ),
    "cks": lambda b: budgetron.CKSPerceptron(b, kernel="linear"),
    "stoptron": lambda b: budgetron.Stoptron(b, kernel="linear"),
    "tighter": lambda b: budgetron.TighterPerceptron(b, kernel="linear"),
    "auc": lambda b: budgetron.AUCMaximizer(b, kernel="linear", random_state=0),
    "ogd": lambda b: budgetron.OGD(budget=b, kernel="linear"),
    "bogd": lambda b: budgetron.BOGD(b, kernel="linear", random_state=0),
    "budget pa": lambda b: budgetron.BudgetPA(b, kernel="linear"),
    "bsgd": lambda b: budgetron.BSGD(b, kernel="linear"),
    "ahpatron": lambda b: budgetron.Ahpatron(b, kernel="linear"),
}


@pytest.mark.parametrize("label", BUDGETED)
def test_unit_vectors_defeat_every_budget(label):
    budget = 500 if label == "simplified" else 90
    adversary, model = streams.UnitVectors(budget), BUDGETED[label](budget)
    X, y, margins = adversary.against(model, budget + 60)
    assert np.all(margins == 0)
    assert model.mistakes_ == len(y)
    rows, coef = adversary.competitor
    assert np.all(y * (X @ (coef @ rows)) >= 1)  # no hinge loss
    assert np.linalg.norm(coef @ rows) == bounds.budget_norm_limit(budget)
    if label in ("self-tuned", "basic", "greedy", "greedy-cumulative", "simplified", "modified"):
        trace = type(model)(**model.get_params()).progressive_fit(X, y, classes=[-1, 1], ledger=True)
        with pytest.raises(
            AssumptionError, match=rf"a norm of the competitor of at most .* it is {sqrt(budget + 1):.3f}"
        ):
            certify(model, X, y, trace, adversary.competitor)
        certificate = certify(model, X, y, trace, adversary.competitor, check=False)
        assert not certificate.holds
        assert "NO: a norm of the competitor" in str(certificate)


def test_exponential_stream():
    for n in range(2, 9):
        X, y = streams.exponential(n)
        model = linear.Perceptron(fit_intercept=False)
        model.partial_fit(X, y, classes=[-1, 1])
        passes = np.tile(X, (50, 1)), np.tile(y, 50)  # passes after the last mistake change nothing
        while np.any(y * (X @ model.coef_[0]) <= 0):
            model.partial_fit(*passes)
        assert model.updates_ >= bounds.exponential_updates(n)


def test_two_gaussians_of_the_same_size():
    for seed in range(5):
        X, y = streams.two_gaussians(1000, 0.0, "std", random_state=seed, balanced=True)
        assert np.sum(y > 0) == np.sum(y < 0) == 500
        assert np.ptp(np.cumsum(y)) > 5  # in random order
        np.testing.assert_allclose(X[y > 0].mean(axis=0), [1, 1], atol=0.5)
    _, flipped = streams.two_gaussians(4000, 0.1, random_state=0, balanced=True)
    _, y = streams.two_gaussians(4000, 0.0, random_state=0, balanced=True)
    assert abs(np.mean(y != flipped) - 0.1) < 0.03


def test_majority_and_separable_streams():
    X, y, w = streams.majority(3000, 15, 3, random_state=0)
    assert np.min(y * (X @ w)) >= 1 / sqrt(3) - 1e-12
    model = linear.Perceptron(fit_intercept=False).fit(X, y)
    assert 10 < model.updates_ <= bounds.majority_perceptron(15, 3) == 45
    assert linear.Perceptron(normalize=True, fit_intercept=False).fit(X, y).updates_ <= 45
    X, y, w = streams.separable(2000, 6, 0.2, random_state=1)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0)
    assert np.min(y * (X @ w)) >= 0.2 - 1e-12
    assert linear.Perceptron(fit_intercept=False).fit(X, y).updates_ <= bounds.perceptron_separable(1.0, 0.2)
    assert linear.Perceptron(normalize=True, fit_intercept=False).fit(
        X, y
    ).updates_ <= bounds.normalized_perceptron(0.2)


def test_margin_perceptron_and_winnow():
    X, y, w = streams.separable(500, 5, 0.2, random_state=0)
    for fit_intercept in (False, True):
        model = linear.MarginPerceptron(0.2, fit_intercept=fit_intercept)
        trace = model.progressive_fit(X, y)
        certificate = certify(model, X, y, trace, w)
        assert certificate.holds
        assert certificate.count == model.updates_
        assert certificate.bound == pytest.approx(800 if fit_intercept else 400)  # r^2 is 2 or 1
        with pytest.raises(AssumptionError, match=r"a margin of the competitor of at least 0\.2"):
            certify(model, X, y, trace, -w)
    X, y, w = streams.majority(2000, 30, 3, random_state=0)
    for balanced in (False, True):
        model = linear.Winnow(eta=1 / 3, balanced=balanced)
        trace = model.progressive_fit(X, y)
        certificate = certify(model, X, y, trace, w)
        assert certificate.holds
        assert certificate.bound == pytest.approx(2 * 9 * log(60 if balanced else 30))
        best = certify(model, X, y, trace)
        assert model.updates_ <= best.bound <= certificate.bound * (1 + 1e-6)
    with pytest.raises(AssumptionError, match="a margin above 0"):
        certify(model, X, y, trace, -w)


def test_bounds_under_drift():
    X, y, segments, shift = streams.rotating_hyperplane(2000, steps=8, margin=0.3, norm=0.25, random_state=0)
    rows = np.vstack([w for _, w in segments])
    assert shift == pytest.approx(sum(np.linalg.norm(np.diff(rows, axis=0), axis=1)))
    for start, w in segments:
        assert np.all(y[start : start + 250] * (X[start : start + 250] @ w) >= 0.25 * 0.3 - 1e-12)
    for model in (
        budgetron.Forgetron(500, "simplified", kernel="linear"),
        budgetron.RandomizedBudgetPerceptron(100, "modified", kernel="linear", random_state=0),
    ):
        trace = model.progressive_fit(X, y, ledger=True)
        certificate = certify(model, X, y, trace, segments)
        assert certificate.holds
        assert certificate.shift == pytest.approx(shift)
        assert certificate.norm == pytest.approx(0.25)
        constant = certify(model, X, y, trace, segments[0][1])
        assert constant.shift == 0
        assert constant.losses > certificate.losses
    forgetron = budgetron.Forgetron(100, kernel="linear")
    trace = forgetron.progressive_fit(X, y, ledger=True)
    with pytest.raises(ValueError, match="one competitor for all rounds"):
        certify(forgetron, X, y, trace, segments)
    with pytest.raises(ValueError, match="begin at 0"):
        certify(model, X, y, trace, segments[1:])


def test_drifting_gaussians():
    X, y, segments, shift = streams.drifting_gaussians(1500, noise=0.05, steps=12, norm=0.4, random_state=0)
    X /= np.linalg.norm(X, axis=1).max()
    model = budgetron.RandomizedBudgetPerceptron(400, "modified", kernel="linear", random_state=0)
    certificate = certify(model, X, y, model.progressive_fit(X, y, ledger=True), segments)
    assert certificate.holds
    assert (
        certificate.shift
        == pytest.approx(shift)
        == pytest.approx(0.4 * 2 * 11 * np.sin(np.pi / 12), rel=0.01)
    )


def test_coin_flips_and_contradiction():
    T, regrets = 400, []
    for seed in range(200):
        losses = streams.coin_flips(T, seed)
        assert np.all(losses.sum(axis=1) == 1)
        regrets.append(experts.ExponentialWeights(sqrt(8 * log(2) / T)).play_losses(losses).regret)
    assert np.mean(regrets) >= bounds.coin_flips(T)
    assert np.max(regrets) <= bounds.exponential_weights(2, T)
    assert np.abs(np.random.default_rng(0).binomial(2, 0.5, 10**6) - 1).mean() == pytest.approx(
        bounds.coin_flips(2), abs=2e-3
    )
    majority = experts.WeightedMajority(beta=0.5)
    advice, outcomes = streams.contradict(majority, 100)
    best = min(np.sum(advice != outcomes[:, None], axis=0))
    assert best <= 50
    assert bounds.weighted_majority(2, 0.5, best) >= 100
    assert experts.WeightedMajority(beta=0.5).play(advice, outcomes).losses.sum() == 100


def test_all_kinds_of_competitors():
    X, y = streams.two_gaussians(300, random_state=0)
    model = budgetron.KernelPerceptron(gamma=0.5)
    trace = model.progressive_fit(X, y)
    svc = SVC(gamma=0.5).fit(X, y)
    a = certify(model, X, y, trace, svc)
    b = certify(model, X, y, trace, (svc.support_vectors_, svc.dual_coef_[0]))
    assert a.bound == pytest.approx(b.bound)
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    coef = np.zeros(300)
    coef[svc.support_] = svc.dual_coef_[0]
    expected = coef @ K @ coef + 2 * np.maximum(0, 1 - y * (K @ coef)).sum()
    assert a.bound == pytest.approx(expected)
    other = budgetron.Forgetron(50, gamma=0.5).fit(X, y)
    assert certify(model, X, y, trace, other).holds
    with pytest.raises(ValueError, match=r"gamma is 2\.0 in Forgetron, not 0.5"):
        certify(model, X, y, trace, budgetron.Forgetron(50, gamma=2.0).fit(X, y))
    with pytest.raises(ValueError, match="name is linear in LinearSVC, not rbf"):
        certify(model, X, y, trace, LinearSVC().fit(X, y))
    with pytest.raises(ValueError, match="rows of 2 features"):
        certify(model, X, y, trace, (X[:, :1], y))
    with pytest.raises(TypeError, match="competitor must be"):
        certify(model, X, y, trace, 3)
    with pytest.raises(ValueError, match="competitor must be"):
        certify(model, X, y, trace, "worst")
    primal = linear.Perceptron()
    trace = primal.progressive_fit(X, y)
    svm = LinearSVC(fit_intercept=False).fit(X, y)
    assert certify(primal, X, y, trace, svm).bound == certify(primal, X, y, trace, svm.coef_[0]).bound
    assert certify(primal, X, y, trace, linear.AROW().fit(X, y)).holds


def test_best_competitor():
    # Compare with a much tighter solution and, inside a ball, with projected subgradient steps.
    X, y = streams.two_gaussians(400, 0.1, random_state=1)
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    for limit in (np.inf, 2.0):
        dual = Dual(budgetron._core.kernel.Kernel("rbf", 0.5), X, y)
        dual.within(1.0, limit, 1e-3)
        found = 0.5 * dual.norm2() + dual.losses()
        tight = Dual(budgetron._core.kernel.Kernel("rbf", 0.5), X, y)
        tight.within(1.0, limit, 1e-7)
        coef = tight.alpha * y
        exact = 0.5 * coef @ K @ coef + np.maximum(0, 1 - y * (K @ coef)).sum()
        assert sqrt(coef @ K @ coef) <= limit * (1 + 1e-4)
        assert found <= 1.01 * exact
        if limit == np.inf:  # weak duality: no primal value is below the dual value
            assert exact <= (tight.alpha.sum() - 0.5 * coef @ K @ coef) * (1 + 1e-5)
        else:
            value = np.inf
            trial = coef.copy()
            for step in range(3000):
                errors = y * (K @ trial) < 1
                trial -= 0.3 / (10 + step) * (trial - errors * y)
                norm = sqrt(trial @ K @ trial)
                trial *= min(1.0, limit / norm)
                value = min(value, 0.5 * trial @ K @ trial + np.maximum(0, 1 - y * (K @ trial)).sum())
            assert exact <= value * 1.002


def test_reports_of_certificates():
    X, y = streams.two_gaussians(500, random_state=0)
    model = budgetron.Forgetron(100, gamma=0.5)
    trace = model.progressive_fit(X, y)
    certificate = certify(model, X, y, trace)
    text = str(certificate)
    for part in (
        "Forgetron paper, Theorems 2 and 3",
        "a budget of at least 83",
        "mistakes",
        "bound",
        "the bound holds",
    ):
        assert part in text
    values = json.loads(json.dumps(certificate.to_dict()))
    assert values["holds"] is True
    assert values["count"] == trace.mistakes.sum()
    assert all(assumption["holds"] for assumption in values["assumptions"])
    small = budgetron.Forgetron(50, gamma=0.5)
    trace = small.progressive_fit(X, y)
    with pytest.raises(AssumptionError, match="does not apply: a budget of at least 83"):
        certify(small, X, y, trace)
    assert "does not apply" in str(certify(small, X, y, trace, check=False))


def test_uncertifiable_models_raise():
    X, y = streams.two_gaussians(200, random_state=0)
    for model in (
        budgetron.CKSPerceptron(50),
        budgetron.TighterPerceptron(50),
        budgetron.AUCMaximizer(50),
        budgetron.BudgetPA(50),
        budgetron.NOGD(50),
        budgetron.PassiveAggressive(),
        budgetron.Stoptron(50),
        budgetron.ProjectronPlusPlus(2.0, eta=0.1),
        linear.OnlineSVM(),
    ):
        trace = model.progressive_fit(X, y)
        with pytest.raises(ValueError, match="the papers state no theorem"):
            certify(model, X, y, trace)
    model = budgetron.KernelPerceptron()
    trace = model.progressive_fit(X, y)
    with pytest.raises(ValueError, match="the whole stream that the model learned"):
        certify(model, X[:-1], y[:-1], trace)
    model.partial_fit(X, y)
    with pytest.raises(ValueError, match="400 in the model"):
        certify(model, X, y, trace)
    with pytest.raises(ValueError, match="two classes"):
        certify(budgetron.KernelPerceptron().fit(X, np.arange(200) % 3), X, y, trace)
    model = budgetron.RemoveOldestPerceptron(20, gamma=0.5)
    trace = model.progressive_fit(X, y)
    with pytest.raises(ValueError, match="ledger=True"):
        certify(model, X, y, trace, (X[:3], np.ones(3)))
    capped = budgetron.Projectron(norm_bound=2.0, budget=5, gamma=0.5)
    trace = capped.progressive_fit(X, y)
    with pytest.raises(AssumptionError, match="a number of supports below the budget 5"):
        certify(capped, X, y, trace)
    with pytest.raises(ValueError, match="theorem must be one of"):
        certify(budgetron.KernelPerceptron().fit(X, y), X, y, trace, theorem="forgetron")
    wide = budgetron.Projectron(norm_bound=2.0, kernel="linear")
    trace = wide.progressive_fit(X, y)
    with pytest.raises(AssumptionError, match="a radius"):
        certify(wide, X, y, trace, (X[:1], np.zeros(1)))
    sphere = budgetron.Projectron(norm_bound=2.0, kernel=Normalized("linear"))
    assert certify(sphere, X, y, sphere.progressive_fit(X, y)).holds


# ---------------------------------------------------------------------- the functions of bounds


def test_values_of_bounds():
    assert bounds.perceptron(2.0, 3.0) == 10.0
    assert bounds.forgetron(1.0, 3.0, 100) == 14.0
    assert bounds.remove_oldest(2.0, 3.0, 5.0) == 15.0
    assert bounds.simplified_forgetron(0.3, 7.0, 500, 2.0) == pytest.approx(
        2 * (7 + 16 * bounds.drift_limit(500) ** 2 + 96 * bounds.drift_limit(500))
    )
    assert bounds.drift_limit(500) ** 2 == pytest.approx(500 / (32 * np.log2(4000)))
    assert bounds.modified_randomized_budget(1.0, 9.0, 64, 2.0) == pytest.approx(4 / 3 * (9 + 32 + 96))
    assert bounds.projectron(2.0, 3.0, 0.1) == pytest.approx(10 / 0.6)
    assert bounds.projectron_root(2.0, 3.0, 0.1) == pytest.approx(((2 + 4) / 1.6) ** 2)
    assert bounds.projectron_norm_bound(1.0, 3.0, 2.0) == 14.0
    assert bounds.projectron_plus_plus(1.0, 3.0, 2.5, 2.0) == 9.0
    assert bounds.perceptron_l1(1.0, 0.5, 3.0) == pytest.approx(9.0)
    assert bounds.perceptron_l2(1.0, 0.5, 3.0) == 25.0
    assert bounds.winnow(1.0, 0.5, 100) == pytest.approx(8 * log(100))
    assert bounds.winnow_general(1.0, 0.5, 100, 0.5) == pytest.approx(bounds.winnow(1.0, 0.5, 100))
    assert bounds.margin_perceptron(2.0, 0.5) == 256.0
    assert bounds.shrinking_perceptron(2.0, 3.0, log(0.5)) == pytest.approx(4 * (1 + log(2)) + 6)
    # (24): shrinking counts nothing outside the ball, partly across its border, fully inside.
    assert bounds.log_shrinking([0.5, 0.5, 0.5], [2.0, 0.75, 0.25], 1.0) == pytest.approx(
        log(0.75) + log(0.5)
    )
    assert bounds.gradient_descent(2.0, 0.5, 10, 3.0, 0.25, 1.0) == pytest.approx(4 + 6 + 22.5 + 0.5)
    assert bounds.halving(64) == 6
    assert bounds.weighted_majority(8, 0.5, 3) == pytest.approx((log(8) + 3 * log(2)) / log(4 / 3))
    assert bounds.randomized_weighted_majority(8, 0.75, 4) == pytest.approx(4 * log(8) + 5)
    assert bounds.randomized_weighted_majority_tuned(8, 100) == pytest.approx(20 * sqrt(log(8)))
    assert bounds.exponential_weights(8, 50, 0.5) == pytest.approx(2 * log(8) + 50 / 16)
    assert bounds.exponential_weights(8, 50) == pytest.approx(sqrt(25 * log(8)))
    assert bounds.exponential_weights_doubling(8, 50) == pytest.approx(
        sqrt(2) / (sqrt(2) - 1) * 5 * sqrt(log(8)) + sqrt(log(8) / 2)
    )
    assert bounds.prod(8, 1000, 0.9) == pytest.approx(10 * log(8) + 100)
    assert bounds.prod(8, 1000) == pytest.approx(2 * sqrt(1000 * log(8)))
    assert bounds.prod_general(8, 1000, 0.9, 0.5) == pytest.approx(10 * log(8) + 200)
    assert bounds.polynomial_weights(16, 50, 4.0) == pytest.approx(sqrt(150) * 2)
    assert bounds.averaged_risk(20.0, 100, 0.1, 3.0) == pytest.approx(0.2 + 3 * sqrt(2 * log(10) / 100))
    assert bounds.averaged_risk_by_regret(0.1, 20.0, 100, 0.1) == pytest.approx(
        0.3 + 2 * sqrt(2 * log(20) / 100)
    )
    assert bounds.penalized_risk(20.0, 100, 0.1) == pytest.approx(0.2 + 6 * sqrt(log(2020) / 100))
    assert bounds.perceptron_trace(5.0, 0.5, 16.0) == 13.0
    assert bounds.penalized_perceptron_risk(5.0, 0.5, 16.0, 100, 0.1) == bounds.penalized_risk(13.0, 100, 0.1)
    assert bounds.leave_one_out(7, 1.0, 0.5, 10) == 0.4
    assert bounds.game_gap(5.0, 100) == 0.05
    assert bounds.coin_flips(32) == 2.0
    assert bounds.perceptron_l1_loose(1.0, 0.5, 4.0) == 16.0
    assert bounds.forgetron_ledger(2.0, 3.0, log(0.5), 5.0) == pytest.approx(4 * (1 + log(2)) + 11)
    assert bounds.prod_second_order(8, 0.75, 12.0) == pytest.approx(4 * log(8) + 3)
    assert bounds.polynomial_weights(100, 50, None) == pytest.approx(sqrt(np.e * (2 * log(100) - 1) * 50))
    assert bounds.contradicted(10) == 5
    assert bounds.best_possible(3) == 3
    assert bounds.exponential_weights_risk(0.1, 8, 50, 0.1) == pytest.approx(
        0.1 + sqrt(log(8) / 100) + 2 * sqrt(2 * log(20) / 50)
    )
    margins = [1e-12] + [1.0] * 99  # the minimum is far from most of the range
    grid = np.linspace(0, 3, 3001)
    minimum_on_grid = min(u + np.linalg.norm(np.maximum(0, 1 - np.array(margins) * u)) for u in grid) ** 2
    assert bounds.perceptron_l2_infimum(1.0, margins) == pytest.approx(minimum_on_grid, rel=1e-3)


def test_parameters_outside_the_domain_of_a_bound():
    for bound in (
        lambda **k: bounds.perceptron_l1(1.0, 0.0, 1.0, **k),
        lambda **k: bounds.weighted_majority(4, 0.0, 1, **k),
        lambda **k: bounds.exponential_weights(4, 10, 0.0, **k),
        lambda **k: bounds.averaged_risk(1.0, 10, 0.0, **k),
        lambda **k: bounds.simplified_forgetron(0.1, 1.0, 0, **k),
        lambda **k: bounds.forgetron(0.1, 1.0, 0, **k),
    ):
        with pytest.raises(AssumptionError):
            bound()
        assert isinstance(bound(check=False), float)
        assert isinstance(bound(check=[]), float)


def learn_and_certify(model, X, y, competitor="best", **options):
    return certify(model, X, y, model.progressive_fit(X, y, ledger=True), competitor, **options)


def test_difficult_kernels_and_rows():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 17, size=(20, 64)).astype(float)
    y = rng.choice([-1.0, 1.0], 20)
    assert learn_and_certify(budgetron.Forgetron(100, kernel=Normalized("allsubsets")), X, y).holds
    model = budgetron.KernelPerceptron(kernel="poly", gamma=1.0, degree=5)
    assert learn_and_certify(model, rng.normal(size=(60, 3)) * 1e4, rng.choice([-1.0, 1.0], 60)).holds
    for seed in range(5):  # every row has both labels, so the best competitor is almost 0
        rows = np.random.default_rng(seed).normal(size=(50, 5))
        rows = np.tile(rows / np.linalg.norm(rows, axis=1, keepdims=True) / 1.0001, (2, 1))
        labels = np.repeat([1.0, -1.0], 50)
        certificate = learn_and_certify(budgetron.Forgetron(600, "simplified", kernel="linear"), rows, labels)
        assert certificate.holds
    X, y = streams.two_gaussians(500, 0.1, random_state=0)
    far = budgetron.RandomizedBudgetPerceptron(2000, "modified", kernel=Normalized("linear"), random_state=0)
    assert learn_and_certify(far, X + 1000, y).applies
    unit = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    assert learn_and_certify(budgetron.Forgetron(200, kernel="linear"), unit, y).holds
    assert learn_and_certify(budgetron.Projectron(eta=0.01, gamma=0.5), X.astype(np.float32), y).holds
    X, y, w = streams.separable(500, 5, 0.2, random_state=0)
    assert learn_and_certify(linear.MarginPerceptron(0.2), X, y).holds
    assert learn_and_certify(linear.Perceptron(normalize=True), X * 3, y, w).holds
    assert learn_and_certify(linear.Perceptron(normalize=True), X, y, linear.AROW().fit(X, y)).holds


def test_mismatched_arguments_raise():
    X, y = streams.two_gaussians(300, random_state=0)
    model = budgetron.Forgetron(90, gamma=0.5)
    trace = model.progressive_fit(X, y)
    other = budgetron.KernelPerceptron(gamma=5.0).progressive_fit(X, y)
    with pytest.raises(ValueError, match="trace must be the model's own"):
        certify(model, X, y, other)
    with pytest.raises(ValueError, match="budget changed since the first call"):
        certify(model.set_params(budget=1000), X, y, trace)
    model.set_params(budget=90)
    with pytest.raises(ValueError, match="SVC has 'sigmoid'"):
        certify(model, X, y, trace, SVC(kernel="sigmoid").fit(X, y))
    with pytest.raises(ValueError, match="must be finite"):
        certify(model, X, y, trace, (X[:2], np.array([1.0, np.nan])))
    winnow = linear.Winnow()
    trace = winnow.progressive_fit(X, y)
    with pytest.raises(ValueError, match="theorem must be one of"):
        certify(winnow, X, y, trace, theorem="nonsense")
    with pytest.raises(ValueError, match="competitor must be"):
        certify(winnow, X, y, trace, "bset")
    for call in (
        lambda: streams.rotating_hyperplane(5, steps=10),
        lambda: streams.separable(10, 1, 0.1),
        lambda: streams.majority(10, 5, -1),
        lambda: streams.two_gaussians(10, spread="wide"),
        lambda: streams.two_gaussians(10, noise=2),
        lambda: streams.two_gaussians(11, balanced=True),
    ):
        with pytest.raises(ValueError, match="must be"):
            call()


def test_infima_over_rho():
    rng = np.random.default_rng(0)
    for _ in range(20):
        margins = rng.normal(0.3, 0.4, size=30)
        grid = np.geomspace(1e-3, 1e3, 4000)
        losses = np.maximum(0, 1 - margins[None] / grid[:, None])
        by_grid = min(
            bounds.perceptron_l1(1.0, rho, loss.sum()) for rho, loss in zip(grid, losses, strict=True)
        )
        found = bounds.perceptron_l1_infimum(1.0, margins)
        assert found <= by_grid * (1 + 1e-9)
        assert found >= by_grid * (1 - 1e-2)
        by_grid = min(
            bounds.perceptron_l2(1.0, rho, np.linalg.norm(loss))
            for rho, loss in zip(grid, losses, strict=True)
        )
        found = bounds.perceptron_l2_infimum(1.0, margins)
        assert found <= by_grid * (1 + 1e-9)
        assert found >= by_grid * (1 - 1e-2)


OUTSIDE = [
    (lambda **k: bounds.perceptron(1.0, 0.0, 1.1, **k), "a radius"),
    (
        lambda **k: bounds.forgetron(1.0, 0.0, 82, **k),
        "budget of at least 83 is assumed; it is 82",
    ),
    (lambda **k: bounds.forgetron(9.0, 0.0, 100, **k), "a norm of the competitor"),
    (lambda **k: bounds.forgetron(1.0, 0.0, 100, 1.5, **k), "a radius"),
    (lambda **k: bounds.simplified_forgetron(0.1, 0.0, 499, **k), "at least 500"),
    (lambda **k: bounds.modified_randomized_budget(2.0, 0.0, 100, **k), "a norm of the competitor"),
    (lambda **k: bounds.projectron(10.0, 0.0, 0.1, **k), "2 - R"),
    (lambda **k: bounds.projectron_root(10.0, 0.0, 0.1, **k), "1 - eta"),
    (lambda **k: bounds.projectron_norm_bound(3.0, 0.0, 2.0, **k), "a norm of the competitor"),
    (lambda **k: bounds.perceptron_separable(1.0, 0.0, **k), "a margin above 0"),
    (lambda **k: bounds.majority_perceptron(10, 4, **k), "odd"),
    (lambda **k: bounds.winnow_general(1.0, 0.1, 10, 0.3, **k), "eta rho"),
    (lambda **k: bounds.weighted_majority(10, 1.5, 1, **k), "a beta between 0 and 1"),
    (lambda **k: bounds.randomized_weighted_majority(10, 0.4, 1, **k), "a beta from 1/2"),
    (lambda **k: bounds.prod(10, 5, 0.3, **k), "1 - beta"),
    (lambda **k: bounds.polynomial_weights(10, 5, 1.5, **k), "an alpha above 2"),
    (lambda **k: bounds.averaged_risk(1.0, 5, 2.0, **k), "a delta"),
]


@pytest.mark.parametrize(("bound", "message"), OUTSIDE)
def test_violated_assumptions_raise(bound, message):
    with pytest.raises(AssumptionError, match=message):
        bound()
    assumptions = []
    bound(check=assumptions)
    assert any(not assumption.holds for assumption in assumptions)
    bound(check=False)  # does not raise


PAPERS = (
    "Sutskever's paper, ",
    "CS269 notes, ",
    "Projectron paper, ",
    "Forgetron paper, ",
    "Mohri et al., ",
    "Cesa-Bianchi, Lugosi (2006) ",
    "Guide to fleets, ",
    "Page on second-order learners, ",
    "Cavallanti, Cesa-Bianchi, Gentile (2007), our proof",
    "Crammer, Kulesza, Dredze (2009), ",
    "Vovk (2001); Azoury, Warmuth (2001)",
    "Crammer, Dekel, Keshet, Shalev-Shwartz, Singer (2006), ",
    "Herbster, Warmuth (1998), ",
    "Gibbs, Candes (2021), ",
    "Kivinen, Smola, Williamson (2004), with errors",
    "Liao et al. (2024), our proof",
)


def test_every_theorem_is_listed():
    for name, theorem in THEOREMS.items():
        assert getattr(bounds, name) is theorem.function
        assert theorem.function.__doc__
        assert theorem.source.startswith(PAPERS)
    assert len(THEOREMS) >= 35


def test_expert_algorithms_stay_within_their_bounds():
    rng = np.random.default_rng(5)
    losses = rng.random((300, 12))
    regret = experts.ExponentialWeights("anytime").play_losses(losses).regret
    assert regret <= bounds.exponential_weights_anytime(12, 300)
    assert bounds.exponential_weights_anytime(12, 300) <= bounds.exponential_weights_doubling(12, 300)
    for eta in (0.05, 0.3):
        assert experts.ExponentialWeights(eta).play_losses(losses).regret <= bounds.exponential_weights(
            12, 300, eta
        )
    doubling = experts.ExponentialWeights("doubling").play_losses(losses)
    assert doubling.regret <= bounds.exponential_weights_doubling(12, 300)
    assert experts.Prod(0.8).play_losses(losses).regret <= bounds.prod(12, 300, 0.8)
    assert experts.PolynomialWeights(5.0).play_losses(losses).regret <= bounds.polynomial_weights(
        12, 300, 5.0
    )


def test_html_of_a_certificate():
    X, y = streams.two_gaussians(500, 0.05, spread="std", random_state=0)
    model = budgetron.KernelPerceptron(gamma=0.5)
    certificate = certify(model, X, y, model.progressive_fit(X, y))
    html = certificate._repr_html_()
    for name, value in certificate._lines():
        assert f'<th scope="row">{name}</th>' in html
        assert f"  {name:<12} {value}" in str(certificate)
    assert certificate.verdict in html
