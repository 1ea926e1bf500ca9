"""Memory use: nbytes_ counts all that a model keeps, and a learner with a budget does not grow."""

import gc
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from cases import CASES, stream, with_budget
from numpy.random import RandomState
from scipy.sparse import csr_array
from sklearn.base import clone
from test_linear import CASES as LINEAR
from test_linear import make

from budgetron import (
    BudgetClassifier,
    CalibratedClassifier,
    ConformalClassifier,
    Forgetron,
    Stoptron,
    kernelized,
    linear,
)
from budgetron._base.access import bytes_needed
from budgetron._core.kernel import Kernel
from budgetron._core.one_round import SingleRound
from budgetron._core.rows import Block
from budgetron._core.supports import Supports
from budgetron._util import memory
from budgetron.batch import AveragedClassifier

BUDGETED = [label for label, case in CASES.items() if with_budget(case, 7)]


def memory_of(model):
    """Return every array that is reachable from the model's learners, and the bytes that are in no array.

    Objects are also found by the garbage collector. Blocks and single rounds have memory without arrays.
    """
    found, bare, seen, pending = {}, 0, set(), list(model._learners)
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Block):
            bare += item.nbytes
        if isinstance(item, SingleRound):
            bare += item.nbytes - item.block.nbytes
        if isinstance(item, np.ndarray):
            found[id(item)] = item
        elif isinstance(item, dict):
            pending.extend(item.values())
        elif type(item).__module__.startswith("budgetron"):
            names = [name for name in dir(item) if not name.startswith("__")]
            values = [getattr(item, name) for name in names if not callable(getattr(item, name))]
            pending.extend(values)
            pending.extend(gc.get_referents(item))
    return list(found.values()), bare


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", CASES)
def test_nbytes_is_the_sum_of_the_parts(label, dtype):
    X, y = stream("random")
    model = CASES[label].model().fit(X.astype(dtype), y)
    arrays, bare = memory_of(model)
    # No array is a view of a larger one. Large arrays have their own memory pages as base.
    assert all(array.base is None or array.base.nbytes == array.nbytes for array in arrays)
    assert model.nbytes_ == bare + sum(array.nbytes for array in arrays)
    slab = model._learners[0].supports
    assert model.nbytes_ >= slab.capacity * slab.d * np.dtype(dtype).itemsize


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("d", [3, 5000])
def test_bytes_of_blocks_and_single_rounds(d, wide, dtype):
    """The bytes that blocks and single rounds report are those that Python's allocator has given them."""
    supports = Supports(Kernel("rbf", 0.5), d, dtype, 200, wide)
    for make_part in (
        lambda: Block(supports.kernel, d, dtype, 40, wide),
        lambda: SingleRound(supports),
    ):
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            part = make_part()
            if wide:
                getattr(part, "block", part).set_nonzeros(np.arange(3, dtype=np.int32), np.ones(3, dtype))
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0] - before
            kept = part.nbytes
            del part
            gc.collect()
            left = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert kept < taken < kept + 2000  # the objects themselves
        assert left < 500


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", LINEAR)
def test_nbytes_of_linear_learners_is_constant(label, dtype):
    X, y = stream("sparse", 700, 1)
    X = X.astype(dtype)
    model = make(label).partial_fit(X[:1], y[:1], classes=[-1, 1])
    sizes = set()
    for start in range(0, 700, 50):
        model.partial_fit(csr_array(X[start : start + 50]), y[start : start + 50])
        model.play(X[start], y[start])
        sizes.add(model.nbytes_)
        assert model.nbytes_ == sum(array.nbytes for array in memory_of(model)[0])
    assert len(sizes) == 1


@pytest.mark.parametrize("unpickle", [False, True])
def test_the_objects_around_a_small_model_take_little_memory(unpickle):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 10)), rng.integers(2, size=60)
    data = pickle.dumps(Forgetron(20, gamma=0.1).fit(X, y))

    def make():
        return pickle.loads(data) if unpickle else Forgetron(20, gamma=0.1).fit(X, y)

    warm = [make() for _ in range(20)]  # what all models share
    gc.collect()
    tracemalloc.start()
    try:
        models = [make() for _ in range(50)]
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] / len(models)
    finally:
        tracemalloc.stop()
    assert len(warm) == 20
    assert taken - models[0].nbytes_ < 4096


@pytest.mark.parametrize("label", BUDGETED)
def test_nbytes_is_constant_with_a_budget(label):
    X, y = stream("random", 700, 1)
    model = with_budget(CASES[label], 7).model()
    model.partial_fit(X[:1], y[:1], classes=[-1, 1])
    sizes = set()
    for start in range(0, 700, 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50])
        model.play(X[start], y[start])
        model.predict(X)
        sizes.add(model.nbytes_)
    assert len(sizes) == 1


def test_slab_grows_by_at_most_half():
    X, y = stream("random", 700, 1)
    model = CASES["pa-i"].model().fit(X, y)
    slab = model._learners[0].supports
    assert slab.m <= slab.capacity <= 1.5 * slab.m + 128


def test_predicting_changes_nothing():
    X, y = stream("random")
    for label, case in CASES.items():
        model = case.model().fit(X, y)
        before = [array.copy() for array in model._learners[0].supports.arrays().values()]
        coef = model.dual_coef_.copy()
        model.predict(X), model.decision_function(X), model.score(X, y)
        for left, right in zip(before, model._learners[0].supports.arrays().values(), strict=True):
            np.testing.assert_array_equal(left, right, err_msg=label)
        np.testing.assert_array_equal(coef, model.dual_coef_)


# ---------------------------------------------------------------------- memory before learning


def learners_with(budget):
    """Return every learner; the kernel learners with this budget, without those that have none."""
    models = [cls() for cls in linear.learners()]
    models += [linear.AROW(covariance="full"), linear.AROW(covariance="diagonal")]
    models += [cls(budget=budget) for cls in kernelized.learners() if "budget" in cls().get_params()]
    models += [kernelized.FOGD(n_components=budget), kernelized.FOGD(n_components=budget, loss="logistic")]
    models += [Forgetron(budget, variant="greedy"), kernelized.SecondOrderProjectron(budget, linear=False)]
    models += [AveragedClassifier(linear.Perceptron()), AveragedClassifier(Stoptron(budget))]
    models += [ConformalClassifier(Forgetron(budget)), ConformalClassifier(linear.AROW(), window=50)]
    return [*models, CalibratedClassifier(Forgetron(budget))]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [60, 1100])
def test_bytes_are_known_before_learning(width, dtype, classes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, width)).astype(dtype), rng.integers(classes, size=150)
    for budget in (40, 200):
        for model in [*learners_with(budget), kernelized.BSGD(budget, "merging")]:
            needed = bytes_needed(model, X, classes)
            assert not hasattr(model, "rounds_")
            assert vars(model).keys() == vars(clone(model)).keys()
            assert needed == pytest.approx(model.fit(X, y).nbytes_, rel=0.04), model


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bytes_for_sparse_supports_are_an_upper_bound(dtype):
    rng = np.random.default_rng(0)
    X = csr_array(np.where(rng.random((400, 2000)) < 0.01, rng.normal(size=(400, 2000)), 0.0).astype(dtype))
    y = rng.integers(2, size=400)
    # Without BSGD with "merging", whose supports get the non-zeros of more and more rows.
    for model in learners_with(200):
        needed = bytes_needed(model, X, 2)
        model.fit(X, y).play(X[:1], y[0])
        assert 0.99 * model.nbytes_ <= needed <= 2 * model.nbytes_, model


def test_the_estimate_of_a_learner_without_a_budget_is_its_size_at_the_start():
    X, y = stream("random", 2)
    for cls in (kernelized.KernelPerceptron, kernelized.ShrinkingPerceptron):
        assert bytes_needed(cls(), X, 2) == cls().fit(X, y).nbytes_


def test_the_estimate_of_a_budget_classifier_is_its_memory():
    X = np.zeros((1, 20))
    assert bytes_needed(BudgetClassifier("1MB"), X, 3) == 2**20
    with pytest.raises(ValueError, match="memory must be at least"):
        bytes_needed(BudgetClassifier("1kB"), X, 3)


def test_the_estimate_draws_no_random_numbers():
    source, X = RandomState(0), np.zeros((1, 3))
    for model in (kernelized.RandomizedBudgetPerceptron, BudgetClassifier):
        bytes_needed(model(random_state=source), X, 2)
    assert source.randint(2**30) == RandomState(0).randint(2**30)


def test_a_huge_estimate_allocates_little():
    X = csr_array((1, 50_000))
    gc.collect()
    tracemalloc.start()
    try:
        assert bytes_needed(linear.AROW(covariance="full"), X, 4) > 8 * 50_000**2 / 2
        assert bytes_needed(Forgetron(10**7, kernel="linear"), X, 2) > 8 * 10**7
        assert bytes_needed(Forgetron(10**6), np.zeros((1, 2000)), 2) > 8 * 10**6 * 2000
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Return a function that writes the files of a system, instead of those of this one."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "groups")

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def test_available_memory_of_the_machine(system):
    system({"proc/meminfo": "MemTotal: 4000 kB\nMemAvailable: 3000 kB\n"})
    assert memory.available_bytes() == 3000 * 1024


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        # Version 2: the limit of the outer group, and file pages that can be freed
        (
            {
                "proc/self/cgroup": "0::/outer/inner\n",
                "groups/outer/inner/memory.max": "max\n",
                "groups/outer/memory.max": "1000000\n",
                "groups/outer/memory.current": "700000\n",
                "groups/outer/memory.stat": "anon 5\ninactive_file 50000\n",
            },
            350_000,
        ),
        # Version 1
        (
            {
                "proc/self/cgroup": "4:memory:/one\n1:cpu:/two\n0::/\n",
                "groups/memory/one/memory.limit_in_bytes": "900000\n",
                "groups/memory/one/memory.usage_in_bytes": "800000\n",
                "groups/memory/one/memory.stat": "inactive_file 7\ntotal_inactive_file 1000\n",
            },
            101_000,
        ),
        # More is used than the limit allows
        (
            {
                "proc/self/cgroup": "0::/\n",
                "groups/memory.max": "1000\n",
                "groups/memory.current": "3000\n",
                "groups/memory.stat": "inactive_file 0\n",
            },
            0,
        ),
    ],
)
def test_available_memory_of_control_groups(system, groups, expected):
    system({"proc/meminfo": "MemAvailable: 3000 kB\n"} | groups)
    assert memory.available_bytes() == expected


def test_available_memory_with_a_limit_of_address_space(system, monkeypatch):
    resource = pytest.importorskip("resource", reason="there are no limits of address space on this system")
    system({"proc/meminfo": "MemAvailable: 3000000 kB\n", "proc/self/statm": "1000 20 3\n"})
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (2**30, 2**30))
    assert memory.available_bytes() == 2**30 - 1000 * os.sysconf("SC_PAGE_SIZE")
