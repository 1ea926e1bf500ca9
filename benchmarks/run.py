"""Run the benchmarks: print tables, draw plots and write docs/performance.md.

    python benchmarks/run.py                     all sections; docs/performance.md and its plots
    python benchmarks/run.py budget play         the named sections
    python benchmarks/run.py --quick             smaller sizes, about five minutes, into benchmarks/results
    python benchmarks/run.py --resume            the sections without results, after an interrupted run
    python benchmarks/run.py --page              measure nothing; write the page and the plots again
    python benchmarks/run.py pipe                runs only if named: 2 GB through a pipe

The results of each section are written to performance/SECTION.json as soon as it is finished. BLAS is limited
to one thread. river and Vowpal Wabbit are in the dependency group `bench`; if they are not installed, their
rows are omitted. BUDGETRON_DATA names a folder with a9a and USPS. Without it they are downloaded from OpenML;
if that fails, a9a is replaced by random rows of the same shape.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

try:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
except ImportError:
    sys.exit("the benchmarks need rich and matplotlib: pip install --group cli")
from threadpoolctl import threadpool_limits

import page
from measure import machine

ROOT = Path(__file__).resolve().parent.parent

# The module and the function that measures, in the order of the page. Modules are imported only when they are
# needed, so that `--page` needs neither Budgetron nor the other libraries.
SECTIONS = {
    "limits": ("limits", "limits"),
    "loops": ("learning", "loops"),
    "gemm": ("learning", "gemm"),
    "projection": ("learning", "projection"),
    "play": ("comparison", "play"),
    "prediction": ("comparison", "prediction"),
    "others": ("comparison", "others"),
    "budget": ("scaling", "budget"),
    "features": ("scaling", "features"),
    "density": ("scaling", "density"),
    "classes": ("classes", "classes"),
    "threads": ("scaling", "threads"),
    "rounds": ("scaling", "rounds"),
    "memory": ("memory", "memory"),
    "linear": ("comparison", "linear_learners"),
    "sharing": ("comparison", "sharing"),
    "pipe": ("memory", "pipe"),
}
ON_DEMAND = {"pipe"}


class Bench:
    """The settings of a section: how much to measure, and `step`, which reports its progress."""

    def __init__(self, mode: str, step: Callable[[str], None]) -> None:
        self.mode, self.step = mode, step
        self.repeat = self.pick(5, 3, 1)
        self.online = mode != "tiny"  # whether data may be downloaded

    def pick(self, full: Any, quick: Any, tiny: Any) -> Any:
        """Return the argument for this mode."""
        return {"full": full, "quick": quick, "tiny": tiny}[self.mode]

    def rounds(self, most: int, weight: int) -> int:
        """Return a number of rounds that decreases with their cost, but is enough for a few blocks."""
        return max(self.pick(512, 256, 64), min(self.pick(most, most // 2, 64), 4_000_000 // max(1, weight)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"one of {', '.join(SECTIONS)}")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="smaller sizes, fewer repetitions")
    size.add_argument(
        "--tiny", action="store_true", help="smallest sizes, only to check that everything runs"
    )
    parser.add_argument(
        "--out", type=Path, help="folder (default: docs; benchmarks/results if --quick or --tiny)"
    )
    parser.add_argument("--resume", action="store_true", help="skip sections that have results of this mode")
    parser.add_argument("--page", action="store_true", help="measure nothing; write the page again")
    options = parser.parse_args()
    mode = "quick" if options.quick else "tiny" if options.tiny else "full"
    out = options.out or (ROOT / "docs" if mode == "full" else ROOT / "benchmarks" / "results")
    if unknown := [name for name in options.sections if name not in SECTIONS]:
        parser.error(f"unknown section: {', '.join(unknown)}; choose from {', '.join(SECTIONS)}")
    names = options.sections or [name for name in SECTIONS if name not in ON_DEMAND]
    console = Console()
    if not console.is_terminal:  # output to a file: do not wrap the tables
        console.width = 160
    results = out / "performance"
    results.mkdir(parents=True, exist_ok=True)
    if not options.page:
        if options.resume:
            names = [name for name in names if not done(results / f"{name}.json", mode)]
        measure(names, mode, results, console)
    written = page.write(out, list(SECTIONS), console)
    console.print(f"{escape(str(written))} and {escape(str(results))}")


def done(file: Path, mode: str) -> bool:
    return file.exists() and json.loads(file.read_text())["mode"] == mode


def measure(names: list[str], mode: str, results: Path, console: Console) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            start, cpu_start = time.perf_counter(), time.process_time()
            bench = Bench(
                mode, lambda text, name=name: progress.update(task, description=f"{name}: {escape(text)}")
            )
            module, function = SECTIONS[name]
            section = getattr(import_module(module), function)
            with threadpool_limits(1, user_api="blas"):
                result = section(bench)
            seconds = time.perf_counter() - start
            found = asdict(result) | {
                "section": name,
                "mode": mode,
                "seconds": round(seconds, 1),
                "core": round(
                    (time.process_time() - cpu_start) / seconds, 2
                ),  # share of one core that it had
                "machine": machine(),
            }
            part = results / f"{name}.json.part"
            part.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")
            part.replace(results / f"{name}.json")
            page.print_section(found, console)
            progress.advance(task)


if __name__ == "__main__":
    main()
