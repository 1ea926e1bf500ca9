"""The kernel learners, one file each: when to update, with which coefficient, and how the budget is kept.

A learner's file contains its compiled rule and the scikit-learn class that uses it, with its theorems. It
imports only `_base`, `_core` and the packages below them. The import lines here are the list of learners: the
build compiles each module that they name, `budgetron` exports each class, and the conformance tests run over
all of them.
"""

from budgetron._base.kernel_regressor import KernelRegressor as _KernelRegressor
from budgetron._base.online_classifier import OnlineClassifier as _OnlineClassifier
from budgetron._base.online_detector import OnlineDetector as _OnlineDetector
from budgetron.kernelized._ahpatron import Ahpatron as Ahpatron
from budgetron.kernelized._auc_maximizer import AUCMaximizer as AUCMaximizer
from budgetron.kernelized._bogd import BOGD as BOGD
from budgetron.kernelized._bsgd import BSGD as BSGD
from budgetron.kernelized._budget_pa import BudgetPA as BudgetPA
from budgetron.kernelized._cks import CKSPerceptron as CKSPerceptron
from budgetron.kernelized._fogd import FOGD as FOGD
from budgetron.kernelized._forgetron import Forgetron as Forgetron
from budgetron.kernelized._nogd import NOGD as NOGD
from budgetron.kernelized._norma_detector import NormaDetector as NormaDetector
from budgetron.kernelized._norma_regressor import NormaRegressor as NormaRegressor
from budgetron.kernelized._ogd import OGD as OGD
from budgetron.kernelized._pa_regressor import KernelPARegressor as KernelPARegressor
from budgetron.kernelized._passive_aggressive import PassiveAggressive as PassiveAggressive
from budgetron.kernelized._perceptron import KernelPerceptron as KernelPerceptron
from budgetron.kernelized._projectron import Projectron as Projectron
from budgetron.kernelized._projectron import ProjectronPlusPlus as ProjectronPlusPlus
from budgetron.kernelized._randomized import RandomizedBudgetPerceptron as RandomizedBudgetPerceptron
from budgetron.kernelized._remove_oldest import RemoveOldestPerceptron as RemoveOldestPerceptron
from budgetron.kernelized._second_order import SecondOrderProjectron as SecondOrderProjectron
from budgetron.kernelized._second_order_detector import SecondOrderDetector as SecondOrderDetector
from budgetron.kernelized._second_order_regressor import SecondOrderRegressor as SecondOrderRegressor
from budgetron.kernelized._shared_budget import SharedBudgetPerceptron as SharedBudgetPerceptron
from budgetron.kernelized._shrinking import ShrinkingPerceptron as ShrinkingPerceptron
from budgetron.kernelized._stoptron import Stoptron as Stoptron
from budgetron.kernelized._tighter import TighterPerceptron as TighterPerceptron
from budgetron.kernelized._voted import VotedKernelPerceptron as VotedKernelPerceptron


def learners() -> list[type[_OnlineClassifier]]:
    """Return all kernel learners that classify, sorted by name.

    Examples
    --------
    >>> import budgetron
    >>> budgetron.Forgetron in budgetron.learners()
    True
    """
    return [
        value
        for name, value in sorted(globals().items())
        if not name.startswith("_") and isinstance(value, type) and issubclass(value, _OnlineClassifier)
    ]


def regressors() -> list[type[_KernelRegressor]]:
    """Return all kernel regressors, sorted by name.

    Examples
    --------
    >>> import budgetron
    >>> budgetron.SecondOrderRegressor in budgetron.regressors()
    True
    """
    return [
        value
        for name, value in sorted(globals().items())
        if not name.startswith("_") and isinstance(value, type) and issubclass(value, _KernelRegressor)
    ]


def detectors() -> list[type[_OnlineDetector]]:
    """Return all detectors of unusual rows, sorted by name.

    Examples
    --------
    >>> import budgetron
    >>> [cls.__name__ for cls in budgetron.detectors()]
    ['NormaDetector', 'SecondOrderDetector']
    """
    return [
        value
        for name, value in sorted(globals().items())
        if not name.startswith("_") and isinstance(value, type) and issubclass(value, _OnlineDetector)
    ]
