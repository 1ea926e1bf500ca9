"""Run jobs on all cores. Each result is saved in a file, so that an interrupted run can be resumed."""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TypeGuard

from budgetron._util.atomic import atomic_write
from budgetron.experiments._studies import Job, JobResult, run_job

__all__ = ["run_jobs", "saved_result"]


def run_jobs(
    jobs: Sequence[Job], folder: Path, workers: int, watch: Callable[[Job], object] | None = None
) -> dict[Job, JobResult]:
    """Return the result of each job. Jobs that have a file in `folder` are not run again.

    Parameters
    ----------
    jobs : sequence of Job
    folder : Path
    workers : int
        Number of parallel processes.
    watch : callable, optional
        Called with each finished job, first with those that have a file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = {job: result for job in jobs if (result := saved_result(job, folder)) is not None}
    for job in results:
        if watch is not None:
            watch(job)
    remaining = [job for job in jobs if job not in results]
    if not remaining:
        return results
    # Spawn, because a forked process cannot use BLAS threads that its parent has started.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(remaining)), context, _ignore_interrupts)
    try:
        running = {pool.submit(run_job, job): job for job in remaining}
        for future in as_completed(running):
            job = running[future]
            results[job] = future.result()
            save_result(job, results[job], folder)
            if watch is not None:
                watch(job)
    except BaseException:  # also an interrupt: stop running jobs; the files of finished jobs remain
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    pool.shutdown()
    return results


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C, which a terminal sends to all processes. The parent process stops the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def saved_result(job: Job, folder: Path) -> JobResult | None:
    """Return the result that an earlier run saved, if it had the same settings."""
    try:
        saved = json.loads((folder / f"{job.key}.json").read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(saved, dict) or saved.get("settings") != job.settings:
        return None
    result = saved.get("result")
    return result if _is_complete(result) else None


def _is_complete(result: object) -> TypeGuard[JobResult]:
    return isinstance(result, dict) and bool(result.get("errors")) and "seconds" in result


def save_result(job: Job, result: JobResult, folder: Path) -> None:
    """Save a result atomically."""
    with atomic_write(folder / f"{job.key}.json") as file:
        file.write(json.dumps({"settings": job.settings, "result": result}).encode())
