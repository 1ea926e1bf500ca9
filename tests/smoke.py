"""Test an installed Budgetron with nothing but its dependencies: `python tests/smoke.py`.

cibuildwheel runs this script for every wheel, in a new environment without a compiler or a test tool. It
imports every module, and checks that a batch gives the same model as the loop, that a saved model continues
as if it had never been saved, and that a bad row changes nothing.
"""

import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits

import budgetron
from budgetron import certificates, evaluate, export, streams
from budgetron.batch import AveragedClassifier
from budgetron.calibration import CalibratedClassifier

X, y = load_digits(return_X_y=True)
X = X[:600] / 16
parity = np.where(y[:600] % 2, 1, -1)


def same(first, second):
    return np.allclose(first.decision_function(X), second.decision_function(X), rtol=1e-7, atol=1e-9)


def test_every_module_can_be_imported():
    optional = {"typer", "rich", "river", "matplotlib", "pyarrow", "onnx"}
    for module in pkgutil.walk_packages(budgetron.__path__, "budgetron."):
        if module.name == "budgetron.__main__":
            continue
        try:
            importlib.import_module(module.name)
        except ImportError as error:  # modules of the extras say what to install
            if error.name not in optional and "pip install" not in str(error):
                raise


def learners():
    for learner in (*budgetron.learners(), *budgetron.linear.learners()):
        model = learner()
        names = model.get_params()
        settings = {"budget": 30, "random_state": 0, "gamma": 0.01}
        yield model.set_params(**{name: value for name, value in settings.items() if name in names})


def test_a_batch_gives_the_same_model_as_the_loop():
    for model in learners():
        rows = np.abs(X)
        batch = type(model)(**model.get_params()).partial_fit(rows[:200], parity[:200], classes=[-1, 1])
        loop = type(model)(**model.get_params())
        for x, label in zip(rows[:200], parity[:200], strict=True):
            loop.play(x, label, classes=[-1, 1])
        assert same(batch, loop), type(model).__name__


def test_rows_of_all_kinds():
    for kind in (np.asarray, np.float32, sp.csr_matrix):
        model = budgetron.Forgetron(30, gamma=0.05).fit(kind(X), parity)
        assert model.n_support_ == 30
    many = budgetron.ProjectronPlusPlus(budget=30, gamma=0.05).fit(X, y[:600])
    assert (many.predict(X) == y[:600]).mean() > 0.8


def test_a_loaded_model_continues_exactly():
    model = budgetron.BudgetClassifier(memory="2MB", random_state=0).fit(X[:300], parity[:300])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.budgetron"
        budgetron.save(model, path)
        copy = budgetron.load(path)
    for one in (model, copy):
        one.partial_fit(X[300:], parity[300:])
    np.testing.assert_array_equal(model.decision_function(X), copy.decision_function(X))


def test_a_bad_row_changes_nothing():
    model = budgetron.SecondOrderProjectron(30, gamma=0.05).fit(X, parity)
    before = model.decision_function(X)
    bad = X.copy()
    bad[-1, 0] = np.nan
    try:
        model.partial_fit(bad, parity)
    except ValueError:
        np.testing.assert_array_equal(model.decision_function(X), before)
    else:
        raise AssertionError("NaN was accepted")


def test_wrappers_certificates_and_export():
    model = budgetron.Forgetron(100, gamma=0.05)
    trace = model.progressive_fit(X, parity, ledger=True)
    assert certificates.certify(model, X, parity, trace).holds
    CalibratedClassifier(budgetron.Forgetron(30, gamma=0.05)).fit(X, parity).predict_proba(X)
    AveragedClassifier(budgetron.linear.AROW()).fit(X, parity).predict(X)
    evaluate.compare([budgetron.linear.AROW(), budgetron.Forgetron(30)], streams.arrays(X, parity))
    with tempfile.TemporaryDirectory() as folder:
        header = Path(folder) / "model.h"
        export.c(model, header, name="model")
        assert header.stat().st_size > 0


def test_several_threads():
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda _: budgetron.Forgetron(30, gamma=0.05).fit(X, parity), range(8)))
    assert all(same(models[0], model) for model in models)
    gil = getattr(sys, "_is_gil_enabled", None)
    if gil is not None and "free-threading" in sys.version:
        assert not gil(), "a compiled module enabled the interpreter lock"


def test_the_command_line():
    run = subprocess.run(
        [sys.executable, "-m", "budgetron", "--version"], capture_output=True, text=True, check=False
    )
    # Without the extra [cli], the command says what to install.
    assert run.returncode == 0 or "pip install" in run.stderr, run.stderr


def main():
    installed = Path(budgetron.__file__).resolve()
    source = Path(__file__).resolve().parent.parent / "src"
    assert not installed.is_relative_to(source), f"{installed} is the source folder, not an installed package"
    tests = [test for name, test in globals().items() if name.startswith("test_")]
    for test in tests:
        test()
        print("ok", test.__name__)
    print(
        f"{len(tests)} smoke tests passed: Budgetron {budgetron.__version__}, Python {sys.version.split()[0]}"
    )


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
