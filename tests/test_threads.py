"""Thread safety as documented in docs/threads.md, with and without the global interpreter lock."""

import copy
import os
import pickle
import pkgutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from functools import partial

import fleet_identity
import numpy as np
import pytest
from cases import CASES, stream
from scipy.sparse import csr_array
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

import budgetron
from budgetron import Forgetron, batch, evaluate, experts, games, linear
from budgetron._persistence import container
from budgetron._util import threads
from budgetron._util.interrupts import defer_interrupts
from budgetron.fleet import Fleet

ROWS, CUT, THREADS = 240, 40, 8
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.fixture(autouse=True)
def _switch_threads_often():
    # With the lock, threads switch every 5 ms. A batch takes less, so races would not show.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def run_in_threads(jobs):
    """Run the jobs in threads that start together. Return their results, or raise the first error."""
    jobs, results, errors = list(jobs), {}, []
    gate = threading.Barrier(min(THREADS, len(jobs)))

    def work(first):
        try:
            gate.wait()
            for i in range(first, len(jobs), gate.parties):
                results[i] = jobs[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(gate.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[i] for i in range(len(jobs))]


def streams(turn=0):
    """Return streams of every kind, rotated by `turn` rows so that mixed-up rows are detected."""
    X, y = (np.roll(part, turn, axis=0) for part in stream("random", ROWS, 1))
    sparse, tags = (np.roll(part, turn, axis=0) for part in stream("sparse", ROWS, 1))
    return {
        "dense": (X, y),
        "single": (X.astype(np.float32), y),
        "CSR": (csr_array(sparse), tags),
        "three classes": (X, np.digitize(X[:, 0], [-0.5, 0.5])),
    }


def models():
    """Return every learner on every kind of rows: by name, a function to make it and its stream."""
    makers = {label: case.model for label, case in CASES.items()}
    makers |= {f"linear {learner.__name__}": learner for learner in linear.learners()}
    forgetron = budgetron.Forgetron(10, gamma=0.5)
    makers |= {
        "callable": partial(CASES["pa-i"].model, "callable"),
        "averaged": lambda: batch.AveragedClassifier(clone(forgetron)),
        "penalized": lambda: batch.PenalizedRiskClassifier(clone(forgetron)),
        "experts": lambda: experts.ExpertClassifier([clone(forgetron), linear.Perceptron()]),
    }
    # Ordered by kind, so that models on rows of one kind learn at the same time.
    return {
        (label, kind): (make, streams(7 * turn)[kind])
        for kind in streams()
        for turn, (label, make) in enumerate(makers.items())
    }


def learn(model, X, y):
    classes = np.unique(y)
    for start in range(0, len(y), CUT):
        rows = slice(start, start + CUT)
        model.partial_fit(X[rows], y[rows], classes=classes)
        model.predict(X[:CUT])
    return model


def assert_same(model, other, X, name):
    assert (model.rounds_, model.mistakes_) == (other.rounds_, other.mistakes_), name
    if hasattr(model, "support_"):
        np.testing.assert_array_equal(model.support_, other.support_, err_msg=str(name))
    np.testing.assert_allclose(
        model.decision_function(X), other.decision_function(X), rtol=1e-10, atol=1e-12, err_msg=str(name)
    )


def test_models_learn_in_parallel():
    alone = {name: learn(make(), *data) for name, (make, data) in models().items()}
    together = run_in_threads(partial(learn, make(), *data) for make, data in models().values())
    for (name, (_, (X, _))), model in zip(models().items(), together, strict=True):
        assert_same(model, alone[name], X, name)


def test_models_play_in_parallel():
    X, y = stream("random", ROWS, 1)
    makers = [case.model for case in CASES.values()] + linear.learners()

    def play(make):
        model = make()
        return [model.play(x, label, classes=[-1, 1]) for x, label in zip(X, y, strict=True)]

    alone = [play(make) for make in makers]
    together = run_in_threads(partial(play, make) for make in makers)
    np.testing.assert_allclose(together, alone, rtol=1e-10, atol=1e-12)


def test_models_that_share_a_random_state():
    # NumPy locks the shared generator. The order of the threads decides which numbers each model gets.
    X, y = stream("random", ROWS, 1)

    def runs(source, run):
        return run(
            partial(learn, budgetron.RandomizedBudgetPerceptron(10, gamma=0.5, random_state=source), X, y)
            for _ in range(THREADS)
        )

    one_by_one = runs(np.random.RandomState(0), lambda jobs: [job() for job in jobs])
    together = runs(np.random.RandomState(0), run_in_threads)
    assert len({model.mistakes_ for model in one_by_one}) > 1
    expected = sorted(model.support_.tolist() for model in one_by_one)
    assert sorted(model.support_.tolist() for model in together) == expected


READERS = ["pa-i", "random modified", "linear AROW", "averaged", "penalized", "experts"]


@pytest.mark.parametrize("label", READERS)
@pytest.mark.parametrize("rows", ["CSR", "three classes"])
def test_one_model_is_read_by_many_threads(label, rows, tmp_path):
    make, (X, y) = models()[label, rows]
    model = learn(make(), X, y)
    expected, score = model.decision_function(X), model.score(X, y)

    def saved(i):
        budgetron.save(model, tmp_path / f"{i}")
        return budgetron.load(tmp_path / f"{i}").decision_function(X)

    jobs = [
        *[partial(model.decision_function, X)] * THREADS,
        *[lambda: pickle.loads(pickle.dumps(model)).decision_function(X)] * 2,
        *[lambda: copy.deepcopy(model).decision_function(X)] * 2,
        *[lambda: learn(clone(model), X, y).decision_function(X)] * 2,
        *[partial(saved, i) for i in range(2)],
    ]
    for values in run_in_threads(jobs):
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12)
    assert run_in_threads([partial(model.score, X, y)] * THREADS) == [score] * THREADS
    np.testing.assert_array_equal(model.decision_function(X), expected)  # the model has not changed


@pytest.mark.parametrize("name", ["forgetron", "randomized", "arow"])
@pytest.mark.parametrize("common", [False, True])
def test_one_fleet_is_read_by_many_threads(name, common):
    keys, X, y = fleet_identity.stream(2000, keys=50)
    helped = {"common": Forgetron(20, gamma=0.3)} if common else {}
    fleet = Fleet(fleet_identity.LEARNERS[name], **helped).partial_fit(keys, X, y, classes=[0, 1])
    keys, X = np.tile(keys, 10), np.tile(X, (10, 1))  # so that threads change during a call
    expected, models = fleet.decision_function(keys, X), {key: fleet[key] for key in range(50)}

    def read_models():
        for key, model in models.items():
            fleet_identity.assert_same(fleet[key], model)

    jobs = [partial(fleet.decision_function, keys, X), read_models] * THREADS
    for values in run_in_threads(jobs)[::2]:
        np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(fleet.decision_function(keys, X), expected)


def test_save_while_other_models_learn(tmp_path):
    X, y = stream("random", ROWS, 1)
    make = CASES["forgetron self-tuned"].model

    def learn_and_save(i):
        model = make()
        for start in range(0, ROWS, CUT):
            model.partial_fit(X[start : start + CUT], y[start : start + CUT], classes=[-1, 1])
            budgetron.save(model, tmp_path / f"{i}")
            model = budgetron.load(tmp_path / f"{i}")
        return model

    alone = learn(make(), X, y)
    for model in run_in_threads(partial(learn_and_save, i) for i in range(THREADS)):
        assert_same(model, alone, X, "saved")


@pytest.fixture
def handlers():
    """Restore the signal handlers after the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_is_not_lost_if_its_block_fails(number, handlers):
    handled = []

    def fail():
        with defer_interrupts(), defer_interrupts():
            signal.raise_signal(number)
            signal.raise_signal(number)
            assert not handled
            raise ValueError("wrong")

    signal.signal(number, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        fail()
    assert signal.getsignal(number) is signal.default_int_handler
    signal.signal(number, lambda *args: handled.append(args))
    with pytest.raises(ValueError, match="wrong"):
        fail()
    assert len(handled) == 2


@pytest.mark.parametrize("numbers", [(signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)])
def test_two_different_interrupts(numbers, handlers):
    def learn():
        with defer_interrupts():
            for number in numbers:
                signal.raise_signal(number)

    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        learn()
    assert [signal.getsignal(number) for number in numbers] == [signal.default_int_handler] * 2


def test_an_interrupt_while_handlers_are_restored(handlers, monkeypatch):
    """Python calls the handlers of earlier signals before it changes a handler."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    original, inside = signal.signal, []

    def signalled(number, handler):
        if number == signal.SIGINT and inside == ["once"]:
            inside.append("again")
            signal.raise_signal(signal.SIGTERM)
        return original(number, handler)

    monkeypatch.setattr(signal, "signal", signalled)
    with pytest.raises(KeyboardInterrupt), defer_interrupts():
        inside.append("once")
    monkeypatch.undo()
    for number in (signal.SIGINT, signal.SIGTERM):
        assert signal.getsignal(number) is signal.default_int_handler


def test_signals_without_a_handler_are_not_deferred(handlers):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with defer_interrupts():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_interrupted_fit_keeps_the_old_model(monkeypatch):
    X, y = stream("random", ROWS, 1)
    model = learn(CASES["forgetron self-tuned"].model(), X, y)
    expected = model.decision_function(X)

    def interrupt(*args, **options):
        raise KeyboardInterrupt

    for name in ("_check_labelled_rows", "_start", "_rounds", "_close_batch"):
        with monkeypatch.context() as patch:
            patch.setattr(type(model), name, interrupt)
            with pytest.raises(KeyboardInterrupt):
                model.fit(X[:9], y[:9])
        assert model.rounds_ == ROWS
        np.testing.assert_array_equal(model.decision_function(X), expected)


def test_other_threads_are_never_interrupted():
    def inside():
        before = signal.getsignal(signal.SIGINT)
        with defer_interrupts():
            assert signal.getsignal(signal.SIGINT) is before

    run_in_threads([inside] * 2)


def test_file_headers_are_parsed_one_at_a_time(tmp_path, monkeypatch):
    # Python 3.11 sometimes fails when two threads parse text at the same time.
    budgetron.save(learn(CASES["perceptron"].model(), *stream("random", ROWS, 1)), tmp_path / "model")
    real, inside, counts = container.npy.read_array_header_1_0, [], []

    def parse(stream):
        inside.append(stream)
        counts.append(len(inside))
        time.sleep(0.001)
        inside.pop()
        return real(stream)

    monkeypatch.setattr(container.npy, "read_array_header_1_0", parse)
    run_in_threads([partial(budgetron.load, tmp_path / "model")] * THREADS)
    assert max(counts) == 1


def test_file_replaced_while_being_read(tmp_path):
    # Saving is atomic: a reader always finds one of the saved models.
    X, y = stream("random", ROWS, 1)
    few, many = (learn(CASES["perceptron"].model(), X[:n], y[:n]) for n in (CUT, ROWS))
    path = tmp_path / "model"
    budgetron.save(few, path)

    def write():
        for model in (many, few) * 5:
            budgetron.save(model, path)

    def read():
        return {budgetron.load(path).rounds_ for _ in range(10)}

    found = run_in_threads([write, write, *[read] * 4])[2:]
    assert set().union(*found) <= {CUT, ROWS}


def test_comparisons_games_and_experts_in_parallel():
    X, y = stream("random", ROWS, 1)
    learners = [
        budgetron.Forgetron(10, gamma=0.5),
        budgetron.RandomizedBudgetPerceptron(10, gamma=0.5, random_state=np.random.RandomState(3)),
        linear.Perceptron(),
    ]
    losses = np.random.default_rng(0).random((ROWS, 5))

    def compare():  # clones of the same learners in every thread
        return [result.mistakes for result in evaluate.compare(learners, (X, y))]

    def solve():
        return games.solve(losses[:20], rounds=200).value

    def weigh():
        return experts.ExponentialWeights().play_losses(losses).weights.tolist()

    jobs = [compare, solve, weigh] * THREADS
    assert run_in_threads(jobs) == [compare(), solve(), weigh()] * THREADS


# ---------------------------------------------------------------------- the limit on BLAS threads


# The newest threadpoolctl honours only the first thread that sets a limit, until that thread ends, and
# ignores all other threads. `one_thread` does not handle this yet.


def blas():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture
def _two_threads_for_blas():
    with threadpool_limits(2, user_api="blas"):
        if set(blas()) != {2}:
            pytest.skip("BLAS cannot be set to two threads on this machine")
        yield


@pytest.mark.usefixtures("_two_threads_for_blas")
def test_last_thread_restores_the_blas_limit():
    step, seen = threading.Barrier(2), {}

    def first():
        with threads.one_thread():
            step.wait()  # both are inside
            step.wait()
        step.wait()  # the first has left
        step.wait()  # and stays alive until the last has left too

    def last():
        step.wait()
        with threads.one_thread():
            seen["both inside"] = set(blas())
            step.wait()
            step.wait()
            seen["the first has left"] = set(blas())
        seen["both have left"] = set(blas())
        step.wait()

    run_in_threads([first, last])
    assert seen == {"both inside": {1}, "the first has left": {1}, "both have left": {2}}


@pytest.mark.usefixtures("_two_threads_for_blas")
def test_blas_limit_from_many_threads():
    # Not all threads are inside at once, so the limit is set and restored many times.
    def enter(i):
        seen = set()
        for _ in range(20):
            try:
                with threads.one_thread(), threads.one_thread():
                    seen |= set(blas()) if i == 0 else set()
                    raise KeyError  # the limit is also restored after an error
            except KeyError:
                pass
        return seen

    seen = run_in_threads(partial(enter, i) for i in range(THREADS))
    assert seen[0] == {1}
    assert set(blas()) == {2}


@pytest.mark.usefixtures("_two_threads_for_blas")
def test_parallel_learning_restores_the_blas_limit():
    X, y = stream("random", ROWS, 1)
    run_in_threads(partial(learn, CASES["perceptron"].model(), X, y) for _ in range(THREADS))
    assert set(blas()) == {2}


# ---------------------------------------------------------------------- without the global interpreter lock


@pytest.mark.skipif(not FREE_THREADED, reason="this Python has the global interpreter lock")
def test_no_module_enables_the_gil():
    names = [module.name for module in pkgutil.walk_packages(budgetron.__path__, "budgetron.")]
    code = f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
    code += "assert not sys._is_gil_enabled()"
    unforced = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    subprocess.run([sys.executable, "-W", "error::RuntimeWarning", "-c", code], check=True, env=unforced)
