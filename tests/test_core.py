"""Corners of the core that streams seldom reach."""

import threading

import joblib
import numpy as np
import pytest
from cases import CASES, stream
from reference import KERNELS, gram

import budgetron
from budgetron._core.kernel import Kernel
from budgetron._core.rounds import Learner
from budgetron._core.rule import Rule


def values(kernel, rows, points, dtype=np.float64, **parameters):
    """Kernel values of rows against points, as the core computes them."""
    learner = Learner(Kernel(kernel, **parameters), Rule(), points.shape[1], dtype)
    for point in points.astype(dtype):
        # the label is wrong by choice, so that every point is stored
        learner.close_round(-1.0 if learner.open_round(point) > 0 else 1.0)
    assert learner.supports.m == len(points)
    return learner.kernel_values(np.ascontiguousarray(rows, dtype))


@pytest.mark.parametrize(("dtype", "epsilon"), [(np.float64, 4e-15), (np.float32, 4e-6)])
def test_the_exponential(dtype, epsilon):
    # One coordinate: distances over the whole range of the exponential, and beyond.
    rows = np.sqrt(np.linspace(0, 800, 20_001))[:, None]
    for gamma in (1.0, 1e-3):
        got = values("rbf", rows, np.zeros((1, 1)), dtype, gamma=gamma)[:, 0]
        exact = np.exp(-gamma * rows.astype(dtype).astype(float)[:, 0] ** 2)
        smallest = float(np.finfo(dtype).tiny) * 4
        usual = exact > smallest
        # the argument itself is rounded, and its error grows with its size
        bound = epsilon * (1 + gamma * rows[usual, 0] ** 2)
        assert np.all(np.abs(got[usual] - exact[usual]) <= bound * exact[usual])
        assert np.all(got[~usual] <= smallest * 2)
        assert np.all(got >= 0)
    assert got[0] == 1
    far = values("rbf", np.array([[1e3]]), np.zeros((1, 1)), dtype, gamma=1.0)
    assert far[0, 0] == 0  # not merely small: f = 0 is a mistake


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 16, 17, 33, 130])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian", "allsubsets"])
def test_kernel_values(kernel, n, dtype):
    # Every length has its own tail of the vector loops.
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


def test_a_forgotten_row_cannot_overflow():
    # A huge row is stored and removed; a later one whose product with it would overflow is fine.
    model = budgetron.RemoveOldestPerceptron(1, kernel="linear")
    huge, small = [1e25, 0.0], [1.0, 0.0]
    model.partial_fit(np.array([huge, small], np.float32), [1, -1], classes=[-1, 1])
    assert model.support_.tolist() == [1]
    model.partial_fit(np.array([huge, small], np.float32), [-1, -1])
    np.testing.assert_allclose(model.decision_function(np.array([huge], np.float32)), [-1e25], rtol=1e-6)
    with pytest.raises(ValueError, match="is not finite"):
        model.partial_fit(np.array([huge, huge], np.float32), [1, 1])
    assert model.rounds_ == 4


@pytest.mark.parametrize("label", CASES)
def test_a_model_mapped_from_a_file_can_learn(label, tmp_path):
    X, y = stream("random")
    model = CASES[label].model().fit(X[:120], y[:120])
    joblib.dump(model, tmp_path / "model")
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")
    np.testing.assert_array_equal(
        mapped.partial_fit(X[120:], y[120:]).dual_coef_, model.partial_fit(X[120:], y[120:]).dual_coef_
    )


def test_models_learn_in_threads_of_their_own():
    X, y = stream("random", 700, 1)
    alone = {label: case.model().fit(X, y) for label, case in CASES.items()}
    models = {label: case.model() for label, case in CASES.items()}
    failures = []

    def learn(label):
        try:
            for start in range(0, len(y), 50):
                models[label].partial_fit(X[start : start + 50], y[start : start + 50], classes=[-1, 1])
                models[label].predict(X[:50])
        except Exception as failure:
            failures.append((label, failure))

    threads = [threading.Thread(target=learn, args=(label,)) for label in CASES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for label, model in models.items():
        np.testing.assert_array_equal(model.support_, alone[label].support_, err_msg=label)


def test_one_model_predicts_in_many_threads():
    X, y = stream("random", 700, 1)
    model = CASES["pa-i"].model().fit(X, y)
    expected, got = model.decision_function(X), {}
    threads = [
        threading.Thread(target=lambda i=i: got.__setitem__(i, model.decision_function(X))) for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    for values in got.values():
        np.testing.assert_array_equal(values, expected)


def test_many_shrinks():
    # The lazy factor passes its limit many times over; old coefficients fade to 0.
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
