"""One model of the service: how it reads rows, predicts, learns, and is stored in a file."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron import files
from budgetron._evaluation.by_name import Learner
from budgetron._persistence.archive import load_with_extras, to_bytes
from budgetron._util.blocks import row_blocks
from budgetron._util.units import parse_bytes
from budgetron.conformal import ConformalClassifier, ConformalRegressor
from budgetron.serve._certificates import certificate_of, why_no_certificate
from budgetron.serve._log import Record
from budgetron.serve._statistics import Statistics
from budgetron.serve._tasks import Predictions, Task, task_of
from budgetron.streams import Encoder
from budgetron.streams._errors import Fault
from budgetron.streams._objects import ObjectReader, PlainRows

__all__ = ["ServedModel"]

logger = logging.getLogger("budgetron.serve")

# Rows that are learned at a time: as many as take about so many seconds, within limits. Predictions wait for
# at most one block. Each call of a learner checks its arguments, which takes as long as several rows.
BLOCK_SECONDS = 0.004
LEAST_BLOCK, MOST_BLOCK = 32, 512


class ServedModel:
    """A model, and all that belongs to it.

    One thread may learn. Other threads may predict at any time; they wait for at most one block of learning.

    Parameters
    ----------
    uid : str
        Distinguishes the model from earlier ones of the same name.
    model : learner
        Fitted or not.
    encoder : Encoder
        How columns become features.
    task : Task
        What the model predicts.
    target : str or None
        The name of the label column, for the command line.
    statistics : Statistics
    record : int
        The number of the last record of the log that the model has learned.
    rejected : int
        Rows that could not be learned because the learner's arithmetic failed.
    """

    def __init__(
        self,
        uid: str,
        model: Learner,
        encoder: Encoder,
        task: Task,
        target: str | None = None,
        *,
        statistics: Statistics | None = None,
        record: int = 0,
        rejected: int = 0,
    ) -> None:
        if not hasattr(model, "partial_fit"):
            raise ValueError(
                f"{type(model).__name__} cannot learn row by row; serve a learner with partial_fit"
            )
        self.uid, self.model, self.encoder, self.target = uid, model, encoder, target
        self.task = task
        self.reader = ObjectReader(encoder)
        self.statistics = task.statistics() if statistics is None else statistics
        self.record, self.rejected = record, rejected
        self.fitted = task.is_fitted(model)
        self.rounds = int(getattr(model, "rounds_", 0)) if self.fitted else 0
        self.block = LEAST_BLOCK
        self._lock = threading.Lock()

    # ------------------------------------------------------------------ predictions

    @property
    def learning(self) -> bool:
        """Whether a prediction would have to wait now."""
        return self._lock.locked()

    @property
    def predicts_regions(self) -> bool:
        """Whether the model predicts sets or intervals."""
        return hasattr(self.model, self.task.region_method)

    def predict(self, rows: PlainRows, regions: bool = False) -> tuple[Predictions, int]:
        """Predict rows, also sets or intervals if asked; return the round of the model, too.

        Raise `Fault` for a row that cannot be predicted.
        """
        block = self.reader.columns(rows)
        with self._lock:
            X = self.encoder.transform(block, learn=False)
            if not self.fitted:
                return Predictions(np.full(len(rows), self.task.nothing, self.task.dtype)), 0
            try:
                return self.task.predict(self.model, X, regions), self.rounds
            except ValueError as error:  # values for which f(x) is not finite
                raise Fault(int(getattr(error, "row", None) or 0), str(error)) from error

    def check(self, rows: PlainRows) -> None:
        """Raise `Fault` for a row that cannot be encoded."""
        if len(rows) and self.encoder.missing == "error":
            self.encoder.transform(self.reader.columns(rows), learn=False)

    # ------------------------------------------------------------------ learning

    def learn(self, record: Record, number: int) -> list[int]:
        """Learn a record of the log; return the places of rows that could not be learned."""
        rejected: list[int] = []
        for rows in row_blocks(len(record.labels), record.block):
            begin = time.thread_time()
            bad = self._learn_block(record, rows)
            rejected += [rows.start + place for place in bad]
            self._adapt_block(rows.stop - rows.start, time.thread_time() - begin)
        self.record = number
        self.rejected += len(rejected)
        return rejected

    def _adapt_block(self, rows: int, seconds: float) -> None:
        """Halve the size of later blocks if a block took too long; double it if there is time for that."""
        if seconds > BLOCK_SECONDS:
            self.block = max(LEAST_BLOCK, min(self.block, rows) // 2)
        elif rows == self.block and 3 * seconds < BLOCK_SECONDS:
            self.block = min(MOST_BLOCK, 2 * self.block)

    def _learn_block(self, record: Record, rows: slice) -> list[int]:
        plain, labels = record.rows.take(rows), record.labels[rows]
        served = record.predicted[rows]
        with self._lock:
            encoder = self.encoder.copy()
            try:
                X = encoder.transform(self.reader.columns(plain), learn=True)
                found = self._play(X, labels)
            except MemoryError:  # a start with more memory may learn the record
                raise
            except Exception as error:
                if not isinstance(error, Fault | ValueError | ArithmeticError):
                    logger.exception("rows could not be learned")
                if len(labels) == 1:
                    return [0]
            else:
                self.encoder, self.fitted = encoder, True
                self.rounds += len(labels)
                predicted = np.where(self.task.are_nothing(served), found, served)
                self.statistics.add(labels, predicted, record.time, record.delays[rows])
                return []
        # A row that cannot be learned must not keep others from being learned: learn them one by one. This
        # depends on the log and the model alone, so a replay does the same.
        start = rows.start
        return [
            place
            for place in range(len(labels))
            if self._learn_block(record, slice(start + place, start + place + 1))
        ]

    def _play(self, X: Any, labels: NDArray[Any]) -> NDArray[Any]:
        """Learn rows; return the prediction of each before it was learned."""
        return self.task.play(self.model, X, labels, self.fitted)

    # ------------------------------------------------------------------ description

    @property
    def nbytes(self) -> int:
        """Bytes of the model and its statistics."""
        with self._lock:
            learner = int(self.model.nbytes_) if self.fitted and hasattr(self.model, "nbytes_") else 0
            return learner + self.statistics.nbytes

    @property
    def memory_limit(self) -> int | None:
        """The memory limit of the learner, with scores and statistics, if it has one."""
        learner, scores = self.model, 0
        if isinstance(learner, ConformalClassifier | ConformalRegressor):
            scores = 16 * learner.window + 16  # kept twice, once sorted; and two counts
            learner = learner.learner
        memory = learner.get_params(deep=False).get("memory")
        return None if memory is None else parse_bytes(memory) + scores + self.statistics.nbytes

    def experts(self) -> list[dict[str, Any]]:
        """Return the experts of the model, or of the learner that it contains, with their weights.

        The list is empty if there are none. The error of an expert that has not played a round is None.
        """
        with self._lock:
            model = self.model
            while hasattr(model, "learner_") and not hasattr(model, "experts_"):
                model = model.learner_
            found = list(getattr(model, "experts_", [])) if self.fitted else []
        return [
            {name: None if value != value else value for name, value in dict(expert).items()}
            for expert in found
        ]

    def certificate(self) -> tuple[dict[str, Any] | None, str | None]:
        """Return the certificate of the learner, or None and why there is none."""
        with self._lock:
            return certificate_of(self.model), why_no_certificate(self.model)

    # ------------------------------------------------------------------ files

    def _extras(self) -> dict[str, Any]:
        encoder = self.encoder
        served = {
            "uid": self.uid,
            "record": self.record,
            "rejected": self.rejected,
            "statistics": self.statistics.state(),
        }
        return {
            "encoder": encoder.state(),
            "target": self.target,
            "constant": encoder.constant,
            "zero_based": False,
            "serve": served | self.task.state(),
        } | self.task.extras()

    def save(self, path: Path) -> None:
        """Write a snapshot; only the thread that learns may call this."""
        files.save(self.model, path, extras=self._extras())

    def to_bytes(self) -> bytes:
        """Return the model file that `save` would write; only the thread that learns may call this."""
        return to_bytes(self.model, extras=self._extras())

    @classmethod
    def load(cls, path: Path) -> ServedModel:
        """Read a snapshot."""
        model, extras = load_with_extras(path)
        try:
            assert extras is not None
            served, task = extras["serve"], task_of(extras)
            return cls(
                str(served["uid"]),
                model,
                Encoder.from_state(extras["encoder"]),
                task,
                extras["target"],
                statistics=task.statistics().restored(served["statistics"]),
                record=int(served["record"]),
                rejected=int(served["rejected"]),
            )
        except (AssertionError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path}: not a snapshot of budgetron serve: {error!r}") from error
