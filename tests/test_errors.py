"""Bad input raises an error that says what is wrong, and leaves the model unchanged."""

import copy
import pickle

import numpy as np
import pytest
from cases import CASES, stream
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from test_linear import CASES as LINEAR
from test_linear import make

import budgetron
from budgetron import export, linear
from budgetron.experts import ExpertClassifier
from budgetron.kernels import NAMES, Normalized

X, Y = stream("random")
LEARNERS = budgetron.learners() + linear.learners()
MODELS = {label: case.model for label, case in CASES.items()} | {
    f"linear {label}": lambda label=label: make(label) for label in LINEAR
}


def with_bad_value(value, row=7, column=1):
    bad = X.copy()
    bad[row, column] = value
    return bad


BAD_BATCHES = {
    "NaN": (lambda: (with_bad_value(np.nan), Y), "NaN"),
    "infinity": (lambda: (with_bad_value(np.inf), Y), "infinity"),
    "sparse NaN": (lambda: (csr_array(with_bad_value(np.nan)), Y), "NaN"),
    "too wide": (lambda: (np.hstack([X, X]), Y), "features"),
    "too narrow": (lambda: (X[:, :2], Y), "features"),
    "a row": (lambda: (X[0], Y[:1]), "2D array"),
    "unknown label": (lambda: (X, np.where(np.arange(len(Y)) == 5, 2, Y)), "row 5 has"),
    "text label": (lambda: (X, np.array(["spam"] * len(Y))), "row 0 has"),
    "too few labels": (lambda: (X, Y[:-1]), "inconsistent numbers of samples"),
    "fractions": (lambda: (X, Y + 0.5), r"label type|row 0 has -?\d\.5"),
    "number as text": (lambda: (X, np.where(Y > 0, "1.0", "-1.0")), "row 0 has"),
    "NaN label": (lambda: (X, np.where(np.arange(len(Y)) == 5, np.nan, Y)), "NaN"),
    "empty": (lambda: (X[:0], Y[:0]), "0 sample"),
    "text": (lambda: (np.full(X.shape, "a"), Y), "could not convert|unable to convert"),
    "complex": (lambda: (X + 1j, Y), "Complex data"),
    "other classes": (lambda: (X, Y, [-1, 1, 2]), "since the first call"),
}


def assert_unchanged(model, before):
    after = vars(model)
    assert after.keys() == before.keys()
    twin = copy.copy(model)
    vars(twin).clear()
    vars(twin).update(before)
    coef = next(name for name in ("coef_", "weights_", "dual_coef_") if hasattr(model, name))
    names = ("rounds_", "mistakes_", "nbytes_", coef)
    for name in names if coef != "dual_coef_" else (*names, "support_", "support_vectors_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(twin, name))
    np.testing.assert_array_equal(model.decision_function(X), twin.decision_function(X))
    # Learning continues in the same way, too.
    np.testing.assert_array_equal(
        getattr(copy.deepcopy(model).partial_fit(X, Y), coef), getattr(twin.partial_fit(X, Y), coef)
    )


@pytest.mark.parametrize("batch", BAD_BATCHES)
@pytest.mark.parametrize("label", MODELS)
def test_bad_batches(label, batch):
    make, message = BAD_BATCHES[batch]
    model = MODELS[label]().fit(X[:100], Y[:100])
    before = copy.deepcopy(vars(model))
    for method in (model.partial_fit, model.progressive_fit):
        with pytest.raises((ValueError, TypeError), match=message):
            method(*make())
    assert_unchanged(model, before)


NEEDS_A_MODEL = ("unknown label", "text label", "number as text", "too wide", "too narrow", "other classes")


@pytest.mark.parametrize("batch", [batch for batch in BAD_BATCHES if batch not in NEEDS_A_MODEL])
@pytest.mark.parametrize("learner", LEARNERS)
def test_bad_first_batch_leaves_the_model_unfitted(learner, batch):
    make, message = BAD_BATCHES[batch]
    model = learner()
    for method in (model.fit, lambda *args: model.partial_fit(*args, classes=[-1, 1]), model.progressive_fit):
        with pytest.raises((ValueError, TypeError), match=message):
            method(*make())
        assert vars(model) == vars(learner())
        with pytest.raises(NotFittedError):
            model.predict(X)


@pytest.mark.parametrize("label", MODELS)
def test_failed_fit_keeps_the_old_model(label):
    model = MODELS[label]().fit(X, Y)
    before = copy.deepcopy(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(with_bad_value(np.nan), Y)
    assert_unchanged(model, before)


BAD_ROWS = {
    "NaN": (lambda: (with_bad_value(np.nan)[7], 1), "feature 1 is nan"),
    "infinity": (lambda: (with_bad_value(-np.inf)[7], 1), "feature 1 is -inf"),
    "too long": (lambda: (np.zeros(5), 1), "one row of 3 features"),
    "two rows": (lambda: (X[:2], 1), "one row of 3 features"),
    "number": (lambda: (1.0, 1), "one row of 3 features"),
    "text": (lambda: (["a", "b", "c"], 1), "must hold numbers"),
    "unknown label": (lambda: (X[0], 0), r"one of the classes \[-1.0, 1.0\]; got 0"),
    "a list as label": (lambda: (X[0], [1]), "one of the classes"),
}


@pytest.mark.parametrize("row", BAD_ROWS)
@pytest.mark.parametrize("label", MODELS)
def test_bad_rows(label, row):
    make, message = BAD_ROWS[row]
    model = MODELS[label]().fit(X[:100], Y[:100])
    before = copy.deepcopy(vars(model))
    with pytest.raises((ValueError, TypeError), match=message):
        model.play(*make())
    assert_unchanged(model, before)


def failing_kernel(calls, value=np.nan):
    """Return a kernel that is correct for some calls and then fails, and its list of remaining calls."""
    left = [calls]

    def kernel(A, B):
        left[0] -= 1
        values = np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2))
        if left[0] < 0:
            if isinstance(value, Exception):
                raise value
            values[-1, -1] = value
        return values

    return kernel, left


@pytest.mark.parametrize("value", [np.nan, np.inf, ZeroDivisionError("mine")])
@pytest.mark.parametrize("label", CASES)
def test_kernel_that_fails_in_the_middle_of_a_batch(label, value):
    case = CASES[label]
    kernel, left = failing_kernel(10**9, value)
    model = case.learner(kernel=kernel, **case.parameters)
    n = 600
    rows, labels = np.tile(X, (3, 1))[:n] + np.arange(n)[:, None] * 1e-3, np.tile(Y, 3)[:n]
    model.partial_fit(rows[:100], labels[:100], classes=[-1, 1])
    before = copy.deepcopy(vars(model))
    for calls in (0, 1, 4, 7):
        left[0] = calls
        with pytest.raises((ValueError, ZeroDivisionError), match=r"kernel function returned|mine"):
            model.partial_fit(rows, labels)
        left[0] = 10**9
        assert_unchanged(model, before)
        before = copy.deepcopy(vars(model))
    left[0] = 0
    with pytest.raises((ValueError, ZeroDivisionError), match=r"kernel function returned|mine"):
        model.play(rows[0], labels[0])
    left[0] = 10**9
    assert_unchanged(model, before)


def test_kernel_values_of_the_wrong_shape():
    model = budgetron.Forgetron(kernel=lambda A, B: np.zeros(len(A)))
    with pytest.raises(ValueError, match=r"shape \(\d+,\).*must return shape"):
        model.fit(X, Y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", ["linear", "poly", "allsubsets"])
@pytest.mark.parametrize("label", ["perceptron", "forgetron self-tuned", "pa-i", "random modified"])
def test_overflow(label, kernel, dtype):
    model = CASES[label].model(kernel).fit(X[:100].astype(dtype), Y[:100])
    before = copy.deepcopy(vars(model))
    huge = X.astype(dtype)
    huge[200:] *= np.finfo(dtype).max / 100
    with pytest.raises(ValueError, match="is not finite"):
        model.partial_fit(huge, Y)
    assert_unchanged(model, before)
    if kernel != "linear":  # linear kernel values on these supports do not overflow
        with pytest.raises(ValueError, match="row 200 is not finite"):
            model.decision_function(huge)
    with pytest.raises(ValueError, match="is not finite"):
        [model.play(x, y) for x, y in zip(huge[200:], Y[200:], strict=True)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", LINEAR)
def test_overflow_without_kernels(label, dtype):
    model = make(label).fit(X[:100].astype(dtype), Y[:100])
    before = copy.deepcopy(vars(model))
    huge = X.copy()
    huge[200:] *= 1e200
    if dtype == np.float64:
        with pytest.raises(
            ValueError,
            match=r"of row 200 is .*, which is too large: absolute values of features must be below",
        ):
            model.partial_fit(huge, Y)
        assert_unchanged(model, before)
        with pytest.raises(ValueError, match="which is too large: absolute values of features must be below"):
            [model.play(x, y) for x, y in zip(huge[200:], Y[200:], strict=True)]
        assert np.isfinite(model.decision_function(X)).all()
    # Values of float32 are too small to overflow float64 sums.
    largest = np.finfo(np.float32).max / 10 if dtype == np.float32 else 1e60
    model.partial_fit((huge / np.abs(huge).max() * largest).astype(dtype), Y)
    assert np.isfinite(model.decision_function(X)).all()
    if label != "pa, no intercept":  # steps without a limit: weights may become larger than a file may hold
        assert pickle.loads(pickle.dumps(model)).rounds_ == model.rounds_


BAD_PARAMETERS = [
    ("budget", 0, ValueError),
    ("budget", -3, ValueError),
    ("budget", 2.5, ValueError),
    ("budget", "many", ValueError),
    ("gamma", 0.0, ValueError),
    ("gamma", -1.0, ValueError),
    ("gamma", np.nan, ValueError),
    ("gamma", "large", ValueError),
    ("kernel", "gaussian", ValueError),
    ("kernel", 3, ValueError),
    ("degree", -1, ValueError),
    ("degree", 1.5, ValueError),
    ("degree", 2**40, ValueError),
    ("coef0", np.inf, ValueError),
    ("variant", "fast", ValueError),
    ("vote", "loud", ValueError),
    ("shrink", 0.0, ValueError),
    ("shrink", 1.1, ValueError),
    ("eta", -0.1, ValueError),
    ("eta", np.inf, ValueError),
    ("eta", "big", ValueError),
    ("norm_bound", 0.0, ValueError),
    ("radius", 0.0, ValueError),
    ("decay", -1.0, ValueError),
    ("C", 0.0, ValueError),
    ("random_state", "seed", ValueError),
    ("normalize", "yes", ValueError),
    ("balanced", 2, ValueError),
    ("margin", 0.0, ValueError),
    ("r", 0.0, ValueError),
    ("covariance", "half", ValueError),
]


@pytest.mark.parametrize(
    ("learner", "name", "value", "error"),
    [(learner, *bad) for learner in LEARNERS for bad in BAD_PARAMETERS if bad[0] in learner().get_params()],
)
def test_bad_parameters(learner, name, value, error):
    fitted = learner().fit(X[:50], Y[:50])
    before = copy.deepcopy(vars(fitted))
    for model in (learner(**{name: value}), fitted.set_params(**{name: value})):
        for method in (
            model.fit,
            lambda X, y, m=model: m.partial_fit(X, y, classes=[-1, 1]),
            model.progressive_fit,
        ):
            with pytest.raises(error, match=f"'{name}' parameter of {learner.__name__}"):
                method(X, Y)
    fitted.set_params(**{name: before[name]})
    assert_unchanged(fitted, before)


def test_incompatible_parameters():
    with pytest.raises(ValueError, match="eta and norm_bound both set the threshold"):
        budgetron.Projectron(eta=0.1, norm_bound=1.0).fit(X, Y)
    with pytest.raises(ValueError, match=r"decay \* eta must be below 1"):
        budgetron.Forgetron(5, "simplified").fit(X, Y)
    budgetron.Forgetron(6, "simplified").fit(X, Y)
    with pytest.raises(ValueError, match="kernel must be a function or one of"):
        Normalized("gaussian")


def test_parameters_may_not_change_after_the_first_call():
    model = budgetron.Forgetron(50, gamma=0.5).fit(X, Y)
    model.set_params(budget=10)
    with pytest.raises(ValueError, match="budget changed since the first call; call fit to start again"):
        model.partial_fit(X, Y)
    assert model.fit(X, Y).n_support_ == 10
    with pytest.raises(ValueError, match="since the first call"):
        model.play(X[0], Y[0], classes=[0, 1])


def test_classes():
    with pytest.raises(ValueError, match="classes must be given in the first call of partial_fit"):
        budgetron.Forgetron().partial_fit(X, Y)
    with pytest.raises(ValueError, match="classes must be given in the first call of play"):
        budgetron.Forgetron().play(X[0], Y[0])
    with pytest.raises(ValueError, match="at least two classes"):
        budgetron.Forgetron().fit(X, np.ones(len(Y)))
    with pytest.raises(AttributeError, match="has not learned anything yet"):
        _ = budgetron.Forgetron().support_vectors_
    assert not hasattr(budgetron.Forgetron(), "dual_coef_")


def test_labels_given_as_text_are_not_numbers():
    # "10" sorts before "2", so labels converted to text would be assigned to other classes.
    y = np.tile(np.arange(12), 20)
    model = budgetron.Forgetron(20, gamma=0.5).fit(X, y)
    coef = model.dual_coef_
    with pytest.raises(ValueError, match="row 0 has '9'"):
        model.partial_fit(X[:3], ["9", "2", "10"])
    np.testing.assert_array_equal(model.dual_coef_, coef)
    assert model.rounds_ == len(y)
    assert model.partial_fit(X[:3], np.array([9.0, 2.0, 10.0])).rounds_ == len(y) + 3


# ---------------------------------------------------------------------- values that are too large


def large_rows(value, dtype=np.float64):
    """Return five rows like X; feature 2 of row 3 has this value."""
    rows = X[:5].astype(np.float64)
    rows[3, 2] = value
    return rows.astype(dtype)


LEARNERS = {
    "kernel": lambda: budgetron.Forgetron(9, gamma=0.5),
    "linear kernel": lambda: budgetron.Forgetron(9, kernel="linear"),
    "second order": lambda: budgetron.SecondOrderProjectron(9, gamma=0.5),
    "linear": linear.AROW,
    "budget": lambda: budgetron.BudgetClassifier("300kB", random_state=0),
    "calibrated": lambda: budgetron.CalibratedClassifier(budgetron.Forgetron(9, gamma=0.5)),
}


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
@pytest.mark.parametrize("label", LEARNERS)
def test_values_that_are_too_large_for_float32(label, convert):
    model = LEARNERS[label]().fit(X[:80].astype(np.float32), Y[:80])
    before = pickle.dumps(model)
    bad = convert(large_rows(1e308))
    message = r"feature 2 of row 3 is 1e\+308, which is too large for float32; scale the features, or start"
    for attempt in (lambda: model.partial_fit(bad, Y[:5]), lambda: model.decision_function(bad)):
        with pytest.raises(ValueError, match=message):
            attempt()
    message = r"feature 2 is 1e\+308, which is too large for float32"
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=message):
        model.play(bad[3:4], Y[3])
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
@pytest.mark.parametrize("label", LEARNERS)
@pytest.mark.parametrize(("dtype", "value"), [(np.float64, 1e308), (np.float64, 1e160), (np.float32, 1e20)])
def test_values_whose_squares_overflow(label, dtype, value, convert):
    if label == "linear" and dtype == np.float32:
        pytest.skip("linear learners square in float64")
    model = LEARNERS[label]().fit(X[:80].astype(dtype), Y[:80])
    before = pickle.dumps(model)
    bad = convert(large_rows(value, dtype))
    with pytest.raises(ValueError, match=r"feature 2 of row 3 is 1e.\d+, which is too large: .*; scale"):
        model.partial_fit(bad, Y[:5])
    with pytest.raises(ValueError, match=r"feature 2 is 1e.\d+, which is too large: .*; scale"):
        model.play(bad[3:4], Y[3])
    assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match=r"feature 2 of row 3 is 1e.\d+, which is too large: .*; scale"):
        LEARNERS[label]().fit(bad, [0, 1, 0, 1, 0])
    assert pickle.loads(before).rounds_ == 80


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", LEARNERS)
def test_infinity_is_not_called_too_large(label, dtype, value):
    model = LEARNERS[label]().fit(X[:80].astype(dtype), Y[:80])
    message = f"X must be finite, without infinity; feature 2 of row 3 is {value}"
    for rows in (large_rows(value), csr_array(large_rows(value, dtype)), large_rows(value).tolist()):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(rows, Y[:5])
    with pytest.raises(ValueError, match=message):
        LEARNERS[label]().fit(large_rows(value, dtype), [0, 1, 0, 1, 0])
    with pytest.raises(ValueError, match=f"x must be finite; feature 2 is {value}"):
        model.play(large_rows(value)[3], Y[3])
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(large_rows(np.nan), Y[:5])


def test_integers_that_are_no_floats():
    model = linear.Perceptron().fit(X, Y)
    rows = X[:5].tolist()
    rows[3][2] = 10**400
    with pytest.raises(ValueError, match=r"feature 2 of row 3 is an integer beyond 1\.8e308, which is too"):
        model.partial_fit(rows, Y[:5])


def test_a_kernel_that_overflows_by_its_parameters_is_not_blamed_on_a_value():
    model = budgetron.Forgetron(9, kernel="poly", degree=300, gamma=1e3).fit(np.full((2, 2), 1e-9), [0, 1])
    with pytest.raises(ValueError, match=r"^the margin of round .* choose smaller kernel parameters"):
        model.partial_fit(np.full((2, 2), 10.0), [0, 1])


def test_text_from_numpy_is_a_name(tmp_path):
    text = np.str_
    learners = [
        *(budgetron.Forgetron(9, kernel=text(name), gamma=0.1) for name in NAMES),
        budgetron.Forgetron(9, kernel=Normalized(text("poly"))),
        budgetron.Forgetron(9, variant=text("greedy"), gamma=text("scale")),
        budgetron.PassiveAggressive(variant=text("PA-II")),
        budgetron.VotedKernelPerceptron(vote=text("majority")),
        linear.AROW(covariance=text("diagonal")),
        linear.PassiveAggressive(variant=text("PA-I")),
        budgetron.BudgetClassifier(memory=text("300kB"), random_state=0),
        budgetron.CalibratedClassifier(budgetron.Forgetron(9, kernel=text("rbf"))),
        ExpertClassifier([linear.Perceptron(), linear.AROW()], combine=text("majority")),
    ]
    for model in learners:
        names = {name: plain_text(value) for name, value in model.get_params(deep=False).items()}
        plain = type(model)(**names).fit(X, Y)
        np.testing.assert_array_equal(model.fit(X, Y).predict(X), plain.predict(X))
        path = tmp_path / "model"
        budgetron.save(model, path)
        loaded = budgetron.load(path)
        assert "str_" not in repr(loaded)
        np.testing.assert_array_equal(loaded.partial_fit(X, Y).predict(X), plain.partial_fit(X, Y).predict(X))
    named, plain = (budgetron.Forgetron(kernel=kernel).fit(X, Y) for kernel in (text("rbf"), "rbf"))
    assert export.onnx(named) == export.onnx(plain)


def plain_text(value):
    """Return a parameter; text as str."""
    if isinstance(value, budgetron.Forgetron):
        return budgetron.Forgetron(9)
    return str(value) if isinstance(value, str) else value


def test_variance_that_overflows():
    # The squared norm of each row is finite, but not their sum.
    huge = np.where(np.arange(len(Y))[:, None] < 50, [1e154, *np.zeros(X.shape[1] - 1)], X)
    model = budgetron.Forgetron(5, kernel="laplacian")  # whose values do not overflow
    with pytest.raises(ValueError, match="variance of the first batch, which overflows"):
        model.fit(huge, Y)
    assert not hasattr(model, "gamma_")


def test_gamma_is_finite_if_the_variance_is_tiny():
    model = budgetron.Forgetron(5, kernel="linear").fit(X * 1e-160, Y)
    assert model.gamma_ == np.finfo(float).max
    assert copy.deepcopy(model).gamma_ == model.gamma_
