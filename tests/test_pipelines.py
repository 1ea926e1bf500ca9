"""Pipelines of scikit-learn in model files."""

import copy

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

import budgetron
from budgetron import CalibratedClassifier, Forgetron, ModelFileError, linear
from budgetron._persistence.column_transformers import make_columns
from budgetron._persistence.pipelines import make_step

pd = pytest.importorskip("pandas")

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 3)) * [1.0, 100.0, 0.01] + [5.0, 0.0, 0.0]
y = np.where(X[:, 0] > 5.0, "high", "low")
WORDS = np.array([["red", "small"], ["green", "small"], ["blue", "large"], ["red", "large"]] * 20, object)
SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    MinMaxScaler((-1, 1), clip=True),
    MaxAbsScaler(),
    RobustScaler(quantile_range=(10.0, 90.0)),
    RobustScaler(with_centering=False),
    Normalizer("l1"),
]
ENCODERS = [
    OneHotEncoder(),
    OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32),
    OneHotEncoder(drop="first"),
    OneHotEncoder(drop="if_binary"),
    OrdinalEncoder(),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
]


def saved(model, tmp_path):
    path = tmp_path / "model.budgetron"
    budgetron.save(model, path)
    return budgetron.load(path)


def check_same(pipeline, loaded, rows):
    first, second = pipeline[:-1].transform(rows), loaded[:-1].transform(rows)
    first, second = (m.toarray() if hasattr(m, "toarray") else m for m in (first, second))
    np.testing.assert_array_equal(first, second)
    assert first.dtype == second.dtype
    np.testing.assert_array_equal(pipeline.decision_function(rows), loaded.decision_function(rows))
    assert [name for name, _ in pipeline.steps] == [name for name, _ in loaded.steps]
    for one, other in zip(pipeline, loaded, strict=True):
        assert repr(one) == repr(other)


@pytest.mark.parametrize("scaler", SCALERS, ids=repr)
@pytest.mark.parametrize("learner", [Forgetron(5, gamma=0.5), linear.AROW()], ids=repr)
def test_scalers(scaler, learner, tmp_path):
    pipeline = make_pipeline(scaler, learner).fit(X[:60], y[:60])
    loaded = saved(pipeline, tmp_path)
    check_same(pipeline, loaded, X[60:])
    for model in (pipeline, loaded):  # both continue in the same way
        if hasattr(model[0], "partial_fit"):
            model[0].partial_fit(X[60:])
        model[-1].partial_fit(model[0].transform(X[60:]), y[60:])
    check_same(pipeline, loaded, X)


@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
def test_encoders(encoder, tmp_path):
    labels = np.arange(80) % 2
    for rows in (WORDS, np.array([[1, 5], [2, 5], [3, 7], [1, 7]] * 20)):
        pipeline = make_pipeline(encoder, linear.AROW()).fit(rows, labels)
        loaded = saved(pipeline, tmp_path)
        check_same(pipeline, loaded, rows)
        for one, other in zip(pipeline[0].categories_, loaded[0].categories_, strict=True):
            np.testing.assert_array_equal(one, other)


def test_names_several_steps_and_unfitted_pipelines(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    learner = CalibratedClassifier(Forgetron(5, gamma=0.5))
    steps = [
        ("impute", "passthrough"),
        ("scale", StandardScaler()),
        ("unit", Normalizer()),
        ("learn", learner),
    ]
    pipeline = Pipeline(steps).fit(frame, y)
    loaded = saved(pipeline, tmp_path)
    check_same(pipeline, loaded, frame)
    assert list(loaded["scale"].feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["b", "a", "c"]])
    fresh = saved(make_pipeline(StandardScaler(), linear.AROW(r=2.0)), tmp_path)
    assert fresh[-1].r == 2.0
    fresh.fit(X, y)


def test_extras_are_kept(tmp_path):
    path = tmp_path / "model"
    budgetron.save(make_pipeline(StandardScaler(), linear.AROW()), path, extras={"columns": ["a"]})
    assert budgetron.files.load_extras(path) == {"columns": ["a"]}


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (
            make_pipeline(PCA(2), linear.AROW()),
            "step 'pca' of the pipeline is a PCA; a file can contain Standard",
        ),
        (
            make_pipeline(StandardScaler(), SGDClassifier()),
            "last step .* should be a model of Budgetron; it is SGD",
        ),
        (make_pipeline(OneHotEncoder(min_frequency=2), linear.AROW()), "min_frequency cannot be stored"),
        (make_pipeline(StandardScaler(), linear.AROW(), memory="cache"), "memory of a pipeline"),
    ],
)
def test_what_a_file_cannot_contain(pipeline, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        budgetron.save(pipeline, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("state", [{}, {"steps": []}, {"steps": None}, {"steps": [linear.AROW()]}], ids=str)
def test_a_pipeline_without_steps_is_not_saved(state, tmp_path):
    pipeline = Pipeline.__new__(Pipeline)
    pipeline.__dict__.update(state)
    with pytest.raises(TypeError, match=r"pairs? of a name and an estimator"):
        budgetron.save(pipeline, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_an_invalid_scaler_is_not_saved(tmp_path):
    pipeline = make_pipeline(StandardScaler(), linear.AROW()).fit(X, y)
    pipeline[0].scale_ = np.array([1.0, 0.0, 1.0])
    with pytest.raises(ModelFileError, match="scales should be above 0"):
        budgetron.save(pipeline, tmp_path / "model")


def test_steps_that_do_not_fit_together_are_not_saved(tmp_path):
    encoder = OneHotEncoder().fit(WORDS)
    for steps in ([StandardScaler().fit(X)], [encoder], [encoder, StandardScaler().fit(X)]):
        pipeline = make_pipeline(*steps, linear.AROW().fit(X[:, :2], y))
        with pytest.raises(ModelFileError, match="should take the"):
            budgetron.save(pipeline, tmp_path / "model")
    saved(make_pipeline(StandardScaler().fit(X), linear.AROW()), tmp_path)[-1].fit(X, y)


GOOD = {
    "n_features_in_": 2,
    "mean_": np.zeros(2),
    "var_": np.ones(2),
    "scale_": np.ones(2),
    "n_samples_seen_": 9,
}
PARAMETERS = StandardScaler().get_params()


@pytest.mark.parametrize(
    "change",
    [
        {"mean_": np.zeros(3)},
        {"mean_": np.array(["a", "b"])},
        {"mean_": "zeros"},
        {"var_": np.full(2, np.inf)},
        {"scale_": np.array([1.0, -1.0])},
        {"n_samples_seen_": -1},
        {"n_samples_seen_": np.array([1.0, 2.0])},
        {"n_features_in_": 0},
        {"n_features_in_": "two"},
        {"other_": 1},
        {"feature_names_in_": np.array(["a"])},
        {"feature_names_in_": np.array([1, 2])},
    ],
    ids=str,
)
def test_hostile_scalers_are_refused(change):
    make_step("StandardScaler", PARAMETERS, copy.deepcopy(GOOD))
    with pytest.raises(ValueError, match="should"):
        make_step("StandardScaler", PARAMETERS, GOOD | change)


@pytest.mark.parametrize(
    ("name", "parameters", "learned"),
    [
        ("PCA", {}, None),
        (["StandardScaler"], PARAMETERS, None),
        ("StandardScaler", PARAMETERS | {"copy": "yes"}, None),
        ("StandardScaler", PARAMETERS | {"code": 1}, None),
        ("OneHotEncoder", OneHotEncoder().get_params() | {"dtype": "object"}, None),
        *(
            (
                "OneHotEncoder",
                OneHotEncoder().get_params() | {"dtype": "float64"},
                {"n_features_in_": 1} | learned,
            )
            for learned in (
                {"categories_": [np.zeros((1, 1))]},
                {"categories_": [np.zeros(0)]},
                {"categories_": []},
                {"categories_": [np.array([2.0, 1.0])]},
                {"categories_": "a"},
                {},
            )
        ),
    ],
    ids=str,
)
def test_hostile_steps_are_refused(name, parameters, learned):
    with pytest.raises((ValueError, TypeError)):
        make_step(name, parameters, learned)


# ---------------------------------------------------------------------- columns

FRAME = pd.DataFrame(X, columns=["age", "income", "share"]).assign(colour=WORDS[:, 0], size=WORDS[:, 1])
TRANSFORMERS = {
    "by name": lambda: ColumnTransformer(
        [("scale", StandardScaler(), ["age", "share"]), ("encode", OneHotEncoder(), ["colour", "size"])]
    ),
    "remainder": lambda: ColumnTransformer(
        [
            ("encode", OneHotEncoder(drop="first", sparse_output=False), ["colour"]),
            ("none", "drop", ["size"]),
        ],
        remainder=MinMaxScaler(),
        verbose_feature_names_out=False,
    ),
    "by function": lambda: ColumnTransformer(
        [
            ("scale", RobustScaler(), make_column_selector(dtype_include=float)),
            ("codes", OrdinalEncoder(), make_column_selector(dtype_exclude=float)),
        ],
        transformer_weights={"codes": 2.0},
    ),
    "by number": lambda: ColumnTransformer(
        [
            ("scale", StandardScaler(), slice(0, 2)),
            ("rest", "passthrough", [False, False, True, False, False]),
        ]
    ),
    "nothing for one": lambda: ColumnTransformer(
        [("none", OneHotEncoder(), []), ("all", MaxAbsScaler(), [0, 1])]
    ),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("names", [True, False])
def test_column_transformers(name, names, tmp_path):
    if not names and name in ("by name", "remainder", "by function"):
        pytest.skip("columns have names here")
    rows = FRAME if names else X
    step = (
        TRANSFORMERS[name]()
        if names or name != "by number"
        else ColumnTransformer(
            [("scale", StandardScaler(), slice(0, 2)), ("rest", "passthrough", [False, False, True])]
        )
    )
    pipeline = make_pipeline(step, MaxAbsScaler(), linear.AROW()).fit(rows[:60], y[:60])
    loaded = saved(pipeline, tmp_path)
    first, second = pipeline[0].transform(rows), loaded[0].transform(rows)
    assert hasattr(first, "toarray") == hasattr(second, "toarray")
    first, second = (m.toarray() if hasattr(m, "toarray") else m for m in (first, second))
    np.testing.assert_array_equal(first, second)
    assert pipeline[0].output_indices_ == loaded[0].output_indices_
    assert pipeline[0].get_feature_names_out().tolist() == loaded[0].get_feature_names_out().tolist()
    np.testing.assert_array_equal(pipeline.decision_function(rows), loaded.decision_function(rows))
    again = saved(loaded, tmp_path)  # what was loaded can be saved, and learned again
    np.testing.assert_array_equal(pipeline.decision_function(rows), again.decision_function(rows))
    for model in (pipeline, again):
        model.fit(rows, y)
    # A slice was stored as a list of columns, of which NumPy sums in another order.
    expected = pipeline.decision_function(rows)
    np.testing.assert_allclose(again.decision_function(rows), expected, rtol=1e-9, atol=1e-12)


def test_column_transformers_before_fit(tmp_path):
    pipeline = make_pipeline(TRANSFORMERS["by name"](), linear.AROW())
    loaded = saved(pipeline, tmp_path)
    assert repr(loaded) == repr(pipeline)
    np.testing.assert_array_equal(loaded.fit(FRAME, y).predict(FRAME), pipeline.fit(FRAME, y).predict(FRAME))
    for name, message in (("by function", "chosen by a Python function"), ("by number", "given by a slice")):
        with pytest.raises(TypeError, match=message):
            saved(make_pipeline(TRANSFORMERS[name](), linear.AROW()), tmp_path)
    for part in (PCA(1), ColumnTransformer([("s", StandardScaler(), [0])])):
        with pytest.raises(TypeError, match=f"'p' of the ColumnTransformer is a {type(part).__name__}"):
            saved(make_pipeline(ColumnTransformer([("p", part, [0, 1])]), linear.AROW()).fit(X, y), tmp_path)


PARTS = [["scale", StandardScaler().fit(X[:, :2]), [0, 1]], ["remainder", "drop", []]]
GIVEN = {
    "sparse_threshold": 0.3,
    "n_jobs": None,
    "transformer_weights": None,
    "verbose": False,
    "verbose_feature_names_out": True,
}
LEARNED = {"n_features_in_": 3, "sparse_output_": False}


@pytest.mark.parametrize(
    ("given", "parts", "learned", "message"),
    [
        (GIVEN | {"n_jobs": "all"}, PARTS, LEARNED, "n_jobs"),
        (GIVEN | {"verbose_feature_names_out": "{a}"}, PARTS, LEARNED, "verbose_feature_names_out should be"),
        (GIVEN | {"more": 1}, PARTS, LEARNED, "parameters of ColumnTransformer"),
        (GIVEN, [], LEARNED, "should have parts"),
        (GIVEN, PARTS[:1], LEARNED, "the last part of a ColumnTransformer should be the remainder"),
        (GIVEN, [PARTS[0], *PARTS], LEARNED, "different names"),
        (GIVEN, [["scale", "delete", [0]], PARTS[1]], LEARNED, "should be steps"),
        (GIVEN, [["scale", PARTS[0][1], {"a": 1}], PARTS[1]], LEARNED, "columns should be a name"),
        (GIVEN, [["scale", PARTS[0][1], [0, "a"]], PARTS[1]], LEARNED, "columns should be names, numbers"),
        (
            GIVEN,
            [["scale", PARTS[0][1], [0]], PARTS[1]],
            LEARNED,
            "scale should take the 1 features given to it",
        ),
        (GIVEN, [["scale", StandardScaler(), [0]], PARTS[1]], LEARNED, "scale should take the 1 features"),
        (GIVEN, PARTS, LEARNED | {"n_features_in_": 0}, "number of features"),
        (GIVEN, PARTS, LEARNED | {"sparse_output_": 1}, "sparse_output_ should be a bool"),
        (
            GIVEN,
            PARTS,
            LEARNED | {"feature_names_in_": np.array(["a", "b"])},
            "there should be 3 feature names",
        ),
    ],
)
def test_hostile_column_transformers(given, parts, learned, message):
    make_columns(GIVEN, PARTS, LEARNED)
    with pytest.raises(ValueError, match=message):
        make_columns(given, parts, learned)
