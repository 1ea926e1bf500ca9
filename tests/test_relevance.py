"""Feature scales: the gradient, the reference, invariances, known relevant features, memory and bad input."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from reference import relevance as reference
from scipy.sparse import coo_array, csr_array
from threadpoolctl import threadpool_limits

from budgetron.relevance import _checks, _likelihood, _scales, _window, bytes_needed, feature_scales

GAMMA = 0.25


def window(n, d, classes=2, seed=0):
    """Return rows with noise, of which the first two features decide the class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] * X[:, min(1, d - 1)] + 0.1 * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(score, np.arange(1, classes) / classes), score)


def own_gradient(X, Y, gamma, t):
    likelihood = _likelihood.Likelihood(*X.shape, 0.3, np.dtype(np.float64))
    return likelihood.gradient(np.sqrt(2 * gamma) * X, np.exp(t), np.asfortranarray(Y))


# ---------------------------------------------------------------------- the formulas


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_gradient_of_the_reference_is_that_of_the_objective(classes):
    X, y = window(25, 3, classes)
    Y, t = reference.targets(y.tolist()), np.array([0.3, -0.5, 0.1])
    gradient = reference.likelihood_gradient(X, Y, GAMMA, t) + reference.WEIGHT * t
    for f, step in enumerate(1e-5 * np.eye(3)):
        above, below = (reference.objective(X, Y, GAMMA, t + sign * step) for sign in (1, -1))
        assert gradient[f] == pytest.approx((above - below) / 2e-5, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_gradient_equals_reference(classes):
    X, y = window(25, 3, classes)
    Y, t = reference.targets(y.tolist()), np.array([0.3, -0.5, 0.1])
    expected = reference.likelihood_gradient(X, Y, GAMMA, t)
    np.testing.assert_allclose(own_gradient(X, Y, GAMMA, t), expected, rtol=1e-9, atol=1e-11)


def test_the_targets_of_two_classes_are_equivalent():
    X, y = window(30, 3)
    Y, t = reference.targets(y.tolist()), np.zeros(3)
    assert Y.shape == (30, 2)
    np.testing.assert_allclose(Y[:, 0], -Y[:, 1], rtol=1e-12)
    one, two = own_gradient(X, Y[:, :1].copy(), GAMMA, t), own_gradient(X, Y.copy(), GAMMA, t)
    np.testing.assert_allclose(one, two, rtol=1e-9)


CASES = {
    "one block": ((20, 3, 2), {}),
    "five classes": ((20, 3, 5), {}),
    "blocks": ((23, 3, 2), {"max_rows": 8}),
    "more blocks than steps": ((40, 2, 3), {"max_rows": 4, "steps": 6}),
    "shared scales": ((24, 7, 3), {"max_scales": 3}),
    "shared scales and blocks": ((24, 5, 2), {"max_scales": 2, "max_rows": 12}),
    "other settings": ((20, 3, 2), {"noise": 1.0, "weight": 0.5, "steps": 10}),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_reference(name):
    (n, d, classes), arguments = CASES[name]
    X, y = window(n, d, classes, seed=3)
    if "max_scales" in arguments:
        X[:, -1] = 2.5  # a constant feature belongs to no group
    expected = reference.feature_scales(X, y.tolist(), GAMMA, **arguments)
    scales = feature_scales(X, y, GAMMA, dtype=np.float64, **arguments)
    assert np.abs(np.log(expected)).max() > 0.05
    np.testing.assert_allclose(scales, expected, rtol=1e-8)
    np.testing.assert_allclose(feature_scales(X, y, GAMMA, **arguments), expected, rtol=1e-3)


def test_limits_of_the_scales():
    # Without a prior, an irrelevant feature reaches the lower limit.
    X, _ = window(200, 3)
    scales = feature_scales(X, X[:, 0] > 0, GAMMA, weight=0.0, steps=100)
    assert scales.min() == pytest.approx(np.exp(-4))
    assert scales.max() <= np.exp(3)


# ---------------------------------------------------------------------- invariances


def test_same_input_same_output():
    X, y = window(150, 6)
    np.random.seed(1)  # noqa: NPY002 - the global state must not matter
    first, state = feature_scales(X, y, GAMMA), np.random.get_state()[1].copy()  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(feature_scales(X, y, GAMMA), first)
    np.random.seed(1)  # noqa: NPY002
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_input_is_unchanged():
    X, y = window(60, 4)
    X_before, y_before = X.copy(), y.copy()
    X.flags.writeable = y.flags.writeable = False
    feature_scales(X, y, GAMMA, max_scales=2)
    np.testing.assert_array_equal(X, X_before)
    np.testing.assert_array_equal(y, y_before)


@pytest.mark.parametrize("classes", [2, 4])
def test_order_of_rows_names_of_labels_and_origin(classes):
    X, y = window(120, 5, classes)
    expected = feature_scales(X, y, GAMMA, dtype=np.float64)
    order = np.random.default_rng(5).permutation(len(y))
    names = np.array(["d", "b", "c", "a"])
    for rows, labels in ((X[order], y[order]), (X, names[y]), (X, -7.5 * y), (X + 100.0, y)):
        np.testing.assert_allclose(feature_scales(rows, labels, GAMMA, dtype=np.float64), expected, rtol=1e-7)


def test_units_and_gamma():
    # The kernel depends on gamma and the unit of the features only together.
    X, y = window(120, 5)
    expected = feature_scales(X, y, GAMMA, dtype=np.float64)
    np.testing.assert_allclose(
        feature_scales(1e3 * X, y, 1e-6 * GAMMA, dtype=np.float64), expected, rtol=1e-7
    )
    np.testing.assert_allclose(
        feature_scales(2.0**500 * X, y, 2.0**-1000 * GAMMA, dtype=np.float64), expected, rtol=1e-7
    )


@pytest.mark.parametrize("convert", [np.float32, csr_array, coo_array, np.ndarray.tolist, np.asfortranarray])
def test_types_of_rows(convert):
    X, y = window(60, 6)
    X = np.round(X, 1).astype(np.float32).astype(np.float64)
    for arguments in ({}, {"max_rows": 25, "max_scales": 3}):
        expected = feature_scales(X, y, GAMMA, **arguments)
        np.testing.assert_allclose(feature_scales(convert(X), y, GAMMA, **arguments), expected, rtol=1e-6)


def test_integers_and_booleans():
    X, y = window(60, 4)
    bits = X > 0
    expected = feature_scales(bits.astype(float), y, GAMMA)
    for dtype in (bool, np.int8, np.uint64):
        np.testing.assert_array_equal(feature_scales(bits.astype(dtype), y, GAMMA), expected)


def test_threads_of_blas_do_not_matter():
    X, y = window(400, 20)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(feature_scales(X, y, 0.05))
    np.testing.assert_array_equal(found[0], found[1])


# ---------------------------------------------------------------------- known tasks


@pytest.mark.parametrize("classes", [2, 3])
def test_irrelevant_features_get_small_scales(classes):
    X, y = window(500, 10, classes)
    scales = feature_scales(X, y, 0.1)
    assert scales[:2].min() > 1.3
    assert scales[2:].max() < 0.7


@pytest.mark.parametrize(
    ("function", "relevant"), [(0, {"age"}), (1, {"age", "salary"}), (2, {"age", "elevel"})]
)
def test_agrawal(function, relevant):
    synth = pytest.importorskip("river.datasets.synth")
    rows, y = zip(*synth.Agrawal(classification_function=function, seed=1).take(1000), strict=True)
    names = list(rows[0])
    X = np.array([[row[name] for name in names] for row in rows], dtype=float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    scales = dict(zip(names, feature_scales(X, y, 1 / len(names)), strict=True))
    assert set(sorted(scales, key=scales.get)[-len(relevant) :]) == relevant
    # Commission is a function of the salary, so it may stay relevant with it.
    others = [scales[name] for name in names if name not in relevant | {"commission"}]
    assert max(others) < min(scales[name] for name in relevant) / 2


def test_shared_scales_keep_relevant_and_irrelevant_features_apart():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 60))
    y = X[:, :6].sum(axis=1) > 0
    scales = feature_scales(X, y, 1 / 60, max_scales=10)  # groups of six features
    assert len(np.unique(scales)) == 10
    assert scales[:6].min() > 1.0 > scales[6:].mean()


# ---------------------------------------------------------------------- windows that teach little


def test_one_class_and_one_row():
    X, _ = window(30, 4)
    np.testing.assert_array_equal(feature_scales(X, np.zeros(30), GAMMA), np.ones(4))
    np.testing.assert_array_equal(feature_scales(X[:1], ["a"], GAMMA), np.ones(4))
    # The only row of the other class is left out, because the rows do not fill two blocks.
    y = np.r_[1, np.zeros(28)]
    np.testing.assert_array_equal(feature_scales(X[:29], y, GAMMA, max_rows=28), np.ones(4))


@pytest.mark.parametrize("max_scales", [100, 2])
def test_constant_features_have_scale_one(max_scales):
    X, y = window(80, 6)
    X[:, [1, 4]] = [3.7e5, 0.1]
    scales = feature_scales(X, y, GAMMA, max_scales=max_scales)
    np.testing.assert_array_equal(scales[[1, 4]], 1.0)
    assert (scales[[0, 2, 3, 5]] != 1.0).all()
    np.testing.assert_array_equal(feature_scales(np.full((9, 6), 0.3), np.arange(9) % 2, GAMMA), np.ones(6))
    np.testing.assert_array_equal(
        feature_scales(np.full((9, 6), 0.3), np.arange(9) % 2, GAMMA, max_scales=max_scales), np.ones(6)
    )


def scales_are_valid(scales):
    return np.isfinite(scales).all() and scales.min() >= np.exp(-4) and scales.max() <= np.exp(3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hard_windows_give_valid_scales(dtype):
    X, y = window(90, 4)
    outliers, rare = X.copy(), np.zeros(90)
    outliers[::10] *= 1e30
    outliers[5] = 1e308
    outliers[7] = -1e308
    rare[3] = 1
    for rows, labels in (
        (np.repeat(X[:9], 10, axis=0), np.arange(90) % 2),  # equal rows with both labels
        (X, np.arange(90)),  # each row is a class
        (X, rare),
        (outliers, y),
        (X[:2], [0, 1]),
        (X[:3], [0, 1, 1]),
        (np.repeat(X[:, :1], 300, axis=1), y),  # equal features, and many
    ):
        for gamma in (1e-300, 1e-3, 1.0, 1e3, 1e300):
            for arguments in ({}, {"max_rows": 2}, {"max_scales": 2, "max_rows": 20}):
                assert scales_are_valid(feature_scales(rows, labels, gamma, dtype=dtype, **arguments))


def test_a_failed_factorization_ends_the_steps(monkeypatch):
    # Equal rows with too little noise: the matrix is singular in single precision.
    monkeypatch.setattr(_checks, "LEAST_NOISE", 0.0)
    X, y = window(90, 4)
    X[45:] = X[:45]
    np.testing.assert_array_equal(feature_scales(X, y, GAMMA, noise=1e-30), np.ones(4))


def test_rows_wider_than_the_limit_of_values():
    d = _window.MOST_VALUES // 3
    X = csr_array((np.ones(6), (np.arange(6), [0, 1, 0, 1, 0, 1])), shape=(6, d))
    scales = feature_scales(X, [0, 1] * 3, 0.5)
    assert scales.shape == (d,)
    assert scales[0] > 1.0
    np.testing.assert_array_equal(scales[2:], 1.0)


# ---------------------------------------------------------------------- memory


def peak(function, *arguments, **options):
    function(*arguments, **options)  # imports and caches
    tracemalloc.start()
    try:
        function(*arguments, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n", "d", "classes", "max_rows"),
    [(400, 5, 2, 1000), (300, 40, 26, 1000), (500, 100, 2, 1000), (1000, 20, 3, 200), (200, 3000, 2, 1000),
     (20_000, 4, 2, 100), (150, 10, 150, 1000), (300, 700, 26, 60), (3, 2, 2, 1000)],
)  # fmt: skip
def test_memory_is_bounded(n, d, classes, max_rows, dtype):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)), np.arange(n) % classes
    bound = bytes_needed(n, d, dtype, classes=classes, max_rows=max_rows, steps=3)
    used = peak(feature_scales, X, y, 1 / d, dtype=dtype, max_rows=max_rows, steps=3)
    assert used <= bound
    assert bound <= 2 * used + _scales.CONVERSION_BUFFERS


def test_memory_of_sparse_rows_is_bounded():
    n, d = 2000, 400
    X, y = csr_array(np.ones((n, d))), np.arange(n) % 2
    bound = bytes_needed(n, d, max_rows=100, steps=3) + 20 * 100 * d
    assert peak(feature_scales, X, y, 1 / d, max_rows=100, steps=3) <= bound < X.data.nbytes


def test_fewer_rows_take_less_memory():
    bounds = [bytes_needed(1000, 50, max_rows=rows) for rows in (1000, 500, 250)]
    assert all(fewer < more / 2 for more, fewer in pairwise(bounds))


# ---------------------------------------------------------------------- bad input

X, Y = window(10, 3)


def changed(value):
    rows = X.copy()
    rows[7, 2] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (X[0], Y[:1], r"X must have shape \(n, d\).*reshape\(1, -1\)"),
        (X[:0], Y[:0], "at least one row"),
        (X[:, :0], Y, "one feature"),
        (X, Y[:-1], r"y must have shape \(10,\), one label per row of X; got \(9,\)"),
        (X, Y[:, None], r"y must have shape \(10,\)"),
        (changed(np.nan), Y, "feature 2 of row 7 is nan. Replace"),
        (changed(-np.inf), Y, "feature 2 of row 7 is -inf"),
        (csr_array(changed(np.nan)), Y, "feature 2 of row 7 is nan"),
        ([["1", "2"]] * 10, Y, "X must contain real numbers; it has the type <U1"),
        ([[None, "a"]] * 10, Y, "X must contain real numbers: "),
        (X * 1j, Y, "real numbers"),
        (csr_array(X * 1j), Y, "real numbers"),
        (X, np.where(Y, np.nan, 1.0), "the label of row . is nan"),
        (X, [None, "a", 1, *Y[3:]], "of one type"),
    ],
)
def test_bad_windows(rows, labels, message):
    with pytest.raises(ValueError, match=message):
        feature_scales(rows, labels, GAMMA)


def test_a_bad_value_in_a_later_block_is_found():
    with pytest.raises(ValueError, match="feature 2 of row 7 is inf"):
        feature_scales(changed(np.inf), Y, GAMMA, max_rows=3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gamma": 0.0}, "gamma must be finite and above 0; got 0.0"),
        ({"gamma": -1}, "gamma must be finite and above 0; got -1"),
        ({"gamma": np.nan}, "gamma must be finite"),
        ({"gamma": "scale"}, "gamma must be a number above 0; got 'scale'"),
        ({"max_rows": 1}, "max_rows must be an integer of at least 2; got 1"),
        ({"max_rows": 10.5}, "max_rows"),
        ({"max_scales": 0}, "max_scales"),
        ({"steps": 0}, "steps"),
        ({"noise": 0.0}, "noise must be finite and above 0"),
        ({"noise": 1e-5}, "noise must be at least 0.01"),
        ({"weight": -1.0}, "weight must be finite and at least 0"),
        ({"dtype": np.int32}, "dtype must be float32 or float64; got int32"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        feature_scales(X, Y, **({"gamma": GAMMA} | arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be an integer of at least 1; got 0"),
        ({"d": 1.5}, "d must be an integer"),
        ({"classes": 0}, "classes"),
        ({"max_rows": 1}, "max_rows"),
        ({"dtype": np.float16}, "dtype must be float32 or float64; got float16"),
    ],
)
def test_bad_sizes(arguments, message):
    with pytest.raises(ValueError, match=message):
        bytes_needed(**({"n": 10, "d": 3} | arguments))


# ---------------------------------------------------------------------- numbers as targets


@pytest.mark.parametrize("max_rows", [1000, 12])
def test_regression_equals_reference(max_rows):
    X, _ = window(40, 3)
    y = X[:, 0] * X[:, 1] + 100.0
    expected = reference.feature_scales(
        X, y.tolist(), GAMMA, max_rows=max_rows, steps=12, noise=0.1, regression=True
    )
    found = feature_scales(
        X, y, GAMMA, max_rows=max_rows, steps=12, noise=0.1, dtype=np.float64, regression=True
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    scaled = feature_scales(
        X, 1e-9 * y, GAMMA, max_rows=max_rows, steps=12, noise=0.1, dtype=np.float64, regression=True
    )
    np.testing.assert_allclose(scaled, found, rtol=1e-5)


def test_regression_finds_relevant_features():
    X = np.random.default_rng(0).normal(size=(400, 6))
    scales = feature_scales(X, np.sin(X[:, 0]) + X[:, 1] ** 2, GAMMA, regression=True)
    assert scales[:2].min() > scales[2:].max()
    wide = np.random.default_rng(0).normal(size=(300, 40))
    scales = feature_scales(wide, wide[:, 7], 0.02, max_scales=5, regression=True)
    assert scales.argmax() in np.flatnonzero(scales == scales[7])
    np.testing.assert_array_equal(feature_scales(X, np.ones(400), GAMMA, regression=True), np.ones(6))


@pytest.mark.parametrize("y", [["a"] * 5, [np.nan] * 5, [1.0] * 4, [[1.0]] * 5])
def test_regression_refuses_bad_targets(y):
    with pytest.raises(ValueError, match=r"y must|targets in y"):
        feature_scales(np.eye(5), y, 1.0, regression=True)
