"""Kill `budgetron run --checkpoint` at random moments: it must end as if it had never been killed.

    python tests/kill.py 300

Each trial kills a run with SIGKILL at a moment drawn from its whole life, and starts the same command again,
until it comes to its end. Model and results must then be those of a run that nobody killed: the same bytes,
and the same JSON but for times. Processes are forked from one that has imported the library, so that most
moments fall into the run, and not into Python's start.
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
import pyarrow.csv  # noqa: F401 - here, and not anew in every process
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
    """A table with numbers, a category and two classes."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(rows, 4)).round(4)
    towns = rng.choice(["paris", "rome", "oslo", "lima"], rows)
    score = numbers[:, 0] * numbers[:, 1] + (towns == "rome") - 0.3 + 0.3 * rng.normal(size=rows)
    with path.open("w") as file:
        file.write("a,b,c,d,town,label\n")
        for row, town, label in zip(numbers, towns, np.where(score > 0, "yes", "no"), strict=True):
            file.write(",".join([*map(str, row), town, label]) + "\n")


def start(arguments, said):
    """Start the command in a process of its own, which writes to `said`; its id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(os.open(f"{said}.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        command([str(argument) for argument in arguments])
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def end_of(process, seconds):
    """The status with which a process ends, or is killed when its time is over."""
    over = time.monotonic() + seconds
    while time.monotonic() < over:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.001)
    os.kill(process, signal.SIGKILL)
    return os.waitpid(process, 0)[1]


def run(table, options, folder, lives=None):
    """Run until the end, killed when each of `lives` (seconds) is over; model, results, and the kills."""
    model, said = folder / "model.budgetron", folder / "said.json"
    checkpoint = folder / "checkpoint"
    arguments = ["run", table, "--target", "label", *options, "--checkpoint", checkpoint]
    told = []
    while True:
        process = start([*arguments, "--save", model, "--json"], said)
        status = end_of(process, inf if lives is None else next(lives))
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, Path(f"{said}.err").read_text()
            return model.read_bytes(), without_times(json.loads(said.read_text())), told
        going = "going on" in Path(f"{said}.err").read_text() if Path(f"{said}.err").exists() else False
        drafts = len(list(checkpoint.glob(".budgetron-*.tmp")))
        told.append({"kept": (checkpoint / "checkpoint.budgetron").exists(), "draft": drafts, "again": going})


def without_times(results):
    """The results but for times."""
    if isinstance(results, dict):
        return {name: without_times(value) for name, value in results.items() if name not in TIMES}
    return [without_times(value) for value in results] if isinstance(results, list) else results


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trials", type=int, nargs="?", default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=20_000)
    given = parser.parse_args()
    drawn = random.Random(given.seed)
    folder = Path(tempfile.mkdtemp())
    kills = []
    try:
        # A first command, that ends at once: what is imported when one comes is there for all.
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
            command(["run", str(folder / "absent.csv")])
        write_rows(folder / "rows.csv", given.rows)
        whole = {}
        for trial in range(given.trials):
            options = COMMANDS[trial % len(COMMANDS)]
            if options not in whole:
                (folder / "whole").mkdir()
                begin = time.monotonic()
                whole[options] = (
                    *run(folder / "rows.csv", options, folder / "whole")[:2],
                    time.monotonic() - begin,
                )
                shutil.rmtree(folder / "whole")
            model, results, life = whole[options]
            (folder / "killed").mkdir()
            lives = iter(lambda life=life: drawn.uniform(0.0, 1.1 * life), None)
            killed = run(folder / "rows.csv", options, folder / "killed", lives)
            shutil.rmtree(folder / "killed")
            assert killed[0] == model, f"trial {trial}, {options}: another model"
            assert killed[1] == results, f"trial {trial}, {options}: other results"
            kills += killed[2]
            if (trial + 1) % 50 == 0 or trial + 1 == given.trials:
                tell(trial + 1, kills)
    finally:
        shutil.rmtree(folder)


def tell(trials, kills):
    kept, again, drafts = (sum(bool(kill[name]) for kill in kills) for name in ("kept", "again", "draft"))
    print(
        f"{trials} trials, {len(kills)} kills: {kept} with a checkpoint there, {again} in a run that went on "
        f"from one, {drafts} while one was written. Every model and every result is the same.",
        flush=True,
    )


if __name__ == "__main__":
    main()
