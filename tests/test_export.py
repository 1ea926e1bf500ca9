"""Exported models agree with the model to float32 accuracy; other models raise an error."""

import re
import sys

import numpy as np
import pytest
from exported import FORMATS, compiled, in_onnx, needs_cc, runner
from reference.kernels import cauchy_rows
from scipy.sparse import csr_array
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import budgetron
from budgetron import CalibratedClassifier, SecondOrderProjectron, export, linear
from budgetron._base.access import add_class, hypotheses_of
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier
from budgetron.experts import ExpertClassifier
from budgetron.export._onnx_graph import MOST_NUMBERS
from budgetron.kernels import Normalized

# Largest difference of scores, relative to sum_i |coef_i| k(|x|, |s_i|), where k is 1 for rbf and laplacian,
# plus the linear part with absolute values.
TOLERANCE = 2e-6

D = 5
LABELS = {
    "numbers": [0, 1],
    "signs": [-1.0, 1.0],
    "text": ["no", "yes"],
    "odd text": ['"é\\', "??= */ %d"],
    "far numbers": [-(2**63), 2**63 - 1],
    "three": [-1, 4, 17],
    "four texts": ["a", "b", "c", "d"],
}


def rows(n, classes, seed=0, d=D):
    """Return rings and sectors, in float32, so that model and export see exactly the same rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    codes = (
        (np.hypot(X[:, 0], X[:, 1]) + 0.3 * (X[:, 2] > 0) + 0.1 * rng.normal(size=n)) / 1.1 * classes / 2
    ).astype(int)
    return X, np.minimum(codes, classes - 1)


def fitted(model, labels="numbers", dtype=np.float64, n=300):
    """Fit a model to rows with the given kind of labels."""
    X, codes = rows(n, len(LABELS[labels]))
    return model.fit(X.astype(dtype), np.array(LABELS[labels])[codes])


def sizes(model, X):
    """Return the sum of all |terms| for each row and output, the scale of rounding errors."""
    learner = model.learner_ if isinstance(model, AveragedClassifier | CalibratedClassifier) else model
    X = np.abs(X).astype(np.float64)
    if hasattr(model, "coef_"):
        decides = learner if isinstance(model, CalibratedClassifier) else model
        return X @ np.abs(decides.coef_).T + np.abs(decides.intercept_)
    if isinstance(model, AveragedClassifier):
        assert learner.kernel == "rbf"
        rules = [hypothesis.rule for hypothesis in hypotheses_of(learner)]
        sums = [(rule.average.total(rule.coef), rule.departed_sums) for rule in rules]
        return (
            np.array([[np.abs(current).sum() + np.abs(removed).sum() for current, removed in sums]])
            / model.rounds_
        )
    coef = np.abs(learner.dual_coef_).T
    linear = sum(np.abs(part) for part in linear_terms(learner, X))
    if learner.kernel in ("rbf", "laplacian"):
        return coef.sum(axis=0)[None] + linear
    supports = np.abs(learner.support_vectors_).astype(np.float64)
    return hypotheses_of(learner)[0].kernel.matrix(X, supports) @ coef + linear


def linear_terms(learner, X):
    """Return the constant and each feature's part of f(x), of shape (n, n_outputs) each; none for most."""
    gaussian = hypotheses_of(learner)[0].rule.gaussian
    if gaussian is None or not gaussian.linear:
        return []
    constant, weights = gaussian.means[:, 0], gaussian.means[:, 1 : 1 + X.shape[1]]
    if X.shape[1] > 1000:
        weights = gaussian.slopes
    return [constant[None]] + [np.outer(x, gaussian.scale * w) for x, w in zip(X.T, weights.T, strict=True)]


def assert_agrees(model, X, scores, labels, probabilities=None):
    margins, bounds = model.decision_function(X), TOLERANCE * sizes(model, X)
    if isinstance(model, CalibratedClassifier):
        slope, _, square = model.sigmoids_[:, :3].T
        # The error of the score, scaled like z, and the rounding error of a z + b
        bounds = bounds * slope / np.sqrt(square) + TOLERANCE * np.abs(model.sigmoids_[:, :2]).sum(axis=1)
    margins = margins.reshape(len(X), -1)
    assert scores.shape == margins.shape
    assert (np.abs(scores - margins) <= bounds).all()
    bounds = np.broadcast_to(bounds, margins.shape)
    if margins.shape[1] == 1:
        clear = np.abs(margins[:, 0]) > bounds[:, 0]
    else:
        second, first = np.sort(margins, axis=1)[:, -2:].T
        clear = first - second > 2 * bounds.max(axis=1)
    assert clear.mean() > 0.98
    np.testing.assert_array_equal(labels[clear], model.predict(X)[clear])
    # A calibrated classifier may predict one class only, if the classes are unbalanced.
    assert len(set(labels.tolist())) > 1 or isinstance(model, CalibratedClassifier)
    assert (probabilities is not None) == hasattr(model, "predict_proba")
    if probabilities is not None:
        np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=0, atol=1e-5)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)


KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.5},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.3, "degree": 3, "coef0": 1.0},
    "even poly": {"kernel": "poly", "gamma": 0.2, "degree": 6},
    "constant poly": {"kernel": "poly", "degree": 0},
    "laplacian": {"kernel": "laplacian", "gamma": 0.4},
    "allsubsets": {"kernel": "allsubsets"},
}
MODELS = {
    "Forgetron": lambda: budgetron.Forgetron(30, gamma=0.5),
    "simplified Forgetron": lambda: budgetron.Forgetron(30, variant="simplified", gamma=0.5),
    "RandomizedBudgetPerceptron": lambda: budgetron.RandomizedBudgetPerceptron(30, gamma=0.5, random_state=0),
    "ShrinkingPerceptron": lambda: budgetron.ShrinkingPerceptron(0.99, gamma=0.5),
    "ProjectronPlusPlus": lambda: budgetron.ProjectronPlusPlus(gamma=0.5),
    "PassiveAggressive": lambda: budgetron.PassiveAggressive(gamma=0.5),
    "SecondOrderProjectron": lambda: SecondOrderProjectron(30, gamma=0.5),
    "linear.AROW": linear.AROW,
    "linear.OnlineSVM": linear.OnlineSVM,
    "linear.Winnow": lambda: linear.Winnow(balanced=True),
    "linear.VotedPerceptron": linear.VotedPerceptron,
    "averaged": lambda: AveragedClassifier(budgetron.Forgetron(30, gamma=0.5)),
    "averaged linear": lambda: AveragedClassifier(linear.PassiveAggressive()),
    "penalized linear": lambda: PenalizedRiskClassifier(linear.Perceptron()),
    "calibrated": lambda: CalibratedClassifier(budgetron.Forgetron(30, gamma=0.5)),
    "calibrated linear": lambda: CalibratedClassifier(linear.AROW()),
    "calibrated second order": lambda: CalibratedClassifier(SecondOrderProjectron(30, loss="hinge")),
    "calibrated logistic": lambda: CalibratedClassifier(SecondOrderProjectron(30, loss="logistic")),
}


@pytest.fixture(params=FORMATS)
def run(request, tmp_path):
    """Return the function that runs the exported model."""
    return runner(request.param, tmp_path)


@pytest.mark.parametrize("labels", ["numbers", "four texts"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel(kernel, labels, run):
    if kernel == "constant poly":
        model = budgetron.RemoveOldestPerceptron(7, **KERNELS[kernel])
    else:
        model = budgetron.Forgetron(40, **KERNELS[kernel])
    model, X = fitted(model, labels), rows(500, 2, seed=1)[0]
    if kernel in ("laplacian", "allsubsets") and run is in_onnx:
        with pytest.raises(
            TypeError, match=rf"ONNX file supports the kernels rbf, linear, poly; .*'{kernel}'"
        ):
            run(model, X)
        return
    if kernel == "constant poly":  # f(x) is the same for all rows
        scores, _, _ = run(model, X)
        np.testing.assert_allclose(
            scores, model.decision_function(X).reshape(scores.shape), rtol=1e-6, atol=1e-6
        )
        return
    assert_agrees(model, X, *run(model, X))


@pytest.mark.parametrize("labels", ["numbers", "three"])
@pytest.mark.parametrize("label", MODELS)
def test_every_learner(label, labels, run):
    model, X = fitted(MODELS[label](), labels), rows(500, 2, seed=2)[0]
    assert_agrees(model, X, *run(model, X))


@pytest.mark.parametrize("labels", LABELS)
def test_every_kind_of_label(labels, run):
    model, X = fitted(budgetron.Forgetron(30, gamma=0.5), labels), rows(200, 2, seed=3)[0]
    assert_agrees(model, X, *run(model, X))


def test_ten_thousand_rows(run):
    X, codes = rows(12_000, 2, d=16)
    model = budgetron.Forgetron(100, gamma=0.05).fit(X[:2000], codes[:2000])
    assert model.n_support_ == 100
    assert_agrees(model, X[2000:], *run(model, X[2000:]))


def test_float32_models_and_clipped_margins(run):
    # Rows so large that z is clipped.
    model = fitted(CalibratedClassifier(linear.Perceptron()), "three", np.float32)
    X = rows(200, 2, seed=4)[0] * np.float32(100.0)
    z = model.learner_.decision_function(X) / np.sqrt(model.sigmoids_[:, 2])
    assert (np.abs(z) > 10.0).any()
    scores, _, probabilities = run(model, X)
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-4)


def test_probabilities_where_every_sigmoid_is_zero_in_float32(run):
    model = fitted(CalibratedClassifier(linear.Perceptron()), "three")
    model.sigmoids_[:, :2] = [[3.0, -300.0], [2.0, -310.0], [1.0, -300.0]]
    X = rows(50, 2, seed=5)[0]
    _, _, probabilities = run(model, X)
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-3)


def sum_of_terms(model, X):
    """Return f(x) of a SecondOrderProjectron with the kernel "rbf", in float64, of shape (n, n_outputs)."""
    X, supports = X.astype(np.float64), model.support_vectors_.astype(np.float64)
    distances = ((X[:, None] - supports) ** 2).sum(axis=2)
    return np.exp(-model.gamma_ * distances) @ model.dual_coef_.T + sum(linear_terms(model, X))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("labels", ["numbers", "four texts"])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_second_order_learners(loss, labels, linear, dtype, run):
    model = fitted(SecondOrderProjectron(40, loss=loss, linear=linear, gamma=0.5), labels, dtype)
    X = rows(500, 2, seed=6)[0]
    assert model.n_support_ == 40
    scores, predicted, probabilities = run(model, X)
    assert_agrees(model, X, scores, predicted, probabilities)
    # Kernel values of a float32 model are rounded; those of the file must be as close to the exact ones.
    assert (np.abs(scores - sum_of_terms(model, X)) <= TOLERANCE * sizes(model, X)).all()
    # Each term of the linear part is large enough to be tested.
    terms = linear_terms(model, X)
    assert len(terms) == (D + 1 if linear else 0)
    assert all(np.abs(term).max() > 100.0 * TOLERANCE * sizes(model, X).max() for term in terms)


@pytest.mark.parametrize("labels", ["numbers", "four texts"])
@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != "constant poly"])
def test_every_kernel_with_a_linear_part(kernel, labels, run):
    model = fitted(SecondOrderProjectron(30, threshold=0.5, **KERNELS[kernel]), labels)
    if kernel in ("laplacian", "allsubsets") and run is in_onnx:
        with pytest.raises(TypeError, match="ONNX file supports the kernels rbf, linear, poly"):
            run(model, rows(5, 2)[0])
        return
    X = rows(500, 2, seed=7)[0]
    assert_agrees(model, X, *run(model, X))


def test_a_linear_part_without_supports(run):
    model = fitted(SecondOrderProjectron(30, threshold=2.0, gamma=0.5), "three")
    assert model.n_support_ == 0
    X = rows(500, 2, seed=8)[0]
    scores, _, probabilities = run(model, X)
    assert (np.abs(scores - model.decision_function(X)) <= TOLERANCE * sizes(model, X)).all()
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=0, atol=1e-5)


def test_a_linear_part_of_wide_sparse_rows(run):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 1200)) < 0.02, rng.normal(size=(300, 1200)), 0.0).astype(np.float32)
    codes = X.reshape(-1, 3, 400).sum(axis=2).argmax(axis=1)
    for y in (codes, codes > 0):
        model = SecondOrderProjectron(20, gamma=0.05, loss="logistic").fit(csr_array(X[:200]), y[:200])
        assert not isinstance(model.support_vectors_, np.ndarray)
        assert hypotheses_of(model)[0].rule.gaussian.diagonal
        assert_agrees(model, X[200:], *run(model, X[200:]))


def test_a_class_that_was_added_later(run):
    model = fitted(SecondOrderProjectron(30, gamma=0.5))
    add_class(model, 5)
    X = rows(500, 2, seed=9)[0]
    assert run(model, X)[0].shape == (500, 3)
    assert_agrees(model, X, *run(model, X))


@pytest.mark.parametrize("labels", ["numbers", "three"])
def test_probabilities_of_very_large_scores(labels, run):
    model = fitted(SecondOrderProjectron(30, loss="logistic", gamma=0.5), labels)
    X = 1000.0 * rows(100, 2, seed=10)[0]
    assert np.abs(model.decision_function(X)).max() > 1000.0
    _, _, probabilities = run(model, X)
    # Scores differ by TOLERANCE times their sizes, and probabilities by at most half of the difference.
    bounds = 0.5 * TOLERANCE * sizes(model, X).max(axis=1, keepdims=True) + 1e-6
    assert (np.abs(probabilities - model.predict_proba(X)) <= bounds).all()


def test_sparse_supports(run):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((200, 1200)) < 0.02, rng.normal(size=(200, 1200)), 0.0).astype(np.float32)
    y = X[:, :600].sum(axis=1) > 0
    model = budgetron.Forgetron(20, gamma=0.05).fit(csr_array(X[:100]), y[:100])
    assert not isinstance(model.support_vectors_, np.ndarray)
    scores, labels, _ = run(model, X[100:])
    averaged = AveragedClassifier(budgetron.Forgetron(20, gamma=0.05)).fit(csr_array(X[:100]), y[:100])
    for expected, (values, _, _) in ((model, (scores, labels, None)), (averaged, run(averaged, X[100:]))):
        np.testing.assert_allclose(values[:, 0], expected.decision_function(X[100:]), atol=1e-4)
    np.testing.assert_array_equal(labels, model.predict(X[100:]))


def test_a_model_without_supports(run):
    # Every margin is 0 and predicts the first class.
    model = budgetron.Projectron(kernel="poly", eta=0.1).fit(np.zeros((4, D)), [0, 1, 0, 1])
    assert model.n_support_ == 0
    scores, labels, _ = run(model, rows(3, 2)[0])
    assert scores.tolist() == [[0.0]] * 3
    assert labels.tolist() == [0] * 3


def test_classes_without_supports(run):
    # After one round the average of the hypotheses is 0.
    X = rows(1, 2)[0]
    model = AveragedClassifier(budgetron.KernelPerceptron(gamma=1.0)).partial_fit(X, [0], classes=[0, 1, 2])
    scores, labels, _ = run(model, X)
    assert scores.tolist() == [[0.0, 0.0, 0.0]]
    assert labels.tolist() == [0]


@needs_cc
def test_size_and_warnings_of_the_header(tmp_path):
    X, codes = rows(2000, 2, d=16)
    model = budgetron.Forgetron(100, gamma=0.05).fit(X, codes)
    export.c(model, tmp_path / "exported.h")
    source = """
        #include "exported.h"
        int classify(const float *x);
        int classify(const float *x) { return model_predict(x); }
        """
    size = compiled(source, tmp_path, "-Os", "-c", output="exported.o").stat().st_size
    print(f"B = 100, d = 16: an object file of {size} bytes")
    numbers = 4 * 100 * (16 + 1)
    assert numbers < size < numbers + 3000
    # A linear part adds its numbers and little code.
    X, codes = rows(2000, 4, d=16)
    model = SecondOrderProjectron(50, gamma=0.05, loss="hinge").fit(X, codes)
    export.c(model, tmp_path / "exported.h")
    size = compiled(source, tmp_path, "-Os", "-c", output="exported.o").stat().st_size
    numbers = 4 * (50 * (16 + 4) + 4 * (16 + 1))
    assert numbers < size < numbers + 3000
    # An unused header, and one included twice, compile without warnings.
    compiled(
        '#include "exported.h"\n#include "exported.h"\nint nothing;\n', tmp_path, "-c", output="nothing.o"
    )


@needs_cc
def test_two_models_in_one_program(tmp_path):
    models = {"fan": fitted(linear.AROW()), "_pump2": fitted(MODELS["calibrated"](), "three")}
    for name, model in models.items():
        export.c(model, tmp_path / f"{name}.h", name)
    uses = "\n".join(
        f"int {name}_ask(const float *x); int {name}_ask(const float *x) {{ return {name}_predict(x); }}"
        for name in models
    )
    compiled("".join(f'#include "{name}.h"\n' for name in models) + uses, tmp_path, "-c", output="both.o")


def test_numbers_in_the_header_are_exact():
    model = fitted(budgetron.Forgetron(30, gamma=1 / 3))
    table = export.c(model).split("model_supports[")[1].split("};")[0]
    numbers = [np.float32(text) for text in re.findall(r"(-?\d\.\d+e[+-]\d+)f", table)]
    np.testing.assert_array_equal(numbers, model.support_vectors_.astype(np.float32).ravel())


def test_math_is_included_only_if_needed():
    assert "math.h" not in export.c(fitted(linear.AROW()))
    assert "math.h" not in export.c(fitted(budgetron.Forgetron(5, kernel="poly")))
    assert "math.h" in export.c(fitted(budgetron.Forgetron(5)))
    assert "math.h" not in export.c(fitted(SecondOrderProjectron(5, kernel="poly")))
    assert "math.h" in export.c(fitted(SecondOrderProjectron(5, kernel="poly", loss="logistic")))
    assert "malloc" not in export.c(fitted(budgetron.Forgetron(5)))


@pytest.mark.parametrize("exported", [export.onnx, export.c])
def test_the_same_model_gives_the_same_file(exported, tmp_path):
    contents = [exported(fitted(MODELS["calibrated"](), "three")) for _ in range(2)]
    assert contents[0] == contents[1]
    path = tmp_path / "exported"
    assert exported(fitted(MODELS["calibrated"](), "three"), path) is None
    content = path.read_bytes()
    assert content == (contents[0] if isinstance(contents[0], bytes) else contents[0].encode())


X, Y = rows(60, 2)
REFUSED = {
    "normalized": (budgetron.Forgetron(5, kernel=Normalized("poly")), r"kernel is Normalized\('poly'\)"),
    "callable": (budgetron.Forgetron(5, kernel=cauchy_rows), "Python function"),
    "voted kernel": (budgetron.VotedKernelPerceptron(), r"AveragedClassifier\(KernelPerceptron\(\)\)"),
    "voted majority": (linear.VotedPerceptron(vote="majority"), "no single weight vector"),
    "penalized": (PenalizedRiskClassifier(budgetron.KernelPerceptron()), "does not store the supports"),
    "experts": (
        ExpertClassifier([linear.AROW(), linear.Perceptron()]),
        r"got budgetron\.experts\.\w+\.ExpertClassifier",
    ),
    "pipeline": (
        make_pipeline(PCA(1), linear.AROW()),
        r"is a PCA, which cannot be exported.* Export the last step",
    ),
}


@pytest.mark.parametrize("exported", [export.onnx, export.c])
@pytest.mark.parametrize("label", REFUSED)
def test_models_that_cannot_be_exported(label, exported, tmp_path):
    model, message = REFUSED[label]
    model = model.fit(X.astype(np.float64), Y)
    with pytest.raises(TypeError, match=message):
        exported(model, tmp_path / "exported")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("exported", [export.onnx, export.c])
def test_bad_models_and_paths(exported, tmp_path):
    with pytest.raises(NotFittedError):
        exported(budgetron.Forgetron())
    with pytest.raises(TypeError, match=r"got builtins\.int"):
        exported(3)
    with pytest.raises(ValueError, match=r"weights up to 1e\+60 are too large for float32; scale"):
        exported(linear.Perceptron().fit([[1e60], [-1.0]], [1, 0]))
    with pytest.raises(ValueError, match=r"weights up to .* are too large for float32; scale"):
        exported(SecondOrderProjectron(threshold=2.0, gamma=1e80).fit([[1e-40], [-1e-40]], [1, 0]))
    with pytest.raises(ValueError, match="gamma is 1e-40, too small for float32; scale the features"):
        exported(fitted(budgetron.Forgetron(gamma=1e-40)))
    with pytest.raises(TypeError, match="labels must be text, or whole numbers that fit into 64 bits; got"):
        exported(linear.Perceptron().fit([[1.0], [-1.0]], np.array([2**63, 0], np.uint64)))
    with pytest.raises(FileNotFoundError, match="cannot create a file in this folder"):
        exported(fitted(linear.AROW()), tmp_path / "missing" / "exported")
    with pytest.raises(IsADirectoryError, match="give the name of a file"):
        exported(fitted(linear.AROW()), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "2fans", "my-model", "a b", "é", "fan;", "fan\n", None])
def test_bad_names(name):
    with pytest.raises(ValueError, match="name must be a C identifier"):
        export.c(fitted(linear.AROW()), name=name)


def test_limits_of_onnx_files(monkeypatch):
    small, large = (len(export.onnx(fitted(budgetron.Forgetron(budget, gamma=1.0)))) for budget in (10, 20))
    assert (large - small) / (10 * (D + 1)) * MOST_NUMBERS < 2**31
    model = fitted(budgetron.Forgetron(5, gamma=1.0))
    monkeypatch.setattr("budgetron.export._onnx_graph.MOST_NUMBERS", 29)
    with pytest.raises(ValueError, match="is limited to 2 GB, and this model has 5 supports of 5 features"):
        export.onnx(model)
    monkeypatch.setattr("budgetron.export._onnx_graph.MOST_NUMBERS", 30)
    assert len(export.onnx(model)) > 30 * 4
    with pytest.raises(ValueError, match="degree must be at most 16777216 in an ONNX file; got 16777217"):
        export.onnx(fitted(budgetron.Forgetron(5, kernel="poly", gamma=1e-3, degree=2**24 + 1)))


def test_a_missing_onnx_package_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'budgetron\[onnx\]'"):
        export.onnx(fitted(linear.AROW()))
