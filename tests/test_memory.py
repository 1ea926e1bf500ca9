"""Memory: every byte is counted, and none is added once the budget is full."""

import gc

import numpy as np
import pytest
from cases import CASES, stream, with_budget
from scipy.sparse import csr_array
from test_linear import CASES as LINEAR
from test_linear import make

BUDGETED = [label for label, case in CASES.items() if with_budget(case, 7)]


def arrays_of(model):
    """Every array that can be reached from the model's learners, found by the garbage collector's eyes."""
    found, seen, todo = {}, set(), list(model._learners)
    while todo:
        thing = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            found[id(thing)] = thing
        elif isinstance(thing, dict):
            todo.extend(thing.values())
        elif type(thing).__module__.startswith("budgetron"):
            names = [name for name in dir(thing) if not name.startswith("__")]
            values = [getattr(thing, name) for name in names if not callable(getattr(thing, name))]
            todo.extend(values)
            todo.extend(gc.get_referents(thing))
    return list(found.values())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", CASES)
def test_nbytes_is_the_sum_of_the_arrays(label, dtype):
    X, y = stream("random")
    model = CASES[label].model().fit(X.astype(dtype), y)
    arrays = arrays_of(model)
    # Nobody's view of something larger; large ones have pages of their own
    assert all(array.base is None or array.base.nbytes == array.nbytes for array in arrays)
    assert model.nbytes_ == sum(array.nbytes for array in arrays)
    slab = model._learners[0].supports
    assert model.nbytes_ >= slab.capacity * slab.d * np.dtype(dtype).itemsize


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", LINEAR)
def test_linear_learners_do_not_grow(label, dtype):
    X, y = stream("sparse", 700, 1)
    X = X.astype(dtype)
    model = make(label).partial_fit(X[:1], y[:1], classes=[-1, 1])
    sizes = set()
    for start in range(0, 700, 50):
        model.partial_fit(csr_array(X[start : start + 50]), y[start : start + 50])
        model.play(X[start], y[start])
        sizes.add(model.nbytes_)
        assert model.nbytes_ == sum(array.nbytes for array in arrays_of(model))
    assert len(sizes) == 1


@pytest.mark.parametrize("label", BUDGETED)
def test_nbytes_is_constant(label):
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


def test_the_slab_grows_by_half_and_no_more():
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
