"""A linear function of random Fourier features, and the rounds that it plays.

For a frequency u with independent normal coordinates of mean 0 and variance 2 gamma, the mean of
cos(u . (x - x')) is the "rbf" kernel exp(-gamma ||x - x'||^2). The features of a row are cos(u . x) and
sin(u . x) for D frequencies, divided by sqrt(D): their inner product is the mean of these cosines, and their
norm is 1.

The frequencies of a feature are drawn when the feature appears, one feature after the other, so that features
that are added later get the frequencies that they would have had from the start.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from math import isfinite, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from budgetron._core.linear import LinearRule
from budgetron._core.rows import one_row, sparse_row
from budgetron._util.checks import State
from budgetron._util.types import Floats, Ints, Matrix, Row

__all__ = ["FourierHypothesis", "fourier_features"]

# The features of a block should stay in the cache, but short blocks make matrix products slow.
BLOCK_BYTES, SHORTEST_BLOCK, LONGEST_BLOCK = 1 << 20, 16, 512


def fourier_features(X: Matrix, frequencies: NDArray[Any]) -> NDArray[Any]:
    """Return the features of rows: the cosines and then the sines, divided by the root of their number."""
    with np.errstate(over="ignore", invalid="ignore"):
        angles = np.asarray(X @ frequencies)
    if not np.isfinite(angles).all():
        raise ValueError("the product of a row and a random frequency is not finite; scale the features")
    n, components = angles.shape
    features = np.empty((n, 2 * components), frequencies.dtype)
    np.cos(angles, out=features[:, :components])
    np.sin(angles, out=features[:, components:])
    features *= 1.0 / sqrt(components)
    return features


class FourierHypothesis:
    """One hypothesis over rows of d features: a linear rule over their Fourier features.

    Parameters
    ----------
    rule : LinearRule
        A rule over two features for each frequency.
    gamma : float
    d : int
        Number of features of the rows.
    generator : numpy.random.Generator
        Draws the frequencies.
    """

    def __init__(self, rule: LinearRule, gamma: float, d: int, generator: np.random.Generator) -> None:
        self.rule, self.gamma, self.generator = rule, gamma, generator
        self.frequencies = np.zeros((0, rule.n_features // 2), rule.dtype)
        self.add_features(d)

    def add_features(self, d: int) -> None:
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
        old, components = self.frequencies.shape
        drawn = sqrt(2.0 * self.gamma) * self.generator.standard_normal((d - old, components))
        with np.errstate(over="ignore"):
            # The array is never written to, so that copies share it.
            self.frequencies = np.vstack([self.frequencies, drawn.astype(self.dtype)])

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        twin = copy.copy(self)
        twin.rule, twin.generator = copy.deepcopy(self.rule, memo), copy.deepcopy(self.generator, memo)
        return twin

    # ------------------------------------------------------------------ properties

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the rows."""
        return self.rule.dtype

    @property
    def n_features(self) -> int:
        """Number of features of the rows."""
        return len(self.frequencies)

    @property
    def n_outputs(self) -> int:
        """Number of functions that the hypothesis consists of."""
        return self.rule.n_outputs

    @property
    def rounds(self) -> int:
        """Rounds played."""
        return self.rule.rounds

    @property
    def mistakes(self) -> int:
        """Rounds that were mistakes."""
        return self.rule.mistakes

    @property
    def n_supports(self) -> int:
        """0: no rows are stored."""
        return 0

    @property
    def budget(self) -> int:
        """0: no rows are stored."""
        return 0

    @property
    def ledger(self) -> tuple[str, ...]:
        """Names of the columns that `learn` fills in a ledger."""
        return self.rule.ledger

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that outlive a call."""
        return self.frequencies.nbytes + self.rule.nbytes

    # ------------------------------------------------------------------ rounds

    def learn(
        self,
        X: Matrix,
        y: Floats,
        margins: Floats | None = None,
        sizes: Ints | None = None,
        ledger: Floats | None = None,
        *,
        importances: Floats | None = None,
    ) -> None:
        """Play one round per row, in order, and fill the arrays that are given."""
        for part in self._blocks(X.shape[0]):
            self.rule.learn(
                fourier_features(X[part], self.frequencies),
                y[part],
                None if margins is None else margins[part],
                None if sizes is None else sizes[part],
                None if ledger is None else ledger[part],
                importances=None if importances is None else importances[part],
            )

    def play(self, x: Row, y: float, importance: float = 1.0) -> float | Floats:
        """Play one round; return f(x) before the label was seen. An error leaves f unchanged."""
        margin = self.open_round(x)
        self.close_round(y, importance)
        return margin

    def open_round(self, x: Row) -> float | Floats:
        """Play the first half of a round: check the row and return f(x)."""
        if issparse(x):
            places, values = sparse_row(x, self.n_features)
            values, frequencies = np.asarray(values, self.dtype), self.frequencies[places]
        else:
            places, frequencies = None, self.frequencies
            with np.errstate(over="ignore"):
                values = np.asarray(one_row(x, self.n_features), self.dtype)
        finite = np.isfinite(values)
        if not finite.all():
            k = int(np.flatnonzero(~finite)[0])
            raise ValueError(f"x must be finite; feature {k if places is None else places[k]} is {values[k]}")
        return self.rule.open_round(fourier_features(values[None], frequencies)[0])

    def close_round(self, y: float, importance: float = 1.0) -> None:
        """Play the second half of the round that was opened: learn from the label."""
        self.rule.close_round(y, importance)

    def decide(self, X: Matrix) -> Floats:
        """Return f(x) for each row."""
        parts = [
            self.rule.decide(fourier_features(X[part], self.frequencies)) for part in self._blocks(X.shape[0])
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _blocks(self, n: int) -> Iterator[slice]:
        """Yield the parts of n rows whose features are computed together."""
        bytes_per_row = 2 * self.frequencies.shape[1] * self.dtype.itemsize
        length = min(LONGEST_BLOCK, max(SHORTEST_BLOCK, BLOCK_BYTES // bytes_per_row))
        for start in range(0, n, length):
            yield slice(start, start + length)

    def is_safe(self, square: float) -> bool:
        """Return whether rows of at most this squared norm cannot cause an overflow in `learn`."""
        largest = float(np.abs(self.frequencies).max(initial=0.0)) * sqrt(self.n_features * square)
        return (
            isfinite(largest) and largest < 0.1 * float(np.finfo(self.dtype).max) and self.rule.is_safe(1.0)
        )

    def may_fail(self) -> bool:
        """Return whether closing the round that was opened might fail."""
        return self.rule.may_fail()

    # ------------------------------------------------------------------ state and changes

    def state(self) -> State:
        """Return all that the hypothesis must remember: numbers, arrays, and tables of these."""
        bits = self.generator.bit_generator.state
        return {"frequencies": self.frequencies, "bits": bits, "rule": self.rule.state()}

    def restore_from(self, copy: FourierHypothesis) -> None:
        """Return to the state of a copy that was made earlier; the copy must not be used afterwards."""
        self.__dict__.update(copy.__dict__)

    def set_round_count(self, rounds: int) -> None:
        """Continue as if this many rounds had been played without an update."""
        self.rule.set_round_count(rounds)

    def add_output(self, place: int) -> None:
        """Add a function that is 0 at this place; the one of two classes first becomes one for each."""
        self.rule.add_output(place)

    def truncate(self, budget: int) -> None:
        """Do nothing: no rows are stored."""

    def mirrored(self, generator: np.random.Generator | None = None) -> FourierHypothesis | None:
        """Return -f, the hypothesis that opposite labels would have made, or None if it cannot be known."""
        rule = self.rule.mirrored()
        if rule is None:
            return None
        twin = copy.copy(self)
        twin.rule, twin.generator = rule, copy.deepcopy(self.generator)
        return twin
