"""Every linear learner as a river model; see `budgetron.river`."""

from __future__ import annotations

from budgetron import linear
from budgetron.river._factory import Adapter, adapter_of

__all__ = [cls.__name__ for cls in [*linear.learners(), *linear.regressors()]]

for _learner in [*linear.learners(), *linear.regressors()]:
    globals()[_learner.__name__] = adapter_of(_learner, __name__)


def __getattr__(
    name: str,
) -> type[Adapter]:  # for type checkers, which cannot see the names set above
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
