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

__all__ = ["atomic_write", "check_target", "remove_temporary_files", "sync_folder"]

TEMPORARY = ".budgetron-{}.tmp"


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` on success, and is removed on error.

    The new file has the mode, and if possible the owner and group, of the file that it replaces. A file that
    replaces none follows the umask.
    """
    replaced = check_target(path)
    target = os.path.realpath(path)  # a symbolic link stays; the file it points to is replaced
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, TEMPORARY.format(secrets.token_hex(8)))
    try:
        with open(_create(temporary, replaced), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, temporary):
            # The message names the requested file, not the temporary one.
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
        raise
    sync_folder(folder)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Write a folder to disk: a new file or folder in it is on disk only then."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _create(temporary: str, replaced: os.stat_result | None) -> int:
    """Create the temporary file and return its descriptor. It is never more readable than the final file."""
    # Not by tempfile, whose files only their owner can read.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(temporary, flags, 0o666 if replaced is None else 0o600)
    except OSError as error:
        reason = f"cannot create a file in this folder: {error.strerror}"
        raise type(error)(error.errno, reason, os.path.dirname(temporary)) from None
    if replaced is not None and os.name == "posix":
        _copy_access(replaced, descriptor)
    return descriptor


def _copy_access(replaced: os.stat_result, descriptor: int) -> None:
    """Give a new file the owner, group and mode of the one that it will replace, as far as permitted."""
    with suppress(OSError):  # only root may give a file to another user
        os.fchown(descriptor, replaced.st_uid, -1)
    with suppress(OSError):  # only members of a group may give it a file
        os.fchown(descriptor, -1, replaced.st_gid)
    mode = stat.S_IMODE(replaced.st_mode)
    if os.fstat(descriptor).st_gid != replaced.st_gid:
        mode &= ~stat.S_IRWXG  # these rights were meant for another group
    with suppress(OSError):  # some file systems have no modes
        os.fchmod(descriptor, mode)


def check_target(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return the status of the file that would be replaced; refuse a folder, a device or a pipe."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder; give the name of a file", os.fspath(path))
    if not stat.S_ISREG(found.st_mode):
        reason = "not a regular file, and would be replaced by one; give the name of a file"
        raise OSError(errno.EINVAL, reason, os.fspath(path))
    return found


def remove_temporary_files(folder: Path) -> None:
    """Remove temporary files of killed processes; no process may be writing in the folder."""
    for temporary in folder.glob(TEMPORARY.format("*")):
        temporary.unlink(missing_ok=True)
