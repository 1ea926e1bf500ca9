"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = ["atomic_write", "check_target", "remove_temporary_files"]

DRAFT = ".budgetron-{}.tmp"


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` if all goes well, and is gone if it does not."""
    check_target(path)
    target = os.path.realpath(path)  # through a link, not instead of it
    folder = os.path.dirname(target)
    draft = os.path.join(folder, DRAFT.format(secrets.token_hex(8)))
    try:
        # Not by tempfile, whose files nobody else may read.
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        reason = f"no file can be made in this folder: {error.strerror}"
        raise type(error)(error.errno, reason, folder) from None
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(draft)
        if isinstance(error, OSError) and error.errno is not None:
            # about the file that was asked for, not about the draft
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
        raise
    if os.name == "posix":  # the new name is on disk only when its folder is
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse a folder, a device or a pipe: a new file would take its place."""
    with suppress(FileNotFoundError):
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "a folder; give the name of a file", os.fspath(path))
        if not stat.S_ISREG(mode):
            reason = "not a file, and would be replaced by one; give the name of a file"
            raise OSError(errno.EINVAL, reason, os.fspath(path))


def remove_temporary_files(folder: Path) -> None:
    """Remove what was left by processes that were killed; none may be writing there now."""
    for draft in folder.glob(DRAFT.format("*")):
        draft.unlink(missing_ok=True)
