"""Kill `budgetron run --checkpoint` at random times: it must end as if it had never been killed.

    python tests/kill.py 300

Each trial kills a run with SIGKILL at a random time, and starts the same command again, until it reaches its
end. Model and results must then be those of a run that was not killed: the same bytes, and the same JSON
except for times. Processes are forked from one that has imported the library, so that most of them are killed
during the run and not while Python starts.
"""

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from math import inf
from pathlib import Path

import numpy as np
import pyarrow.compute
import pyarrow.csv  # noqa: F401 - imported once, not in every process
import typer.main

from budgetron.cli import app

command = typer.main.get_command(app)

COMMANDS = (
    ("--learner", "forgetron", "--budget", "50", "--every", "500"),
    ("--learner", "rbp", "--budget", "50", "--every", "3000", "--missing", "mean"),
    ("--learner", "projectron++", "--budget", "40", "--every", "5000"),
    ("--learner", "arow", "--every", "700", "--delay", "300"),
    ("--learner", "linear.perceptron", "--average", "--rows", "300", "--every", "40"),
)
TIMES = ("seconds", "rounds_per_second")


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
    code = 1
    try:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(os.open(f"{output}.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        command([str(argument) for argument in arguments])
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def end_of(process, seconds):
    """Wait for a process, kill it after some seconds, and return its exit status."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.001)
    os.kill(process, signal.SIGKILL)
    return os.waitpid(process, 0)[1]


def run(table, options, folder, lifetimes=None):
    """Run until the end, killed after each of `lifetimes` (seconds); return model, results, and the kills."""
    model, output = folder / "model.budgetron", folder / "output.json"
    checkpoint = folder / "checkpoint"
    arguments = ["run", table, "--target", "label", *options, "--checkpoint", checkpoint]
    kills = []
    while True:
        process = start([*arguments, "--save", model, "--json"], output)
        status = end_of(process, inf if lifetimes is None else next(lifetimes))
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, Path(f"{output}.err").read_text()
            return model.read_bytes(), without_times(json.loads(output.read_text())), kills
        errors = Path(f"{output}.err")
        kills.append(
            {
                "checkpoint": (checkpoint / "checkpoint.budgetron").exists(),
                "continued": errors.exists() and "continuing after" in errors.read_text(),
                "writing": len(list(checkpoint.glob(".budgetron-*.tmp"))),
            }
        )


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
            lifetimes = iter(lambda seconds=seconds: generator.uniform(0.0, 1.1 * seconds), None)
            killed = run(folder / "rows.csv", options, folder / "killed", lifetimes)
            shutil.rmtree(folder / "killed")
            assert killed[0] == model, f"trial {trial}, {options}: another model"
            assert killed[1] == results, f"trial {trial}, {options}: other results"
            kills += killed[2]
            if (trial + 1) % 50 == 0 or trial + 1 == given.trials:
                print_summary(trial + 1, kills)
    finally:
        shutil.rmtree(folder)


def print_summary(trials, kills):
    names = ("checkpoint", "continued", "writing")
    found, continued, writing = (sum(bool(kill[name]) for kill in kills) for name in names)
    print(
        f"{trials} trials, {len(kills)} kills: {found} after a checkpoint, {continued} in a run that "
        f"continued from one, {writing} while one was written. Every model and every result is the same.",
        flush=True,
    )


if __name__ == "__main__":
    main()
