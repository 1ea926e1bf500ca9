"""Reference implementations: each algorithm again, slow and literal, from its paper.

The Gram matrix of the whole stream is given. A hypothesis is a dict from round to coefficient in insertion
order. Every value and norm is a sum over this dict, computed whenever it is needed. Indices are those of the
papers, counted from 0.
"""

from reference.budget import CKS, Ahpatron, BudgetPA, RemoveOldest, Stoptron, Tighter
from reference.forgetron import (
    BasicForgetron,
    CumulativeGreedyForgetron,
    GreedyForgetron,
    SelfTunedForgetron,
    SimplifiedForgetron,
)
from reference.fourier import FOGD
from reference.gradient import BOGD, BSGD, NOGD, OGD, MergingBSGD
from reference.kernels import KERNELS, gram
from reference.passive_aggressive import PassiveAggressive
from reference.perceptron import (
    KernelPerceptron,
    Reference,
    ShiftingPerceptron,
    ShrinkingPerceptron,
    VotedPerceptron,
)
from reference.projectron import Projectron, ProjectronPlusPlus
from reference.randomized import ModifiedRandomizedBudget, RandomizedBudget
from reference.ranking import AUCMaximizer
from reference.second_order import JointSecondOrder, SecondOrderProjectron

__all__ = [
    "BOGD",
    "BSGD",
    "CKS",
    "FOGD",
    "KERNELS",
    "NOGD",
    "OGD",
    "AUCMaximizer",
    "Ahpatron",
    "BasicForgetron",
    "BudgetPA",
    "CumulativeGreedyForgetron",
    "GreedyForgetron",
    "JointSecondOrder",
    "KernelPerceptron",
    "MergingBSGD",
    "ModifiedRandomizedBudget",
    "PassiveAggressive",
    "Projectron",
    "ProjectronPlusPlus",
    "RandomizedBudget",
    "Reference",
    "RemoveOldest",
    "SecondOrderProjectron",
    "SelfTunedForgetron",
    "ShiftingPerceptron",
    "ShrinkingPerceptron",
    "SimplifiedForgetron",
    "Stoptron",
    "Tighter",
    "VotedPerceptron",
    "gram",
]
