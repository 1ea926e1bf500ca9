"""A detector of changes: it raises an alarm when the error rate of an expert increases.

The errors of the rounds are counted in chunks. Older chunks are merged, so that the memory grows with the
logarithm of the number of rounds. After each chunk, the rounds are cut in two in every possible place. The
alarm is raised if the error rate after a cut is larger than before it by more than Bernstein's inequality
allows with probability DELTA, divided by the number of cuts. So the probability of a false alarm in one test
is about DELTA at most, if the stream does not change. It is not exact, because the variance in the inequality
is estimated from all rounds. The method is that of ADWIN (Bifet and Gavalda 2007), for increases only.
"""

from __future__ import annotations

import numpy as np

from budgetron._util.types import Floats

__all__ = ["CHUNK", "ChangeDetector"]

# Rounds in a chunk. Blocks of rows end where chunks end.
CHUNK = 64
# The largest probability of a false alarm in one test, approximately.
DELTA = 0.0005
# Largest number of chunks of the same size; if there are more, the two oldest are merged.
MOST_OF_ONE_SIZE = 5


class ChangeDetector:
    """Counts of rounds and errors, the oldest first.

    Attributes
    ----------
    counts : ndarray of shape (n_chunks, 2)
        Rounds and errors of each chunk.
    """

    def __init__(self, counts: Floats | None = None) -> None:
        self.counts: Floats = np.zeros((0, 2)) if counts is None else counts

    def add(self, rounds: int, errors: int) -> bool:
        """Add a chunk; return whether the error rate has increased. An alarm drops all older rounds."""
        self.counts = np.vstack([self.counts, [rounds, errors]])
        before = np.cumsum(self.counts, axis=0)[:-1]
        if not len(before):
            return False
        total = self.counts.sum(axis=0)
        after = total - before
        cuts = len(before)
        size = 1.0 / (1.0 / before[:, 0] + 1.0 / after[:, 0])
        mean = total[1] / total[0]
        log = np.log(2.0 * cuts / DELTA)
        limit = np.sqrt(2.0 / size * mean * (1.0 - mean) * log) + 2.0 / (3.0 * size) * log
        alarms = np.flatnonzero(after[:, 1] / after[:, 0] - before[:, 1] / before[:, 0] > limit)
        if len(alarms):
            self.counts = self.counts[alarms[-1] + 1 :].copy()
            return True
        self._merge()
        return False

    def _merge(self) -> None:
        """Merge the two oldest chunks of each size that occurs too often."""
        sizes = self.counts[:, 0]
        for size in np.unique(sizes).tolist():
            places = np.flatnonzero(self.counts[:, 0] == size)
            if len(places) > MOST_OF_ONE_SIZE:
                first, second = places[:2].tolist()
                self.counts[second] += self.counts[first]
                self.counts = np.delete(self.counts, first, axis=0)
