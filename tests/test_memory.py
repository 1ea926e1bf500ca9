"""Memory use: nbytes_ counts all that a model keeps, and a learner with a budget does not grow."""

import gc
import tracemalloc

import numpy as np
import pytest
from cases import CASES, stream, with_budget
from scipy.sparse import csr_array
from test_linear import CASES as LINEAR
from test_linear import make

from budgetron._core.kernel import Kernel
from budgetron._core.one_round import SingleRound
from budgetron._core.rows import Block
from budgetron._core.supports import Supports

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
