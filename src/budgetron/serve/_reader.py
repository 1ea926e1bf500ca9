"""The thread that predicts."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from budgetron.serve._entries import Entry
from budgetron.serve._jobs import Job, Worker
from budgetron.serve._model import Predictions
from budgetron.serve._problems import Problem, of_fault
from budgetron.streams._errors import Fault
from budgetron.streams._objects import PlainRows

__all__ = ["Predict", "Reader"]


class Predict(Job):
    """Predict rows; the result is the body of the response.

    Parameters
    ----------
    entry : Entry
    rows : PlainRows
    keep : bool
        Whether the rows wait for labels.
    """

    def __init__(self, entry: Entry, rows: PlainRows, keep: bool) -> None:
        super().__init__(len(rows))
        self.entry, self.rows, self.keep = entry, rows, keep


class Reader(Worker[Predict]):
    """Predicts the rows of all requests that are there, together."""

    def __init__(self) -> None:
        super().__init__("budgetron-predict")

    def handle(self, jobs: Sequence[Predict]) -> None:
        """Predict, in one call for each model."""
        groups: dict[int, list[Predict]] = {}
        for job in jobs:
            groups.setdefault(id(job.entry), []).append(job)
        for group in groups.values():
            self._predict(group)

    def _predict(self, jobs: Sequence[Predict]) -> None:
        entry = jobs[0].entry
        try:
            found = entry.model.predict(PlainRows.joined([job.rows for job in jobs]))
        except Fault as fault:
            if len(jobs) > 1:  # only one request has the bad row
                for job in jobs:
                    self._predict([job])
            else:
                jobs[0].error = of_fault(fault)
            return
        start = 0
        now = time.time()
        for job in jobs:
            stop = start + len(job.rows)
            probabilities = found.probabilities
            part = Predictions(
                found.codes[start:stop],
                None if probabilities is None else probabilities[start:stop],
                found.round,
            )
            try:
                job.result = _response(job, part, now)
            except Problem as problem:
                job.error = problem
            start = stop
        entry.predicted.add(start)


def _response(job: Predict, found: Predictions, now: float) -> bytes:
    """Return the body of the response, and let the rows wait for labels."""
    entry, classes = job.entry, job.entry.model.classes
    ids: list[str | None] = [None] * len(job.rows)
    if job.keep:
        limits = entry.waiting.limits
        if len(job.rows) > limits.rows or job.rows.nbytes > limits.bytes // 2:
            detail = (
                'the rows of this request exceed what may wait for labels; send fewer, or give "keep": false'
            )
            raise Problem(413, "too-many-rows", detail)
        first = entry.waiting.add(job.rows, found.codes, now)
        ids = [entry.id_of(number) for number in range(first, first + len(job.rows))]
    labels: list[Any] = [None if code < 0 else classes[code] for code in found.codes.tolist()]
    shares: list[Any] = [None] * len(labels)
    if found.probabilities is not None:
        names = [str(label) for label in classes]
        shares = [dict(zip(names, row, strict=True)) for row in found.probabilities.tolist()]
    predictions = [
        {"id": id, "prediction": label, "probabilities": share}
        for id, label, share in zip(ids, labels, shares, strict=True)
    ]
    answer = {"model": entry.name, "round": found.round, "predictions": predictions}
    return json.dumps(answer, separators=(",", ":")).encode()
