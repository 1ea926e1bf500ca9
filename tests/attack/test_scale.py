"""Very wide rows, very long runs of one class, very many models, and several threads."""

import gc
import os
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import budgetron
from budgetron import BudgetClassifier, CalibratedClassifier, kernelized, linear
from budgetron._base.access import bytes_needed
from budgetron.batch import AveragedClassifier

# ---------------------------------------------------------------------- 50,000 features

WIDTH, CLASSES = 50_000, 3


def wide_rows(kind, n=48):
    """Return rows of 50,000 features, with labels that depend on the first ones."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % CLASSES
    if kind == "dense":
        X = rng.normal(size=(n, WIDTH))
        X[np.arange(n), y] += 400.0
        return X, y
    places = rng.integers(WIDTH, size=(n, 40))
    rows = np.repeat(np.arange(n), 40)
    X = csr_array((np.ones(rows.size), (rows, places.ravel())), shape=(n, WIDTH))
    return csr_array(X + csr_array((np.full(n, 9.0), (np.arange(n), y)), shape=(n, WIDTH))), y


def every_learner(budget):
    yield from (cls() for cls in linear.learners())
    for cls in kernelized.learners():
        yield cls(budget=budget) if "budget" in cls().get_params() else cls()
    yield from (AveragedClassifier(linear.AROW()), CalibratedClassifier(linear.AROW()))
    yield BudgetClassifier(random_state=0)


@pytest.mark.parametrize("kind", ["dense", "CSR"])
def test_rows_of_50000_features(kind):
    X, y = wide_rows(kind)
    for model in every_learner(20):
        most = 1.05 * max(bytes_needed(model, X, CLASSES), 16 << 20)
        model.partial_fit(X[:32], y[:32], classes=range(CLASSES)).partial_fit(X[32:], y[32:])
        model.play(X[:1], y[0])
        assert np.isfinite(model.decision_function(X)).all(), model
        if "budget" in model.get_params() or not hasattr(model, "support_"):
            assert model.nbytes_ < most, model


def test_a_budget_classifier_says_how_much_memory_wide_rows_need():
    X, y = wide_rows("CSR")
    message = r"at least ([0-9,]+) bytes for 3 classes and rows of 50,000 features"
    with pytest.raises(ValueError, match=message) as raised:
        BudgetClassifier("1MB").fit(X, y)
    needed = int(re.search(message, str(raised.value))[1].replace(",", ""))
    assert needed < 10 << 20
    assert BudgetClassifier(needed).fit(X, y).nbytes_ <= needed


# ---------------------------------------------------------------------- a million rows of one class

ROWS = 1_000_000


@pytest.fixture(scope="module")
def two_clouds():
    """Return a million rows of the class 1, and 3,000 rows of the class 0."""
    rng = np.random.default_rng(0)
    clouds = rng.normal(size=(ROWS, 4)), rng.normal(size=(3000, 4))
    for rows, centre in zip(clouds, (1.5, -1.5), strict=True):
        rows[:, 0] += centre
        rows[:, 3] = 1.0
    return clouds


# Learners, rows of the first class, and the largest error in the last 1,000 rows of the other class.
# AROW adapts slowly after so many margin errors, and the step of BSGD is proportional to the inverse of the
# number of rounds, as their documentation says.
ONE_CLASS = {
    **{f"linear.{cls.__name__}": (cls(), ROWS, 0.1) for cls in linear.learners() if cls is not linear.AROW},
    "linear.AROW": (linear.AROW(), 3000, 0.1),
    "linear.AROW, long": (linear.AROW(), ROWS, 1.0),
    "linear.AROW, diagonal": (linear.AROW(covariance="diagonal"), 20_000, 0.1),
    **{
        cls.__name__: (
            cls(gamma=0.2, budget=20) if "budget" in cls().get_params() else cls(gamma=0.2),
            ROWS,
            0.1,
        )
        for cls in kernelized.learners()
        if cls is not kernelized.BSGD
    },
    "BSGD": (kernelized.BSGD(20, gamma=0.2), 1000, 0.1),
    "BSGD, long": (kernelized.BSGD(20, gamma=0.2), ROWS, 1.0),
    "calibrated": (CalibratedClassifier(kernelized.Forgetron(20, gamma=0.2)), ROWS, 0.1),
    "averaged": (AveragedClassifier(linear.Perceptron()), ROWS, 0.1),
    "budget": (BudgetClassifier("300kB", random_state=0), 5000, 0.1),
}


@pytest.mark.parametrize("label", ONE_CLASS)
def test_one_class_for_a_long_time(label, two_clouds):
    model, n, most = ONE_CLASS[label]
    first, other = two_clouds
    model.partial_fit(first[:n], np.ones(n, int), classes=[0, 1])
    trace = model.progressive_fit(other, np.zeros(len(other), int))
    assert np.isfinite(trace.margins).all()
    assert trace.mistakes[-1000:].mean() <= most
    rows, labels = np.vstack([first[:200], other[:200]]), np.repeat([1, 0], 200)
    model.partial_fit(rows, labels)
    assert np.isfinite(model.decision_function(rows)).all()
    if hasattr(model, "predict_proba"):
        assert np.isfinite(model.predict_proba(rows)).all()
    state = model.__getstate__()  # and the state is one that can be restored
    type(model).__new__(type(model)).__setstate__(state)


# ---------------------------------------------------------------------- many models in one process


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="counts the resources of Linux")
def test_two_hundred_budget_classifiers(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 6))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)

    def used():
        gc.collect()
        maps = len(Path("/proc/self/maps").read_text().splitlines())
        return maps, len(os.listdir("/proc/self/fd")), threading.active_count()

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    BudgetClassifier("200kB", random_state=0).fit(X, y)
    before, memory = used(), resident()
    models = [BudgetClassifier("200kB", random_state=i) for i in range(200)]
    for rows in (slice(0, 60), slice(60, 80)):  # kernel experts start within the second part
        for model in models:
            model.partial_fit(X[rows], y[rows], classes=[0, 1])
    for t in (80, 81):
        for model in models:
            model.play(X[t], y[t])
    total = sum(model.nbytes_ for model in models)
    assert max(model.nbytes_ for model in models) <= 200 * 1024
    # Some arrays share a page with others, and every object has a header.
    assert resident() - memory < 2 * total + 200 * 100_000
    for i in range(0, 200, 10):
        budgetron.save(models[i], tmp_path / f"{i}")
        loaded = budgetron.load(tmp_path / f"{i}")
        assert loaded.play(X[82], y[82]) == models[i].play(X[82], y[82])
    maps, descriptors, threads = used()
    assert maps < before[0] + 200 * 20
    assert (descriptors, threads) == before[1:]


# ---------------------------------------------------------------------- threads


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "CSR"])
def test_threads_change_no_more_than_the_last_bits(kind, dtype, classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 400)).astype(dtype)
    y = rng.integers(classes, size=700)
    if kind == "CSR":
        X = csr_array(np.where(rng.random(X.shape) < 0.3, X, 0.0).astype(dtype))
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for cls in kernelized.learners():
        if cls is kernelized.FOGD:  # it stores no rows, and has no threads
            continue
        options = {"budget": 300} if "budget" in cls().get_params() else {}
        if cls is kernelized.Ahpatron:
            options["budget"] = 520  # it removes half of the supports at once
        if cls is kernelized.AUCMaximizer:
            options["eta"] = 0.1  # with larger steps, two of these rows are enough to have no loss any more
        if "random_state" in cls().get_params():
            options["random_state"] = 0
        runs = []
        for threads in (1, 2, 4, 4):
            model = cls(n_jobs=threads, **options)
            trace = model.progressive_fit(X, y)
            runs.append((model, trace.margins, model.decision_function(X)))
        assert len(runs[0][0].support_) >= 256  # from this number on, threads are used
        for model, margins, values in runs[1:]:
            np.testing.assert_array_equal(model.support_, runs[0][0].support_)
            assert model.mistakes_ == runs[0][0].mistakes_
            for found, expected in ((margins, runs[0][1]), (values, runs[0][2])):
                scale = max(1.0, np.abs(expected).max())
                np.testing.assert_allclose(found, expected, atol=tolerance * scale, rtol=0.0)
        # The same number of threads gives the same bits.
        np.testing.assert_array_equal(runs[2][1], runs[3][1])
        np.testing.assert_array_equal(runs[2][2], runs[3][2])
