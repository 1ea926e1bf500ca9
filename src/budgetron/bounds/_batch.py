"""Bounds on the risk of a hypothesis that was learned from a sample, and on games."""

from __future__ import annotations

from math import log, sqrt

from budgetron.bounds._experts import exponential_weights
from budgetron.bounds._perceptron import perceptron_separable
from budgetron.bounds._statement import Check, assume, root_or_nan, theorem


@theorem(
    "Mohri et al., Lemma 8.14 and Theorem 8.15, eq. 8.27",
    "`batch.AveragedClassifier`",
    "risk",
    "rows a sample; a convex loss in [0, `largest`]",
)
def averaged_risk(
    losses: float, rounds: int, delta: float, largest: float = 1.0, *, check: Check = True
) -> float:
    """Return sum of the losses / T + M sqrt(2 log(1 / delta) / T), with probability 1 - delta."""
    assume(check, 0 < delta < 1, "a delta between 0 and 1", delta)
    return losses / rounds + largest * root_or_nan(2 * log(1 / delta) / rounds)


@theorem(
    "Mohri et al., Theorem 8.15, eq. 8.28",
    "`batch.AveragedClassifier`",
    "risk",
    "rows a sample; a convex loss in [0, `largest`]",
)
def averaged_risk_by_regret(
    best: float, regret: float, rounds: int, delta: float, largest: float = 1.0, *, check: Check = True
) -> float:
    """Return least risk + R_T / T + 2 M sqrt(2 log(2 / delta) / T), with probability 1 - delta."""
    assume(check, 0 < delta < 1, "a delta between 0 and 1", delta)
    return best + regret / rounds + 2 * largest * root_or_nan(2 * log(2 / delta) / rounds)


@theorem(
    "Mohri et al., section 8.4, after Theorem 8.15",
    "the average of `experts.ExponentialWeights`",
    "risk",
    "rows a sample; a convex loss in [0, 1]",
)
def exponential_weights_risk(
    best: float, experts: int, rounds: int, delta: float, *, check: Check = True
) -> float:
    """Return least risk + sqrt(log N / (2 T)) + 2 sqrt(2 log(2 / delta) / T), with probability 1 - delta."""
    regret = exponential_weights(experts, rounds, check=check)
    return averaged_risk_by_regret(best, regret, rounds, delta, check=check)


@theorem(
    "Mohri et al., exercise 8.10, eq. 8.31",
    "`batch.PenalizedRiskClassifier`",
    "risk",
    "rows a sample; a loss in [0, 1]",
)
def penalized_risk(losses: float, rounds: int, delta: float, *, check: Check = True) -> float:
    """Return sum of the losses / T + 6 sqrt(log(2 (T + 1) / delta) / T), with probability 1 - delta."""
    assume(check, 0 < delta < 1, "a delta between 0 and 1", delta)
    return losses / rounds + 6 * root_or_nan(log(2 * (rounds + 1) / delta) / rounds)


@theorem("Mohri et al., exercise 8.11 (a)", "`KernelPerceptron`", "mistakes")
def perceptron_trace(losses: float, rho: float, self_values: float, *, check: Check = True) -> float:
    """Return losses + sqrt(sum of k(x, x) over the updates) / rho.

    The losses are the sum of max(0, 1 - y h(x) / rho) for any h of norm at most 1.
    """
    assume(check, rho > 0, "a rho above 0", rho)
    return losses + sqrt(self_values) / rho


@theorem(
    "Mohri et al., exercise 8.11 (b)",
    "`batch.PenalizedRiskClassifier(KernelPerceptron())`",
    "risk",
    "rows a sample",
)
def penalized_perceptron_risk(
    losses: float, rho: float, self_values: float, rounds: int, delta: float, *, check: Check = True
) -> float:
    """Return `perceptron_trace` in place of the mistakes in `penalized_risk`."""
    return penalized_risk(perceptron_trace(losses, rho, self_values, check=check), rounds, delta, check=check)


@theorem(
    "Mohri et al., Theorems 8.9 and 8.10",
    "`linear.Perceptron` run until it stops changing; the SVM",
    "expected risk after one row less",
    "separable by `margin` > 0; the mean over samples of `rows`",
)
def leave_one_out(updates: int, radius: float, margin: float, rows: int, *, check: Check = True) -> float:
    """Return min(M(S), (r / rho)^2) / m for a sample S of m rows; its mean bounds the mean risk after m - 1.

    For the SVM, the number of support vectors takes the place of the updates M(S).
    """
    return min(float(updates), perceptron_separable(radius, margin, check=check)) / rows


@theorem("Mohri et al., section 8.5", "`games.solve`", "duality gap")
def game_gap(regret: float, rounds: int, *, check: Check = True) -> float:
    """Return R_T / T."""
    return regret / rounds
