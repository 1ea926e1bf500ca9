"""Make the river adapter of a learner: its class, signature and documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.online_detector import OnlineDetector
from budgetron._base.online_regressor import OnlineRegressor
from budgetron.portfolio import BudgetClassifier, ExpertSummary
from budgetron.river._adapter import RiverClassifier
from budgetron.river._detector import RiverDetector
from budgetron.river._learner import LEFT_OUT, RENAMED
from budgetron.river._regressor import RiverRegressor

__all__ = ["Adapter", "adapter_of"]

Adapter: TypeAlias = RiverClassifier | RiverRegressor | RiverDetector
Learner: TypeAlias = OnlineClassifier | OnlineRegressor | OnlineDetector

MOST_FEATURES = 1000

DOC = """{summary}

    The river adapter of `{learner}`, which documents the parameters{differences}.

    Parameters
    ----------
    max_features
        The largest number of features that the model accepts.
    """


def adapter_of(learner: type[Learner], module: str) -> type[Adapter]:
    """Return the river adapter of a learner, as a class of `module`."""
    signature = _signature(learner)
    adapter: type[Adapter] = type(
        learner.__name__,
        (_base_of(learner),),
        {
            "__doc__": _doc(learner, signature),
            "__module__": module,
            "_learner": learner,
            "_signature": signature,
            "__init__": _init(signature, _base_of(learner)),
        },
    )
    return adapter


def _base_of(learner: type[Learner]) -> type[Adapter]:
    if issubclass(learner, BudgetClassifier):
        return _BudgetAdapter
    if issubclass(learner, OnlineDetector):
        return RiverDetector
    return RiverRegressor if issubclass(learner, OnlineRegressor) else RiverClassifier


class _BudgetAdapter(RiverClassifier):
    """The adapter of `BudgetClassifier`, with its attributes about the experts."""

    _model: BudgetClassifier

    @property
    def experts_(self) -> list[ExpertSummary]:
        """The combiners and every expert."""
        return self._model.experts_

    @property
    def feature_importances_(self) -> dict[Hashable, float]:
        """The importance of each feature, by name; they sum to 1."""
        return dict(zip(self._features.columns, self._model.feature_importances_.tolist(), strict=True))

    @property
    def regret_(self) -> float:
        """Loss of the vote minus that of the best expert."""
        return float(self._model.regret_)

    @property
    def regret_bound_(self) -> float:
        """An upper bound of the regret."""
        return float(self._model.regret_bound_)


def _signature(learner: type[Learner]) -> inspect.Signature:
    parameters = []
    for parameter in inspect.signature(learner).parameters.values():
        if parameter.name in LEFT_OUT:
            continue
        default = "auto" if parameter.name == "gamma" else parameter.default
        name = RENAMED.get(parameter.name, parameter.name)
        parameters.append(parameter.replace(name=name, default=default, annotation=inspect.Parameter.empty))
    parameters.append(
        inspect.Parameter("max_features", inspect.Parameter.KEYWORD_ONLY, default=MOST_FEATURES)
    )
    return inspect.Signature(parameters)


def _doc(learner: type[Learner], signature: inspect.Signature) -> str:
    differences = []
    if "seed" in signature.parameters:
        differences.append("`random_state` is called `seed`")
    if "class_weight" in learner.parameter_names():
        differences.append("there is no `class_weight`")
    if "gamma" in signature.parameters:
        differences.append('the default of\n    `gamma` is "auto": 1 / (number of features of the first row)')
    summary = inspect.cleandoc(learner.__doc__ or "").split("\n", 1)[0]
    package = learner.__module__.rsplit(".", 1)[0].removesuffix(".kernelized")
    return DOC.format(
        summary=summary,
        learner=f"{package}.{learner.__name__}",
        differences="".join(f"; {difference}" for difference in differences),
    )


def _init(signature: inspect.Signature, base: type[Adapter]) -> Callable[..., None]:
    """Return an `__init__` with this signature, which river reads to find the parameters."""

    def init(self: Any, *args: object, **params: object) -> None:
        base.__init__(self, *args, **params)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    init.__signature__ = signature.replace(  # type: ignore[attr-defined]  # functions accept attributes
        parameters=[own, *signature.parameters.values()]
    )
    return init
