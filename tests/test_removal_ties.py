"""Batches mean the loop also where values tie: rounding never decides which support is removed."""

import numpy as np
import pytest
from cases import CASES
from scipy.sparse import csr_array

BUDGETED = [label for label, case in CASES.items() if "budget" in case.parameters]


def zeros_and_ones(rng, n=180):
    """Few different rows of 0/1 features, so that most rows are duplicates. Equal rows have equal labels."""
    points = (rng.random((30, 12)) < 0.4).astype(float)
    labels = np.where(points[:, :4].sum(axis=1) + rng.normal(size=30) > 1.6, 1.0, -1.0)
    chosen = rng.integers(30, size=n)
    return points[chosen], labels[chosen]


def duplicates(rng, n=180):
    """Rows of real features, each several times. Equal rows have equal labels."""
    points = rng.normal(size=(30, 5)) @ rng.normal(size=(5, 5))
    labels = np.where(points[:, 0] * points[:, 1] > 0, 1.0, -1.0)
    chosen = rng.integers(30, size=n)
    return points[chosen], labels[chosen]


STREAMS = {"zeros and ones": zeros_and_ones, "duplicates": duplicates}


def learn(model, X, y, size, sparse=False):
    for start in range(0, len(y), size):
        rows = X[start : start + size]
        model.partial_fit(csr_array(rows) if sparse else rows, y[start : start + size], classes=[-1, 1])
    return model


def play(model, X, y):
    for x, label in zip(X, y, strict=True):
        model.play(x, label, classes=[-1, 1])
    return model


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("label", BUDGETED)
def test_every_cut_gives_the_same_supports(label, name, kernel, dtype):
    for seed in range(2):
        X, y = STREAMS[name](np.random.default_rng(seed))
        X = X.astype(dtype)
        case = CASES[label]
        whole = case.model(kernel).fit(X, y)
        others = {size: learn(case.model(kernel), X, y, size) for size in (1, 7, 64)}
        others["one by one"] = play(case.model(kernel), X, y)
        others["sparse"] = learn(case.model(kernel), X, y, 50, sparse=True)
        for cut, other in others.items():
            np.testing.assert_array_equal(other.support_, whole.support_, err_msg=f"{cut}, seed {seed}")
