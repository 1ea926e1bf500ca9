"""Model files under attack: damaged, cut, spliced, and made with malice under right checksums.

    python tests/fuzz_files.py 100000 [--seed S]     attacks by the number
    python tests/fuzz_files.py --replay S N          one of them again, in this process

Each attack must end in a `ModelFileError` or in a model that can be used: asked, taught and saved. Attacks
run in a process of their own, with a limit to its memory, so that a crash, a flood or a hang is noticed,
and is laid at the door of the attack that caused it.
"""

import argparse
import faulthandler
import hashlib
import io
import json
import multiprocessing
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

import budgetron
from budgetron import CalibratedClassifier, ModelFileError, experts, files, linear, river
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier
from budgetron.experts._base import ExpertAlgorithm
from budgetron.kernels import Normalized

# Memory is measured for one attack in so many: it takes long.
MEASURED = 50
# Bytes that loading may take, beside so many times those of the file.
FEW_BYTES, TIMES = 1 << 21, 20
# Seconds of work for one file; and of silence after which it hangs.
LONGEST, SILENCE = 1.0, 60.0
# Bytes that the process may have beyond those it begins with.
ROOM = 1 << 29


# ---------------------------------------------------------------------- the files


def models():
    """Small models of every kind."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0.1 * rng.normal(size=30), 1, -1)
    three = np.array(["a", "b", "c"])[np.arange(30) % 3]
    wide = csr_array(random_array((30, 1200), density=0.01, rng=rng))
    single = X.astype(np.float32)

    for cls in budgetron.learners():
        yield (cls(gamma=0.5, **({"budget": 4} if "budget" in cls._get_param_names() else {})).fit(X, y))
    for cls in linear.learners():
        yield cls().fit(single, y)
    yield budgetron.Forgetron(4, "greedy", gamma=0.5).fit(X, y)
    yield budgetron.Forgetron(6, "simplified", kernel="laplacian").fit(single, three)
    yield budgetron.RandomizedBudgetPerceptron(
        3, "modified", kernel="linear", random_state=np.random.RandomState(0)
    ).fit(X, three)
    yield budgetron.CKSPerceptron(3, kernel="allsubsets").fit(X, np.where(y > 0, "yes", "no"))
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
    yield linear.VotedPerceptron("majority").fit(X, three)
    inner = [budgetron.Stoptron(2), linear.AROW(), AveragedClassifier(linear.Perceptron())]
    for combine in ("exponential", "majority", "randomized"):
        yield experts.ExpertClassifier(inner, combine, random_state=np.random.RandomState(1)).fit(X, y)
    yield experts.ExpertClassifier(inner[:2]).fit(X, three)
    for algorithm in (
        experts.Halving(),
        experts.WeightedMajority(0.3),
        experts.RandomizedWeightedMajority(random_state=1),
        experts.ExponentialWeights("doubling"),
        experts.Prod(),
        experts.PolynomialWeights(),
    ):
        algorithm.play(np.eye(4)[rng.integers(4, size=9)], rng.integers(2, size=9))
        yield algorithm
    for face, labels in [(river.Forgetron(3), y), (river.linear.AROW(), three), (river.Projectron(), three)]:
        for row, label in zip(X, labels.tolist(), strict=True):
            face.learn_one(dict(zip("abc", row.tolist(), strict=True)), label)
        yield face
    many = rng.normal(size=(70, 3))
    yield budgetron.BudgetClassifier("90kB", random_state=0).fit(many, np.where(many[:, 0] > 0, "yes", "no"))
    yield budgetron.BudgetClassifier("90kB", random_state=0).fit(wide, y)
    yield budgetron.Forgetron()
    yield AveragedClassifier(linear.AROW())


def originals():
    """Their files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for model in models():
            budgetron.save(model, path, extras={"table": np.arange(3), "name": "x"})
            yield path.read_bytes()


def unpack(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(members.pop("model.json"))
    return head, [members[f"arrays/{i}.npy"] for i in range(len(members))]


def pack(head, arrays, more=(), compression=zipfile.ZIP_STORED):
    """A file with right checksums, whatever is in it."""
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
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(values), version=(1, 0), **options)
    return stream.getvalue()


def array_of(member):
    return np.lib.format.read_array(io.BytesIO(member))


# ---------------------------------------------------------------------- attacks


def attack(files_, seed, number):
    """The bytes of an attack, and what was done, in a few words."""
    rng = random.Random(f"{seed} {number}")
    which = rng.randrange(len(files_))
    original = files_[which]
    if rng.random() < 0.2:
        how = rng.choice([cut, flip, insert, splice])
        return how(rng, original, files_), f"file {which}: {how.__name__}"
    head, arrays = unpack(original)
    done = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        how = rng.choice([change_tree, change_tree, change_array, change_header] if arrays else [change_tree])
        done.append(how(rng, head, arrays))
        if "model" not in head:
            break
    return pack(head, arrays), f"file {which}: {'; '.join(done)}"


def cut(rng, data, files_):
    return data[: rng.randrange(len(data))]


def flip(rng, data, files_):
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        damaged[rng.randrange(len(data))] ^= rng.randint(1, 255)
    return bytes(damaged)


def insert(rng, data, files_):
    at = rng.randrange(len(data))
    return data[:at] + rng.randbytes(rng.randint(1, 9)) + data[at:]


def splice(rng, data, files_):
    other = rng.choice(files_)
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
    """The places in a tree, as keys from its root."""
    yield path
    if isinstance(tree, dict | list):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield from places(tree[key], (*path, key))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def change_tree(rng, head, arrays):
    """Change something of model.json."""
    everywhere = [path for path in places(head) if len(path) > 1]
    if rng.random() < 0.02 or not everywhere:
        everywhere = [(key,) for key in head]
    path = rng.choice(everywhere)
    node, key = at(head, path[:-1]), path[-1]
    old = node[key]
    what = rng.choice(["value", "value", "value", "near", "delete", "copy", "double", "rename", "shorten"])
    if what == "near" and type(old) in (int, float):
        node[key] = old + rng.choice([-1, 1, 2]) if type(old) is int else old * rng.choice([-1.0, 1e9, 1e-9])
    elif what == "delete":
        del node[key]
    elif what == "copy":  # also exchanges the numbers of arrays, names and classes
        alike = [place for place in everywhere if type(at(head, place)) is type(old)]
        node[key] = json.loads(json.dumps(at(head, rng.choice(alike))))
    elif what == "double" and isinstance(node, list):
        node.append(json.loads(json.dumps(old)))
    elif what == "rename" and isinstance(node, dict):
        node[rng.choice([*node, "x", "#"])] = node.pop(key)
    elif what == "shorten" and isinstance(old, list | dict) and old:
        old.pop(rng.choice(list(old)) if isinstance(old, dict) else rng.randrange(len(old)))
    else:
        node[key] = json.loads(json.dumps(rng.choice(VALUES)))  # one of its own: it may be changed too
    return f"{what} at {'/'.join(map(str, path))}"


EXTREMES = {
    "f": [0.0, -0.0, -1.0, np.nan, np.inf, -np.inf, 1e300, -1e300, 1e38, 1e-300, 5e-324],
    "i": [0, 1, -1, 2, 5, 40, 2**31 - 1, -(2**31)],
    "u": [0, 1, 2**32 - 1],
    "b": [True, False],
    "U": ["", "z"],
}


def change_array(rng, head, arrays):
    """Change numbers, type or shape of an array."""
    i = rng.randrange(len(arrays))
    try:
        values = array_of(arrays[i])
    except Exception:  # a header that was changed before
        values = np.zeros(3)
    if values.dtype.kind not in EXTREMES:  # likewise
        values = np.zeros(3)
    what = rng.choice(["value"] * 3 + ["huge", "dtype", "shape", "shorter", "longer", "swap", "fill", "mix"])
    if what in ("value", "huge", "fill") and values.size:
        extreme = rng.choice(EXTREMES[values.dtype.kind])
        if what == "huge" and values.dtype == np.int64:
            extreme = rng.choice([2**62, 2**63 - 1, -(2**63)])
        place = slice(None) if what == "fill" else rng.randrange(values.size)
        values.reshape(-1)[place] = np.asarray(extreme).astype(values.dtype)
    elif what == "dtype" and values.dtype.kind in "iufb":
        values = values.astype(rng.choice([np.float32, np.float64, np.int32, np.int64, np.uint8, ">f8"]))
    elif what == "shape":
        values = rng.choice([values.reshape(1, -1), values.reshape(-1), values.reshape(-1, 1)])
    elif what == "shorter":
        values = values[:-1]
    elif what == "longer":
        values = np.concatenate([values, values[: rng.choice([1, len(values)])]])
    elif what == "mix":
        mixed = rng.sample(values.reshape(-1).tolist(), values.size)
        values = np.array(mixed, values.dtype).reshape(values.shape)
    else:
        j = rng.randrange(len(arrays))
        arrays[i], arrays[j] = arrays[j], arrays[i]
        return f"arrays {i} and {j} exchanged"
    arrays[i] = npy(values)
    return f"{what} in array {i}"


def change_header(rng, head, arrays):
    """Damage the header of an array, where its length, type and shape stand."""
    i = rng.randrange(len(arrays))
    damaged = bytearray(arrays[i])
    for _ in range(rng.randint(1, 2)):
        damaged[rng.randrange(min(80, len(damaged)))] = rng.choice(b"0123456789'(),<>|fiuUOV{}[]-\x00\xff")
    arrays[i] = bytes(damaged)
    return f"header of array {i}"


# ---------------------------------------------------------------------- use


# What errors in use speak of: numbers that overflow, and parameters that are wrong or changed.
CLEAR = (
    "finite|overflow|must be|changed since|at least two classes|not fitted yet|rounds should be a whole|"
    "raise it, or hash"
)


def try_out(data, path):
    """Load a file that may be anything, and use what comes of it; how that went."""
    path.write_bytes(data)
    try:
        files.load_extras(path)
        model = budgetron.load(path)
    except ModelFileError as error:
        assert str(path) in str(error)  # noqa: PT017
        return "refused"
    again = path.with_name("again")
    budgetron.save(model, again)  # what was loaded can be saved
    if isinstance(model, ExpertAlgorithm):
        steps = uses_of_algorithm(model)
    elif isinstance(model, river.RiverClassifier):
        steps = uses_of_face(model)
    else:
        steps = uses_of_classifier(model)
    said = "used"
    for step in (*steps, lambda: budgetron.save(model, again), lambda: budgetron.load(again)):
        try:
            step()
        except ValueError as error:  # numbers that were changed may overflow or contradict each other
            assert re.search(CLEAR, str(error)), f"unclear: {error!r}"  # noqa: PT017
            said = "used, with errors"
        except MemoryError:
            # Parameters of a model that has learned nothing may ask for anything.
            assert not hasattr(model, "classes_"), "out of memory"
            said = "used, with errors"
    return said


def uses_of_algorithm(model):
    n = getattr(model, "n_experts_", 3)
    advice = np.arange(5 * n).reshape(5, n) % 2.0
    return (
        lambda: model.predict(advice[0]),
        lambda: model.play(advice, np.arange(5) % 2.0),
    )


def uses_of_face(model):
    labels = [*model._labels, "new"]
    rows = [{"a": float(i), "b": -0.5 * i, "d": 1.0} for i in range(6)]
    return (
        lambda: model.predict_one(rows[0]),
        lambda: [model.learn_one(x, labels[i % len(labels)]) for i, x in enumerate(rows)],
        lambda: [model.predict_proba_one(x) for x in rows],
        lambda: model.nbytes_,
    )


def uses_of_classifier(model):
    learned = hasattr(model, "classes_")
    d = model.n_features_in_ if learned else 3
    classes = model.classes_ if learned else np.array([0, 1])
    y = classes[np.arange(40) % len(classes)]
    X = np.random.default_rng(0).normal(size=(40, min(d, 3)))
    if d > 3:
        X = csr_array((X.reshape(-1), np.tile([0, d // 2, d - 1], 40), np.arange(0, 121, 3)), shape=(40, d))
    if d <= 2000:
        X = X.toarray() if d > 3 else X
    one = X[:1] if d > 2000 else X[0]
    uses = [
        lambda: model.partial_fit(X[:5], y[:5], classes=classes),
        lambda: model.decision_function(X[:5]),
        lambda: model.predict(X[:5]),
        lambda: model.partial_fit(X, y),
        lambda: model.predict(X),
    ]
    told = []
    if hasattr(model, "play"):
        told += ["nbytes_"]
        uses.insert(1, lambda: model.play(one, y[0]))
    if hasattr(type(model), "support_"):
        told += ["support_vectors_", "dual_coef_"]
    uses.append(lambda: [getattr(model, name) for name in told if model.__sklearn_is_fitted__()])
    if isinstance(model, CalibratedClassifier):
        uses.append(lambda: model.predict_proba(X))
    return uses


# ---------------------------------------------------------------------- the run


def one(files_, path, seed, number):
    """Carry out an attack: its outcome, or what was wrong."""
    data, done = attack(files_, seed, number)
    started = time.process_time()
    try:
        outcome = try_out(data, path)
    except Exception:
        return "failed", f"{done}\n{traceback.format_exc()}"
    seconds = time.process_time() - started
    if seconds > LONGEST:
        return "failed", f"{done}\nit took {seconds:.1f} s"
    if number % MEASURED == 0:
        most = memory_of_load(path)
        if most > FEW_BYTES + TIMES * len(data):
            return "failed", f"{done}\nloading {len(data)} bytes took {most} bytes"
    return outcome, ""


def memory_of_load(path):
    tracemalloc.start()
    with suppress(ModelFileError):
        budgetron.load(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def worker(connection, seed, start, stop):
    faulthandler.enable()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    files_ = list(originals())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "attack"
        for i, data in enumerate(files_):  # everything is sound, and warm
            outcome = try_out(data, path)
            assert outcome == "used", f"file {i}: {outcome}"
        limit_memory()
        connection.send((start - 1, "ready", ""))
        for number in range(start, stop):
            connection.send((number, *one(files_, path, seed, number)))


def limit_memory():
    """Let what floods the memory fail at once, where the system can see to that."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    limit = pages * os.sysconf("SC_PAGE_SIZE") + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def run(count, seed=0, report=None):
    """Carry out attacks 0 to count - 1: how many went how, and what was wrong with those that failed."""
    outcomes, failures = Counter(), {}
    context = multiprocessing.get_context("spawn")
    number = -1
    while number < count - 1:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=worker, args=(theirs, seed, number + 1, count))
        process.start()
        theirs.close()
        ready = False
        try:
            while number < count - 1 or not ready:
                if not ours.poll(SILENCE):
                    raise TimeoutError
                number, outcome, wrong = ours.recv()
                if outcome == "ready":
                    ready = True
                    continue
                outcomes[outcome] += 1
                if wrong:
                    failures[number] = wrong
                if report:
                    report(number, outcome, wrong)
        except (EOFError, TimeoutError) as error:
            if not ready:
                raise RuntimeError("the files are not sound before any attack") from error
            number += 1
            outcomes["failed"] += 1
            hung = isinstance(error, TimeoutError)
            failures[number] = "it hangs" if hung else "the process died"
            if report:
                report(number, "failed", failures[number])
        finally:
            process.kill()
            process.join()
    return outcomes, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", type=int, nargs=2, metavar=("SEED", "NUMBER"))
    chosen = parser.parse_args()
    if chosen.replay:
        faulthandler.enable()
        files_ = list(originals())
        with tempfile.TemporaryDirectory() as folder:
            print(*one(files_, Path(folder) / "attack", *chosen.replay))
        return

    def report(number, outcome, wrong):
        if wrong:
            print(f"--replay {chosen.seed} {number}: {wrong}", flush=True)
        if number % 1000 == 999:
            print(f"{number + 1} attacks", flush=True)

    outcomes, failures = run(chosen.count, chosen.seed, report)
    print(dict(outcomes))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
