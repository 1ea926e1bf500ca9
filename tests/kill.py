"""Stop `budgetron run --checkpoint` at random times: it must end as if it had never been stopped.

    python tests/kill.py 300

Each trial stops a run at a random time by SIGKILL, SIGTERM or SIGINT (Ctrl-C), and starts the same command
again, until it reaches its end. Model and results must then be those of a run that was not stopped: the same
bytes, and the same JSON except for times. Some runs get two signals, so that the second one arrives while the
first is handled. A run that can handle its signal must exit with the code of the signal and leave no
temporary files; if it has learned something, model and results are written. Processes are forked from one
that has imported the library, so that most of them are stopped during the run and not while Python starts.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import pkgutil
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import pyarrow.compute
import pyarrow.csv  # noqa: F401 - imported once, not in every process
import typer.main

import budgetron
import budgetron.cli
from budgetron.cli import app

# A command imports what it needs. Here, everything is imported before processes are forked.
COMMAND_MODULES = [f"cli.{module.name}" for module in pkgutil.iter_modules(budgetron.cli.__path__)]
for name in [*budgetron._MODULES, *COMMAND_MODULES]:
    importlib.import_module(f"budgetron.{name}")

command = typer.main.get_command(app)

COMMANDS = (
    ("--learner", "forgetron", "--budget", "50", "--every", "500"),
    ("--learner", "rbp", "--budget", "50", "--every", "3000", "--missing", "mean"),
    ("--learner", "projectron++", "--budget", "40", "--every", "5000"),
    ("--learner", "arow", "--every", "700", "--delay", "300"),
    ("--learner", "linear.perceptron", "--average", "--rows", "300", "--every", "40"),
)
TIMES = ("seconds", "rounds_per_second")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def write_rows(path, rows):
    """Write a table with numbers, a category and two classes."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(rows, 4)).round(4)
    towns = rng.choice(["paris", "rome", "oslo", "lima"], rows)
    score = numbers[:, 0] * numbers[:, 1] + (towns == "rome") - 0.3 + 0.3 * rng.normal(size=rows)
    with path.open("w") as file:
        file.write("a,b,c,d,town,label\n")
        for row, town, label in zip(numbers, towns, np.where(score > 0, "yes", "no"), strict=True):
            file.write(",".join([*map(str, row), town, label]) + "\n")


def start(arguments, output):
    """Start the command in a process of its own, which writes to the file `output`; return its id."""
    process = os.fork()
    if process:
        return process
    code = 128 + signal.SIGINT  # a Ctrl-C before the command has begun, or while it ends after another signal
    try:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(os.open(f"{output}.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        command([str(argument) for argument in arguments])
    except SystemExit as end:
        code = end.code or 0
    except Exception:
        traceback.print_exc()
        code = 1
    finally:
        # The process must end here, even if a signal arrives now: the code below is for its parent.
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def end_of(process, stops):
    """Wait for a process, send it a signal after each number of seconds, and return its exit code.

    The exit code is negative if a signal ended the process.
    """
    for seconds, number in stops:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.001)
        os.kill(process, number)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def run(table, options, folder, stops=None):
    """Run until the end, with signals from `stops` for each start; return model, results, and the stops."""
    model, output = folder / "model.budgetron", folder / "output.json"
    checkpoint = folder / "checkpoint"
    arguments = ["run", table, "--target", "label", *options, "--checkpoint", checkpoint]
    kills = []
    while True:
        signals = [] if stops is None else next(stops)
        # A run that was killed may have left files. The next one may get its signal before it removes them.
        before = set(folder.rglob(".budgetron-*.tmp"))
        code = end_of(start([*arguments, "--save", model, "--json"], output), signals)
        errors = Path(f"{output}.err")
        messages = errors.read_text() if errors.exists() else ""
        if code == 0:
            return model.read_bytes(), without_times(json.loads(output.read_text())), kills
        numbers = [number for _, number in signals]
        assert code in [-number for number in numbers] + [128 + number for number in numbers], messages
        temporary = len(set(folder.rglob(".budgetron-*.tmp")) - before)
        if code > 0:  # the signal was handled
            check_handled(messages, model, output if len(signals) == 1 else None, temporary)
        kills.append(
            {
                "checkpoint": (checkpoint / "checkpoint.budgetron").exists(),
                "continued": "continuing after" in messages,
                "writing": temporary,
                "handled": code > 0,
                "learned": "Interrupted after" in messages,
            }
        )


def check_handled(messages, model, output, temporary):
    """Check what a run has left that was stopped by a signal that it handled."""
    assert "Traceback" not in messages, messages
    assert not temporary
    learned = re.search(r"Interrupted after ([\d,]+) rounds", messages)
    if learned:
        rounds = int(learned[1].replace(",", ""))
        assert budgetron.load(model).rounds_ <= rounds
        if output is not None:
            (stream,) = json.loads(output.read_text())["streams"].values()
            assert stream["results"][0]["rounds"] == rounds


def without_times(results):
    """Return the results without times."""
    if isinstance(results, dict):
        return {name: without_times(value) for name, value in results.items() if name not in TIMES}
    return [without_times(value) for value in results] if isinstance(results, list) else results


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trials", type=int, nargs="?", default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=20_000)
    given = parser.parse_args()
    generator = random.Random(given.seed)
    folder = Path(tempfile.mkdtemp())
    kills = []
    try:
        # A first command that ends at once imports everything for the processes that are forked later.
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
            command(["run", str(folder / "absent.csv")])
        write_rows(folder / "rows.csv", given.rows)
        whole = {}
        for trial in range(given.trials):
            options = COMMANDS[trial % len(COMMANDS)]
            if options not in whole:
                (folder / "whole").mkdir()
                start_time = time.monotonic()
                whole[options] = (
                    *run(folder / "rows.csv", options, folder / "whole")[:2],
                    time.monotonic() - start_time,
                )
                shutil.rmtree(folder / "whole")
            model, results, seconds = whole[options]
            (folder / "killed").mkdir()
            stops = iter(lambda seconds=seconds: random_stops(generator, seconds), None)
            killed = run(folder / "rows.csv", options, folder / "killed", stops)
            shutil.rmtree(folder / "killed")
            assert killed[0] == model, f"trial {trial}, {options}: another model"
            assert killed[1] == results, f"trial {trial}, {options}: other results"
            kills += killed[2]
            if (trial + 1) % 50 == 0 or trial + 1 == given.trials:
                print_summary(trial + 1, kills)
    finally:
        shutil.rmtree(folder)


def random_stops(generator, seconds):
    """Return when to send which signals to a run of about this length."""
    first = (generator.uniform(0.0, 1.1 * seconds), generator.choice(SIGNALS))
    second = (generator.uniform(0.0, 0.02), generator.choice(SIGNALS))
    return [first, second] if generator.random() < 0.3 else [first]


def print_summary(trials, kills):
    names = ("checkpoint", "continued", "writing", "handled", "learned")
    found, continued, writing, handled, learned = (sum(bool(kill[name]) for kill in kills) for name in names)
    print(
        f"{trials} trials, {len(kills)} stops: {found} after a checkpoint, {continued} in a run that "
        f"continued from one, {writing} while a file was written; {handled} by a signal that was handled, "
        f"{learned} of them after something was learned. Every model and every result is the same.",
        flush=True,
    )


if __name__ == "__main__":
    main()
