"""Rows of huge values: what a model accepts it can copy, and what it refuses leaves it unchanged."""

import copy

import numpy as np
import pytest
from scipy.sparse import csr_array
from states import assert_equal, frozen

import budgetron
from budgetron import linear
from budgetron.batch import AveragedClassifier

ROWS, LABELS = np.array([[1.0, 2.0], [2.0, -1.0], [0.5, 1.0]]), [0, 1, 1]


@pytest.mark.parametrize(("dtype", "size"), [(np.float64, 1e200), (np.float32, 1e25)])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_a_support_whose_square_overflows(kernel, dtype, size):
    for play in (False, True):
        model = budgetron.Forgetron(3, kernel=kernel, gamma=0.5)
        row = np.array([size, 1.0], dtype)
        try:
            if play:
                model.play(row, 1, classes=[0, 1])
            else:
                model.partial_fit(row[None], [1], classes=[0, 1])
        except ValueError:
            continue
        copy.deepcopy(model)


@pytest.mark.parametrize("learner", [linear.Perceptron(), linear.OnlineSVM(), linear.AROW()])
def test_large_weights(learner):
    model = copy.deepcopy(learner).fit(ROWS, LABELS)
    row = np.array([1e100, 1.0])
    for label in (0, 1):
        try:
            model.play(row, label)
        except ValueError:
            continue
        copy.deepcopy(model)


@pytest.mark.parametrize(
    "learner",
    [linear.VotedPerceptron(), AveragedClassifier(linear.OnlineSVM()), linear.AROW()],
)
def test_a_row_that_play_refuses_changes_nothing(learner):
    refused = 0
    for size in (1e160, 1e200, 1e308):
        for label in (0, 1):
            model = copy.deepcopy(learner).fit(ROWS, LABELS)
            before = frozen(model)
            try:
                model.play(np.array([size, size / 2]), label)
            except ValueError:
                refused += 1
                assert_equal(before, frozen(model))
    assert refused


@pytest.mark.parametrize(("dtype", "size"), [(np.float64, 1e200), (np.float32, 1e25)])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_the_slab_does_not_grow_for_a_row_that_is_refused(form, dtype, size):
    model = budgetron.KernelPerceptron(gamma=100.0)  # without a budget; every row becomes a support
    rng = np.random.default_rng(0)
    for i in range(200):
        slab = model._learners[0].supports if i else None
        if i and slab.m == slab.capacity:
            before = frozen(model)
            with pytest.raises(ValueError, match="too large"):
                model.play(form(np.array([[size, 1.0]], dtype)), 1)
            assert_equal(before, frozen(model))
            break
        model.play(rng.normal(size=2).astype(dtype), i % 2, classes=[0, 1])
    else:
        raise AssertionError("the slab was never full")
