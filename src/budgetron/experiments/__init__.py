"""The papers' experiments: their tables and figures, next to the published numbers.

`reproduce` runs them, `STUDIES` lists them. `_studies` defines the experiments, `_runner` runs them on all
cores and resumes, `_published` has the published numbers, `_tables`, `_forgetron_tables` and `_figures`
compare both, `_page` writes the page.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from budgetron import datasets
from budgetron.experiments._page import write_page
from budgetron.experiments._runner import run_jobs, saved_result
from budgetron.experiments._studies import STUDIES, Job, jobs_of
from budgetron.experiments._tables import Table

__all__ = ["STUDIES", "Reproduction", "reproduce"]

LOADERS: dict[str, Callable[[], object]] = {
    "adult": datasets.load_adult,
    "vehicle": datasets.load_vehicle,
    "mnist": datasets.load_mnist,
    "usps": datasets.load_usps,
    "census": datasets.load_census_income,
    "census-widths": datasets.load_census_income,
    "usps-widths": datasets.load_usps,
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
    continues with the jobs that are not finished. The page also shows studies of earlier runs: from the
    results in `.jobs`, or if these are not there, from the page that is replaced.

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
    return Reproduction(*write_page(page, results, missing, quick))


def _missing_data(study: str) -> str | None:
    """Return why the data of a study is not available, or None. Downloads it before the workers start."""
    if study not in LOADERS:
        return None
    try:
        LOADERS[study]()
    except datasets.DataNotFoundError as error:
        return str(error)
    return None
