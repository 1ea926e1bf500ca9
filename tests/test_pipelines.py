"""Pipelines of scikit-learn in model files."""

import copy

import numpy as np
import pytest
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
