"""A model of the service together with its waiting rows, and the ids of rows."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from budgetron.serve._log import Log
from budgetron.serve._model import ServedModel
from budgetron.serve._waiting import Limits, Waiting

__all__ = ["Entry", "Rates", "open_entry"]

logger = logging.getLogger("budgetron.serve")

# The numbers of the rows of one run of the service. Each run has numbers of its own, so that a row that was
# lost in a crash, before it was stored, is never confused with a later one.
ROWS_OF_A_RUN = 1 << 40
RATE_SECONDS = 10


class Rates:
    """Events of the last seconds. Several threads may count them."""

    def __init__(self) -> None:
        self.total = 0
        self._lock = threading.Lock()
        self._seconds: deque[tuple[int, int]] = deque(maxlen=RATE_SECONDS + 1)

    def add(self, count: int) -> None:
        """Count events now."""
        with self._lock:
            self.total += count
            now = int(time.monotonic())
            if self._seconds and self._seconds[-1][0] == now:
                self._seconds[-1] = (now, self._seconds[-1][1] + count)
            else:
                self._seconds.append((now, count))

    def per_second(self) -> float:
        """Return the mean rate of the last ten complete seconds."""
        now = int(time.monotonic())
        with self._lock:
            recent = sum(n for second, n in self._seconds if now - RATE_SECONDS <= second < now)
        return recent / RATE_SECONDS


@dataclass
class Entry:
    """A model with all that the service keeps for it.

    Attributes
    ----------
    name : str
    model : ServedModel
    waiting : Waiting
    predicted, learned : Rates
        Rows since the start of the service.
    row_seconds : float
        How long a prediction takes, averaged over recent ones.
    repeated : int
        Labels since the start that had been learned already.
    unsaved : int
        Rows learned since the last snapshot.
    unsaved_since : float
        When the first of them was learned (monotonic time).
    deleted : bool
    failure : str or None
        Why a record of the log could not be learned. The model must not learn any more then, and no snapshot
        may be written: the next start learns the record again.
    snapshot_problem : str or None
        Why the last snapshot could not be written.
    """

    name: str
    model: ServedModel
    waiting: Waiting
    predicted: Rates = field(default_factory=Rates)
    learned: Rates = field(default_factory=Rates)
    row_seconds: float = 0.0
    repeated: int = 0
    unsaved: int = 0
    unsaved_since: float = 0.0
    deleted: bool = False
    failure: str | None = None
    snapshot_problem: str | None = None

    def id_of(self, number: int) -> str:
        """Return the id of a row."""
        return f"{self.model.uid}-{number:x}"

    def number_of(self, id: str) -> int | None:
        """Return the number of a row that this model predicted; None if it gave no row this id."""
        uid, _, digits = id.partition("-")
        if uid != self.model.uid or not digits or not set(digits) <= set("0123456789abcdef"):
            return None
        number = int(digits, 16)
        return number if number < self.waiting.next_row else None  # larger ones are not assigned yet

    def note_learned(self, rows: int) -> None:
        """Record that rows were learned that are not in a snapshot."""
        if not self.unsaved:
            self.unsaved_since = time.monotonic()
        self.unsaved += rows
        self.learned.add(rows)


def open_entry(name: str, model: ServedModel, log: Log, limits: Limits) -> Entry:
    """Return the entry of a snapshot after learning the records of the log that follow it."""
    if model.record < log.truncated(model.uid):
        raise ValueError(
            f"{name}: its file is older than the log, which no longer has all labels since then; remove the "
            "file from the folder, and give it with --model, to start again from there"
        )
    if log.count_from(model.record):  # otherwise, the next start would ignore the records that follow
        logger.warning(
            "%s: its file has learned more than the log has seen. If the log was removed or replaced, labels "
            "since the file was written may be missing; restore the folder from a backup",
            name,
        )
    entry = Entry(name, model, Waiting(limits, log.run * ROWS_OF_A_RUN))
    for number, record in log.records(model.uid, after=model.record):
        model.learn(record, number)
        entry.unsaved += len(record.labels)
    entry.unsaved_since = time.monotonic()
    complete = []
    for batch in log.waiting(model.uid):
        if batch.left:
            entry.waiting.restore(batch)
        else:
            complete.append(batch.first)
    if complete:
        with log.transaction():
            log.remove(model.uid, complete)
    return entry
