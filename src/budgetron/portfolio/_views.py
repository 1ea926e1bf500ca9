"""Rows in the forms that experts learn: raw or standardised, scaled, with or without a constant feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    """Rows in each of the forms that experts learn. Without standardised rows, there are raw ones only."""

    raw: Matrix
    standardised: Matrix | None = None

    def rows(self, *, standardised: bool, scales: Floats | None = None) -> Matrix:
        """Return the rows in one form; `scales` multiply the features, unless they are empty."""
        rows: Matrix = self.raw if self.standardised is None or not standardised else self.standardised
        if scales is None or not len(scales):
            return rows
        return rows * scales.astype(rows.dtype)

    def with_constant(self) -> Matrix:
        """Return standardised rows with a first feature that is 1; raw rows if none are standardised."""
        if self.standardised is None:
            return self.raw
        ones = np.ones((len(self.standardised), 1), self.standardised.dtype)
        return np.hstack([ones, self.standardised])
