"""Learn a fleet: one small model per key, in buckets of keys."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as T  # noqa: N812 - the usual name
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from budgetron._util.atomic import atomic_write
from budgetron._util.types import Floats, Labels
from budgetron.fleet import Fleet
from budgetron.spark._rows import (
    check_bad_rows,
    check_columns,
    feature_column,
    feature_reason,
    label_reason,
    label_type,
    matrix_of,
    row_dtype,
    sorted_places,
)
from budgetron.spark._versions import ModelVersions, local_folder

__all__ = ["learn_fleet", "read_buckets", "read_fleet"]

STATE = "fleet"
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
        sorted by their label and features.
    features : str, or sequence of str
        A column of arrays of numbers, or numeric columns. If all of them are floats of 32 bits, models
        compute with such numbers and take about half the memory.
    label : str
        The column of the labels.
    classes : array-like of shape (2,)
        Both labels.
    n_features : int, optional
        Length of the arrays; needed if `features` is a column of arrays.
    buckets : int, default=64
        Number of buckets. It cannot change between runs with one checkpoint.
    checkpoint : str or path-like, optional
        For batch frames: a folder for states and predictions, which driver and workers share. A later call
        with the same folder goes on with the states. For streams, the checkpoint of the query has the states:
        give it to the writer as ``checkpointLocation``.
    bad_rows : {"quarantine", "fail"}, default="quarantine"
        What to do with invalid rows: a key, order or features that are null, features that are not finite or
        of the wrong number, unknown labels. "quarantine" returns them with their `reason` and nothing else.
        "fail" stops the query. They never reach a model.

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
    return job.batch(df, local_folder(checkpoint))


def read_fleet(checkpoint: str | os.PathLike[str]) -> Fleet:
    """Return all keys of a fleet that `learn_fleet` learns, in one process.

    If the fleet has a limit of its `memory`, use `read_buckets`: all buckets together do not fit into the
    limit of one.

    Parameters
    ----------
    checkpoint : str or path-like
        The checkpoint of the streaming query, or the folder that was given to `learn_fleet` with a batch
        frame. A session of Spark must be active.

    Returns
    -------
    Fleet
        The states after the last complete batch.
    """
    first, *others = read_buckets(checkpoint)
    if first.memory is not None and others:
        raise ValueError(
            "each bucket has a limit of its memory, into which all of them do not fit; use read_buckets, "
            "which returns a fleet for each bucket"
        )
    return first.merge(*others)


def read_buckets(checkpoint: str | os.PathLike[str]) -> list[Fleet]:
    """Return the fleet of each bucket that `learn_fleet` learns.

    Parameters
    ----------
    checkpoint : str or path-like
        As for `read_fleet`.

    Returns
    -------
    list of Fleet
        The states after the last complete batch, without buckets that have no keys yet.
    """
    states: list[Fleet]
    folder = local_folder(checkpoint)
    if (folder / "buckets").is_dir():
        done = last_batch(folder)
        buckets = [ModelVersions(path) for path in (folder / "buckets").iterdir()]
        buckets.sort(key=lambda versions: int(versions.folder.name))
        # A bucket may have a state of a batch that was not completed, and none before.
        states = [versions.before(done + 1) for versions in buckets if min(versions.ids()) <= done]
    elif (folder / "state").is_dir():
        session = SparkSession.active()
        rows = session.read.format("statestore").option("stateVarName", STATE).load(str(folder))
        found = rows.select("key.bucket", "value.data").orderBy("bucket").collect()
        states = [Fleet.from_bytes(bytes(row["data"])) for row in found]
    else:
        raise ValueError(f"{folder} has no states; give the checkpoint of a query over learn_fleet")
    if not states:
        raise ValueError(f"{folder} has no states yet")
    return states


# ---------------------------------------------------------------------- checks


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
    if int(buckets) != buckets or buckets < 1:
        raise ValueError(f"buckets must be a whole number of at least 1; got {buckets}")
    known = np.unique(np.asarray(classes))
    if len(known) != 2:
        raise ValueError(f"classes must be two labels; got {known.tolist()}")
    check_columns(df, [key, order, label])
    kind = df.schema[key].dataType
    if not isinstance(kind, T.IntegralType | T.StringType):
        raise ValueError(f"keys must be integers or text; {key!r} is {kind.simpleString()}")
    feature_column(df, features)
    label_reason(df, label, known)
    if isinstance(features, str) and n_features is None:
        raise ValueError("n_features is needed if features is a column of arrays")
    d = len(features) if n_features is None else int(n_features)
    texts = isinstance(kind, T.StringType)
    schema = (
        f"key {'string' if texts else 'bigint'}, order {df.schema[order].dataType.simpleString()}, "
        f"margin double, prediction {label_type(known)}, mistake boolean"
    )
    names = (key, order, label)
    player = Player(fleet.to_bytes(), known, d, row_dtype(df, features))
    return FleetJob(names, features, d, known, int(buckets), bad_rows, schema, player)


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
    player: Player

    def marked(self, df: DataFrame) -> DataFrame:
        """Return the rows with their features as one column, their bucket, and why they are invalid."""
        key, order, label = (F.col(f"`{name}`") for name in self.names)
        texts = isinstance(df.schema[self.names[0]].dataType, T.StringType)
        key = key if texts else key.cast("bigint")
        rows = feature_column(df, self.features)
        reason = F.coalesce(
            F.when(key.isNull(), F.lit("the key is null")),
            F.when(order.isNull(), F.lit("the order is null")),
            feature_reason(rows, self.d),
            label_reason(df, self.names[2], self.classes),
        )
        if self.bad_rows == "fail":
            stop = F.raise_error(F.concat(F.lit("a row cannot be learned: "), reason)).cast("string")
            reason = F.when(reason.isNotNull(), stop)
        columns = {"key": key, "order": order, "label": label, "x": rows, "reason": reason}
        columns["bucket"] = self.bucket_of(key)
        return df.select(*(column.alias(name) for name, column in columns.items()))

    def bucket_of(self, key: Column) -> Column:
        """Return the bucket of a key."""
        return F.pmod(F.xxhash64(key), F.lit(self.buckets)).cast("int")

    def both(self, learned: DataFrame, marked: DataFrame) -> DataFrame:
        """Return the predictions of the valid rows, and the invalid rows with their reason."""
        names = [part.strip().split(" ")[0] for part in self.schema.split(", ")]
        types = [part.strip().split(" ")[1] for part in self.schema.split(", ")]
        invalid = marked.where("reason is not null").select(
            "key",
            "order",
            *(F.lit(None).cast(kind).alias(name) for name, kind in zip(names[2:], types[2:], strict=True)),
            "reason",
        )
        return learned.withColumn("reason", F.lit(None).cast("string")).unionByName(invalid)

    def valid(self, marked: DataFrame) -> DataFrame:
        return marked.where("reason is null").select("bucket", "key", "order", "label", "x")

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
                statefulProcessor=FleetProcessor(self.player),
                outputStructType=self.schema,
                outputMode="Append",
                timeMode="None",
            )
        )
        return self.both(learned, marked)

    def batch(self, df: DataFrame, folder: Path) -> DataFrame:
        """Learn a batch frame, with the states in files; return the predictions, which are in files, too."""
        self.check_buckets(folder)
        batch = last_batch(folder) + 1
        player = self.player

        def learn(number: tuple[Any, ...], table: pa.Table) -> pa.Table:
            versions = ModelVersions(folder / "buckets" / str(number[0].as_py()))
            earlier = [found for found in versions.ids() if found < batch]
            state = versions.path(earlier[-1]).read_bytes() if earlier else player.start
            state, found = player.play(state, table.drop_columns(["bucket"]))
            versions.write_bytes(batch, state)
            return found

        marked = self.marked(df)
        learned = self.valid(marked).groupBy("bucket").applyInArrow(learn, self.schema)
        predictions = str(folder / "predictions" / f"batch={batch}")
        self.both(learned, marked).write.mode("overwrite").parquet(predictions)
        with atomic_write(folder / "last-batch") as file:
            file.write(str(batch).encode())
        return df.sparkSession.read.parquet(predictions)

    def check_buckets(self, folder: Path) -> None:
        """Raise an error if the folder has states of another number of buckets."""
        path = folder / "number-of-buckets"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write(str(self.buckets).encode())
        elif path.read_text() != str(self.buckets):
            raise ValueError(
                f"{folder} has states in {path.read_text()} buckets, and buckets is {self.buckets}; their "
                "number cannot change"
            )


def last_batch(folder: Path) -> int:
    """Return the last batch frame that was learned completely; -1 if there is none."""
    path = folder / "last-batch"
    return int(path.read_text()) if path.exists() else -1


# ---------------------------------------------------------------------- in the workers


@dataclass(frozen=True)
class Player:
    """Plays the rows of a bucket with the state of its fleet.

    Attributes
    ----------
    start : bytes
        A fleet that has learned nothing.
    classes : ndarray of shape (2,)
    d : int
        Number of features.
    dtype : dtype
        The type in which rows are learned.
    """

    start: bytes
    classes: Labels
    d: int
    dtype: np.dtype[Any]

    def play(self, state: bytes, table: pa.Table) -> tuple[bytes, pa.Table]:
        """Predict and learn the rows of a table; return the new state and the predictions."""
        fleet = Fleet.from_bytes(state)
        X = matrix_of(table["x"], self.d).astype(self.dtype)
        y = np.asarray(table["label"].to_pylist())
        places = sorted_places(table["order"], y, X)
        table = table.take(pa.array(places))
        keys: list[Any] = table["key"].to_pylist()
        margins: Floats = fleet.play(keys, X[places], y[places], classes=self.classes)
        second = y[places] == self.classes[1]
        found = {
            "key": table["key"],
            "order": table["order"],
            "margin": pa.array(margins),
            "prediction": pa.array(self.classes[(margins > 0.0).astype(int)].tolist()),
            "mistake": pa.array(np.where(second, margins, -margins) <= 0.0),
        }
        return fleet.to_bytes(), pa.table(found)


class FleetProcessor(StatefulProcessor):  # type: ignore[misc]  # a class without types
    """Keeps the fleet of each bucket in Spark's state store."""

    def __init__(self, player: Player) -> None:
        self.player = player

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState(STATE, "data binary")

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        tables = [pa.Table.from_pandas(part, preserve_index=False) for part in rows]
        state = bytes(self.state.get()[0]) if self.state.exists() else self.player.start
        state, found = self.player.play(state, pa.concat_tables(tables, promote_options="permissive"))
        self.state.update((state,))
        yield found.to_pandas()

    def close(self) -> None:
        """Do nothing: the state store is Spark's."""
