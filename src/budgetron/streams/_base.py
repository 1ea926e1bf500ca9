"""What a stream is; and the plainest one, over arrays in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from budgetron.streams._encoder import Running

__all__ = ["Block", "Stream", "StreamError", "arrays"]

# Rows, dense or CSR, and their labels (None if the source has none).
Block: TypeAlias = tuple[Any, "NDArray[Any] | None"]

MOST_CLASSES = 1000


class StreamError(ValueError):
    """A source that cannot be read on: the message says where, what is wrong, and what would be right."""


class Stream:
    """Blocks of rows and labels, in order, from anywhere.

    Iterating it yields ``(X, y)``: `X` a C-contiguous float64 array of shape (n, `n_features`) or a
    CSR matrix, `y` an array of n labels, or None if the source has no labels. A block has at most
    `block` rows; how the rows are cut into blocks never changes a value. Iterating again starts
    again, except for a pipe, which can be read only once.

    Attributes
    ----------
    name : str
        What is read, for messages and reports.
    n_rows : int or None
        Number of rows, None if that is not known before the end.
    n_features : int
    classes : ndarray or None
        The sorted labels; None if the source has no labels.
    feature_names : list of str or None
    position, size : int, int or None
        Bytes read in the present pass, and bytes in all as far as known: what a progress bar needs
        when `n_rows` is None. Sources that know `n_rows` may leave them at 0 and None.
    """

    name: str
    n_rows: int | None = None
    n_features: int
    classes: NDArray[Any] | None = None
    feature_names: list[str] | None = None
    position: int = 0
    size: int | None = None

    def __iter__(self) -> Iterator[Block]:
        raise NotImplementedError

    def __repr__(self) -> str:
        rows = "rows" if self.n_rows is None else f"{self.n_rows} rows"
        classes = "" if self.classes is None else f", {len(self.classes)} classes"
        return f"<{type(self).__name__} {self.name}: {rows}, {self.n_features} features{classes}>"


class Arrays(Stream):
    """Blocks of arrays in memory; see `arrays`."""

    def __init__(self, X: Any, y: Any, block: int, scale: bool, name: str) -> None:
        check_block(block)
        self.name = name
        if scale and issparse(X):
            raise StreamError(
                f"{name}: sparse rows cannot be scaled, for subtracting a mean fills every zero; "
                "give scale=False, or dense rows"
            )
        try:
            # Blocks become float64 one by one, so that a large float32 array is not copied whole.
            self._X = check_array(X, accept_sparse="csr", dtype="numeric", ensure_min_features=1)
            self._y = None if y is None else column_or_1d(y)
            check_consistent_length(self._X, self._y)
            if self._y is not None:
                if self._y.dtype.kind == "f" and not np.isfinite(self._y).all():
                    raise ValueError("a label is NaN or infinite; every row needs one")
                self.classes = np.unique(self._y)
                check_classes(len(self.classes))
        except (ValueError, TypeError) as error:
            raise StreamError(f"{name}: {error}") from error
        self.n_rows, self.n_features = self._X.shape
        self._block, self._scale = block, scale

    def __iter__(self) -> Iterator[Block]:
        running = Running(self.n_features) if self._scale else None
        for start in range(0, len(self), self._block):
            X = self._X[start : start + self._block]
            if issparse(X):
                X = csr_matrix(X, dtype=np.float64)
            else:
                X = np.ascontiguousarray(X, np.float64)
                X = X if running is None else running.standardise(X)
            yield X, None if self._y is None else self._y[start : start + self._block]

    def __len__(self) -> int:
        assert self.n_rows is not None
        return self.n_rows


def arrays(X: Any, y: Any = None, *, block: int = 4096, scale: bool = False, name: str = "arrays") -> Stream:
    """Stream arrays in memory.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Sparse rows stay sparse (CSR).
    y : array-like of shape (n,), optional
        Labels.
    block : int, default=4096
        The most rows a block may have.
    scale : bool, default=False
        Standardise by the running mean and standard deviation, as `Encoder` does. Not for sparse rows.
    name : str, default="arrays"
        For messages and reports.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import streams
    >>> stream = streams.arrays(np.eye(5), [0, 1, 0, 1, 1], block=2)
    >>> [X.shape for X, y in stream], stream.classes
    ([(2, 5), (2, 5), (1, 5)], array([0, 1]))
    """
    return Arrays(X, y, block, scale, name)


def check_block(block: int) -> None:
    if int(block) != block or block < 1:
        raise ValueError(f"block must be a whole number of at least 1; got {block}")


def check_classes(found: int) -> None:
    if found < 2:
        raise ValueError(f"{found} class found; at least two are needed to learn anything")
    if found > MOST_CLASSES:
        raise ValueError(
            f"more than {MOST_CLASSES} different labels: looks like a quantity, not a class; "
            "choose another column, or cut it into classes"
        )
