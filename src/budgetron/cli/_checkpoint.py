"""Checkpoints: a run that was killed continues, and ends as if it had never stopped.

Everything is in one file, so that a crash cannot mix two states: the model, as `run --save` writes it, the
results so far, the number of rows learned, the command, and facts about its source. A run that continues
reads the learned rows again without learning them, so that encoder and blocks are those of a run that never
stopped.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

import numpy as np
from scipy.sparse import issparse

from budgetron import files
from budgetron._evaluation.by_name import Learner
from budgetron._util.atomic import remove_temporary_files
from budgetron.cli._messages import err
from budgetron.cli._prefix import Block, Prefix, State
from budgetron.cli._tasks import AnyComparison
from budgetron.cli._terminal import check_output
from budgetron.files import ModelFileError
from budgetron.streams import Stream

__all__ = ["EVERY", "Checkpoint", "checkpoint_in"]

EVERY = 10_000
FILE_NAME = "checkpoint.budgetron"
FIELDS = {"command", "source", "rows", "digest", "done", "account"}
START_AGAIN = "give another folder, or delete this one to start again"


@contextmanager
def checkpoint_in(folder: Path, every: int | None, source: str, command: State) -> Iterator[Checkpoint]:
    """Open the checkpoint in a folder, and lock the folder."""
    if source == "-" or (os.path.exists(source) and not (os.path.isfile(source) or os.path.isdir(source))):
        raise ValueError("--checkpoint: a pipe cannot be read again after a crash; write its rows to a file")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--checkpoint: {folder} is a file; give the name of a folder")
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"--checkpoint: cannot create {folder}: {error.strerror}; give a folder that you can write to"
        ) from None
    try:
        with _locked(folder):
            every = every or EVERY
            full = {"source": source} | command | {"every": every, "version": version("budgetron")}
            checkpoint = Checkpoint(folder, every, full)
            if not checkpoint.complete:  # a complete one is not written again
                check_output(checkpoint.path, [source])
            yield checkpoint
    finally:
        for path in new_folders:
            with suppress(OSError):  # not empty
                path.rmdir()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder. The system removes the lock when this process ends, for whatever reason."""
    if os.name != "posix":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network drives have no locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"another run uses {folder}; wait until it ends, or give another folder"
                ) from None
            remove_temporary_files(folder)  # of runs that were killed while writing
        yield
    finally:
        os.close(descriptor)


class Checkpoint:
    """The state of a run, in memory and in its file.

    Parameters
    ----------
    folder : Path
    every : int
        The file is written after each block that reaches or passes a multiple of this number of rows.
    command : dict
        The options that decide what is learned.

    Attributes
    ----------
    rows : int
        Rows learned.
    saved : int
        Rows learned when the file was written.
    scaled : bool
        Whether the file was made by a run that read scaled rows.
    """

    def __init__(self, folder: Path, every: int, command: State) -> None:
        self.folder, self.every, self.path = folder, every, folder / FILE_NAME
        self.rows = self.saved = 0
        self.scaled = False
        self._command, self._digest = command, ""
        self._stored: State | None = None
        self._model: Learner = None
        if not self.path.exists():
            return
        with self._explained():
            extras = files.load_extras(self.path) or {}
            stored = extras.get("checkpoint")
            if not isinstance(stored, dict) or set(stored) != FIELDS:
                raise ValueError("the file holds a model, but not the state of a run")
            self.scaled = extras.get("encoder") is not None and bool(extras["encoder"]["options"]["scale"])
            self._model = files.load(self.path)
        self._check_command(stored["command"])
        self._stored = stored

    @property
    def complete(self) -> bool:
        """Whether the file is that of a run that reached its end."""
        return self._stored is not None and bool(self._stored["done"])

    def model(self, new: Learner) -> Learner:
        """Return the model in the file; if there is none, the given one."""
        return new if self._model is None else self._model

    def resume(self, comparison: AnyComparison, blocks: Prefix, remaining: Iterator[Block]) -> None:
        """Restore the results in the file, and skip the rows that were learned."""
        if self._stored is None:
            comparison.start(blocks.first.X, blocks.first.y)
            return
        stored = self._stored
        facts = _facts(blocks.stream)
        for name, before in stored["source"].items():
            if facts[name] != before:
                self._source_changed(
                    blocks, f"its {name} was {_shown(before)} and is now {_shown(facts[name])}"
                )
        with self._explained():
            comparison.resume(stored["account"])
            if not comparison[0].rounds == stored["rows"] == self._model.rounds_ + comparison.n_waiting:
                raise ValueError("model and results are at different rounds")
        with err.status(f"reading {stored['rows']:,} rows again") if err.is_terminal else nullcontext():
            while self.rows < stored["rows"]:
                block = next(remaining, None)
                if block is None:
                    self._source_changed(
                        blocks, f"{stored['rows']:,} rows were learned, but it has {self.rows:,}"
                    )
                self._add(block)
                blocks.learned(block)
        if (self.rows, self._digest) != (stored["rows"], stored["digest"]):
            self._source_changed(blocks, f"its first {stored['rows']:,} rows are not those that were learned")
        self.saved = self.rows
        progress = "complete" if stored["done"] else "continuing"
        err.print(f"{self.path}: {progress} after {self.rows:,} rows")

    def learned(self, block: Block, comparison: AnyComparison, blocks: Prefix) -> None:
        """Record that a block was learned, and write the file if it is time.

        The time depends only on the rows, so that a run that continues writes at the same rows as one that
        never stopped.
        """
        before = self.rows
        self._add(block)
        if self.rows // self.every > before // self.every:
            self.save(comparison, blocks)

    def save(self, comparison: AnyComparison, blocks: Prefix, done: bool = False) -> None:
        """Write the file, unless it is up to date."""
        if self.saved == self.rows and (not done or self.complete):
            return
        stored = {
            "command": self._command,
            "source": _facts(blocks.stream),
            "rows": self.rows,
            "digest": self._digest,
            "done": done,
            "account": comparison.state(),
        }
        try:
            files.save(comparison[0].model, self.path, extras=blocks.extras() | {"checkpoint": stored})
        except OSError as error:
            kept = f"the checkpoint after {self.saved:,} rows remains" if self.saved else "none was written"
            reason = f"{error.strerror}; {kept}; fix this, then run the command again"
            raise type(error)(error.errno, reason, error.filename) from None
        self.saved = self.rows
        # A loaded model equals the saved one except for spare capacity, which `nbytes_` counts. Every run
        # continues with the loaded one, so that all report the same.
        comparison[0].model = files.load(self.path)

    def _add(self, block: Block) -> None:
        digest = hashlib.sha256(self._digest.encode())
        X = block.X
        for part in (X.data, X.indices, X.indptr, block.y) if issparse(X) else (X, block.y):
            digest.update(np.ascontiguousarray(part).tobytes())
        self._digest = digest.hexdigest()
        self.rows += len(block.y)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Add the name of the file, and what to do, to errors in the file."""
        try:
            yield
        except ModelFileError as error:
            raise ModelFileError(f"{error}; {START_AGAIN}") from error
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ModelFileError(f"{self.path}: not a valid checkpoint: {error}; {START_AGAIN}") from error

    def _check_command(self, before: State) -> None:
        differing = [name for name in self._command | before if before.get(name) != self._command.get(name)]
        if differing:
            changes = [
                f"{name} was {_shown(before.get(name))} and is now {_shown(self._command.get(name))}"
                for name in differing
            ]
            raise ValueError(
                f"{self.folder} has the checkpoint of another run: {'; '.join(changes)}; {START_AGAIN}"
            )

    def _source_changed(self, blocks: Prefix, how: str) -> NoReturn:
        raise ValueError(
            f"{blocks.name} has changed since the checkpoint in {self.folder} was written: {how}; the source "
            f"must not change, not even by added rows; restore it, or {START_AGAIN}"
        )


def _facts(stream: Stream) -> State:
    """Return facts that show quickly that a source has changed; its rows are compared later."""
    return {
        "size": stream.size,
        "rows": stream.n_rows,
        "features": stream.n_features,
        "classes": None if stream.classes is None else stream.classes.tolist(),
    }


def _shown(value: object) -> str:
    return "not given" if value is None else str(value)
