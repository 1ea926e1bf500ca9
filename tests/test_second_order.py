"""The second-order Projectron with its linear part: all kinds of rows, and its mistake bound."""

import functools
import os
import pickle
import signal
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import reference as ref
from cases import STREAMS, gram_of, stream
from scipy.sparse import csr_array, random_array
from sklearn.svm import SVC

import budgetron
from budgetron import SecondOrderProjectron, batch, linear
from budgetron._core import gaussian, pages
from budgetron._core.basis_change import BasisChange
from budgetron._core.pages import zeros

GAMMA = ref.KERNELS["rbf"][1]["gamma"]


def model(**parameters):
    return SecondOrderProjectron(**{"budget": 10, "threshold": 0.05, "r": 0.7, "gamma": GAMMA} | parameters)


def play(X, y, K, **parameters):
    """Run the reference with a linear part."""
    arguments = {"budget": 10, "threshold": 0.05, "r": 0.7} | parameters
    run = ref.SecondOrderProjectron(K, y, linear=GAMMA * X @ X.T + 1.0, **arguments)
    margins, ledger = [], []
    for t in range(len(y)):
        margins.append(run.play(t))
        ledger.append(run.entry)
    return run, np.array(margins), ledger


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", STREAMS)
def test_equals_reference(name, sparse):
    X, y = stream(name)
    run, margins, ledger = play(X, y, gram_of(name, "rbf"))
    learned = model()
    trace = learned.progressive_fit(csr_array(X) if sparse else X, y, ledger=True)
    np.testing.assert_allclose(trace.margins, margins, atol=1e-10)
    np.testing.assert_array_equal(learned.support_, list(run.alpha))
    np.testing.assert_allclose(learned.dual_coef_[0], list(run.alpha.values()), atol=1e-10)
    for entry in ("delta", "variance", "tau", "norm"):
        np.testing.assert_allclose(trace.ledger[entry], [row[entry] for row in ledger], atol=1e-7)
    single = model()
    played = [single.play(x, label, classes=[-1, 1]) for x, label in zip(X, y, strict=True)]
    np.testing.assert_allclose(played, margins, atol=1e-10)
    np.testing.assert_allclose(single.decision_function(X), learned.decision_function(X), atol=1e-10)


@pytest.mark.parametrize(
    "parameters", [{"budget": 1}, {"budget": 200}, {"threshold": 0.0}, {"threshold": 2.0}]
)
def test_extreme_parameters(parameters):
    X, y = stream("random", 150)
    _, margins, _ = play(X, y, gram_of("random", "rbf", 150), **parameters)
    learned = model(**parameters)
    np.testing.assert_allclose(learned.progressive_fit(X, y).margins, margins, atol=1e-8)
    if parameters.get("threshold") == 2.0:  # no row is novel enough, so only the linear part learns
        assert learned.n_support_ == 0
        augmented = np.hstack([np.ones((150, 1)), np.sqrt(GAMMA) * X])
        alone = linear.AROW(r=0.7, fit_intercept=False).progressive_fit(augmented, y)
        np.testing.assert_allclose(alone.margins, margins, atol=1e-10)


def drifting(n=450, d=3, seed=0):
    """Return a stream whose rows shift twice, so that earlier supports become useless."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1)
    return X + 5.0 * (np.arange(n) * 3 // n)[:, None], y


@functools.cache
def run_with_exchanges(budget):
    """Run the reference on the drifting stream, and return the results."""
    X, y = drifting()
    square = (X**2).sum(axis=1)
    K = np.exp(-0.3 * np.maximum(square[:, None] + square - 2.0 * X @ X.T, 0.0))
    run = ref.SecondOrderProjectron(K, y, budget, 0.05, 0.7, linear=0.3 * X @ X.T + 1.0)
    margins, sizes = zip(*((run.play(t), len(run.alpha)) for t in range(len(y))), strict=True)
    return K, run, margins, sizes


@pytest.mark.parametrize("how", ["dense", "sparse", "cuts", "played"])
@pytest.mark.parametrize("budget", [2, 3, 5, 40])
def test_supports_are_exchanged(budget, how):
    X, y = drifting()
    K, run, margins, sizes = run_with_exchanges(budget)
    assert run.exchanged > budget // 2
    assert sum(s < 150 for s in run.alpha) < budget / 2  # supports from the first third of the rows
    learned = model(budget=budget, gamma=0.3)
    if how == "cuts":
        cuts = [0, 1, 60, 61, 62, 63, 130, 131, 300, 450]
        parts = [learned.progressive_fit(X[a:b], y[a:b], classes=[-1, 1]) for a, b in pairwise(cuts)]
        learned_margins, learned_sizes = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("margins", "support_sizes")
        )
    elif how == "played":
        learned_margins, learned_sizes = (
            np.array([learned.play(x, s, classes=[-1, 1]) for x, s in zip(X, y, strict=True)]),
            sizes,
        )
    else:
        trace = learned.progressive_fit(csr_array(X) if how == "sparse" else X, y, ledger=how == "dense")
        learned_margins, learned_sizes = trace.margins, trace.support_sizes
        if how == "dense":
            assert trace.ledger["norm"][-1] == pytest.approx(run.norm())
    np.testing.assert_allclose(learned_margins, margins, atol=1e-8)
    np.testing.assert_array_equal(learned_sizes, sizes)
    last = learned._learners[-1]
    np.testing.assert_array_equal(
        last.supports.rounds[last.supports.order[: last.supports.m]], list(run.alpha)
    )
    np.testing.assert_allclose(last.rule.coefficients(), list(run.alpha.values()), atol=1e-7)
    # The factor belongs to the current supports, and a loaded model continues exactly.
    S = list(run.alpha)
    L = last.rule.projection.rows()
    np.testing.assert_allclose(L @ L.T, K[np.ix_(S, S)], atol=1e-12)
    assert np.all(np.triu(L, 1) == 0.0)
    loaded = pickle.loads(pickle.dumps(learned))
    for other in (learned, loaded):
        other.partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(loaded.decision_function(X), learned.decision_function(X))


def check_factor(learned, gamma):
    learner = learned._learners[0]
    S = learner.supports.rows(learner.supports.order[: learner.supports.m])
    K = np.exp(-gamma * ((S[:, None] - S) ** 2).sum(axis=2))
    L = learner.rule.projection.rows()
    np.testing.assert_allclose(L @ L.T, K, atol=1e-9)
    return learner


def test_interrupted_exchange_happens_later(monkeypatch, tmp_path):
    X, y = drifting()
    learned = model(budget=40, gamma=0.3).fit(X[:100], y[:100])

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gaussian, "zeros", interrupt)
        with pytest.raises(KeyboardInterrupt):
            learned.partial_fit(X[100:], y[100:])
    learner = check_factor(learned, 0.3)
    assert len(learner.rule.gaussian.covariance()) == 4 + learner.supports.m == 44
    budgetron.save(learned, tmp_path / "model")
    rounds = learned.rounds_
    learned.partial_fit(X[rounds : rounds + 1], y[rounds : rounds + 1])
    assert check_factor(learned, 0.3).supports.m < 40


@pytest.mark.usefixtures("interrupts")
def test_a_batch_of_several_classes_is_complete_after_an_interrupt(monkeypatch):
    X, y = drifting()
    classes = y + (X[:, 2] > np.round(X[:, 2]))  # four classes
    learned, whole = (
        model(budget=40, gamma=0.3).partial_fit(X[:100], classes[:100], classes=[-1, 0, 1, 2])
        for _ in range(2)
    )
    whole.partial_fit(X[100:], classes[100:])

    def interrupt(*args):
        signal.raise_signal(signal.SIGINT)
        return zeros(*args)

    with monkeypatch.context() as patch:
        patch.setattr(gaussian, "zeros", interrupt)
        with pytest.raises(KeyboardInterrupt):
            learned.partial_fit(X[100:], classes[100:])
    assert learned.rounds_ == 450
    assert learned.mistakes_ == whole.mistakes_ > 0
    np.testing.assert_array_equal(learned.decision_function(X), whole.decision_function(X))


def test_failed_extension_changes_nothing():
    X, y = drifting()
    learned = model(budget=100, threshold=0.0, gamma=0.3).fit(X, y)
    learner = learned._learners[0]
    before = learned.decision_function(X)
    with pytest.raises((MemoryError, ValueError)):
        learner.extend(1 << 28)
    assert learner.rule.budget == 100
    np.testing.assert_array_equal(learned.decision_function(X), before)
    for x, label in zip(X[:60], y, strict=False):
        learned.play(x, label)
    check_factor(learned, 0.3)


def test_larger_budget_resets_the_counts_of_the_exchange():
    X, y = drifting()
    learner = model(budget=40, gamma=0.3).fit(X[:120], y[:120])._learners[0]
    state = learner.rule.__getstate__()
    assert state["refused"] > 0
    assert state["usage"].any()
    learner.extend(60)
    state = learner.rule.__getstate__()
    assert state["refused"] == 0
    assert not state["usage"].any()


@pytest.mark.parametrize("step", [1, 600])
def test_nearly_dependent_supports(step):
    """Rows come in nearly equal pairs, so spans are recomputed in the middle of blocks."""
    rng = np.random.default_rng(336)
    X = rng.normal(size=(600, 2)) + 5.0 * (np.arange(600) * 4 // 600)[:, None]
    X[1::2] = X[::2] + 1e-4 * rng.normal(size=(300, 2))
    y = rng.choice([-1, 1], 600)
    learned = SecondOrderProjectron(80, 0.0, gamma=0.1)
    for t in range(0, 600, step):
        learned.partial_fit(X[t : t + step], y[t : t + step], classes=[-1, 1])
    check_factor(learned, 0.1)


def test_float32():
    X, y = stream("random")
    double = model().progressive_fit(X.astype(np.float32).astype(float), y)
    single = model().progressive_fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.margins, double.margins, atol=1e-3)
    np.testing.assert_array_equal(single.support_sizes, double.support_sizes)


@pytest.mark.parametrize("how", ["sparse", "dense", "played"])
def test_wide_rows_have_a_diagonal_covariance(how):
    """Compare with a direct AROW: full covariance of supports and constant, diagonal one of features."""
    rng = np.random.default_rng(0)
    X = random_array((300, 1500), density=0.01, random_state=rng, format="csr")
    dense = X.toarray()
    y = np.where(dense[:, :700].sum(axis=1) > dense[:, 700:].sum(axis=1), 1.0, -1.0)
    y[rng.random(300) < 0.3] *= -1.0
    gamma, r, budget = 0.5, 0.8, 40
    learned = SecondOrderProjectron(budget, 0.05, r, gamma=gamma)
    if how == "played":
        margins = np.array([learned.play(X[[t]], y[t], classes=[-1, 1]) for t in range(300)])
    else:
        margins = learned.progressive_fit(csr_array(X) if how == "sparse" else dense, y).margins
    square = (dense**2).sum(axis=1)
    K = np.exp(-gamma * (square[:, None] + square - 2 * dense @ dense.T))
    S, feature_mean, feature_variance = [], np.zeros(1500), np.ones(1500)
    mean, sigma = np.zeros(budget + 1), np.eye(budget + 1)
    usage, refused, exchanged = np.zeros(budget), 0, 0
    for t in range(300):
        L = np.linalg.cholesky(K[np.ix_(S, S)]) if S else np.zeros((0, 0))
        z = np.linalg.solve(L, K[S, t])
        x, phi = np.sqrt(gamma) * dense[t], np.zeros(budget + 1)
        phi[0], phi[1 : len(S) + 1] = 1.0, z
        margin = mean @ phi + feature_mean @ x
        assert margins[t] == pytest.approx(margin, abs=1e-9)
        if y[t] * margin < 1.0:
            full = len(S) == budget
            if 1.0 - z @ z > 0.05 and not full:
                phi[len(S) + 1] = np.sqrt(1.0 - z @ z)
                S.append(t)
            v = phi @ sigma @ phi + feature_variance @ x**2
            step = y[t] * (1.0 - y[t] * margin) / (v + r)
            mean += step * sigma @ phi
            feature_mean += step * feature_variance * x
            sigma -= np.outer(sigma @ phi, sigma @ phi) / (v + r)
            feature_variance /= 1.0 + feature_variance * x**2 / r
            if full:
                usage += np.abs(K[S, t])
                refused += 1.0 - z @ z > 0.05
            if refused == budget:
                shares = np.abs(np.linalg.solve(L.T, mean[1:])) * usage
                faint = [i for i in np.argsort(shares)[: budget // 4] if shares[i] < 0.1 * shares.mean()]
                old, S = S, [s for i, s in enumerate(S) if i not in faint]
                usage, refused, exchanged = np.zeros(budget), 0, exchanged + len(faint)
                # Maps coordinates in the old span to coordinates of the projection onto the new span.
                T = np.eye(len(S) + 1, budget + 1)
                new = np.linalg.cholesky(K[np.ix_(S, S)])
                T[1:, 1:] = np.linalg.solve(new, np.linalg.solve(L, K[np.ix_(old, S)]).T)
                n, sigma, m = len(T), T @ sigma @ T.T, T @ mean
                mean, sigma = np.pad(m, (0, budget + 1 - n)), np.pad(sigma, (0, budget + 1 - n))
                sigma[range(n, budget + 1), range(n, budget + 1)] = 1.0
    assert exchanged > 0
    np.testing.assert_array_equal(learned.support_, S)


def test_many_supports_with_any_cut():
    """With more supports than rows in a panel, and more rows than in a block, cuts change nothing."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(700, 40))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] > 0.0, 1, -1)
    whole = SecondOrderProjectron(120, gamma=0.02)
    margins = whole.progressive_fit(X, y).margins
    parts = SecondOrderProjectron(120, gamma=0.02)
    cuts = [0, 1, 2, 35, 36, 200, 700]
    pieces = [parts.progressive_fit(X[a:b], y[a:b], classes=[-1, 1]) for a, b in pairwise(cuts)]
    assert whole.n_support_ == 120
    np.testing.assert_allclose(np.concatenate([piece.margins for piece in pieces]), margins, atol=1e-9)
    gaussian = whole._learners[0].rule.gaussian
    sigma = gaussian.covariance()
    assert np.linalg.eigvalsh(sigma).min() > 0.0
    np.testing.assert_allclose(parts._learners[0].rule.gaussian.covariance(), sigma, atol=1e-9)


def test_arow_bound():
    """Check AROW's mistake bound (Crammer, Kulesza, Dredze 2009, Theorem 2) on the images."""
    X, y = stream("random", 240)
    r = 1.0
    learned = SecondOrderProjectron(60, 0.02, r, linear=False, gamma=GAMMA)
    trace = learned.progressive_fit(X, y, ledger=True)
    assert trace.support_sizes[-1] == 60
    updates = ~np.isnan(trace.ledger["tau"])
    mistakes = trace.mistakes.sum()
    assert (np.diff(trace.support_sizes) >= 0).all()  # no supports have been exchanged yet
    # Images in the final span, with zeros for supports that were added later.
    K = gram_of("random", "rbf", 240)
    S = learned.support_.tolist()
    L = np.linalg.cholesky(K[np.ix_(S, S)])
    phi = np.zeros((240, len(S)))
    for t in range(240):
        m = np.searchsorted(S, t, side="right")
        phi[t, :m] = np.linalg.solve(L[:m, :m], K[S[:m], t])
    used = phi[updates]
    # The competitors are support vector machines on the images.
    for C in (0.1, 1.0, 10.0):
        machine = SVC(kernel="linear", C=C).fit(phi, y)
        u = machine.coef_[0]
        hinge = np.maximum(0.0, 1.0 - y * (phi @ u))[updates].sum()
        information = used.T @ used
        size = r * u @ u + u @ information @ u
        gain = np.linalg.slogdet(np.eye(len(u)) + information / r)[1]
        only_correct_updates = updates.sum() - mistakes
        bound = np.sqrt(size) * np.sqrt(gain + only_correct_updates) + hinge - only_correct_updates
        assert mistakes <= bound


def test_far_fewer_mistakes_than_the_projectron():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 6))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] ** 2 > 0.9, 1, -1)
    ours = SecondOrderProjectron(100, gamma=0.2).progressive_fit(X, y).mistakes.sum()
    first = budgetron.ProjectronPlusPlus(budget=100, gamma=0.2).progressive_fit(X, y).mistakes.sum()
    assert ours < 0.75 * first


def test_three_classes_in_batches_or_single_rounds():
    X, y = stream("random")
    y = y.copy()
    y[::5] = 2.0
    batches, single = model(), model()
    traces = (
        batches.progressive_fit(X, y),
        [single.play(x, c, classes=[-1, 1, 2]) for x, c in zip(X, y, strict=True)],
    )
    np.testing.assert_allclose(traces[0].margins, traces[1], atol=1e-9)


def test_nbytes_does_not_grow():
    X, y = stream("random", 600)
    learned = model().partial_fit(X[:50], y[:50], classes=[-1, 1])
    before = learned.nbytes_
    assert learned.partial_fit(X[50:], y[50:]).nbytes_ == before
    n = 11 + X.shape[1] + 1
    assert before > 4 * n * n


def test_too_large_rows_change_nothing():
    X, y = stream("random", 60)
    learned = model().fit(X, y)
    before, rounds = learned.decision_function(X), learned.rounds_
    huge = X[:3] * 1e160
    wrong = -np.sign(
        learned.decision_function(huge)
    )  # labels that make every round a mistake, so that each needs a step
    for attempt in (lambda: learned.partial_fit(huge, wrong), lambda: learned.play(huge[0], wrong[0])):
        with pytest.raises(ValueError, match=r"scale the features"):
            attempt()
        np.testing.assert_array_equal(learned.decision_function(X), before)
        assert learned.rounds_ == rounds


def test_budget_can_grow():
    """Before the budget is full, a grown budget gives the same results as a large one from the start."""
    X, y = stream("random")
    grown, large = model(budget=20), model(budget=90)
    grown.partial_fit(X[:20], y[:20], classes=[-1, 1])
    grown._learners[0].extend(90)
    large.partial_fit(X[:20], y[:20], classes=[-1, 1])
    margins = [one.progressive_fit(X[20:], y[20:]).margins for one in (grown, large)]
    np.testing.assert_allclose(*margins, atol=1e-10)
    assert grown.nbytes_ == large.nbytes_
    with pytest.raises(ValueError, match="can only grow; it is 90, got 50"):
        grown._learners[0].extend(50)


def test_unscaled_features_give_steps_of_the_right_sign():
    """Rounding errors in tiny variances do not change the sign of the steps."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 5)) * [1e5, 1e3, 1.0, 1e-2, 1e4] + 1e4
    y = np.where(X[:, 0] > 1e4, 1, -1)
    learned = SecondOrderProjectron(50, gamma=1.0)
    trace = learned.progressive_fit(X, y, ledger=True)
    tau = trace.ledger["tau"]
    assert (tau[~np.isnan(tau)] >= 0.0).all()
    assert np.isfinite(trace.margins).all()


def test_unsupported_uses_raise():
    X, y = stream("random", 60)
    for converter in (batch.AveragedClassifier, batch.PenalizedRiskClassifier):
        with pytest.raises(ValueError, match="cannot be averaged or recorded"):
            converter(model()).fit(X, y)


FORK = """
import os
from budgetron._core.pages import zeros
values = zeros(1 << 17)
child = os.fork()
if child == 0:
    values[:] = 1.0  # the parent must not see this
    os._exit(0)
os.waitpid(child, 0)
assert values.nbytes == 1 << 20 and not values.any()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_large_arrays_are_private_to_a_process():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_arrays_without_memory_mapping(monkeypatch):
    """When the process cannot map more memory, NumPy allocates the arrays and learning continues."""

    class FailingMmap(pages.mmap.mmap):
        def __new__(cls, *args, **options):
            raise OSError("no more")

    large = zeros((300, 100), np.float32)
    assert (large.shape, large.dtype, large.base is not None) == ((300, 100), np.float32, True)
    monkeypatch.setattr(pages.mmap, "mmap", FailingMmap)
    assert zeros((300, 100), np.float32).base is None
    X, y = stream("random")
    assert model(budget=200).fit(X, y).rounds_ == len(y)


@pytest.mark.parametrize("size", [100, 20_000])
def test_arrays_grow_in_place_unless_referenced_elsewhere(size):
    arrays = [zeros(size)]
    arrays[0][:] = np.arange(size)
    pages_before = getattr(arrays[0].base, "obj", None)
    pages.lengthen(arrays, 2 * size)
    grown = arrays[0]
    np.testing.assert_array_equal(grown[:size], np.arange(size))
    assert not grown[size:].any()
    if size * 8 >= pages.LARGE:
        assert grown.base.obj is pages_before
    view = grown[:3]  # the values of this view must not change
    arrays = [grown]
    pages.lengthen(arrays, 3 * size)
    regrown = arrays[0]
    regrown[:3] = -1.0
    np.testing.assert_array_equal(view, [0.0, 1.0, 2.0])
    assert (len(regrown), regrown[size - 1]) == (3 * size, size - 1)


@pytest.mark.parametrize("offset", [1e4, 2e7, 1e9])
def test_rows_far_from_the_origin(offset):
    """Variances smaller than the rounding error become neither negative nor very large."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1)
    model = SecondOrderProjectron(40, gamma=0.5)
    trace = model.progressive_fit(X + offset, y)
    assert np.isfinite(trace.margins).all()
    assert np.abs(trace.margins).max() < 1e3
    assert np.linalg.eigvalsh(model._learners[0].rule.gaussian.covariance()).min() > -1e-12
    single = SecondOrderProjectron(40, gamma=0.5)
    for x, label in zip(X[:400] + offset, y, strict=False):
        assert np.isfinite(single.play(x, label, classes=[-1, 1]))


def test_overflowing_steps_change_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 5))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1)
    model = SecondOrderProjectron(40, kernel="poly", coef0=1.0, gamma=0.2).fit(X[:100], y[:100])
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="scale the features"):
        model.partial_fit(1e3 * X, y)
    np.testing.assert_array_equal(model.decision_function(X), before)

    def until_it_fails():
        for t in range(1200):
            before = model.rounds_, model.decision_function(X[:9])
            try:
                model.play(1e3 * X[t], y[t])
            except ValueError:
                return before
        return None

    rounds, margins = until_it_fails()
    assert model.rounds_ == rounds
    np.testing.assert_array_equal(model.decision_function(X[:9]), margins)


@pytest.mark.parametrize(("m", "q"), [(1, 1), (64, 3), (150, 40), (200, 1)])
def test_change_of_basis_to_a_smaller_span(m, q):
    rng = np.random.default_rng(m)
    W, B = rng.normal(size=(m, q)), rng.normal(size=(m, 5))
    A = B @ B.T
    change = BasisChange(W)
    M = change.multiply_left(np.eye(m))
    np.testing.assert_allclose(M @ M.T, np.eye(m) + W @ W.T, rtol=0.0, atol=1e-12 * m)
    np.testing.assert_array_equal(np.triu(M, 1), 0.0)
    L = np.tril(rng.normal(size=(m, m)))
    np.testing.assert_allclose(change.multiply_left(L.copy()), L @ M, rtol=0.0, atol=1e-12 * m)
    np.testing.assert_allclose(M @ change.solve(B.copy()), B, rtol=0.0, atol=1e-12 * m)
    both = change.solve_both(A.copy())
    whole = np.tril(both) + np.tril(both, -1).T
    np.testing.assert_allclose(M @ whole @ M.T, A, rtol=0.0, atol=1e-12 * m)


def test_exchange_with_kernel_values_of_both_signs():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 4))
    X[300:] *= [0.2, 0.2, 2.0, 2.0]
    y = np.where(X[:, 0] * X[:, 1] * X[:, 2] > 0.0, 1, -1)
    K = (0.5 * X @ X.T) ** 3
    run = ref.SecondOrderProjectron(K, y, 12, 0.05, 0.7)
    margins, sizes = zip(*((run.play(t), len(run.alpha)) for t in range(len(y))), strict=True)
    assert run.exchanged > 3
    learned = SecondOrderProjectron(12, 0.05, 0.7, linear=False, kernel="poly", gamma=0.5)
    trace = learned.progressive_fit(X, y)
    np.testing.assert_array_equal(trace.support_sizes, sizes)
    np.testing.assert_allclose(trace.margins, margins, atol=1e-7)


@pytest.mark.parametrize(("distance", "separable"), [(1e-2, True), (1e-4, False)])
def test_nearly_equal_supports_are_not_separated(distance, separable):
    X = np.array([[0.0], [distance]])
    learned = SecondOrderProjectron(2, 0.0, linear=False, gamma=1.0).fit(X, [1, -1])
    assert learned.n_support_ == 2
    # The change of basis to the second support has an entry 1 / ||delta||; the error grows with its square.
    span = learned._learners[0].rule.projection.restricted(np.array([1]), np.array([0]))
    assert (span is not None) == separable
    if span is not None:
        np.testing.assert_allclose(span[0], [[1.0]], rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rounding", [0.0, 1.0, -1.0])
def test_oldest_of_equal_shares_is_removed_first_despite_rounding(rounding, dtype):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)).astype(dtype), rng.choice([-1, 1], size=60)
    rule = SecondOrderProjectron(12, 0.0, linear=False, gamma=1.0).fit(X[:12], y[:12])._learners[0].rule
    assert rule.supports.m == 12
    noise = rounding * np.linspace(-1.0, 1.0, 8) * (1e-8 if dtype == np.float32 else 1e-11)
    shares = np.ones(12)
    shares[4:] = 0.01 + noise
    shares[7] = 0.005
    state = rule.__getstate__()
    usage = state["usage"].copy()
    usage[:12] = shares / np.abs(rule.coef[:12])
    rule.__setstate__(state | {"usage": usage})
    assert rule.exchange().tolist() == [
        0,
        1,
        2,
        3,
        6,
        8,
        9,
        10,
        11,
    ]  # 7 has the smallest share; of the rest, 4 and 5 are the oldest


def test_share_at_the_limit_stays_despite_rounding():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), rng.choice([-1, 1], size=12)
    rule = SecondOrderProjectron(12, 0.0, linear=False, gamma=1.0).fit(X, y)._learners[0].rule
    shares = np.ones(12)
    shares[0] = 11.0 * 0.1 / 11.9 * (1.0 - 1e-12)  # 0.1 of the mean, up to rounding
    state = rule.__getstate__()
    usage = state["usage"].copy()
    usage[:12] = shares / np.abs(rule.coef[:12])
    rule.__setstate__(state | {"usage": usage})
    assert rule.exchange() is None
