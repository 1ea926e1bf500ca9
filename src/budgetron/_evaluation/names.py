"""Names for learners that were given without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from budgetron._base.linear_estimator import LinearEstimator
from budgetron._evaluation.classifier import Estimator

__all__ = ["Learners", "named_learners"]

Learners = Mapping[str, Estimator] | Sequence[Estimator]


def named_learners(learners: Learners) -> dict[str, Estimator]:
    """Return learners by name. Without a name, use the class and the parameters that differ."""
    given = list(learners.values() if isinstance(learners, Mapping) else learners)
    for learner in given:
        if isinstance(learner, type):
            raise TypeError(f"a learner must be an instance, like {learner.__name__}(); got the class itself")
    if isinstance(learners, Mapping):
        return dict(learners)
    return dict(zip(_distinct_names(given), given, strict=True))


def _distinct_names(learners: list[Estimator]) -> list[str]:
    names = [_name(learner, learners) for learner in learners]
    return [
        f"{name} #{names[:i].count(name) + 1}" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


def _name(learner: Estimator, learners: list[Estimator]) -> str:
    """Return the class of a learner, and the parameters in which learners of this class differ."""
    params = learner.get_params(deep=False)
    same_class = [other.get_params(deep=False) for other in learners if type(other) is type(learner)]
    differing = [
        name for name in params if any(repr(other[name]) != repr(params[name]) for other in same_class)
    ]
    shown = ", ".join(f"{name}={params[name]!r}" for name in differing)
    # A linear learner may have the same class name as a kernel learner.
    package = "linear." if isinstance(learner, LinearEstimator) else ""
    return package + type(learner).__name__ + (f"({shown})" if shown else "")
