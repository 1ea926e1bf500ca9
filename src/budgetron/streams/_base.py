"""The base class of streams, and the stream over arrays in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from budgetron._util.blocks import row_blocks
from budgetron._util.sparse import check_sparse
from budgetron.streams._encoder import Encoder
from budgetron.streams._errors import StreamError
from budgetron.streams._running import Running
from budgetron.streams._targets import FIRST_TARGETS, Targets, Task, checked_task, is_quantity

__all__ = ["Block", "LabelArray", "Rows", "Stream", "arrays"]

# Rows are dense float64 or CSR. Labels are integers, booleans, floats or text; objects if some are unknown.
Rows: TypeAlias = "NDArray[np.float64] | csr_matrix"
LabelArray: TypeAlias = NDArray[Any]

# Rows and their labels; the labels are None if the source has none.
Block: TypeAlias = "tuple[Rows, LabelArray | None]"

MAX_CLASSES = 1000


class Stream:
    """Blocks of rows and labels, in order, from any source.

    Iterating over a stream yields ``(X, y)``: `X` is a C-contiguous float64 array of shape (n, `n_features`)
    or a CSR matrix; `y` is an array of n labels or numbers, or None if the source has none. The size of the
    blocks never changes a value. Iterating again starts from the first row, except for a pipe, which can be
    read only once.

    Attributes
    ----------
    name : str
        The name of the source, for messages and reports.
    n_rows : int or None
        Number of rows; None if it is not known before the end.
    n_features : int
    task : {"classification", "regression"}
        Whether the targets are classes or numbers.
    classes : ndarray or None
        The sorted labels; None if the source has no labels, or if the targets are numbers.
    feature_names : list of str or None
    target : str or None
        The name of the target column, if there is one.
    targets : Targets or None
        How the numbers of the target column are written; None if there is no such column.
    encoder : Encoder or None
        The encoder of a table, with its current mean and deviation.
    zero_based : bool
        Whether the indices of a LIBSVM file count from 0.
    position, size : int, int or None
        Bytes read in the current pass, and bytes in total if known. A progress bar needs them when `n_rows`
        is None. Streams that know `n_rows` may leave them at 0 and None.
    """

    name: str
    n_rows: int | None = None
    n_features: int
    task: Task = "classification"
    classes: LabelArray | None = None
    feature_names: list[str] | None = None
    target: str | None = None
    targets: Targets | None = None
    encoder: Encoder | None = None
    zero_based: bool = False
    position: int = 0
    size: int | None = None

    def __iter__(self) -> Iterator[Block]:
        raise NotImplementedError

    def with_unscaled(self) -> Iterator[tuple[Rows, Rows, LabelArray | None]]:
        """Iterate over ``(X, unscaled, y)``, where `unscaled` are the rows before scaling.

        Without scaling, `unscaled` is `X`. This is one pass, like iterating over the stream.
        """
        return ((X, X, y) for X, y in self)

    def count_missing(self) -> tuple[int, dict[str, int]]:
        """Return the number of first rows, and how many of them have no value in each column that is used."""
        return 0, {}

    def __repr__(self) -> str:
        rows = "rows" if self.n_rows is None else f"{self.n_rows} rows"
        classes = "" if self.classes is None else f", {len(self.classes)} classes"
        classes = ", numbers as targets" if self.task == "regression" else classes
        return f"<{type(self).__name__} {self.name}: {rows}, {self.n_features} features{classes}>"


class Arrays(Stream):
    """Blocks of arrays in memory; see `arrays`."""

    def __init__(
        self, X: ArrayLike, y: ArrayLike | None, block: int, scale: bool, name: str, task: str
    ) -> None:
        check_block(block)
        self.name = name
        if scale and issparse(X):
            raise StreamError(
                f"{name}: sparse rows cannot be scaled, because subtracting a mean removes the zeros; "
                "set scale=False, or give dense rows"
            )
        try:
            if issparse(X):
                check_sparse(X)
            # Blocks are converted to float64 one by one, so that a large float32 array is not copied whole.
            self._X = check_array(X, accept_sparse="csr", dtype="numeric", ensure_min_features=1)
            self._y = None if y is None else column_or_1d(y)
            check_consistent_length(self._X, self._y)
            if self._y is not None:
                if self._y.dtype.kind == "f" and not np.isfinite(self._y).all():
                    raise ValueError("a label is NaN or infinite; every row needs a label")
                if task == "auto":
                    known = self._y.dtype.kind in "fiu"
                    task = (
                        "regression" if known and is_quantity(self._y[:FIRST_TARGETS]) else "classification"
                    )
                self.task = checked_task(task)
                if task == "regression":
                    self._y = self._y.astype(np.float64)
                else:
                    self.classes = np.unique(self._y)
                    check_classes(len(self.classes))
        except (ValueError, TypeError) as error:
            raise StreamError(f"{name}: {error}") from error
        self.n_rows, self.n_features = self._X.shape
        self._block, self._scale = block, scale

    def __iter__(self) -> Iterator[Block]:
        return ((X, y) for X, _, y in self.with_unscaled())

    def with_unscaled(self) -> Iterator[tuple[Rows, Rows, LabelArray | None]]:
        running = Running(self.n_features) if self._scale else None
        for rows in row_blocks(len(self), self._block):
            X = self._X[rows]
            X = csr_matrix(X, dtype=np.float64) if issparse(X) else np.ascontiguousarray(X, np.float64)
            y = None if self._y is None else self._y[rows]
            yield X if running is None else running.standardise(X), X, y

    def __len__(self) -> int:
        return int(self._X.shape[0])


def arrays(
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    block: int = 4096,
    scale: bool = False,
    name: str = "arrays",
    task: str = "classification",
) -> Stream:
    """Stream arrays in memory.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Sparse rows stay sparse (CSR).
    y : array-like of shape (n,), optional
        Labels.
    block : int, default=4096
        The largest number of rows in a block.
    scale : bool, default=False
        Standardise by the running mean and standard deviation, as `Encoder` does. Not for sparse rows.
    name : str, default="arrays"
        The name in messages and reports.
    task : {"classification", "regression", "auto"}, default="classification"
        Whether `y` has labels or numbers; see `read`.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import streams
    >>> stream = streams.arrays(np.eye(5), [0, 1, 0, 1, 1], block=2)
    >>> [X.shape for X, y in stream], stream.classes
    ([(2, 5), (2, 5), (1, 5)], array([0, 1]))
    """
    return Arrays(X, y, block, scale, name, task)


def check_block(block: int) -> None:
    """Raise `ValueError` unless this is a valid number of rows."""
    if int(block) != block or block < 1:
        raise ValueError(f"block must be an integer of at least 1; got {block}")


def check_classes(count: int) -> None:
    """Raise `ValueError` unless a classifier can learn this number of classes."""
    if count < 2:
        raise ValueError(f"{count} class found; at least two are needed")
    if count > MAX_CLASSES:
        raise ValueError(
            f"more than {MAX_CLASSES} different labels: this looks like a quantity, not a class; "
            'use the task "regression", choose another column, or bin it into classes'
        )
