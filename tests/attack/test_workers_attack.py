"""Models in worker processes of joblib and in forked children: the results are those of one process."""

import copy
import os
import subprocess
import sys

import joblib
import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict

import budgetron
from budgetron import linear
from budgetron.batch import AveragedClassifier

MODELS = {
    "forgetron": budgetron.Forgetron(30, gamma=0.05),
    "rbp": budgetron.RandomizedBudgetPerceptron(30, gamma=0.05, random_state=0),
    "projectron++": budgetron.ProjectronPlusPlus(budget=30, gamma=0.05),
    "second order": budgetron.SecondOrderProjectron(budget=30, gamma=0.05),
    "arow": linear.AROW(),
    "averaged": AveragedClassifier(budgetron.Forgetron(20, gamma=0.05)),
    "experts": budgetron.experts.ExpertClassifier([budgetron.Forgetron(10), linear.AROW()]),
    "budget": budgetron.BudgetClassifier(memory="256kB"),
}


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).normal(size=(400, 12))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.fixture(scope="module", autouse=True)
def workers():
    """Let joblib start two processes and pass arrays of more than 100 bytes as read-only memory maps."""
    with parallel_config(backend="loky", n_jobs=2, max_nbytes=100):
        yield
    get_reusable_executor().shutdown(wait=True)


def continued(model, X, y):
    """Learn more rows; return margins, the process, and whether the rows were writeable."""
    model.partial_fit(X, y)
    return model.decision_function(X), os.getpid(), X.flags.writeable


@pytest.mark.parametrize("name", MODELS)
def test_fitted_models_continue_in_workers(name, rows):
    X, y = rows
    model = clone(MODELS[name]).fit(X[:200], y[:200])
    before = model.decision_function(X)
    expected, here, _ = continued(copy.deepcopy(model), X[200:], y[200:])
    for margins, process, writeable in Parallel(timeout=100)(
        delayed(continued)(model, X[200:], y[200:]) for _ in range(2)
    ):
        assert process != here
        assert not writeable
        np.testing.assert_array_equal(margins, expected)
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_cross_validation_and_grid_search(rows):
    X, y = rows
    for model in (MODELS["forgetron"], MODELS["budget"]):
        expected = cross_val_predict(model, X, y, cv=3, method="decision_function", n_jobs=1)
        actual = cross_val_predict(model, X, y, cv=3, method="decision_function", n_jobs=2)
        np.testing.assert_array_equal(actual, expected)
    grid = {"budget": [10, 40], "gamma": [0.01, 0.1]}
    alone, shared = (GridSearchCV(MODELS["forgetron"], grid, cv=2, n_jobs=n).fit(X, y) for n in (1, 2))
    assert alone.best_params_ == shared.best_params_
    np.testing.assert_array_equal(alone.cv_results_["mean_test_score"], shared.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(alone.best_estimator_.dual_coef_, shared.best_estimator_.dual_coef_)


def fitted(model, X, y):
    model = clone(model).fit(X, y)
    return model.dual_coef_, model.decision_function(X)


def test_threads_in_workers():
    X = np.random.default_rng(0).normal(size=(3000, 100))  # enough rows to start threads
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = budgetron.Forgetron(1500, gamma=0.005, n_jobs=2)
    expected = fitted(model, X, y)
    for actual in Parallel(timeout=100)(delayed(fitted)(model, X, y) for _ in range(2)):
        np.testing.assert_array_equal(actual[0], expected[0])
        np.testing.assert_array_equal(actual[1], expected[1])


@pytest.mark.parametrize("name", MODELS)
def test_models_with_read_only_memory_maps(name, rows, tmp_path):
    X, y = rows
    model = clone(MODELS[name]).fit(X[:200], y[:200])
    joblib.dump(model, tmp_path / "m")
    loaded = joblib.load(tmp_path / "m", mmap_mode="r")
    expected, actual = (continued(each, X[200:], y[200:])[0] for each in (model, loaded))
    np.testing.assert_array_equal(actual, expected)


def test_no_process_remains():
    script = """
import sys
from joblib import Parallel, delayed
from test_workers_attack import MODELS, fitted, np

X = np.random.default_rng(0).normal(size=(100, 3))
Parallel(2, backend="loky", max_nbytes=100)(
    delayed(fitted)(MODELS["forgetron"], X, X[:, 0] > 0) for _ in range(2)
)
"""
    path = os.pathsep.join(map(str, [os.path.dirname(__file__), *sys.path]))
    # The output is a pipe, which all processes share. It is closed when the last one has ended.
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, env=os.environ | {"PYTHONPATH": path}, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()


FORK = """
import copy, os, signal, threading
from budgetron import load, save
from budgetron._persistence import container
from test_workers_attack import MODELS, budgetron, clone, np

X = np.random.default_rng(0).normal(size=(2000, 60))
y = (X[:, 0] * X[:, 1] > 0).astype(int)
ended = threading.Event()


def learn_on():
    other = budgetron.Forgetron(500, gamma=0.01, n_jobs=2)
    while not ended.is_set():
        other.partial_fit(X[:500], y[:500], classes=[0, 1])


def continued(model):
    model.partial_fit(X[1000:], y[1000:])
    return model.decision_function(X).tobytes()


def in_child(function, expected):
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs is killed
        os._exit(0 if function() == expected else 3)
    return child


thread = threading.Thread(target=learn_on)
thread.start()
try:
    for name in ("forgetron", "second order", "budget", "arow"):
        model = clone(MODELS[name]).fit(X[:1000], y[:1000])
        expected = continued(copy.deepcopy(model))
        children = [in_child(lambda: continued(model), expected) for _ in range(2)]
        assert continued(model) == expected, name
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert codes == [0, 0], (name, codes)
finally:
    ended.set()
    thread.join()

save(model, "model")
with container._header_lock:  # as if another thread were loading a model
    child = in_child(lambda: load("model").decision_function(X).tobytes(), expected)
assert os.waitpid(child, 0)[1] == 0, "load waits for a thread that the child does not have"
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_and_its_parent_continue(tmp_path):
    path = os.pathsep.join(map(str, [os.path.dirname(__file__), *sys.path]))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        capture_output=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        timeout=100,
    )
    assert done.returncode == 0, done.stderr.decode()
