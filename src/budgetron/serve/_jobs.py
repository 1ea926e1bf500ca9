"""Work that HTTP requests give to a thread, and the threads that do it."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from budgetron.serve._problems import Problem

__all__ = ["Job", "Worker"]

logger = logging.getLogger("budgetron.serve")

# Rows that may wait for a thread. A request beyond them is refused, so that the queue's memory is bounded.
MOST_ROWS = 100_000
# Rows that a thread handles together; the last job that is added may exceed them.
GROUP_ROWS = 4096


class Job:
    """Something to do. The thread sets `result`, or `error`.

    Parameters
    ----------
    size : int
        Its number of rows.
    """

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.result: Any = None
        self.error: BaseException | None = None


J = TypeVar("J", bound=Job)


class Worker(ABC, Generic[J]):
    """A thread that handles jobs in groups: all that are there when it becomes free.

    Jobs are submitted, and results are delivered, in the thread of the event loop. The jobs of one turn of
    the event loop are submitted together: each change between threads takes longer than a small job.

    Parameters
    ----------
    name : str
    tick : float or None
        Seconds after which `idle` is called if there is no job.
    """

    def __init__(self, name: str, tick: float | None = None) -> None:
        self._queue: queue.SimpleQueue[list[J] | None] = queue.SimpleQueue()
        self._next: list[J] = []  # jobs of this turn of the event loop
        self._tick, self._rows = tick, 0
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def do(self, job: J) -> Any:
        """Let the thread do a job; return its result."""
        if self._rows + job.size > MOST_ROWS and self._rows:
            raise Problem(503, "overloaded", "too many requests wait; try again later")
        self._rows += job.size
        if not self._next:
            job.future.get_loop().call_soon(self._submit)
        self._next.append(job)
        try:
            return await job.future
        finally:
            self._rows -= job.size

    def _submit(self) -> None:
        jobs, self._next = self._next, []
        if self.is_quick(jobs):
            self._do(jobs)
            _set_results(jobs)
        else:
            self._queue.put(jobs)

    def is_quick(self, jobs: Sequence[J]) -> bool:
        """Return whether jobs may be done in the thread of the event loop, because they take no time."""
        return False

    def _do(self, jobs: Sequence[J]) -> None:
        """Do jobs; an unexpected error becomes the error of those without a result."""
        try:
            self.handle(jobs)
        except BaseException as error:
            logger.exception("a group of requests failed")
            for job in jobs:
                job.error = job.error or (None if job.result is not None else error)

    def stop(self, timeout: float) -> bool:
        """Let the thread finish the jobs that it has; return whether it did so in time."""
        self._queue.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @abstractmethod
    def handle(self, jobs: Sequence[J]) -> None:
        """Do jobs: set the result or the error of each."""

    def idle(self) -> None:
        """Called regularly, also between jobs."""

    def finish(self) -> None:
        """Called once, after the last job."""

    def _work(self) -> None:
        stopping = False
        while not stopping:
            jobs, stopping = self._next_jobs()
            if jobs:
                self._do(jobs)
                _deliver(jobs)
            try:
                self.idle()
            except Exception:
                logger.exception("maintenance failed; it is tried again")
        self.finish()

    def _next_jobs(self) -> tuple[list[J], bool]:
        """Return the next jobs, and whether they are the last."""
        jobs: list[J] = []
        try:
            found = self._queue.get(timeout=self._tick)
            while found is not None:
                jobs += found
                if sum(job.size for job in jobs) >= GROUP_ROWS:
                    return jobs, False
                found = self._queue.get_nowait()
        except queue.Empty:
            return jobs, False
        return jobs, True


def _deliver(jobs: Sequence[Job]) -> None:
    """Give the results of a group to the event loop, by one call."""
    loop = jobs[0].future.get_loop()
    try:
        loop.call_soon_threadsafe(_set_results, jobs)
    except RuntimeError:  # the loop was closed: nobody waits any more
        logger.warning("%d requests ended after the service stopped", len(jobs))


def _set_results(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.future.done():  # the client has gone
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
