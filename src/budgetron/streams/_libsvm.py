"""LIBSVM files: a label and `index:value` pairs a line, as sparse rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.datasets import load_svmlight_file

from budgetron.streams._base import MOST_CLASSES, Block, Stream, StreamError, check_block, check_classes
from budgetron.streams._bytes import Chunk, Opened, Source, records
from budgetron.streams._encoder import Fault
from budgetron.streams._labels import Labels

__all__ = ["LINE", "Libsvm"]

#: A line of LIBSVM: what tells it from CSV.
LINE = re.compile(rb"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(\s+qid:\d+)?(\s+\d+:[^\s:,]+)+\s*(#.*)?$")


class Libsvm(Stream):
    """A LIBSVM file as a stream of CSR blocks; see `read`."""

    def __init__(
        self,
        source: Source,
        *,
        n_features: int | None,
        classes: Iterable[Any] | None,
        zero_based: bool,
        constant: bool,
        optional_labels: bool,
        block: int,
        limit: int | None,
    ) -> None:
        check_block(block)
        self._limit = limit
        if n_features is not None and (int(n_features) != n_features or n_features < 1):
            raise ValueError(f"n_features must be a whole number of at least 1; got {n_features}")
        self.name, self.size = source.name, source.size
        self._source, self._block = source, int(block)
        self.zero_based, self._constant = bool(zero_based), bool(constant)
        self._width = None if n_features is None else int(n_features)
        self._pipe: tuple[Opened, Iterator[Chunk]] | None = None
        # A file is read through once for what is not known; of a pipe there is only the first chunk.
        if source.again:
            known = n_features is not None and classes is not None
            found, width, rows = self._scan(self._chunks(), only_first=known)
            self.n_rows = None if known else rows
        else:
            opened = source.open()
            chunks = opened.chunks()
            first = list(islice(chunks, 1))
            self._pipe = opened, chain(first, chunks)
            found, width, rows = self._scan(iter(first), only_first=True)
        if rows == 0:
            raise StreamError(f"{self.name}: no rows; an empty file has nothing to learn from")
        self._width = self._width or width
        try:
            self._labels = Labels(found if classes is None else classes, optional=optional_labels)
        except ValueError as error:
            raise StreamError(f"{self.name}: {error}") from error
        self.classes = self._labels.classes
        self.n_features = self._width + self._constant
        self.n_rows = self.n_rows if limit is None or self.n_rows is None else min(limit, self.n_rows)

    def __iter__(self) -> Iterator[Block]:
        left = self._limit
        for chunk in self._chunks():
            X, labels = self._parse(chunk)
            if left is not None:
                X, labels = X[:left], labels[:left]
                left -= len(labels)
            values, codes = np.unique(labels, return_inverse=True)
            try:
                y = self._labels.lookup(codes, [int(v) if v == int(v) else v for v in values.tolist()])
            except Fault as fault:
                raise StreamError(f"{self.name}:{_rows(chunk)[fault.row][0]}: {fault}") from None
            if self._constant:
                X = hstack([X, np.ones((X.shape[0], 1))], format="csr")
            for start in range(0, X.shape[0], self._block):
                rows = slice(start, start + self._block)
                yield X[rows], y[rows]
            if left == 0:
                break

    def _chunks(self) -> Iterator[Chunk]:
        if self._pipe is None:
            opened = self._source.open()
            chunks = opened.chunks()
        else:
            opened, chunks = self._pipe
            self._pipe = None
        try:
            for chunk in chunks:
                self.position = opened.position
                yield chunk
        finally:
            opened.close()

    def _scan(self, chunks: Iterator[Chunk], only_first: bool) -> tuple[list[float], int, int]:
        """Labels, width and rows."""
        found: set[float] = set()
        width, rows = 1, 0
        for chunk in chunks:
            X, labels = self._parse(chunk)
            found.update(np.unique(labels).tolist())
            if len(found) > MOST_CLASSES:
                try:
                    check_classes(len(found))
                except ValueError as error:
                    raise StreamError(f"{self.name}: {error}") from None
            width, rows = max(width, X.shape[1]), rows + X.shape[0]
            if only_first and rows:
                break
        return sorted(found), width, rows

    def _parse(self, chunk: Chunk) -> tuple[Any, NDArray[np.float64]]:
        try:
            X, labels = load_svmlight_file(
                BytesIO(chunk.data), n_features=self._width, zero_based=self.zero_based
            )
            if not np.isfinite(X.data).all() or not np.isfinite(labels).all():
                raise ValueError("not finite")
        except (ValueError, OverflowError) as error:
            raise StreamError(self._explain(chunk)) from error
        return csr_matrix(X, dtype=np.float64), labels

    def _explain(self, chunk: Chunk) -> str:
        for number, line in _rows(chunk):
            if reason := self._reason(line.split(b"#")[0].decode("latin-1").split()):
                return f"{self.name}:{number}: {reason}"
        return f"{self.name}:{chunk.line}: not LIBSVM after this line; a line is `label index:value ...`"

    def _reason(self, fields: list[str]) -> str | None:
        """What is wrong with a line, None if nothing is."""
        if not math.isfinite(_float(fields[0])):
            return f"label {fields[0]!r} is not a number; a line is `label index:value ...`"
        last = -1 if self.zero_based else 0
        for field in fields[1:]:
            index, colon, value = field.partition(":")
            if index == "qid":
                continue
            if not colon or not index.isdigit() or not math.isfinite(_float(value)):
                return f"{field!r} is not `index:value` with a finite number"
            if int(index) <= last:
                if int(index) == 0:
                    return "index 0; indices count from 1, unless zero_based is set"
                return f"index {index} comes after {last}; indices must ascend"
            last = int(index)
            if last >= 2**31:
                return f"index {index} is too large; indices must be below 2147483648"
            highest = None if self._width is None else self._width - self.zero_based
            if highest is not None and last > highest:
                return (
                    f"index {index} is above {highest}, the highest so far or by n_features; give n_features"
                )
        return None


def _rows(chunk: Chunk) -> list[tuple[int, bytes]]:
    """The lines that are rows, with their numbers."""
    return [(number, line) for number, line in records(chunk) if line.split(b"#")[0].strip()]


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
