"""`certify` for regressors: a theorem about squared losses, evaluated on the stream."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted, column_or_1d

from budgetron._base.access import check_parameters, checked_rows, competitor_kernel
from budgetron._base.kernel_regressor import KernelRegressor
from budgetron._base.linear_regressor import LinearRegressor
from budgetron._base.online_regressor import OnlineRegressor
from budgetron._base.regression_theorems import RegressionRun, RegressionTheorem
from budgetron._base.regression_trace import RegressionTrace
from budgetron._certify.certificate import Certificate, refuse_failed
from budgetron._certify.votes import MOST_SWITCHES
from budgetron._util.types import Floats, Rows
from budgetron.bounds import THEOREMS, Assumption
from budgetron.experts import best_sequence
from budgetron.portfolio import BudgetRegressor

__all__ = ["RegressionCertificate", "certify_regression"]


@dataclass(frozen=True)
class RegressionCertificate(Certificate):
    """A bound on a sum of squared losses. `most` is the sum of a constant prediction."""

    @property
    def vacuous(self) -> bool:
        """Whether the bound is at least the loss of a constant prediction."""
        return self.most is not None and self.bound >= self.most

    @property
    def known(self) -> str:
        """What the bound is compared with, in words."""
        return "the loss of a constant prediction"

    @property
    def size(self) -> str:
        """The norm of the competitor, and what `losses` are, in words."""
        return "squared losses" if np.isnan(self.norm) else f"norm {self.norm:.4g}, squared losses"


def certify_regression(
    model: OnlineRegressor,
    X: Rows,
    y: ArrayLike,
    trace: RegressionTrace,
    competitor: object,
    theorem: str | None,
    check: bool,
) -> Certificate:
    """Evaluate a theorem of a regressor; see `budgetron.certify`."""
    check_is_fitted(model)
    check_parameters(model)
    rows, targets = checked_rows(model, X), np.asarray(column_or_1d(y), np.float64)
    if not rows.shape[0] == len(targets) == len(trace) == model.rounds_:
        raise ValueError(
            "X, y and trace must be the whole stream that the model learned: "
            f"{rows.shape[0]} rows, {len(targets)} targets, {len(trace)} rounds in the trace, "
            f"{model.rounds_} in the model"
        )
    if not np.array_equal(trace.targets, targets):
        raise ValueError("trace must be the model's own: its targets are not those of y")
    if isinstance(model, BudgetRegressor):
        return _share_certificate(model, trace, competitor, theorem, check)
    chosen = _choose(model, theorem)
    if isinstance(model, LinearRegressor):
        rows = model.rows_with_constant(rows)
    dense = np.ascontiguousarray(rows.toarray() if issparse(rows) else rows, np.float64)
    if isinstance(model, KernelRegressor):
        if not isinstance(competitor, str):
            raise ValueError(f'competitor must be "best" for {type(model).__name__}; got {competitor!r}')
        dense = _vectors(competitor_kernel(model).matrix(dense, dense))
    run = RegressionRun(dense, targets)
    u = chosen.best(run) if isinstance(competitor, str) else _weights(competitor, dense.shape[1])
    losses, norm = float(chosen.loss(run, targets - dense @ u).sum()), float(np.linalg.norm(u))
    assumptions: list[Assumption] = []
    bound = chosen.bound(run, norm, losses, assumptions)
    entry = THEOREMS[chosen.name]
    if check:
        refuse_failed(assumptions, entry.source)
    return RegressionCertificate(
        learner=repr(model),
        theorem=entry.source,
        quantity=entry.quantity,
        count=float(chosen.loss(run, trace.residuals).sum()),
        bound=bound,
        competitor="the best one" if isinstance(competitor, str) else "the given weights",
        norm=norm,
        losses=losses,
        shift=0.0,
        rounds=len(trace),
        most=int(chosen.loss(run, targets).sum()),
        assumptions=assumptions,
    )


def _share_certificate(
    model: BudgetRegressor, trace: RegressionTrace, competitor: object, theorem: str | None, check: bool
) -> Certificate:
    """Compare the combination with the best sequence of candidates that has so many switches."""
    entry = THEOREMS["fixed_share_squares"]
    if theorem not in (None, entry.name):
        raise ValueError(f"{model!r} has no theorem {theorem}; it has: {entry.name}")
    if trace.ledger is None:
        raise ValueError(
            "this theorem needs the ledger: make the trace with progressive_fit(..., ledger=True)"
        )
    losses = np.asarray(trace.ledger["expert_losses"], np.float64)
    most, numbers = _switches(competitor)
    smallest = best_sequence(losses, most).smallest_losses
    assumptions: list[Assumption] = []
    values = {k: model.share_bound(float(smallest[k]), len(trace), k, assumptions) for k in numbers}
    switches = min(values, key=lambda k: values[k])
    if check:
        refuse_failed(assumptions, entry.source)
    return RegressionCertificate(
        learner=repr(model),
        theorem=entry.source,
        quantity=entry.quantity,
        count=float((trace.residuals**2).sum()),
        bound=values[switches],
        competitor=f"the best sequence of experts with {switches} switches",
        norm=nan,
        losses=float(smallest[switches]),
        shift=0.0,
        rounds=len(trace),
        most=int(min(((trace.targets - trace.targets.mean()) ** 2).sum(), 1e300)),
        assumptions=assumptions,
    )


def _switches(competitor: object) -> tuple[int, Iterable[int]]:
    """Return the largest number of switches, and those to try."""
    if isinstance(competitor, str) and competitor == "best":
        return MOST_SWITCHES, range(MOST_SWITCHES + 1)
    if isinstance(competitor, int) and not isinstance(competitor, bool) and competitor >= 0:
        return competitor, [competitor]
    raise ValueError(f'competitor must be "best" or a number of switches; got {competitor!r}')


def _choose(model: OnlineRegressor, name: str | None) -> RegressionTheorem:
    """Return the theorem with this name, or the default one."""
    theorems = model.regression_theorems()
    found = [theorem for theorem in theorems if name in (None, theorem.name)]
    if not found:
        names = ", ".join(theorem.name for theorem in theorems) or "none"
        raise ValueError(f"{model!r} has no theorem {name or 'to evaluate'}; it has: {names}")
    return found[0]


def _vectors(K: Floats) -> Floats:
    """Return vectors whose inner products are these kernel values, one for each row."""
    values, directions = np.linalg.eigh(K)
    vectors: Floats = directions * np.sqrt(np.maximum(values, 0.0))
    return vectors


def _weights(competitor: object, n: int) -> Floats:
    u = np.asarray(competitor, np.float64)
    if u.shape != (n,) or not np.isfinite(u).all():
        raise ValueError(
            f'competitor must be "best", or {n} finite weights, that of the constant first; got shape '
            f"{u.shape}"
        )
    return u
