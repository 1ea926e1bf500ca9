"""Sparse matrices whose index arrays are invalid: every method refuses them.

A matrix can be damaged after it was made, because its index arrays are ordinary attributes. SciPy does not
look at them again. Each change below damages one index array of a valid matrix.
"""

import numpy as np
import pytest
from scipy.sparse import (
    bsr_array,
    coo_array,
    csc_array,
    csr_array,
    csr_matrix,
    dia_array,
    dok_array,
    lil_array,
)

import budgetron
from budgetron import CalibratedClassifier, games, linear, streams
from budgetron._util.sparse import check_sparse
from budgetron.batch import AveragedClassifier
from budgetron.experts import ExpertClassifier

ROWS, FEATURES = 40, 6


def matrix(kind=csr_array, index=np.int32):
    rng = np.random.default_rng(3)
    X = kind(np.where(rng.random((ROWS, FEATURES)) < 0.5, rng.normal(size=(ROWS, FEATURES)), 0.0))
    if X.format in ("csr", "csc", "bsr"):
        X.indptr, X.indices = X.indptr.astype(index), X.indices.astype(index)
    return X


def labels():
    return np.arange(ROWS) % 2


# Each changes the array in place, or returns another one.
DAMAGES = {
    "huge": lambda a: a.__setitem__(4, 10**6),
    "largest": lambda a: a.__setitem__(4, np.iinfo(a.dtype).max),
    "negative": lambda a: a.__setitem__(4, -3),
    "smallest": lambda a: a.__setitem__(4, np.iinfo(a.dtype).min),
    "last is huge": lambda a: a.__setitem__(-1, 10**6),
    "first is not 0": lambda a: a.__setitem__(0, -1),
    "shorter": lambda a: a[:3].copy(),
    "empty": lambda a: a[:0].copy(),
    "longer": lambda a: np.append(a, a[-1] + 1),
    "fractions": lambda a: a + 0.5,
    "two-dimensional": lambda a: a.reshape(1, -1),
}


def damaged(X, name, damage):
    array = getattr(X, name)
    changed = DAMAGES[damage](array)
    if changed is not None:
        setattr(X, name, changed)
    return X


# More indices than values are allowed, as in SciPy.
INVALID = [
    (name, damage)
    for name in ("indptr", "indices")
    for damage in DAMAGES
    if (name, damage) != ("indices", "longer")
]


MODELS = {
    "kernel": budgetron.Forgetron(5, gamma=0.5),
    "no budget": budgetron.KernelPerceptron(kernel="linear"),
    "linear": linear.Perceptron(),
    "second order": budgetron.SecondOrderProjectron(5, gamma=0.5),
    "portfolio": budgetron.BudgetClassifier("300kB"),
    "calibrated": CalibratedClassifier(budgetron.Stoptron(5, gamma=0.5)),
    "averaged": AveragedClassifier(linear.AROW()),
    "experts": ExpertClassifier([linear.Perceptron(), budgetron.Stoptron(5, gamma=0.5)]),
}


def calls(model):
    """Yield the calls that take rows."""
    y = labels()
    yield "fit", lambda X: model.fit(X, y)
    yield "partial_fit", lambda X: model.partial_fit(X, y, classes=[0, 1])
    yield "progressive_fit", lambda X: model.progressive_fit(X, y)
    yield "decision_function", model.decision_function
    yield "predict", model.predict


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(("name", "damage"), INVALID)
def test_every_method_refuses_invalid_rows(name, damage, index):
    for kind in MODELS:
        model = MODELS[kind].fit(matrix(), labels())
        before = model.decision_function(matrix())
        for call, function in calls(model):
            X = matrix(index=index)
            assert X.has_canonical_format  # SciPy remembers this
            with pytest.raises(ValueError, match=r"^(indptr|indices|X) .*"):
                function(damaged(X, name, damage))
            np.testing.assert_array_equal(model.decision_function(matrix()), before, err_msg=f"{kind} {call}")


@pytest.mark.parametrize(("name", "damage"), INVALID)
@pytest.mark.parametrize("kind", [csc_array, bsr_array])
def test_other_formats_are_checked_before_they_are_converted(kind, name, damage):
    X = damaged(matrix(kind), name, damage)
    for reads in (linear.Perceptron().fit, lambda X, y: streams.arrays(X, y), lambda X, y: games.solve(X)):
        with pytest.raises(ValueError, match=r"(indptr|indices|X) "):
            reads(X, labels())


@pytest.mark.parametrize("value", [-1, FEATURES, 10**6])
@pytest.mark.parametrize("axis", [0, 1])
def test_coordinates_out_of_range(axis, value):
    X = matrix(coo_array)
    X.coords[axis][3] = value if axis else max(value, -1) if value < 0 else ROWS + value
    with pytest.raises(ValueError, match=f"along axis {axis}; entry 3"):
        linear.Perceptron().fit(X, labels())


def test_messages_name_the_row():
    X = matrix()
    X.indptr[8] = 10**6
    with pytest.raises(ValueError, match=r"indptr of X must ascend from 0 to at most \d+.*; row 7 goes from"):
        linear.Perceptron().fit(X, labels())
    X = matrix()
    X.indices[X.indptr[9]] = 77
    with pytest.raises(ValueError, match=r"X must have indices from 0 to 5; row 9 has the index 77"):
        linear.Perceptron().fit(X, labels())


@pytest.mark.parametrize("kind", [name for name in MODELS if name != "experts"])
@pytest.mark.parametrize("damage", ["huge", "negative", "shorter", "empty", "fractions"])
def test_single_rows(kind, damage):
    model = MODELS[kind].fit(matrix(), labels())
    for name in ("indptr", "indices"):
        row = csr_array(np.arange(1.0, FEATURES + 1)[None, :])
        array = getattr(row, name).copy()
        wrong = {"huge": 10**6, "negative": -7}.get(damage)
        if wrong is None:
            array = DAMAGES[damage](array) if damage != "shorter" else array[:1].copy()
        else:
            array[1] = wrong
        setattr(row, name, array)
        rounds = model.rounds_
        with pytest.raises(ValueError, match=r"(indptr|indices|X) "):
            model.play(row, 1)
        assert model.rounds_ == rounds


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("kind", MODELS)
def test_indices_that_were_put_out_of_order(kind, index):
    """The flags that SciPy has cached are not trusted: the result is that of the dense rows."""
    X = matrix(index=index)
    assert X.has_canonical_format
    for i in range(ROWS):
        part = slice(X.indptr[i], X.indptr[i + 1])
        X.indices[part], X.data[part] = X.indices[part][::-1].copy(), X.data[part][::-1].copy()
        X.indices[part][1:2] = X.indices[part][:1]  # the same feature twice: its values are added
    dense = np.zeros(X.shape)
    for i in range(ROWS):
        part = slice(X.indptr[i], X.indptr[i + 1])
        np.add.at(dense[i], X.indices[part], X.data[part])
    unordered = MODELS[kind].fit(X, labels()).decision_function(X)
    np.testing.assert_allclose(
        unordered, MODELS[kind].fit(dense, labels()).decision_function(dense), rtol=1e-6
    )


def test_whether_a_matrix_is_in_order():
    X = matrix(csr_matrix)
    assert check_sparse(X)
    X.indices[X.indptr[4] : X.indptr[5]] = X.indices[X.indptr[4] : X.indptr[5]][::-1].copy()
    assert not check_sparse(X)
    X = matrix()
    begin = next(X.indptr[i] for i in range(ROWS) if X.indptr[i + 1] - X.indptr[i] > 1)
    X.indices[begin + 1] = X.indices[begin]
    assert not check_sparse(X)
    assert check_sparse(csr_array((0, 5)))
    assert check_sparse(csr_array((3, 5)))
    assert not check_sparse(csc_array((3, 5)))


def replaced(X, **attributes):
    for name, value in attributes.items():
        setattr(X, name, value)
    return X


def damaged_lists(indices, values):
    X = matrix(lil_array)
    X.rows[3], X.data[3] = indices, values
    return X


def damaged_keys(key):
    X = matrix(dok_array)
    X._dict[key] = 1.0
    return X


INCONSISTENT = {
    "csr, values of no bytes": lambda: replaced(matrix(), data=np.ones((matrix().nnz, 0))),
    "csr, values in two columns": lambda: replaced(matrix(), data=np.ones((matrix().nnz, 2))),
    "csr, a list": lambda: replaced(matrix(), data=matrix().data.tolist()),
    "csc, nothing": lambda: replaced(matrix(csc_array), data=None),
    "coo, values in two columns": lambda: replaced(matrix(coo_array), data=np.ones((matrix().nnz, 2))),
    "bsr, flat": lambda: replaced(matrix(bsr_array), data=np.ones(matrix(bsr_array).data.size)),
    "bsr, empty blocks": lambda: replaced(
        matrix(bsr_array), data=np.ones((len(matrix(bsr_array).data), 1, 0))
    ),
    "bsr, blocks that do not divide the shape": lambda: replaced(
        matrix(bsr_array), data=np.ones((len(matrix(bsr_array).data), 7, 4))
    ),
    "dia, fewer offsets": lambda: replaced(matrix(dia_array), offsets=matrix(dia_array).offsets[:1]),
    "dia, flat": lambda: replaced(matrix(dia_array), data=np.ones(5)),
    "lil, many values": lambda: damaged_lists([0], [1.0] * 10**6),
    "lil, huge index": lambda: damaged_lists([2**70], [1.0]),
    "lil, negative index": lambda: damaged_lists([-1], [1.0]),
    "lil, no list": lambda: damaged_lists(None, [1.0]),
    "lil, fewer rows": lambda: replaced(
        lil_array(matrix().toarray()), rows=lil_array(matrix().toarray()).rows[:2]
    ),
    "dok, huge index": lambda: damaged_keys((0, 2**70)),
    "dok, negative index": lambda: damaged_keys((-1, 0)),
}


@pytest.mark.parametrize("damage", INCONSISTENT)
def test_parts_that_do_not_fit_together(damage):
    for kind in MODELS:
        model = MODELS[kind].fit(matrix(), labels())
        for call, function in calls(model):
            with pytest.raises(ValueError, match=r"X|row 3"):
                function(INCONSISTENT[damage]())
            assert model.rounds_ == ROWS, (kind, call)
    for reads in (lambda X: streams.arrays(X, labels()), games.solve):
        with pytest.raises(ValueError, match=r"X|row 3"):
            reads(INCONSISTENT[damage]())


@pytest.mark.parametrize(
    "kind", [csr_array, csc_array, coo_array, bsr_array, dia_array, lil_array, dok_array]
)
def test_valid_matrices_of_every_format(kind):
    expected = linear.Perceptron().fit(matrix().toarray(), labels()).coef_
    np.testing.assert_allclose(linear.Perceptron().fit(matrix(kind), labels()).coef_, expected)


@pytest.mark.parametrize("kind", ["calibrated", "averaged"])
@pytest.mark.parametrize("dtype", [np.float16, ">f8", complex, object])
def test_a_wrapper_converts_a_sparse_row_before_it_learns(kind, dtype):
    model = MODELS[kind].fit(matrix(), labels())
    row = matrix()[[1]]
    row.data = row.data.astype(dtype)
    rounds, before = model.rounds_, model.decision_function(matrix())
    try:
        model.play(row, 1)
    except (ValueError, TypeError):
        assert model.rounds_ == rounds
        np.testing.assert_array_equal(model.decision_function(matrix()), before)
    else:
        assert model.rounds_ == rounds + 1
