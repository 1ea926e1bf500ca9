"""Lower bounds: what no learner can do better."""

from __future__ import annotations

from math import sqrt

from budgetron.bounds._statement import Check, theorem


@theorem(
    "Mohri et al., exercise 8.1",
    "`linear.Perceptron`",
    "updates, at least",
    "the stream `streams.exponential`",
)
def exponential_updates(features: int, *, check: Check = True) -> float:
    """Return 2^(N - 1): the last weight must exceed the sum of all others, and all are whole numbers."""
    return 2.0 ** (features - 1)


@theorem(
    "Mohri et al., Theorem 8.5",
    "any, with two experts",
    "expected regret, at least",
    "the losses `streams.coin_flips`",
)
def coin_flips(rounds: int, *, check: Check = True) -> float:
    """Return sqrt(T / 8) (the theorem prints sqrt(T) / 8; the last step of its proof gives sqrt(T / 8))."""
    return sqrt(rounds / 8)


@theorem(
    "Mohri et al., section 8.2.3",
    "any deterministic, with two experts",
    "regret, at least",
    "outcomes by `streams.contradict`",
)
def contradicted(rounds: int, *, check: Check = True) -> float:
    """Return T / 2: all T rounds are mistakes, and one of two opposite experts is right in half of them."""
    return rounds / 2


@theorem("Mohri et al., Theorem 8.2", "any", "mistakes of the best algorithm, at least", "")
def best_possible(vc_dimension: int, *, check: Check = True) -> float:
    """Return the VC dimension of the hypotheses; `halving` is at most log2 of their number from it."""
    return float(vc_dimension)


@theorem("Forgetron paper, section 2", "any, on a budget", "norm of a competitor, below", "")
def budget_norm_limit(budget: int, *, check: Check = True) -> float:
    """Return sqrt(B + 1): against this norm, `streams.UnitVectors` makes every round a mistake."""
    return sqrt(budget + 1)
