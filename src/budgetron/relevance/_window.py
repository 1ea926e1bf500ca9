"""The rows and targets of a window, cut into blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from budgetron._util.types import Codes, Floats, Reals
from budgetron.relevance._checks import Settings

__all__ = ["CENTRE_ROWS", "TargetWindow", "Window", "cut"]

# A step uses at most this many values of features, so that wide rows do not make it slow.
MOST_VALUES = 2**19
# Differences from the centre, in units of 1 / sqrt(2 gamma), are clipped to this. At this distance the kernel
# is 0 to rounding, and squares of larger numbers would lose the digits of the small distances.
FAR = 32.0
# Rows whose median is the centre of the features
CENTRE_ROWS = 100


def cut(n: int, d: int, max_rows: int, steps: int) -> tuple[int, int]:
    """Return the number of rows in a block and the number of blocks."""
    most = max(2, min(max_rows, MOST_VALUES // d))
    blocks = min(-(-n // most), steps)
    return min(n // blocks, most), blocks


class Window:
    """The rows and targets of a window, one block at a time.

    Rows are centred and multiplied by sqrt(2 gamma), so that the exponent of the kernel is -||u - u'||^2 / 2.
    """

    def __init__(self, rows: Any, codes: Codes, classes: int, settings: Settings) -> None:
        n, d = rows.shape
        self.rows, self.codes, self.classes = rows, codes, classes
        self.m, self.blocks = cut(n, d, settings.max_rows, settings.steps)
        self.start = n - self.m * self.blocks
        self._check_values()
        self.root = np.sqrt(2.0) * np.sqrt(settings.gamma)  # 2 gamma could overflow
        self.centre = self._centre()
        self.block = np.empty((self.m, d))
        # The classes of the rows that are used; two classes need one target.
        counts = np.bincount(codes[self.start :], minlength=classes)
        self.present = np.flatnonzero((counts > 0) & (counts < counts.sum()))
        self.present = self.present[:1] if len(self.present) == 2 else self.present
        self.share = counts[self.present] / counts.sum()

    def _dense(self, start: int, stop: int, step: int = 1) -> NDArray[Any]:
        part = self.rows[start:stop:step]
        return np.asarray(part.toarray() if issparse(part) else part)

    def _check_values(self) -> None:
        for start in range(0, self.rows.shape[0], self.m):
            part = self._dense(start, start + self.m)
            finite = np.isfinite(part)
            if not finite.all():
                row, feature = np.argwhere(~finite)[0]
                raise ValueError(
                    f"X must be finite, without NaN and infinity; feature {feature} of row {start + row} is "
                    f"{part[row, feature]}. Replace such values or leave out the row"
                )

    def _centre(self) -> Floats:
        """Return the medians of some rows.

        The kernel does not depend on the centre. It keeps rounding errors small, also if there are outliers.
        """
        step = -(-self.rows.shape[0] // min(self.m, CENTRE_ROWS))
        sample = self._dense(0, self.rows.shape[0], step).astype(np.float64)
        sample.sort(axis=0)
        centre: Floats = sample[len(sample) // 2].copy()
        return centre

    def features(self, number: int) -> Floats:
        """Return the features of a block; the next call overwrites them."""
        start = self.start + self.m * number
        with np.errstate(over="ignore"):  # infinite differences are clipped
            np.subtract(self._dense(start, start + self.m), self.centre, out=self.block)
            self.block *= self.root
        np.clip(self.block, -FAR, FAR, out=self.block)
        return self.block

    def targets(self, number: int, dtype: np.dtype[Any]) -> Reals:
        """Return the targets of a block: one column for each class."""
        start = self.start + self.m * number
        codes = self.codes[start : start + self.m]
        Y = np.empty((self.m, len(self.present)), dtype, order="F")
        np.equal(codes[:, None], self.present, out=Y)
        Y -= self.share.astype(dtype)
        Y /= np.sqrt(self.share * (1.0 - self.share)).astype(dtype)
        return Y

    def groups(self, most: int) -> tuple[Codes, int]:
        """Return the number of the scale of each feature, and how many scales there are.

        Constant features have a number of their own after these.
        """
        d = self.rows.shape[1]
        if d <= most:
            return np.arange(d), d
        between, varies = self._between_share()
        ranked = np.argsort(-between, kind="stable")
        ranked = ranked[varies[ranked]]
        count = min(most, len(ranked))
        groups = np.full(d, count)
        groups[ranked] = np.arange(len(ranked)) * count // max(len(ranked), 1)
        return groups, count

    def _between_share(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the share of each feature's variance between classes, and whether it varies at all."""
        d = self.rows.shape[1]
        sums, counts, squares = np.zeros((self.classes, d)), np.zeros(self.classes), np.zeros(d)
        for number in range(self.blocks):
            U = self.features(number)
            start = self.start + self.m * number
            members = (self.codes[start : start + self.m, None] == np.arange(self.classes)).astype(np.float64)
            sums += members.T @ U
            counts += members.sum(axis=0)
            squares += np.einsum("if,if->f", U, U)
        mean = sums.sum(axis=0) / counts.sum()
        total = squares - counts.sum() * mean**2
        within = squares - np.einsum("cf,cf,c->f", sums, sums, 1.0 / np.maximum(counts, 1.0))
        varies = total > 1e-12 * squares
        return np.where(varies, 1.0 - within / np.where(varies, total, 1.0), 0.0), varies


class TargetWindow(Window):
    """A window of a regression: its one target is the standardised number."""

    def __init__(self, rows: Any, numbers: Floats, settings: Settings) -> None:
        super().__init__(rows, np.zeros(len(numbers), np.intp), 1, settings)
        used = numbers[self.start :]
        largest = max(float(np.abs(used).max()), np.finfo(np.float64).tiny)
        centred = used / largest - (used / largest).mean()  # squares of large numbers would overflow
        deviation = float(np.sqrt(np.mean(centred**2)))
        varies = deviation > 1e-12
        self.numbers = centred / deviation if varies else np.zeros(len(used))
        self.present = np.zeros(1 if varies else 0, np.intp)

    def targets(self, number: int, dtype: np.dtype[Any]) -> Reals:
        part = self.numbers[self.m * number : self.m * (number + 1)]
        return np.array(part[:, None], dtype, order="F")  # a copy, because it will be overwritten

    def _between_share(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the squared correlation of each feature with the target, and whether it varies at all."""
        d, n = self.rows.shape[1], self.m * self.blocks
        sums, squares, products = np.zeros(d), np.zeros(d), np.zeros(d)
        for number in range(self.blocks):
            U = self.features(number)
            sums += U.sum(axis=0)
            squares += np.einsum("if,if->f", U, U)
            products += self.numbers[self.m * number : self.m * (number + 1)] @ U
        total = squares - sums**2 / n
        varies = total > 1e-12 * squares
        return np.where(varies, products**2 / (n * np.where(varies, total, 1.0)), 0.0), varies
