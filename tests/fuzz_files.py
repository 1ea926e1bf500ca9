"""Attack model files: load damaged, truncated, spliced, and maliciously changed files with valid checksums.

    python tests/fuzz_files.py 100000 [--seed S]     run a number of attacks
    python tests/fuzz_files.py --replay S N          run attack N of seed S again, in this process

Each attack must end in a `ModelFileError`, or in a model that can predict, learn and be saved. Attacks run in
a separate process with limited memory. A crash, excessive memory use or a hang is then detected, and reported
with the attack that caused it.
"""

import argparse
import faulthandler
import hashlib
import io
import json
import os
import random
import re
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
import zipfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, random_array
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
from supervisor import supervise

import budgetron
from budgetron import (
    CalibratedClassifier,
    ConformalClassifier,
    ConformalRegressor,
    ModelFileError,
    experts,
    files,
    linear,
    river,
)
from budgetron._base.online_detector import OnlineDetector
from budgetron._base.online_regressor import OnlineRegressor
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier
from budgetron.experts._base import ExpertAlgorithm
from budgetron.fleet import Fleet
from budgetron.kernels import Normalized

# Memory use is measured for one attack in 50, because it is slow.
MEASURED = 50
# Loading may use FEW_BYTES, plus TIMES the size of the file.
FEW_BYTES, TIMES = 1 << 21, 20
# Processor time allowed for one file, in seconds.
LONGEST = 1.0
# Bytes that the process may allocate after its start.
ROOM = 1 << 29


# ---------------------------------------------------------------------- the files


def models():
    """Yield small models of every class."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0.1 * rng.normal(size=30), 1, -1)
    three = np.array(["a", "b", "c"])[np.arange(30) % 3]
    wide = csr_array(random_array((30, 1200), density=0.01, random_state=rng))
    single = X.astype(np.float32)

    for cls in budgetron.learners():
        yield (cls(gamma=0.5, **({"budget": 4} if "budget" in cls().get_params() else {})).fit(X, y))
    for cls in linear.learners():
        yield cls().fit(single, y)
    yield budgetron.Forgetron(4, "greedy", gamma=0.5).fit(X, y)
    yield budgetron.Forgetron(4, "greedy-cumulative", gamma=0.5).fit(X, y)
    yield budgetron.SharedBudgetPerceptron(4, gamma=0.5).fit(X, three)
    yield AveragedClassifier(budgetron.Forgetron(3, gamma=0.5), budget=2).fit(X, y)
    yield budgetron.KernelPerceptron(counters=True, gamma=0.5).fit(np.vstack([X, X]), np.append(y, y))
    start = tuple(np.linspace(-1.0, 1.0, len(y)).tolist())
    yield budgetron.KernelPerceptron(initial_coefficients=start, gamma=0.5).fit(X, y)
    yield linear.Perceptron(initial_weights=(0.5, -1.0, 2.0)).fit(X, y)
    yield budgetron.ShrinkingPerceptron(variant="shifting", gamma=0.5).fit(X, y)
    yield budgetron.Forgetron(6, "simplified", kernel="laplacian").fit(single, three)
    yield budgetron.RandomizedBudgetPerceptron(
        3, "modified", kernel="linear", random_state=np.random.RandomState(0)
    ).fit(X, three)
    yield budgetron.CKSPerceptron(3, kernel="allsubsets").fit(X, np.where(y > 0, "yes", "no"))
    yield budgetron.OGD(0.3, 0.1, "logistic", schedule="sqrt", budget=3, gamma=0.5).fit(X, three)
    yield budgetron.BOGD(3, decay=0.1, gamma=0.5, random_state=0).fit(X, y)
    for variant in ("simple", "projecting", "nearest"):
        yield budgetron.BudgetPA(3, variant, gamma=0.5).fit(single, three)
    yield budgetron.BSGD(3, "removal", gamma=0.5).fit(wide, y)
    yield budgetron.BSGD(3, "projection", gamma=0.5).fit(X, y)
    yield budgetron.Ahpatron(4, radius=1.0, gamma=0.5).fit(X, y)
    yield budgetron.BSGD(3, "merging", gamma=0.5).fit(wide, y)
    yield budgetron.NOGD(4, rank=2, gamma=0.5).fit(X, three)
    yield budgetron.FOGD(4, gamma=0.5, random_state=0).fit(X, three)
    yield budgetron.FOGD(4, gamma=0.5, random_state=0).fit(wide, y)
    yield budgetron.TighterPerceptron(3, gamma=0.5).fit(X, y)
    yield budgetron.AUCMaximizer(4, gamma=0.5, random_state=0).fit(X, three)
    yield budgetron.Projectron(0.5, budget=5, kernel=Normalized("poly")).fit(X, three)
    yield budgetron.KernelPerceptron(gamma=0.5).fit(single, np.where(y > 0, "yes", "no").astype(object))
    yield budgetron.VotedKernelPerceptron("majority").fit(X, y)
    yield budgetron.Projectron(0.3, gamma=0.2).fit(wide, y)
    yield budgetron.Forgetron(3).fit(wide, three)
    yield AveragedClassifier(budgetron.Forgetron(3)).fit(wide, y)
    yield AveragedClassifier(budgetron.Forgetron(3, gamma=0.5)).fit(X, y)
    yield AveragedClassifier(linear.OnlineSVM(eta=0.9)).fit(X, three)
    yield PenalizedRiskClassifier(budgetron.RemoveOldestPerceptron(3, gamma=0.5)).fit(X, three)
    yield PenalizedRiskClassifier(budgetron.Projectron(0.5, gamma=0.5)).fit(single, y)
    yield PenalizedRiskClassifier(linear.Winnow(balanced=True)).fit(X, y)
    yield CalibratedClassifier(budgetron.Forgetron(3, gamma=0.5)).fit(X, three)
    yield CalibratedClassifier(linear.AROW(covariance="diagonal")).fit(wide, y)
    yield ConformalClassifier(budgetron.Forgetron(3, gamma=0.5), window=9).fit(X, three)
    yield ConformalRegressor(linear.AROWRegressor(), window=40).fit(X, X[:, 0])
    yield linear.VotedPerceptron("majority").fit(X, three)
    yield linear.AROW(forget=0.9).fit(X, three)
    yield linear.AROW(covariance="diagonal", loss="squared", forget=0.9).fit(X, three)
    inner = [budgetron.Stoptron(2), linear.AROW(), AveragedClassifier(linear.Perceptron())]
    for combine in ("exponential", "majority", "randomized"):
        yield experts.ExpertClassifier(inner, combine, random_state=np.random.RandomState(1)).fit(X, y)
    yield experts.ExpertClassifier(inner[:2]).fit(X, three)
    for algorithm in (
        experts.Halving(),
        experts.WeightedMajority(0.3),
        experts.RandomizedWeightedMajority(random_state=1),
        experts.ExponentialWeights("doubling"),
        experts.FixedShare(),
        experts.Prod(),
        experts.Prod("doubling"),
        experts.RandomizedWeightedMajority("doubling", random_state=1),
        experts.PolynomialWeights(),
    ):
        algorithm.play(np.eye(4)[rng.integers(4, size=9)], rng.integers(2, size=9))
        yield algorithm
    for cls in [*budgetron.regressors(), *linear.regressors()]:
        small = {"budget": 4, "gamma": 0.5}
        yield cls(**{name: small[name] for name in small if name in cls.parameter_names()}).fit(X, X[:, 0])
    yield budgetron.SecondOrderRegressor(4, forget=0.9).fit(wide, y)
    yield linear.AROWRegressor(0.5, "diagonal", "vaw", forget=0.9).fit(single, X[:, 0])
    rows = rng.normal(size=(70, 3))
    yield budgetron.BudgetRegressor("120kB").fit(rows, rows[:, 0] * rows[:, 1])
    regressor = river.SecondOrderRegressor(3)
    for row in X:
        regressor.learn_one(dict(zip("abc", row.tolist(), strict=True)), float(row[0]))
    yield regressor
    wrapper = river.ConformalRegressor(river.linear.AROWRegressor(), window=40)
    for row in X:
        wrapper.learn_one(dict(zip("abc", row.tolist(), strict=True)), float(row[0]))
    yield wrapper
    for cls in budgetron.detectors():
        yield cls(4, gamma=0.5).fit(X)
    yield budgetron.NormaDetector(4, false_alarm_rate=0.3).fit(wide)
    detector = river.SecondOrderDetector(3)
    for row in X:
        detector.learn_one(dict(zip("abc", row.tolist(), strict=True)))
    yield detector
    for adapter, labels in [
        (river.Forgetron(3), y),
        (river.linear.AROW(), three),
        (river.Projectron(), three),
        (river.ConformalClassifier(river.Forgetron(3), window=9), three),
    ]:
        for row, label in zip(X, labels.tolist(), strict=True):
            adapter.learn_one(dict(zip("abc", row.tolist(), strict=True)), label)
        yield adapter
    many = rng.normal(size=(70, 3))
    yield budgetron.BudgetClassifier("120kB", random_state=0).fit(many, np.where(many[:, 0] > 0, "yes", "no"))
    yield budgetron.BudgetClassifier("128kB", random_state=0).fit(wide, y)
    keys, names = np.arange(30) % 4, [f"key {i % 3} ☃" for i in range(30)]
    for learner in (budgetron.Forgetron(3, gamma=0.5), linear.AROW(), linear.AROW(forget=0.9)):
        yield Fleet(learner).partial_fit(keys, X, y)
    yield Fleet(budgetron.RandomizedBudgetPerceptron(2, kernel="poly", random_state=1)).partial_fit(
        names, X, y
    )
    yield Fleet(budgetron.KernelPerceptron(gamma=0.5)).partial_fit(names, single, y)
    yield Fleet(budgetron.Forgetron(3, gamma=0.5), memory="10kB", idle=25).partial_fit(keys, single, y)
    shared = budgetron.RemoveOldestPerceptron(3, gamma=0.5)
    yield Fleet(budgetron.Forgetron(2, gamma=0.5), common=shared).partial_fit(keys, X, y)
    yield budgetron.Forgetron()
    yield AveragedClassifier(linear.AROW())
    for scaler in (StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler(), Normalizer()):
        yield make_pipeline(scaler, linear.AROW()).fit(X, y)
    words = np.array(["red", "green", "blue"], object)[rng.integers(3, size=(30, 2))]
    yield make_pipeline(OneHotEncoder(), budgetron.Forgetron(3, gamma=0.5)).fit(words, y)
    yield make_pipeline(OrdinalEncoder(), StandardScaler(), linear.AROW()).fit(words, three)


def originals():
    """Yield the content of a file of each model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for model in models():
            budgetron.save(model, path, extras={"table": np.arange(3), "name": "x"})
            yield path.read_bytes()


def unpack(data):
    """Return model.json as a tree, and the .npy files of the arrays, of a model file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(members.pop("model.json"))
    return head, [members[f"arrays/{i}.npy"] for i in range(len(members))]


def pack(head, arrays, more=(), compression=zipfile.ZIP_STORED):
    """Return a model file of this content, with valid checksums."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for i, data in enumerate(arrays):
            archive.writestr(f"arrays/{i}.npy", data)
        if isinstance(head, dict) and "arrays" in head:
            head = head | {"arrays": [hashlib.sha256(data).hexdigest() for data in arrays]}
        archive.writestr("model.json", json.dumps(head))
        for name, data in more:
            archive.writestr(name, data)
    return stream.getvalue()


def npy(values, **options):
    """Return the content of an .npy file."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(values), version=(1, 0), **options)
    return stream.getvalue()


def array_of(member):
    """Return the array of an .npy file."""
    return np.lib.format.read_array(io.BytesIO(member))


# ---------------------------------------------------------------------- attacks


def attack(contents, seed, number):
    """Return the content of the changed file, and a short description of the changes."""
    rng = random.Random(f"{seed} {number}")
    which = rng.randrange(len(contents))
    original = contents[which]
    if rng.random() < 0.2:
        how = rng.choice([cut, flip, insert, splice])
        return how(rng, original, contents), f"file {which}: {how.__name__}"
    head, arrays = unpack(original)
    changes = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        how = rng.choice([change_tree, change_tree, change_array, change_header] if arrays else [change_tree])
        changes.append(how(rng, head, arrays))
        if "model" not in head:
            break
    return pack(head, arrays), f"file {which}: {'; '.join(changes)}"


def cut(rng, data, contents):
    return data[: rng.randrange(len(data))]


def flip(rng, data, contents):
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        damaged[rng.randrange(len(data))] ^= rng.randint(1, 255)
    return bytes(damaged)


def insert(rng, data, contents):
    at = rng.randrange(len(data))
    return data[:at] + rng.randbytes(rng.randint(1, 9)) + data[at:]


def splice(rng, data, contents):
    other = rng.choice(contents)
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


VALUES = [0, 1, -1, 2, 3, 7, 1000, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**70, -(2**63), 10**400]
VALUES += [0.0, -0.0, 0.5, -1.0, 1e-300, 5e-324, 1e308, -1e308, None, True, False]
VALUES += [
    "",
    "rbf",
    "linear",
    "poly",
    "float32",
    "float64",
    "majority",
    "auto",
    "PA",
    [],
    {},
    [[]],
    {"#": "tuple", "items": []},
]
VALUES += [{"#": "float", "value": value} for value in ("nan", "inf", "-inf")]
VALUES += [{"#": "same", "number": 0}, {"#": "same", "number": 1}, {"#": "array", "number": 0}]
VALUES += [{"#": "normalized", "kernel": "rbf"}, {"#": "objects", "items": ["a", 1]}]


def places(tree, path=()):
    """Yield the paths of all nodes of a tree; a path is a tuple of keys from the root."""
    yield path
    if isinstance(tree, dict | list):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield from places(tree[key], (*path, key))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def change_tree(rng, head, arrays):
    """Change one node of model.json, and return a description."""
    everywhere = [path for path in places(head) if len(path) > 1]
    if rng.random() < 0.02 or not everywhere:
        everywhere = [(key,) for key in head]
    path = rng.choice(everywhere)
    node, key = at(head, path[:-1]), path[-1]
    old = node[key]
    kind = rng.choice(["value", "value", "value", "near", "delete", "copy", "double", "rename", "shorten"])
    if kind == "near" and type(old) in (int, float):
        node[key] = old + rng.choice([-1, 1, 2]) if type(old) is int else old * rng.choice([-1.0, 1e9, 1e-9])
    elif kind == "delete":
        del node[key]
    elif kind == "copy":  # may also exchange the numbers of arrays, names and classes
        alike = [place for place in everywhere if type(at(head, place)) is type(old)]
        node[key] = json.loads(json.dumps(at(head, rng.choice(alike))))
    elif kind == "double" and isinstance(node, list):
        node.append(json.loads(json.dumps(old)))
    elif kind == "rename" and isinstance(node, dict):
        node[rng.choice([*node, "x", "#"])] = node.pop(key)
    elif kind == "shorten" and isinstance(old, list | dict) and old:
        old.pop(rng.choice(list(old)) if isinstance(old, dict) else rng.randrange(len(old)))
    else:
        node[key] = json.loads(json.dumps(rng.choice(VALUES)))  # a copy, because a later change may modify it
    return f"{kind} at {'/'.join(map(str, path))}"


EXTREMES = {
    "f": [0.0, -0.0, -1.0, np.nan, np.inf, -np.inf, 1e300, -1e300, 1e38, 1e-300, 5e-324],
    "i": [0, 1, -1, 2, 5, 40, 2**31 - 1, -(2**31)],
    "u": [0, 1, 2**32 - 1],
    "b": [True, False],
    "U": ["", "z"],
}


def change_array(rng, head, arrays):
    """Change the numbers, the type or the shape of an array, and return a description."""
    i = rng.randrange(len(arrays))
    try:
        values = array_of(arrays[i])
    except Exception:  # the header was changed before
        values = np.zeros(3)
    if values.dtype.kind not in EXTREMES:  # likewise
        values = np.zeros(3)
    kind = rng.choice(["value"] * 3 + ["huge", "dtype", "shape", "shorter", "longer", "swap", "fill", "mix"])
    if kind in ("value", "huge", "fill") and values.size:
        extreme = rng.choice(EXTREMES[values.dtype.kind])
        if kind == "huge" and values.dtype == np.int64:
            extreme = rng.choice([2**62, 2**63 - 1, -(2**63)])
        place = slice(None) if kind == "fill" else rng.randrange(values.size)
        values.reshape(-1)[place] = np.asarray(extreme).astype(values.dtype)
    elif kind == "dtype" and values.dtype.kind in "iufb":
        values = values.astype(rng.choice([np.float32, np.float64, np.int32, np.int64, np.uint8, ">f8"]))
    elif kind == "shape":
        values = rng.choice([values.reshape(1, -1), values.reshape(-1), values.reshape(-1, 1)])
    elif kind == "shorter":
        values = values[:-1]
    elif kind == "longer":
        values = np.concatenate([values, values[: rng.choice([1, len(values)])]])
    elif kind == "mix":
        mixed = rng.sample(values.reshape(-1).tolist(), values.size)
        values = np.array(mixed, values.dtype).reshape(values.shape)
    else:
        j = rng.randrange(len(arrays))
        arrays[i], arrays[j] = arrays[j], arrays[i]
        return f"arrays {i} and {j} exchanged"
    arrays[i] = npy(values)
    return f"{kind} in array {i}"


def change_header(rng, head, arrays):
    """Damage the header of an array, which contains its length, type and shape; return a description."""
    i = rng.randrange(len(arrays))
    damaged = bytearray(arrays[i])
    for _ in range(rng.randint(1, 2)):
        damaged[rng.randrange(min(80, len(damaged)))] = rng.choice(b"0123456789'(),<>|fiuUOV{}[]-\x00\xff")
    arrays[i] = bytes(damaged)
    return f"header of array {i}"


# ---------------------------------------------------------------------- use


# Texts expected in the errors of a loaded model: overflowing numbers, and wrong or changed parameters
CLEAR = (
    "finite|overflow|must be|changed since|at least two classes|not fitted yet|rounds should be a whole|"
    "raise it, or hash|contains NaN"  # the last one of scikit-learn, after scalers with extreme numbers
)


def try_out(data, path):
    """Load a file, use the model if there is one, and return the outcome."""
    path.write_bytes(data)
    try:
        files.load_extras(path)
        model = budgetron.load(path)
    except ModelFileError as error:
        assert str(path) in str(error)  # noqa: PT017
        return "refused"
    again = path.with_name("again")
    budgetron.save(model, again)  # a loaded model can be saved
    if isinstance(model, ExpertAlgorithm):
        steps = uses_of_algorithm(model)
    elif isinstance(model, river.RiverClassifier):
        steps = uses_of_adapter(model)
    elif isinstance(model, river.RiverRegressor):
        steps = uses_of_river_regressor(model)
    elif isinstance(model, OnlineRegressor):
        steps = uses_of_regressor(model)
    elif isinstance(model, river.RiverDetector):
        steps = uses_of_river_detector(model)
    elif isinstance(model, OnlineDetector):
        steps = uses_of_detector(model)
    elif isinstance(model, Fleet):
        steps = uses_of_fleet(model)
    else:
        steps = uses_of_classifier(model)
    outcome = "used"
    for step in (*steps, lambda: budgetron.save(model, again), lambda: budgetron.load(again)):
        try:
            step()
        except ValueError as error:  # changed numbers may overflow or contradict each other
            assert re.search(CLEAR, str(error)), f"unclear: {error!r}"  # noqa: PT017
            outcome = "used, with errors"
        except MemoryError:
            # A model that has learned nothing may have parameters that need any amount of memory.
            assert not hasattr(model, "classes_"), "out of memory"
            outcome = "used, with errors"
    return outcome


def uses_of_algorithm(model):
    n = getattr(model, "n_experts_", 3)
    advice = np.arange(5 * n).reshape(5, n) % 2.0
    return (
        lambda: model.predict(advice[0]),
        lambda: model.play(advice, np.arange(5) % 2.0),
    )


def uses_of_regressor(model):
    d = getattr(model, "n_features_in_", 3)
    X = np.linspace(-1.0, 1.0, 6 * d).reshape(6, d)
    deviations = {"return_std": True} if hasattr(model, "noise_variance_") else {}
    return (
        lambda: model.predict(X, **deviations) if hasattr(model, "n_features_in_") else None,
        lambda: model.play(X[0], 0.5),
        lambda: model.partial_fit(X, np.arange(6.0)),
        lambda: model.progressive_fit(X, np.arange(6.0), ledger=True),
        lambda: model.predict_interval(X) if hasattr(model, "predict_interval") else None,
    )


def uses_of_river_regressor(model):
    rows = [{"a": float(i), "b": -0.5 * i, "d": 1.0} for i in range(6)]
    return (
        lambda: [model.predict_one(row) for row in rows],
        lambda: [model.learn_one(row, 1.5) for row in rows],
    )


def uses_of_detector(model):
    d = getattr(model, "n_features_in_", 3)
    X = np.linspace(-1.0, 1.0, 6 * d).reshape(6, d)
    return (
        lambda: model.predict(X) if hasattr(model, "n_features_in_") else None,
        lambda: model.play(X[0]),
        lambda: model.partial_fit(X),
        lambda: model.progressive_fit(X, ledger=True),
    )


def uses_of_river_detector(model):
    rows = [{"a": float(i), "b": -0.5 * i, "d": 1.0} for i in range(6)]
    return (
        lambda: [model.score_one(row) for row in rows],
        lambda: [model.predict_one(row) for row in rows],
        lambda: [model.learn_one(row) for row in rows],
    )


def uses_of_adapter(model):
    labels = [*model.to_parts()["labels"], "new"]
    rows = [{"a": float(i), "b": -0.5 * i, "d": 1.0} for i in range(6)]
    return (
        lambda: model.predict_one(rows[0]),
        lambda: [model.learn_one(x, labels[i % len(labels)]) for i, x in enumerate(rows)],
        lambda: [model.predict_proba_one(x) for x in rows],
        lambda: model.nbytes_,
    )


def uses_of_pipeline(model):
    """Return uses of a pipeline; one that encodes takes words, and the others numbers."""
    first = next(step for step in model.named_steps.values() if not isinstance(step, str | None))
    if hasattr(first, "categories_"):
        X = np.column_stack([np.resize(values, 12) for values in first.categories_])
    else:
        X = np.random.default_rng(0).normal(size=(12, getattr(first, "n_features_in_", 3)))
    return [lambda: model.decision_function(X), lambda: model.predict(X)]


def uses_of_fleet(fleet):
    learned = hasattr(fleet, "classes_")
    d = fleet.n_features_in_ if learned else 3
    known = fleet.keys_.tolist() if learned else []
    keys = ([*known[:4], "new" if known and isinstance(known[0], str) else -7] * 40)[:40]
    X = np.random.default_rng(0).normal(size=(40, d if d <= 2000 else 3))
    y = (fleet.classes_ if learned else np.array([0, 1]))[np.arange(40) % 2]
    return (
        lambda: fleet.decision_function(keys, X) if learned else None,
        lambda: [fleet[key].partial_fit(X, y) for key in known[:2] if key in fleet],
        lambda: fleet.play(keys, X, y),
        lambda: [part.partial_fit(keys, X, y) for part in fleet.split(3)],
        lambda: fleet.stats(),
        lambda: fleet.nbytes_,
    )


def uses_of_classifier(model):
    if isinstance(model, Pipeline):
        return uses_of_pipeline(model)
    learned = hasattr(model, "classes_")
    d = model.n_features_in_ if learned else 3
    classes = model.classes_ if learned else np.array([0, 1])
    y = classes[np.arange(40) % len(classes)]
    X = np.random.default_rng(0).normal(size=(40, min(d, 3)))
    if d > 3:
        X = csr_array((X.reshape(-1), np.tile([0, d // 2, d - 1], 40), np.arange(0, 121, 3)), shape=(40, d))
    if d <= 2000:
        X = X.toarray() if d > 3 else X
    row = X[:1] if d > 2000 else X[0]
    uses = [
        lambda: model.partial_fit(X[:5], y[:5], classes=classes),
        lambda: model.decision_function(X[:5]),
        lambda: model.predict(X[:5]),
        lambda: model.partial_fit(X, y),
        lambda: model.predict(X),
    ]
    attributes = []
    if hasattr(model, "play"):
        attributes += ["nbytes_"]
        uses.insert(1, lambda: model.play(row, y[0]))
    if hasattr(type(model), "support_"):
        attributes += ["support_vectors_", "dual_coef_"]
    uses.append(lambda: [getattr(model, name) for name in attributes if model.__sklearn_is_fitted__()])
    if isinstance(model, CalibratedClassifier):
        uses.append(lambda: model.predict_proba(X))
    return uses


# ---------------------------------------------------------------------- the run


def run_attack(contents, path, seed, number):
    """Carry out one attack; return its outcome, and a description if it failed."""
    data, changes = attack(contents, seed, number)
    started = time.process_time()
    try:
        outcome = try_out(data, path)
    except Exception:
        return "failed", f"{changes}\n{traceback.format_exc()}"
    seconds = time.process_time() - started
    if seconds > LONGEST:
        return "failed", f"{changes}\nit took {seconds:.1f} s"
    if number % MEASURED == 0:
        peak = memory_of_load(path)
        if peak > FEW_BYTES + TIMES * len(data):
            return "failed", f"{changes}\nloading {len(data)} bytes took {peak} bytes"
    return outcome, ""


def memory_of_load(path):
    """Return the peak memory use while loading, in bytes."""
    tracemalloc.start()
    with suppress(ModelFileError):
        budgetron.load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def worker(reporter, seed, numbers):
    """Carry out attacks, and report the outcome of each."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    contents = list(originals())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "attack"
        # Unchanged files must be valid. This also imports and allocates what all attacks need.
        for i, data in enumerate(contents):
            outcome = try_out(data, path)
            assert outcome == "used", f"file {i}: {outcome}"
        limit_memory()
        reporter.ready()
        for number in numbers:
            reporter.result(number, *run_attack(contents, path, seed, number))


def limit_memory():
    """Make excessive allocations fail at once, if the system supports limits."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    limit = pages * os.sysconf("SC_PAGE_SIZE") + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def run(count, seed=0, report=None):
    """Carry out attacks 0 to count - 1; return the number of each outcome, and the failures."""
    outcomes, failures = Counter(), {}
    for number, outcome, failure in supervise(worker, (seed,), range(count)):
        outcomes[outcome] += 1
        if failure:
            failures[number] = failure
        if report:
            report(number, outcome, failure)
    return outcomes, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", type=int, nargs=2, metavar=("SEED", "NUMBER"))
    options = parser.parse_args()
    if options.replay:
        faulthandler.enable()
        contents = list(originals())
        with tempfile.TemporaryDirectory() as folder:
            print(*run_attack(contents, Path(folder) / "attack", *options.replay))
        return

    def report(number, outcome, failure):
        if failure:
            print(f"--replay {options.seed} {number}: {failure}", flush=True)
        if number % 1000 == 999:
            print(f"{number + 1} attacks", flush=True)

    outcomes, failures = run(options.count, options.seed, report)
    print(dict(outcomes))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
