"""The two outputs of a frame: predictions, and the rows that were rejected, with the reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import DataFrame

__all__ = ["Outputs", "split_rejected", "write_outputs"]

# Columns that are null in rejected rows.
PREDICTED = ("margin", "prediction", "mistake")


class Outputs(NamedTuple):
    """The parts of a frame of `learn_fleet` or `predict`.

    Attributes
    ----------
    predictions : DataFrame
        The valid rows, without `reason`.
    rejected : DataFrame
        The invalid rows with their `reason`, without the columns of predictions.
    """

    predictions: DataFrame
    rejected: DataFrame


def split_rejected(frame: DataFrame) -> Outputs:
    """Divide the result of `learn_fleet` or `predict` into predictions and rejected rows.

    Parameters
    ----------
    frame : DataFrame
        A batch frame. Each of two streaming queries over the halves of a stream would learn all rows again.
        For a stream, use `write_outputs`.

    Returns
    -------
    Outputs
        `predictions` and `rejected`. For `learn_fleet`, these have the columns `key`, `order`, `margin`,
        `prediction` and `mistake`, and `key`, `order` and `reason`.
    """
    if frame.isStreaming:
        raise ValueError(
            "a streaming frame has one query, and its halves would have two, which would each learn all "
            "rows; use writeStream.foreachBatch(write_outputs(...))"
        )
    if "reason" not in frame.columns:
        raise ValueError("the frame has no column 'reason'; give the result of learn_fleet or predict")
    predicted = [name for name in PREDICTED if name in frame.columns]
    return Outputs(
        frame.where("reason is null").drop("reason"), frame.where("reason is not null").drop(*predicted)
    )


def write_outputs(
    predictions: str | os.PathLike[str], rejected: str | os.PathLike[str]
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``writeStream.foreachBatch`` that writes predictions and rejected rows.

    Both are Parquet files in a folder ``batch=<id>`` for each micro-batch. A micro-batch that is repeated
    after a failure replaces its own folders, so that no row is lost or written twice.

    Parameters
    ----------
    predictions, rejected : str or path-like
        Folders that Spark can write, also of another file system. They must be different.

    Returns
    -------
    callable
    """
    folders = (os.fspath(predictions), os.fspath(rejected))
    if folders[0] == folders[1]:
        raise ValueError("predictions and rejected must be different folders")

    def write(frame: DataFrame, batch: int) -> None:
        frame.persist()  # or each of the two outputs would learn the rows
        try:
            for part, folder in zip(split_rejected(frame), folders, strict=True):
                part.write.mode("overwrite").parquet(f"{folder}/batch={batch}")
        finally:
            frame.unpersist()

    return write
