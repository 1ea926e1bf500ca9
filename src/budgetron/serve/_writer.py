"""The thread that writes the log and learns."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from budgetron.serve._entries import Entry
from budgetron.serve._jobs import Job, Worker
from budgetron.serve._log import DiskFullError, Log, Record
from budgetron.serve._problems import Problem
from budgetron.serve._waiting import Batch
from budgetron.streams._objects import PlainRows

__all__ = ["Call", "Example", "Flush", "Learn", "Writer"]

logger = logging.getLogger("budgetron.serve")

TICK = 0.05  # seconds after which waiting rows are stored, at most
EXPIRE_SECONDS = 1.0
RETRY_SECONDS = 1.0  # after the log could not be written
SNAPSHOT_RETRY_SECONDS = 15.0


@dataclass(frozen=True)
class Example:
    """A label with the row that it belongs to.

    Attributes
    ----------
    id : str or None
        The id of a predicted row, or of the client's choice for a row of its own.
    row : PlainRows or None
        One row; None if only the id was given.
    code : int
        The label's class.
    """

    id: str | None
    row: PlainRows | None
    code: int


class Learn(Job):
    """Learn examples: all of them or none. The result is a dict for the response."""

    def __init__(self, entry: Entry, examples: list[Example]) -> None:
        super().__init__(len(examples))
        self.entry, self.examples = entry, examples


class Flush(Job):
    """Store all waiting rows of a model."""

    def __init__(self, entry: Entry) -> None:
        super().__init__()
        self.entry = entry


class Call(Job):
    """Call a function in the thread that learns, while nothing is learned."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__()
        self.function = function


@dataclass
class _Found:
    """An example of a request with its row."""

    job: Learn
    place: int
    id: int | str | None
    row: PlainRows
    code: int
    batch: Batch | None


class Writer(Worker[Job]):
    """Writes labels to the log, several requests in one transaction, and then learns them.

    Parameters
    ----------
    log : Log
    entries : dict of str to Entry
        All models by name. Other threads only read it.
    snapshot : callable
        Writes a snapshot of a model and truncates the log.
    snapshot_rows, snapshot_seconds
        A snapshot is due after so many rows, or so long after the first row since the last one.
    """

    def __init__(
        self,
        log: Log,
        entries: dict[str, Entry],
        snapshot: Callable[[Entry], None],
        snapshot_rows: int,
        snapshot_seconds: float,
    ) -> None:
        super().__init__("budgetron-learn", TICK)
        self._log, self._entries, self._snapshot = log, entries, snapshot
        self._snapshot_rows, self._snapshot_seconds = snapshot_rows, snapshot_seconds
        self._next_expiry = self._retry = self._snapshot_retry = 0.0
        self.commits = 0
        self.problem: str | None = None  # why the log could not be written, last time
        self.snapshot_problem: str | None = None

    # ------------------------------------------------------------------ requests

    def handle(self, jobs: Sequence[Job]) -> None:
        """Write and learn the labels of all requests, then do the rest."""
        writes = [job for job in jobs if isinstance(job, Learn | Flush)]
        if writes:
            self._write(writes)
        for job in jobs:
            if isinstance(job, Call):
                try:
                    job.result = job.function()
                except Exception as error:
                    job.error = error

    def _write(self, jobs: Sequence[Learn | Flush]) -> None:
        groups: dict[int, list[Learn | Flush]] = {}
        for job in jobs:
            groups.setdefault(id(job.entry), []).append(job)
        now = time.time()
        found = [(group[0].entry, self._collect(group)) for group in groups.values()]
        records = {id(entry): _record(examples, now) for entry, examples in found if examples}
        try:
            numbers = self._commit([(entry, records.get(id(entry))) for entry, _ in found])
        except DiskFullError as error:
            problem = Problem(
                507,
                "disk-full",
                f"the log cannot be written ({error}); nothing was learned; free space, and send again",
            )
            for job in jobs:
                job.error = job.error or problem
            return
        for entry, examples in found:
            record = records.get(id(entry))
            if record is not None:
                self._learn(entry, examples, record, numbers[id(entry)])
        for job in jobs:
            if job.error is None:
                job.result = job.result or {"learned": 0, "repeated": [], "rejected": []}
                job.result |= {"model": job.entry.name, "round": job.entry.model.rounds}

    def _collect(self, jobs: Sequence[Learn | Flush]) -> list[_Found]:
        """Return the examples to learn; set the error of requests that cannot be accepted."""
        entry = jobs[0].entry
        entry.waiting.seal()
        learns = [job for job in jobs if isinstance(job, Learn)]
        ids = [example.id for job in learns for example in job.examples if example.id is not None]
        numbers = {id: number for id in ids if (number := entry.number_of(id)) is not None}
        known = self._log.learned(
            entry.model.uid, list(numbers.values()), [i for i in ids if i not in numbers]
        )
        collected: list[_Found] = []
        for job in learns:
            try:
                if entry.deleted:
                    raise Problem(404, "unknown-model", f'the model "{entry.name}" was deleted')
                accepted, repeated = _resolve(job, entry, numbers, known)
            except Problem as problem:
                job.error = problem
                continue
            known.update(example.id for example in accepted if example.id is not None)
            entry.repeated += len(repeated)
            job.result = {"learned": len(accepted), "repeated": repeated, "rejected": []}
            collected += accepted
        return collected

    def _commit(self, records: Sequence[tuple[Entry, Record | None]]) -> dict[int, int]:
        """Write records, and what changed in the waiting rows, durably; return the numbers of the records."""
        numbers: dict[int, int] = {}
        stored: list[tuple[Entry, list[Batch]]] = []
        removed: list[tuple[Entry, list[int]]] = []
        try:
            with self._log.transaction():
                for entry, record in records:
                    if entry.deleted:
                        continue
                    batches, firsts = entry.waiting.seal(), entry.waiting.removed()
                    stored.append((entry, batches))
                    removed.append((entry, firsts))
                    self._log.remove(entry.model.uid, firsts)
                    self._log.store(entry.model.uid, batches)
                    if record is not None:
                        numbers[id(entry)] = self._log.append(entry.model.uid, record)
        except DiskFullError as error:
            self.problem, self._retry = str(error), time.monotonic() + RETRY_SECONDS
            for entry, firsts in removed:
                entry.waiting.put_back_removed(firsts)
            raise
        self.problem = None
        self.commits += 1
        for entry, batches in stored:
            entry.waiting.stored(batches)
        return numbers

    def _learn(self, entry: Entry, examples: list[_Found], record: Record, number: int) -> None:
        rejected = set(entry.model.learn(record, number))
        for place, example in enumerate(examples):
            if example.batch is not None:
                assert isinstance(example.id, int)
                entry.waiting.label(example.id, example.batch)
            if place in rejected:
                example.job.result["rejected"].append(example.place)
                example.job.result["learned"] -= 1
        entry.note_learned(len(examples))

    # ------------------------------------------------------------------ maintenance

    def idle(self) -> None:
        """Store new waiting rows, drop old ones, and write snapshots that are due."""
        now = time.monotonic()
        if now >= self._retry:
            changed = [(entry, None) for entry in self._entries.values() if entry.waiting.changed]
            if changed:
                try:
                    self._commit(changed)
                except DiskFullError as error:
                    logger.error("waiting rows could not be stored: %s", error)
        if now >= self._next_expiry:
            self._next_expiry = now + EXPIRE_SECONDS
            for entry in self._entries.values():
                entry.waiting.expire(time.time())
        if now >= self._snapshot_retry:
            for entry in list(self._entries.values()):
                if entry.unsaved and (
                    entry.unsaved >= self._snapshot_rows
                    or now - entry.unsaved_since >= self._snapshot_seconds
                ):
                    self.snapshot(entry)

    def snapshot(self, entry: Entry) -> None:
        """Write a snapshot; a failure is reported, and tried again later."""
        try:
            self._snapshot(entry)
        except (OSError, DiskFullError) as error:
            logger.error("no snapshot of %s could be written: %s", entry.name, error)
            self.snapshot_problem = str(error)
            self._snapshot_retry = time.monotonic() + SNAPSHOT_RETRY_SECONDS
        else:
            self.snapshot_problem = None

    def finish(self) -> None:
        """Store everything that changed, and close the log."""
        try:
            self._commit([(entry, None) for entry in self._entries.values()])
        except DiskFullError as error:
            logger.error("waiting rows could not be stored: %s", error)
        for entry in self._entries.values():
            if entry.unsaved:
                self.snapshot(entry)
        self._log.close()


def _resolve(
    job: Learn, entry: Entry, numbers: dict[str, int], known: set[int | str]
) -> tuple[list[_Found], list[str]]:
    """Return the examples of a request that are new, and the ids of those that were learned already."""
    accepted: list[_Found] = []
    repeated: list[str] = []
    seen: set[int | str] = set()
    for place, example in enumerate(job.examples):
        key = None if example.id is None else numbers.get(example.id, example.id)
        if key is not None and example.id is not None and (key in known or key in seen):
            repeated.append(example.id)
            continue
        if key is not None:
            seen.add(key)
        batch = entry.waiting.find(key) if isinstance(key, int) else None
        if batch is not None and isinstance(key, int):
            offset = key - batch.first
            accepted.append(_Found(job, place, key, batch.rows.take([offset]), example.code, batch))
        elif example.row is not None:
            accepted.append(_Found(job, place, key, example.row, example.code, None))
        elif isinstance(key, int) and key < entry.waiting.next_row:
            detail = (
                f"example {place}: the row of id {example.id!r} no longer waits for a label: it expired, or "
                "newer rows needed its place; send the row with the label"
            )
            raise Problem(410, "expired-id", detail, row=place, id=example.id)
        else:
            detail = f"example {place}: the id {example.id!r} is not known; send the row with the label"
            raise Problem(404, "unknown-id", detail, row=place, id=example.id)
    return accepted, repeated


def _record(examples: list[_Found], now: float) -> Record:
    predicted = [-1 if e.batch is None else _offset(e.batch.predicted, e) for e in examples]
    delays = [np.nan if e.batch is None else max(0.0, now - e.batch.time) for e in examples]
    return Record(
        now,
        [example.id for example in examples],
        PlainRows.joined([example.row for example in examples]),
        np.array([example.code for example in examples], np.int64),
        np.array(predicted, np.int64),
        np.array(delays, np.float64),
    )


def _offset(values: Any, example: _Found) -> int:
    assert example.batch is not None
    assert isinstance(example.id, int)
    return int(values[example.id - example.batch.first])
