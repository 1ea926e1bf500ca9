"""Bounds against drifting competitors: randomized budgets, the shifting Perceptron, Sutskever's constants."""

from math import log2, sqrt

import numpy as np
import pytest
from cases import CASES, STREAMS, gram_of, stream

import budgetron
from budgetron import bounds, certify, streams
from budgetron.bounds import AssumptionError


def hinge(margins):
    return np.maximum(0.0, 1.0 - margins)


def random_competitors(K, limit, drifts, rng):
    """Return coefficients of one competitor per round, their largest norm, and their total drift."""
    n = len(K)
    segments = np.sort(rng.integers(1, n, size=2)) if drifts else []
    which = np.searchsorted(segments, np.arange(n), side="right")
    coef = np.zeros((3, n))
    for row in coef:
        row[:] = rng.normal(size=n) * (rng.random(n) < 0.5)
        row *= limit * rng.random() / sqrt(max(row @ K @ row, 1e-12))
    g = coef[which]
    norm = sqrt(max(row @ K @ row for row in g))
    steps = np.diff(g, axis=0)
    return g, norm, sum(sqrt(max(d @ K @ d, 0.0)) for d in steps)


# ---------------------------------------------------------------------- the original RBP


def mean_mistakes(K, y, budget):
    """Return the exact mean number of mistakes of the original RBP, over all random choices."""

    def play(t, alpha):
        if t == len(y):
            return 0.0
        rounds = list(alpha)
        if y[t] * sum(alpha[i] * K[i, t] for i in rounds) > 0:
            return play(t + 1, alpha)
        if len(alpha) < budget:
            return 1 + play(t + 1, alpha | {t: y[t]})
        kept = [{i: c for i, c in alpha.items() if i != gone} | {t: y[t]} for gone in rounds]
        return 1 + sum(play(t + 1, one) for one in kept) / budget

    return play(0, {})


@pytest.mark.parametrize("budget", [1, 2, 3])
@pytest.mark.parametrize("drifts", [False, True])
def test_exact_mean_of_the_randomized_budget(budget, drifts):
    rng = np.random.default_rng([budget, drifts])
    ratios = []
    for _ in range(60):
        n, scale = int(rng.integers(4, 12)), rng.choice([0.3, 1.0, 2.0])
        X = scale * rng.normal(size=(n, 2))
        y = rng.choice([-1.0, 1.0], n) if rng.random() < 0.5 else np.where(X[:, 0] > 0, 1.0, -1.0)
        K = X @ X.T
        radius = sqrt(K.diagonal().max())
        mean = mean_mistakes(K, y, budget)
        for _ in range(10):
            g, norm, shift = random_competitors(K, 0.999 * sqrt(budget) / radius, drifts, rng)
            losses = hinge(y * np.einsum("ti,it->t", g, K)).sum()
            bound = bounds.randomized_budget(norm, losses, budget, shift, radius)
            assert mean <= bound
            ratios.append(mean / bound)
    assert max(ratios) > 0.2  # the bound is not empty


def test_mean_change_of_one_mistake():
    # The inequality of the proof: the mean of ||v - g||^2 over the support that is removed.
    rng = np.random.default_rng(0)
    for _ in range(300):
        B, eta = int(rng.integers(1, 7)), rng.uniform(0.05, 2.0)
        X = rng.normal(size=(B + 1, 3)) * rng.uniform(0.2, 2.0)
        K = X @ X.T
        radius2 = K.diagonal().max()
        labels = rng.choice([-1.0, 1.0], B)
        v = np.append(eta * labels, 0.0)
        y = -1.0 if (K @ v)[-1] > 0 else 1.0
        g = rng.normal(size=B + 1) * rng.uniform(0.0, 2.0)
        norm2, margin = g @ K @ g, y * (K @ g)[-1]
        after = []
        for gone in range(B):
            w = v.copy()
            w[gone] = 0.0
            w[-1] = eta * y
            after.append((w - g) @ K @ (w - g))
        change = np.mean(after) - (v - g) @ K @ (v - g)
        limit = -2 * eta * (1 - hinge(margin)) + 2 * eta**2 * radius2 + norm2 / (2 * B)
        assert change <= limit + 1e-9


def test_randomized_budget_closed_form():
    grid = np.geomspace(1e-4, 2, 20001)
    for norm, losses, B, shift, R in [
        (1.5, 20.0, 50, 0.3, 1.0),
        (0.4, 0.0, 9, 0.0, 2.0),
        (3.0, 500.0, 100, 2.0, 0.5),
    ]:
        bound = bounds.randomized_budget(norm, losses, B, shift, R)
        factor = 1 - grid * R**2 - norm**2 / (4 * B * grid)
        values = (losses + norm**2 / (2 * grid) + B * R * shift)[factor > 0] / factor[factor > 0]
        assert bound == pytest.approx(values.min(), rel=1e-6)
        root = sqrt(B)
        assert bound <= (losses + norm * R * root + B * R * shift) / (1 - norm * R / root) + 1e-9
    assert bounds.randomized_budget(0.0, 7.0, 10) == 7.0
    assert bounds.randomized_budget(4.0, 7.0, 10, check=False) == np.inf
    with pytest.raises(AssumptionError, match="a norm \\* radius below"):
        bounds.randomized_budget(4.0, 7.0, 10)


def test_certificate_of_the_original_budget_under_drift():
    X, y, segments, shift = streams.rotating_hyperplane(2000, steps=8, margin=0.3, norm=3.0, random_state=0)
    counts, found = [], []
    for seed in range(20):
        model = budgetron.RandomizedBudgetPerceptron(40, kernel="linear", random_state=seed)
        trace = model.progressive_fit(X, y)
        certificate = certify(model, X, y, trace, segments)
        counts.append(certificate.count)
        found.append(certificate.bound)
    assert certificate.quantity == "expected mistakes"
    assert certificate.applies
    assert certificate.shift == pytest.approx(shift)
    assert np.ptp(found) == 0
    assert np.mean(counts) < found[0] < np.inf


# ---------------------------------------------------------------------- the shifting Perceptron


@pytest.mark.parametrize("rate", [1.0, 1.5, 4.0])
@pytest.mark.parametrize("name", STREAMS)
def test_norms_of_the_shifting_perceptron(name, rate):
    case = CASES["shifting"]
    _, y = stream(name)
    reference = case.reference(gram_of(name, "rbf"), y, rate)
    for t in range(len(y)):
        reference.play(t)
        k = reference.mistakes
        if k:
            assert reference.norm(reference.w) <= rate / sqrt((2 * rate - 1) * k) + 1e-12


@pytest.mark.parametrize("drifts", [False, True])
@pytest.mark.parametrize("rate", [1.0, 2.0, 10.0])
@pytest.mark.parametrize("name", STREAMS)
def test_bound_of_the_shifting_perceptron(name, rate, drifts):
    X, y = stream(name, 400, 3)
    K = gram_of(name, "rbf", 400, 3)
    model = budgetron.ShrinkingPerceptron(variant="shifting", rate=rate, gamma=0.5)
    on = model.progressive_fit(X, y, classes=[-1, 1]).mistakes
    rng = np.random.default_rng(0)
    for limit in (0.5, 2.0, 5.0, 20.0) * 5:
        g, norm, shift = random_competitors(K, limit, drifts, rng)
        losses = hinge(y * np.einsum("ti,it->t", g, K))[on].sum()
        assert on.sum() <= bounds.shifting_perceptron(norm, losses, rate, shift)


def test_rate_1_is_the_perceptron():
    X, y = stream("random")
    plain = budgetron.KernelPerceptron(gamma=0.5)
    shifting = budgetron.ShrinkingPerceptron(variant="shifting", rate=1.0, gamma=0.5)
    np.testing.assert_array_equal(plain.progressive_fit(X, y).margins, shifting.progressive_fit(X, y).margins)
    assert bounds.shifting_perceptron(2.0, 7.0, 1.0, 0.0, 1.5) == pytest.approx(
        bounds.perceptron_l1(1.5, 0.5, 7.0)
    )
    K = 1.5 * (2 * sqrt(5) + 0.7 / sqrt(5))
    m = bounds.shifting_perceptron(2.0, 7.0, 3.0, 0.7, 1.5)
    assert m == pytest.approx(7.0 + K * sqrt(m))
    with pytest.raises(AssumptionError, match="a rate of at least 1"):
        bounds.shifting_perceptron(1.0, 1.0, 0.5)


def test_certificate_of_the_shifting_perceptron_under_drift():
    X, y, segments, shift = streams.rotating_hyperplane(4000, steps=8, margin=0.2, norm=4.0, random_state=1)
    for rate in (1.0, 4.0, 20.0):
        model = budgetron.ShrinkingPerceptron(variant="shifting", rate=rate, kernel="linear")
        trace = model.progressive_fit(X, y)
        certificate = certify(model, X, y, trace, segments)
        assert certificate.holds
        assert certificate.shift == pytest.approx(shift)
        # The best competitor does not drift. It is at least as good as any of the segments.
        assert certify(model, X, y, trace).bound <= certify(model, X, y, trace, segments[0][1]).bound * 1.001


# ---------------------------------------------------------------------- Sutskever's paper with any constants


def test_default_constants_give_the_theorems():
    for B, norm, losses, shift in [(64, 0.5, 10.0, 0.0), (900, 3.0, 200.0, 1.5)]:
        assert bounds.modified_randomized_budget_general(
            norm, losses, B, 1 / 16, sqrt(B) / 8, shift
        ) == pytest.approx(bounds.modified_randomized_budget(norm, losses, B, shift))
    for B in (500, 2000, 10**5):  # eq. 11 is stated with 1/2 on its right-hand side
        U = sqrt(B / (32 * log2(8 * B)))
        general = bounds.simplified_forgetron_general(0.3, 10.0, B, 1 / 32, 1 / U**2, U / 2, 1.5)
        share = 1 / 8 + (2 + 1 / U) ** 2 / 64 + U * (1 - 1 / (32 * U**2)) ** B
        assert general == pytest.approx((10 + 16 * U**2 + 72 * U) / (1 - share))
        assert share <= 0.5
        assert general <= bounds.simplified_forgetron(0.3, 10.0, B, 1.5)


def test_constants_without_a_bound_are_refused():
    for bound, message in [
        (lambda **k: bounds.modified_randomized_budget_general(0.5, 1.0, 9, 0.6, 0.5, **k), "in eq. 8 below"),
        (lambda **k: bounds.modified_randomized_budget_general(0.6, 1.0, 9, 0.1, 0.5, **k), "a norm of the"),
        (lambda **k: bounds.simplified_forgetron_general(0.5, 1.0, 9, 0.1, 0.0, 1.0, **k), "in eq. 11 below"),
        (
            lambda **k: bounds.simplified_forgetron_general(0.5, 1.0, 9, 0.1, 11.0, 1.0, **k),
            "a decay \\* eta",
        ),
        (lambda **k: bounds.simplified_forgetron_ledger(2, 1, 9, 0.1, 0.1, 1.0, 2, 0, **k), "a norm of the"),
    ]:
        with pytest.raises(AssumptionError, match=message):
            bound()
        assert not np.isnan(bound(check=False))
    X, y = stream("random")
    model = budgetron.Forgetron(20, "simplified", eta=0.5, decay=0.1, gamma=0.5)
    trace = model.progressive_fit(X, y, ledger=True)
    with pytest.raises(AssumptionError, match=r"in eq\. 11 below 1"):
        certify(model, X, y, trace)


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(("eta", "decay", "radius"), [(0.1, 0.5, 0.6), (0.5, 0.2, 1.5), (1 / 32, 4.0, 0.3)])
def test_lemma_1_on_a_ledger(name, eta, decay, radius):
    # The quantities of the lemma computed from the reference, round by round, against those of the ledger.
    X, y = stream(name)
    K = gram_of(name, "rbf")
    case = CASES["forgetron simplified, parameters"]
    reference = case.reference(K, y, 12, eta, decay, radius)
    w, gradients, errors, excess = {}, [], [], 0.0
    for t in range(len(y)):
        before, mistakes = dict(w), reference.mistakes
        margin = y[t] * reference.play(t)
        w = reference.alpha
        if reference.mistakes > mistakes:
            removed, c = reference.entry["removed"], reference.entry["grad_error"]
            gradient = {i: decay * a for i, a in before.items()}  # -y k(x, .) + lambda w + E
            gradient[t] = gradient.get(t, 0.0) - y[t]
            if removed >= 0:
                gradient[removed] += c
            gradients.append(reference.norm(gradient))
            errors.append(abs(c))
            excess += 1 - margin + decay * reference.norm(before) ** 2 / 2 - 1
    model = budgetron.Forgetron(12, "simplified", eta=eta, decay=decay, radius=radius, gamma=0.5)
    trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
    M = int(trace.mistakes.sum())
    assert reference.mistakes == M
    rows, coef = X[:5], np.ones(5) * radius / 10
    certificate = certify(model, X, y, trace, (rows, coef), theorem="simplified_forgetron_ledger")
    margins = y * (K[:, :5] @ coef)
    norm = sqrt(coef @ K[:5, :5] @ coef)

    def bound(gradient):
        return bounds.simplified_forgetron_ledger(
            norm, hinge(margins)[trace.mistakes].sum(), M, eta, decay, radius, gradient, sum(errors), excess
        )

    assert M <= bound(max(gradients)) <= certificate.bound  # the ledger bounds G from above
    norms = np.append(0.0, trace.ledger["norm"])[:-1][trace.mistakes]
    assert certificate.bound == pytest.approx(bound(np.max(1 + decay * norms + np.array(errors))))
    assert certificate.holds


@pytest.mark.parametrize("drifts", [False, True])
def test_no_certificate_with_free_constants_is_violated(drifts):
    checks, largest = 0, 0.0
    for seed in range(12):
        rng = np.random.default_rng([seed, drifts])
        if drifts:
            X, y, segments, _ = streams.rotating_hyperplane(
                600, steps=5, margin=0.2, norm=0.4, random_state=seed
            )
        else:
            X, y, w = streams.separable(600, 4, 0.1, random_state=seed)
            y = np.where(rng.random(600) < 0.1, -y, y)
            segments = 0.4 * w
        for model in (
            budgetron.Forgetron(
                60, "simplified", eta=rng.uniform(0.02, 0.15), decay=1.0, radius=0.5, kernel="linear"
            ),
            budgetron.RandomizedBudgetPerceptron(
                60, "modified", eta=rng.uniform(0.05, 0.3), radius=0.5, kernel="linear", random_state=seed
            ),
        ):
            trace = model.progressive_fit(X, y, ledger=True)
            for name in ("general", "ledger"):
                if name == "ledger" and not isinstance(model, budgetron.Forgetron):
                    continue
                kind = (
                    "simplified_forgetron"
                    if isinstance(model, budgetron.Forgetron)
                    else "modified_randomized_budget"
                )
                certificate = certify(model, X, y, trace, segments, theorem=f"{kind}_{name}")
                assert certificate.holds, str(certificate)
                checks += 1
                largest = max(largest, certificate.ratio)
    print(f"{checks} checks, largest ratio {largest:.3f}")
    assert checks == 36


# ---------------------------------------------------------------------- the norms that log_shrinking needs


def test_log_shrinking_as_its_docstring_says():
    differ = 0
    for seed in range(30):
        X, y = streams.two_gaussians(300, 0.2, random_state=seed)
        K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
        reference = CASES["forgetron self-tuned"].reference(K, y, 10)
        phi, added = [], []
        for t in range(len(y)):
            mistakes, before = reference.mistakes, dict(reference.alpha)
            reference.play(t)
            if reference.mistakes > mistakes:
                phi.append(reference.entry["phi"])
                added.append(reference.norm(before | {t: y[t]}))  # ||f'_t||
        trace = budgetron.Forgetron(10, gamma=0.5).progressive_fit(X, y, ledger=True)
        ledger = {name: column[trace.mistakes] for name, column in trace.ledger.items()}
        for U in (0.5, 1.0, 2.0, 4.0):
            literal = [
                1.0 if p * n >= U else p if n <= U else p * n / U for p, n in zip(phi, added, strict=True)
            ]
            got = bounds.log_shrinking(ledger["phi"], ledger["phi"] * ledger["step_norm"], U)
            assert got == pytest.approx(np.log(literal).sum(), abs=1e-9)
            wrong = bounds.log_shrinking(ledger["phi"], ledger["norm"], U)
            differ += abs(wrong - got) > 1e-6
    assert differ > 20  # the norm after the removal is another number
    shrinking = budgetron.ShrinkingPerceptron(0.9, gamma=0.5).progressive_fit(X, y, ledger=True)
    on = shrinking.mistakes
    norms = np.append(0.0, shrinking.ledger["norm"])[:-1]
    added = np.sqrt(norms**2 + 2 * y * shrinking.margins + 1)[on]
    np.testing.assert_allclose(shrinking.ledger["norm"][on], 0.9 * added, rtol=1e-9)
