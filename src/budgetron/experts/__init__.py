"""Prediction with expert advice: combine N predictors so that hindsight's best is hardly better.

======================================  =================================================
`Halving`, `WeightedMajority`           yes-or-no advice, a deterministic vote (004 8.2.1-2)
`RandomizedWeightedMajority`            yes-or-no advice, a random expert (004 8.2.3)
`ExponentialWeights`                    advice in [0, 1], any convex loss (004 8.2.4)
`Prod`, `PolynomialWeights`             the same by other weights (004 exercises 8.7, 8.8)
`ExpertClassifier`                      whole learners as experts, as one classifier
======================================  =================================================

Each algorithm has `predict` and `update` for one round, `play` for many, and, where losses
alone drive it, `play_losses`. None knows what an expert is: a number per round is all.
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
