"""Bounds of the learners with a budget, and of those that shrink or project."""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
from numpy.typing import ArrayLike

from budgetron.bounds._perceptron import perceptron
from budgetron.bounds._statement import ROUNDING, Check, assume, require_at_most, theorem


def norm_limit(budget: int) -> float:
    """Return U, the largest norm of a competitor of the Forgetron: 1/4 sqrt((B + 1) / log(B + 1)).

    Forgetron paper, eq. 26.
    """
    return 0.25 * sqrt((budget + 1) / log(budget + 1))


@theorem("Forgetron paper, Corollary 1", "`RemoveOldestPerceptron`", "mistakes", "k(x, x) <= 1")
def remove_oldest(
    norm: float, losses: float, damage: float, radius: float = 1.0, *, check: Check = True
) -> float:
    """Return ||g||^2 + 2 sum of hinge losses + the sum of psi.

    This is no guarantee in advance, because nothing bounds the damage psi of the removals.
    """
    return perceptron(norm, losses, radius, check=check) + damage


@theorem(
    "Forgetron paper, Corollary 1, summed over the classes",
    "`SharedBudgetPerceptron`, more than two classes",
    "mistakes",
    "k(x, x) <= 1",
)
def shared_budget(
    norm: float, losses: float, damage: float, radius: float = 1.0, *, check: Check = True
) -> float:
    """Return the sum of ||g_c||^2 + 2 (hinge losses of g_c) over the classes c, plus the sum of psi.

    There is a competitor g_c for each class, which separates it from the others. `norm` is the root of the
    sum of ||g_c||^2, and `losses` the sum of all hinge losses. The function of each class is that of a
    `RemoveOldestPerceptron`: it changes in the rounds in which it errs, and by removals. In a mistake, the
    function of the row's class is not positive, or that of another class is positive: at least one errs.
    """
    return remove_oldest(norm, losses, damage, radius, check=check)


@theorem("Guide to fleets, the theorem there", "`fleet.Fleet`", "mistakes of a key", "k(x, x) <= 1")
def removals_at_any_time(
    norm: float, losses: float, damage: float, shrinking: float, radius: float = 1.0, *, check: Check = True
) -> float:
    """Return ||g||^2 (1 + B) + 2 sum of hinge losses + Q, if supports may be removed at any time.

    `damage` is Q, the sum of the damage psi of all removals. `shrinking` is B, the sum of
    (1 - phi) / (1 + phi) over all factors phi by which the hypothesis was multiplied.
    """
    return perceptron(norm, losses, radius, check=check) + norm**2 * shrinking + damage


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
    phi : array-like
        The factors by which the hypothesis was shrunk: the ledger's ``phi`` in the rounds with a mistake.
    norms : array-like
        The norm of the hypothesis right after each shrinking and before a removal. For the Forgetron this is
        the ledger's ``phi * step_norm`` in these rounds. For the `ShrinkingPerceptron`, which removes
        nothing, it is also the ledger's ``norm``. The Forgetron's ``norm`` would be wrong here: it is the
        norm after the removal.
    limit : float
        U. Shrinking a hypothesis that stays outside this ball costs nothing.

    Examples
    --------
    >>> from budgetron import Forgetron, bounds, streams
    >>> X, y = streams.two_gaussians(2000, random_state=0)
    >>> trace = Forgetron(20, gamma=0.5).progressive_fit(X, y, ledger=True)
    >>> ledger = {name: column[trace.mistakes] for name, column in trace.ledger.items()}
    >>> shrinking = bounds.log_shrinking(ledger["phi"], ledger["phi"] * ledger["step_norm"], limit=2.0)
    >>> shrinking <= 0
    True
    """
    phi, after = np.asarray(phi, float), np.asarray(norms, float)
    before = after / phi
    effective = np.where(after >= limit, 1.0, np.where(before <= limit, phi, after / limit if limit else 1.0))
    return float(np.log(effective).sum())


@theorem(
    "Forgetron paper, Theorems 2 and 3",
    '`Forgetron`: all but "simplified"',
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
    '`Forgetron`: all but "simplified"',
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


@theorem(
    "Liao et al. (2024), our proof and constants",
    "`Ahpatron`",
    "mistakes",
    "eta^2 R^2 + 2 (||g|| + eta R)^2 / B <= 2 eta epsilon",
)
def ahpatron(
    norm: float,
    losses: float,
    budget: int,
    epsilon: float,
    eta: float,
    radius: float = 1.0,
    *,
    check: Check = True,
) -> float:
    """Return (||g||^2 + 2 eta sum of hinge losses) / (2 eta - eta^2 R^2 - 2 (||g|| + eta R)^2 / B).

    A step changes ||f - g||^2 by -2 eta (y g(x) - y f(x)) + eta^2 k(x, x). This is at most
    eta^2 R^2 - 2 eta (1 - loss of g) on a mistake, and eta^2 R^2 - 2 eta (epsilon - loss of g) on another
    update. A projection before the step removes e, orthogonal to the hypothesis that is left. It adds
    2 <g, e> - ||e||^2, and -2 eta y e(x), because the step then starts from f - e. The sum of both is at most
    (||g|| + eta R)^2. A projection frees half of the budget, so that there are at most 2 / B projections per
    update. Limiting ||f|| to at least ||g|| does not increase the distance. The sum of all changes is at
    least -||g||^2. By the assumption, updates that are no mistakes do not increase the bound.
    """
    cost = eta**2 * radius**2 + 2 * (norm + eta * radius) ** 2 / budget
    assume(
        check,
        cost <= 2 * eta * epsilon * (1 + ROUNDING),
        f"an eta^2 R^2 + 2 (||g|| + eta R)^2 / B of at most {2 * eta * epsilon:.6g}",
        cost,
    )
    left = 2 * eta - cost
    assume(check, left > 0, "a 2 eta - eta^2 R^2 - 2 (||g|| + eta R)^2 / B above 0", left)
    return (norm**2 + 2 * eta * losses) / left if left > 0 else inf


@theorem("Liao et al. (2024), our proof and constants, on the ledger", "`Ahpatron`", "mistakes")
def ahpatron_ledger(
    norm: float,
    losses: float,
    eta: float,
    squares: float,
    errors: ArrayLike,
    excess: float = 0.0,
    radius: float = 1.0,
    *,
    check: Check = True,
) -> float:
    """Return the bound of the proof of `ahpatron` for the updates and errors of a run, for any budget.

    It is no guarantee in advance, because it contains quantities of the run.

    Parameters
    ----------
    norm, losses : float
        ||g||, and the sum of its hinge losses over the updates.
    eta : float
    squares : float
        The sum of k(x, x) over the updates.
    errors : array-like
        The norm of what each projection removed.
    excess : float
        The sum of 1 - y f(x) over the updates, minus the number of mistakes.
    radius : float
        R, the largest sqrt(k(x, x)).
    """
    error = np.asarray(errors, float)
    projections = float(np.sum(2 * (norm + eta * radius) * error - error**2))
    changes = norm**2 + eta**2 * squares + projections
    return losses + changes / (2 * eta) - excess
