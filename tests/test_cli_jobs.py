"""`--jobs` of the command line divides the learners among processes, with the results of one process."""

import json
import os
import signal
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from typer.testing import CliRunner

from budgetron._evaluation import parallel
from budgetron.cli import app


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return a file with numbers on different scales, so that `budget` gets other rows than the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    frame = pd.DataFrame(X * [1.0, 20.0, 300.0], columns=["a", "b", "c"]).round(3)
    frame["label"] = np.where(X[:, 0] * X[:, 1] + X[:, 2] > 0.0, "yes", "no")
    path = tmp_path_factory.mktemp("data") / "table.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def groups(monkeypatch):
    """Return a list to which the groups of learners of each command are added."""
    found, original = [], parallel.groups_of

    def spy(*arguments):
        found.append([sorted(group) for group in original(*arguments)])
        return original(*arguments)

    monkeypatch.setattr(parallel, "groups_of", spy)
    monkeypatch.setattr(parallel, "ROWS_AT_A_TIME", 700)  # several parts of the stream are sent
    return found


def results(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def without_times(found):
    (stream,) = found["streams"].values()
    timed = ("seconds", "rounds_per_second", "curve")
    return [{name: value for name, value in r.items() if name not in timed} for r in stream["results"]]


@pytest.mark.parametrize("delay", [0, 5])
def test_compare(table, groups, delay):
    names = ("budget:memory=256kB", "arow", "forgetron", "rbp")
    learners = [word for name in names for word in ("-l", name)]
    command = ["compare", table, "-t", "label", *learners, "--delay", delay, "--rows", 1500, "--json"]
    alone = without_times(results(*command))
    assert groups == []
    assert without_times(results(*command, "--jobs", 2)) == alone
    assert len(alone) == 4
    assert [result["rounds"] for result in alone] == [1500] * 4
    assert [len(group) for group in groups[0]] == [2, 2]


def test_tune(table, groups):
    command = ["tune", table, "-t", "label", "-b", 5, "-b", 50, "-g", 0.1, "-g", 1.0, "--json"]
    assert results(*command, "-j", 3) == results(*command)
    assert [len(groups), len(groups[0])] == [1, 3]


def test_certificates_are_about_all_rows(table, groups):
    command = ["compare", table, "-t", "label", "-l", "perceptron", "-l", "arow", "--certify", "--json"]
    (alone,), (several,) = (results(*command, "--jobs", n)["streams"].values() for n in (1, 2))
    assert several["certificates"] == alone["certificates"]
    assert "bound" in str(alone["certificates"]["KernelPerceptron"])
    assert len(groups) == 1


def test_a_wrong_number(table):
    done = CliRunner().invoke(app, ["compare", str(table), "-t", "label", "--jobs", "0"])
    assert done.exit_code == 2
    assert "--jobs" in done.output


def handler(part):
    return os.getpid(), signal.getsignal(signal.SIGINT)


def test_processes_of_jobs_ignore_ctrl_c():
    """On a terminal it reaches them, too; they must finish what they learn."""
    here, before = os.getpid(), signal.getsignal(signal.SIGINT)
    for process, found in Parallel(n_jobs=2)(delayed(parallel._in_job)(here, handler, None) for _ in "ab"):
        assert process != here
        assert found == signal.SIG_IGN
    assert parallel._in_job(here, handler, None) == (here, before)


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("interrupted", [True, False])
def test_ctrl_c_may_end_processes_that_start(table, monkeypatch, interrupted):
    def send(self):
        if interrupted:
            signal.raise_signal(signal.SIGINT)
        raise BrokenProcessPool("a process ended")

    monkeypatch.setattr(parallel.Jobs, "_send", send)
    done = CliRunner().invoke(app, ["compare", str(table), "-t", "label", "--jobs", "2"])
    assert done.exit_code == (130 if interrupted else 1)
    assert isinstance(done.exception, SystemExit if interrupted else BrokenProcessPool)
