"""All past hypotheses of a run at once, from the journal of its updates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array, issparse

from budgetron._base.protocol import HypothesisWithHistory
from budgetron._util.blocks import row_blocks
from budgetron._util.types import Codes, Floats, Ints, Matrix

__all__ = ["PastHypotheses", "blocks_for_margins"]

# How many margins, of all hypotheses at several rows, are computed at a time.
MARGINS_AT_ONCE = 1 << 21

# Changes are multiplied as a sparse matrix if at most this share of them is not 0.
DENSE_SHARE = 0.1


class PastHypotheses:
    """The past hypotheses of a learner that keeps a journal, in their order.

    Consecutive hypotheses differ by the changes of one update, so that the margins of all of them at a
    row are one cumulative sum. The cost is proportional to the number of updates. If the learner has several
    outputs, these are the past functions of one of them.
    """

    def __init__(self, hypothesis: HypothesisWithHistory, output: int = 0) -> None:
        journal = hypothesis.journal
        assert journal is not None
        self._hypothesis = hypothesis
        # The round after which each hypothesis was made; -1 for the first
        self.rounds: Ints = journal.rounds[: journal.n]
        self._scales = journal.scales[: journal.n]
        self._factor_rounds = journal.factor_rounds[: journal.steps]
        self._factors = journal.factors[: journal.steps]
        ends = np.concatenate([[0], journal.ends[: journal.n]])
        columns = hypothesis.columns(journal.places[: ends[-1]])
        width = int(columns.max(initial=-1)) + 1
        self._changes: Matrix = csr_array(
            (journal.deltas[: ends[-1]], columns, ends), shape=(journal.n, width)
        )
        if hypothesis.n_outputs > 1:  # the places of the outputs alternate
            self._changes = self._changes[:, output :: hypothesis.n_outputs]
            width = self._changes.shape[1]
        if self._changes.nnz > DENSE_SHARE * journal.n * width:
            self._changes = self._changes.toarray()

    def __len__(self) -> int:
        return len(self.rounds)

    def _features(self, X: Matrix) -> Matrix:
        return self._hypothesis.basis(X)[:, : self._changes.shape[1]]

    def _factor(self, births: Ints) -> Floats:
        factors: Floats = self._factors[np.searchsorted(self._factor_rounds, births) - 1]
        return factors

    def _which(self, births: Ints) -> Codes:
        return np.searchsorted(self.rounds, births) - 1

    def margins(self, X: Matrix, births: Ints) -> Floats:
        """Return the margins at X of the hypotheses that predicted the rounds `births`, a row for each."""
        values = (self._features(X) @ self._changes.T).T  # in this order dense if either is
        margins: Floats = np.ascontiguousarray(values.toarray() if issparse(values) else values)
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

    def decide(self, birth: int, X: Matrix) -> Floats:
        """Return f(x) for each row of X, of the hypothesis that predicted this round."""
        return np.asarray(self._features(X) @ self.weights(birth))

    def weights(self, birth: int) -> Floats:
        """Return the weights of the hypothesis that predicted this round, without zeros at the end."""
        births = np.array([birth])
        which = int(self._which(births)[0])
        # The scale of a later change multiplies all earlier ones.
        scales = np.cumprod(np.append(1.0, self._scales[which:0:-1]))[::-1]
        return np.asarray(self._factor(births)[0] * (self._changes[: which + 1].T @ scales))


def blocks_for_margins(hypotheses: int, rows: int) -> Iterator[slice]:
    """Yield blocks of rows for which the margins of all hypotheses fit in memory."""
    return row_blocks(rows, max(1, MARGINS_AT_ONCE // max(1, hypotheses)))
