"""Certificates of conformal prediction: the number of misses, for any stream and any learner."""

from __future__ import annotations

from math import nan

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from budgetron import bounds
from budgetron._base.access import check_parameters, checked_rows
from budgetron._base.regression_trace import RegressionTrace
from budgetron._base.trace import Trace
from budgetron._certify.certificate import Certificate, refuse_failed
from budgetron._util.types import Rows
from budgetron.bounds import THEOREMS, Assumption
from budgetron.conformal import ConformalClassifier, ConformalRegressor

__all__ = ["CoverageCertificate", "coverage_certificate"]

NAMES = ("conformal_misses", "conformal_deviation")


class CoverageCertificate(Certificate):
    """A bound on misses. There is no competitor; `losses` are the misses that are aimed at."""

    def _lines(self) -> list[tuple[str, str]]:
        theorem, _, *others = super()._lines()
        return [theorem, ("aim", f"{self.losses:.6g} misses"), *others]


def coverage_certificate(
    model: ConformalClassifier | ConformalRegressor,
    X: Rows,
    y: ArrayLike,
    trace: Trace | RegressionTrace,
    competitor: object,
    theorem: str | None,
    check: bool,
) -> Certificate:
    """Compare the misses of a conformal wrapper with their bound; see `budgetron.certify`."""
    name = NAMES[0] if theorem is None else theorem
    if name not in NAMES:
        raise ValueError(
            f"theorem must be one of {list(NAMES)} for {type(model).__name__}; got {theorem!r}. Theorems of "
            "the learner inside are evaluated by certify(model.learner_, X, y, trace)"
        )
    if not isinstance(competitor, str) or competitor != "best":
        raise ValueError(f"this theorem has no competitor; got {competitor!r}")
    check_is_fitted(model)
    check_parameters(model)
    rows, misses = checked_rows(model, X).shape[0], _misses(trace)
    rounds = int(model.counts_[0])
    if not rows == len(np.asarray(y)) == len(trace) == rounds == model.rounds_:
        raise ValueError(
            "X, y and trace must be the whole stream that the model learned, with weights above 0: "
            f"{rows} rows, {len(np.asarray(y))} labels, {len(trace)} rounds in the trace, "
            f"{model.rounds_} in the model, {rounds} of them with a weight"
        )
    if misses != model.misses_:
        raise ValueError(f"trace must be the model's own: it has {misses} misses, the model {model.misses_}")
    aim, assumptions = (1.0 - model.coverage) * rounds, list[Assumption]()
    if name == "conformal_misses":
        count: float = misses
        bound = bounds.conformal_misses(rounds, model.coverage, model.step, check=assumptions)
    else:
        count = abs(misses - aim)
        bound = bounds.conformal_deviation(model.coverage, model.step, check=assumptions)
    entry = THEOREMS[name]
    if check:
        refuse_failed(assumptions, entry.source)
    return CoverageCertificate(
        learner=repr(model),
        theorem=entry.source,
        quantity=entry.quantity,
        count=count,
        bound=bound,
        competitor="none",
        norm=nan,
        losses=aim,
        shift=0.0,
        rounds=rounds,
        assumptions=assumptions,
    )


def _misses(trace: Trace | RegressionTrace) -> int:
    """Return the number of misses in a trace."""
    if isinstance(trace, RegressionTrace):
        if trace.intervals is None:
            raise ValueError("trace must be what progressive_fit of the model returned: it has no intervals")
        low, high = trace.intervals.T
        return int(np.count_nonzero(~((low <= trace.targets) & (trace.targets <= high))))
    if trace.covered is None:
        raise ValueError("trace must be what progressive_fit of the model returned: it has no sets")
    return int(np.count_nonzero(~trace.covered))
