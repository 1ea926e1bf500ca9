"""Parts that the measurements on Spark share: rows in files, CPU time, and runs that are killed.

A run is killed as soon as a chosen file of a chosen micro-batch exists. So every kill happens during the run,
however fast the machine is, and is followed by at least one more micro-batch.

Spark waits 10 seconds for a Python process that it starts, and no setting changes this. On a busy machine a
run may fail for this reason. Then it is started again, like a run that was killed. Other failures are errors.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

ATTEMPTS = 12  # how often a run is started until it succeeds
# What Spark writes when a Python process did not answer within 10 seconds.
TOO_SLOW = ("failed to connect back", "waiting for the Python worker to connect", "Accept timed out")

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def new_session(master: str) -> SparkSession:
    """Return a session that listens on loopback only."""
    from spark_session import new_session

    return new_session(master)


def write_rows(folder: Path, rows: Sequence[Mapping[str, Any]], size: int) -> int:
    """Write one JSON file for each micro-batch of `size` rows; return their number."""
    folder.mkdir(parents=True)
    starts = range(0, len(rows), size)
    for i, first in enumerate(starts):
        path = folder / f"{i:06d}.json"
        lines = [json.dumps(row) + "\n" for row in rows[first : first + size]]
        path.write_text("".join(lines), encoding="utf-8")
        os.utime(path, (1e9 + i, 1e9 + i))  # Spark reads old files first
    return len(starts)


def cpu_of_tree() -> float:
    """Return the CPU seconds of this process and all its descendants."""
    parents, times = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            times[int(entry.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(times[pid] for pid in mine)


class SparkRun(subprocess.Popen[str]):
    """A script in a process group of its own, with the JVM that it starts."""

    def __init__(self, script: str, *arguments: object, **options: Any) -> None:
        # Closed with the object: the process writes to it as long as it runs.
        self.errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        super().__init__(
            [sys.executable, script, *map(str, arguments)],
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            **options,
        )

    def raise_unless_late(self) -> None:
        """After a failure: raise an error unless the reason is that a Python process started too slowly."""
        self.errors.seek(0)
        text = self.errors.read()
        if not any(reason in text for reason in TOO_SLOW):
            raise RuntimeError(f"a run failed with the code {self.returncode}:\n{text[-4000:]}")
        print("a Python process of a run started too slowly; the run is started again", flush=True)


def output(run: Callable[[], SparkRun]) -> list[str]:
    """Return the lines that a run prints; start it again if a Python process of it started too slowly."""
    for _ in range(ATTEMPTS):
        process = run()
        lines = process.communicate()[0].splitlines()
        if process.returncode == 0:
            return lines
        process.raise_unless_late()
    raise RuntimeError(f"Python processes of {ATTEMPTS} runs started too slowly")


def kill_at_random_moments(
    run: Callable[[], SparkRun],
    folder: Path,
    files: Mapping[str, str],
    batches: int,
    times: int,
    seed: int = 0,
) -> None:
    """Start a run several times, and kill it each time at a random moment.

    `files` names the moments of a micro-batch: for each, a pattern of a file in the folder, in which {batch}
    is the number of the batch and {version} the next one. The last batch is never chosen.
    """
    chance = random.Random(seed)
    chosen = sorted(chance.sample(range(batches - 1), times))
    moments = cycle(chance.sample(list(files), len(files)))  # so that five kills have each of five moments
    for batch, moment in zip(chosen, moments, strict=False):
        pattern = files[moment].format(batch=batch, version=batch + 1)
        for _ in range(ATTEMPTS):
            process = run()
            while process.poll() is None and next(folder.glob(pattern), None) is None:
                time.sleep(0.002)
            end_group(process)
            if process.returncode in (0, -signal.SIGKILL):
                break
            process.raise_unless_late()
        if process.returncode != -signal.SIGKILL:
            raise RuntimeError(f"no run was killed in batch {batch}")
        print(f"killed in batch {batch}, when this was there: {moment}", flush=True)


def end_group(process: SparkRun) -> None:
    """Kill a process, and all that it has started, with SIGKILL."""
    with contextlib.suppress(ProcessLookupError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
