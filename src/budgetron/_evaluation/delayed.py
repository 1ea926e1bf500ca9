"""Rows that were predicted and wait for their label."""

from __future__ import annotations

from collections import deque
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse, vstack

from budgetron._util.types import Labels, Rows

__all__ = ["DelayedRows", "PackedRows"]


class SparseParts(TypedDict):
    """The arrays of a CSR matrix."""

    data: NDArray[np.floating]
    indices: NDArray[np.integer]
    indptr: NDArray[np.integer]
    features: int


class PackedRows(TypedDict):
    """Waiting rows as arrays, as a model file stores them."""

    rows: NDArray[np.floating] | SparseParts
    labels: Labels


class DelayedRows:
    """A queue of single rows and their labels.

    Parameters
    ----------
    packed : dict, optional
        The rows to start with, from `packed` of another queue.
    """

    def __init__(self, packed: PackedRows | None = None) -> None:
        self._queue: deque[tuple[Rows, Any]] = deque()
        if packed is None:
            return
        rows, labels = packed["rows"], packed["labels"]
        if isinstance(rows, dict):
            parts = (rows["data"], rows["indices"], rows["indptr"])
            rows = csr_matrix(parts, shape=(len(labels), rows["features"]))
        self._queue.extend((rows[t : t + 1], labels[t]) for t in range(len(labels)))

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, row: Rows, label: object) -> None:
        """Add a row of shape (1, n_features)."""
        self._queue.append((row, label))

    def next(self) -> tuple[Rows, Any]:
        """Remove and return the oldest row and its label."""
        return self._queue.popleft()

    def packed(self) -> PackedRows:
        """Return all rows and labels as arrays; there must be at least one."""
        rows, labels = zip(*self._queue, strict=True)
        if not issparse(rows[0]):
            return {"rows": np.vstack(rows), "labels": np.array(labels)}
        joined = vstack(rows, format="csr")
        parts: SparseParts = {
            "data": joined.data,
            "indices": joined.indices,
            "indptr": joined.indptr,
            "features": joined.shape[1],
        }
        return {"rows": parts, "labels": np.array(labels)}
