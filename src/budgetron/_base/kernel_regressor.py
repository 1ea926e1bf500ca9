"""The base of the kernel regressors."""

from __future__ import annotations

from typing import ClassVar

from budgetron._base.kernel_estimator import KernelEstimator
from budgetron._base.online_regressor import OnlineRegressor

__all__ = ["KernelRegressor"]


class KernelRegressor(KernelEstimator, OnlineRegressor):
    """The base of the kernel regressors. A subclass defines which rule it follows (`_rule` or `_rules`)."""

    _learned_names: ClassVar[frozenset[str]] = KernelEstimator._learned_names | OnlineRegressor._learned_names
