"""Why most learners cannot be merged."""

from __future__ import annotations

from typing import Any

from budgetron._base.online_classifier import OnlineClassifier

__all__ = ["MERGEABLE", "UnmergeableClassifier"]

# What to use instead.
MERGEABLE = "use linear.AROW, or SecondOrderProjectron after fix_supports()"


class UnmergeableClassifier(OnlineClassifier):
    """A learner without `delta` and `merge`. The errors say why; `MergeableClassifier` has these methods."""

    @property
    def delta(self) -> Any:
        """Not available: `linear.AROW` and `SecondOrderProjectron` with fixed supports can be merged."""
        raise AttributeError(self._why_not_mergeable())

    @property
    def merge(self) -> Any:
        """Not available: `linear.AROW` and `SecondOrderProjectron` with fixed supports can be merged."""
        raise AttributeError(self._why_not_mergeable())

    def _why_not_mergeable(self) -> str:
        """Return why models of this class that learned different rows cannot be merged."""
        return (
            f"{type(self).__name__} cannot be merged: its state does not say how much was learned in each "
            f"direction, so that what several models have learned cannot be added; {MERGEABLE}"
        )
