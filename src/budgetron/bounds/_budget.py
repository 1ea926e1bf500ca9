"""Bounds of the learners with a budget, and of those that shrink or project."""

from __future__ import annotations

from math import inf, log, log2, sqrt

import numpy as np
from numpy.typing import ArrayLike

from budgetron.bounds._perceptron import perceptron
from budgetron.bounds._statement import Check, assume, require_at_most, theorem


def norm_limit(budget: int) -> float:
    """Return U, the largest norm of a competitor of the Forgetron: 1/4 sqrt((B + 1) / log(B + 1)).

    Forgetron paper, eq. 26.
    """
    return 0.25 * sqrt((budget + 1) / log(budget + 1))


def drift_limit(budget: int) -> float:
    """Return U = sqrt(B / (32 log2(8 B))): the simplified Forgetron has competitors of norm at most U / 2.

    Sutskever's paper, eq. 12.
    """
    return sqrt(budget / (32 * log2(8 * budget)))


@theorem("Forgetron paper, Corollary 1", "`RemoveOldestPerceptron`", "mistakes", "k(x, x) <= 1")
def remove_oldest(
    norm: float, losses: float, damage: float, radius: float = 1.0, *, check: Check = True
) -> float:
    """Return ||g||^2 + 2 sum of hinge losses + the sum of psi.

    This is no guarantee in advance, because nothing bounds the damage psi of the removals.
    """
    return perceptron(norm, losses, radius, check=check) + damage


@theorem("Forgetron paper, section 4", "`ShrinkingPerceptron`", "mistakes", "k(x, x) <= 1, ||g|| <= U of Phi")
def shrinking_perceptron(
    norm: float, losses: float, log_shrinking: float, radius: float = 1.0, *, check: Check = True
) -> float:
    """Return ||g||^2 (1 - sum of log Phi) + 2 sum of hinge losses; see `log_shrinking`."""
    require_at_most(check, radius, 1.0, "a radius sqrt(k(x, x))")
    return norm**2 * (1 - log_shrinking) + 2 * losses


def log_shrinking(phi: ArrayLike, norms: ArrayLike, limit: float) -> float:
    """Return the sum of log Phi for competitors of norm at most `limit` (Forgetron paper, eq. 24).

    Parameters
    ----------
    phi, norms : array-like
        The ledger's entries for the mistakes: shrinking factors, and ||f|| after each.
    limit : float
        U. Shrinking a hypothesis that stays outside this ball costs nothing.
    """
    phi, after = np.asarray(phi, float), np.asarray(norms, float)
    before = after / phi
    effective = np.where(after >= limit, 1.0, np.where(before <= limit, phi, after / limit if limit else 1.0))
    return float(np.log(effective).sum())


@theorem(
    "Forgetron paper, Theorems 2 and 3",
    '`Forgetron`: "self-tuned", "basic", "greedy"',
    "mistakes",
    "k(x, x) <= 1, B >= 83, ||g|| <= U(B)",
)
def forgetron(norm: float, losses: float, budget: int, radius: float = 1.0, *, check: Check = True) -> float:
    """Return 2 ||g||^2 + 4 sum of hinge losses."""
    assume(check, budget >= 83, "a budget of at least 83", budget)
    require_at_most(check, radius, 1.0, "a radius sqrt(k(x, x))")
    require_at_most(check, norm, norm_limit(budget), "a norm of the competitor")
    return 2 * norm**2 + 4 * losses


@theorem(
    "Forgetron paper, Lemma 6",
    '`Forgetron`: "self-tuned", "basic", "greedy"',
    "mistakes",
    "k(x, x) <= 1, ||g|| <= U of Phi",
)
def forgetron_ledger(
    norm: float,
    losses: float,
    log_shrinking: float,
    damage: float,
    radius: float = 1.0,
    *,
    check: Check = True,
) -> float:
    """Return ||g||^2 (1 - sum of log Phi) + 2 sum of hinge losses + the sum of psi, for any budget.

    This is no guarantee in advance: the bound depends on the ledger of the run. See `log_shrinking`.
    """
    return shrinking_perceptron(norm, losses, log_shrinking, radius, check=check) + damage


@theorem(
    "Sutskever's paper, Theorem 2",
    '`Forgetron`: "simplified"',
    "mistakes",
    "k(x, x) <= 1, B >= 500, all ||g_t|| <= U / 2",
)
def simplified_forgetron(
    norm: float, losses: float, budget: int, shift: float = 0.0, radius: float = 1.0, *, check: Check = True
) -> float:
    """Return 2 (sum of hinge losses + 16 U^2 + 48 U S), with S the total drift of the competitor."""
    assume(check, budget >= 500, "a budget of at least 500", budget)
    U = drift_limit(budget)
    require_at_most(check, radius, 1.0, "a radius sqrt(k(x, x))")
    require_at_most(check, norm, U / 2, "a norm of the competitor")
    return 2 * (losses + 16 * U**2 + 48 * U * shift)


@theorem(
    "Sutskever's paper, Theorem 1",
    '`RandomizedBudgetPerceptron`: "modified"',
    "expected mistakes",
    "k(x, x) <= 1, all ||g_t|| <= sqrt(B) / 8",
)
def modified_randomized_budget(
    norm: float, losses: float, budget: int, shift: float = 0.0, radius: float = 1.0, *, check: Check = True
) -> float:
    """Return 4/3 (sum of hinge losses + B / 2 + 6 S sqrt(B)), with S the total drift of the competitor."""
    require_at_most(check, radius, 1.0, "a radius sqrt(k(x, x))")
    require_at_most(check, norm, sqrt(budget) / 8, "a norm of the competitor")
    return 4 / 3 * (losses + budget / 2 + 6 * shift * sqrt(budget))


@theorem(
    "Sutskever's paper, Lemma 1",
    "gradient descent with errors in the gradient",
    "regret",
    "a convex set of this diameter, convex losses",
)
def gradient_descent(
    diameter: float,
    eta: float,
    rounds: int,
    gradient: float,
    errors: float = 0.0,
    shift: float = 0.0,
    *,
    check: Check = True,
) -> float:
    """Return U^2 / (2 eta) + 3 U S / (2 eta) + T eta G^2 / 2 + U E."""
    assume(check, eta > 0, "an eta above 0", eta)
    return (
        (diameter**2 + 3 * diameter * shift) / (2 * eta) + rounds * eta * gradient**2 / 2 + diameter * errors
    )


@theorem("Projectron paper, Theorem 2", "`Projectron(eta=...)`", "mistakes", "eta < (2 - R^2) / (2 ||g||)")
def projectron(norm: float, losses: float, eta: float, radius: float = 1.0, *, check: Check = True) -> float:
    """Return (||g||^2 + 2 sum of hinge losses) / (2 - R^2 - 2 eta ||g||), R the largest sqrt(k(x, x))."""
    left = 2 - radius**2 - 2 * eta * norm
    assume(check, left > 0, "a 2 - R^2 - 2 eta ||g|| above 0", left)
    return (norm**2 + 2 * losses) / left if left > 0 else inf


@theorem("Projectron paper, Theorem 3", "`Projectron(eta=...)`", "mistakes", "eta < 1 / ||g||")
def projectron_root(
    norm: float, losses: float, eta: float, radius: float = 1.0, *, check: Check = True
) -> float:
    """Return ((R ||g|| + sqrt(R^2 ||g||^2 + 4 sum of hinge losses)) / (2 (1 - eta ||g||)))^2."""
    left = 1 - eta * norm
    assume(check, left > 0, "a 1 - eta ||g|| above 0", left)
    root = radius * norm + sqrt((radius * norm) ** 2 + 4 * losses)
    return (root / (2 * left)) ** 2 if left > 0 else inf


@theorem(
    "Projectron paper, Corollary 1", "`Projectron(norm_bound=...)`", "mistakes", "k(x, x) <= 1, ||g|| <= U"
)
def projectron_norm_bound(
    norm: float, losses: float, norm_bound: float, radius: float = 1.0, *, check: Check = True
) -> float:
    """Return 2 ||g||^2 + 4 sum of hinge losses."""
    require_at_most(check, radius, 1.0, "a radius sqrt(k(x, x))")
    require_at_most(check, norm, norm_bound, "a norm of the competitor")
    return 2 * norm**2 + 4 * losses


@theorem("Projectron paper, eq. 15", "`ProjectronPlusPlus`", "mistakes", "k(x, x) <= 1, ||g|| <= U")
def projectron_plus_plus(
    norm: float,
    losses: float,
    progress: float,
    norm_bound: float,
    radius: float = 1.0,
    *,
    check: Check = True,
) -> float:
    """Return 2 (||g||^2 + 2 sum of hinge losses - the sum of beta)."""
    return projectron_norm_bound(norm, losses, norm_bound, radius, check=check) - 2 * progress
