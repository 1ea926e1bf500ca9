"""The river adapters: river's own checks, and ours."""

import copy
import pickle
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from river import checks, datasets, drift, evaluate, metrics, preprocessing
from river.conf import Interval
from test_memory import memory_of

import budgetron.river
from budgetron import river
from budgetron._base.access import next_margins
from budgetron.river import linear

ADAPTERS = [cls for cls in river.adapters().values() if issubclass(cls, river.RiverClassifier)]
REGRESSORS = [cls for cls in river.adapters().values() if issubclass(cls, river.RiverRegressor)]
DETECTORS = [cls for cls in river.adapters().values() if issubclass(cls, river.RiverDetector)]
# The wrappers, and the adapter in each.
CONFORMAL = {
    river.ConformalClassifier: river.Forgetron,
    river.ConformalRegressor: river.SecondOrderRegressor,
}
names = {"ids": lambda cls: f"{cls.__module__.removeprefix('budgetron.')}.{cls.__name__}"}

# Checks that the adapters do not pass, with the reason.
SKIPPED = {}


class Payments:
    """Rows for river's checks of anomaly detectors, in place of a data set that river downloads."""

    def take(self, n):
        rng = np.random.default_rng(0)
        for _ in range(n):
            unusual = rng.random() < 0.02
            row = rng.normal(size=28) + (3.0 if unusual else 0.0)
            yield {f"V{j}": float(v) for j, v in enumerate(row)}, int(unusual)


def all_checks():
    for cls in [*ADAPTERS, *REGRESSORS, *DETECTORS]:
        for params in cls._unit_test_params():
            with patch.object(datasets, "CreditCard", Payments):
                found = list(checks.yield_checks(cls(**params)))
            for check in found:
                yield pytest.param(
                    cls(**params), check, id=f"{cls.__module__}.{cls.__name__}-{check.__name__}"
                )


@pytest.mark.parametrize(("model", "check"), list(all_checks()))
def test_rivers_checks(model, check):
    if check.__name__ in SKIPPED:
        pytest.skip(SKIPPED[check.__name__])
    check(copy.deepcopy(model))


def estimator_of(adapter):
    """Return the scikit-learn estimator of a river adapter."""
    return adapter.to_parts()["model"]


def small(cls, **more):
    """Return an adapter with a small budget or memory, and a fixed seed."""
    if cls in CONFORMAL:
        return cls(small(CONFORMAL[cls], **more), 0.8, window=60)
    params = {"budget": 20, "memory": "256kB", "seed": 1}
    return cls(**{name: params[name] for name in params if name in cls.parameter_names()} | more)


def rows(n=300):
    """Yield dicts whose features appear and disappear, and labels of which the third appears late."""
    rng = np.random.default_rng(0)
    for t in range(n):
        x = {
            f"f{j}": float(v) for j, v in enumerate(rng.normal(size=6)) if rng.random() < 0.8 and 40 * j <= t
        }
        total = sum(x.values())
        yield x, "late" if t > 120 and total > 1.5 else total > 0


@pytest.mark.parametrize("cls", ADAPTERS, **names)
@pytest.mark.parametrize("batch", [1, 7, 300])
def test_learn_many_equals_the_loop(cls, batch):
    one, many = small(cls), small(cls)
    stream = list(rows())
    for x, y in stream:
        one.learn_one(x, y)
    for start in range(0, 300, batch):
        part = stream[start : start + batch]
        many.learn_many(pd.DataFrame([x for x, _ in part]), pd.Series([y for _, y in part], dtype=object))
    assert one.to_parts()["labels"] == many.to_parts()["labels"]
    actual, expected = estimator_of(many), estimator_of(one)
    assert (actual.rounds_, actual.mistakes_) == (expected.rounds_, expected.mistakes_)
    X = pd.DataFrame([x for x, _ in stream])
    assert one.predict_many(X).tolist() == [many.predict_one(x) for x, _ in stream]
    P = one.predict_proba_many(X)
    for i, (x, _) in enumerate(stream[:50]):
        assert many.predict_proba_one(x) == pytest.approx(P.iloc[i].to_dict(), abs=1e-8)


@pytest.mark.parametrize("cls", ADAPTERS, **names)
def test_agrees_with_the_scikit_learn_estimator(cls):
    stream = [({j: float(v) for j, v in enumerate(x)}, y) for x, y in zip(*blobs(), strict=True)]
    model = small(cls)
    X, y = blobs()
    estimator = copy.deepcopy(estimator_of(model))
    for x, label in stream:
        model.learn_one(x, label)
    estimator.fit(X, y)
    actual = estimator_of(model)
    assert (actual.rounds_, actual.mistakes_) == (estimator.rounds_, estimator.mistakes_)
    predicted = [model.predict_one(x) for x, _ in stream]
    # Adapters predict the next row of the stream, for which BudgetClassifier uses recent labels.
    assert predicted == (next_margins(estimator, X)[0] > 0.0).astype(int).tolist()


def margins_of(adapter, rows):
    """Return the margins of rows, each as the next row of the stream."""
    features = adapter.to_parts()["features"]
    values = np.array([[x.get(feature, 0.0) for feature in features] for x in rows])
    return next_margins(estimator_of(adapter), values)


def blobs(n=200):
    """Return rows of two overlapping classes, and labels."""
    rng = np.random.default_rng(1)
    y = np.append(0, rng.integers(0, 2, n - 1))  # the first label is the lower one
    return rng.normal(size=(n, 4)) + 0.8 * y[:, None], y


# The number of supports that fit into BudgetClassifier's memory depends on the number of features.
@pytest.mark.parametrize("cls", [cls for cls in ADAPTERS if cls is not river.BudgetClassifier], **names)
def test_new_features_count_as_zero_in_earlier_rows(cls):
    width = {"gamma": 0.2} if "gamma" in CONFORMAL.get(cls, cls).parameter_names() else {}
    late, early = small(cls, **width), small(cls, **width)
    stream = list(rows())
    for x, y in stream:
        late.learn_one(x, y)
        early.learn_one({f"f{j}": x.get(f"f{j}", 0.0) for j in range(6)}, y)
    actual, expected = (margins_of(model, [x for x, _ in stream]) for model in (late, early))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9 * max(1.0, np.abs(expected).max()))
    # Winnow's weights sum to 1 over the known features, so that its early margins were larger.
    if cls is not linear.Winnow:
        assert estimator_of(late).mistakes_ == estimator_of(early).mistakes_
        np.testing.assert_allclose(late.to_parts()["sigmoids"], early.to_parts()["sigmoids"], rtol=1e-6)


@pytest.mark.parametrize("cls", ADAPTERS, **names)
def test_nbytes_is_the_sum_of_the_arrays(cls):
    model = small(cls)
    has_memory = "memory" in cls.parameter_names()
    has_budget = "budget" in CONFORMAL.get(cls, cls).parameter_names()
    if not has_memory and not has_budget and not cls.__module__.endswith("linear"):
        pytest.skip("without a budget the model grows with its updates")
    stream = list(rows(900))
    sizes = []
    for t, (x, y) in enumerate(stream):
        model.learn_one(x, y)
        if t >= 300:
            sizes.append(model.nbytes_)
    if has_memory:  # the size may change, within the limit
        assert max(sizes) <= 256 << 10
        return
    keeps_all = cls is linear.VotedPerceptron and model.vote == "majority"
    assert keeps_all or len(set(sizes)) == 1
    arrays, bare = memory_of(estimator_of(model))
    parts = bare + sum(array.nbytes for array in arrays)
    tracking = 16 * model.window + 16 if cls in CONFORMAL else 0
    assert model.nbytes_ == parts + tracking + model.to_parts()["sigmoids"].nbytes


@pytest.mark.parametrize("cls", ADAPTERS, **names)
def test_predictions_change_nothing(cls):
    model = small(cls)
    stream = list(rows())
    for x, y in stream[:200]:
        model.learn_one(x, y)
    before = pickle.dumps(model)
    for x, _ in stream[200:]:
        model.predict_one(x | {"never seen": 3.0})
        model.predict_proba_one(x)
    model.predict_many(pd.DataFrame([x for x, _ in stream]))
    model.predict_proba_many(pd.DataFrame([x for x, _ in stream]))
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("cls", ADAPTERS, **names)
def test_copies_share_nothing(cls):
    stream = list(rows())
    model = small(cls)
    for x, y in stream[:150]:
        model.learn_one(x, y)
    copied, pickled = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    before = pickle.dumps(copied)
    for x, y in stream[150:]:
        model.learn_one(x, y)
    assert pickle.dumps(copied) == before
    for x, y in stream[150:]:
        pickled.learn_one(x, y)
    assert [pickled.predict_proba_one(x) for x, _ in stream] == [
        model.predict_proba_one(x) for x, _ in stream
    ]


@pytest.mark.parametrize("cls", ADAPTERS, **names)
def test_a_loaded_adapter_continues_exactly(cls, tmp_path):
    stream = list(rows())
    model = small(cls)
    for start, cut in pairwise((0, 0, 1, 100, 250)):
        for x, y in stream[start:cut]:
            model.learn_one(x, y)
        budgetron.save(model, tmp_path / "model")
        loaded = budgetron.load(tmp_path / "model")
        assert repr(loaded) == repr(model)
        never_saved = copy.deepcopy(model)
        for x, y in stream[cut:]:
            never_saved.learn_one(x, y)
            loaded.learn_one(x, y)
        assert never_saved.nbytes_ == loaded.nbytes_
        assert [never_saved.predict_proba_one(x) for x, _ in stream] == [
            loaded.predict_proba_one(x) for x, _ in stream
        ]


def test_inconsistent_parts_are_refused():
    model = small(river.Forgetron)
    for x, y in rows():
        model.learn_one(x, y)
    good = model.to_parts()
    for change in (
        {"features": good["features"][:-1]},
        {"features": [*good["features"][:-1], "f0"]},
        {"labels": good["labels"] + ["more"]},
        {"labels": good["labels"][:-1]},
        {"labels": [*good["labels"][:-1], None]},
        {"sigmoids": good["sigmoids"][:1]},
        {"sigmoids": good["sigmoids"] * np.nan},
        {"model": estimator_of(small(river.Forgetron, budget=3))},
        {"model": estimator_of(small(linear.AROW))},
    ):
        with pytest.raises(ValueError, match="should be"):
            river.Forgetron.from_parts({"budget": 20}, **good | change)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ({"f0": -np.inf}, True, "'f0' must be a finite number; got -inf"),
        ({"f0": 1.0, "f1": "red"}, True, "'f1' must be a finite number; got 'red'. Encode text"),
        ({"f0": 10**400}, True, "'f0' must be a finite number; got 1000"),
        ({"new": np.inf}, True, "'new' must be a finite number"),
        ({"new": 1.0, "newer": [1.0, 2.0]}, "newest", "'newer' must be a finite number"),
        ({"new": 1.0, "newer": np.ones(2)}, "newest", "'newer' must be a finite number"),
        ({f"g{j}": 1.0 for j in range(1000)}, True, "max_features is 1,000"),
        ({"f0": 1.0}, ["unhashable"], "unhashable"),
        ({"f0": 1.0}, None, "the label must be a value; got None"),
        ({"new": 1.0}, float("nan"), "the label must be a value; got nan"),
        ({"f0": 1.0}, np.float32("nan"), "the label must be a value"),
        ({"f0": 1.0}, pd.NA, "the label must be a value; got <NA>"),
        ({"f0": 1.0}, pd.NaT, "the label must be a value; got NaT"),
    ],
)
@pytest.mark.parametrize("cls", [river.Forgetron, linear.AROW], **names)
def test_bad_rows_change_nothing(cls, x, y, message):
    model = small(cls)
    for row, label in rows():
        model.learn_one(row, label)
    before = pickle.dumps(model)
    with pytest.raises((ValueError, TypeError), match=message):
        model.learn_one(x, y)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT])
@pytest.mark.parametrize("cls", [river.Forgetron, linear.AROW, river.VotedKernelPerceptron], **names)
def test_missing_values_are_like_features_that_a_row_does_not_have(cls, missing):
    with_values, without = small(cls), small(cls)
    for t, (row, label) in enumerate(rows()):
        present = {name: value for j, (name, value) in enumerate(row.items()) if (t + j) % 3 or t == 0}
        explicit = {name: present.get(name, missing) for name in row} | {"never": missing}
        with_values.learn_one(explicit, label)
        without.learn_one(present, label)
        assert with_values.predict_proba_one(explicit) == without.predict_proba_one(present)
    assert with_values.to_parts()["features"] == without.to_parts()["features"]
    assert "never" not in with_values.to_parts()["features"]
    table = pd.DataFrame([{"f0": 1.0, "f1": missing}], dtype=object)
    assert with_values.predict_many(table).iloc[0] == with_values.predict_one({"f0": 1.0})


@pytest.mark.parametrize("row", [{}, {"f0": None}])
def test_the_first_row_needs_a_feature(row):
    model = river.Forgetron()
    with pytest.raises(ValueError, match="the first row has no feature with a value"):
        model.learn_one(row, True)
    model.learn_one({"f0": 1.0}, True)
    model.learn_one(row, False)


@pytest.mark.parametrize("predict", ["predict_one", "predict_proba_one"])
def test_a_prediction_that_overflows_names_the_feature(predict):
    model = river.PassiveAggressive(kernel="poly", degree=3, gamma=1.0)
    for row, label in rows():
        model.learn_one(row, label)
    with pytest.raises(ValueError, match=r"the largest is feature 'f1', 1e\+200"):
        getattr(model, predict)({"f0": 1.0, "f1": 1e200})
    with pytest.raises(ValueError, match=r"the largest is feature 'f1', -1e\+200 in row 1"):
        model.predict_many(pd.DataFrame({"f0": [1.0, 2.0], "f1": [0.0, -1e200]}))


def test_arow_takes_thousands_of_features_one_after_the_other(tmp_path):
    model = linear.AROW(max_features=3000)
    for t in range(90):
        model.learn_one({f"f{t}_{j}": 1.0 for j in range(30)} | {"sign": t % 2 - 0.5}, t % 2)
    assert len(model.to_parts()["features"]) == 2701
    assert model.nbytes_ < 2701 * 8 * 6
    assert [model.predict_one({"sign": sign}) for sign in (-0.5, 0.5)] == [0, 1]
    budgetron.save(model, tmp_path / "model")
    assert budgetron.load(tmp_path / "model").covariance == "auto"


# ---------------------------------------------------------------------- calibration


def budget_stream(n=150):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] * X[:, 1] > 0) ^ (rng.random(n) < 0.2)
    y[0] = False  # so that the first label is class 0 for the adapter as well
    return X, y.astype(int)


def test_budget_classifier_is_calibrated_once_per_row():
    X, y = budget_stream()
    adapter = river.BudgetClassifier(memory="256kB", seed=0)
    estimator = budgetron.BudgetClassifier(memory="256kB", random_state=0)
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        if set(y[:t]) == {0, 1}:
            # The classifier's own probability of the next row: its margin, then its sigmoid
            margin = copy.deepcopy(estimator).play(x, 0)
            expected = estimator.probabilities_from_margins(np.array([margin]))[0]
            actual = adapter.predict_proba_one(dict(enumerate(x.tolist())))
            np.testing.assert_allclose([actual[0], actual[1]], expected, rtol=1e-12)
        estimator.play(x, label, classes=[0, 1] if t == 0 else None)
        adapter.learn_one(dict(enumerate(x.tolist())), label)
        np.testing.assert_array_equal(estimator_of(adapter).sigmoids_, estimator.sigmoids_)
    assert adapter.nbytes_ == estimator.nbytes_
    # The most probable label is the predicted one.
    table = pd.DataFrame(X)
    np.testing.assert_array_equal(
        adapter.predict_proba_many(table).idxmax(axis=1), adapter.predict_many(table)
    )


def test_budget_classifier_is_calibrated_once_per_row_of_a_batch():
    X, y = budget_stream()
    adapter = river.BudgetClassifier(memory="256kB", seed=0)
    adapter.learn_many(pd.DataFrame(X), pd.Series(y))
    estimator = budgetron.BudgetClassifier(memory="256kB", random_state=0)
    estimator.partial_fit(X, y, classes=[0, 1])
    np.testing.assert_allclose(estimator_of(adapter).sigmoids_, estimator.sigmoids_, rtol=1e-9)


def test_files_with_sigmoids_of_the_adapter_still_load():
    # Adapters of BudgetClassifier once had sigmoids of their own. They are checked, and then ignored.
    model = river.BudgetClassifier(memory="256kB", seed=0)
    for x, y in rows():
        model.learn_one(x, y)
    parts = model.to_parts()
    assert parts["sigmoids"].shape == (3, 7)
    earlier = parts["sigmoids"].copy()
    earlier[:, 1] = 0.7
    params = {"memory": "256kB", "seed": 0}
    loaded = river.BudgetClassifier.from_parts(params, **parts | {"sigmoids": earlier})
    for x, _ in rows():
        assert loaded.predict_proba_one(x) == model.predict_proba_one(x)
    with pytest.raises(ValueError, match="should be those of the learner"):
        river.BudgetClassifier.from_parts(params, **parts | {"sigmoids": earlier[:1]})


def test_bad_tables_change_nothing():
    model = small(river.Forgetron)
    for row, label in rows():
        model.learn_one(row, label)
    before = pickle.dumps(model)
    for X, y in [
        (pd.DataFrame({"f0": ["red"], "f1": [1.0]}), ["new"]),
        (pd.DataFrame({"f0": [np.inf]}), [True]),
        (pd.DataFrame({"f0": [1.0, 2.0]}), [True]),
    ]:
        with pytest.raises(
            ValueError, match=r"encode it|feature 'f0' of row 0 is infinite|one label per row"
        ):
            model.learn_many(X, pd.Series(y))
        assert pickle.dumps(model) == before


@pytest.mark.parametrize("cls", ADAPTERS, **names)
@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_missing_labels_are_refused(cls, missing):
    model = small(cls)
    X, y = pd.DataFrame({"f0": [1.0, 2.0, -1.0]}), pd.Series([True, missing, False], dtype=object)
    with pytest.raises(ValueError, match="every row needs a label; the label of row 1 is"):
        model.learn_many(X, y)
    assert model.to_parts()["labels"] == []
    assert model.predict_one({"f0": 1.0}) is None
    model.learn_many(X[y.notna()], y.dropna())
    assert model.to_parts()["labels"] == [True, False]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"gamma": "scale"}, "needs a whole batch"),
        ({"budget": 0}, "budget"),
        ({"max_features": 0}, "max_features"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        river.Forgetron(**params)


def test_positional_and_named_parameters():
    model = river.Forgetron(7, gamma=0.5)
    assert (model.budget, model.gamma, model.max_features) == (7, 0.5, 1000)
    assert model.clone({"budget": 9}).budget == 9
    with pytest.raises(TypeError, match="bugdet"):
        river.Forgetron(bugdet=7)


@pytest.mark.parametrize("cls", ADAPTERS, **names)
def test_accuracy_in_a_pipeline(cls):
    model = preprocessing.StandardScaler() | small(cls)
    score = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy() + metrics.LogLoss())
    accuracy, loss = (metric.get() for metric in score)
    assert accuracy > 0.6
    assert loss < 0.75


def test_many_classes_in_a_pipeline():
    model = preprocessing.StandardScaler() | river.Forgetron(budget=50)
    score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    assert score.get() > 0.7


def test_retrained_after_drift():
    model = drift.DriftRetrainingClassifier(
        model=river.RandomizedBudgetPerceptron(budget=30, seed=0), drift_detector=drift.binary.DDM()
    )
    metric = metrics.Accuracy()
    rng = np.random.default_rng(0)
    for t in range(2000):
        x = {"a": float(rng.normal()), "b": float(rng.normal())}
        y = (x["a"] > 0) != (t > 1000)
        prediction = model.predict_one(x)
        metric.update(y, prediction)
        model.learn_one(x, y)
    assert metric.get() > 0.8


def test_every_learner_has_an_adapter():
    # All learners, BudgetClassifier, and ConformalClassifier
    assert len(ADAPTERS) == len(budgetron.learners()) + len(budgetron.linear.learners()) + 2
    assert all(cls.__doc__ for cls in ADAPTERS)


@pytest.mark.parametrize("cls", [river.Forgetron, linear.Perceptron, linear.VotedPerceptron])
def test_rows_must_be_dicts_and_tables_data_frames(cls):
    model = cls()
    model.learn_many(pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]}), pd.Series([1, 0]))
    table = pd.DataFrame([[1.0, np.nan], [2.0, 3.0]], columns=["a", "a"])
    for row in (["a", "b"], [1.0], None, table.iloc[0]):
        with pytest.raises(TypeError, match=r"must be a dict|not iterable"):
            model.learn_one(row, 1)
    with pytest.raises(TypeError, match="must be a dict"):
        model.predict_one(["a", "b"])
    # A loop over dicts would use the last value of the row, if it has one.
    for call in (lambda X: model.learn_many(X, pd.Series([1, 0])), model.predict_many):
        with pytest.raises(ValueError, match="feature 'a' is the name of several columns"):
            call(table)
        with pytest.raises(TypeError, match="must be a pandas DataFrame; got ndarray"):
            call(table.to_numpy())
    assert estimator_of(model).rounds_ == 2


@pytest.mark.parametrize("cls", ADAPTERS, **names)
def test_a_copy_shares_no_learner(cls):
    model = small(cls)
    stream = list(rows(200))
    for x, y in stream[:100]:
        model.learn_one(x, y)
    before = [model.predict_proba_one(x) for x, _ in stream]
    other = copy.copy(model)
    for x, y in stream[100:]:  # with new features and a third label
        other.learn_one(x, y)
    assert [model.predict_proba_one(x) for x, _ in stream] == before
    assert estimator_of(model).rounds_ == 100


# ---------------------------------------------------------------------- regressors


def numbers(n=300):
    """Yield dicts whose features appear and disappear, and numbers."""
    for x, _ in rows(n):
        yield x, 3.0 + sum(x.values()) + 0.5 * x.get("f0", 0.0) ** 2


@pytest.mark.parametrize("cls", REGRESSORS, **names)
@pytest.mark.parametrize("batch", [1, 7, 300])
def test_regressors_learn_many_equals_the_loop(cls, batch):
    one, many = small(cls), small(cls)
    stream = list(numbers())
    assert one.predict_one({"a": 1.0}) == 0.0
    for x, y in stream:
        one.learn_one(x, y)
    for start in range(0, len(stream), batch):
        part = stream[start : start + batch]
        many.learn_many(pd.DataFrame([x for x, _ in part]), pd.Series([y for _, y in part]))
    found = [[model.predict_one(x) for x, _ in stream[:20]] for model in (one, many)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6, atol=1e-6)
    table = pd.DataFrame([x for x, _ in stream[:20]])
    np.testing.assert_allclose(many.predict_many(table), found[1], rtol=1e-6, atol=1e-6)
    assert many.nbytes_ == estimator_of(many).nbytes_


@pytest.mark.parametrize("cls", REGRESSORS, **names)
def test_regressors_in_files(cls, tmp_path):
    model = small(cls)
    stream = list(numbers(120))
    for x, y in stream[:80]:
        model.learn_one(x, y)
    budgetron.save(model, tmp_path / "model")
    for other in (budgetron.load(tmp_path / "model"), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        twin = copy.deepcopy(model)
        for x, y in stream[80:]:
            assert other.predict_one(x) == twin.predict_one(x)
            other.learn_one(x, y)
            twin.learn_one(x, y)


@pytest.mark.parametrize("cls", REGRESSORS, **names)
def test_regressors_refuse_bad_targets(cls):
    model = small(cls)
    model.learn_one({"a": 1.0}, 2.0)

    def seen():
        return model.predict_one({"a": 0.7}), estimator_of(model).rounds_, model.to_parts()["features"]

    before = seen()
    for y in (None, float("nan"), "text", 1e40):
        with pytest.raises(ValueError, match="target"):
            model.learn_one({"a": 1.0}, y)
        with pytest.raises(ValueError, match="target"):
            model.learn_one({"b": 1.0}, y)
    with pytest.raises(ValueError, match="target"):
        model.learn_many(pd.DataFrame([{"a": 1.0}]), pd.Series([None]))
    with pytest.raises(ValueError, match="one target per row"):
        model.learn_many(pd.DataFrame([{"a": 1.0}]), pd.Series([1.0, 2.0]))
    assert seen() == before


# ---------------------------------------------------------------------- prediction sets and intervals


@pytest.mark.parametrize("cls", [cls for cls in ADAPTERS if cls not in CONFORMAL], **names)
def test_sets_of_single_rows(cls):
    model = river.ConformalClassifier(small(cls), 0.8, step=0.05, window=40)
    compared = 0
    for x, y in rows():
        found = model.predict_one(x, with_set=True)
        parts = model.to_parts()
        known = set(x) <= set(parts["features"]) and y in parts["labels"] and len(parts["labels"]) > 1
        assert found <= set(parts["labels"])
        before = (model.misses_, estimator_of(model).total_set_size_) if known else (0, 0)
        model.learn_one(x, y)
        if known:  # the round has the set that was predicted
            compared += 1
            assert model.misses_ - before[0] == (y not in found)
            assert estimator_of(model).total_set_size_ - before[1] == len(found)
    assert compared > 280
    estimator = estimator_of(model)
    assert model.misses_ == estimator.misses_
    assert model.coverage_ == estimator.coverage_ == pytest.approx(0.8, abs=0.05)
    assert model.mean_set_size_ == estimator.mean_set_size_


def test_a_set_has_the_classes_of_the_estimator():
    stream = list(rows())
    model = river.ConformalClassifier(river.SecondOrderProjectron(20, gamma=0.5), window=60)
    for x, y in stream:
        model.learn_one(x, y)
    labels = np.array(model.to_parts()["labels"], object)
    X = np.array([[x.get(f, 0.0) for f in model.to_parts()["features"]] for x, _ in stream])
    sets = estimator_of(model).predict_set(X)
    assert {tuple(one) for one in sets} > {(True, False, False)}
    for (x, _), one in zip(stream, sets, strict=True):
        assert model.predict_one(x, with_set=True) == set(labels[one])


@pytest.mark.parametrize("cls", [cls for cls in REGRESSORS if cls not in CONFORMAL], **names)
def test_intervals_of_single_rows(cls):
    model = river.ConformalRegressor(small(cls), 0.8, step=0.05, window=40)
    compared, widths = 0, []
    for x, label in rows():
        y = sum(x.values()) + (label == "late")
        interval = model.predict_one(x, with_interval=True)
        widths.append(interval.width)
        known, misses = set(x) <= set(model.to_parts()["features"]), model.misses_
        model.learn_one(x, y)
        if known:  # the round has the interval that was predicted
            compared += 1
            assert model.misses_ - misses == (y not in interval)
    assert compared > 280
    assert model.misses_ == estimator_of(model).misses_
    assert model.coverage_ == pytest.approx(0.8, abs=0.05)
    assert np.isinf(widths[0])
    assert np.isfinite(widths[100:]).mean() > 0.8
    features = model.to_parts()["features"]
    X = np.array([[x.get(feature, 0.0) for feature in features] for x, _ in rows()])
    expected = estimator_of(model).predict_interval(X)
    found = [model.predict_one(x, with_interval=True) for x, _ in rows()]
    np.testing.assert_allclose([(one.lower, one.upper) for one in found], expected, rtol=1e-9, atol=1e-9)


def test_sets_and_intervals_before_the_first_round_and_in_pipelines():
    classifier, regressor = small(river.ConformalClassifier), small(river.ConformalRegressor)
    assert classifier.predict_one({"a": 1.0}, with_set=True) == set()
    assert classifier.predict_one({"a": 1.0}) is None
    assert regressor.predict_one({"a": 1.0}, with_interval=True) == Interval(-np.inf, np.inf)
    assert regressor.predict_one({"a": 1.0}) == 0.0
    for model in (classifier, regressor):
        assert np.isnan(model.coverage_)
        assert model.misses_ == 0
    classifier.learn_one({"a": 1.0}, "first")
    assert classifier.predict_one({"a": 1.0}, with_set=True) <= {"first"}
    pipeline = preprocessing.StandardScaler() | small(river.ConformalClassifier)
    numbers = preprocessing.StandardScaler() | small(river.ConformalRegressor)
    for x, y in rows():
        pipeline.learn_one(x, y)
        numbers.learn_one(x, float(len(x)))
    assert pipeline.predict_one({"f0": 1.0}, with_set=True) <= {True, False, "late"}
    assert isinstance(numbers.predict_one({"f0": 1.0}, with_interval=True), Interval)


def test_wrappers_clone_the_learner_and_refuse_others():
    learner = river.Forgetron(20, max_features=6)
    model = river.ConformalClassifier(learner, 0.8, window=60)
    for x, y in rows():
        model.learn_one(x, y)
    assert learner.predict_one({"f0": 1.0}) is None
    with pytest.raises(ValueError, match="max_features is 6"):
        model.learn_one({"more": 1.0}, True)
    for wrong in (budgetron.Forgetron(), river.SecondOrderRegressor(), model, None):
        with pytest.raises(ValueError, match=r"must be one of budgetron.river, like Forgetron\(\)"):
            river.ConformalClassifier(wrong)
    for wrong in (river.Forgetron(), small(river.ConformalRegressor), None):
        with pytest.raises(
            ValueError, match=r"must be one of budgetron.river, like SecondOrderRegressor\(\)"
        ):
            river.ConformalRegressor(wrong)
    with pytest.raises(ValueError, match="coverage"):
        river.ConformalClassifier(learner, 1.5)
    good = model.to_parts()
    for change in (
        {"model": estimator_of(river.ConformalClassifier(river.Forgetron(19), 0.8, window=60))},
        {"model": estimator_of(river.ConformalClassifier(river.Projectron(20), 0.8, window=60))},
        {"model": estimator_of(river.ConformalClassifier(learner, 0.9, window=60))},
    ):
        with pytest.raises(ValueError, match="should be"):
            river.ConformalClassifier.from_parts(
                {"learner": learner, "coverage": 0.8, "step": 0.01, "window": 60}, **good | change
            )
