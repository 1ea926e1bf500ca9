"""Checkpoints of `budgetron run`: what was stopped ends as if it had never been."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import kill
import numpy as np
import pytest
from typer.testing import CliRunner

import budgetron
from budgetron import evaluate, files
from budgetron.cli import app
from budgetron.cli._learners import names

ROWS = 3000


class Crash(BaseException):
    """What nothing catches, like the end of a process."""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rows.csv"
    kill.write_rows(path, ROWS)
    return path


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    """Sparse rows of three classes."""
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
    """The bytes of the model and the results but for times."""
    done = run(*arguments, "--save", folder / "m.budgetron", "--json")
    assert done.exit_code == 0, done.output
    return (folder / "m.budgetron").read_bytes(), kill.without_times(json.loads(done.stdout))


def in_folder(folder, *arguments):
    return outcome(folder, *arguments, "--checkpoint", folder / "checkpoint")


def kept(folder):
    return files.load_extras(folder / "checkpoint" / "checkpoint.budgetron")["checkpoint"]


def breaking(monkeypatch, home, name, call, error):
    """Let a function raise at one of its calls, counted from 1, in the middle of its work."""
    calls, real = [], getattr(home, name)

    def broken(*arguments, **options):
        calls.append(1)
        if len(calls) == call:
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(home, name, broken)


def crash(monkeypatch, folder, arguments, home, name, call):
    with monkeypatch.context() as patch:
        breaking(patch, home, name, call, Crash())
        with pytest.raises(Crash):
            in_folder(folder, *arguments)


@pytest.fixture
def folders(tmp_path):
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    return tmp_path / "whole", tmp_path / "stopped"


# ---------------------------------------------------------------------- the same in the end


@pytest.mark.parametrize("learner", [*sorted(names()), "--average", "--delay"])
@pytest.mark.parametrize("rows", ["table", "sparse"])
def test_stopped_anywhere_it_ends_the_same(rows, learner, folders, request, monkeypatch):
    source = request.getfixturevalue(rows)
    options = {"--average": ["--average"], "--delay": ["--delay", 90]}.get(learner, ["--learner", learner])
    options = [source, *(["--target", "label"] if rows == "table" else []), *options]
    options += [] if learner == "budgetclassifier" else ["--budget", 30]
    if learner == "linear.arow":
        options[-3] = "linear.arow:covariance=diagonal" if rows == "sparse" else learner
    options += ["--every", 120, "--rows", 800]
    whole, stopped = folders
    expected = in_folder(whole, *options)
    drawn = np.random.default_rng(len(learner))
    crash(monkeypatch, stopped, options, evaluate.Comparison, "learn", int(drawn.integers(2, 5)))
    before = kept(stopped)["rows"]
    crash(monkeypatch, stopped, options, os, "replace", int(drawn.integers(2, 4)))
    assert 0 < before < kept(stopped)["rows"] < 800
    assert in_folder(stopped, *options) == expected
    assert in_folder(stopped, *options) == expected  # as from a run that is complete


def test_no_row_is_lost_or_learned_twice(table, folders, monkeypatch):
    options = [table, "--target", "label", "--every", 500]
    crash(monkeypatch, folders[1], options, evaluate.Comparison, "learn", 4)
    assert (kept(folders[1])["rows"], kept(folders[1])["done"]) == (1500, False)
    learned, real = [], evaluate.Comparison.learn

    def learn(self, X, y):
        learned.append((self[0].rounds, len(y)))
        real(self, X, y)

    monkeypatch.setattr(evaluate.Comparison, "learn", learn)
    in_folder(folders[1], *options)
    assert learned == [(1500, 500), (2000, 500), (2500, 500)]


def test_checkpoints_change_nothing(tmp_path, folders):
    kill.write_rows(tmp_path / "rows.csv", 9500)
    options = [tmp_path / "rows.csv", "--target", "label", "-l", "forgetron"]
    model, results = outcome(folders[0], *options)
    assert in_folder(folders[1], *options, "--every", 4096) == (model, results)

    # Cut more finely, the first block still decides the width, and rounding is all that may differ.
    (tmp_path / "fine").mkdir()
    _, fine = in_folder(tmp_path / "fine", *options, "--every", 300)
    (one,), (other,) = (next(iter(said["streams"].values()))["results"] for said in (results, fine))
    assert one["parameters"]["gamma_"] == other["parameters"]["gamma_"]
    assert one["confusion"] == other["confusion"]


def test_complete_it_says_the_same_again(table, folders, monkeypatch):
    options = [table, "--target", "label", "--every", 500, "--delay", 3]
    expected = in_folder(folders[0], *options)
    assert kept(folders[0])["done"]
    file = folders[0] / "checkpoint" / "checkpoint.budgetron"
    before = file.stat().st_mtime_ns
    breaking(monkeypatch, evaluate.Comparison, "learn", 1, AssertionError("learned again"))
    assert in_folder(folders[0], *options) == expected
    assert file.stat().st_mtime_ns == before
    done = run(*options, "--checkpoint", file.parent, "--certify")  # what comes out may be another thing
    assert done.exit_code == 2
    assert "leave out --delay" in done.output
    done = run(*options, "--checkpoint", file.parent, "--report", folders[0] / "page.html")
    assert done.exit_code == 0
    assert f"complete after {ROWS:,} rows" in done.stderr
    assert (folders[0] / "page.html").stat().st_size > 1000


def test_certificates_speak_of_all_rows(table, folders, monkeypatch):
    options = [table, "--target", "label", "--every", 500, "--certify"]
    expected = in_folder(folders[0], *options)
    crash(monkeypatch, folders[1], options, evaluate.Comparison, "learn", 4)
    assert in_folder(folders[1], *options) == expected


def test_interrupted_it_keeps_the_last_one(table, folders, monkeypatch):
    options = [table, "--target", "label", "--every", 400]
    expected = in_folder(folders[0], *options)
    real = evaluate.Comparison.learn

    def learn(self, X, y):
        real(self, X, y)
        if self[0].rounds == 1200:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(evaluate.Comparison, "learn", learn)
        done = run(*options, "--checkpoint", folders[1] / "checkpoint")
    assert done.exit_code == 130
    assert kept(folders[1])["rows"] == 1200
    assert in_folder(folders[1], *options) == expected


def test_the_checkpoint_is_a_model(table, folders):
    in_folder(folders[0], table, "--target", "label", "--every", 1000)
    said = [
        CliRunner().invoke(app, ["predict", str(folders[0] / name), str(table)]).stdout
        for name in ("m.budgetron", "checkpoint/checkpoint.budgetron")
    ]
    assert said[0] == said[1]
    assert said[0].count("\n") == ROWS + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes to kill them")
def test_killed_at_random_moments():
    script = Path(__file__).parent / "kill.py"
    done = subprocess.run([sys.executable, script, "20", "--rows", "6000"], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert b"20 trials" in done.stdout


# ---------------------------------------------------------------------- what is refused


@pytest.fixture
def half(table, tmp_path, monkeypatch):
    """A folder with the checkpoint of a run that crashed, and the command."""
    rows = tmp_path / "rows.csv"
    rows.write_bytes(table.read_bytes())
    options = [rows, "--target", "label", "--every", 500, "--learner", "forgetron", "--budget", 200]
    crash(monkeypatch, tmp_path, options, evaluate.Comparison, "learn", 4)
    return tmp_path, options


def refused(folder, *arguments):
    """What is said; nothing may have changed."""
    file = folder / "checkpoint" / "checkpoint.budgetron"
    before = file.read_bytes()
    done = run(*arguments, "--checkpoint", file.parent)
    assert done.exit_code == 2
    assert file.read_bytes() == before
    assert "Traceback" not in done.output
    return done.output


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["--budget", 7], "budget was 200 and is 7 now"),
        (["--learner", "rbp", "--no-scale"], "learner was forgetron and is rbp now; scale was True and is"),
        (["--rows", 2000], "rows was not given and is 2000 now"),
        (["--every", 600], "every was 500 and is 600 now"),
    ],
)
def test_another_command(half, changed, said):
    message = refused(half[0], *half[1], *changed)
    assert "the checkpoint of another run" in message
    assert said in message
    assert "give another folder, or delete this one" in message


def test_another_source(half):
    folder, options = half
    rows = options[0]
    original = rows.read_text()
    lines = original.splitlines()

    rows.write_text(original + lines[-1] + "\n")
    assert "was changed since the checkpoint" in refused(folder, *options)
    assert "its size was" in refused(folder, *options)
    assert "it must stay as it was, without rows added" in refused(folder, *options)

    rows.write_text("\n".join([*lines[:100], *lines[101:103], lines[100], *lines[103:]]) + "\n")
    assert "its first 1,500 rows are not those that were learned" in refused(folder, *options)

    rows.write_text(original)  # a file that was only touched is the same
    in_folder(folder, *options)


def test_a_folder_that_is_read_only(half, monkeypatch):
    folder, options = half
    held = folder / "checkpoint"
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: mode != os.W_OK or Path(path) != held)
        assert f"the folder {held} is read-only" in refused(folder, *options)
    expected = in_folder(folder, *options)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK or Path(path) != held)
    assert in_folder(folder, *options) == expected  # it is complete: nothing is written


def test_pipes_and_odd_options(tmp_path, table):
    for arguments, said in (
        (["-", "--target", "y", "--checkpoint", tmp_path / "c"], "a pipe cannot be read again"),
        ([table, "--target", "label", "--every", 10], "give --checkpoint FOLDER too"),
        ([table, "--target", "label", "--checkpoint", table], "is a file; give the name of a folder"),
        (
            [table, "--target", "label", "--checkpoint", table / "below"],
            "Not a directory; give a folder where",
        ),
        ([table.parent / "nosuch.csv", "--checkpoint", tmp_path / "c" / "d"], "no such file"),
        ([table, "--target", "nosuch", "--checkpoint", tmp_path / "c"], "no column"),
    ):
        done = run(*arguments)
        assert done.exit_code == 2
        assert said in done.output
    assert not (tmp_path / "c").exists()


@pytest.mark.skipif(os.name != "posix", reason="folders are held by flock")
def test_one_run_a_folder(half):
    import fcntl

    held = os.open(half[0] / "checkpoint", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        assert "another run is at work in" in refused(half[0], *half[1])
    finally:
        os.close(held)
    in_folder(half[0], *half[1])


@pytest.mark.parametrize("name", ["replace", "open", "fsync"])
def test_a_full_disk_keeps_the_last_one(half, folders, name, monkeypatch):
    folder, options = half
    expected = in_folder(folders[0], *options)
    with monkeypatch.context() as patch:
        real = getattr(os, name)

        def full(path, *arguments, **more):
            if name == "open" and ".tmp" not in str(path):
                return real(path, *arguments, **more)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

        patch.setattr(os, name, full)
        said = refused(folder, *options)
    assert "No space left on device; the checkpoint after 1,500 rows is kept" in said
    assert [path.name for path in (folder / "checkpoint").iterdir()] == ["checkpoint.budgetron"]
    assert in_folder(folder, *options) == expected


def test_drafts_of_killed_runs_are_removed(half):
    draft = half[0] / "checkpoint" / ".budgetron-0123456789abcdef.tmp"
    draft.write_bytes(b"half a file")
    in_folder(half[0], *half[1])
    assert not draft.exists()


def test_damaged_files(half):
    folder, options = half
    file = folder / "checkpoint" / "checkpoint.budgetron"
    sound = file.read_bytes()
    turned = bytearray(sound)
    turned[len(sound) // 2] ^= 255
    for damaged in (b"", sound[:-100], bytes(turned), b"not a zip" * 100):
        file.write_bytes(damaged)
        said = refused(folder, *options)
        assert str(file) in said
        assert "delete this one to begin anew" in said
    budgetron.save(budgetron.Forgetron(), file)
    assert "a model without what is kept of a run" in refused(folder, *options)
    file.write_bytes(sound)
    extras = files.load_extras(file)
    extras["checkpoint"]["rows"] = 1000
    model = files.load(file)
    budgetron.save(model, file, extras=extras)
    assert "model and account stand at different rounds" in refused(folder, *options)
