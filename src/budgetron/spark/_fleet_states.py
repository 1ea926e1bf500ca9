"""The states of a fleet on Spark: the folder of batch frames, and how states are read into one process."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from budgetron._util.atomic import atomic_write
from budgetron.fleet import Fleet
from budgetron.spark._bucket import STATE, require_same_buckets
from budgetron.spark._versions import ModelVersions, local_folder

__all__ = ["FleetFolder", "read_buckets", "read_fleet"]


class FleetFolder:
    """The folder of a fleet that is learned from batch frames.

    It has the state of each bucket after each of the last frames, the predictions of each frame, and the
    number of the last frame that was learned completely. A frame that is learned again, because it was not
    completed, starts from the states before it and writes the same files again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def exists(self) -> bool:
        """Return whether a fleet was learned here, even if no row was valid."""
        return (self.folder / "number-of-buckets").exists()

    def bucket(self, number: int) -> ModelVersions:
        """Return the states of a bucket."""
        return ModelVersions(self.folder / "buckets" / str(number))

    def predictions(self, frame: int) -> str:
        """Return where the predictions of a frame are."""
        return str(self.folder / "predictions" / f"batch={frame}")

    def last(self) -> int:
        """Return the last frame that was learned completely; -1 if there is none."""
        path = self.folder / "last-batch"
        return int(path.read_text()) if path.exists() else -1

    def complete(self, frame: int) -> None:
        """Record that a frame was learned completely."""
        with atomic_write(self.folder / "last-batch") as file:
            file.write(str(frame).encode())

    def check_buckets(self, buckets: int) -> None:
        """Store the number of buckets, or raise `ValueError` if there are states of another number."""
        path = self.folder / "number-of-buckets"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write(str(buckets).encode())
        require_same_buckets(str(self.folder), int(path.read_text()), buckets)

    def fleets(self) -> list[Fleet]:
        """Return the fleet of each bucket after the last complete frame."""
        done = self.last()
        numbers = sorted(int(path.name) for path in (self.folder / "buckets").glob("*"))
        # A bucket may have a state of a frame that was not completed, and none before.
        buckets = [self.bucket(number) for number in numbers]
        return [versions.before(done + 1) for versions in buckets if min(versions.ids()) <= done]


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
    folder = local_folder(checkpoint)
    batches = FleetFolder(folder)
    if batches.exists():
        states = batches.fleets()
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
