"""The rows that a command learns: the first rows of a stream, or all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

from budgetron._evaluation.regressor import TargetScale
from budgetron._util.blocks import row_blocks
from budgetron.cli._messages import err
from budgetron.cli._read_ahead import read_ahead
from budgetron.cli._sources import Source
from budgetron.streams import Encoder, Stream

__all__ = ["Block", "LabelArray", "Prefix", "Rows", "State", "open_stream"]

# Rows are dense or CSR. A state is what `files.save` stores: plain values, arrays, and tables of these.
Rows: TypeAlias = Any
LabelArray: TypeAlias = NDArray[Any]
State: TypeAlias = dict[str, Any]


class Block(NamedTuple):
    """Rows and their labels.

    `unscaled` are the same rows before scaling, where they were requested. `encoder` is the state of the
    stream's encoder after these rows; the stream may have read more by the time that they are learned.
    """

    X: Rows
    y: LabelArray
    unscaled: Rows
    encoder: Encoder | None = None

    def part(self, rows: slice) -> Block:
        """Return some of the rows."""
        if rows.indices(len(self.y)) == (0, len(self.y), 1):  # slices of sparse rows are copies
            return self
        return Block(self.X[rows], self.y[rows], self.unscaled[rows], self.encoder)


class Prefix:
    """The first rows of a stream, or all of them; the first block is read at once.

    Parameters
    ----------
    stream : Stream
    rows : int or None
        How many rows; None for all.
    constant : bool
        Whether a column of ones was added; `predict` needs to know it for LIBSVM rows.
    keep : bool
        Whether blocks that were learned are kept in `kept`.
    block_rows : int or None
        The largest number of rows in a block, if blocks of the stream must be cut.
    with_unscaled : bool
        Whether the blocks also have the rows before scaling.

    Attributes
    ----------
    first : Block
        The first block of the stream, not cut.
    classes : ndarray or None
        None if the targets are numbers.
    target_scale : TargetScale or None
        How numbers to predict are scaled for learners that do not scale them themselves.
    encoder : Encoder or None
        The stream's encoder after the last block that was learned.
    kept : list of Block
    """

    def __init__(
        self,
        stream: Stream,
        rows: int | None,
        constant: bool,
        *,
        keep: bool = False,
        block_rows: int | None = None,
        with_unscaled: bool = False,
    ) -> None:
        self.stream, self.name, self.size = stream, stream.name, stream.size
        if stream.classes is None and stream.task == "classification":
            raise ValueError(f"{stream.name}: there are no labels to learn from")
        self.classes: LabelArray | None = stream.classes
        self.target_scale: TargetScale | None = None
        self.n_rows = stream.n_rows if rows is None else min(rows, stream.n_rows or rows)
        self.encoder: Encoder | None = None
        self.kept: list[Block] = []
        self._rows, self._constant, self._keep, self._block_rows = rows, constant, keep, block_rows
        blocks = stream.with_unscaled() if with_unscaled else ((X, X, y) for X, y in stream)
        self._blocks = read_ahead(
            Block(X, y, unscaled, None if stream.encoder is None else stream.encoder.copy())
            for X, unscaled, y in blocks
            if y is not None
        )
        self.first = self._shortened(next(self._blocks), 0)

    @property
    def n_classes(self) -> int:
        """Number of classes; 1 if the targets are numbers."""
        return 1 if self.classes is None else len(self.classes)

    @property
    def position(self) -> int:
        """Bytes read so far."""
        return self.stream.position

    def __iter__(self) -> Iterator[Block]:
        block, seen = self.first, 0
        while True:
            for rows in row_blocks(len(block.y), self._block_rows or max(1, len(block.y))):
                yield block.part(rows)
            seen += len(block.y)
            if self._rows is not None and seen >= self._rows:
                return
            following = next(self._blocks, None)
            if following is None:
                return
            block = self._shortened(following, seen)

    def learned(self, block: Block) -> None:
        """Record that a block was learned."""
        self.encoder = block.encoder
        if self._keep:
            self.kept.append(block)

    def extras(self) -> State:
        """Return what `predict` needs in addition to the model."""
        return {
            "encoder": None if self.encoder is None else self.encoder.state(),
            "target": self.stream.target,
            "constant": self._constant,
            "zero_based": self.stream.zero_based,
        } | ({} if self.stream.task == "classification" else self._number_extras())

    def _number_extras(self) -> State:
        targets = self.stream.targets
        return {
            "targets": None if targets is None else targets.state(),
            "target_scale": None if self.target_scale is None else list(self.target_scale),
        }

    def _shortened(self, block: Block, seen: int) -> Block:
        return block if self._rows is None else block.part(slice(self._rows - seen))


def open_stream(source: str, settings: Source, rows: int | None, scan: bool = True) -> Stream:
    """Open a stream. With `scan`, a file is read once to find its classes, which may take a while."""
    with err.status(f"opening {source}") if err.is_terminal else nullcontext():
        return settings.open(source, rows, scan)
