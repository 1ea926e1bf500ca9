"""Every linear learner as a river classifier; see `budgetron.river`."""

from __future__ import annotations

from typing import Any

from budgetron import linear
from budgetron.river._adapter import adapter_of

__all__ = [cls.__name__ for cls in linear.learners()]

for _learner in linear.learners():
    globals()[_learner.__name__] = adapter_of(_learner, __name__)


def __getattr__(name: str) -> Any:  # for type checkers, who do not see the loop
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
