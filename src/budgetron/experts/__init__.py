"""Prediction with expert advice: combine N predictors with almost the loss of the best of them.

======================================  =================================================
`Halving`, `WeightedMajority`           yes-or-no advice, a deterministic vote
`RandomizedWeightedMajority`            yes-or-no advice, a random expert
`ExponentialWeights`                    advice in [0, 1], any convex loss
`FixedShare`                            the same if the best expert changes
`Prod`, `PolynomialWeights`             the same with other weights
`ExpertClassifier`                      learners as experts, combined into one classifier
======================================  =================================================

Each algorithm has `predict` and `update` for one round and `play` for many rounds. Those that need only the
experts' losses also have `play_losses`. An expert is one number per round, wherever it comes from.
`best_sequence` finds the sequence of experts that `FixedShare` is compared with.

The algorithms are those of Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, section 8.2 and
exercises 8.7 and 8.8. `FixedShare` is by Herbster and Warmuth.
"""

from budgetron.experts._base import ExpertAlgorithm as ExpertAlgorithm
from budgetron.experts._base import ExpertTrace
from budgetron.experts._classifier import ExpertClassifier
from budgetron.experts._exponential import ExponentialWeights
from budgetron.experts._fixed_share import FixedShare
from budgetron.experts._majority import Halving, RandomizedWeightedMajority, WeightedMajority
from budgetron.experts._polynomial import PolynomialWeights
from budgetron.experts._prod import Prod
from budgetron.experts._sequence import ExpertSequence, best_sequence

__all__ = [
    "ExpertClassifier",
    "ExpertSequence",
    "ExpertTrace",
    "ExponentialWeights",
    "FixedShare",
    "Halving",
    "PolynomialWeights",
    "Prod",
    "RandomizedWeightedMajority",
    "WeightedMajority",
    "best_sequence",
]


def classes() -> list[type[ExpertAlgorithm | ExpertClassifier]]:
    """Return all algorithms, and the classifier."""
    others = ("ExpertSequence", "ExpertTrace", "best_sequence")
    return [globals()[name] for name in __all__ if name not in others]
