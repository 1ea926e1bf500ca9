"""The papers' experiments: their tables and figures from one command, beside what was published.

`reproduce` runs them, `STUDIES` lists them. `_studies` says what is learned, `_runner` runs it on all
cores and resumes, `_published` holds the printed figures, `_tables` and `_figures` set the two side by side.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgetron import datasets
from budgetron._util.atomic import atomic_write
from budgetron.experiments._figures import figures
from budgetron.experiments._runner import kept_result, run_jobs
from budgetron.experiments._studies import STUDIES, Job, jobs_of
from budgetron.experiments._tables import Table, forgetron_table, projectron_table

__all__ = ["STUDIES", "Reproduction", "reproduce"]

LOADERS: dict[str, Callable[[], Any]] = {
    "adult": datasets.load_adult,
    "vehicle": datasets.load_vehicle,
    "mnist": datasets.load_mnist,
    "usps": datasets.load_usps,
    "census": datasets.load_census_income,
}


@dataclass(frozen=True)
class Reproduction:
    """What `reproduce` made.

    Attributes
    ----------
    tables : dict of name to Table
    missing : dict of study to reason
        Studies whose data could not be had.
    files : list of Path
        The page, and the pictures and tables beside it.
    """

    tables: dict[str, Table]
    missing: dict[str, str]
    files: list[Path]


def reproduce(
    page: str | os.PathLike[str],
    studies: Iterable[str] | None = None,
    *,
    quick: bool = False,
    workers: int | None = None,
    watch: Callable[[int, int, Job | None], object] | None = None,
) -> Reproduction:
    """Run the papers' experiments and write a page with their tables and figures.

    The pictures, the tables as CSV, and the results of finished jobs (in `.jobs`) go to a folder
    beside the page, called as the page without its suffix. Run again after an interruption, it
    goes on where it stopped; jobs done before, whichever studies were asked for, are on the page as well.

    Parameters
    ----------
    page : path
        Where to write the page, in Markdown.
    studies : iterable of str, optional
        Which of `STUDIES`; by default all.
    quick : bool, default=False
        Fewer permutations and drawings, and four of the 126 labellings of the digits: minutes, not hours.
    workers : int, optional
        Processes at a time, by default as many as there are processors. One takes up to 4 GB on the
        full digits.
    watch : callable, optional
        Called as jobs are done, with their number, the number of all, and the job.
    """
    chosen = list(STUDIES) if studies is None else list(studies)
    unknown = [name for name in chosen if name not in STUDIES]
    if unknown:
        raise ValueError(f"studies are {', '.join(STUDIES)}; got {', '.join(unknown)}")
    page = Path(page)
    folder = page.with_suffix("")
    if folder == page:
        raise ValueError(f"the page needs a suffix, such as {page}.md: its folder is called without it")
    missing = {name: reason for name in chosen if (reason := _lacking(name)) is not None}
    jobs = [job for name in chosen if name not in missing for job in jobs_of(STUDIES[name], quick)]
    done = 0

    def count(job: Job) -> None:
        nonlocal done
        done += 1
        if watch is not None:
            watch(done, len(jobs), job)

    if watch is not None:
        watch(0, len(jobs), None)
    results = run_jobs(jobs, folder / ".jobs", workers or os.cpu_count() or 1, count)
    for study in STUDIES.values():  # what earlier runs left, on the page as well
        for job in jobs_of(study, quick):
            if job not in results and (kept := kept_result(job, folder / ".jobs")) is not None:
                results[job] = kept
    return _write(page, folder, results, missing, quick)


def _lacking(study: str) -> str | None:
    """Why the data of a study cannot be had, if so; fetched once, before the workers ask for it."""
    if study not in LOADERS:
        return None
    try:
        LOADERS[study]()
    except datasets.DataNotFoundError as error:
        return str(error)
    return None


def _write(
    page: Path, folder: Path, results: dict[Job, dict[str, Any]], missing: dict[str, str], quick: bool
) -> Reproduction:
    tables: dict[str, Table] = {}
    for number, study in enumerate(("adult", "vehicle", "gaussians"), 1):
        table = projectron_table(results, study)
        if table is not None:
            tables[f"002-table-{number}"] = table
    table = forgetron_table(results)
    if table is not None:
        tables["003-table-8.1"] = table
    files = [page]
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        files.append(folder / f"{name}.csv")
        with atomic_write(files[-1]) as file:
            file.write(table.to_csv().encode())
    pictures = figures(results)
    for name, figure in pictures.items():
        files.append(folder / f"{name}.png")
        with atomic_write(files[-1]) as file:
            figure.savefig(file, dpi=110, format="png")
    with atomic_write(page) as file:
        file.write(_page(tables, list(pictures), folder.name, results, missing, quick).encode())
    return Reproduction(tables, missing, files)


def _page(
    tables: dict[str, Table],
    pictures: list[str],
    folder: str,
    results: dict[Job, dict[str, Any]],
    missing: dict[str, str],
    quick: bool,
) -> str:
    seconds = sum(result["seconds"] for result in results.values())
    lines = [
        "# The papers' experiments, run again",
        "",
        f"Written by `budgetron reproduce{' --quick' if quick else ''}`: {len(results)} jobs, "
        f"{seconds / 60:.0f} minutes of one core ({platform.machine()}). Means ± standard deviations. "
        "What the papers' tables print stands beside ours; the curves of their figures are not in numbers, "
        "so that only the points that tables also give are drawn as crosses.",
        "",
    ]
    for name, table in tables.items():
        lines += [f"## {table.title}", "", table.to_markdown(), f"[As CSV]({folder}/{name}.csv)", ""]
    for name in pictures:
        lines += [
            f"## {CAPTIONS[name][0]}",
            "",
            f"![{CAPTIONS[name][0]}]({folder}/{name}.png)",
            "",
            CAPTIONS[name][1],
            "",
        ]
    lacking = list(_lacking_of(results, missing, quick))
    if lacking:
        lines += ["## What is not here", "", *lacking, ""]
    return "\n".join(lines)


def _lacking_of(results: dict[Job, dict[str, Any]], missing: dict[str, str], quick: bool) -> Iterator[str]:
    """A line for each study that was not run, or not to its end."""
    for study in STUDIES.values():
        all_jobs = list(jobs_of(study, quick))
        done = sum(job in results for job in all_jobs)
        if study.name in missing:
            unverified = " 002 Table 2 is unverified." if study.name == "vehicle" else ""
            yield f"- {study.title} ({study.paper}): its data could not be had.{unverified}"
        elif done < len(all_jobs):
            yield f"- {study.title} ({study.paper}): {done} of {len(all_jobs)} jobs were run."


CAPTIONS = {
    "002-figure-1": (
        "002 Figure 1: online error against samples, Adult, B = 1500",
        "As in the paper: the Projectron follows the Perceptron, Forgetron and RBP stop improving when the "
        "budget is full, Projectron++ and PA-I stay below.",
    ),
    "002-figure-2": (
        "002 Figure 2: supports against samples, Adult, B = 1500",
        "Linear for Perceptron and PA-I, flattening for Projectron and Projectron++.",
    ),
    "002-figure-3": (
        "002 Figure 3: online error against supports, Adult, B = 1500",
        "With as many supports, Projectron and Projectron++ make fewer mistakes than the Perceptron.",
    ),
    "003-figure-4": (
        "003 Figure 4: online error against budget, USPS and MNIST",
        "The circle is the Perceptron with its supports, crosses are the points of Table 8.1.",
    ),
    "003-figure-5": (
        "003 Figure 5: online error against budget, Census-Income",
        "The circle is the Perceptron with its supports, crosses are the points of Table 8.1.",
    ),
    "003-figure-6": (
        "003 Figure 6: online error against budget, synthetic",
        "The circle is the Perceptron with its supports, crosses are the points of Table 8.1.",
    ),
    "003-figure-7": (
        "003 Figure 7: single runs, synthetic",
        "One data set: the self-tuned Forgetron, and the range of ten runs of CG, whose luck differs.",
    ),
}
