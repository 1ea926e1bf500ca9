"""The theorems: every mistake, regret and risk bound of the papers as a function of its quantities.

In all of them `norm` is ||g|| of the competitor, `losses` the sum of its hinge losses
max(0, 1 - y g(x)) over the stream, and `radius` the largest ||x||, or sqrt(k(x, x)).

What a theorem assumes is checked, and raises `AssumptionError` if it is not so. With
``check=False`` the number is what the formula gives, NaN where it gives none, and no theorem says
it. If `check` is a list, each assumption is appended to it as an `Assumption`, and nothing raises.
`THEOREMS` lists them all, as does the page *The theorems* of the documentation.

Examples
--------
>>> from budgetron import bounds
>>> bounds.perceptron(norm=3.0, losses=10.0)
29.0
>>> bounds.forgetron(norm=3.0, losses=10.0, budget=50)
Traceback (most recent call last):
    ...
budgetron.bounds.AssumptionError: a budget of at least 83 is assumed; it is 50
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from math import exp, inf, log, log2, nan, sqrt
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

__all__ = [
    "THEOREMS",
    "Assumption",
    "AssumptionError",
    "Theorem",
    "drift_limit",
    "log_shrinking",
    "norm_limit",
]  # and each theorem, below

# What a run computed may miss a limit by rounding, of float32 rows if it must be.
ROUNDING = 1e-6


class AssumptionError(ValueError):
    """What a theorem assumes is not so, and it says nothing."""


@dataclass(frozen=True)
class Assumption:
    """Something that a theorem assumes, and whether it is so."""

    text: str
    value: float
    holds: bool

    def __str__(self) -> str:
        return f"{self.text} is assumed; it is {self.value:.6g}"


@dataclass(frozen=True)
class Theorem:
    """Where a bound is stated, for which learner, and what it bounds under which assumptions."""

    name: str
    source: str
    learner: str
    quantity: str
    assumptions: str
    function: Callable[..., float]


Check = bool | list[Assumption]
F = TypeVar("F", bound=Callable[..., float])
THEOREMS: dict[str, Theorem] = {}


def _assume(check: Check, holds: bool, text: str, value: float) -> None:
    assumption = Assumption(text, float(value), bool(holds))
    if isinstance(check, list):
        check.append(assumption)
    elif check and not holds:
        raise AssumptionError(str(assumption))


def _at_most(check: Check, value: float, limit: float, what: str) -> None:
    _assume(check, value <= limit * (1 + ROUNDING), f"{what} of at most {limit:.6g}", value)


def _root(square: float) -> float:
    return sqrt(square) if square >= 0 else nan


def _state(source: str, learner: str, quantity: str, assumptions: str = "none") -> Callable[[F], F]:
    """Enter a function in the list of theorems."""

    def register(function: F) -> F:
        @wraps(function)
        def bound(*args: Any, **kwargs: Any) -> float:
            try:
                return function(*args, **kwargs)
            except (ZeroDivisionError, OverflowError, ValueError) as error:
                if isinstance(error, AssumptionError):
                    raise
                if kwargs.get("check", True) is True:
                    raise AssumptionError(f"{function.__name__} is not defined there: {error}") from error
                return nan

        THEOREMS[function.__name__] = Theorem(
            function.__name__, source, learner, quantity, assumptions, bound
        )
        __all__.append(function.__name__)
        return cast(F, bound)

    return register


def norm_limit(budget: int) -> float:
    """U of 003 (26): the largest norm of a competitor, 1/4 sqrt((B + 1) / log(B + 1))."""
    return 0.25 * sqrt((budget + 1) / log(budget + 1))


def drift_limit(budget: int) -> float:
    """U of 000 (12): the simplified Forgetron competes up to half this norm, sqrt(B / (32 log2(8 B)))."""
    return sqrt(budget / (32 * log2(8 * budget)))


# ---------------------------------------------------------------------- the Perceptron


@_state(
    "001 Theorem 1, 004 Theorem 8.8",
    "`linear.Perceptron`, `KernelPerceptron`",
    "mistakes",
    "separable by `margin` > 0",
)
def perceptron_separable(radius: float, margin: float, *, check: Check = True) -> float:
    """(r / rho)^2, if some g of norm 1 has y g(x) >= `margin` on all rounds."""
    _assume(check, margin > 0, "a margin above 0", margin)
    return (radius / margin) ** 2 if margin > 0 else inf


@_state(
    "001 Theorem 2",
    "`linear.Perceptron(normalize=True)`",
    "mistakes",
    "separable by `margin` > 0 after normalizing",
)
def normalized_perceptron(margin: float, *, check: Check = True) -> float:
    """1 / gamma_n^2, with the margin of the rows divided by their lengths."""
    return perceptron_separable(1.0, margin, check=check)


@_state(
    "001 section 3",
    "`linear.Perceptron`",
    "mistakes",
    "rows of -1 and +1; `relevant` odd, at most `features`",
)
def majority_perceptron(features: int, relevant: int, *, check: Check = True) -> float:
    """n r: a majority vote of r of n features, all -1 or +1."""
    _assume(check, relevant % 2 == 1 and relevant > 0, "an odd number of relevant features", relevant)
    _assume(check, relevant <= features, f"a number of relevant features of at most {features}", relevant)
    return float(features * relevant)


@_state("003 Theorem 1", "`KernelPerceptron`, `linear.Perceptron`", "mistakes", "k(x, x) <= 1")
def perceptron(norm: float, losses: float, radius: float = 1.0, *, check: Check = True) -> float:
    """||g||^2 + 2 sum of hinge losses."""
    _at_most(check, radius, 1.0, "a radius sqrt(k(x, x))")
    return norm**2 + 2 * losses


@_state("004 Theorem 8.11", "`linear.Perceptron`, `KernelPerceptron`", "updates")
def perceptron_l1(radius: float, rho: float, losses: float, *, check: Check = True) -> float:
    """((r / rho + sqrt((r / rho)^2 + 4 L)) / 2)^2.

    L is the sum of max(0, 1 - y g(x) / rho) over the updates, for a g of norm 1.
    """
    _assume(check, rho > 0, "a rho above 0", rho)
    ratio = radius / rho
    return ((ratio + sqrt(ratio**2 + 4 * losses)) / 2) ** 2


@_state("004 Theorem 8.11, second inequality", "`linear.Perceptron`, `KernelPerceptron`", "updates")
def perceptron_l1_loose(radius: float, rho: float, losses: float, *, check: Check = True) -> float:
    """(r / rho + sqrt(L))^2, with L as in `perceptron_l1`."""
    _assume(check, rho > 0, "a rho above 0", rho)
    return (radius / rho + sqrt(losses)) ** 2


@_state("004 Theorem 8.12", "`linear.Perceptron`, `KernelPerceptron`", "updates")
def perceptron_l2(radius: float, rho: float, losses: float, *, check: Check = True) -> float:
    """(r / rho + L)^2.

    L is the root of the sum of max(0, 1 - y g(x) / rho)^2 over the updates, for a g of norm 1.
    """
    _assume(check, rho > 0, "a rho above 0", rho)
    return (radius / rho + losses) ** 2


@_state("004 Theorem 8.11", "`linear.Perceptron`, `KernelPerceptron`", "updates")
def perceptron_l1_infimum(radius: float, margins: ArrayLike, *, check: Check = True) -> float:
    """`perceptron_l1` at the best rho, given y g(x) of the updates for a g of norm 1.

    As a function of 1 / rho it has no stationary point between two of the values
    1 / margin, so that the infimum is at one of these or in the limit of large rho.
    """
    margins = np.sort(np.asarray(margins, float))
    count, below = len(margins), np.cumsum(margins)
    # rho -> infinity: the losses are 1 each
    values = [float(count)]
    for i in np.flatnonzero(margins > 0):  # the losses at rho = margins[i] are those of the smaller ones
        losses = max(0.0, i - (below[i] - margins[i]) / margins[i])
        values.append(perceptron_l1(radius, float(margins[i]), float(losses), check=False))
    return min(values)


@_state("004 Theorem 8.12", "`linear.Perceptron`, `KernelPerceptron`", "updates")
def perceptron_l2_infimum(radius: float, margins: ArrayLike, *, check: Check = True) -> float:
    """`perceptron_l2` at the best rho, given y g(x) of the updates for a g of norm 1.

    Its root is convex in 1 / rho.
    """
    margins = np.asarray(margins, float)

    def root(u: float) -> float:
        return radius * u + float(np.linalg.norm(np.maximum(0.0, 1.0 - margins * u)))

    corners = np.unique(np.append(0.0, 1.0 / margins[margins > 1e-300]))
    if len(corners) > 500:  # enough to see where the least one is
        corners = corners[np.linspace(0, len(corners) - 1, 500).astype(int)]
    least = int(np.argmin([root(u) for u in corners]))
    low, high = corners[max(0, least - 1)], corners[min(len(corners) - 1, least + 1)]
    found = root(corners[least])
    if high > low:
        found = min(found, float(minimize_scalar(root, bounds=(low, high), method="bounded").fun))
    return found**2


@_state(
    "004 exercise 8.6", "`linear.MarginPerceptron`", "updates", "separable by `margin` > 0, the learner's own"
)
def margin_perceptron(radius: float, margin: float, *, check: Check = True) -> float:
    """16 (r / rho)^2, if some g of norm 1 has y g(x) >= `margin` on all rounds."""
    return 16 * perceptron_separable(radius, margin, check=check)


@_state(
    "004 Theorem 8.13, with its eta = rho / r^2",
    "`linear.Winnow`",
    "updates",
    "separable by g >= 0, sum of g = 1, with `margin` > 0",
)
def winnow(radius: float, margin: float, features: int, *, check: Check = True) -> float:
    """2 (r / rho)^2 log n, with r the largest |x_i| (and 2 n for n if balanced)."""
    _assume(check, margin > 0, "a margin above 0", margin)
    return 2 * (radius / margin) ** 2 * log(features) if margin > 0 else inf


@_state("004 Theorem 8.13, any eta", "`linear.Winnow`", "updates", "as above, and eta < 2 rho / r^2")
def winnow_general(radius: float, margin: float, features: int, eta: float, *, check: Check = True) -> float:
    """log n / (eta rho - eta^2 r^2 / 2), from the end of the theorem's proof."""
    _assume(check, margin > 0, "a margin above 0", margin)
    gain = eta * margin - eta**2 * radius**2 / 2
    _assume(check, gain > 0, "an eta rho - eta^2 r^2 / 2 above 0", gain)
    return log(features) / gain if gain > 0 else inf


# ---------------------------------------------------------------------- on a budget


@_state("003 Corollary 1", "`RemoveOldestPerceptron`", "mistakes", "k(x, x) <= 1")
def remove_oldest(
    norm: float, losses: float, damage: float, radius: float = 1.0, *, check: Check = True
) -> float:
    """||g||^2 + 2 sum of hinge losses + the sum of psi.

    No guarantee beforehand, for nothing bounds the damage psi of the removals.
    """
    return perceptron(norm, losses, radius, check=check) + damage


@_state("003 section 4", "`ShrinkingPerceptron`", "mistakes", "k(x, x) <= 1, ||g|| <= U of Phi")
def shrinking_perceptron(
    norm: float, losses: float, log_shrinking: float, radius: float = 1.0, *, check: Check = True
) -> float:
    """||g||^2 (1 - sum of log Phi) + 2 sum of hinge losses; see `log_shrinking`."""
    _at_most(check, radius, 1.0, "a radius sqrt(k(x, x))")
    return norm**2 * (1 - log_shrinking) + 2 * losses


def log_shrinking(phi: ArrayLike, norms: ArrayLike, limit: float) -> float:
    """The sum of log Phi of 003 eq. 24, for competitors of norm at most `limit`.

    Parameters
    ----------
    phi, norms : array-like
        The ledger's entries for the mistakes: shrinking factors, and ||f|| after each.
    limit : float
        U. Shrinking what stays outside this ball costs nothing.
    """
    phi, after = np.asarray(phi, float), np.asarray(norms, float)
    before = after / phi
    effective = np.where(after >= limit, 1.0, np.where(before <= limit, phi, after / limit if limit else 1.0))
    return float(np.log(effective).sum())


@_state(
    "003 Theorems 2 and 3",
    '`Forgetron`: "self-tuned", "basic", "greedy"',
    "mistakes",
    "k(x, x) <= 1, B >= 83, ||g|| <= U(B)",
)
def forgetron(norm: float, losses: float, budget: int, radius: float = 1.0, *, check: Check = True) -> float:
    """2 ||g||^2 + 4 sum of hinge losses."""
    _assume(check, budget >= 83, "a budget of at least 83", budget)
    _at_most(check, radius, 1.0, "a radius sqrt(k(x, x))")
    _at_most(check, norm, norm_limit(budget), "a norm of the competitor")
    return 2 * norm**2 + 4 * losses


@_state(
    "003 Lemma 6",
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
    """||g||^2 (1 - sum of log Phi) + 2 sum of hinge losses + the sum of psi, for any budget.

    No guarantee beforehand: it speaks of what the run's own ledger says. See `log_shrinking`.
    """
    return shrinking_perceptron(norm, losses, log_shrinking, radius, check=check) + damage


@_state(
    "000 Theorem 2", '`Forgetron`: "simplified"', "mistakes", "k(x, x) <= 1, B >= 500, all ||g_t|| <= U / 2"
)
def simplified_forgetron(
    norm: float, losses: float, budget: int, shift: float = 0.0, radius: float = 1.0, *, check: Check = True
) -> float:
    """2 (sum of hinge losses + 16 U^2 + 48 U S), S the way that the competitor drifts in all."""
    _assume(check, budget >= 500, "a budget of at least 500", budget)
    U = drift_limit(budget)
    _at_most(check, radius, 1.0, "a radius sqrt(k(x, x))")
    _at_most(check, norm, U / 2, "a norm of the competitor")
    return 2 * (losses + 16 * U**2 + 48 * U * shift)


@_state(
    "000 Theorem 1",
    '`RandomizedBudgetPerceptron`: "modified"',
    "expected mistakes",
    "k(x, x) <= 1, all ||g_t|| <= sqrt(B) / 8",
)
def modified_randomized_budget(
    norm: float, losses: float, budget: int, shift: float = 0.0, radius: float = 1.0, *, check: Check = True
) -> float:
    """4/3 (sum of hinge losses + B / 2 + 6 S sqrt(B)), S the way that the competitor drifts in all."""
    _at_most(check, radius, 1.0, "a radius sqrt(k(x, x))")
    _at_most(check, norm, sqrt(budget) / 8, "a norm of the competitor")
    return 4 / 3 * (losses + budget / 2 + 6 * shift * sqrt(budget))


@_state(
    "000 Lemma 1",
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
    """U^2 / (2 eta) + 3 U S / (2 eta) + T eta G^2 / 2 + U E."""
    _assume(check, eta > 0, "an eta above 0", eta)
    return (
        (diameter**2 + 3 * diameter * shift) / (2 * eta) + rounds * eta * gradient**2 / 2 + diameter * errors
    )


@_state("002 Theorem 2", "`Projectron(eta=...)`", "mistakes", "eta < (2 - R^2) / (2 ||g||)")
def projectron(norm: float, losses: float, eta: float, radius: float = 1.0, *, check: Check = True) -> float:
    """(||g||^2 + 2 sum of hinge losses) / (2 - R^2 - 2 eta ||g||), R the largest sqrt(k(x, x))."""
    left = 2 - radius**2 - 2 * eta * norm
    _assume(check, left > 0, "a 2 - R^2 - 2 eta ||g|| above 0", left)
    return (norm**2 + 2 * losses) / left if left > 0 else inf


@_state("002 Theorem 3", "`Projectron(eta=...)`", "mistakes", "eta < 1 / ||g||")
def projectron_root(
    norm: float, losses: float, eta: float, radius: float = 1.0, *, check: Check = True
) -> float:
    """((R ||g|| + sqrt(R^2 ||g||^2 + 4 sum of hinge losses)) / (2 (1 - eta ||g||)))^2."""
    left = 1 - eta * norm
    _assume(check, left > 0, "a 1 - eta ||g|| above 0", left)
    root = radius * norm + sqrt((radius * norm) ** 2 + 4 * losses)
    return (root / (2 * left)) ** 2 if left > 0 else inf


@_state("002 Corollary 1", "`Projectron(norm_bound=...)`", "mistakes", "k(x, x) <= 1, ||g|| <= U")
def projectron_norm_bound(
    norm: float, losses: float, norm_bound: float, radius: float = 1.0, *, check: Check = True
) -> float:
    """2 ||g||^2 + 4 sum of hinge losses."""
    _at_most(check, radius, 1.0, "a radius sqrt(k(x, x))")
    _at_most(check, norm, norm_bound, "a norm of the competitor")
    return 2 * norm**2 + 4 * losses


@_state("002 eq. 15", "`ProjectronPlusPlus`", "mistakes", "k(x, x) <= 1, ||g|| <= U")
def projectron_plus_plus(
    norm: float,
    losses: float,
    progress: float,
    norm_bound: float,
    radius: float = 1.0,
    *,
    check: Check = True,
) -> float:
    """2 (||g||^2 + 2 sum of hinge losses - the sum of beta)."""
    return projectron_norm_bound(norm, losses, norm_bound, radius, check=check) - 2 * progress


# ---------------------------------------------------------------------- expert advice


@_state("004 Theorem 8.1", "`experts.Halving`", "mistakes", "one expert is never wrong")
def halving(experts: int, *, check: Check = True) -> float:
    """log2 N."""
    return log2(experts)


@_state("004 Theorem 8.3", "`experts.WeightedMajority`", "mistakes", "0 < beta < 1")
def weighted_majority(experts: int, beta: float, best: float, *, check: Check = True) -> float:
    """(log N + m* log(1 / beta)) / log(2 / (1 + beta)), m* the mistakes of the best expert."""
    _assume(check, 0 < beta < 1, "a beta between 0 and 1", beta)
    return (log(experts) + best * log(1 / beta)) / log(2 / (1 + beta))


@_state(
    "004 Theorem 8.4, eq. 8.9",
    "`experts.RandomizedWeightedMajority`",
    "loss",
    "1/2 <= beta < 1, losses 0 or 1",
)
def randomized_weighted_majority(experts: int, beta: float, best: float, *, check: Check = True) -> float:
    """log N / (1 - beta) + (2 - beta) L*, L* the loss of the best expert."""
    _assume(check, 0.5 <= beta < 1, "a beta from 1/2 to below 1", beta)
    return log(experts) / (1 - beta) + (2 - beta) * best


@_state(
    "004 eq. 8.12", "`experts.RandomizedWeightedMajority`", "regret", "beta = max(1/2, 1 - sqrt(log N / T))"
)
def randomized_weighted_majority_tuned(experts: int, rounds: int, *, check: Check = True) -> float:
    """2 sqrt(T log N)."""
    return 2 * sqrt(rounds * log(experts))


@_state(
    "004 Theorem 8.6, eq. 8.15",
    "`experts.ExponentialWeights(eta=number)`",
    "regret",
    "convex losses in [0, 1]",
)
def exponential_weights(experts: int, rounds: int, eta: float | None = None, *, check: Check = True) -> float:
    """log N / eta + eta T / 8; without eta at the best, sqrt(8 log N / T): sqrt(T log(N) / 2)."""
    if eta is None:
        return sqrt(rounds / 2 * log(experts))
    _assume(check, eta > 0, "an eta above 0", eta)
    return log(experts) / eta + eta * rounds / 8


@_state(
    "004 Theorem 8.7", '`experts.ExponentialWeights(eta="doubling")`', "regret", "convex losses in [0, 1]"
)
def exponential_weights_doubling(experts: int, rounds: int, *, check: Check = True) -> float:
    """sqrt(2) / (sqrt(2) - 1) sqrt(T log(N) / 2) + sqrt(log(N) / 2)."""
    return sqrt(2) / (sqrt(2) - 1) * sqrt(rounds / 2 * log(experts)) + sqrt(log(experts) / 2)


@_state(
    "Cesa-Bianchi, Lugosi (2006) Theorem 2.3",
    '`experts.ExponentialWeights(eta="anytime")`, `BudgetClassifier`',
    "regret",
    "convex losses in [0, 1]",
)
def exponential_weights_anytime(experts: int, rounds: int, *, check: Check = True) -> float:
    """2 sqrt(T log(N) / 2) + sqrt(log(N) / 8), for rates sqrt(8 log(N) / t); 004 Theorem 8.7 gives more."""
    return 2 * sqrt(rounds / 2 * log(experts)) + sqrt(log(experts) / 8)


@_state("004 exercise 8.7", "`experts.Prod`", "regret", "1/2 <= beta < 1, losses in [0, 1]")
def prod(experts: int, rounds: int, beta: float | None = None, *, check: Check = True) -> float:
    """log N / (1 - beta) + (1 - beta) T; without beta at the best, 2 sqrt(T log N)."""
    return prod_general(experts, rounds, beta, 1.0, check=check)


@_state(
    "004 exercise 8.7 (c), before T bounds the squares",
    "`experts.Prod`",
    "regret",
    "1/2 <= beta < 1, losses in [0, 1]",
)
def prod_second_order(experts: int, beta: float, squares: float, *, check: Check = True) -> float:
    """log N / (1 - beta) + (1 - beta) sum of the squared losses of the best expert."""
    _assume(check, 0.5 <= beta < 1, "a beta from 1/2 to below 1", beta)
    return log(experts) / (1 - beta) + (1 - beta) * squares


@_state(
    "004 exercise 8.9",
    "`experts.Prod`",
    "regret",
    "0 < alpha < 2, 1 - beta <= 1 - alpha / 2, losses in [0, 1]",
)
def prod_general(
    experts: int, rounds: int, beta: float | None, alpha: float, *, check: Check = True
) -> float:
    """log N / (1 - beta) + (1 - beta) T / alpha; without beta at the best, 2 sqrt(T log(N) / alpha)."""
    _assume(check, 0 < alpha < 2, "an alpha between 0 and 2", alpha)
    rate = sqrt(alpha * log(experts) / rounds) if beta is None else 1 - beta
    _assume(check, 0 < rate <= 1 - alpha / 2, f"a 1 - beta above 0 and of at most {1 - alpha / 2:.6g}", rate)
    return log(experts) / rate + rate * rounds / alpha


@_state(
    "004 exercise 8.8", "`experts.PolynomialWeights`", "regret", "alpha > 2, convex losses in [0, `largest`]"
)
def polynomial_weights(
    experts: int, rounds: int, alpha: float | None, largest: float = 1.0, *, check: Check = True
) -> float:
    """M sqrt((alpha - 1) T) N^(1 / alpha); without alpha at 2 log N: M sqrt(e (2 log N - 1) T)."""
    alpha = 2 * log(experts) if alpha is None else alpha
    _assume(check, alpha > 2, "an alpha above 2", alpha)
    return largest * sqrt((alpha - 1) * rounds) * exp(log(experts) / alpha)


# ---------------------------------------------------------------------- what nobody can do better


@_state("004 exercise 8.1", "`linear.Perceptron`", "updates, at least", "the stream `streams.exponential`")
def exponential_updates(features: int, *, check: Check = True) -> float:
    """2^(N - 1): the last weight must exceed the sum of all others, and all are whole numbers."""
    return 2.0 ** (features - 1)


@_state(
    "004 Theorem 8.5", "any, with two experts", "expected regret, at least", "the losses `streams.coin_flips`"
)
def coin_flips(rounds: int, *, check: Check = True) -> float:
    """sqrt(T / 8) (the theorem prints sqrt(T) / 8; the last step of its proof gives this)."""
    return sqrt(rounds / 8)


@_state(
    "004 section 8.2.3",
    "any deterministic, with two experts",
    "regret, at least",
    "outcomes by `streams.contradict`",
)
def contradicted(rounds: int, *, check: Check = True) -> float:
    """T / 2: all T rounds are mistakes, and one of two opposite experts is right in half of them."""
    return rounds / 2


@_state("004 Theorem 8.2", "any", "mistakes of the best algorithm, at least", "")
def best_possible(vc_dimension: int, *, check: Check = True) -> float:
    """The VC dimension of the hypotheses; `halving` is at most log2 of their number from it."""
    return float(vc_dimension)


@_state("003 section 2", "any, on a budget", "norm of a competitor, below", "")
def budget_norm_limit(budget: int, *, check: Check = True) -> float:
    """sqrt(B + 1): against this norm, `streams.UnitVectors` makes every round a mistake."""
    return sqrt(budget + 1)


# ---------------------------------------------------------------------- from the stream to the next row


@_state(
    "004 Lemma 8.14 and Theorem 8.15, eq. 8.27",
    "`batch.AveragedClassifier`",
    "risk",
    "rows a sample; a convex loss in [0, `largest`]",
)
def averaged_risk(
    losses: float, rounds: int, delta: float, largest: float = 1.0, *, check: Check = True
) -> float:
    """sum of the losses / T + M sqrt(2 log(1 / delta) / T), with probability 1 - delta."""
    _assume(check, 0 < delta < 1, "a delta between 0 and 1", delta)
    return losses / rounds + largest * _root(2 * log(1 / delta) / rounds)


@_state(
    "004 Theorem 8.15, eq. 8.28",
    "`batch.AveragedClassifier`",
    "risk",
    "rows a sample; a convex loss in [0, `largest`]",
)
def averaged_risk_by_regret(
    best: float, regret: float, rounds: int, delta: float, largest: float = 1.0, *, check: Check = True
) -> float:
    """least risk + R_T / T + 2 M sqrt(2 log(2 / delta) / T), with probability 1 - delta."""
    _assume(check, 0 < delta < 1, "a delta between 0 and 1", delta)
    return best + regret / rounds + 2 * largest * _root(2 * log(2 / delta) / rounds)


@_state(
    "004 section 8.4, after Theorem 8.15",
    "the average of `experts.ExponentialWeights`",
    "risk",
    "rows a sample; a convex loss in [0, 1]",
)
def exponential_weights_risk(
    best: float, experts: int, rounds: int, delta: float, *, check: Check = True
) -> float:
    """least risk + sqrt(log N / (2 T)) + 2 sqrt(2 log(2 / delta) / T), with probability 1 - delta."""
    regret = exponential_weights(experts, rounds, check=check)
    return averaged_risk_by_regret(best, regret, rounds, delta, check=check)


@_state(
    "004 exercise 8.10, eq. 8.31",
    "`batch.PenalizedRiskClassifier`",
    "risk",
    "rows a sample; a loss in [0, 1]",
)
def penalized_risk(losses: float, rounds: int, delta: float, *, check: Check = True) -> float:
    """sum of the losses / T + 6 sqrt(log(2 (T + 1) / delta) / T), with probability 1 - delta."""
    _assume(check, 0 < delta < 1, "a delta between 0 and 1", delta)
    return losses / rounds + 6 * _root(log(2 * (rounds + 1) / delta) / rounds)


@_state("004 exercise 8.11 (a)", "`KernelPerceptron`", "mistakes")
def perceptron_trace(losses: float, rho: float, self_values: float, *, check: Check = True) -> float:
    """Losses + sqrt(sum of k(x, x) over the updates) / rho.

    The losses are the sum of max(0, 1 - y h(x) / rho) for any h of norm at most 1.
    """
    _assume(check, rho > 0, "a rho above 0", rho)
    return losses + sqrt(self_values) / rho


@_state(
    "004 exercise 8.11 (b)", "`batch.PenalizedRiskClassifier(KernelPerceptron())`", "risk", "rows a sample"
)
def penalized_perceptron_risk(
    losses: float, rho: float, self_values: float, rounds: int, delta: float, *, check: Check = True
) -> float:
    """`perceptron_trace` in place of the mistakes in `penalized_risk`."""
    return penalized_risk(perceptron_trace(losses, rho, self_values, check=check), rounds, delta, check=check)


@_state(
    "004 Theorems 8.9 and 8.10",
    "`linear.Perceptron` run until it stops changing; the SVM",
    "expected risk after one row less",
    "separable by `margin` > 0; the mean over samples of `rows`",
)
def leave_one_out(updates: int, radius: float, margin: float, rows: int, *, check: Check = True) -> float:
    """min(M(S), (r / rho)^2) / m for a sample S of m rows; its mean bounds the mean risk after m - 1.

    For the SVM, the number of support vectors takes the place of the updates M(S).
    """
    return min(float(updates), perceptron_separable(radius, margin, check=check)) / rows


@_state("004 section 8.5", "`games.solve`", "duality gap")
def game_gap(regret: float, rounds: int, *, check: Check = True) -> float:
    """R_T / T."""
    return regret / rounds
