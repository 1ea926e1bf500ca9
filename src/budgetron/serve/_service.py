"""The service: the models of a folder, the thread that predicts, and the thread that learns."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from budgetron._util.atomic import remove_temporary_files, sync_folder
from budgetron.serve._entries import Entry, open_entry
from budgetron.serve._log import Log
from budgetron.serve._model import ServedModel
from budgetron.serve._problems import Problem
from budgetron.serve._reader import Predict, Reader
from budgetron.serve._waiting import Limits
from budgetron.serve._writer import Call, Examples, Flush, Learn, Writer
from budgetron.streams._objects import PlainRows

__all__ = ["Service", "Settings", "open_service"]

logger = logging.getLogger("budgetron.serve")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
NAME_RULE = (
    "the name of a model has 1 to 64 letters, digits, '_', '.' and '-', and begins with a letter or digit"
)
SUFFIX = ".budgetron"


@dataclass(frozen=True)
class Settings:
    """Settings of the service.

    Attributes
    ----------
    waiting : Limits
        Of each model.
    snapshot_rows, snapshot_seconds
        A snapshot is written after so many rows, or so long after the first row since the last one.
    keep_log : bool
        Whether records stay in the log after a snapshot.
    max_models : int
    max_body : int
        Bytes of the largest request.
    max_rows : int
        Rows of the largest request.
    max_connections : int
        If the system allows fewer open files, there are fewer connections.
    request_seconds : float
        How long a client may take to send a request.
    stop_seconds : float
        How long the service may take to stop.
    """

    waiting: Limits = field(default_factory=Limits)
    snapshot_rows: int = 50_000
    snapshot_seconds: float = 60.0
    keep_log: bool = False
    max_models: int = 100
    max_body: int = 16 << 20
    max_rows: int = 10_000
    max_connections: int = 4000
    request_seconds: float = 30.0
    stop_seconds: float = 20.0


class Service:
    """Models that predict and learn; see `open_service`.

    Attributes
    ----------
    folder : Path
    settings : Settings
    entries : dict of str to Entry
    stopping : bool
        Whether the service is about to end.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings, self.stopping = folder, settings, False
        self._models = folder / "models"
        if not self._models.is_dir():
            self._models.mkdir(parents=True)
            for new in (folder, folder.absolute().parent):
                sync_folder(new)
        self.log = Log(folder / "log.sqlite")
        self.entries: dict[str, Entry] = {}
        try:
            remove_temporary_files(self._models)
            for path in sorted(self._models.glob(f"*{SUFFIX}")):
                name, model = path.name.removesuffix(SUFFIX), ServedModel.load(path)
                self._check_file(path, name, model)
                if self.log.is_deleted(model.uid):  # the process ended before the file was removed
                    path.unlink()
                else:
                    self.entries[name] = open_entry(name, model, self.log, settings.waiting)
            self._report_missing()
        except BaseException:
            self.log.close()
            raise
        self.reader = Reader()
        self.writer = Writer(
            self.log, self.entries, self._snapshot, settings.snapshot_rows, settings.snapshot_seconds
        )

    def _check_file(self, path: Path, name: str, model: ServedModel) -> None:
        """Raise `ValueError` if a file cannot have been written by the service, but was copied or renamed."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{path}: {NAME_RULE}; rename the file")
        for other in self.entries.values():
            if other.model.uid == model.uid:
                raise ValueError(
                    f"{path} is a copy of {self._path(other.name)}. The log cannot store labels of both. "
                    "Move one of them out of the folder. To serve it, too, start with --model and its new "
                    "path, and --name with another name"
                )

    def _report_missing(self) -> None:
        known = {entry.model.uid for entry in self.entries.values()}
        for uid, records in self.log.records_by_model().items():
            if uid not in known:
                logger.warning(
                    "%s: the log has %d records of a model whose file is not in the folder; restore the file "
                    "from a backup if you need them",
                    self.folder,
                    records,
                )

    def start(self) -> None:
        """Start the threads."""
        self.reader.start()
        self.writer.start()

    def stop(self) -> bool:
        """Finish all requests, write snapshots, and end; return whether this was done in time."""
        self.stopping = True
        done = self.reader.stop(self.settings.stop_seconds / 4)
        return self.writer.stop(self.settings.stop_seconds / 2) and done

    def entry(self, name: str) -> Entry:
        """Return a model by its name."""
        found = self.entries.get(name)
        if found is None:
            raise Problem(404, "unknown-model", f"there is no model {name[:80]!r}; GET /models lists them")
        return found

    # ------------------------------------------------------------------ requests

    async def predict(
        self,
        entry: Entry,
        rows: PlainRows,
        *,
        keep: bool = True,
        durable: bool = False,
        regions: bool = False,
    ) -> bytes:
        """Predict rows; return the body of the response. With `durable`, wait until the rows are on disk.

        With `regions`, the response has sets or intervals.
        """
        body: bytes = await self.reader.do(Predict(entry, rows, keep, regions))
        if keep and durable:
            await self.writer.do(Flush(entry))
        return body

    async def learn(self, entry: Entry, examples: Examples) -> bytes:
        """Learn examples; return the body of the response when they are on disk and learned."""
        body: bytes = await self.writer.do(Learn(entry, examples))
        return body

    async def create(self, name: str, model: ServedModel) -> Entry:
        """Add a model."""
        entry: Entry = await self._call(lambda: self.add(name, model))
        return entry

    async def delete(self, name: str) -> None:
        """Remove a model with its log and its waiting rows."""
        await self._call(lambda: self._delete(self.entry(name)))

    async def file(self, entry: Entry) -> bytes:
        """Return a model file."""
        data: bytes = await self._call(entry.model.to_bytes)
        return data

    async def _call(self, function: Callable[[], Any]) -> Any:
        return await self.writer.do(Call(function))

    # ------------------------------------------------------------------ in the thread that learns

    def add(self, name: str, model: ServedModel) -> Entry:
        """Add a model before the threads start, or in the thread that learns."""
        if not NAME.fullmatch(name):
            raise Problem(422, "bad-name", f"{name[:80]!r}: {NAME_RULE}")
        if name.lower() in {other.lower() for other in self.entries}:
            raise Problem(409, "name-taken", f'there is a model "{name}" already; delete it first')
        if len(self.entries) >= self.settings.max_models:
            raise Problem(409, "too-many-models", f"there are {len(self.entries)} models; delete one first")
        try:
            model.save(self._path(name))
        except OSError as error:
            raise Problem(507, "disk-full", f"the model cannot be written: {error.strerror}") from error
        self.entries[name] = entry = open_entry(name, model, self.log, self.settings.waiting)
        return entry

    def _delete(self, entry: Entry) -> None:
        with self.log.transaction():
            self.log.forget(entry.model.uid)
        entry.deleted = True
        del self.entries[entry.name]
        try:
            self._path(entry.name).unlink(missing_ok=True)
        except OSError as error:
            logger.warning("the file of %s is removed at the next start: %s", entry.name, error)

    def _snapshot(self, entry: Entry) -> None:
        self._models.mkdir(exist_ok=True)  # it may have been removed
        entry.model.save(self._path(entry.name))
        with self.log.transaction():
            self.log.truncate(
                entry.model.uid, entry.model.record, entry.waiting.oldest, self.settings.keep_log
            )
        self.log.shrink()
        entry.unsaved = 0  # only now: if the log could not be written, this is tried again

    def _path(self, name: str) -> Path:
        return self._models / f"{name}{SUFFIX}"


def open_service(folder: str | os.PathLike[str], settings: Settings | None = None) -> Service:
    """Open the models of a folder, and learn what the log has since their snapshots.

    Parameters
    ----------
    folder : path
        It is created if it does not exist. One process may serve a folder at a time.
    settings : Settings, optional

    Returns
    -------
    Service

    Raises
    ------
    ValueError
        If another process serves the folder, or a file in it is damaged.
    """
    return Service(Path(folder), settings or Settings())
