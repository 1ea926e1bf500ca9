"""The thread that predicts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from numpy.typing import NDArray

from budgetron.serve._clock import now
from budgetron.serve._entries import Entry
from budgetron.serve._jobs import Job, Worker
from budgetron.serve._problems import Problem, of_fault
from budgetron.serve._responses import to_json
from budgetron.serve._tasks import Predictions
from budgetron.serve._waiting import BATCH_BYTES
from budgetron.streams._errors import Fault
from budgetron.streams._objects import PlainRows

__all__ = ["Predict", "Reader"]

QUICK_SECONDS = 0.003


class Predict(Job):
    """Predict rows; the result is the body of the response.

    Parameters
    ----------
    entry : Entry
    rows : PlainRows
    keep : bool
        Whether the rows wait for labels.
    regions : bool
        Whether to return sets or intervals, too.
    """

    def __init__(self, entry: Entry, rows: PlainRows, keep: bool, regions: bool) -> None:
        super().__init__(len(rows))
        self.entry, self.rows, self.keep, self.regions = entry, rows, keep, regions


class Reader(Worker[Predict]):
    """Predicts the rows of all requests that are there, together.

    Few rows of a fast model are predicted in the thread of the event loop, if the model does not learn at
    this moment: a change of threads would take longer.
    """

    def __init__(self) -> None:
        super().__init__("budgetron-predict")

    def is_quick(self, jobs: Sequence[Predict]) -> bool:
        """Return whether no model learns at this moment, and all predictions take less than 3 ms."""
        entries = {id(job.entry): job.entry for job in jobs}
        if sum(job.size * job.entry.row_seconds for job in jobs) > QUICK_SECONDS:
            return False
        return not any(entry.model.learning for entry in entries.values())

    def handle(self, jobs: Sequence[Predict]) -> None:
        """Predict, in one call for each model."""
        groups: dict[int, list[Predict]] = {}
        for job in jobs:
            groups.setdefault(id(job.entry), []).append(job)
        for group in groups.values():
            self._predict(group)

    def _predict(self, jobs: Sequence[Predict]) -> None:
        entry, begin = jobs[0].entry, time.perf_counter()
        try:
            rows = PlainRows.joined([job.rows for job in jobs])
            found, round = entry.model.predict(rows, any(job.regions for job in jobs))
        except Fault as fault:
            if len(jobs) > 1:  # only one request has the bad row
                for job in jobs:
                    self._predict([job])
            else:
                jobs[0].error = of_fault(fault)
            return
        firsts = _add_waiting(entry, jobs, rows, found.values)
        start = 0
        for job, first in zip(jobs, firsts, strict=True):
            if job.error is None:
                job.result = _response(job, found, slice(start, start + job.size), first, round)
            start += job.size
        entry.predicted.add(start)
        entry.row_seconds += 0.1 * ((time.perf_counter() - begin) / start - entry.row_seconds)


def _add_waiting(
    entry: Entry, jobs: Sequence[Predict], rows: PlainRows, predicted: NDArray[Any]
) -> list[int | None]:
    """Let rows wait for labels; return the number of the first row of each request, None without."""
    waiting, time_ = entry.waiting, now()
    limits = waiting.limits
    if all(job.keep for job in jobs) and 2 * len(rows) <= limits.rows and 4 * rows.nbytes <= limits.bytes:
        first = waiting.add(rows, predicted, time_)
        return [first + before for before in accumulate((job.size for job in jobs[:-1]), initial=0)]
    found: list[int | None] = []
    start = 0
    for job in jobs:
        stop = start + job.size
        if not job.keep:
            found.append(None)
        elif job.size > limits.rows or 2 * (job.rows.nbytes + BATCH_BYTES) > limits.bytes:
            detail = (
                "the rows of this request exceed what may wait for labels; send fewer, or do not keep them"
            )
            job.error = Problem(413, "too-many-rows", detail)
            found.append(None)
        else:
            values = predicted[start:stop].copy()  # not a view, which would keep those of the other rows
            found.append(waiting.add(job.rows, values, time_))
        start = stop
    return found


def _response(job: Predict, found: Predictions, rows: slice, first: int | None, round: int) -> bytes:
    """Return the body of the response."""
    entry = job.entry
    ids: Iterable[str | None] = [None] * job.size
    if first is not None:
        ids = map(entry.id_of, range(first, first + job.size))
    predictions = entry.model.task.answers(ids, found, rows, job.regions)
    return to_json({"model": entry.name, "round": round, "predictions": predictions})
