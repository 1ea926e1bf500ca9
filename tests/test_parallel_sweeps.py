"""`compare` and `tune` divide their learners among the jobs of joblib, with every backend."""

from contextlib import contextmanager

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.linear_model import SGDClassifier

from budgetron import Forgetron, KernelPerceptron, RemoveOldestPerceptron, SecondOrderProjectron
from budgetron._evaluation import parallel
from budgetron._evaluation.parallel import groups_of
from budgetron.evaluate import compare, tune
from budgetron.linear import AROW
from budgetron.streams import arrays

CLASSES = [0, 1, 2]


def stream(n=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] * X[:, 1] > 0.0).astype(int) + (X[:, 2] > 1.0)


def learners():
    return {
        "small": Forgetron(10, gamma=0.5),
        "large": Forgetron(40, gamma=0.5),
        "oldest": RemoveOldestPerceptron(20, gamma=0.5),
        "scale": KernelPerceptron(),
        "second order": SecondOrderProjectron(15, gamma=0.5),
        "linear": AROW(),
        "scikit-learn": SGDClassifier(random_state=0),
    }


@contextmanager
def dask():
    distributed = pytest.importorskip("distributed")
    # Both listen on loopback only, and end with the context.
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            worker_dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster),
        parallel_config("dask"),
    ):
        yield


def joblib(backend):
    return dask() if backend == "dask" else parallel_config(backend, n_jobs=2)


def same(one, other, X):
    """Whether two comparisons have the same results and models, bit for bit, in the same order."""
    for a, b in zip(one, other, strict=True):
        assert a.name == b.name
        assert np.array_equal(a.confusion, b.confusion)
        assert {name: values.tolist() for name, values in a.curve.items()} == {
            name: values.tolist() for name, values in b.curve.items()
        }
        assert np.array_equal(a.model.decision_function(X), b.model.decision_function(X))


@pytest.mark.parametrize("backend", ["loky", "threading", "dask"])
def test_every_backend_gives_the_results_of_one_process(backend, monkeypatch):
    # Several parts of the stream are sent one after the other.
    monkeypatch.setattr(parallel, "ROWS_AT_A_TIME", 200)
    X, y = stream()
    blocks = arrays(X, y, block=90)
    alone = compare(learners(), blocks, share=False)
    late = compare(learners(), blocks, delay=7)
    grid = {"budget": [5, 30], "gamma": [0.1, 1.0]}
    grids = tune(Forgetron(), (X, y), grid)
    with joblib(backend):
        same(alone, compare(learners(), blocks, share=False), X)
        same(late, compare(learners(), blocks, delay=7), X)
        shared = compare(learners(), blocks)
        tuned = tune(Forgetron(), (X, y), grid)
    # Kernel values that are shared are computed in another order.
    assert [result.mistakes for result in shared] == [result.mistakes for result in alone]
    assert [(result.name, result.mistakes) for result in tuned] == [
        (result.name, result.mistakes) for result in grids
    ]


def test_n_jobs_is_an_argument_too():
    X, y = stream(300)
    one, two = (compare(learners(), (X, y), share=False, n_jobs=n) for n in (1, 2))
    same(one, two, X)
    seen = []
    compare(learners(), (X, y), n_jobs=2, watch=lambda results: seen.append(results[0].rounds))
    assert seen == [300]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_names_the_row_of_the_stream(jobs):
    """Not the row of its block, whatever the number of processes."""
    X, y = stream(300)
    X[200, 1] = 1e200
    with parallel_config("loky", n_jobs=jobs), pytest.raises(ValueError, match="feature 1 of row 200 is"):
        compare({"a": AROW(), "b": Forgetron(5)}, arrays(X, y, block=90))


@pytest.mark.parametrize("jobs", range(1, 8))
@pytest.mark.parametrize("share", [True, False])
def test_groups(jobs, share):
    groups = groups_of(learners(), jobs, share)
    assert sorted(name for group in groups for name in group) == sorted(learners())
    assert len(groups) == jobs
    assert all(groups)
    if share and jobs <= 4:
        (together,) = [group for group in groups if "small" in group]
        assert {"large", "oldest", "second order"} <= set(together)
    if not share or jobs > 4:
        assert max(map(len, groups)) - min(map(len, groups)) <= 1


def test_tune_tries_every_combination():
    X, y = stream(300)
    tuned = tune(Forgetron(), (X, y), {"gamma": [0.1, 1.0], "budget": [5, 30]})
    names = ["gamma=0.1, budget=5", "gamma=0.1, budget=30", "gamma=1.0, budget=5", "gamma=1.0, budget=30"]
    assert [result.name for result in tuned] == names
    assert [(result.model.gamma, result.model.budget) for result in tuned] == [
        (0.1, 5),
        (0.1, 30),
        (1.0, 5),
        (1.0, 30),
    ]
    expected = compare([Forgetron(30, gamma=1.0)], (X, y))[0].mistakes
    assert tuned["gamma=1.0, budget=30"].mistakes == expected
    for grid in ({}, {"budget": []}):
        with pytest.raises(ValueError, match="grid must have"):
            tune(Forgetron(), (X, y), grid)
    with pytest.raises(ValueError, match="depth"):
        tune(Forgetron(), (X, y), {"depth": [1]})
