"""Attack the models with random sequences of calls.

    python tests/attack/run.py 20000 [--seed S] [--processes P]     run a number of sequences
    python tests/attack/run.py --replay S N                         run task N of seed S again, here

Each task runs a few sequences against one class, chosen in turn. Tasks run in other processes, so that a
crash or a hang is detected, and reported with the task that caused it. The replay of a task runs in this
process, and also shrinks the sequence that fails.
"""

import argparse
import faulthandler
import math
import os
import sys
import traceback
from collections import Counter
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from models import VARIANTS
from progress import listen
from sequences import run_sequences
from supervisor import supervise_several

# Sequences of a task, and the largest number of steps of a sequence.
SEQUENCES, STEPS = 5, 30

NAMES = list(VARIANTS)


def name_of(number):
    """Return the variant that a task attacks."""
    return NAMES[number % len(NAMES)]


def run_task(seed, number, *, shrink=False):
    run_sequences(name_of(number), f"{seed}/{number}", SEQUENCES, STEPS, shrink=shrink)


def worker(reporter, seed, numbers):
    faulthandler.enable()
    listen(reporter.is_alive)
    reporter.ready()
    for number in numbers:
        try:
            run_task(seed, number)
        except Exception as error:
            notes = getattr(error, "__notes__", [])
            reporter.result(number, "failed", "\n".join([*notes, traceback.format_exc(limit=-3)]))
        else:
            reporter.result(number, "passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=2000, help="number of sequences")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--replay", type=int, nargs=2, metavar=("SEED", "NUMBER"))
    options = parser.parse_args()
    if options.replay:
        faulthandler.enable()
        run_task(*options.replay, shrink=True)
        print("passed")
        return
    tasks = math.ceil(options.count / SEQUENCES)
    passed, failed = Counter(), Counter()
    for number, outcome, failure in supervise_several(
        options.processes, worker, (options.seed,), range(tasks)
    ):
        registered = VARIANTS[name_of(number)].registered
        (failed if failure else passed)[registered] += SEQUENCES
        if failure:
            print(f"--replay {options.seed} {number} ({name_of(number)}): {outcome}: {failure}", flush=True)
        done = passed.total() + failed.total()
        if done % 500 < SEQUENCES:
            print(f"{done} sequences, {failed.total() // SEQUENCES} failed tasks", flush=True)
    for registered in sorted({*passed, *failed}):
        print(f"{registered:35} {passed[registered]:7} passed {failed[registered]:7} in failed tasks")
    print(f"{passed.total()} sequences passed; {failed.total() // SEQUENCES} tasks failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
