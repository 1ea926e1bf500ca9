"""Prediction with expert advice: combine N predictors with almost the loss of the best of them.

======================================  =================================================
`Halving`, `WeightedMajority`           yes-or-no advice, a deterministic vote
`RandomizedWeightedMajority`            yes-or-no advice, a random expert
`ExponentialWeights`                    advice in [0, 1], any convex loss
`Prod`, `PolynomialWeights`             the same with other weights
`ExpertClassifier`                      learners as experts, combined into one classifier
======================================  =================================================

Each algorithm has `predict` and `update` for one round and `play` for many rounds. Those that need only the
experts' losses also have `play_losses`. An expert is one number per round, wherever it comes from.

The algorithms are those of Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, section 8.2 and
exercises 8.7 and 8.8.
"""

from budgetron.experts._base import ExpertAlgorithm as ExpertAlgorithm
from budgetron.experts._base import ExpertTrace
from budgetron.experts._classifier import ExpertClassifier
from budgetron.experts._exponential import ExponentialWeights
from budgetron.experts._majority import Halving, RandomizedWeightedMajority, WeightedMajority
from budgetron.experts._polynomial import PolynomialWeights
from budgetron.experts._prod import Prod

__all__ = [
    "ExpertClassifier",
    "ExpertTrace",
    "ExponentialWeights",
    "Halving",
    "PolynomialWeights",
    "Prod",
    "RandomizedWeightedMajority",
    "WeightedMajority",
]


def classes() -> list[type[ExpertAlgorithm | ExpertClassifier]]:
    """Return all algorithms, and the classifier."""
    return [value for name in __all__ if (value := globals()[name]) is not ExpertTrace]
