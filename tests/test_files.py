"""Models in files: exact, whole or not at all, and safe whatever the bytes."""

import copy
import io
import json
import os
import pickle
import re
import tempfile
import tracemalloc
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pytest
import skops.io
from cases import CASES, stream
from fuzz_files import npy, pack, unpack
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_linear import CASES as LINEAR

import budgetron
from budgetron import ModelFileError, experts, files, linear
from budgetron._persistence import archive
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier

DATA = Path(__file__).parent / "data"

KERNELS = ["linear", "poly", "laplacian", "allsubsets", "normalized poly", "normalized linear"]


def converted(model):
    return {
        f"averaged {type(model).__name__}": AveragedClassifier(model),
        f"penalized {type(model).__name__}": PenalizedRiskClassifier(model),
    }


def learners():
    yield from ((label, case.model()) for label, case in CASES.items())
    yield from ((f"forgetron {kernel}", CASES["forgetron self-tuned"].model(kernel)) for kernel in KERNELS)
    yield from ((f"linear {label}", cls(**parameters)) for label, (cls, _, parameters) in LINEAR.items())
    yield "linear voted majority", linear.VotedPerceptron("majority")
    yield "voted majority", budgetron.VotedKernelPerceptron("majority", gamma=0.5)
    for model in (
        budgetron.Forgetron(4, gamma=0.5),
        budgetron.RandomizedBudgetPerceptron(4, gamma=0.5, random_state=1),
        budgetron.ProjectronPlusPlus(gamma=0.5, budget=9),
        budgetron.KernelPerceptron(),
        linear.OnlineSVM(eta=0.9),
        linear.Winnow(balanced=True),
        linear.AROW(),
        linear.AROW(covariance="diagonal"),
    ):
        yield from converted(model).items()
    for combine in ("exponential", "majority", "randomized"):
        inner = [budgetron.Forgetron(5), linear.AROW(), AveragedClassifier(linear.Perceptron())]
        yield f"experts {combine}", experts.ExpertClassifier(inner, combine, random_state=0)


LEARNERS = dict(learners())


def test_every_class_is_here():
    kinds = {type(model) for model in LEARNERS.values()}
    assert kinds >= {*budgetron.learners(), *linear.learners()}
    assert kinds >= {AveragedClassifier, PenalizedRiskClassifier, experts.ExpertClassifier}


def copy_of(label):
    """A new one, for those above must stay as they are."""
    return dict(learners())[label]


def go_on(model, X, y):
    """What a model does with more rounds, as numbers."""
    if isinstance(model, experts.ExpertClassifier):
        trace, ledger = model.progressive_fit(X, y), {}
    else:
        trace = model.progressive_fit(X, y, ledger=True)
        ledger = trace.ledger
    return [trace.margins, trace.mistakes, trace.support_sizes, *ledger.values(), model.decision_function(X)]


def all_of(model):
    """Every number of a model."""
    found = [
        getattr(model, name)
        for name in dir(model)
        if name.endswith("_") and not name.endswith("__") and hasattr(model, name)
    ]
    return [value for value in found if isinstance(value, int | float | np.ndarray)]


def assert_same(left, right):
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tolist() == other.tolist() or one.tobytes() == other.tobytes()


def three_classes(y):
    y = y.copy()
    y[::5] = 2.0
    return y


def there_and_back(model, tmp_path, **options):
    path = tmp_path / "model.budgetron"
    budgetron.save(model, path, **options)
    return budgetron.load(path)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", LEARNERS)
def test_going_on_is_as_if_never_stopped(label, dtype, tmp_path):
    X, y = stream("nasty" if "linear" in label else "random", 150)
    X = X.astype(dtype)
    model = copy_of(label).partial_fit(X[:70], y[:70], classes=[-1, 1])
    loaded = there_and_back(model, tmp_path)
    assert type(loaded) is type(model)
    assert_same(all_of(loaded), all_of(model))
    if not isinstance(model, experts.ExpertClassifier):
        assert loaded.nbytes_ == model.nbytes_
        for t in range(70, 75):
            assert_same([loaded.play(X[t], y[t])], [model.play(X[t], y[t])])
    assert_same(go_on(loaded, X[75:], y[75:]), go_on(model, X[75:], y[75:]))
    assert_same(all_of(loaded), all_of(model))


def by_pickle(model, tmp_path):
    return pickle.loads(pickle.dumps(model))


def by_joblib(model, tmp_path):
    joblib.dump(model, tmp_path / "model.joblib")
    return joblib.load(tmp_path / "model.joblib")


def by_deepcopy(model, tmp_path):
    return copy.deepcopy(model)


def by_skops(model, tmp_path):
    """Its types to trust are estimators: no compiled class needs to be."""
    data = skops.io.dumps(model)
    types = skops.io.get_untrusted_types(data=data)
    assert not [name for name in types if "_core" in name or "Rule" in name]
    return skops.io.loads(data, trusted=types)


@pytest.mark.parametrize("way", [by_pickle, by_joblib, by_deepcopy, by_skops])
@pytest.mark.parametrize("label", LEARNERS)
def test_other_ways_to_keep_a_model(label, way, tmp_path):
    X, y = stream("nasty" if "linear" in label else "random", 100)
    model = copy_of(label).partial_fit(X[:50], y[:50], classes=[-1, 1])
    other = way(model, tmp_path)
    assert_same(all_of(other), all_of(model))
    if isinstance(model, AveragedClassifier | PenalizedRiskClassifier):
        assert other._learners is other.learner_._learners
    expected = go_on(model, X[50:], y[50:])  # what is shared with the other would change it too
    assert_same(go_on(other, X[50:], y[50:]), expected)


@pytest.mark.parametrize(
    ("learner", "path", "value", "message"),
    [
        (budgetron.Forgetron(4), ("supports", "order"), 99, "order of the slab should name each slot once"),
        (
            budgetron.Forgetron(4),
            ("supports", "own"),
            1e300,
            "self values of the slab are not those of its rows",
        ),
        (
            budgetron.Projectron(),
            ("supports", "square"),
            9.0,
            "squares of the slab are not those of its rows",
        ),
        (budgetron.Projectron(), ("projection", "factor"), 1e5, "the factor should be that of the supports"),
        (budgetron.SecondOrderProjectron(4), ("gaussian", "sigma"), -0.5, "variances of the Gaussian"),
    ],
)
def test_a_damaged_state_is_refused(learner, path, value, message):
    """What skops or anything else gives back is checked before the core believes it."""
    model = clone(learner).fit(*stream("random", 30))
    state = copy.deepcopy(model.__getstate__())
    node = state["_learners"]["states"][0]
    for name in path:
        node = node[name]
    node[0] = value
    with pytest.raises(ValueError, match=message):
        clone(learner).__setstate__(state)


def test_a_covariance_that_cannot_be_is_refused():
    model = budgetron.SecondOrderProjectron(4).fit(*stream("random", 30))
    state = copy.deepcopy(model.__getstate__())
    state["_learners"]["states"][0]["gaussian"]["sigma"][1] = 1.5  # between the first two coordinates
    with pytest.raises(ValueError, match="covariances should be what variances allow"):
        budgetron.SecondOrderProjectron().__setstate__(state)


SOME = ["forgetron greedy", "random modified", "projectron", "voted", "linear winnow", "linear arow"]
SOME += [label for label in LEARNERS if label.split()[0] in ("experts", "averaged", "penalized")]


@pytest.mark.parametrize("label", SOME)
def test_three_classes(label, tmp_path):
    X, y = stream("random", 120)
    y = three_classes(y)
    model = copy_of(label).partial_fit(X[:70], y[:70], classes=[-1, 1, 2])
    loaded = there_and_back(model, tmp_path)
    assert_same(go_on(loaded, X[70:], y[70:]), go_on(model, X[70:], y[70:]))
    assert_same(all_of(loaded), all_of(model))


@pytest.mark.parametrize("label", LEARNERS)
def test_one_that_has_not_learned(label, tmp_path):
    X, y = stream("random", 60)
    model = copy_of(label)
    loaded = there_and_back(model, tmp_path)
    assert repr(loaded) == repr(model)
    assert not hasattr(loaded, "classes_")
    assert_same(go_on(loaded, X, y), go_on(model, X, y))


@pytest.mark.parametrize(
    "labels",
    [[0, 7], [False, True], [1.0, 3.0], ["no", "yes ✓"], ["a", "b", "c"], np.array(["a", "b"], object)],
)
def test_labels(labels, tmp_path):
    X, y = stream("random", 60)
    y = np.asarray(labels)[(np.arange(60) * 7 + (y > 0)) % len(labels)]
    model = budgetron.Forgetron(5).fit(X, y)
    loaded = there_and_back(model, tmp_path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    loaded.play(X[0], y[0])
    assert_same([loaded.play(X[1], y[1])], [(model.play(X[0], y[0]), model.play(X[1], y[1]))[1]])


def test_names_of_features(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = stream("random", 60)
    frame = pandas.DataFrame(X, columns=["age", "größe", "x"])
    for model in (budgetron.Forgetron(5), AveragedClassifier(linear.AROW())):
        loaded = there_and_back(model.fit(frame, y), tmp_path)
        assert loaded.feature_names_in_.dtype == object
        assert loaded.feature_names_in_.tolist() == ["age", "größe", "x"]
        with pytest.raises(ValueError, match="feature names"):
            loaded.predict(frame[["x", "age", "größe"]])


def test_sparse_rows(tmp_path):
    X, y = stream("sparse", 120)
    for model in (linear.AROW(covariance="diagonal"), budgetron.Projectron(eta=0.4, gamma=0.5)):
        model.partial_fit(csr_array(X[:60]), y[:60], classes=[-1, 1])
        loaded = there_and_back(model, tmp_path)
        assert_same(go_on(loaded, csr_array(X[60:]), y[60:]), go_on(model, csr_array(X[60:]), y[60:]))


def test_what_is_shared_stays_shared(tmp_path):
    X, y = stream("random", 60)
    random = np.random.RandomState(3)
    inner = budgetron.RandomizedBudgetPerceptron(3, random_state=random)
    model = there_and_back(experts.ExpertClassifier([inner, inner], random_state=random).fit(X, y), tmp_path)
    assert model.learners[0] is model.learners[1] is model.started_with_["learners"][0]
    assert model.learners[0].random_state is model.random_state
    model = there_and_back(budgetron.Forgetron(3).fit(X, three_classes(y)), tmp_path)
    for learner in model._learners:
        assert learner.rule.supports is learner.supports
        assert learner.kernel is learner.supports.kernel is model._learners[0].kernel
    model = there_and_back(AveragedClassifier(budgetron.Forgetron(3)).fit(X, y), tmp_path)
    assert model._learners is model.learner_._learners
    assert model.learner is model._started_with["learner"]


def test_parameters_that_changed_meanwhile(tmp_path):
    X, y = stream("random", 60)
    model = there_and_back(budgetron.Forgetron(3).fit(X, y).set_params(budget=50), tmp_path)
    assert model.budget == 50
    assert model.n_support_ == 3
    with pytest.raises(ValueError, match="budget changed"):
        model.partial_fit(X, y)


@pytest.mark.parametrize(
    "algorithm",
    [
        experts.Halving(),
        experts.WeightedMajority(0.3),
        experts.RandomizedWeightedMajority(random_state=1),
        experts.ExponentialWeights("doubling"),
        experts.ExponentialWeights(0.3, "squared"),
        experts.Prod(),
        experts.PolynomialWeights(),
    ],
    ids=repr,
)
def test_expert_algorithms(algorithm, tmp_path):
    rng = np.random.default_rng(0)
    advice, outcomes = rng.integers(0, 2, (90, 5)).astype(float), rng.integers(0, 2, 90).astype(float)
    algorithm.play(advice[:50], outcomes[:50])
    loaded = there_and_back(algorithm, tmp_path)
    left, right = (one.play(advice[50:], outcomes[50:]) for one in (loaded, algorithm))
    assert_same(
        [left.predictions, left.losses, left.weights], [right.predictions, right.losses, right.weights]
    )


def test_functions_and_strangers_are_refused(tmp_path):
    X, y = stream("random", 30)
    path = tmp_path / "model.budgetron"
    for kernel in ("callable", "normalized callable"):
        with pytest.raises(
            TypeError, match=r"kernel of this Forgetron is a Python function.*pickle or joblib"
        ):
            budgetron.save(CASES["forgetron basic"].model(kernel).fit(X, y), path)
    for stranger in (SGDClassifier(), make_pipeline(StandardScaler(), linear.AROW())):
        with pytest.raises(
            TypeError, match=rf"{type(stranger).__name__} is not a class of Budgetron.*pickle"
        ):
            budgetron.save(experts.ExpertClassifier([linear.AROW(), stranger]), path)
        with pytest.raises(TypeError, match=r"not a class of Budgetron.*pickle"):
            budgetron.save(stranger, path)
    with pytest.raises(TypeError, match=r"loss of this experts\.Prod is a Python function"):
        budgetron.save(experts.Prod(loss=lambda a, b: abs(a - b)), path)
    model = budgetron.Forgetron()
    model.note = "mine"
    with pytest.raises(TypeError, match="no place for note"):
        budgetron.save(model, path)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- extras


def test_extras(tmp_path):
    path = tmp_path / "model.budgetron"
    extras = {
        "text": "ä",
        "numbers": [1, 2.5, None, True, float("-inf")],
        "deep": {"#": {"table": np.arange(6, dtype=np.int16).reshape(2, 3)}, "words": np.array(["a", "bcd"])},
        "order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "scalar": np.float32(0.5),
        "pair": (1, "b"),
        "nothing": {},
        "zero": np.zeros((0, 3)),
        "big endian": np.arange(3, dtype=">i4"),
    }
    budgetron.save(budgetron.Stoptron(), path, extras=extras)
    found = files.load_extras(path)
    assert list(found) == list(extras)
    for name in ("text", "numbers", "pair", "nothing"):
        assert found[name] == extras[name]
    assert found["scalar"] == 0.5
    for left, right in (
        (found["deep"]["#"]["table"], extras["deep"]["#"]["table"]),
        (found["deep"]["words"], extras["deep"]["words"]),
        (found["order"], extras["order"]),
        (found["zero"], extras["zero"]),
    ):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    assert found["big endian"].tolist() == [0, 1, 2]
    assert repr(budgetron.load(path)) == "Stoptron()"
    budgetron.save(budgetron.Stoptron(), str(path))
    assert files.load_extras(str(path)) is None
    for bad in (
        {(1, 2): 3},
        {"a": object()},
        {"a": np.array([object()])},
        {"a": np.zeros(2, "M8[s]")},
        {"a": len},
    ):
        with pytest.raises(TypeError, match="the extras"):
            budgetron.save(budgetron.Stoptron(), path, extras=bad)
    with pytest.raises(TypeError, match="extras must be a dict"):
        budgetron.save(budgetron.Stoptron(), path, extras=[1])


# ---------------------------------------------------------------------- whole or not at all


def test_the_same_model_gives_the_same_bytes(tmp_path):
    X, y = stream("random", 60)
    model = budgetron.Forgetron(5).fit(X, y)
    budgetron.save(model, tmp_path / "a")
    budgetron.save(budgetron.load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_failing_write_leaves_the_old_file(step, tmp_path, monkeypatch):
    path = tmp_path / "model.budgetron"
    budgetron.save(budgetron.Stoptron(7), path)

    def fail(*args, **options):
        raise OSError(28, "No space left on device")

    if step == "write":
        monkeypatch.setattr(archive.npy, "write_array", fail)
    else:
        monkeypatch.setattr(os, step, fail)
    X, y = stream("random", 30)
    with pytest.raises(OSError, match="No space left"):
        budgetron.save(budgetron.Stoptron(9).fit(X, y), path)
    monkeypatch.undo()
    assert repr(budgetron.load(path)) == "Stoptron(budget=7)"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"cannot create a file in this folder.*missing"):
        budgetron.save(budgetron.Stoptron(), tmp_path / "missing" / "model")

    def refuse(*args):
        raise PermissionError(13, "Permission denied", args[0])

    monkeypatch.setattr(os, "open", refuse)  # root may write everywhere
    with pytest.raises(PermissionError, match="cannot create a file in this folder: Permission denied"):
        budgetron.save(budgetron.Stoptron(), tmp_path / "model")


def test_links_are_followed_and_others_may_read(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "model")
    budgetron.save(budgetron.Stoptron(), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "real" / "model").stat().st_mode & 0o777 == 0o666 & ~mask
    with pytest.raises(IsADirectoryError):
        budgetron.save(budgetron.Stoptron(), tmp_path / "real")
    assert [one.name for one in (tmp_path / "real").iterdir()] == ["model"]


# ---------------------------------------------------------------------- files not to be trusted


def header(text, data=b""):
    text = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The bytes of a sound file."""
    X, y = stream("random", 40)
    path = tmp_path_factory.mktemp("original") / "model.budgetron"
    budgetron.save(budgetron.Forgetron(4, "greedy", gamma=0.5).fit(X, y), path, extras={"name": "x"})
    return path.read_bytes()


def test_every_truncation(tmp_path):
    path = tmp_path / "short"
    budgetron.save(budgetron.Forgetron(), path)
    data = path.read_bytes()
    for n in range(len(data)):
        path.write_bytes(data[:n])
        with pytest.raises(ModelFileError, match=re.escape(str(path))):
            budgetron.load(path)


def hostile():
    X, y = stream("random", 40)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        budgetron.save(budgetron.Forgetron(4).fit(X, y), path)
        data = path.read_bytes()
    head, arrays = unpack(data)
    first = head["model"]["learned"]["classes_"]["number"]

    def with_array(member, i=first):
        return pack(head, [member if j == i else one for j, one in enumerate(arrays)])

    def with_learned(**learned):
        model = head["model"] | {"learned": head["model"]["learned"] | learned}
        return pack(head | {"model": model}, arrays)

    def with_budget(budget):
        model = json.loads(json.dumps(head["model"]))
        model["parameters"]["budget"] = model["learned"]["_started_with"]["budget"] = budget
        return pack(head | {"model": model}, arrays)

    objects = io.BytesIO()
    np.lib.format.write_array(objects, np.array([print, len], object), allow_pickle=True)
    described = "{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}"
    yield "nothing", b"", "not a model file"
    yield "a pickle", b"\x80\x04K\x01.", "not a model file"
    yield "another zip", pack([1], []), "not a model file"
    yield "no head", pack_without_head(), "no model.json"
    yield "objects", with_array(objects.getvalue()), "is of object"
    yield "a record", with_array(npy(np.zeros(2, [("a", "f8")]))), "array"
    yield "void", with_array(npy(np.zeros(2, "V8"))), "array"
    yield "absurd shape", with_array(header(described.format("'<f8'", False, (2**40, 2**20)))), "does not fit"
    yield (
        "overflowing shape",
        with_array(header(described.format("'<f8'", False, (2**62, 4)))),
        "does not fit",
    )
    yield "negative shape", with_array(header(described.format("'<f8'", False, (-1, -1)), b"x" * 8)), "shape"
    yield "empty text", with_array(header(described.format("'<U0'", False, (2**40,)))), "is of"
    yield "fortran", with_array(header(described.format("'<f8'", True, (2, 2)), bytes(32))), "shape"
    yield "a long header", with_array(header("(" * 60000)), "valid"
    yield "deep header", with_array(header("[" * 9000)), "valid"
    yield "compressed", pack(head, arrays, compression=zipfile.ZIP_DEFLATED), "not be compressed"
    yield "outside", pack(head, arrays, [("../../evil", b"x")]), "missing or unexpected"
    yield "absolute", pack(head, arrays, [("/etc/evil", b"x")]), "missing or unexpected"
    yield "huge budget", with_budget(2**40), "budget"
    yield "large budget", with_budget(2**30), "does not fit"
    yield "monstrous budget", with_budget(10**4000), "valid"
    yield "negative budget", with_budget(-1), "budget"
    yield "many features", with_learned(n_features_in_=2**31 - 1), "rows of the slab"
    yield "code", pack(head | {"model": head["model"] | {"class": "os.system"}}, arrays), "no class"
    yield "a base", pack(head | {"model": head["model"] | {"class": "KernelClassifier"}}, arrays), "no class"
    yield "protocol 0", pack(head | {"protocol": 0}, arrays), "protocol"
    yield "protocol true", pack(head | {"protocol": True}, arrays), "protocol"
    yield "deep", deep(head, arrays), "valid"
    yield "NaN", pack(head | {"extras": {"a": float("nan")}}, arrays), "not a number"
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = pack(head, arrays, [("arrays/0.npy", arrays[0])])
    yield "twice", twice, "twice"
    yield "overlapping", overlapping(data), "valid"


def pack_without_head():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("hello", b"")
    return stream.getvalue()


def overlapping(data):
    """All members point at the first one's bytes, as in archives that are small and unpack to much."""
    at, damaged = data.index(b"PK\1\2"), bytearray(data)
    first = data[at : at + 46]
    while at >= 0:
        damaged[at + 16 : at + 28] = first[16:28]
        damaged[at + 42 : at + 46] = bytes(4)
        at = data.find(b"PK\1\2", at + 4)
    return bytes(damaged)


def deep(head, arrays):
    tables = '{"a":' * 90000 + "1" + "}" * 90000
    text = json.dumps(head | {"extras": None}).replace('"extras": null', f'"extras": {tables}')
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for i, data in enumerate(arrays):
            archive.writestr(f"arrays/{i}.npy", data)
        archive.writestr("model.json", text)
    return stream.getvalue()


def test_hostile_files(tmp_path):
    path = tmp_path / "hostile"
    for what, data, reason in hostile():
        path.write_bytes(data)
        tracemalloc.start()
        with pytest.raises(ModelFileError, match=reason) as caught:
            budgetron.load(path)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert str(path) in str(caught.value), what
        assert most < 2**21 + 60 * len(data), what


def test_a_changed_array_is_noticed(original, tmp_path):
    head, arrays = unpack(original)
    path = tmp_path / "changed"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:  # with a right CRC, but for another array
        for i, data in enumerate(arrays):
            archive.writestr(f"arrays/{i}.npy", npy(np.lib.format.read_array(io.BytesIO(data))[::-1].copy()))
        archive.writestr("model.json", json.dumps(head))
    path.write_bytes(stream.getvalue())
    with pytest.raises(ModelFileError, match="contents of array 0 have changed"):
        budgetron.load(path)


def test_a_generator_that_stands_still(tmp_path):
    X, y = stream("random", 40)
    path = tmp_path / "model"
    budgetron.save(budgetron.RandomizedBudgetPerceptron(3, random_state=0).fit(X, y), path)
    head, arrays = unpack(path.read_bytes())
    head["model"]["learned"]["_learners"]["states"][0]["bits"]["state"] = {"state": 0, "inc": 0}
    path.write_bytes(pack(head, arrays))
    with pytest.raises(ModelFileError, match="generator"):
        budgetron.load(path)


def rewritten(model, path, change):
    """The file of a model with something changed, under right checksums."""
    budgetron.save(model, path)
    head, arrays = unpack(path.read_bytes())
    change(head["model"]["learned"], arrays)
    path.write_bytes(pack(head, arrays))


def test_more_features_than_memory(tmp_path):
    X, y = stream("random", 40)
    wide = csr_array((X[:, 0], np.arange(40), np.arange(41)), shape=(40, 1200))
    path = tmp_path / "model"
    rewritten(
        budgetron.Stoptron(5, gamma=0.5).fit(wide, y),
        path,
        lambda learned, _: learned.update(n_features_in_=2**31 - 1),
    )
    tracemalloc.start()
    model = budgetron.load(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.n_features_in_ == 2**31 - 1
    assert most < 2**21


def test_errors_without_number(tmp_path):
    vote = experts.WeightedMajority()
    vote.play(np.eye(3), np.ones(3))
    path = tmp_path / "model"

    def change(learned, arrays):
        learned["rounds_"] = 2**60
        arrays[learned["_errors"]["number"]] = npy(np.array([2**50, 0, 3]))

    rewritten(vote, path, change)
    assert budgetron.load(path).predict([0, 1, 1]) == 1.0
    assert budgetron.load(path).predict([1, 0, 0]) == 0.0


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (budgetron.Forgetron(), ("coef",)),
        (budgetron.Forgetron(), ("supports", "rows")),
        (linear.AROW(), ("weights",)),
        (linear.AROW(), ("factor",)),
    ],
)
def test_numbers_that_no_round_leaves(model, names, tmp_path):
    X, y = stream("random", 40)
    path = tmp_path / "model"

    def change(learned, arrays):
        place = learned["_learners"]["states"][0]
        for name in names[:-1]:
            place = place[name]
        if names == ("factor",):
            place["factor"] = {"#": "float", "value": "inf"}
        else:
            number = place[names[-1]]["number"]
            values = np.lib.format.read_array(io.BytesIO(arrays[number]))
            values.reshape(-1)[0] = np.nan
            arrays[number] = npy(values)

    rewritten(model.fit(X, y), path, change)
    with pytest.raises(ModelFileError, match=r"should be (finite|moderate)"):
        budgetron.load(path)


def test_coefficients_that_might_overflow_in_one_class_alone(tmp_path):
    X, y = stream("random", 60)
    y = np.where(X[:, 0] > 0.5, 2, y)
    path = tmp_path / "model"

    def change(learned, arrays):
        number = learned["_learners"]["states"][1]["coef"]["number"]
        values = np.lib.format.read_array(io.BytesIO(arrays[number]))
        arrays[number] = npy(np.where(values == 0.0, 0.0, largest))

    largest = 1e91
    rewritten(budgetron.Forgetron(10, gamma=0.5).fit(X, y), path, change)
    with pytest.raises(ModelFileError, match="coefficients should be moderate"):
        budgetron.load(path)
    largest = 1e88  # may be strange, but goes on, in all classes alike
    rewritten(budgetron.Forgetron(10, gamma=0.5).fit(X, y), path, change)
    model = budgetron.load(path).partial_fit(X, y)
    for t in range(20):
        model.play(X[t], y[t])
    assert {learner.rounds for learner in model._learners} == {140}
    budgetron.save(model, path)


def test_parameters_are_no_arrays(original, tmp_path):
    head, arrays = unpack(original)
    head["model"]["parameters"]["eta"] = {"#": "array", "number": len(arrays)}
    path = tmp_path / "model"
    path.write_bytes(pack(head, [*arrays, npy(np.zeros(2))]))
    with pytest.raises(ModelFileError, match="should not be arrays"):
        budgetron.load(path)


def test_a_vote_that_changed_meanwhile(tmp_path):
    X, y = stream("random", 40)
    for vote, other in (("average", "majority"), ("majority", "average")):
        model = linear.VotedPerceptron(vote).fit(X, y)
        said = model.decision_function(X)
        loaded = there_and_back(model.set_params(vote=other), tmp_path)
        assert loaded.decision_function(X).tolist() == said.tolist()


def test_files_of_the_future(original, tmp_path):
    path = tmp_path / "future"
    head, arrays = unpack(original)
    path.write_bytes(pack(head | {"protocol": 5, "version": "9.1", "model": "changed"}, arrays))
    with pytest.raises(
        ModelFileError, match=r"written by budgetron 9\.1 in protocol 5.*up to protocol 4: update"
    ):
        budgetron.load(path)
    with pytest.raises(ModelFileError, match="protocol 4"):
        files.load_extras(path)
    with pytest.raises(FileNotFoundError):
        budgetron.load(tmp_path / "missing")


# ---------------------------------------------------------------------- files of the past


def test_protocol_1():
    path = DATA / "protocol1.budgetron"
    model, extras = budgetron.load(path), files.load_extras(path)
    assert repr(model) == "RandomizedBudgetPerceptron(budget=3, gamma=0.5, random_state=0)"
    assert model.classes_.tolist() == ["no", "yes"]
    assert extras["columns"] == ["a", "b", "c"]
    X = extras["rows"]
    np.testing.assert_allclose(model.decision_function(X), extras["margins"], rtol=1e-12)
    trace = model.progressive_fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    np.testing.assert_allclose(trace.margins, extras["going on"], rtol=1e-9)


def test_protocol_2():
    path = DATA / "protocol2.budgetron"
    model, extras = budgetron.load(path), files.load_extras(path)
    assert repr(model) == "Projectron(eta=0.3, gamma=0.2)"
    assert model._learners[0].supports.sparse  # the non-zeros of rows of 1,200 features
    X = csr_array((extras["values"], extras["features"], extras["starts"]), shape=(60, 1200))
    np.testing.assert_allclose(model.decision_function(X), extras["margins"], rtol=1e-12)
    trace = model.progressive_fit(X, np.where(np.arange(60) % 3 == 0, 1, -1))
    np.testing.assert_allclose(trace.margins, extras["going on"], rtol=1e-9)


def test_protocol_2_without_class_weight():
    path = DATA / "protocol2-linear.budgetron"
    model, extras = budgetron.load(path), files.load_extras(path)
    assert repr(model) == "PassiveAggressive(C=0.5, variant='PA-II')"
    assert model.class_weight is None
    X = extras["rows"]
    np.testing.assert_array_equal(model.decision_function(X), extras["margins"])
    trace = model.progressive_fit(X, np.where(X[:, 0] + X[:, 1] > 0, "yes", "no"))
    np.testing.assert_allclose(trace.margins, extras["going on"], rtol=1e-12)


def test_protocol_3():
    path = DATA / "protocol3.budgetron"
    model, extras = budgetron.load(path), files.load_extras(path)
    assert repr(model) == "CalibratedClassifier(learner=PassiveAggressive(C=0.5, gamma=0.7))"
    assert model.learner.budget is None
    X = extras["rows"]
    np.testing.assert_allclose(model.decision_function(X), extras["odds"], rtol=1e-12)
    trace = model.progressive_fit(X, np.where(X[:, 0] * X[:, 1] > 0, "yes", "no"))
    np.testing.assert_allclose(trace.margins, extras["going on"], rtol=1e-9)
