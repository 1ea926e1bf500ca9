"""Exported pipelines take the rows of the pipeline, and agree with it to float32 accuracy."""

import numpy as np
import pytest
from exported import in_c, in_onnx, needs_cc
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from budgetron import BudgetClassifier, CalibratedClassifier, Forgetron, export, linear

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3)) * [1.0, 50.0, 0.02] + [5.0, 0.0, -1.0]
CODES = rng.integers(0, 4, size=(300, 2)).astype(float)
LEARNERS = {
    "linear": linear.AROW,
    "kernel": lambda: Forgetron(30, gamma=0.2),
    "portfolio": lambda: BudgetClassifier("300kB", random_state=0),
    "probabilities": lambda: CalibratedClassifier(Forgetron(30, gamma=0.2)),
}
SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler(),
    MinMaxScaler((-2, 3), clip=True),
    MaxAbsScaler(),
    RobustScaler(),
    RobustScaler(with_centering=False, with_scaling=False),
]


@pytest.fixture(params=["onnx", pytest.param("c", marks=needs_cc)])
def run(request, tmp_path):
    """Return the function that runs the exported model."""
    return in_onnx if request.param == "onnx" else lambda model, rows: in_c(model, rows, tmp_path)


def check(pipeline, rows, run):
    scores, labels, probabilities = run(pipeline, rows.astype(np.float32))
    exact = pipeline.decision_function(rows.astype(np.float32).astype(float)).reshape(scores.shape)
    np.testing.assert_allclose(scores, exact, rtol=1e-4, atol=1e-4 * np.abs(exact).max())
    sure = np.abs(exact).min(axis=1) > 1e-3 * np.abs(exact).max()
    assert (labels == pipeline.predict(rows))[sure].all()
    if probabilities is not None:
        np.testing.assert_allclose(probabilities, pipeline.predict_proba(rows), atol=1e-3)


@pytest.mark.parametrize("scaler", SCALERS, ids=repr)
def test_scalers(scaler, run):
    y = np.where((X[:, 0] - 5) * X[:, 1] > 0, "yes", "no")
    pipeline = make_pipeline(scaler, Forgetron(30, gamma=0.2)).fit(X, y)
    wider = np.vstack([X, 1.5 * X])  # values beyond those of the scaler
    check(pipeline, wider, run)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("learner", LEARNERS)
def test_learners(learner, classes, run):
    y = np.digitize(X[:, 0] + X[:, 1] / 50, [5.0, 6.0][: classes - 1])
    check(make_pipeline(StandardScaler(), MinMaxScaler(), LEARNERS[learner]()).fit(X, y), X, run)


@pytest.mark.parametrize("drop", [None, "first"])
def test_encoders(drop, run):
    y = (CODES[:, 0] == CODES[:, 1]).astype(int)
    encoder = OneHotEncoder(drop=drop, handle_unknown="ignore")
    check(make_pipeline(encoder, Forgetron(30, gamma=0.2)).fit(CODES, y), CODES, run)
    mixed = make_pipeline(encoder, MaxAbsScaler(), linear.AROW()).fit(CODES, y)
    check(mixed, CODES, run)


MIXED = np.hstack([X, CODES])
TRANSFORMERS = {
    "scale and encode": lambda: ColumnTransformer(
        [("scale", StandardScaler(), [0, 2]), ("encode", OneHotEncoder(drop="first"), [3, 4])]
    ),
    "remainder": lambda: ColumnTransformer(
        [("encode", OneHotEncoder(handle_unknown="ignore"), slice(3, 5)), ("none", "drop", [0])],
        remainder=MinMaxScaler((-1, 2), clip=True),
    ),
    "passthrough": lambda: ColumnTransformer(
        [("scale", RobustScaler(), [True, True, False, False, False]), ("as it is", "passthrough", [-1])]
    ),
    "nothing for one": lambda: ColumnTransformer(
        [("none", StandardScaler(), []), ("all", MaxAbsScaler(), make_column_selector())]
    ),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("after", [[], [MaxAbsScaler()]], ids=["last", "with a step after"])
def test_column_transformers(name, after, run):
    pd = pytest.importorskip("pandas", reason="a selector of columns needs pandas")
    y = (MIXED[:, 0] > 5.0) ^ (MIXED[:, 3] == MIXED[:, 4])
    frame = pd.DataFrame(MIXED, columns=list("abcde"))
    pipeline = make_pipeline(TRANSFORMERS[name](), *after, Forgetron(30, gamma=0.2)).fit(frame, y.astype(int))
    scores, *_ = run(pipeline, MIXED.astype(np.float32))
    rounded = pd.DataFrame(MIXED.astype(np.float32).astype(float), columns=list("abcde"))
    exact = pipeline.decision_function(rounded).reshape(scores.shape)
    np.testing.assert_allclose(scores, exact, rtol=1e-4, atol=1e-4 * np.abs(exact).max())


def test_a_pipeline_without_steps_is_its_model(tmp_path):
    y = X[:, 0] > 5
    pipeline = Pipeline([("nothing", "passthrough"), ("learn", linear.AROW())]).fit(X, y.astype(int))
    assert export.c(pipeline, name="fan") == export.c(pipeline[-1], name="fan")
    assert export.onnx(pipeline) == export.onnx(pipeline[-1])
    scaled = make_pipeline(StandardScaler(), linear.AROW()).fit(X, y.astype(int))
    export.c(scaled, tmp_path / "fan.h", "fan")
    assert (tmp_path / "fan.h").read_text() == export.c(scaled, name="fan")
    export.onnx(scaled, tmp_path / "fan.onnx")
    assert (tmp_path / "fan.onnx").read_bytes() == export.onnx(scaled)


@pytest.mark.parametrize("function", [export.c, export.onnx])
def test_what_cannot_be_exported(function):
    y = (X[:, 0] > 5).astype(int)
    for step in (PCA(2), Normalizer()):
        with pytest.raises(TypeError, match=f"is a {type(step).__name__}, which cannot be exported"):
            function(make_pipeline(step, linear.AROW()).fit(X, y))
    words = np.array([["red"], ["blue"]] * 150, object)
    with pytest.raises(TypeError, match="'onehotencoder' of the pipeline encodes text"):
        function(make_pipeline(OneHotEncoder(), linear.AROW()).fit(words, y))
    close = make_pipeline(OneHotEncoder(), linear.AROW()).fit([[1.0], [1.0 + 1e-12]], [0, 1])
    with pytest.raises(ValueError, match="equal in float32"):
        function(close)
    weighted = ColumnTransformer([("s", StandardScaler(), [0])], transformer_weights={"s": 2.0})
    with pytest.raises(TypeError, match="transformer_weights of step 'columntransformer'"):
        function(make_pipeline(weighted, linear.AROW()).fit(X, y))
    unknown = ColumnTransformer([("s", PCA(1), [0, 1])])
    with pytest.raises(TypeError, match="step 'columntransformer: s' of the pipeline is a PCA"):
        function(make_pipeline(unknown, linear.AROW()).fit(X, y))
    nested = ColumnTransformer([("s", ColumnTransformer([("t", StandardScaler(), [0])]), [0, 1])])
    with pytest.raises(TypeError, match="'s' of step 'columntransformer' is a ColumnTransformer"):
        function(make_pipeline(nested, linear.AROW()).fit(X, y))
    with pytest.raises(NotFittedError):
        function(make_pipeline(StandardScaler(), linear.AROW()))


def test_the_name_must_be_an_identifier():
    pipeline = make_pipeline(StandardScaler(), linear.AROW()).fit(X, (X[:, 0] > 5).astype(int))
    with pytest.raises(ValueError, match=r"must be a C identifier .* got 'a-b'"):
        export.c(pipeline, name="a-b")
