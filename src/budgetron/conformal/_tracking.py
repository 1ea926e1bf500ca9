"""What both conformal wrappers keep: the last scores, and the numbers of rounds and misses."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from budgetron._base.parameters import Constraints
from budgetron._base.wrapper import Wrapper
from budgetron._core.conformal import next_threshold
from budgetron._util.checks import State, require, require_array, require_finite
from budgetron._util.types import Floats, Ints

__all__ = ["TRACKING_PARAMETERS", "Tracking"]

# The most scores that are kept. Storing a score takes time in proportion to them.
MOST_SCORES = 10**6

TRACKING_PARAMETERS: Constraints = {
    "learner": [object],  # checked by the wrapper, with a message that says what to do
    "coverage": [Interval(Real, 0.0, 1.0, closed="neither")],
    "step": [Interval(Real, 0.0, None, closed="neither")],
    "window": [Interval(Integral, 1, MOST_SCORES, closed="both")],
}

# Labels are compared with thresholds up to this many units of the last place, so that rounding, which depends
# on how a stream is cut into batches, does not decide between equal numbers.
TIE = 8.0


class Tracking(Wrapper):
    """Adaptive conformal inference on the scores of the rounds.

    A subclass computes the scores, and has the parameters `coverage`, `step` and `window`.
    """

    _learned_names: ClassVar[frozenset[str]] = frozenset({"learner_", "scores_", "counts_"})
    # The sorted scores follow from the scores.
    _derived_names: ClassVar[frozenset[str]] = Wrapper._derived_names | {"_ordered"}

    coverage: float
    step: float
    window: int
    scores_: Floats
    counts_: Ints
    _ordered: Floats

    @property
    def misses_(self) -> int:
        """Number of rounds whose label was outside of the prediction."""
        self._fitted()
        return int(self.counts_[1])

    @property
    def coverage_(self) -> float:
        """The share of the rounds whose label was inside of the prediction; NaN before the first one."""
        self._fitted()
        rounds, misses = self.counts_.tolist()
        return (rounds - misses) / rounds if rounds else float("nan")

    @property
    def miss_level_(self) -> float:
        """The share of misses that the next prediction is made for; it falls after a miss, and rises else."""
        self._fitted()
        rounds, misses = self.counts_.tolist()
        aim = 1.0 - self.coverage
        return float(aim + self.step * (aim * rounds - misses))

    @property
    def threshold_(self) -> float:
        """The largest score inside of the next prediction; infinite if every score is, or none."""
        self._fitted()
        return next_threshold(self._ordered, self.counts_, 1.0 - self.coverage, float(self.step))

    @property
    def nbytes_(self) -> int:
        """Bytes of all arrays that the model keeps."""
        self._fitted()
        own = self.scores_.nbytes + self._ordered.nbytes + self.counts_.nbytes
        return int(self.learner_.nbytes_) + own

    def _start_tracking(self) -> None:
        self.scores_, self._ordered = np.zeros(self.window), np.zeros(self.window)
        self.counts_ = np.zeros(2, np.int64)

    def _copy_tracking(self) -> None:
        """Replace the arrays by copies, so that the originals can be restored."""
        self.scores_, self._ordered = self.scores_.copy(), self._ordered.copy()
        self.counts_ = self.counts_.copy()

    def _tracked(self) -> tuple[float, float, Floats, Floats, Ints]:
        """Return the arguments that tell the core which scores are misses, and what to update."""
        return 1.0 - self.coverage, float(self.step), self.scores_, self._ordered, self.counts_

    def _tie(self) -> float:
        """Return the share of numbers that may be rounding."""
        return TIE * float(np.finfo(self._learners[0].dtype).eps)

    def _bytes_of_tracking(self) -> int:
        return 16 * self.window + 16

    # ------------------------------------------------------------------ state

    def set_learned_state(self, found: State) -> None:
        super().set_learned_state(found)
        stored = min(int(self.counts_[0]), len(self.scores_))
        self._ordered = np.zeros(len(self.scores_))
        self._ordered[:stored] = np.sort(self.scores_[:stored])

    def _check_learned(self, found: State, hypotheses: Sequence[Any]) -> None:
        scores = require_array(found["scores_"], np.float64, (self.window,), "scores")
        require_finite(scores, "scores")
        counts = require_array(found["counts_"], np.int64, (2,), "counts")
        require(0 <= counts[1] <= counts[0] <= hypotheses[0].rounds, "there are more misses than rounds")
        require(not scores[int(counts[0]) :].any(), "there are more scores than rounds")
