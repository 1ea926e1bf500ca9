"""Learn the rows of one bucket of keys, in a worker of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from budgetron._util.types import Floats, Labels
from budgetron.fleet import Fleet
from budgetron.spark._rows import matrix_of, sorted_places

__all__ = ["STATE", "BucketLearner", "FleetProcessor", "require_same_buckets"]

# The name of the state variable in Spark's state store.
STATE = "fleet"


@dataclass(frozen=True)
class BucketLearner:
    """Learns the rows of a bucket with the state of its fleet.

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
        if state is not self.start:
            self.check_settings(fleet)
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

    def check_settings(self, stored: Fleet) -> None:
        """Raise `ValueError` if a stored fleet has other parameters than the one that was given."""
        given = Fleet.from_bytes(self.start)
        if settings_of(stored) != settings_of(given):
            raise ValueError(
                f"the checkpoint has states of {stored!r}, and the fleet is {given!r}; give a fleet with the "
                "same parameters, or another checkpoint"
            )


class FleetProcessor(StatefulProcessor):  # type: ignore[misc]  # a class without types
    """Keeps the fleet of each bucket in Spark's state store, with the number of buckets."""

    def __init__(self, learner: BucketLearner, buckets: int) -> None:
        self.learner, self.buckets = learner, buckets

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState(STATE, "data binary, buckets int")

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        tables = [pa.Table.from_pandas(part, preserve_index=False) for part in rows]
        state = self.learner.start
        if self.state.exists():
            data, buckets = self.state.get()
            require_same_buckets("the checkpoint", buckets, self.buckets)
            state = bytes(data)
        state, found = self.learner.play(state, pa.concat_tables(tables, promote_options="permissive"))
        self.state.update((state, self.buckets))
        yield found.to_pandas()

    def close(self) -> None:
        """Do nothing: the state store is Spark's."""


def require_same_buckets(where: str, stored: int, buckets: int) -> None:
    """Raise `ValueError` if states were stored in another number of buckets: keys would be in other ones."""
    if stored != buckets:
        raise ValueError(
            f"{where} has states in {stored} buckets, and buckets is {buckets}; their number cannot change"
        )


def settings_of(fleet: Fleet) -> dict[str, Any]:
    """Return all parameters of a fleet and of its learner, by name."""
    parameters = {name: repr(value) for name, value in fleet.get_params().items() if name != "learner"}
    return parameters | {"learner": type(fleet.learner).__name__}
