"""All hypotheses of a run at once, from the journal of its updates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

__all__ = ["Hypotheses", "blocks"]

# Margins of all hypotheses at many points: this many at a time.
MARGINS_AT_ONCE = 1 << 21

# Changes are multiplied as a sparse matrix unless this share of them is not 0.
DENSE_SHARE = 0.1


class Hypotheses:
    """The hypotheses that a learner with a journal has had, in their order.

    Neighbours differ by the changes of one update, so that the margins of all of them at a
    point are one running sum: the cost follows the number of updates.
    """

    def __init__(self, learner: Any) -> None:
        self._learner, journal = learner, learner.journal
        self.rounds = journal.rounds[: journal.n]  # after which each was made; -1 for the first
        self._scales = journal.scales[: journal.n]
        self._factor_rounds = journal.factor_rounds[: journal.steps]
        self._factors = journal.factors[: journal.steps]
        ends = np.concatenate([[0], journal.ends[: journal.n]])
        columns = learner.columns(journal.places[: ends[-1]])
        width = int(columns.max(initial=-1)) + 1
        self._changes = csr_array((journal.deltas[: ends[-1]], columns, ends), shape=(journal.n, width))
        if self._changes.nnz > DENSE_SHARE * journal.n * width:
            self._changes = self._changes.toarray()

    def __len__(self) -> int:
        return len(self.rounds)

    def _features(self, X: Any) -> Any:
        return self._learner.basis(X)[:, : self._changes.shape[1]]

    def _factor(self, births: Any) -> Any:
        return self._factors[np.searchsorted(self._factor_rounds, births) - 1]

    def _which(self, births: Any) -> Any:
        return np.searchsorted(self.rounds, births) - 1

    def margins(self, X: Any, births: NDArray[np.int64]) -> NDArray[np.float64]:
        """Margins at each row of X of the hypotheses that predicted the rounds `births`, a row each."""
        values = (self._features(X) @ self._changes.T).T  # in this order dense if either is
        margins = np.ascontiguousarray(values.toarray() if issparse(values) else values)
        start = 0
        for cut in [*np.flatnonzero(self._scales != 1.0), len(self)]:
            if start > 0:
                margins[start] += self._scales[start] * margins[start - 1]
            np.cumsum(margins[start:cut], axis=0, out=margins[start:cut])
            start = cut
        which = self._which(births)
        if not np.array_equal(which, np.arange(len(self))):
            margins = margins[which]
        margins *= self._factor(births)[:, None]
        return margins

    def decide(self, birth: int, X: Any) -> NDArray[np.float64]:
        """f(x) for each row of X, of the hypothesis that predicted this round."""
        which = int(self._which(birth))
        scales = np.cumprod(np.append(1.0, self._scales[which:0:-1]))[
            ::-1
        ]  # later ones act on earlier changes
        weights = self._changes[: which + 1].T @ scales
        return np.asarray(self._factor(birth) * (self._features(X) @ weights))


def blocks(hypotheses: int, rows: int) -> Iterator[slice]:
    """The rows in pieces for which the margins of all hypotheses fit in memory."""
    step = max(1, MARGINS_AT_ONCE // max(1, hypotheses))
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))
