"""The river face: river's own checks, and ours."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from river import checks, datasets, drift, evaluate, metrics, preprocessing

import budgetron.river
from budgetron import river
from budgetron.river import linear

FACES = [getattr(river, name) for name in river.__all__ if name not in ("RiverClassifier", "linear")]
FACES += [getattr(linear, name) for name in linear.__all__]
names = {"ids": lambda cls: f"{cls.__module__.removeprefix('budgetron.')}.{cls.__name__}"}

# Checks that a face does not pass, with the reason.
SKIPPED = {}


def all_checks():
    for cls in FACES:
        for params in cls._unit_test_params():
            for check in checks.yield_checks(cls(**params)):
                yield pytest.param(
                    cls(**params), check, id=f"{cls.__module__}.{cls.__name__}-{check.__name__}"
                )


@pytest.mark.parametrize(("model", "check"), list(all_checks()))
def test_rivers_checks(model, check):
    if check.__name__ in SKIPPED:
        pytest.skip(SKIPPED[check.__name__])
    check(copy.deepcopy(model))


def small(cls, **more):
    params = {"budget": 20} if "budget" in cls._signature.parameters else {}
    params |= {"memory": "256kB"} if "memory" in cls._signature.parameters else {}
    params |= {"seed": 1} if "seed" in cls._signature.parameters else {}
    return cls(**params | more)


def rows(n=300):
    """Dicts whose features come and go, and labels of which the third comes late."""
    rng = np.random.default_rng(0)
    for t in range(n):
        x = {
            f"f{j}": float(v) for j, v in enumerate(rng.normal(size=6)) if rng.random() < 0.8 and 40 * j <= t
        }
        total = sum(x.values())
        yield x, "late" if t > 120 and total > 1.5 else total > 0


@pytest.mark.parametrize("cls", FACES, **names)
@pytest.mark.parametrize("batch", [1, 7, 300])
def test_many_is_the_loop(cls, batch):
    one, many = small(cls), small(cls)
    stream = list(rows())
    for x, y in stream:
        one.learn_one(x, y)
    for start in range(0, 300, batch):
        part = stream[start : start + batch]
        many.learn_many(pd.DataFrame([x for x, _ in part]), pd.Series([y for _, y in part], dtype=object))
    assert one._labels == many._labels
    assert (one._model.rounds_, one._model.mistakes_) == (many._model.rounds_, many._model.mistakes_)
    X = pd.DataFrame([x for x, _ in stream])
    assert one.predict_many(X).tolist() == [many.predict_one(x) for x, _ in stream]
    P = one.predict_proba_many(X)
    for i, (x, _) in enumerate(stream[:50]):
        assert many.predict_proba_one(x) == pytest.approx(P.iloc[i].to_dict(), abs=1e-8)


@pytest.mark.parametrize("cls", FACES, **names)
def test_it_is_the_other_face(cls):
    stream = [({j: float(v) for j, v in enumerate(x)}, y) for x, y in zip(*blobs(), strict=True)]
    model = small(cls)
    X, y = blobs()
    other = copy.deepcopy(model._model)
    for x, label in stream:
        model.learn_one(x, label)
    other.fit(X, y)
    assert (model._model.rounds_, model._model.mistakes_) == (other.rounds_, other.mistakes_)
    predicted = [model.predict_one(x) for x, _ in stream]
    assert predicted == other.predict(X).tolist()


def blobs(n=200):
    rng = np.random.default_rng(1)
    y = np.append(0, rng.integers(0, 2, n - 1))  # the first label is the lower one
    return rng.normal(size=(n, 4)) + 0.8 * y[:, None], y


# How many supports BudgetClassifier's memory holds depends on the features that there are.
@pytest.mark.parametrize("cls", [cls for cls in FACES if cls is not river.BudgetClassifier], **names)
def test_features_that_come_late_were_zero_before(cls):
    width = {"gamma": 0.2} if "gamma" in cls._signature.parameters else {}
    late, early = small(cls, **width), small(cls, **width)
    stream = list(rows())
    for x, y in stream:
        late.learn_one(x, y)
        early.learn_one({f"f{j}": x.get(f"f{j}", 0.0) for j in range(6)}, y)
    ours, theirs = (
        model._margins_of(np.array([model._row(x) for x, _ in stream])) for model in (late, early)
    )
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9 * max(1.0, np.abs(theirs).max()))
    if (
        cls is not linear.Winnow
    ):  # its weights sum to 1 over the features known, so that early margins were larger
        assert late._model.mistakes_ == early._model.mistakes_
        np.testing.assert_allclose(late._sigmoids, early._sigmoids, rtol=1e-6)


@pytest.mark.parametrize("cls", FACES, **names)
def test_exact_bytes(cls):
    model = small(cls)
    in_memory = "memory" in cls._signature.parameters
    if not in_memory and "budget" not in cls._signature.parameters and not cls.__module__.endswith("linear"):
        pytest.skip("no budget: it grows with its updates, and says so")
    stream = list(rows(900))
    sizes = []
    for t, (x, y) in enumerate(stream):
        model.learn_one(x, y)
        if t >= 300:
            sizes.append(model.nbytes_)
    if in_memory:  # it moves within its limit
        assert max(sizes) <= (256 << 10) + model._sigmoids.nbytes
        return
    keeps_all = cls is linear.VotedPerceptron and model.vote == "majority"
    assert keeps_all or len(set(sizes)) == 1
    kept = [array for learner in model._model._learners for array in _arrays(learner)]
    assert model.nbytes_ == sum(array.nbytes for array in kept) + model._sigmoids.nbytes


def _arrays(learner):
    if not hasattr(learner, "rule"):
        return [learner.row, learner.places, learner.wide, *learner.arrays().values()]
    return [
        learner.row,
        learner.values,
        learner.wide,
        *learner.block.arrays(),
        *learner.supports.arrays().values(),
        *learner.rule.arrays().values(),
    ]


@pytest.mark.parametrize("cls", FACES, **names)
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


@pytest.mark.parametrize("cls", FACES, **names)
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


@pytest.mark.parametrize("cls", FACES, **names)
def test_saved_and_loaded(cls, tmp_path):
    stream = list(rows())
    model = small(cls)
    for cut in (0, 1, 100, 250):
        for x, y in stream[model._model.rounds_ if model._is_begun() else 0 : cut]:
            model.learn_one(x, y)
        budgetron.save(model, tmp_path / "model")
        loaded = budgetron.load(tmp_path / "model")
        assert repr(loaded) == repr(model)
        one, other = copy.deepcopy(model), loaded
        for x, y in stream[cut:]:
            one.learn_one(x, y)
            other.learn_one(x, y)
        assert one.nbytes_ == other.nbytes_
        assert [one.predict_proba_one(x) for x, _ in stream] == [
            other.predict_proba_one(x) for x, _ in stream
        ]


def test_files_that_do_not_fit(tmp_path):
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
        {"model": small(river.Forgetron, budget=3)._model},
        {"model": small(linear.AROW)._model},
    ):
        with pytest.raises(ValueError, match="should be"):
            small(river.Forgetron)._restore_parts(**good | change)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ({"f0": np.nan}, True, "'f0' must be a finite number"),
        ({"f0": "red"}, True, "encode text"),
        ({"new": np.inf}, True, "'new' must be a finite number"),
        ({"new": 1.0, "newer": None}, "newest", "'newer' must be a finite number"),
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
        with pytest.raises(ValueError, match=r"encode it|finite|a label for each row"):
            model.learn_many(X, pd.Series(y))
        assert pickle.dumps(model) == before


@pytest.mark.parametrize("cls", FACES, **names)
@pytest.mark.parametrize("gap", [None, float("nan"), pd.NA])
def test_a_gap_in_the_labels_is_no_class(cls, gap):
    model = small(cls)
    X, y = pd.DataFrame({"f0": [1.0, 2.0, -1.0]}), pd.Series([True, gap, False], dtype=object)
    with pytest.raises(ValueError, match="every row needs a label; that of row 1 is"):
        model.learn_many(X, y)
    assert model._labels == []
    assert model.predict_one({"f0": 1.0}) is None
    model.learn_many(X[y.notna()], y.dropna())
    assert model._labels == [True, False]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"gamma": "scale"}, "looks at a whole batch"),
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


@pytest.mark.parametrize("cls", FACES, **names)
def test_in_a_pipeline(cls):
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


def test_every_learner_has_a_face():
    assert len(FACES) == len(budgetron.learners()) + len(budgetron.linear.learners()) + 1  # BudgetClassifier
    assert all(cls.__doc__ for cls in FACES)
