"""Learn one model with several workers, which are merged once per micro-batch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from budgetron import files
from budgetron._util.types import Floats, Labels
from budgetron.merging import Delta
from budgetron.spark._rows import (
    check_bad_rows,
    check_columns,
    check_number,
    feature_column,
    label_reason,
    matrix_of,
    row_reason,
    sorted_places,
)
from budgetron.spark._versions import local_folder, versions_of

__all__ = ["learn"]

# Workers together learn at most this part of the rounds so far between two merges; see `merge_period`.
PART = 8


def learn(
    df: DataFrame,
    model: Any,
    *,
    features: str | Sequence[str],
    label: str,
    order: str,
    checkpoint: str | os.PathLike[str],
    workers: int = 4,
    bad_rows: str = "quarantine",
    trigger: dict[str, Any] | None = None,
) -> Any:
    """Learn one model from a frame, with several workers.

    Each micro-batch is divided among the workers by `order`. Every worker learns its rows with a copy of the
    model, sorted by `order`, and all of them are merged. While the model is young, workers that learn many
    rows apart would lose accuracy: as long as a batch has more than an eighth of the rounds so far, its first
    rows are learned one after the other in the driver.

    Parameters
    ----------
    df : DataFrame
        Streaming or batch. A batch frame is one micro-batch.
    model : estimator
        A model with `merge` that has learned at least one row: `linear.AROW`, or `SecondOrderProjectron`
        after `fix_supports`. It is not changed. If the checkpoint has states of an earlier run, learning
        continues from there.
    features : str, or sequence of str
        A column of arrays of numbers, or numeric columns.
    label, order : str
        The columns of the labels, and of a time or number by which rows are sorted. Rows with the same order
        are sorted by their label and features.
    checkpoint : str or path-like
        A folder for the states of the model, Spark's own checkpoint, and invalid rows. Driver and workers
        must see the same folder.
    workers : int, default=4
        Number of parts of each micro-batch.
    bad_rows : {"quarantine", "fail"}, default="quarantine"
        What to do with invalid rows: features or order that are null, features that are not finite or of the
        wrong number, unknown labels. "quarantine" writes them to the folder ``quarantine`` in the
        checkpoint as Parquet files, with a column `reason`. "fail" stops before any row of the batch is
        learned. They never reach the model.
    trigger : dict, optional
        Arguments of Spark's ``DataStreamWriter.trigger``, like ``{"availableNow": True}``; for streams only.

    Returns
    -------
    StreamingQuery, or the learned model for a batch frame
        `read_model` returns the model while the query is running.

    Notes
    -----
    The state after micro-batch i is the file ``models/batch-<i>.budgetron``, written before Spark records
    that the batch is complete. If a run ends in between, Spark repeats the batch. It then starts from the
    state before it, and gives the same bits again: each row is learned exactly once.
    """
    run = _Run(df, model, features, label, order, checkpoint, workers, bad_rows)
    run.versions.start(model)
    if not df.isStreaming:
        if trigger is not None:
            raise ValueError("trigger is for streaming frames; this is a batch frame")
        run.learn_batch(df, max(run.versions.ids()) + 1)
        return run.versions.newest()
    writer = df.writeStream.foreachBatch(run.learn_batch)
    writer = writer.option("checkpointLocation", str(run.folder / "query"))
    return (writer if trigger is None else writer.trigger(**trigger)).start()


class _Run:
    """The settings of a call of `learn`, after checking them."""

    def __init__(
        self,
        df: DataFrame,
        model: Any,
        features: str | Sequence[str],
        label: str,
        order: str,
        checkpoint: str | os.PathLike[str],
        workers: int,
        bad_rows: str,
    ) -> None:
        check_bad_rows(bad_rows)
        check_columns(df, [label, order])
        model.delta(since=model)  # an error if it has learned nothing, or cannot be merged
        self.classes: Labels = model.classes_
        self.d = int(model.n_features_in_)
        # A kernel learner computes with numbers of the type of its supports, a linear learner with doubles.
        self.dtype = getattr(model, "support_vectors_", np.zeros(0)).dtype
        self.features, self.label, self.order = features, label, order
        self.workers, self.bad_rows = check_number("workers", workers), bad_rows
        feature_column(df, features)
        label_reason(df, label, self.classes)
        self.folder = local_folder(checkpoint)
        self.versions = versions_of(checkpoint)

    def learn_batch(self, df: DataFrame, batch: int) -> None:
        """Learn a micro-batch from the state before it, and write the state after it."""
        model = self.versions.before(batch)
        marked = self.marked(df).persist()
        try:
            counts = {row[0]: row[1] for row in marked.groupBy(F.col("reason").isNull()).count().collect()}
            invalid = marked.where("reason is not null")
            if self.bad_rows == "fail" and counts.get(False):
                self.refuse(invalid, batch, counts[False])
            self.quarantine(invalid, batch, counts.get(False, 0))
            if counts.get(True):
                self.learn_rows(model, marked.where("reason is null"), counts[True])
        finally:
            marked.unpersist()
        self.versions.write(batch, model)

    def marked(self, df: DataFrame) -> DataFrame:
        """Return the rows with their features as one column, and why they are invalid."""
        rows = feature_column(df, self.features)
        order = F.col(f"`{self.order}`")
        reason = row_reason(df, {"order": order}, rows, self.d, self.label, self.classes, self.dtype)
        label = F.col(f"`{self.label}`")
        return df.select(order.alias("order"), label.alias("label"), rows.alias("x"), reason.alias("reason"))

    def refuse(self, invalid: DataFrame, batch: int, count: int) -> None:
        first = invalid.orderBy("order").first()
        assert first is not None
        raise ValueError(
            f"{count} rows of batch {batch} are invalid; the first, with {self.order} {first['order']}: "
            f'{first["reason"]}; correct them, or use bad_rows="quarantine"'
        )

    def quarantine(self, invalid: DataFrame, batch: int, count: int) -> None:
        """Write the invalid rows of a batch; a batch that is repeated replaces its own."""
        folder = self.folder / "quarantine" / f"batch={batch}"
        if folder.exists():
            shutil.rmtree(folder)
        if count:
            invalid.write.mode("overwrite").parquet(str(folder))

    def learn_rows(self, model: Any, rows: DataFrame, n: int) -> None:
        """Learn valid rows: the first ones here if the model is young, the others with workers."""
        first = -(-(PART * n - model.rounds_) // (PART + 1))  # so that the others are an eighth of the rounds
        if self.workers == 1 or first >= n:
            self.learn_here(model, rows)
            return
        if first > 0:
            # Rows with the same order stay together.
            last = rows.orderBy("order").limit(first).agg(F.max("order")).collect()[0][0]
            early = F.col("order") <= F.lit(last)
            self.learn_here(model, rows.where(early))
            rows = rows.where(~early)
        self.learn_with_workers(model, rows)

    def learn_here(self, model: Any, rows: DataFrame) -> None:
        X, y = sorted_rows(rows.select("order", "label", "x").toArrow(), self.d)
        model.partial_fit(X, y)

    def learn_with_workers(self, model: Any, rows: DataFrame) -> None:
        data, d = files.to_bytes(model), self.d

        def delta_of(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
            base, worker = files.from_bytes(data), files.from_bytes(data)
            X, y = sorted_rows(table, d)
            delta = worker.partial_fit(X, y).delta(since=base).to_bytes()
            return pa.table({"worker": pa.array([key[0].as_py()], pa.int64()), "delta": pa.array([delta])})

        dealt = rows.select("order", "label", "x", self.worker_of(F.col("order")).alias("worker"))
        found = dealt.groupBy("worker").applyInArrow(delta_of, "worker bigint, delta binary").toArrow()
        by_worker = dict(zip(found["worker"].to_pylist(), found["delta"].to_pylist(), strict=True))
        # In a fixed order, so that a repeated batch gives the same bits.
        model.merge([Delta.from_bytes(by_worker[worker]) for worker in sorted(by_worker)])

    def worker_of(self, order: Column) -> Column:
        """Return the number of the worker that learns a row; it depends on the order of the row only."""
        return F.pmod(F.xxhash64(order), F.lit(self.workers)).cast("bigint")


def sorted_rows(table: pa.Table, d: int) -> tuple[Floats, Labels]:
    """Return the features and labels of a table, sorted by order, then label, then features."""
    X = matrix_of(table["x"], d)
    y = np.asarray(table["label"].to_pylist())
    places = sorted_places(table["order"], y, X)
    return X[places], y[places]
