"""Learn a fleet: one small model per key, in buckets of keys."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as T  # noqa: N812 - the usual name

from budgetron._util.types import Labels
from budgetron.fleet import Fleet
from budgetron.spark._bucket import BucketLearner, FleetProcessor
from budgetron.spark._fleet_states import FleetFolder
from budgetron.spark._rows import (
    check_bad_rows,
    check_columns,
    check_number,
    feature_column,
    key_reason,
    label_reason,
    label_type,
    row_dtype,
    row_reason,
    stop_at,
)
from budgetron.spark._versions import local_folder

__all__ = ["learn_fleet"]

PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def learn_fleet(
    df: DataFrame,
    fleet: Fleet,
    *,
    key: str,
    order: str,
    features: str | Sequence[str],
    label: str,
    classes: ArrayLike,
    n_features: int | None = None,
    buckets: int = 64,
    checkpoint: str | os.PathLike[str] | None = None,
    bad_rows: str = "quarantine",
) -> DataFrame:
    """Learn one small model per key from a frame: predict each row, then learn it.

    Keys are divided into buckets. The models of a bucket are one `Fleet`, which is one value of Spark's state
    store. So a micro-batch reads and writes each of its buckets once, whatever the number of keys.

    Parameters
    ----------
    df : DataFrame
        Streaming or batch.
    fleet : Fleet
        A fleet that has learned nothing. Each bucket has a fleet with its parameters: `memory` is the limit
        of one bucket, and `idle` counts the rows of one bucket. The kernel's `gamma` must be a number: by
        "scale", every bucket would choose another one. There must be no `common` learner, because buckets
        are learned apart.
    key, order : str
        The columns of the keys, which are integers or text, and of a time or number by which the rows of each
        micro-batch are sorted. Spark guarantees no order by itself. Rows of one key with the same order are
        sorted by their label and features. Times of a stream must be before the year 2262, because Spark
        passes them to pandas.
    features : str, or sequence of str
        A column of arrays of numbers, or numeric columns. If all of them are floats of 32 bits, models
        compute with such numbers and take about half the memory.
    label : str
        The column of the labels.
    classes : array-like of shape (2,)
        Both labels.
    n_features : int, optional
        Length of the arrays; needed if `features` is a column of arrays, and only then.
    buckets : int, default=64
        Number of buckets. It cannot change between runs with one checkpoint.
    checkpoint : str or path-like, optional
        For batch frames: a folder for states and predictions, which driver and workers share. A later call
        with the same folder goes on with the states. For streams, the checkpoint of the query has the states:
        give it to the writer as ``checkpointLocation``.
    bad_rows : {"quarantine", "fail"}, default="quarantine"
        What to do with invalid rows: a key, order or features that are null, text keys of more than 65,536
        bytes or that are not UTF-8, features that are not finite or of the wrong number, unknown labels.
        "quarantine" returns them with their key, order and `reason`;
        `split_rejected` and `write_outputs` make them an output of their own. "fail" stops the query. They
        never reach a model.

    Returns
    -------
    DataFrame
        One row per row of `df`: `key`, `order`, the `margin` before the label was seen, the `prediction`,
        whether it is a `mistake`, and the `reason` why a row is invalid, which is null for valid rows. A
        stream is learned by the query that writes the frame. A batch frame is learned before this function
        returns.
    """
    job = _job(df, fleet, key, order, features, label, classes, n_features, buckets, bad_rows)
    if df.isStreaming:
        if checkpoint is not None:
            raise ValueError(
                "checkpoint is for batch frames; the states of a stream are in the checkpoint of its query: "
                'use writeStream.option("checkpointLocation", ...)'
            )
        return job.stream(df)
    if checkpoint is None:
        raise ValueError("a batch frame needs a checkpoint, the folder of the states")
    return job.batch(df, FleetFolder(local_folder(checkpoint)))


def _job(
    df: DataFrame,
    fleet: Fleet,
    key: str,
    order: str,
    features: str | Sequence[str],
    label: str,
    classes: ArrayLike,
    n_features: int | None,
    buckets: int,
    bad_rows: str,
) -> FleetJob:
    """Return the settings of a call of `learn_fleet`, after checking them."""
    check_bad_rows(bad_rows)
    if not isinstance(fleet, Fleet):
        raise TypeError(f"fleet must be a Fleet; got {type(fleet).__name__}")
    if len(fleet):
        raise ValueError("fleet must have learned nothing; give a new one with the same parameters")
    if fleet.common is not None:
        raise ValueError(
            "a fleet with a common learner cannot be learned on Spark: the common learner needs the rows of "
            "all keys in one order, and buckets are learned apart; use common=None"
        )
    if isinstance(fleet.learner.get_params().get("gamma"), str):
        raise ValueError("the gamma of the learner must be a number: each bucket would choose another one")
    check_number("buckets", buckets)
    known = np.unique(np.asarray(classes))
    if len(known) != 2:
        raise ValueError(f"classes must be two labels; got {known.tolist()}")
    check_columns(df, [key, order, label])
    kind = df.schema[key].dataType
    if not isinstance(kind, T.IntegralType | T.StringType):
        raise ValueError(f"keys must be integers or text; {key!r} is {kind.simpleString()}")
    feature_column(df, features)
    label_reason(df, label, known)
    d = _number_of_features(features, n_features)
    texts = isinstance(kind, T.StringType)
    schema = (
        f"key {'string' if texts else 'bigint'}, order {df.schema[order].dataType.simpleString()}, "
        f"margin double, prediction {label_type(known)}, mistake boolean"
    )
    names = (key, order, label)
    learner = BucketLearner(fleet.to_bytes(), known, d, row_dtype(df, features))
    return FleetJob(names, features, d, known, int(buckets), bad_rows, schema, learner)


def _number_of_features(features: str | Sequence[str], n_features: int | None) -> int:
    if isinstance(features, str):
        if n_features is None:
            raise ValueError("n_features is needed if features is a column of arrays")
        return check_number("n_features", n_features)
    if n_features not in (None, len(features)):
        raise ValueError(f"n_features is {n_features}, and there are {len(features)} columns of features")
    return len(features)


@dataclass
class FleetJob:
    """The settings of a call of `learn_fleet`."""

    names: tuple[str, str, str]
    features: str | Sequence[str]
    d: int
    classes: Labels
    buckets: int
    bad_rows: str
    schema: str
    learner: BucketLearner

    def marked(self, df: DataFrame) -> DataFrame:
        """Return the rows with their features as one column, their bucket, and why they are invalid."""
        names = dict(zip(("key", "order", "label"), self.names, strict=True))
        columns = {name: F.col(f"`{column}`") for name, column in names.items()}
        if not isinstance(df.schema[names["key"]].dataType, T.StringType):
            columns["key"] = columns["key"].cast("bigint")
        columns["x"] = feature_column(df, self.features)
        needed = {name: columns[name] for name in ("key", "order")}
        dtype = self.learner.dtype
        reason = row_reason(df, needed, columns["x"], self.d, names["label"], self.classes, dtype)
        reason = F.coalesce(reason, key_reason(df, names["key"]))
        columns["reason"] = stop_at(reason, "learned") if self.bad_rows == "fail" else reason
        columns["bucket"] = F.pmod(F.xxhash64(columns["key"]), F.lit(self.buckets)).cast("int")
        return df.select(*(column.alias(name) for name, column in columns.items()))

    def valid(self, marked: DataFrame) -> DataFrame:
        return marked.where("reason is null").select("bucket", "key", "order", "label", "x")

    def with_invalid(self, learned: DataFrame, marked: DataFrame) -> DataFrame:
        """Return the predictions of the valid rows, and the invalid rows with their reason."""
        learned = learned.withColumn("reason", F.lit(None).cast("string"))
        # Not through the workers: pandas would make floats of integer keys and orders if one of them is null.
        # With "fail" as well, so that a query has the same sources and can go on with the other setting.
        invalid = marked.where("reason is not null").select("key", "order", "reason")
        return learned.unionByName(invalid, allowMissingColumns=True)

    def stream(self, df: DataFrame) -> DataFrame:
        """Learn a stream, with the states in Spark's state store."""
        provider = df.sparkSession.conf.get(PROVIDER)
        if "RocksDB" not in str(provider):
            raise ValueError(
                "the states of a fleet need the RocksDB state store: set "
                f'spark.conf.set("{PROVIDER}", "org.apache.spark.sql.execution.streaming.state.'
                'RocksDBStateStoreProvider") before the query starts'
            )
        marked = self.marked(df)
        learned = (
            self.valid(marked)
            .groupBy("bucket")
            .transformWithStateInPandas(
                statefulProcessor=FleetProcessor(self.learner, self.buckets),
                outputStructType=self.schema,
                outputMode="Append",
                timeMode="None",
            )
        )
        return self.with_invalid(learned, marked)

    def batch(self, df: DataFrame, folder: FleetFolder) -> DataFrame:
        """Learn a batch frame, with the states in files; return the predictions, which are in files, too."""
        folder.check_buckets(self.buckets)
        frame, learner = folder.last() + 1, self.learner

        def learn(number: tuple[Any, ...], table: pa.Table) -> pa.Table:
            versions = folder.bucket(number[0].as_py())
            earlier = [found for found in versions.ids() if found < frame]
            state = versions.path(earlier[-1]).read_bytes() if earlier else learner.start
            state, found = learner.play(state, table.drop_columns(["bucket"]))
            versions.write_bytes(frame, state)
            return found

        marked = self.marked(df)
        learned = self.valid(marked).groupBy("bucket").applyInArrow(learn, self.schema)
        predictions = folder.predictions(frame)
        self.with_invalid(learned, marked).write.mode("overwrite").parquet(predictions)
        folder.complete(frame)
        return df.sparkSession.read.parquet(predictions)
