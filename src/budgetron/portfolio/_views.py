"""Rows in the forms that experts take: raw or standardised, with or without a constant feature."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import issparse

from budgetron._core.scaling import advance, apply
from budgetron._util.types import Floats, Matrix

__all__ = ["Scaler", "Views"]


@dataclass
class Scaler:
    """Running means of the features and sums of their squared deviations."""

    mean: Floats
    spread: Floats
    count: int = 0

    @classmethod
    def for_features(cls, d: int) -> Scaler:
        """Return a scaler that has seen no row of d features yet."""
        return cls(np.zeros(d), np.zeros(d))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.mean.nbytes + self.spread.nbytes

    def advance(self, X: Matrix) -> Matrix:
        """Include the rows one by one; return each row standardised by itself and the rows before it."""
        out = np.empty_like(X)
        self.count = advance(X, self.mean, self.spread, self.count, out)
        return out

    def apply(self, X: Matrix) -> Matrix:
        """Return the rows standardised by the rows so far."""
        out = np.empty_like(X)
        apply(X, self.mean, self.spread, self.count, out)
        return out

    def add_features(self, more: int) -> None:
        """Add features that were 0 in all rows so far."""
        self.mean, self.spread = np.pad(self.mean, (0, more)), np.pad(self.spread, (0, more))


@dataclass
class Views:
    """Rows in each of the forms that experts take. Without standardised rows, there are raw ones only."""

    raw: Matrix
    standardised: Matrix | None = None
    _with_constant: dict[bool, Matrix] = field(default_factory=dict)

    def rows(self, *, standardised: bool, constant: bool) -> Matrix:
        """Return the rows in one form; `constant` adds a first feature that is 1."""
        rows: Matrix = self.standardised if standardised else self.raw
        if not constant or issparse(rows) or self.standardised is None:
            return rows
        if standardised not in self._with_constant:
            ones = np.ones((len(rows), 1), rows.dtype)
            self._with_constant[standardised] = np.hstack([ones, rows])
        return self._with_constant[standardised]
