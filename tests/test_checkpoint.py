"""Checkpoints of `budgetron run`: a run that was stopped ends as if it had never stopped."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import kill
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import budgetron
from budgetron import evaluate, files
from budgetron._evaluation.by_name import names
from budgetron.cli import _pass, app

ROWS = 3000


class Crash(BaseException):
    """An exception that nothing catches, like the end of a process."""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rows.csv"
    kill.write_rows(path, ROWS)
    return path


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    """Return a file of sparse rows of three classes."""
    rng = np.random.default_rng(1)
    lines = []
    for _ in range(ROWS):
        places = np.sort(rng.choice(2000, 8, replace=False))
        label = int(places[0] > 150) + int(places[-1] > 1850)
        lines.append(" ".join([str(label), *(f"{place + 1}:{rng.normal():.3f}" for place in places)]))
    path = tmp_path_factory.mktemp("data") / "rows.libsvm"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["run", *map(str, arguments)])


def outcome(folder, *arguments):
    """Return the bytes of the model, and the results without times."""
    done = run(*arguments, "--save", folder / "m.budgetron", "--json")
    assert done.exit_code == 0, done.output
    return (folder / "m.budgetron").read_bytes(), kill.without_times(json.loads(done.stdout))


def in_folder(folder, *arguments):
    """Run with a checkpoint in the folder, and return the outcome."""
    return outcome(folder, *arguments, "--checkpoint", folder / "checkpoint")


def stored(folder):
    """Return the state that the checkpoint stores."""
    return files.load_extras(folder / "checkpoint" / "checkpoint.budgetron")["checkpoint"]


def breaking(monkeypatch, home, name, call, error):
    """Make a function raise an error at one of its calls, counted from 1."""
    calls, original = [], getattr(home, name)

    def broken(*arguments, **options):
        calls.append(1)
        if len(calls) == call:
            raise error
        return original(*arguments, **options)

    monkeypatch.setattr(home, name, broken)


def crash(monkeypatch, folder, arguments, home, name, call):
    """Run until one of the calls of a function, counted from 1, crashes."""
    with monkeypatch.context() as patch:
        breaking(patch, home, name, call, Crash())
        with pytest.raises(Crash):
            in_folder(folder, *arguments)


@pytest.fixture
def folders(tmp_path):
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    return tmp_path / "whole", tmp_path / "stopped"


# ---------------------------------------------------------------------- the same result


@pytest.mark.parametrize("learner", [*sorted(names()), "--average", "--delay"])
@pytest.mark.parametrize("rows", ["table", "sparse"])
def test_a_stopped_run_ends_the_same(rows, learner, folders, request, monkeypatch):
    source = request.getfixturevalue(rows)
    options = {"--average": ["--average"], "--delay": ["--delay", 90]}.get(learner, ["--learner", learner])
    options = [source, *(["--target", "label"] if rows == "table" else []), *options]
    options += [] if learner == "budgetclassifier" else ["--budget", 30]
    if learner == "linear.arow":
        options[-3] = "linear.arow:covariance=diagonal" if rows == "sparse" else learner
    options += ["--every", 120, "--rows", 800]
    whole, stopped = folders
    expected = in_folder(whole, *options)
    rng = np.random.default_rng(len(learner))
    crash(monkeypatch, stopped, options, evaluate.Comparison, "learn", int(rng.integers(2, 5)))
    before = stored(stopped)["rows"]
    crash(monkeypatch, stopped, options, os, "replace", int(rng.integers(2, 4)))
    assert 0 < before < stored(stopped)["rows"] < 800
    assert in_folder(stopped, *options) == expected
    assert in_folder(stopped, *options) == expected  # now the run is complete


def test_no_row_is_lost_or_learned_twice(table, folders, monkeypatch):
    options = [table, "--target", "label", "--every", 500]
    crash(monkeypatch, folders[1], options, evaluate.Comparison, "learn", 4)
    assert (stored(folders[1])["rows"], stored(folders[1])["done"]) == (1500, False)
    learned, original = [], evaluate.Comparison.learn

    def learn(self, X, y, own_rows):
        learned.append((self[0].rounds, len(y)))
        original(self, X, y, own_rows)

    monkeypatch.setattr(evaluate.Comparison, "learn", learn)
    in_folder(folders[1], *options)
    assert learned == [(1500, 500), (2000, 500), (2500, 500)]


def test_checkpoints_change_nothing(tmp_path, folders):
    kill.write_rows(tmp_path / "rows.csv", 9500)
    options = [tmp_path / "rows.csv", "--target", "label", "-l", "forgetron"]
    model, results = outcome(folders[0], *options)
    assert in_folder(folders[1], *options, "--every", 4096) == (model, results)

    # With smaller blocks, the first block still decides the width, and only rounding may differ.
    (tmp_path / "fine").mkdir()
    _, fine = in_folder(tmp_path / "fine", *options, "--every", 300)
    (actual,), (expected,) = (next(iter(output["streams"].values()))["results"] for output in (fine, results))
    assert actual["parameters"]["gamma_"] == expected["parameters"]["gamma_"]
    assert actual["confusion"] == expected["confusion"]


def test_a_complete_run_prints_the_same_again(table, folders, monkeypatch):
    options = [table, "--target", "label", "--every", 500, "--delay", 3]
    expected = in_folder(folders[0], *options)
    assert stored(folders[0])["done"]
    file = folders[0] / "checkpoint" / "checkpoint.budgetron"
    before = file.stat().st_mtime_ns
    breaking(monkeypatch, evaluate.Comparison, "learn", 1, AssertionError("learned again"))
    assert in_folder(folders[0], *options) == expected
    assert file.stat().st_mtime_ns == before
    done = run(*options, "--checkpoint", file.parent, "--certify")  # the options for the output may differ
    assert done.exit_code == 2
    assert "leave out --delay" in done.output
    done = run(*options, "--checkpoint", file.parent, "--report", folders[0] / "page.html")
    assert done.exit_code == 0
    assert f"complete after {ROWS:,} rows" in done.stderr
    assert (folders[0] / "page.html").stat().st_size > 1000


def test_certificates_cover_all_rows(table, folders, monkeypatch):
    options = [table, "--target", "label", "--every", 500, "--certify"]
    expected = in_folder(folders[0], *options)
    crash(monkeypatch, folders[1], options, evaluate.Comparison, "learn", 4)
    assert in_folder(folders[1], *options) == expected


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_keeps_the_last_checkpoint(number, code, table, folders, monkeypatch):
    options = [table, "--target", "label", "--every", 400]
    expected = in_folder(folders[0], *options)
    original = evaluate.Comparison.learn

    def learn(self, X, y, own_rows):
        original(self, X, y, own_rows)
        if self[0].rounds == 1200:
            os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        patch.setattr(evaluate.Comparison, "learn", learn)
        done = run(*options, "--checkpoint", folders[1] / "checkpoint", "--save", folders[1] / "m.budgetron")
    assert done.exit_code == code
    assert "Interrupted after 1,200 rounds." in done.stderr
    assert stored(folders[1])["rows"] == 1200
    assert budgetron.load(folders[1] / "m.budgetron").rounds_ == 1200
    assert in_folder(folders[1], *options) == expected


def test_the_checkpoint_is_a_model(table, folders):
    in_folder(folders[0], table, "--target", "label", "--every", 1000)
    outputs = [
        CliRunner().invoke(app, ["predict", str(folders[0] / name), str(table)]).stdout
        for name in ("m.budgetron", "checkpoint/checkpoint.budgetron")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].count("\n") == ROWS + 1


def test_a_checkpoint_of_scaled_rows_continues_with_scaled_rows(table, folders, monkeypatch):
    """Earlier versions passed scaled rows to BudgetClassifier; their checkpoints must not change course."""
    numbers = folders[0].parent / "numbers.csv"
    table = pd.read_csv(table)
    pd.concat([table.select_dtypes("number"), table["label"]], axis=1).to_csv(numbers, index=False)
    options = [numbers, "--target", "label", "--memory", "1MB", "--every", 500]
    with monkeypatch.context() as patch:
        patch.setattr(_pass, "scales_rows", lambda model: False)
        expected = in_folder(folders[0], *options)
        crash(monkeypatch, folders[1], options, evaluate.Comparison, "learn", 4)
    file = folders[1] / "checkpoint" / "checkpoint.budgetron"
    assert files.load_extras(file)["encoder"]["options"]["scale"]
    assert in_folder(folders[1], *options) == expected
    assert in_folder(folders[0], *options) == expected  # a complete one as well
    new = folders[0].parent / "new"
    new.mkdir()
    assert in_folder(new, *options)[1] != expected[1]  # a new run gets unscaled rows


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes to kill them")
def test_killed_at_random_moments():
    script = Path(__file__).parent / "kill.py"
    done = subprocess.run([sys.executable, script, "20", "--rows", "6000"], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert b"20 trials" in done.stdout


# ---------------------------------------------------------------------- errors


@pytest.fixture
def half(table, tmp_path, monkeypatch):
    """Return a folder with the checkpoint of a run that crashed, and the command."""
    rows = tmp_path / "rows.csv"
    rows.write_bytes(table.read_bytes())
    options = [rows, "--target", "label", "--every", 500, "--learner", "forgetron", "--budget", 200]
    crash(monkeypatch, tmp_path, options, evaluate.Comparison, "learn", 4)
    return tmp_path, options


def refused(folder, *arguments):
    """Return the error message; the file must not have changed."""
    file = folder / "checkpoint" / "checkpoint.budgetron"
    before = file.read_bytes()
    done = run(*arguments, "--checkpoint", file.parent)
    assert done.exit_code == 2
    assert file.read_bytes() == before
    assert "Traceback" not in done.output
    return done.output


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (["--budget", 7], "budget was 200 and is now 7"),
        (
            ["--learner", "rbp", "--no-scale"],
            "learner was forgetron and is now rbp; scale was True and is now False",
        ),
        (["--rows", 2000], "rows was not given and is now 2000"),
        (["--every", 600], "every was 500 and is now 600"),
    ],
)
def test_a_checkpoint_of_another_command_is_refused(half, changed, expected):
    message = refused(half[0], *half[1], *changed)
    assert "the checkpoint of another run" in message
    assert expected in message
    assert "give another folder, or delete this one" in message


def test_a_checkpoint_of_another_source_is_refused(half):
    folder, options = half
    rows = options[0]
    original = rows.read_text()
    lines = original.splitlines()

    rows.write_text(original + lines[-1] + "\n")
    assert "has changed since the checkpoint" in refused(folder, *options)
    assert "its size was" in refused(folder, *options)
    assert "the source must not change, not even by added rows" in refused(folder, *options)

    rows.write_text("\n".join([*lines[:100], *lines[101:103], lines[100], *lines[103:]]) + "\n")
    assert "its first 1,500 rows are not those that were learned" in refused(folder, *options)

    rows.write_text(original)  # the content decides, not the time of the last change
    in_folder(folder, *options)


def test_a_read_only_folder(half, monkeypatch):
    folder, options = half
    locked = folder / "checkpoint"
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: mode != os.W_OK or Path(path) != locked)
        assert f"the folder {locked} is read-only" in refused(folder, *options)
    expected = in_folder(folder, *options)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK or Path(path) != locked)
    assert in_folder(folder, *options) == expected  # the run is complete, so nothing is written


def test_pipes_and_invalid_options(tmp_path, table):
    for arguments, expected in (
        (["-", "--target", "y", "--checkpoint", tmp_path / "c"], "a pipe cannot be read again"),
        ([table, "--target", "label", "--every", 10], "give --checkpoint FOLDER too"),
        ([table, "--target", "label", "--checkpoint", table], "is a file; give the name of a folder"),
        (
            [table, "--target", "label", "--checkpoint", table / "below"],
            "Not a directory; give a folder that you can write to",
        ),
        ([table.parent / "nosuch.csv", "--checkpoint", tmp_path / "c" / "d"], "no such file"),
        ([table, "--target", "nosuch", "--checkpoint", tmp_path / "c"], "no column"),
    ):
        done = run(*arguments)
        assert done.exit_code == 2
        assert expected in done.output
    assert not (tmp_path / "c").exists()


@pytest.mark.skipif(os.name != "posix", reason="needs flock")
def test_one_run_per_folder(half):
    script = """
import sys, time
from pathlib import Path
from budgetron.cli._checkpoint import _locked

with _locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(100)
"""
    folder, options = half
    command = [sys.executable, "-c", script, folder / "checkpoint"]
    other = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"locked\n"
        assert "another run uses" in refused(folder, *options)
    finally:
        other.kill()  # like `kill -9`; the system removes the lock
        other.communicate()
    in_folder(folder, *options)


@pytest.mark.parametrize("name", ["replace", "open", "fsync"])
def test_a_full_disk_keeps_the_last_checkpoint(half, folders, name, monkeypatch):
    folder, options = half
    expected = in_folder(folders[0], *options)
    with monkeypatch.context() as patch:
        original = getattr(os, name)

        def full(path, *arguments, **more):
            if name == "open" and ".tmp" not in str(path):
                return original(path, *arguments, **more)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

        patch.setattr(os, name, full)
        message = refused(folder, *options)
    assert (
        "No space left on device; the checkpoint after 1,500 rows remains; "
        "fix this, then run the command again" in message
    )
    assert [path.name for path in (folder / "checkpoint").iterdir()] == ["checkpoint.budgetron"]
    assert in_folder(folder, *options) == expected


def test_temporary_files_of_killed_runs_are_removed(half):
    draft = half[0] / "checkpoint" / ".budgetron-0123456789abcdef.tmp"
    draft.write_bytes(b"half a file")
    in_folder(half[0], *half[1])
    assert not draft.exists()


def test_damaged_checkpoints_are_refused(half):
    folder, options = half
    file = folder / "checkpoint" / "checkpoint.budgetron"
    valid = file.read_bytes()
    flipped = bytearray(valid)
    flipped[len(valid) // 2] ^= 255
    for damaged in (b"", valid[:-100], bytes(flipped), b"not a zip" * 100):
        file.write_bytes(damaged)
        message = refused(folder, *options)
        assert str(file) in message
        assert "delete this one to start again" in message
    budgetron.save(budgetron.Forgetron(), file)
    assert "the file holds a model, but not the state of a run" in refused(folder, *options)
    file.write_bytes(valid)
    extras = files.load_extras(file)
    extras["checkpoint"]["rows"] = 1000
    model = files.load(file)
    budgetron.save(model, file, extras=extras)
    assert "model and results are at different rounds" in refused(folder, *options)
