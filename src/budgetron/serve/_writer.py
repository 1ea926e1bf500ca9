"""The thread that writes the log and learns."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from budgetron.serve._clock import now
from budgetron.serve._entries import Entry
from budgetron.serve._jobs import Job, Worker
from budgetron.serve._log import DiskFullError, Log, Record
from budgetron.serve._problems import Problem
from budgetron.serve._waiting import Batch
from budgetron.streams._objects import PlainRows

__all__ = ["Call", "Examples", "Flush", "Learn", "Writer"]

logger = logging.getLogger("budgetron.serve")

TICK = 0.05  # seconds after which waiting rows are stored, at most
EXPIRE_SECONDS = 1.0
RETRY_SECONDS = 1.0  # after the log could not be written
SNAPSHOT_RETRY_SECONDS = 15.0


@dataclass(slots=True)
class Examples:
    """The examples of a request.

    Attributes
    ----------
    ids : list of str or None
        For each example the id of a predicted row, or one of the client's choice, or None.
    labels : list of int or float
        As the task keeps them.
    rows : PlainRows
        The rows that the request has.
    places : list of int
        Which examples these rows belong to, ascending.
    """

    ids: list[str | None]
    labels: list[float]
    rows: PlainRows
    places: list[int]


class Learn(Job):
    """Learn examples: all of them or none. The result is the body of the response."""

    def __init__(self, entry: Entry, examples: Examples) -> None:
        super().__init__(len(examples.labels))
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


@dataclass(slots=True)
class _Accepted:
    """What is learned of a request.

    Attributes
    ----------
    job : Learn
    repeated : list of str
        The ids of examples that had been learned before.
    places : list of int
        The examples that are learned. The other lists have an entry for each of them.
    ids : list of int, str or None
        As in `Record`.
    rows : PlainRows
    labels : list of int or float
    batches : list of Batch or None
        Where a predicted row waits.
    """

    job: Learn
    repeated: list[str]
    places: Sequence[int]
    ids: Sequence[int | str | None]
    rows: PlainRows
    labels: list[float]
    batches: Sequence[Batch | None]


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
        time_ = now()
        found = [(group[0].entry, self._collect(group)) for group in groups.values()]
        records = {id(entry): _record(entry, parts, time_) for entry, parts in found if _rows_of(parts)}
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
        for entry, parts in found:
            record, rejected = records.get(id(entry)), []
            if record is not None:
                try:
                    rejected = self._learn(entry, parts, record, numbers[id(entry)])
                except Exception as error:  # too little memory; the other models have records to learn
                    logger.exception("%s stopped learning", entry.name)
                    entry.failure = str(error) or repr(error)
                    for part in parts:
                        part.job.error = _stopped_learning(entry)
                    continue
            _answer(entry, parts, rejected)
        for job in jobs:
            if isinstance(job, Flush):
                job.result = True

    def _collect(self, jobs: Sequence[Learn | Flush]) -> list[_Accepted]:
        """Return the examples to learn; set the error of requests that cannot be accepted."""
        entry = jobs[0].entry
        entry.waiting.seal()
        learns = [job for job in jobs if isinstance(job, Learn)]
        ids = [id for job in learns for id in job.examples.ids if id is not None]
        numbers = {id: number for id in ids if (number := entry.number_of(id)) is not None}
        # A row that does not wait may have been learned before its id was assigned: a client guessed the id.
        names = [id for id in ids if id not in numbers or entry.waiting.find(numbers[id]) is None]
        known = self._log.learned(entry.model.uid, list(numbers.values()), names)
        collected: list[_Accepted] = []
        for job in learns:
            try:
                _refuse_unable(entry)
                accepted = _resolve(job, entry, numbers, known)
            except Problem as problem:
                job.error = problem
                continue
            known.update(id for id in accepted.ids if id is not None)
            collected.append(accepted)
        return collected

    def _commit(self, records: Sequence[tuple[Entry, Record | None]]) -> dict[int, int]:
        """Write records, and what changed in the waiting rows, durably; return the numbers of the records."""
        numbers: dict[int, int] = {}
        stored: list[tuple[Entry, list[Batch]]] = []
        removed: list[tuple[Entry, list[int]]] = []
        try:
            with self._log.transaction():
                if self.problem is not None:
                    self._log.write_run()  # a transaction without changes would succeed on a full disk
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

    def _learn(self, entry: Entry, parts: list[_Accepted], record: Record, number: int) -> list[int]:
        """Learn a record of the log; return the places of rows that could not be learned."""
        rejected = entry.model.learn(record, number)
        for part in parts:
            for id, batch in zip(part.ids, part.batches, strict=True):
                if batch is not None:
                    assert isinstance(id, int)
                    entry.waiting.label(id, batch)
        entry.note_learned(len(record.labels))
        return rejected

    # ------------------------------------------------------------------ maintenance

    def idle(self) -> None:
        """Store new waiting rows, drop old ones, and write snapshots that are due."""
        seconds = time.monotonic()
        if seconds >= self._retry:
            changed = [(entry, None) for entry in self._entries.values() if entry.waiting.changed]
            if changed or self.problem is not None:
                known = self.problem
                try:
                    self._commit(changed)
                except DiskFullError as error:
                    if str(error) != known:
                        logger.error("the log cannot be written: %s", error)
        if seconds >= self._next_expiry:
            self._next_expiry = seconds + EXPIRE_SECONDS
            for entry in self._entries.values():
                entry.waiting.expire(now())
        if seconds >= self._snapshot_retry:
            for entry in list(self._entries.values()):
                if _needs_snapshot(entry) and (
                    entry.unsaved >= self._snapshot_rows
                    or seconds - entry.unsaved_since >= self._snapshot_seconds
                ):
                    self.snapshot(entry)

    def snapshot(self, entry: Entry) -> None:
        """Write a snapshot; a failure is reported, and tried again later."""
        try:
            self._snapshot(entry)
        except Exception as error:  # of the disk, or too little memory
            entry.snapshot_problem = str(error) or repr(error)
            logger.error("no snapshot of %s could be written: %s", entry.name, entry.snapshot_problem)
            self._snapshot_retry = time.monotonic() + SNAPSHOT_RETRY_SECONDS
        else:
            entry.snapshot_problem = None

    def finish(self) -> None:
        """Store everything that changed, and close the log."""
        try:
            self._commit([(entry, None) for entry in self._entries.values()])
        except DiskFullError as error:
            logger.error("waiting rows could not be stored: %s", error)
        for entry in self._entries.values():
            if _needs_snapshot(entry):
                self.snapshot(entry)
        self._log.close()


def _refuse_unable(entry: Entry) -> None:
    """Raise `Problem` if a model can no longer learn."""
    if entry.deleted:
        raise Problem(404, "unknown-model", f'the model "{entry.name}" was deleted')
    if entry.failure is not None:
        raise _stopped_learning(entry)


def _stopped_learning(entry: Entry) -> Problem:
    detail = (
        f'the model "{entry.name}" stopped learning ({entry.failure}); restart the service, which learns '
        "what is in the log, and send unanswered labels again"
    )
    return Problem(503, "stopped-learning", detail)


def _needs_snapshot(entry: Entry) -> bool:
    return entry.unsaved > 0 and entry.failure is None


def _resolve(job: Learn, entry: Entry, numbers: dict[str, int], known: set[int | str]) -> _Accepted:
    """Return the examples of a request that are new, and the ids of those that were learned already."""
    examples = job.examples
    if not any(examples.ids):  # rows without ids
        none = [None] * job.size
        return _Accepted(job, [], range(job.size), none, examples.rows, examples.labels, none)
    given = {place: k for k, place in enumerate(examples.places)}  # from an example to its row
    repeated: list[str] = []
    places: list[int] = []
    ids: list[int | str | None] = []
    rows: list[PlainRows] = []
    batches: list[Batch | None] = []
    seen: set[int | str] = set()
    for place, id in enumerate(examples.ids):
        key = None if id is None else numbers.get(id, id)
        if id is not None and key is not None:
            if key in known or id in known or key in seen:
                repeated.append(id)
                continue
            seen.add(key)
        batch = entry.waiting.find(key) if isinstance(key, int) else None
        if batch is not None and isinstance(key, int):
            rows.append(batch.rows.take([key - batch.first]))
        elif place in given:
            rows.append(examples.rows.take([given[place]]))
        elif isinstance(key, int):
            detail = (
                f"example {place}: the row of id {id!r} no longer waits for a label: it expired, or "
                "newer rows needed its place; send the row with the label"
            )
            raise Problem(410, "expired-id", detail, row=place, id=id)
        else:
            detail = f"example {place}: the id {id!r} is not known; send the row with the label"
            raise Problem(404, "unknown-id", detail, row=place, id=id)
        places.append(place)
        ids.append(key)
        batches.append(batch)
    labels = [examples.labels[place] for place in places]
    joined = PlainRows.joined(rows) if rows else examples.rows.take([])
    return _Accepted(job, repeated, places, ids, joined, labels, batches)


def _rows_of(parts: list[_Accepted]) -> int:
    return sum(len(part.places) for part in parts)


def _record(entry: Entry, parts: list[_Accepted], time_: float) -> Record:
    """Return the record that has the examples of all requests, in their order."""
    parts = [part for part in parts if part.places]
    ids = list(chain.from_iterable(part.ids for part in parts))
    n, task = len(ids), entry.model.task
    predicted, delays = np.full(n, task.nothing, task.dtype), np.full(n, np.nan)
    for place, batch in enumerate(chain.from_iterable(part.batches for part in parts)):
        if batch is not None:
            id = ids[place]
            assert isinstance(id, int)
            predicted[place] = batch.predicted[id - batch.first]
            delays[place] = max(0.0, time_ - batch.time)
    labels = np.array(list(chain.from_iterable(part.labels for part in parts)), task.dtype)
    rows = PlainRows.joined([part.rows for part in parts])
    return Record(time_, ids, rows, labels, predicted, delays, entry.model.block)


def _answer(entry: Entry, parts: list[_Accepted], rejected: list[int]) -> None:
    """Set the responses of requests; `rejected` are places in the record."""
    name, start = json.dumps(entry.name), 0
    for part in parts:
        entry.repeated += len(part.repeated)
        count = len(part.places)
        bad = [part.places[place - start] for place in rejected if start <= place < start + count]
        start += count
        # Written without the help of a JSON encoder, which would take longer than everything else here.
        repeated = json.dumps(part.repeated) if part.repeated else "[]"
        part.job.result = (
            f'{{"model":{name},"round":{entry.model.rounds},"learned":{count - len(bad)},'
            f'"repeated":{repeated},"rejected":{bad}}}'
        ).encode()
