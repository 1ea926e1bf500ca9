"""The papers' experiments: their tables and figures, next to the published numbers.

`reproduce` runs them, `STUDIES` lists them. `_studies` defines the experiments, `_runner` runs them on all
cores and resumes, `_published` has the published numbers, `_tables` and `_figures` compare both.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from budgetron import datasets
from budgetron._util.atomic import atomic_write
from budgetron.experiments._figures import figures
from budgetron.experiments._runner import run_jobs, saved_result
from budgetron.experiments._studies import PAPERS, STUDIES, Job, JobResult, jobs_of
from budgetron.experiments._tables import Table, forgetron_table, projectron_table

__all__ = ["STUDIES", "Reproduction", "reproduce"]

LOADERS: dict[str, Callable[[], object]] = {
    "adult": datasets.load_adult,
    "vehicle": datasets.load_vehicle,
    "mnist": datasets.load_mnist,
    "usps": datasets.load_usps,
    "census": datasets.load_census_income,
}


@dataclass(frozen=True)
class Reproduction:
    """The tables and files that `reproduce` made.

    Attributes
    ----------
    tables : dict of name to Table
    missing : dict of study to reason
        Studies whose data is not available.
    files : list of Path
        The page, and the pictures and tables next to it.
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

    The pictures, the tables as CSV, and the results of finished jobs (in `.jobs`) are written to a folder
    next to the page, with the name of the page without its suffix. After an interruption, the next run
    continues with the jobs that are not finished. The page also shows studies of earlier runs.

    Parameters
    ----------
    page : path
        Where to write the page, in Markdown.
    studies : iterable of str, optional
        Names from `STUDIES`; by default all.
    quick : bool, default=False
        Whether to run fewer permutations and samples, and four of the 126 labellings of the digits. This
        takes minutes instead of hours.
    workers : int, optional
        Number of parallel processes, by default the number of processors. On the full digits one process
        needs up to 4 GB.
    watch : callable, optional
        Called after each job with the number of finished jobs, the number of all jobs, and the job.

    Returns
    -------
    Reproduction
    """
    chosen = list(STUDIES) if studies is None else list(studies)
    unknown = [name for name in chosen if name not in STUDIES]
    if unknown:
        raise ValueError(f"studies are {', '.join(STUDIES)}; got {', '.join(unknown)}")
    page = Path(page)
    folder = page.with_suffix("")
    if folder == page:
        raise ValueError(f"page must have a suffix, such as {page}.md; the folder has the name without it")
    missing = {name: reason for name in chosen if (reason := _missing_data(name)) is not None}
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
    for study in STUDIES.values():  # results of earlier runs
        for job in jobs_of(study, quick):
            if job not in results and (saved := saved_result(job, folder / ".jobs")) is not None:
                results[job] = saved
    return _write(page, folder, results, missing, quick)


def _missing_data(study: str) -> str | None:
    """Return why the data of a study is not available, or None. Downloads it before the workers start."""
    if study not in LOADERS:
        return None
    try:
        LOADERS[study]()
    except datasets.DataNotFoundError as error:
        return str(error)
    return None


def _tables(results: dict[Job, JobResult]) -> dict[str, Table]:
    """Return by file name the tables that there are results for."""
    tables = {
        f"002-table-{number}": projectron_table(results, study)
        for number, study in enumerate(("adult", "vehicle", "gaussians"), 1)
    }
    tables["003-table-8.1"] = forgetron_table(results)
    return {name: table for name, table in tables.items() if table is not None}


def _write(
    page: Path, folder: Path, results: dict[Job, JobResult], missing: dict[str, str], quick: bool
) -> Reproduction:
    tables, files = _tables(results), [page]
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
    results: dict[Job, JobResult],
    missing: dict[str, str],
    quick: bool,
) -> str:
    seconds = sum(result["seconds"] for result in results.values())
    lines = [
        "# The papers' experiments, repeated",
        "",
        f"Written by `budgetron reproduce{' --quick' if quick else ''}`: {len(results)} jobs, "
        f"{seconds / 60:.0f} minutes of one core ({platform.machine()}). Results are means ± standard "
        "deviations. Published values are shown next to ours. The papers do not give the curves of their "
        "figures as numbers, so the figures show only those published points that the tables also contain, "
        "as crosses.",
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
    incomplete = list(_incomplete(results, missing, quick))
    if incomplete:
        lines += ["## Not included", "", *incomplete, ""]
    return "\n".join(lines)


def _incomplete(results: dict[Job, JobResult], missing: dict[str, str], quick: bool) -> Iterator[str]:
    """Yield a line for each study of which some or all jobs were not run."""
    for study in STUDIES.values():
        all_jobs = list(jobs_of(study, quick))
        done = sum(job in results for job in all_jobs)
        if study.name in missing:
            unverified = (
                " Table 2 of the Projectron paper is not verified." if study.name == "vehicle" else ""
            )
            yield f"- {study.title} ({PAPERS[study.paper]}): the data set was not available.{unverified}"
        elif done < len(all_jobs):
            yield f"- {study.title} ({PAPERS[study.paper]}): {done} of {len(all_jobs)} jobs were run."


CAPTIONS = {
    "002-figure-1": (
        "Projectron paper, Figure 1: online error against samples, Adult, B = 1500",
        "As in the paper, the Projectron's curve is close to the Perceptron's, the Forgetron and the RBP "
        "(Randomized Budget Perceptron) stop improving when the budget is full, and Projectron++ and PA-I "
        "have a lower error.",
    ),
    "002-figure-2": (
        "Projectron paper, Figure 2: supports against samples, Adult, B = 1500",
        "The number of supports grows linearly for the Perceptron and PA-I, and ever more slowly for "
        "Projectron and Projectron++.",
    ),
    "002-figure-3": (
        "Projectron paper, Figure 3: online error against supports, Adult, B = 1500",
        "With the same number of supports, Projectron and Projectron++ make fewer mistakes than the "
        "Perceptron.",
    ),
    "003-figure-4": (
        "Forgetron paper, Figure 4: online error against budget, USPS and MNIST",
        "The circle shows the Perceptron and its number of supports; crosses are the points of Table 8.1.",
    ),
    "003-figure-5": (
        "Forgetron paper, Figure 5: online error against budget, Census-Income",
        "The circle shows the Perceptron and its number of supports; crosses are the points of Table 8.1.",
    ),
    "003-figure-6": (
        "Forgetron paper, Figure 6: online error against budget, synthetic",
        "The circle shows the Perceptron and its number of supports; crosses are the points of Table 8.1.",
    ),
    "003-figure-7": (
        "Forgetron paper, Figure 7: single runs, synthetic",
        "One data set: the self-tuned Forgetron, and the range of ten runs of CG, which depends on random "
        "choices.",
    ),
}
