"""Merge models that learned different rows of a stream.

`linear.AROW`, and `SecondOrderProjectron` after `fix_supports`, have Gaussian hypotheses.
`model.delta(since)` returns what a copy has learned since an earlier state, as a `Delta`.
`model.merge(deltas)` adds what several copies have learned. `merge_period` says how many rows they should
learn between two merges.
"""

from budgetron._base.delta import Delta, merge_period

__all__ = ["Delta", "merge_period"]
