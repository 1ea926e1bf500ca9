"""The certificate of a served model: a bound that needs no record of the stream, next to what it bounds."""

from __future__ import annotations

from typing import Any

from budgetron._base.access import theorems_of
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.online_regressor import OnlineRegressor
from budgetron.bounds import THEOREMS, conformal_misses
from budgetron.conformal import ConformalClassifier, ConformalRegressor
from budgetron.portfolio import BudgetClassifier, BudgetRegressor

__all__ = ["certificate_of", "why_no_certificate"]

# What a bound of the regret bounds.
REGRET = "loss of the vote minus that of its best expert"


def certificate_of(model: Any) -> dict[str, Any] | None:
    """Return the certificate of a learner; None if it has none, see `why_no_certificate`."""
    if why_no_certificate(model) is not None:
        return None
    if isinstance(model, ConformalClassifier | ConformalRegressor):
        regions = "sets" if isinstance(model, ConformalClassifier) else "intervals"
        name, counted, count = "conformal_misses", f"labels outside of their {regions}", float(model.misses_)
        bound = conformal_misses(int(model.counts_[0]), model.coverage, model.step)
    else:
        name, counted, count = _theorem(model), REGRET, float(model.regret_)
        bound = float(model.regret_bound_)
    return {
        "theorem": THEOREMS[name].source,
        "rounds": int(model.rounds_),
        "counted": counted,
        "count": count,
        "bound": bound,
        "holds": count <= bound,
    }


def _theorem(model: Any) -> str:
    """Return the name in `bounds.THEOREMS` of the bound of a learner's regret."""
    if isinstance(model, BudgetClassifier):
        return "fixed_share"
    return "exponential_weights" + (f"_{model.eta}" if isinstance(model.eta, str) else "")


def why_no_certificate(model: Any) -> str | None:
    """Return why there is no certificate; None if there is one."""
    kind = type(model).__name__
    if not getattr(model, "rounds_", 0):
        return "nothing was learned yet"
    if isinstance(model, BudgetClassifier) and model.class_weight is not None:
        return "the bound that needs no record of the stream is for rows of equal weight"
    if isinstance(model, ConformalClassifier | ConformalRegressor) or hasattr(model, "regret_bound_"):
        return None
    if _has_theorem(model):
        return (
            f"the bounds of {kind} compare it with a function that is chosen for the whole stream, and the "
            "service does not keep the stream; budgetron.certify evaluates them on rows that you recorded"
        )
    return f"{kind} has no bound that the service can evaluate"


def _has_theorem(model: Any) -> bool:
    """Return whether `budgetron.certify` has a theorem for a learner."""
    if isinstance(model, OnlineRegressor):
        return isinstance(model, BudgetRegressor) or bool(model.regression_theorems())
    return isinstance(model, OnlineClassifier) and bool(theorems_of(model, 1.0))
