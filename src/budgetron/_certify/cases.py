"""Which theorem speaks of which learner, and what it says of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from budgetron import bounds, linear
from budgetron._certify.competitors import Run
from budgetron.kernelized import (
    Forgetron,
    KernelPerceptron,
    Projectron,
    ProjectronPlusPlus,
    RandomizedBudgetPerceptron,
    RemoveOldestPerceptron,
    ShrinkingPerceptron,
    VotedKernelPerceptron,
)

__all__ = ["Case", "cases_of", "winnow"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A theorem as it applies to a model.

    `bound` evaluates it on a run. The best competitor minimizes weight ||g||^2 + sum of hinge losses
    within `limit`, where that is the form of the bound; otherwise weight is None.
    """

    name: str
    bound: Callable[[Run, Any], float]
    weight: float | None
    limit: float = inf
    drifts: bool = False
    separates: bool = False  # whether the competitor must separate the rows


def _perceptron_cases(radius: float) -> list[Case]:
    # Dividing all rows by a number changes no prediction of the Perceptron, and multiplies ||g|| by it.
    scale = max(1.0, radius)

    def plain(run: Run, check: Any) -> float:
        return bounds.perceptron(scale * run.norm, run.losses, run.radius / scale, check=check)

    def at_own_scale(theorem: Callable[..., float], order: int) -> Callable[[Run, Any], float]:
        # rho = 1 / ||g|| for g / ||g||: the rho-hinge losses are g's hinge losses, on the updates alone
        def bound(run: Run, check: Any) -> float:
            losses = np.maximum(0.0, 1.0 - run.margins[run.trace.mistakes])
            rho = 1 / run.norm if run.norm else inf
            return theorem(run.radius, rho, float(np.linalg.norm(losses, order)), check=check)

        return bound

    return [
        Case("perceptron", plain, scale**2 / 2),
        Case("perceptron_l1", at_own_scale(bounds.perceptron_l1, 1), None),
        Case("perceptron_l2", at_own_scale(bounds.perceptron_l2, 2), None),
    ]


def cases_of(model: Any, radius: float) -> list[Case]:
    """The theorems that speak of a model, the first one by default."""
    if isinstance(
        model, KernelPerceptron | VotedKernelPerceptron | linear.Perceptron | linear.VotedPerceptron
    ):
        return _perceptron_cases(radius)
    if isinstance(model, RemoveOldestPerceptron):
        return [
            Case(
                "remove_oldest",
                lambda run, check: bounds.remove_oldest(
                    run.norm, run.losses, float(np.nansum(run.entries("psi"))), run.radius, check=check
                ),
                0.5,
            )
        ]
    if isinstance(model, ShrinkingPerceptron):

        def shrinking(run: Run, check: Any) -> float:
            of = run.trace.mistakes
            total = bounds.log_shrinking(run.entries("phi")[of], run.entries("norm")[of], run.norm)
            return bounds.shrinking_perceptron(run.norm, run.losses, total, run.radius, check=check)

        return [Case("shrinking_perceptron", shrinking, None)]
    if isinstance(model, Forgetron) and model.variant != "simplified":
        return [
            Case(
                "forgetron",
                lambda run, check: bounds.forgetron(
                    run.norm, run.losses, model.budget, run.radius, check=check
                ),
                0.5,
                bounds.norm_limit(model.budget),
            ),
            Case("forgetron_ledger", _forgetron_ledger, None),
        ]
    if isinstance(model, Forgetron) and (model.eta, model.decay, model.radius) == (None, None, None):
        return [
            Case(
                "simplified_forgetron",
                lambda run, check: bounds.simplified_forgetron(
                    run.norm, run.losses, model.budget, run.shift, run.radius, check=check
                ),
                0.0,
                bounds.drift_limit(model.budget) / 2,
                True,
            )
        ]
    if isinstance(model, RandomizedBudgetPerceptron) and model.variant == "modified":
        if (model.eta, model.radius) == (None, None):
            return [
                Case(
                    "modified_randomized_budget",
                    lambda run, check: bounds.modified_randomized_budget(
                        run.norm, run.losses, model.budget, run.shift, run.radius, check=check
                    ),
                    0.0,
                    sqrt(model.budget) / 8,
                    True,
                )
            ]
    elif isinstance(model, Projectron) and model.norm_bound is None:
        eta = model._threshold()
        if model._learners[0].supports.single:  # what is nearer than this is projected in any case
            eta = max(eta, sqrt(1e-5) * radius)
        return [
            Case(name, partial(_projectron, theorem, eta), None)
            for name, theorem in (
                ("projectron", bounds.projectron),
                ("projectron_root", bounds.projectron_root),
            )
        ]
    elif isinstance(model, Projectron) and model.norm_bound is not None:
        limit = model.norm_bound
        return [
            Case(
                "projectron_norm_bound",
                lambda run, check: bounds.projectron_norm_bound(
                    run.norm, run.losses, limit, run.radius, check=check
                ),
                0.5,
                limit,
            )
        ]
    elif isinstance(model, ProjectronPlusPlus) and model.eta is None:
        return [
            Case(
                "projectron_plus_plus",
                lambda run, check: bounds.projectron_plus_plus(
                    run.norm,
                    run.losses,
                    float(np.nansum(run.entries("beta"))),
                    model.norm_bound,
                    run.radius,
                    check=check,
                ),
                0.5,
                model.norm_bound,
            )
        ]
    elif isinstance(model, linear.MarginPerceptron):
        return [Case("margin_perceptron", _margin_perceptron, None, separates=True)]
    raise ValueError(f"the papers state no theorem for {model!r}")


def _forgetron_ledger(run: Run, check: Any) -> float:
    of = run.trace.mistakes
    norms = np.concatenate([[0.0], run.entries("norm")])[:-1]
    own = run.kernel.diagonal(run.X)
    before = np.sqrt(np.maximum(0.0, norms**2 + 2 * run.y * run.trace.margins + own))[of]  # ||f'_t||
    phi = run.entries("phi")[of]
    shrinking = bounds.log_shrinking(phi, phi * before, run.norm)
    damage = float(np.nansum(run.entries("psi")))
    return bounds.forgetron_ledger(run.norm, run.losses, shrinking, damage, run.radius, check=check)


def _projectron(theorem: Callable[..., float], eta: float, run: Run, check: Any) -> float:
    return theorem(run.norm, run.losses, eta, run.radius, check=check)


def _margin_perceptron(run: Run, check: Any) -> float:
    rho = run.model.margin
    reached = float(run.margins.min()) / run.norm if run.norm else 0.0
    bounds.assume(
        check,
        reached >= rho * (1 - bounds.ROUNDING),
        f"a margin of the competitor of at least {rho:.6g}",
        reached,
    )
    return bounds.margin_perceptron(run.radius, rho, check=check)


def winnow(run: Run, weights: Vector | None, check: Any) -> float:
    """Winnow's theorem, whose competitors are weights >= 0 that sum to 1; without any, the best."""
    model, T = run.model, len(run.y)
    rows = run.y[:, None] * (np.hstack([run.X, -run.X]) if model.balanced else run.X)
    n = rows.shape[1]
    if weights is None:
        # the largest rho with rows v >= rho, v >= 0, sum v = 1
        found = linprog(
            np.append(np.zeros(n), -1.0),
            A_ub=np.hstack([-rows, np.ones((T, 1))]),
            b_ub=np.zeros(T),
            A_eq=np.append(np.ones(n), 0.0)[None, :],
            b_eq=[1.0],
            bounds=[(0, None)] * n + [(None, None)],
        )
        v, run.name = found.x[:n], "the weights of largest margin"
    else:
        v = np.concatenate([np.maximum(weights, 0), np.maximum(-weights, 0)]) if model.balanced else weights
        run.name = "a weight vector"
        bounds.assume(check, bool(np.all(v >= 0)), "a least weight of at least 0", float(v.min()))
    v = v / np.abs(v).sum()
    run.norm, run.margins = 1.0, rows @ v
    radius = float(np.abs(run.X).max())
    return bounds.winnow_general(radius, float(run.margins.min()), n, model.eta, check=check)
