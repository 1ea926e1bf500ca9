"""Edge cases of the core that ordinary streams rarely reach."""

import joblib
import numpy as np
import pytest
from cases import CASES, stream
from reference import KERNELS, gram

import budgetron
from budgetron._core.kernel import Kernel
from budgetron._core.rounds import Learner
from budgetron._core.rule import Rule
from budgetron.kernels import Normalized


def values(kernel, rows, points, dtype=np.float64, **parameters):
    """Return the kernel values of rows against points, as the core computes them."""
    learner = Learner(Kernel(kernel, **parameters), Rule(), points.shape[1], dtype)
    for point in points.astype(dtype):
        # The label always makes the round a mistake, so that every point is stored.
        learner.close_round(-1.0 if learner.open_round(point) > 0 else 1.0)
    assert learner.supports.m == len(points)
    return learner.kernel_values(np.ascontiguousarray(rows, dtype))


@pytest.mark.parametrize(("dtype", "epsilon"), [(np.float64, 4e-15), (np.float32, 4e-6)])
def test_exponential(dtype, epsilon):
    # Rows of one coordinate. Their distances cover the range of the exponential and more.
    rows = np.sqrt(np.linspace(0, 800, 20_001))[:, None]
    for gamma in (1.0, 1e-3):
        got = values("rbf", rows, np.zeros((1, 1)), dtype, gamma=gamma)[:, 0]
        exact = np.exp(-gamma * rows.astype(dtype).astype(float)[:, 0] ** 2)
        smallest = float(np.finfo(dtype).tiny) * 4
        usual = exact > smallest
        # The argument is rounded too, and its error grows with its size.
        bound = epsilon * (1 + gamma * rows[usual, 0] ** 2)
        assert np.all(np.abs(got[usual] - exact[usual]) <= bound * exact[usual])
        assert np.all(got[~usual] <= smallest * 2)
        assert np.all(got >= 0)
    assert got[0] == 1
    far = values("rbf", np.array([[1e3]]), np.zeros((1, 1)), dtype, gamma=1.0)
    assert far[0, 0] == 0  # exactly 0, because a margin of 0 is a mistake


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 16, 17, 33, 130])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian", "allsubsets"])
def test_kernel_values(kernel, n, dtype):
    # The vector loops treat the last elements separately, so several lengths are tested.
    rng = np.random.default_rng(n)
    points, rows = rng.normal(size=(n, 3)).astype(dtype), rng.normal(size=(5, 3)).astype(dtype)
    function, parameters = KERNELS[kernel]
    exact = gram(function, np.vstack([rows, points]).astype(float), **parameters)[:5, 5:]
    np.testing.assert_allclose(
        values(kernel, rows, points, dtype, **parameters),
        exact,
        rtol=1e-12 if dtype == np.float64 else 1e-4,
        atol=1e-12 if dtype == np.float64 else 1e-4,
    )


@pytest.mark.parametrize("degree", [0, 1, 2, 5, 8, 31])
def test_powers(degree):
    rows = np.linspace(-1.2, 1.2, 9)[:, None]
    got = values("poly", rows, np.ones((1, 1)), gamma=0.5, coef0=0.3, degree=degree)
    np.testing.assert_allclose(got[:, 0], (0.5 * rows[:, 0] + 0.3) ** degree, rtol=1e-12)


@pytest.mark.parametrize("variant", ["oldest", "random", "cks", "greedy"])
def test_kernel_function_receives_only_rows_of_the_stream(variant):
    # Free slots must not be passed to the kernel: this kernel is undefined at 0.
    def cosine(A, B):
        return A @ B.T / np.outer(np.linalg.norm(A, axis=1), np.linalg.norm(B, axis=1))

    model = {
        "oldest": budgetron.RemoveOldestPerceptron(10, kernel=cosine),
        "random": budgetron.RandomizedBudgetPerceptron(10, "modified", kernel=cosine, random_state=0),
        "cks": budgetron.CKSPerceptron(10, kernel=cosine),
        "greedy": budgetron.Forgetron(10, "greedy", kernel=cosine),
    }[variant]
    X, y = stream("random")
    model.partial_fit(X[:100], y[:100], classes=[-1, 1])
    for i in range(100, 200):
        model.play(X[i], y[i])
    assert model.fit(X, y).n_support_ == 10


@pytest.mark.parametrize(
    ("dtype", "offsets", "within"), [(np.float64, [1e3, 1e6, 1e8], 1e-6), (np.float32, [1e2, 1e4], 1e-3)]
)
def test_far_from_the_origin(dtype, offsets, within):
    # Distances computed from inner products would lose all digits here.
    X, y = stream("random", 700, 1)
    for offset in offsets:
        far = (X + offset).astype(dtype)
        near = (far - dtype(offset)).astype(np.float64)  # the distances are exactly the same
        far_model = budgetron.Forgetron(30, gamma=0.5)
        far_trace = far_model.progressive_fit(far, y)
        near_model = budgetron.Forgetron(30, gamma=0.5)
        near_trace = near_model.progressive_fit(near, y)
        usual = np.abs(near_trace.margins) > 10 * within
        assert usual.mean() > 0.9
        if np.array_equal(far_trace.mistakes, near_trace.mistakes):
            np.testing.assert_allclose(far_trace.margins, near_trace.margins, atol=within)
            np.testing.assert_allclose(
                far_model.decision_function(far), near_model.decision_function(near), atol=within
            )
        else:  # a near tie was decided differently; earlier rounds are equal
            first = int(np.flatnonzero(far_trace.mistakes != near_trace.mistakes)[0])
            assert abs(near_trace.margins[first]) < within
        single = budgetron.Forgetron(30, gamma=0.5)
        margins = [single.play(x, label, classes=[-1, 1]) for x, label in zip(far, y, strict=True)]
        np.testing.assert_allclose(margins[:100], far_trace.margins[:100], atol=within)


def test_normalized_kernel_with_overflowing_self_values():
    X, y = stream("random")
    for scale in (1e78, 1e-85):
        near = budgetron.KernelPerceptron(kernel=Normalized("linear")).progressive_fit(X, y)
        far = budgetron.KernelPerceptron(kernel=Normalized("linear")).progressive_fit(X * scale, y)
        np.testing.assert_allclose(far.margins, near.margins, rtol=1e-9, atol=1e-9)
    ones = (np.random.default_rng(0).random((50, 600)) < 0.9).astype(float)
    model = budgetron.KernelPerceptron(kernel=Normalized("allsubsets")).fit(ones, np.arange(50) % 2)
    assert np.abs(model.decision_function(ones)).max() > 0.5


@pytest.mark.parametrize("variant", ["PA", "PA-II"])
def test_non_finite_step_raises(variant):
    # k(x, x) is so small that the step overflows. This raises an error, also in the middle of a batch.
    X, y = stream("random")
    model = budgetron.PassiveAggressive(1e308, variant, kernel="linear").fit(X, y)
    before, coef = model.rounds_, model.dual_coef_
    tiny = X[:7].copy()
    tiny[3] = 1e-160
    with pytest.raises(ValueError, match="step"):
        model.partial_fit(tiny, y[:7])
    with pytest.raises(ValueError, match="step"):
        model.partial_fit(tiny[3:4], y[3:4])
    with pytest.raises(ValueError, match="step"):
        model.play(tiny[3], y[3])
    assert model.rounds_ == before
    np.testing.assert_array_equal(model.dual_coef_, coef)


def test_norm_recovers_from_cancellation():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.choice([-1.0, 1.0], 300)
    X[[40, 41]] *= 1e9
    for model in (
        budgetron.RemoveOldestPerceptron(5, kernel="linear"),
        budgetron.CKSPerceptron(5, kernel="linear"),
        budgetron.Forgetron(5, kernel="linear"),
    ):
        trace = model.progressive_fit(X, y, ledger=True)
        w = model.dual_coef_[0] @ model.support_vectors_
        assert trace.ledger["norm"][-1] == pytest.approx(np.linalg.norm(w), rel=1e-6)


@pytest.mark.parametrize("label", CASES)
def test_memory_mapped_model_can_learn(label, tmp_path):
    X, y = stream("random")
    model = CASES[label].model().fit(X[:120], y[:120])
    joblib.dump(model, tmp_path / "model")
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")
    np.testing.assert_array_equal(
        mapped.partial_fit(X[120:], y[120:]).dual_coef_, model.partial_fit(X[120:], y[120:]).dual_coef_
    )


def test_many_shrinks():
    # The common factor reaches its limit many times, and old coefficients decay to 0.
    X, y = stream("random", 700, 1)
    model = budgetron.ShrinkingPerceptron(1e-9, gamma=0.5)
    trace = model.progressive_fit(X, y, classes=[-1, 1], ledger=True)
    mistakes = int(trace.mistakes.sum())
    assert mistakes > 100
    expected = np.array([-9.0 * (mistakes - i) for i in range(mistakes)])
    with np.errstate(divide="ignore"):
        got = np.log10(np.abs(model.dual_coef_[0]))
    np.testing.assert_allclose(got[-30:], expected[-30:], rtol=1e-9)
    assert np.all(got[:50] == -np.inf)
    assert np.isfinite(trace.margins).all()
