"""Ctrl-C and SIGTERM at certain moments of a command: both end it in the same way, and nothing is lost."""

import gc
import os
import signal
import subprocess
import sys

import kill
import pytest
from typer.core import TyperCommand
from typer.testing import CliRunner

import budgetron
from budgetron import evaluate, files
from budgetron._persistence import container
from budgetron.cli import _checkpoint, _learn, _pass, _predict, app
from budgetron.cli._interrupts import Interrupts

ROWS = 600
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.fixture(autouse=True)
def handlers(interrupts):
    """Check that every command restores the handlers that it found."""
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    yield
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rows.csv"
    kill.write_rows(path, ROWS)
    return path


def run(table, folder, *options):
    arguments = ["run", table, "--target", "label", "-l", "forgetron", "--save", folder / "m", *options]
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def signalling(monkeypatch, home, name, *numbers, call=1):
    """Send signals to this process in one of the calls of a function, before it does its work."""
    calls, original = [], getattr(home, name)

    def signalled(*arguments, **options):
        calls.append(1)
        if len(calls) == call:
            for number in numbers:
                os.kill(os.getpid(), number)
        return original(*arguments, **options)

    monkeypatch.setattr(home, name, signalled)


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_before_anything_was_learned(number, code, table, tmp_path, monkeypatch):
    signalling(monkeypatch, _pass, "open_stream", number)
    done = run(table, tmp_path, "--checkpoint", tmp_path / "c")
    assert done.exit_code == code
    assert done.stderr.strip() == "Interrupted."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize(
    ("home", "name", "rounds"),
    [
        (evaluate.Comparison, "learn", 200),
        (_checkpoint.Checkpoint, "learned", 200),
        (_checkpoint, "_facts", 200),  # while the first checkpoint is written
        (evaluate.Comparison, "finish", ROWS),
    ],
)
def test_while_learning(home, name, rounds, number, code, table, tmp_path, monkeypatch):
    signalling(monkeypatch, home, name, number)
    done = run(table, tmp_path, "--checkpoint", tmp_path / "c", "--every", 200)
    assert done.exit_code == code
    assert f"Interrupted after {rounds} rounds." in done.stderr
    assert "Forgetron" in done.stdout
    assert budgetron.load(tmp_path / "m").rounds_ == rounds
    extras = files.load_extras(tmp_path / "c" / "checkpoint.budgetron")["checkpoint"]
    assert (extras["rows"], extras["done"]) == (rounds, rounds == ROWS)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["c", "checkpoint.budgetron", "m"]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_while_the_model_is_saved(number, code, table, tmp_path, monkeypatch):
    signalling(monkeypatch, files, "save", number)
    done = run(table, tmp_path)
    assert done.exit_code == code
    assert done.stderr.strip() == "Interrupted."
    assert budgetron.load(tmp_path / "m").rounds_ == ROWS


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_after_the_model_was_saved(number, code, table, tmp_path, monkeypatch):
    signalling(monkeypatch, _learn, "certificates_of", number)
    done = run(table, tmp_path, "--certify", "--report", tmp_path / "page.html")
    assert done.exit_code == code
    assert done.stderr.strip() == "Interrupted."
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal(second, table, tmp_path, monkeypatch):
    signalling(monkeypatch, evaluate.Comparison, "learn", signal.SIGINT)
    signalling(monkeypatch, files, "save", second, second, call=2)
    done = run(table, tmp_path, "--checkpoint", tmp_path / "c", "--every", 200)
    assert done.exit_code == 128 + second
    assert done.stderr.strip() == "Interrupted."
    assert budgetron.load(tmp_path / "m").rounds_ == 200
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["c", "checkpoint.budgetron", "m"]
    monkeypatch.undo()
    done = run(table, tmp_path, "--checkpoint", tmp_path / "c", "--every", 200)
    assert done.exit_code == 0
    assert "continuing after 200 rows" in done.stderr


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_predict_leaves_no_file(number, code, table, tmp_path, monkeypatch):
    run(table, tmp_path)
    (tmp_path / "p.csv").write_text("before")
    signalling(monkeypatch, _predict, "_lines", number)
    output = str(tmp_path / "p.csv")
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "m"), str(table), "--output", output])
    assert done.exit_code == code
    assert done.stderr.strip() == "Interrupted."
    assert (tmp_path / "p.csv").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "p.csv"]


def test_an_interrupt_that_python_ignores_takes_effect_later():
    """Python prints and ignores an exception in `__del__`, also `KeyboardInterrupt`."""
    interrupts, seen = Interrupts(), []

    def items():
        for i in range(10):
            if i == 3:
                with pytest.raises(KeyboardInterrupt):
                    interrupts(signal.SIGTERM, None)
            yield i

    with interrupts.held():
        seen.extend(interrupts.until_interrupted(items()))
        assert interrupts.take()
        assert not interrupts.pending
    assert seen == [0, 1, 2, 3]
    assert interrupts.exit_code == 143


def test_the_library_installs_no_handlers():
    script = """
import signal
before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
import budgetron, budgetron.cli
budgetron.Forgetron().fit([[0.0], [1.0]], [0, 1])
print(before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr


IMPORTED = """
import os, weakref

class Thing:
    pass

thing = Thing()
# Python prints an exception in this callback, and goes on: the interrupt would be lost.
reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), {number}))
del thing
complete = True
"""

PROGRAM = """
import sys, time, typer
from budgetron.cli._messages import interruptible
try:
    with interruptible():
        import interrupted_import
        time.sleep(60)
except typer.Exit as end:
    print(sys.modules["interrupted_import"].complete)
    sys.exit(end.exit_code)
"""


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_during_an_import_ends_the_command_after_it(number, code, tmp_path):
    (tmp_path / "interrupted_import.py").write_text(IMPORTED.format(number=int(number)))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path, timeout=50
    )
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "Interrupted.\n", code)


def test_a_signal_that_waits_for_an_import_has_no_effect_after_the_command(monkeypatch):
    own = Interrupts()
    monkeypatch.setattr("budgetron.cli._interrupts._is_importing", lambda frame: True)
    with own.handled():
        os.kill(os.getpid(), signal.SIGINT)
        timer = own._retry
        assert timer.is_alive()
    assert not timer.is_alive()


def test_a_second_signal_does_not_disturb_the_end_of_the_command():
    own = Interrupts()
    reached = []

    def end_twice():
        with own.handled():
            try:
                os.kill(os.getpid(), signal.SIGINT)
            finally:
                os.kill(os.getpid(), signal.SIGINT)
                reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        end_twice()
    assert reached == [True]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_while_arguments_are_read(number, code, table, tmp_path, monkeypatch):
    """The library that reads the arguments prints exceptions in some of its callbacks, and goes on."""
    printed, original = [], TyperCommand.parse_args

    def parse_args(self, ctx, args):
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt as error:
            printed.append(error)
        return original(self, ctx, args)

    monkeypatch.setattr(TyperCommand, "parse_args", parse_args)
    done = run(table, tmp_path)
    assert done.exit_code == code
    assert done.stderr.strip() == "Interrupted."
    assert not printed


def test_interrupt_while_a_model_file_is_opened(tmp_path, monkeypatch):
    """Ctrl-C in the middle of `ZipFile.__init__` leaves no object that prints an error when it is deleted."""
    path = tmp_path / "model.budgetron"
    budgetron.save(budgetron.Forgetron(5).partial_fit([[1.0], [2.0]], [0, 1], classes=[0, 1]), path)
    ignored, interrupted = [], []

    def name(self):
        interrupted.append(True)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    monkeypatch.setattr(container._ModelFile, "name", property(name), raising=False)
    with pytest.raises(KeyboardInterrupt):
        budgetron.load(path)
    gc.collect()
    assert interrupted
    assert not ignored
