"""Cut rows into blocks."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["row_blocks"]


def row_blocks(n_rows: int, block_rows: int) -> Iterator[slice]:
    """Yield slices that cover rows 0 to `n_rows` in order, each of at most `block_rows` rows.

    Only the last block may be shorter.

    Examples
    --------
    >>> list(row_blocks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    if block_rows < 1:
        raise ValueError(f"block_rows must be at least 1; got {block_rows}")
    for start in range(0, n_rows, block_rows):
        yield slice(start, min(start + block_rows, n_rows))
