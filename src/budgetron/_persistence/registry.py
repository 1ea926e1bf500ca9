"""The classes that a model file may name. A file can build no other object."""

from __future__ import annotations

import sys
from typing import TypeAlias

from budgetron import batch, calibration, conformal, experts, kernelized, linear
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.online_detector import OnlineDetector
from budgetron._base.online_regressor import OnlineRegressor
from budgetron.experts import ExpertAlgorithm, ExpertClassifier
from budgetron.fleet import Fleet
from budgetron.portfolio import BudgetClassifier, BudgetRegressor

__all__ = ["CLASSES", "Model", "is_river_adapter", "name_of", "river_adapters"]

# Every class here has `get_params`, `check_params`, `learned_state` and `set_learned_state`.
Model: TypeAlias = (
    OnlineClassifier | OnlineRegressor | OnlineDetector | ExpertAlgorithm | ExpertClassifier | Fleet
)

CLASSES: dict[str, type[Model]] = {
    **{cls.__name__: cls for cls in kernelized.learners()},
    **{cls.__name__: cls for cls in [*kernelized.regressors(), *kernelized.detectors()]},
    **{f"linear.{cls.__name__}": cls for cls in [*linear.learners(), *linear.regressors()]},
    **{f"batch.{cls.__name__}": cls for cls in (batch.AveragedClassifier, batch.PenalizedRiskClassifier)},
    "CalibratedClassifier": calibration.CalibratedClassifier,
    "ConformalClassifier": conformal.ConformalClassifier,
    "ConformalRegressor": conformal.ConformalRegressor,
    "BudgetClassifier": BudgetClassifier,
    "BudgetRegressor": BudgetRegressor,
    "fleet.Fleet": Fleet,
    **{f"experts.{cls.__name__}": cls for cls in experts.classes()},
}
NAMES_OF: dict[type, str] = {cls: name for name, cls in CLASSES.items()}


def name_of(model: object) -> str | None:
    """Return the name by which a file calls the class of a model; None for other objects."""
    return NAMES_OF.get(type(model))


def is_river_adapter(value: object) -> bool:
    """Return whether this is a model of `budgetron.river`, which need not be installed."""
    module = sys.modules.get("budgetron.river")
    return module is not None and isinstance(value, module.RiverLearner)


def river_adapters() -> dict[str, type]:
    """Return the classes of `budgetron.river` by name."""
    try:
        from budgetron import river
    except ImportError as error:
        raise ValueError(str(error)) from error
    return river.adapters()
