"""Model files: no pickle, no code, exact, and safe to load from any source.

`save` stores everything that a model has learned: a loaded model continues exactly as the saved one would
have. `load` checks everything that it reads.
"""

# `container` describes the files. A new learner needs no code in this package. Its class is listed in
# `kernelized` or `linear`, its rule is made by its own parameters, and the rule declares and checks its
# state.
#
# Raising the protocol
# --------------------
# The protocol is the version of the file format. A new class needs no new protocol: older versions reject it
# by name. A change of the name, shape or meaning of anything in old files needs a new one:
#
# 1. Keep a small file of the present protocol: tests/data/protocol<N>.budgetron, and its test.
# 2. Raise PROTOCOL in `protocols`, and describe the change there.
# 3. In `upgraded`, bring the tree of older protocols into the new form, one step per protocol.
#
# Old files can always be read. Newer ones are rejected with an error that names the version that wrote them.

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import IO, Any

from budgetron._persistence.container import (
    FORMAT,
    BytesOfModel,
    ModelFileError,
    Path,
    open_file,
    opened_archive,
    write_archive,
)
from budgetron._persistence.pipelines import is_pipeline
from budgetron._persistence.protocols import PROTOCOL, upgraded
from budgetron._persistence.reader import Reader
from budgetron._persistence.registry import is_river_adapter, name_of
from budgetron._persistence.writer import Array, Tree, Writer
from budgetron._util.atomic import atomic_write

__all__ = ["ModelFileError", "from_bytes", "load", "load_extras", "load_with_extras", "save", "to_bytes"]

# What bytes without a file are called in error messages.
BYTES = "<bytes>"


def save(model: object, path: Path, *, extras: dict[str, Tree] | None = None) -> None:
    """Write a model to a file, atomically.

    The model is written to a temporary file next to `path`, which replaces `path` when everything is on disk.
    If `path` exists, the new file has the same mode and, if possible, the same owner and group; otherwise the
    umask decides. Access control lists, extended attributes and hard links of the old file are not kept. If
    `path` is a symbolic link, the file it points to is replaced. A model may contain rows that it learned; to
    protect them, set the mode of the file.

    Parameters
    ----------
    model : estimator
        Any learner of Budgetron, fitted or not; a wrapper of `batch`; a `CalibratedClassifier`, a
        `ConformalClassifier` or a `ConformalRegressor`; an algorithm of `experts`; an `ExpertClassifier` over
        such learners; a classifier of `budgetron.river`; or a `Pipeline` of scikit-learn whose last step is a
        learner, after scalers and encoders of scikit-learn (`StandardScaler`, `MinMaxScaler`, `MaxAbsScaler`,
        `RobustScaler`, `Normalizer`, `OneHotEncoder` and `OrdinalEncoder` without infrequent categories).
        Models with a Python function as kernel or loss, or over learners of other libraries, are rejected,
        because a file contains no code. Use pickle for them.
    path : str or path-like
    extras : dict, optional
        Plain values and numeric or text arrays, also in dicts and lists, to be stored with the model.
        `load_extras` returns them. Dicts and lists may be nested up to 100 levels deep, and integers may have
        up to 2048 bits.

    Raises
    ------
    TypeError
        If a part of the model or of the extras cannot be stored in a file.
    ModelFileError
        If the state of the model is invalid, so that `load` would reject it, or if everything in the model
        and the extras that is not an array takes more than 16 MB.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, os
    >>> import budgetron
    >>> model = budgetron.Forgetron(budget=2).fit([[0.0], [1.0], [2.0]], ["no", "yes", "no"])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.budgetron")
    >>> budgetron.save(model, path)
    >>> budgetron.load(path)
    Forgetron(budget=2)
    """
    head, arrays = _head_and_arrays(model, extras)
    with _as_model_file_error(path, "this model cannot be saved"):
        # Do not write what load would reject. This builds objects over the existing arrays, without copies.
        for part in ("model", "extras"):
            Reader(arrays.__getitem__).value(head[part])
    with atomic_write(path) as file:
        write_archive(file, head, arrays)


def to_bytes(model: object, *, extras: dict[str, Tree] | None = None) -> bytes:
    """Return a model as the bytes of a file that `save` would write.

    Parameters
    ----------
    model : estimator
    extras : dict, optional
        Both as for `save`.

    Returns
    -------
    bytes

    Raises
    ------
    TypeError
        If a part of the model or of the extras cannot be stored in a file.

    Examples
    --------
    >>> import budgetron
    >>> budgetron.files.from_bytes(budgetron.files.to_bytes(budgetron.Stoptron(budget=7)))
    Stoptron(budget=7)
    """
    head, arrays = _head_and_arrays(model, extras)
    file = io.BytesIO()
    write_archive(file, head, arrays)
    return file.getvalue()


def from_bytes(data: bytes) -> Any:
    """Return the model that `to_bytes` was called for, after checking the bytes as `load` checks a file.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        As for `load`.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"data must be bytes; got {type(data).__name__}")
    with _as_model_file_error(BYTES, "not a valid model"):
        (model,) = _read_parts(BytesOfModel(data), len(data), BYTES, "model")
        return model


def _head_and_arrays(model: object, extras: dict[str, Tree] | None) -> tuple[dict[str, Tree], list[Array]]:
    """Return the contents of model.json, without checksums, and the arrays."""
    if name_of(model) is None and not is_river_adapter(model) and not is_pipeline(model):
        raise TypeError(
            f"{type(model).__name__} is not a class of Budgetron, and a file contains no code; "
            "use pickle or joblib for it"
        )
    if extras is not None and not isinstance(extras, dict):
        raise TypeError(f"extras must be a dict; got {type(extras).__name__}")
    arrays: list[Array] = []
    head = {
        "format": FORMAT,
        "protocol": PROTOCOL,
        "version": version("budgetron"),
        # Each part has its own writer, because each is read alone.
        "model": Writer(arrays).tree(model),
        "extras": None if extras is None else Writer(arrays).tree(extras, "the extras"),
    }
    return head, arrays


def load(path: Path) -> Any:
    """Read a model from a file.

    A file cannot run code, and damaged or malicious files are rejected. So files from any source can be
    loaded. `load` does not check that the model is accurate.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    estimator
        It continues exactly where the saved one was: the same rounds give the same bits.

    Raises
    ------
    ModelFileError
        If the file contains no model, is damaged, is in a newer version of the file format, or is not a
        regular file but a device or a pipe.
    """
    (model,) = _read(path, "model")
    return model


def load_extras(path: Path) -> dict[str, Tree] | None:
    """Read the extras that were saved with a model.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    dict or None
        The extras that `save` was given.

    Raises
    ------
    ModelFileError
        As for `load`.

    Examples
    --------
    >>> import tempfile, os
    >>> import budgetron
    >>> path = os.path.join(tempfile.mkdtemp(), "model.budgetron")
    >>> budgetron.save(budgetron.Stoptron(), path, extras={"columns": ["age", "height"]})
    >>> budgetron.files.load_extras(path)
    {'columns': ['age', 'height']}
    """
    extras: dict[str, Tree] | None
    (extras,) = _read(path, "extras")
    return extras


def load_with_extras(path: Path) -> tuple[Any, dict[str, Tree] | None]:
    """Read a model and its extras from the same file, even if another process replaces it at this moment."""
    model, extras = _read(path, "model", "extras")
    return model, extras


@contextmanager
def _as_model_file_error(path: Path, what: str) -> Iterator[None]:
    """Turn every exception into a `ModelFileError`.

    The parsers raise many kinds of exceptions on malicious bytes. All of them mean that the file is invalid.
    """
    try:
        yield
    except (ModelFileError, MemoryError):
        raise
    except Exception as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ModelFileError(f"{os.fspath(path)}: {what}: {reason[:500]}") from error


def _read(path: Path, *parts: str) -> list[Tree]:
    with open_file(path) as file, _as_model_file_error(path, "not a valid model file"):
        return _read_parts(file, os.fstat(file.fileno()).st_size, path, *parts)


def _read_parts(file: IO[bytes], size: int, path: Path, *parts: str) -> list[Tree]:
    """Read parts of a file of this size; `path` is its name in error messages."""
    with opened_archive(file, size, path) as (head, array):
        head = upgraded(head, head["protocol"])
        return [Reader(array).value(head[part]) for part in parts]
