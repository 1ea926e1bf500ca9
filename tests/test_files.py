"""Model files: saving and loading is exact, writing is atomic, and damaged or hostile files are refused."""

import copy
import io
import json
import os
import pickle
import re
import stat
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
from sklearn.preprocessing import StandardScaler
from test_linear import CASES as LINEAR

import budgetron
from budgetron import ModelFileError, experts, files, linear
from budgetron._base.access import hypotheses_of
from budgetron._persistence import container
from budgetron._util.atomic import atomic_write
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
    yield "bsgd merging", budgetron.BSGD(10, "merging", 0.05, gamma=0.5)
    yield "fogd", budgetron.FOGD(10, gamma=0.5, random_state=1)
    yield "fogd logistic", budgetron.FOGD(10, decay=0.01, loss="logistic", gamma=0.5, random_state=1)
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


def test_every_class_is_covered():
    kinds = {type(model) for model in LEARNERS.values()}
    assert kinds >= {*budgetron.learners(), *linear.learners()}
    assert kinds >= {AveragedClassifier, PenalizedRiskClassifier, experts.ExpertClassifier}


def copy_of(label):
    """Return a new learner, so that the one in LEARNERS stays unfitted."""
    return dict(learners())[label]


def continued(model, X, y):
    """Play more rounds and return all resulting numbers."""
    if isinstance(model, experts.ExpertClassifier):
        trace, ledger = model.progressive_fit(X, y), {}
    else:
        trace = model.progressive_fit(X, y, ledger=True)
        ledger = trace.ledger
    return [trace.margins, trace.mistakes, trace.support_sizes, *ledger.values(), model.decision_function(X)]


def numbers_of(model):
    """Return all public numbers and arrays of a fitted model."""
    values = [
        getattr(model, name)
        for name in dir(model)
        if name.endswith("_") and not name.endswith("__") and hasattr(model, name)
    ]
    return [value for value in values if isinstance(value, int | float | np.ndarray)]


def assert_same(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tolist() == b.tolist() or a.tobytes() == b.tobytes()


def three_classes(y):
    y = y.copy()
    y[::5] = 2.0
    return y


def saved_and_loaded(model, tmp_path, **options):
    """Save a model, and return the model loaded from the file."""
    path = tmp_path / "model.budgetron"
    budgetron.save(model, path, **options)
    return budgetron.load(path)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", LEARNERS)
def test_a_loaded_model_continues_exactly(label, dtype, tmp_path):
    X, y = stream("nasty" if "linear" in label else "random", 150)
    X = X.astype(dtype)
    model = copy_of(label).partial_fit(X[:70], y[:70], classes=[-1, 1])
    loaded = saved_and_loaded(model, tmp_path)
    assert type(loaded) is type(model)
    assert_same(numbers_of(loaded), numbers_of(model))
    if not isinstance(model, experts.ExpertClassifier):
        assert loaded.nbytes_ == model.nbytes_
        for t in range(70, 75):
            assert_same([loaded.play(X[t], y[t])], [model.play(X[t], y[t])])
    assert_same(continued(loaded, X[75:], y[75:]), continued(model, X[75:], y[75:]))
    assert_same(numbers_of(loaded), numbers_of(model))


def by_pickle(model, tmp_path):
    return pickle.loads(pickle.dumps(model))


def by_joblib(model, tmp_path):
    joblib.dump(model, tmp_path / "model.joblib")
    return joblib.load(tmp_path / "model.joblib")


def by_deepcopy(model, tmp_path):
    return copy.deepcopy(model)


def by_skops(model, tmp_path):
    """Copy with skops. Only estimators must be trusted, no compiled class."""
    data = skops.io.dumps(model)
    types = skops.io.get_untrusted_types(data=data)
    assert not [name for name in types if "_core" in name or "Rule" in name]
    return skops.io.loads(data, trusted=types)


@pytest.mark.parametrize("copy_model", [by_pickle, by_joblib, by_deepcopy, by_skops])
@pytest.mark.parametrize("label", LEARNERS)
def test_pickle_joblib_deepcopy_and_skops(label, copy_model, tmp_path):
    X, y = stream("nasty" if "linear" in label else "random", 100)
    model = copy_of(label).partial_fit(X[:50], y[:50], classes=[-1, 1])
    other = copy_model(model, tmp_path)
    assert_same(numbers_of(other), numbers_of(model))
    if isinstance(model, AveragedClassifier | PenalizedRiskClassifier):
        assert hypotheses_of(other) is hypotheses_of(other.learner_)
    # If the copy shared state with the model, this would change the copy.
    expected = continued(model, X[50:], y[50:])
    assert_same(continued(other, X[50:], y[50:]), expected)


@pytest.mark.parametrize(
    ("learner", "path", "value", "message"),
    [
        (budgetron.Forgetron(4), ("supports", "order"), 99, "the slab: the order should name each slot once"),
        (
            budgetron.Forgetron(4),
            ("supports", "own"),
            1e300,
            "squares or self values are not those of the rows",
        ),
        (
            budgetron.Projectron(),
            ("supports", "square"),
            9.0,
            "squares or self values are not those of the rows",
        ),
        (budgetron.Projectron(), ("projection", "factor"), 1e5, "the factor should be that of the supports"),
        (budgetron.SecondOrderProjectron(4), ("gaussian", "sigma"), -0.5, "variances of the Gaussian"),
    ],
)
def test_an_inconsistent_state_is_refused(learner, path, value, message):
    """A state from skops, or from any other source, is checked before the core uses it."""
    model = clone(learner).fit(*stream("random", 30))
    state = copy.deepcopy(model.__getstate__())
    node = state["_learners"]["states"][0]
    for name in path:
        node = node[name]
    node[0] = value
    with pytest.raises(ValueError, match=message):
        clone(learner).__setstate__(state)


def test_an_impossible_covariance_is_refused():
    model = budgetron.SecondOrderProjectron(4).fit(*stream("random", 30))
    state = copy.deepcopy(model.__getstate__())
    # The covariance of the first two coordinates
    state["_learners"]["states"][0]["gaussian"]["sigma"][1] = 1.5
    with pytest.raises(ValueError, match="covariances should be at most the product"):
        budgetron.SecondOrderProjectron().__setstate__(state)


SELECTED = ["forgetron greedy", "random modified", "projectron", "voted", "linear winnow", "linear arow"]
SELECTED += [label for label in LEARNERS if label.split()[0] in ("experts", "averaged", "penalized")]


@pytest.mark.parametrize("label", SELECTED)
def test_three_classes(label, tmp_path):
    X, y = stream("random", 120)
    y = three_classes(y)
    model = copy_of(label).partial_fit(X[:70], y[:70], classes=[-1, 1, 2])
    loaded = saved_and_loaded(model, tmp_path)
    assert_same(continued(loaded, X[70:], y[70:]), continued(model, X[70:], y[70:]))
    assert_same(numbers_of(loaded), numbers_of(model))


@pytest.mark.parametrize("label", LEARNERS)
def test_a_model_before_the_first_round(label, tmp_path):
    X, y = stream("random", 60)
    model = copy_of(label)
    loaded = saved_and_loaded(model, tmp_path)
    assert repr(loaded) == repr(model)
    assert not hasattr(loaded, "classes_")
    assert_same(continued(loaded, X, y), continued(model, X, y))


@pytest.mark.parametrize(
    "labels",
    [[0, 7], [False, True], [1.0, 3.0], ["no", "yes ✓"], ["a", "b", "c"], np.array(["a", "b"], object)],
)
def test_labels_keep_their_type(labels, tmp_path):
    X, y = stream("random", 60)
    y = np.asarray(labels)[(np.arange(60) * 7 + (y > 0)) % len(labels)]
    model = budgetron.Forgetron(5).fit(X, y)
    loaded = saved_and_loaded(model, tmp_path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    loaded.play(X[0], y[0])
    assert_same([loaded.play(X[1], y[1])], [(model.play(X[0], y[0]), model.play(X[1], y[1]))[1]])


def test_feature_names_are_saved(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = stream("random", 60)
    frame = pandas.DataFrame(X, columns=["age", "größe", "x"])
    for model in (budgetron.Forgetron(5), AveragedClassifier(linear.AROW())):
        loaded = saved_and_loaded(model.fit(frame, y), tmp_path)
        assert loaded.feature_names_in_.dtype == object
        assert loaded.feature_names_in_.tolist() == ["age", "größe", "x"]
        with pytest.raises(ValueError, match="feature names"):
            loaded.predict(frame[["x", "age", "größe"]])


def test_sparse_rows(tmp_path):
    X, y = stream("sparse", 120)
    for model in (linear.AROW(covariance="diagonal"), budgetron.Projectron(eta=0.4, gamma=0.5)):
        model.partial_fit(csr_array(X[:60]), y[:60], classes=[-1, 1])
        loaded = saved_and_loaded(model, tmp_path)
        assert_same(continued(loaded, csr_array(X[60:]), y[60:]), continued(model, csr_array(X[60:]), y[60:]))


def test_shared_objects_stay_shared(tmp_path):
    X, y = stream("random", 60)
    random = np.random.RandomState(3)
    inner = budgetron.RandomizedBudgetPerceptron(3, random_state=random)
    model = saved_and_loaded(
        experts.ExpertClassifier([inner, inner], random_state=random).fit(X, y), tmp_path
    )
    assert model.learners[0] is model.learners[1] is model.started_with_["learners"][0]
    assert model.learners[0].random_state is model.random_state
    model = saved_and_loaded(budgetron.Forgetron(3).fit(X, three_classes(y)), tmp_path)
    for hypothesis in hypotheses_of(model):
        assert hypothesis.rule.supports is hypothesis.supports
        assert hypothesis.kernel is hypothesis.supports.kernel is hypotheses_of(model)[0].kernel
    model = saved_and_loaded(AveragedClassifier(budgetron.Forgetron(3)).fit(X, y), tmp_path)
    assert hypotheses_of(model) is hypotheses_of(model.learner_)
    assert model.learner is model._started_with["learner"]


def test_parameters_changed_before_saving(tmp_path):
    X, y = stream("random", 60)
    model = saved_and_loaded(budgetron.Forgetron(3).fit(X, y).set_params(budget=50), tmp_path)
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
        experts.FixedShare(0.3, 0.01),
        experts.Prod(),
        experts.Prod("doubling"),
        experts.RandomizedWeightedMajority("doubling", random_state=1),
        experts.PolynomialWeights(),
    ],
    ids=repr,
)
def test_expert_algorithms(algorithm, tmp_path):
    rng = np.random.default_rng(0)
    advice, outcomes = rng.integers(0, 2, (90, 5)).astype(float), rng.integers(0, 2, 90).astype(float)
    algorithm.play(advice[:50], outcomes[:50])
    loaded = saved_and_loaded(algorithm, tmp_path)
    left, right = (instance.play(advice[50:], outcomes[50:]) for instance in (loaded, algorithm))
    assert_same(
        [left.predictions, left.losses, left.weights], [right.predictions, right.losses, right.weights]
    )


def test_functions_and_foreign_classes_are_refused(tmp_path):
    X, y = stream("random", 30)
    path = tmp_path / "model.budgetron"
    for kernel in ("callable", "normalized callable"):
        with pytest.raises(
            TypeError, match=r"kernel of this Forgetron is a Python function.*pickle or joblib"
        ):
            budgetron.save(CASES["forgetron basic"].model(kernel).fit(X, y), path)
    for stranger in (SGDClassifier(), StandardScaler()):
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
    loaded = files.load_extras(path)
    assert list(loaded) == list(extras)
    for name in ("text", "numbers", "pair", "nothing"):
        assert loaded[name] == extras[name]
    assert loaded["scalar"] == 0.5
    for left, right in (
        (loaded["deep"]["#"]["table"], extras["deep"]["#"]["table"]),
        (loaded["deep"]["words"], extras["deep"]["words"]),
        (loaded["order"], extras["order"]),
        (loaded["zero"], extras["zero"]),
    ):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    assert loaded["big endian"].tolist() == [0, 1, 2]
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


# ---------------------------------------------------------------------- atomic writes


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
        monkeypatch.setattr(container.npy, "write_array", fail)
    else:
        monkeypatch.setattr(os, step, fail)
    X, y = stream("random", 30)
    with pytest.raises(OSError, match="No space left"):
        budgetron.save(budgetron.Stoptron(9).fit(X, y), path)
    monkeypatch.undo()
    assert repr(budgetron.load(path)) == "Stoptron(budget=7)"
    assert list(tmp_path.iterdir()) == [path]


def test_an_unwritable_folder_raises_a_clear_error(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"cannot create a file in this folder.*missing"):
        budgetron.save(budgetron.Stoptron(), tmp_path / "missing" / "model")

    def refuse(*args):
        raise PermissionError(13, "Permission denied", args[0])

    monkeypatch.setattr(os, "open", refuse)  # file modes would not stop a test that runs as root
    with pytest.raises(PermissionError, match="cannot create a file in this folder: Permission denied"):
        budgetron.save(budgetron.Stoptron(), tmp_path / "model")


def test_errors_in_other_files_keep_their_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "output"):
        (tmp_path / "input").read_bytes()
    assert caught.value.filename == str(tmp_path / "input")
    with pytest.raises(OSError, match="full") as caught, atomic_write(tmp_path / "output"):
        raise OSError(28, "full")
    assert caught.value.filename == str(tmp_path / "output")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="needs file modes")
def test_links_are_followed_and_new_files_follow_the_umask(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "model")
    for mask in (0o022, 0o077, 0):
        before = os.umask(mask)
        try:
            budgetron.save(budgetron.Stoptron(), tmp_path / "link")
        finally:
            os.umask(before)
        assert (tmp_path / "link").is_symlink()
        assert mode_of(tmp_path / "real" / "model") == 0o666 & ~mask
        (tmp_path / "real" / "model").unlink()
    with pytest.raises(IsADirectoryError):
        budgetron.save(budgetron.Stoptron(), tmp_path / "real")
    assert list((tmp_path / "real").iterdir()) == []


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.skipif(os.name != "posix", reason="needs file modes")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444, 0o755])
def test_a_replaced_file_keeps_its_mode(mode, tmp_path, monkeypatch):
    path, link = tmp_path / "model", tmp_path / "link"
    link.symlink_to(path)
    budgetron.save(budgetron.Stoptron(7), path)
    path.chmod(mode)
    original, seen = os.fsync, []

    def fsync(descriptor):
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    for target in (path, link):
        budgetron.save(budgetron.Stoptron(9), target)
        assert mode_of(path) == mode
    assert seen[::2] == [mode, mode]  # of the temporary files; every second call is for the folder
    assert repr(budgetron.load(path)) == "Stoptron(budget=9)"


@pytest.mark.skipif(os.name != "posix", reason="needs file modes")
def test_a_temporary_file_is_never_more_readable_than_the_final_one(tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.touch(0o640)
    modes = []

    def spy(name):
        original = getattr(os, name)

        def call(descriptor, *arguments):
            modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
            original(descriptor, *arguments)

        monkeypatch.setattr(os, name, call)

    for name in ("fchown", "fchmod", "fsync"):
        spy(name)
    before = os.umask(0)
    try:
        budgetron.save(budgetron.Stoptron(), path)
    finally:
        os.umask(before)
    assert modes[:4] == [0o600, 0o600, 0o600, 0o640]


@pytest.mark.skipif(os.name != "posix", reason="needs owners of files")
def test_a_replaced_file_keeps_its_owner_and_group_if_possible(tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.touch()
    path.chmod(0o654)
    wanted = []
    monkeypatch.setattr(os, "fchown", lambda descriptor, owner, group: wanted.append((owner, group)))
    budgetron.save(budgetron.Stoptron(), path)
    found = path.stat()
    assert wanted == [(found.st_uid, -1), (-1, found.st_gid)]
    assert mode_of(path) == 0o654

    # A user who may not keep the group must not give the rights of that group to another one.
    def refuse(*arguments):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    original = os.stat

    def other_group(name, **options):
        result = original(name, **options)
        if os.fspath(name) != os.fspath(path):
            return result
        return os.stat_result([*result[:5], result.st_gid + 1, *result[6:]])

    monkeypatch.setattr(os, "stat", other_group)
    budgetron.save(budgetron.Stoptron(), path)
    monkeypatch.undo()
    assert mode_of(path) == 0o604


# ---------------------------------------------------------------------- damaged and hostile files


def header(text, data=b""):
    """Return an .npy file with the given text as its header."""
    text = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Return the bytes of a valid file."""
    X, y = stream("random", 40)
    path = tmp_path_factory.mktemp("original") / "model.budgetron"
    budgetron.save(budgetron.Forgetron(4, "greedy", gamma=0.5).fit(X, y), path, extras={"name": "x"})
    return path.read_bytes()


def test_every_truncated_file_is_refused(tmp_path):
    path = tmp_path / "short"
    budgetron.save(budgetron.Forgetron(), path)
    data = path.read_bytes()
    for n in range(len(data)):
        path.write_bytes(data[:n])
        with pytest.raises(ModelFileError, match=re.escape(str(path))):
            budgetron.load(path)


def hostile():
    """Yield a description, the content of a file, and the expected error, for each hostile file."""
    X, y = stream("random", 40)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        budgetron.save(budgetron.Forgetron(4).fit(X, y), path)
        data = path.read_bytes()
    head, arrays = unpack(data)
    first = head["model"]["learned"]["classes_"]["number"]

    def with_array(member, i=first):
        return pack(head, [member if j == i else array for j, array in enumerate(arrays)])

    def with_learned(**learned):
        model = head["model"] | {"learned": head["model"]["learned"] | learned}
        return pack(head | {"model": model}, arrays)

    def with_budget(budget):
        model = json.loads(json.dumps(head["model"]))
        model["parameters"]["budget"] = model["learned"]["_started_with"]["budget"] = budget
        return pack(head | {"model": model}, arrays)

    objects = io.BytesIO()
    np.lib.format.write_array(objects, np.array([print, len], object), allow_pickle=True)
    header_format = "{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}"
    yield "nothing", b"", "not a model file"
    yield "a pickle", b"\x80\x04K\x01.", "not a model file"
    yield "another zip", pack([1], []), "not a model file"
    yield "no head", pack_without_head(), "no model.json"
    yield "objects", with_array(objects.getvalue()), "is of object"
    yield "a record", with_array(npy(np.zeros(2, [("a", "f8")]))), "array"
    yield "void", with_array(npy(np.zeros(2, "V8"))), "array"
    yield (
        "absurd shape",
        with_array(header(header_format.format("'<f8'", False, (2**40, 2**20)))),
        "does not fit",
    )
    yield (
        "overflowing shape",
        with_array(header(header_format.format("'<f8'", False, (2**62, 4)))),
        "does not fit",
    )
    yield (
        "negative shape",
        with_array(header(header_format.format("'<f8'", False, (-1, -1)), b"x" * 8)),
        "shape",
    )
    yield "empty text", with_array(header(header_format.format("'<U0'", False, (2**40,)))), "is of"
    yield "fortran", with_array(header(header_format.format("'<f8'", True, (2, 2)), bytes(32))), "shape"
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
    """Return the file with all members pointing at the bytes of the first, like a zip bomb."""
    at, damaged = data.index(b"PK\1\2"), bytearray(data)
    first = data[at : at + 46]
    while at >= 0:
        damaged[at + 16 : at + 28] = first[16:28]
        damaged[at + 42 : at + 46] = bytes(4)
        at = data.find(b"PK\1\2", at + 4)
    return bytes(damaged)


def deep(head, arrays):
    """Return a file with very deeply nested extras."""
    tables = '{"a":' * 90000 + "1" + "}" * 90000
    text = json.dumps(head | {"extras": None}).replace('"extras": null', f'"extras": {tables}')
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for i, data in enumerate(arrays):
            archive.writestr(f"arrays/{i}.npy", data)
        archive.writestr("model.json", text)
    return stream.getvalue()


def test_hostile_files_are_refused_with_little_memory(tmp_path):
    path = tmp_path / "hostile"
    for description, data, reason in hostile():
        path.write_bytes(data)
        tracemalloc.start()
        with pytest.raises(ModelFileError, match=reason) as caught:
            budgetron.load(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert str(path) in str(caught.value), description
        assert peak < 2**21 + 60 * len(data), description


def test_a_changed_array_is_noticed(original, tmp_path):
    head, arrays = unpack(original)
    path = tmp_path / "changed"
    stream = io.BytesIO()
    # The CRC is that of the new array, but the stored hash is that of the old one.
    with zipfile.ZipFile(stream, "w") as archive:
        for i, data in enumerate(arrays):
            archive.writestr(f"arrays/{i}.npy", npy(np.lib.format.read_array(io.BytesIO(data))[::-1].copy()))
        archive.writestr("model.json", json.dumps(head))
    path.write_bytes(stream.getvalue())
    with pytest.raises(ModelFileError, match="contents of array 0 have changed"):
        budgetron.load(path)


def test_a_random_generator_without_increment_is_refused(tmp_path):
    X, y = stream("random", 40)
    path = tmp_path / "model"
    budgetron.save(budgetron.RandomizedBudgetPerceptron(3, random_state=0).fit(X, y), path)
    head, arrays = unpack(path.read_bytes())
    head["model"]["learned"]["_learners"]["states"][0]["bits"]["state"] = {"state": 0, "inc": 0}
    path.write_bytes(pack(head, arrays))
    with pytest.raises(ModelFileError, match="generator"):
        budgetron.load(path)


def rewritten(model, path, change):
    """Save a model, then change the content of the file and update its checksums."""
    budgetron.save(model, path)
    head, arrays = unpack(path.read_bytes())
    change(head["model"]["learned"], arrays)
    path.write_bytes(pack(head, arrays))


def test_a_huge_number_of_features_takes_no_memory(tmp_path):
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
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.n_features_in_ == 2**31 - 1
    assert peak < 2**21


def test_huge_error_counts_of_experts(tmp_path):
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
def test_non_finite_numbers_are_refused(model, names, tmp_path):
    X, y = stream("random", 40)
    path = tmp_path / "model"

    def change(learned, arrays):
        node = learned["_learners"]["states"][0]
        for name in names[:-1]:
            node = node[name]
        if names == ("factor",):
            node["factor"] = {"#": "float", "value": "inf"}
        else:
            number = node[names[-1]]["number"]
            values = np.lib.format.read_array(io.BytesIO(arrays[number]))
            values.reshape(-1)[0] = np.nan
            arrays[number] = npy(values)

    rewritten(model.fit(X, y), path, change)
    with pytest.raises(ModelFileError, match=r"should be (finite|moderate)"):
        budgetron.load(path)


def test_coefficients_that_could_overflow_in_one_class_are_refused(tmp_path):
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
    largest = 1e88  # unusual, but small enough to continue; all classes stay at the same round
    rewritten(budgetron.Forgetron(10, gamma=0.5).fit(X, y), path, change)
    model = budgetron.load(path).partial_fit(X, y)
    for t in range(20):
        model.play(X[t], y[t])
    assert {hypothesis.rounds for hypothesis in hypotheses_of(model)} == {140}
    budgetron.save(model, path)


def test_arrays_as_parameters_are_refused(original, tmp_path):
    head, arrays = unpack(original)
    head["model"]["parameters"]["eta"] = {"#": "array", "number": len(arrays)}
    path = tmp_path / "model"
    path.write_bytes(pack(head, [*arrays, npy(np.zeros(2))]))
    with pytest.raises(ModelFileError, match="should not be arrays"):
        budgetron.load(path)


def test_a_vote_changed_before_saving_has_no_effect(tmp_path):
    X, y = stream("random", 40)
    for vote, other in (("average", "majority"), ("majority", "average")):
        model = linear.VotedPerceptron(vote).fit(X, y)
        expected = model.decision_function(X)
        loaded = saved_and_loaded(model.set_params(vote=other), tmp_path)
        assert loaded.decision_function(X).tolist() == expected.tolist()


def test_files_of_later_protocols_are_refused(original, tmp_path):
    path = tmp_path / "future"
    head, arrays = unpack(original)
    path.write_bytes(pack(head | {"protocol": 8, "version": "9.1", "model": "changed"}, arrays))
    with pytest.raises(
        ModelFileError, match=r"written by budgetron 9\.1 in protocol 8.*up to protocol 7: update"
    ):
        budgetron.load(path)
    with pytest.raises(ModelFileError, match="protocol 7"):
        files.load_extras(path)
    with pytest.raises(FileNotFoundError):
        budgetron.load(tmp_path / "missing")


# ---------------------------------------------------------------------- files of earlier protocols


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
    assert hypotheses_of(model)[0].supports.sparse  # only the non-zeros of rows of 1,200 features are stored
    X = csr_array((extras["values"], extras["features"], extras["starts"]), shape=(60, 1200))
    np.testing.assert_allclose(model.decision_function(X), extras["margins"], rtol=1e-12)
    trace = model.progressive_fit(X, np.where(np.arange(60) % 3 == 0, 1, -1))
    np.testing.assert_allclose(trace.margins, extras["going on"], rtol=1e-9)


def test_protocol_2_without_class_weight():
    path = DATA / "protocol2-linear.budgetron"
    model, extras = budgetron.load(path), files.load_extras(path)
    assert repr(model) == "PassiveAggressive(C=0.5, fit_intercept=False, variant='PA-II')"
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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("average", "AveragedClassifier(learner=KernelPerceptron(gamma=0.5))"),
        ("shrinking", "ShrinkingPerceptron(gamma=0.5, shrink=0.9)"),
        ("linear", "Perceptron(eta=0.5, fit_intercept=False)"),
    ],
)
def test_protocol_5(name, text):
    continues_exactly(DATA / f"protocol5-{name}.budgetron", text)


def test_protocol_6_without_intercept():
    continues_exactly(DATA / "protocol6.budgetron", "AROW(fit_intercept=False, r=0.5)")


def continues_exactly(path, text):
    """Check that a model of an older protocol predicts and goes on learning as it did when it was saved."""
    model, extras = budgetron.load(path), files.load_extras(path)
    assert repr(model) == text
    X = extras["rows"]
    np.testing.assert_allclose(model.decision_function(X), extras["margins"], rtol=1e-12)
    trace = model.progressive_fit(X, np.where(X[:, 0] * X[:, 1] > 0, "yes", "no"))
    np.testing.assert_allclose(trace.margins, extras["going on"], rtol=1e-9)
    np.testing.assert_allclose(model.decision_function(X), extras["after"], rtol=1e-9)
