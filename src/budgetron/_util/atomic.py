"""Files that are written atomically: complete, or not at all."""

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

TEMPORARY = ".budgetron-{}.tmp"


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` on success, and is removed on error."""
    check_target(path)
    target = os.path.realpath(path)  # a symbolic link stays; the file it points to is replaced
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, TEMPORARY.format(secrets.token_hex(8)))
    try:
        # Not by tempfile, whose files only their owner can read.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(temporary, flags, 0o666)
    except OSError as error:
        reason = f"cannot create a file in this folder: {error.strerror}"
        raise type(error)(error.errno, reason, folder) from None
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None:
            # The message names the requested file, not the temporary one.
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
        raise
    if os.name == "posix":  # the new name is on disk only when its folder is
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse a folder, a device or a pipe, which a new file would replace."""
    with suppress(FileNotFoundError):
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "a folder; give the name of a file", os.fspath(path))
        if not stat.S_ISREG(mode):
            reason = "not a regular file, and would be replaced by one; give the name of a file"
            raise OSError(errno.EINVAL, reason, os.fspath(path))


def remove_temporary_files(folder: Path) -> None:
    """Remove temporary files of killed processes; no process may be writing in the folder."""
    for temporary in folder.glob(TEMPORARY.format("*")):
        temporary.unlink(missing_ok=True)
