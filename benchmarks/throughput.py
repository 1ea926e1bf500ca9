"""Measure the time from a file to a linear model, next to Vowpal Wabbit: python benchmarks/throughput.py

300,000 rows of 20 numbers, as CSV, as LIBSVM and in Vowpal Wabbit's format, in one run. Each command runs in
a process of its own, several times in turn, and the fastest counts. CPU time is that of all threads. Startup
is the time of the same command on 100 rows. Also measured: `budgetron --help`, what startup consists of, and
`import budgetron` next to scikit-learn. Run it on an idle machine: other processes change the ratios.
With --write, the figures are written for docs/command-line.md (by generated.py).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "docs" / "command-line" / "throughput.json"

VW = """
import sys
from vowpalwabbit import Workspace
model = Workspace(f"--quiet --loss_function hinge -b 18 -d {sys.argv[1]} --no_stdin")
model.finish()
"""

# What a command does before it imports other libraries, and those that it needs.
QUICK = "from budgetron.cli import _startup as s; s.avoid_slow_imports(['run']); s.postpone_collection()"
LIBRARIES = "import typer._adapters, rich.console, sklearn.base, pyarrow.csv"


def write_files(folder: Path, n: int) -> dict[str, Path]:
    """Write the same rows in three formats."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1, -1)
    paths = {name: folder / f"{n}.{name}" for name in ("csv", "svm", "vw")}
    with open(paths["csv"], "w") as file:
        file.write(",".join([*(f"c{i}" for i in range(20)), "y"]) + "\n")
        np.savetxt(file, np.column_stack([X, y]), fmt=["%.5f"] * 20 + ["%d"], delimiter=",")
    with open(paths["svm"], "w") as svm, open(paths["vw"], "w") as vw:
        for label, row in zip(y.tolist(), X.tolist(), strict=True):
            features = " ".join(f"{i}:{value:.5f}" for i, value in enumerate(row, 1))
            svm.write(f"{label} {features}\n")
            vw.write(f"{label} | {features}\n")
    return paths


def commands(paths: dict[str, Path]) -> dict[str, list[str]]:
    """Return the command that learns each file."""
    run = [sys.executable, "-m", "budgetron", "run", "-l", "linear.passiveaggressive"]
    return {
        "Budgetron, CSV": [*run, str(paths["csv"]), "-t", "y"],
        "Budgetron, LIBSVM": [*run, str(paths["svm"])],
        "Vowpal Wabbit": [sys.executable, "-c", VW, str(paths["vw"])],
    }


def seconds(command: list[str]) -> tuple[float, float]:
    """Return the elapsed time and the CPU time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    elapsed = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fastest(tasks: dict[str, list[str]], repeats: int) -> dict[str, tuple[float, float]]:
    """Return the least elapsed time and the least CPU time of each command; they run in turn."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, command in tasks.items():
            times[name].append(seconds(command))
    return {name: (min(e for e, _ in all_), min(c for _, c in all_)) for name, all_ in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--write", nargs="?", const=RESULTS, type=Path, help="also write the figures to a file"
    )
    options = parser.parse_args()
    startup = {
        "budgetron --help": [sys.executable, "-m", "budgetron", "--help"],
        "python without imports": [sys.executable, "-c", "pass"],
        "import numpy, scipy.sparse": [sys.executable, "-c", "import numpy, scipy.sparse"],
        "import budgetron": [sys.executable, "-c", "import budgetron"],
        "import sklearn.linear_model": [sys.executable, "-c", "import sklearn.linear_model"],
        "import sklearn.base": [sys.executable, "-c", "import sklearn.base"],
        "libraries in budgetron run": [sys.executable, "-c", f"{QUICK}; {LIBRARIES}"],
    }
    figures: dict[str, dict[str, float]] = {}
    load = os.getloadavg()[0]  # of other processes, before this run
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(Path(folder), options.rows)
        tasks = commands(paths)
        few = commands(write_files(Path(folder), 100))
        both = tasks | {f"{name}, 100 rows": command for name, command in few.items()}
        times = fastest(both, options.repeats)
        long = {name: times[name] for name in tasks}
        short = {name: times[f"{name}, 100 rows"] for name in tasks}
        sizes = dict(zip(long, (path.stat().st_size for path in paths.values()), strict=True))
        heads = f"{'elapsed':>9} {'CPU':>7} {'after startup':>14} {'MB/s':>7} {'MB/CPU s':>9}"
        heads += f" {'of VW':>6} {'CPU':>6}"
        print(f"{'':30} {heads}")
        for name, (elapsed, cpu) in long.items():
            rest, rest_cpu = elapsed - short[name][0], cpu - short[name][1]
            rate, cpu_rate = sizes[name] / 1e6 / max(rest, 1e-9), sizes[name] / 1e6 / max(rest_cpu, 1e-9)
            ratio, cpu_ratio = elapsed / long["Vowpal Wabbit"][0], cpu / long["Vowpal Wabbit"][1]
            shown = f"{elapsed:8.2f}s {cpu:6.2f}s {rest:13.2f}s"
            print(f"{name:30} {shown} {rate:7.0f} {cpu_rate:9.0f} {ratio:6.2f} {cpu_ratio:6.2f}")
            figures[name] = {"seconds": elapsed, "cpu": cpu, "after_startup": rest, "mb_per_second": rate}
            figures[name] |= {
                "mb_per_cpu_second": cpu_rate,
                "times_vowpal_wabbit": ratio,
                "cpu_times_vowpal_wabbit": cpu_ratio,
            }
    for name, (elapsed, cpu) in fastest(startup, options.repeats).items():
        print(f"{name:30} {elapsed:8.2f}s {cpu:6.2f}s")
        figures[name] = {"seconds": elapsed, "cpu": cpu}
    if options.write:
        found = {"rows": options.rows, "load": load, "figures": figures}
        options.write.parent.mkdir(exist_ok=True)
        options.write.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
