"""Checkpoints: a run that was killed goes on where it was, and ends as if it had never stopped.

All is in one file, so that a crash cannot mix two states: the model, as `run --save` keeps it, and beside it
the account, the number of rows learned, and what the command and its source were. Rows that were learned are
read again and skipped: so encoder and blocks are those of a run that never stopped.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import issparse

from budgetron import files
from budgetron._util.atomic import remove_temporary_files
from budgetron.cli._terminal import check_output, err
from budgetron.evaluate import Comparison
from budgetron.files import ModelFileError

__all__ = ["EVERY", "Checkpoint", "checkpoint_in"]

EVERY = 10_000
NAME = "checkpoint.budgetron"
KEPT = {"command", "source", "rows", "digest", "done", "account"}
BEGIN_ANEW = "give another folder, or delete this one to begin anew"


@contextmanager
def checkpoint_in(
    folder: Path | None, every: int | None, source: str, command: dict[str, Any]
) -> Iterator[Checkpoint | None]:
    """The checkpoint in a folder, which no other run can use meanwhile; None if no folder was given."""
    if folder is None:
        if every is not None:
            raise ValueError("--every says how often --checkpoint is written; give --checkpoint FOLDER too")
        yield None
        return
    if source == "-" or (os.path.exists(source) and not (os.path.isfile(source) or os.path.isdir(source))):
        raise ValueError("--checkpoint: a pipe cannot be read again after a crash; put its rows into a file")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--checkpoint: {folder} is a file; give the name of a folder")
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"--checkpoint: {folder} cannot be made: {error.strerror}; give a folder where you may write"
        ) from None
    try:
        with _alone(folder):
            every = every or EVERY
            told = {"source": source} | command | {"every": every, "version": version("budgetron")}
            checkpoint = Checkpoint(folder, every, told)
            if not checkpoint.complete:  # else nothing will be written
                check_output(checkpoint.path, [source])
            yield checkpoint
    finally:
        for place in new:  # if nothing was put there
            with suppress(OSError):
                place.rmdir()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a folder; the system lets it go when this process ends, however it ends."""
    if os.name != "posix":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network drives know no locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"another run is at work in {folder}; wait for it, or give another folder"
                ) from None
            remove_temporary_files(folder)  # of runs that were killed while they wrote
        yield
    finally:
        os.close(descriptor)


class Checkpoint:
    """What is known of a run, in memory and in its file.

    Parameters
    ----------
    folder : Path
    every : int
        The file is written anew after the block that has, or passes, a multiple of this.
    command : dict
        What was asked for, as far as it decides what is learned.

    Attributes
    ----------
    rows : int
        Rows learned.
    saved : int
        Those of them that the file has.
    """

    def __init__(self, folder: Path, every: int, command: dict[str, Any]) -> None:
        self.folder, self.every, self.path = folder, every, folder / NAME
        self.rows = self.saved = 0
        self._command, self._digest = command, ""
        self._kept: dict[str, Any] | None = None
        self._model: Any = None
        if not self.path.exists():
            return
        with self._sound():
            kept = (files.load_extras(self.path) or {}).get("checkpoint")
            if not isinstance(kept, dict) or set(kept) != KEPT:
                raise ValueError("a model without what is kept of a run")
            self._model = files.load(self.path)
        self._refuse_another(kept["command"])
        self._kept = kept

    @property
    def complete(self) -> bool:
        """Whether the file is that of a run to its end."""
        return self._kept is not None and bool(self._kept["done"])

    def model(self, fresh: Any) -> Any:
        """The model that goes on; the given one if there is nothing to go on with."""
        return fresh if self._model is None else self._model

    def resume(self, comparison: Comparison, blocks: Any, rest: Iterator[tuple[Any, Any]]) -> None:
        """Bring the account and the stream to where the file is."""
        if self._kept is None:
            comparison.start(*blocks.first)
            return
        kept = self._kept
        facts = _facts(blocks.stream)
        for name, before in kept["source"].items():
            if facts[name] != before:
                self._changed(blocks, f"its {name} was {_shown(before)} and is {_shown(facts[name])} now")
        with self._sound():
            comparison.resume(kept["account"])
            waiting = comparison.n_waiting
            if not comparison[0].rounds == kept["rows"] == self._model.rounds_ + waiting:
                raise ValueError("model and account stand at different rounds")
        with err.status(f"reading {kept['rows']:,} rows again") if err.is_terminal else nullcontext():
            while self.rows < kept["rows"]:
                block = next(rest, None)
                if block is None:
                    self._changed(blocks, f"{kept['rows']:,} rows were learned, and it has {self.rows:,}")
                self._take(block)
                blocks.learned(block)
        if (self.rows, self._digest) != (kept["rows"], kept["digest"]):
            self._changed(blocks, f"its first {kept['rows']:,} rows are not those that were learned")
        self.saved = self.rows
        done = "complete" if kept["done"] else "going on"
        err.print(f"{self.path}: {done} after {self.rows:,} rows", highlight=False, soft_wrap=True)

    def learned(self, block: tuple[Any, Any], comparison: Comparison, blocks: Any) -> None:
        """Take note of a block that was learned, and write the file if it is time.

        That depends on the rows alone, so that a run which goes on does it where one that never stopped does.
        """
        before = self.rows
        self._take(block)
        if self.rows // self.every > before // self.every:
            self.save(comparison, blocks)

    def save(self, comparison: Comparison, blocks: Any, done: bool = False) -> None:
        """Write the file, if it does not have all of this."""
        if self.saved == self.rows and (not done or self.complete):
            return
        kept = {
            "command": self._command,
            "source": _facts(blocks.stream),
            "rows": self.rows,
            "digest": self._digest,
            "done": done,
            "account": comparison.state(),
        }
        try:
            files.save(comparison[0].model, self.path, extras=blocks.extras() | {"checkpoint": kept})
        except OSError as error:
            before = f"the checkpoint after {self.saved:,} rows is kept" if self.saved else "none was written"
            reason = f"{error.strerror}; {before}: mend this, and give the same command again"
            raise type(error)(error.errno, reason, error.filename) from None
        self.saved = self.rows
        # A loaded model is the same but for spare room, which `nbytes_` counts: all go on with that one.
        comparison[0].model = files.load(self.path)

    def _take(self, block: tuple[Any, Any]) -> None:
        X, y = block
        digest = hashlib.sha256(self._digest.encode())
        for part in (X.data, X.indices, X.indptr, y) if issparse(X) else (X, y):
            digest.update(np.ascontiguousarray(part).tobytes())
        self._digest = digest.hexdigest()
        self.rows += len(y)

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Say of whatever is wrong with the file which one it is, and what to do."""
        try:
            yield
        except ModelFileError as error:
            raise ModelFileError(f"{error}; {BEGIN_ANEW}") from error
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            what = f"not a sound checkpoint: {error}"
            raise ModelFileError(f"{self.path}: {what}; {BEGIN_ANEW}") from error

    def _refuse_another(self, before: dict[str, Any]) -> None:
        differing = [name for name in self._command | before if before.get(name) != self._command.get(name)]
        if differing:
            said = [
                f"{name} was {_shown(before.get(name))} and is {_shown(self._command.get(name))} now"
                for name in differing
            ]
            raise ValueError(
                f"{self.folder} has the checkpoint of another run: {'; '.join(said)}; {BEGIN_ANEW}"
            )

    def _changed(self, blocks: Any, how: str) -> NoReturn:
        raise ValueError(
            f"{blocks.name} was changed since the checkpoint in {self.folder}: {how}; it must stay as "
            f"it was, without rows added: {BEGIN_ANEW}"
        )


def _facts(stream: Any) -> dict[str, Any]:
    """What shows at once that a source is not what it was; its rows are compared one by one."""
    return {
        "size": stream.size,
        "rows": stream.n_rows,
        "features": stream.n_features,
        "classes": stream.classes.tolist(),
    }


def _shown(value: Any) -> str:
    return "not given" if value is None else str(value)
