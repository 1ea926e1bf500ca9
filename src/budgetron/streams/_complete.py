"""Complete the decision on each column by the first rows: levels, parts of dates, missing values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from budgetron.streams import _times
from budgetron.streams._columns import Category, Column, Columns
from budgetron.streams._running import Floats

__all__ = ["HASHED", "Rule", "only_text"]

MAX_LEVELS = 64

# Features of a hashed column for levels without a feature of their own, and of a column of text
HASHED, WORD_FEATURES = 64, 128
# Features of each column of text if there are no other columns; rows are then sparse.
SPARSE_WORDS = 1 << 18
# With more features than this, the frequent levels of hashed columns get no features of their own.
MAX_FEATURES = 960


def only_text(columns: Sequence[Column]) -> bool:
    """Return whether all columns that are used are text."""
    return {column.kind for column in columns} - {"none"} == {"words"}


@dataclass(frozen=True)
class Rule:
    """How many features columns get; see `Encoder`.

    Attributes
    ----------
    encode : {"auto", "onehot", "hash"}
    hash_columns : int or None
    mark_missing : bool
        Whether missing numbers and dates are marked by a feature.
    """

    encode: str
    hash_columns: int | None
    mark_missing: bool

    def completed(self, decided: Sequence[Column], first: Columns, constant: bool) -> list[Column]:
        """Return the columns with all that decides their features."""
        columns = [c if c.kind == "none" else self._completed(c, first[c.name]) for c in decided]
        if only_text(columns):
            width = self.hash_columns or SPARSE_WORDS
            columns = [replace(c, width=width) if c.kind == "words" else c for c in columns]
        if self.encode == "auto" and self.hash_columns is None:
            room = MAX_FEATURES - constant - sum(column.n_features for column in columns)
            columns = _with_frequent_levels(columns, first, max(0, room))
        return columns

    def _completed(self, column: Column, values: Floats | Category) -> Column:
        """Return a column with what the first rows decide: levels, features of dates, missing values."""
        if isinstance(values, np.ndarray):
            present = values[~np.isnan(values)]
            missing = self.mark_missing and 0 < len(present) < len(values)
            if column.kind == "number":
                return replace(column, missing=missing)
            parts = _times.parts_of(values, column.form)
            origin = float(np.floor(present[0])) if len(present) and "days" in parts else 0.0
            return replace(column, missing=missing, parts=parts, origin=origin)
        codes, levels = values
        gaps = bool((codes < 0).any())
        if column.kind == "words":
            return replace(column, missing=gaps, width=self.hash_columns or WORD_FEATURES)
        present = np.unique(codes)
        count = int((present >= 0).sum())
        if self.encode == "hash" or (self.encode == "auto" and count > MAX_LEVELS):
            many = f"{count:,} levels in the first {len(codes):,} rows"
            width = self.hash_columns or HASHED
            return replace(column, kind="hash", missing=gaps, reason=column.reason or many, width=width)
        found = sorted({levels[code] for code in present if code >= 0})
        return replace(column, kind="onehot", levels=tuple(found), missing=gaps)


def _with_frequent_levels(columns: list[Column], first: Columns, room: int) -> list[Column]:
    """Give the most frequent levels of hashed columns features of their own, at most `room`.

    A level that occurs once is not worth a feature.
    """
    counts: dict[tuple[int, str], int] = {}
    for i, column in enumerate(columns):
        if column.kind == "hash":
            codes, levels = first[column.name]
            present, count = np.unique(codes[codes >= 0], return_counts=True)
            for code, times in zip(present.tolist(), count.tolist(), strict=True):
                counts[i, levels[code]] = counts.get((i, levels[code]), 0) + times
    frequent = sorted((key for key, times in counts.items() if times > 1), key=lambda k: (-counts[k], k))
    own: dict[int, list[str]] = {}
    for i, level in frequent[:room]:
        own.setdefault(i, []).append(level)
    return [replace(c, levels=tuple(sorted(own[i]))) if i in own else c for i, c in enumerate(columns)]
