"""Running jobs on all cores. Each result is kept in a file: an interrupted run goes on where it stopped."""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from budgetron._util.atomic import atomic_write
from budgetron.experiments._studies import Job, run_job

__all__ = ["kept_result", "run_jobs"]


def run_jobs(
    jobs: Sequence[Job], folder: Path, workers: int, watch: Callable[[Job], object] | None = None
) -> dict[Job, dict[str, Any]]:
    """The result of each job, from its file in `folder` if it was run before.

    Parameters
    ----------
    jobs : sequence of Job
    folder : Path
    workers : int
        Processes at a time.
    watch : callable, optional
        Called with each job that is done, at once for those done before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = {job: result for job in jobs if (result := kept_result(job, folder)) is not None}
    for job in results:
        if watch is not None:
            watch(job)
    left = [job for job in jobs if job not in results]
    if not left:
        return results
    # Spawned, for forked processes may not use the threads of a BLAS that their parent has started.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(left)), context, _leave_interrupts_to_the_parent)
    try:
        running = {pool.submit(run_job, job): job for job in left}
        for future in as_completed(running):
            job = running[future]
            results[job] = future.result()
            keep_result(job, results[job], folder)
            if watch is not None:
                watch(job)
    except BaseException:  # an interrupt as well: what is running is dropped, what is done is kept
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    pool.shutdown()
    return results


def _leave_interrupts_to_the_parent() -> None:
    """A terminal sends ctrl-C to all; the parent stops the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def kept_result(job: Job, folder: Path) -> dict[str, Any] | None:
    """The result that an earlier run left, if it had the same settings."""
    try:
        kept = json.loads((folder / f"{job.key}.json").read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(kept, dict) or kept.get("settings") != job.settings:
        return None
    result = kept.get("result")
    whole = isinstance(result, dict) and result.get("errors") and "seconds" in result
    return result if whole else None


def keep_result(job: Job, result: dict[str, Any], folder: Path) -> None:
    """Write it whole or not at all."""
    with atomic_write(folder / f"{job.key}.json") as file:
        file.write(json.dumps({"settings": job.settings, "result": result}).encode())
