"""States of a model in a folder, one file for each micro-batch."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from budgetron import files
from budgetron._util.atomic import atomic_write

__all__ = [
    "ModelVersions",
    "local_folder",
    "read_model",
    "versions_of",
]

FOLDER = "models"
# The state before the first batch.
START = -1
# Spark repeats at most the last batch, so that two states are needed; the others are for looking at.
KEPT = 5
NAME = re.compile(r"batch-(start|\d{12})\.budgetron")


class ModelVersions:
    """The files `batch-<id>.budgetron` in a folder: the state after each of the last batches.

    A batch that is learned again, because its completion was not recorded, starts from the state before it,
    and writes the same file again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ids(self) -> list[int]:
        """Return the batches whose state is stored, in order; -1 is the state before the first batch."""
        if not self.folder.is_dir():
            return []
        found = [NAME.fullmatch(path.name) for path in self.folder.iterdir()]
        return sorted(START if match[1] == "start" else int(match[1]) for match in found if match)

    def path(self, batch: int) -> Path:
        """Return the file of the state after a batch."""
        return self.folder / f"batch-{'start' if batch == START else f'{batch:012d}'}.budgetron"

    def before(self, batch: int) -> Any:
        """Return the state before a batch."""
        earlier = [found for found in self.ids() if found < batch]
        if not earlier:
            raise ValueError(
                f"{self.folder} has no state before batch {batch}; the checkpoint is incomplete: start with "
                "an empty folder"
            )
        return files.load(self.path(earlier[-1]))

    def newest(self) -> Any:
        """Return the state after the last batch."""
        return files.load(self.path(self.ids()[-1]))

    def write(self, batch: int, model: Any) -> None:
        """Write the state after a batch, atomically, and remove old states."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files.save(model, self.path(batch))
        self.remove_old(batch)

    def write_bytes(self, batch: int, data: bytes) -> None:
        """Write the bytes of a model file as the state after a batch, as `write` does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.path(batch)) as file:
            file.write(data)
        self.remove_old(batch)

    def remove_old(self, batch: int) -> None:
        """Remove states that are so old that no batch will start from them."""
        for old in [found for found in self.ids() if found < batch][:-KEPT]:
            self.path(old).unlink(missing_ok=True)

    def start(self, model: Any) -> None:
        """Write the state before the first batch, or check that the stored one is of the same kind."""
        if not self.ids():
            self.write(START, model)
            return
        stored = self.newest()
        if type(stored) is not type(model) or stored.get_params() != model.get_params():
            raise ValueError(
                f"{self.folder} has states of {stored!r}, and the model is {model!r}; give the same model, "
                "or another checkpoint"
            )


def versions_of(checkpoint: str | os.PathLike[str]) -> ModelVersions:
    """Return the states of the model that `learn` keeps in a checkpoint."""
    return ModelVersions(local_folder(checkpoint) / FOLDER)


def local_folder(checkpoint: str | os.PathLike[str]) -> Path:
    """Return a folder that this process can write."""
    text = os.fspath(checkpoint).removeprefix("file://")
    if "://" in text:
        raise ValueError(
            f"checkpoint must be a folder that the driver can write, like a mounted volume; got {text!r}"
        )
    return Path(text).absolute()


def read_model(checkpoint: str | os.PathLike[str]) -> Any:
    """Return the newest state of a model that `learn` learns.

    Parameters
    ----------
    checkpoint : str or path-like
        The folder that was given to `learn`. The query may be running.

    Returns
    -------
    estimator
    """
    versions = versions_of(checkpoint)
    if not versions.ids():
        raise ValueError(f"{versions.folder} has no model; give the checkpoint of budgetron.spark.learn")
    return versions.newest()
