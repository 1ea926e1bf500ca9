"""LIBSVM files: lines with a label and `index:value` pairs, read as sparse rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from budgetron._util import libsvm
from budgetron._util.blocks import row_blocks
from budgetron._util.units import format_bytes
from budgetron.streams._ahead import parsed
from budgetron.streams._base import MAX_CLASSES, Block, LabelArray, Rows, Stream, check_block, check_classes
from budgetron.streams._bytes import Chunk, Opened, Source, records
from budgetron.streams._errors import Advice, Fault, StreamError
from budgetron.streams._labels import Labels
from budgetron.streams._targets import FIRST_TARGETS, Targets, checked_task, is_quantity

__all__ = ["LINE", "Libsvm"]

# More features than this must be requested: one vector of weights takes 128 MB.
MAX_FEATURES = 1 << 24

# A line of a LIBSVM file; distinguishes it from CSV.
LINE = re.compile(rb"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(\s+qid:\d+)?(\s+\d+:[^\s:,]+)+\s*(#.*)?$")


class Libsvm(Stream):
    """A LIBSVM file as a stream of CSR blocks; see `read`."""

    def __init__(
        self,
        source: Source,
        *,
        n_features: int | None,
        classes: Iterable[object] | None,
        zero_based: bool,
        constant: bool,
        optional_labels: bool,
        block: int,
        limit: int | None,
        task: str,
    ) -> None:
        check_block(block)
        self._limit = limit
        if n_features is not None and (int(n_features) != n_features or not 1 <= n_features <= 2**31):
            raise ValueError(f"n_features must be an integer from 1 to 2147483648; got {n_features}")
        self.name, self.size = source.name, source.size
        self._source, self._block = source, int(block)
        self.zero_based, self._constant = bool(zero_based), bool(constant)
        self._width = None if n_features is None else int(n_features)
        self._pipe: tuple[Opened, Iterator[Chunk]] | None = None
        if not source.again:
            opened = source.open()
            chunks = opened.chunks()
            first = list(islice(chunks, 1))
            self._pipe = opened, chain(first, chunks)
        if task == "auto":
            task = "classification"
            if classes is None:
                head = iter(first) if not source.again else self._chunks()
                task = "regression" if self._has_quantities(head) else "classification"
        self.task = checked_task(task)
        # Classes and width that are not given are found by reading a file once, or a pipe's first chunk.
        if source.again:
            given = n_features is not None and (classes is not None or task == "regression")
            found, width, rows = self._scan(self._chunks(), only_first=given)
            self.n_rows = None if given else rows
        else:
            found, width, rows = self._scan(iter(first), only_first=True)
        if rows == 0:
            raise StreamError(f"{self.name}: no rows; the file is empty")
        self._width = self._width or width
        self._labels: Labels | None = None
        if self.task == "classification":
            try:
                self._labels = Labels(found if classes is None else classes, optional=optional_labels)
            except ValueError as error:
                raise StreamError(f"{self.name}: {error}") from error
            self.classes = self._labels.classes
        self.n_features = self._width + self._constant
        self.n_rows = self.n_rows if limit is None or self.n_rows is None else min(limit, self.n_rows)

    def __iter__(self) -> Iterator[Block]:
        remaining = self._limit
        parse = partial(self._parse, constant=self._constant)
        # A pipe may be slow: its rows are returned without waiting for the next ones.
        with closing(parsed(parse, self._chunks(), ahead=self._source.again)) as pieces:
            for chunk, labelled in pieces:
                X, labels = labelled()
                if remaining is not None:
                    X, labels = X[:remaining], labels[:remaining]
                    remaining -= len(labels)
                try:
                    y = self._targets(labels)
                except Fault as fault:
                    raise fault.at(f"{self.name}:{_rows(chunk)[fault.row][0]}") from None
                if X.shape[0] <= self._block:
                    yield X, y
                else:
                    for rows in row_blocks(X.shape[0], self._block):
                        yield X[rows], y[rows]
                if remaining == 0:
                    break

    def _targets(self, labels: NDArray[np.float64]) -> LabelArray:
        """Return the classes, or the numbers, of the labels of some lines."""
        values, codes = np.unique(labels, return_inverse=True)
        if self._labels is None:
            return Targets(missing=frozenset()).lookup(codes, values.tolist())
        return self._labels.lookup(codes, [int(v) if v == int(v) else v for v in values.tolist()])

    def _has_quantities(self, chunks: Iterator[Chunk]) -> bool:
        """Return whether the labels of the first lines are a quantity, and not classes."""
        labels: list[float] = []
        for chunk in chunks:
            labels += self._parse(chunk)[1].tolist()
            if len(labels) >= FIRST_TARGETS:
                break
        return is_quantity(labels[:FIRST_TARGETS])

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
        """Return the labels, the number of features and the number of rows."""
        found: set[float] = set()
        width, rows = 1, 0
        with closing(parsed(self._survey, chunks, ahead=not only_first)) as pieces:
            for chunk, surveyed in pieces:
                labels, last, n_rows = surveyed()
                found.update(labels if self.task == "classification" else ())
                if len(found) > MAX_CLASSES:
                    try:
                        check_classes(len(found))
                    except ValueError as error:
                        raise StreamError(f"{self.name}: {error}") from None
                if self._width is None and last + self.zero_based > MAX_FEATURES:
                    raise self._too_wide(chunk, self._parse(chunk)[0])
                width, rows = max(width, last + self.zero_based), rows + n_rows
                if only_first and rows:
                    break
        return sorted(found), width, rows

    def _survey(self, chunk: Chunk) -> tuple[list[float], int, int]:
        """Return the labels, the highest index as it is written, and the number of rows.

        Only the first and the last field of each line are read. Rows are checked when they are parsed.
        """
        found = libsvm.survey(chunk.data)
        if found is None:  # a comment, or a line that is not valid
            X, labels = self._parse(chunk)
            return np.unique(labels).tolist(), X.shape[1] - self.zero_based, len(labels)
        return found

    def _parse(self, chunk: Chunk, constant: bool = False) -> tuple[Rows, NDArray[np.float64]]:
        known = -1 if self._width is None else self._width
        parsed = libsvm.parse(chunk.data, self.zero_based, known, constant)
        if parsed is None:
            raise self._explain(chunk)
        labels, ends, indices, values = parsed
        width = max(1, int(indices.max(initial=-1)) + 1) if known < 0 else known + constant
        ends = ends.astype(np.int32) if len(values) < 2**31 else ends
        return csr_matrix((values, indices, ends), shape=(len(labels), width)), labels

    def _too_wide(self, chunk: Chunk, X: csr_matrix) -> StreamError:
        """Return the error for a chunk with a very high index, which is often a mistake in the file."""
        place = int(X.indices.argmax())
        row = int(np.searchsorted(X.indptr, place, side="right")) - 1
        index = int(X.indices[place]) + (not self.zero_based)
        problem = f"index {index} is very high: one vector of weights takes {format_bytes(8 * X.shape[1])}"
        return Fault(row, problem, Advice.CONFIRM_FEATURES).at(f"{self.name}:{_rows(chunk)[row][0]}")

    def _explain(self, chunk: Chunk) -> StreamError:
        """Return the error for a chunk that cannot be parsed."""
        for number, line in _rows(chunk):
            try:
                self._check_line(line.split(b"#")[0].decode("latin-1").split())
            except Fault as fault:
                return fault.at(f"{self.name}:{number}")
        return StreamError(f"{self.name}:{chunk.line}: not LIBSVM after this line", Advice.LIBSVM_LINE)

    def _check_line(self, fields: list[str]) -> None:
        """Raise a `Fault` if the line is not valid."""
        if not math.isfinite(_float(fields[0])):
            raise Fault(0, f"label {fields[0]!r} is not a number", Advice.LIBSVM_LINE)
        last = -1 if self.zero_based else 0
        for field in fields[1:]:
            index, colon, value = field.partition(":")
            if index == "qid":
                continue
            if not colon or not index.isdigit() or not math.isfinite(_float(value)):
                raise Fault(0, f"{field!r} is not `index:value` with a finite number")
            if len(index.lstrip("0")) > 10 or int(index) >= 2**31:
                raise Fault(0, f"index {index} is too large; indices must be below 2147483648")
            if int(index) <= last:
                if int(index) == 0:
                    raise Fault(0, "index 0, but indices count from 1", Advice.ZERO_BASED)
                raise Fault(0, f"index {index} comes after {last}; indices must ascend")
            last = int(index)
            highest = None if self._width is None else self._width - self.zero_based
            if highest is not None and last > highest:
                raise Fault(0, f"index {index} is above {highest}, the highest expected", Advice.SET_FEATURES)


def _rows(chunk: Chunk) -> list[tuple[int, bytes]]:
    """Return the lines that are rows, with their line numbers."""
    return [(number, line) for number, line in records(chunk) if line.split(b"#")[0].strip()]


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
