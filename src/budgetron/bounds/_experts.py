"""Bounds of prediction with expert advice."""

from __future__ import annotations

from math import exp, log, log2, sqrt

from budgetron.bounds._statement import Check, assume, theorem


@theorem("Mohri et al., Theorem 8.1", "`experts.Halving`", "mistakes", "one expert is never wrong")
def halving(experts: int, *, check: Check = True) -> float:
    """Return log2 N."""
    return log2(experts)


@theorem("Mohri et al., Theorem 8.3", "`experts.WeightedMajority`", "mistakes", "0 < beta < 1")
def weighted_majority(experts: int, beta: float, best: float, *, check: Check = True) -> float:
    """Return (log N + m* log(1 / beta)) / log(2 / (1 + beta)), m* the mistakes of the best expert."""
    assume(check, 0 < beta < 1, "a beta between 0 and 1", beta)
    return (log(experts) + best * log(1 / beta)) / log(2 / (1 + beta))


@theorem(
    "Mohri et al., Theorem 8.4, eq. 8.9",
    "`experts.RandomizedWeightedMajority`",
    "loss",
    "1/2 <= beta < 1, losses 0 or 1",
)
def randomized_weighted_majority(experts: int, beta: float, best: float, *, check: Check = True) -> float:
    """Return log N / (1 - beta) + (2 - beta) L*, L* the loss of the best expert."""
    assume(check, 0.5 <= beta < 1, "a beta from 1/2 to below 1", beta)
    return log(experts) / (1 - beta) + (2 - beta) * best


@theorem(
    "Mohri et al., eq. 8.12",
    "`experts.RandomizedWeightedMajority`",
    "regret",
    "beta = max(1/2, 1 - sqrt(log N / T))",
)
def randomized_weighted_majority_tuned(experts: int, rounds: int, *, check: Check = True) -> float:
    """Return 2 sqrt(T log N)."""
    return 2 * sqrt(rounds * log(experts))


@theorem(
    "Mohri et al., Theorem 8.6, eq. 8.15",
    "`experts.ExponentialWeights(eta=number)`",
    "regret",
    "convex losses in [0, 1]",
)
def exponential_weights(experts: int, rounds: int, eta: float | None = None, *, check: Check = True) -> float:
    """Return log N / eta + eta T / 8; without eta at the best, sqrt(8 log N / T): sqrt(T log(N) / 2)."""
    if eta is None:
        return sqrt(rounds / 2 * log(experts))
    assume(check, eta > 0, "an eta above 0", eta)
    return log(experts) / eta + eta * rounds / 8


@theorem(
    "Mohri et al., Theorem 8.7",
    '`experts.ExponentialWeights(eta="doubling")`',
    "regret",
    "convex losses in [0, 1]",
)
def exponential_weights_doubling(experts: int, rounds: int, *, check: Check = True) -> float:
    """Return sqrt(2) / (sqrt(2) - 1) sqrt(T log(N) / 2) + sqrt(log(N) / 2)."""
    return sqrt(2) / (sqrt(2) - 1) * sqrt(rounds / 2 * log(experts)) + sqrt(log(experts) / 2)


@theorem(
    "Cesa-Bianchi, Lugosi (2006) Theorem 2.3",
    '`experts.ExponentialWeights(eta="anytime")`, `BudgetClassifier`',
    "regret",
    "convex losses in [0, 1]",
)
def exponential_weights_anytime(experts: int, rounds: int, *, check: Check = True) -> float:
    """Return 2 sqrt(T log(N) / 2) + sqrt(log(N) / 8).

    For rates sqrt(8 log(N) / t). The bound of Mohri et al., Theorem 8.7, is larger.
    """
    return 2 * sqrt(rounds / 2 * log(experts)) + sqrt(log(experts) / 8)


@theorem("Mohri et al., exercise 8.7", "`experts.Prod`", "regret", "1/2 <= beta < 1, losses in [0, 1]")
def prod(experts: int, rounds: int, beta: float | None = None, *, check: Check = True) -> float:
    """Return log N / (1 - beta) + (1 - beta) T; without beta at the best, 2 sqrt(T log N)."""
    return prod_general(experts, rounds, beta, 1.0, check=check)


@theorem(
    "Mohri et al., exercise 8.7 (c), before T bounds the squares",
    "`experts.Prod`",
    "regret",
    "1/2 <= beta < 1, losses in [0, 1]",
)
def prod_second_order(experts: int, beta: float, squares: float, *, check: Check = True) -> float:
    """Return log N / (1 - beta) + (1 - beta) sum of the squared losses of the best expert."""
    assume(check, 0.5 <= beta < 1, "a beta from 1/2 to below 1", beta)
    return log(experts) / (1 - beta) + (1 - beta) * squares


@theorem(
    "Mohri et al., exercise 8.9",
    "`experts.Prod`",
    "regret",
    "0 < alpha < 2, 1 - beta <= 1 - alpha / 2, losses in [0, 1]",
)
def prod_general(
    experts: int, rounds: int, beta: float | None, alpha: float, *, check: Check = True
) -> float:
    """Return log N / (1 - beta) + (1 - beta) T / alpha.

    Without beta it is the value at the best one, 2 sqrt(T log(N) / alpha).
    """
    assume(check, 0 < alpha < 2, "an alpha between 0 and 2", alpha)
    rate = sqrt(alpha * log(experts) / rounds) if beta is None else 1 - beta
    assume(check, 0 < rate <= 1 - alpha / 2, f"a 1 - beta above 0 and of at most {1 - alpha / 2:.6g}", rate)
    return log(experts) / rate + rate * rounds / alpha


@theorem(
    "Mohri et al., exercise 8.8",
    "`experts.PolynomialWeights`",
    "regret",
    "alpha > 2, convex losses in [0, `largest`]",
)
def polynomial_weights(
    experts: int, rounds: int, alpha: float | None, largest: float = 1.0, *, check: Check = True
) -> float:
    """Return M sqrt((alpha - 1) T) N^(1 / alpha); without alpha at 2 log N: M sqrt(e (2 log N - 1) T)."""
    alpha = 2 * log(experts) if alpha is None else alpha
    assume(check, alpha > 2, "an alpha above 2", alpha)
    return largest * sqrt((alpha - 1) * rounds) * exp(log(experts) / alpha)
