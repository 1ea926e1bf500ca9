"""Bounds of prediction with expert advice."""

from __future__ import annotations

from math import exp, log, log1p, log2, sqrt

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
    "Mohri et al., Theorem 8.4 with the periods of Theorem 8.7",
    '`experts.RandomizedWeightedMajority(beta="doubling")`',
    "regret",
    "losses 0 or 1",
)
def randomized_weighted_majority_doubling(experts: int, rounds: int, *, check: Check = True) -> float:
    """Return 2 sqrt(log N) (sqrt(2) / (sqrt(2) - 1) sqrt(T) + 1).

    A period of 2^k rounds has a regret of at most 2 sqrt(2^k log N), also if it is incomplete: where beta is
    1/2 because 2^k < 4 log N, the regret is at most 2^k, which is less. The sum over the periods is a
    geometric series.
    """
    return 2 * sqrt(log(experts)) * (sqrt(2) / (sqrt(2) - 1) * sqrt(rounds) + 1)


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
    '`experts.ExponentialWeights(eta="anytime")`',
    "regret",
    "convex losses in [0, 1]",
)
def exponential_weights_anytime(experts: int, rounds: int, *, check: Check = True) -> float:
    """Return 2 sqrt(T log(N) / 2) + sqrt(log(N) / 8).

    For rates sqrt(8 log(N) / t). The bound of Mohri et al., Theorem 8.7, is larger.
    """
    return 2 * sqrt(rounds / 2 * log(experts)) + sqrt(log(experts) / 8)


@theorem(
    "Cesa-Bianchi, Lugosi (2006) section 5.2, for shares that include the expert itself",
    "`experts.FixedShare`, `BudgetClassifier`",
    "regret against a sequence of experts",
    "convex losses in [0, 1], 0 < alpha < 1, 0 <= k <= T - 1",
)
def fixed_share(
    experts: int,
    rounds: int,
    switches: int,
    eta: float | None = None,
    alpha: float | None = None,
    *,
    check: Check = True,
) -> float:
    """Return (log N + k log(N / alpha) + (T - 1 - k) log(1 / (1 - alpha + alpha / N))) / eta + eta T / 8.

    It bounds the loss minus that of any sequence of experts with at most k switches
    (`experts.best_sequence`). Without eta, or alpha, it is the value at the best one; see
    `fixed_share_rates`.

    Proof. Let w be the weights before round t, l the losses of the round, Z_t the sum of w_i exp(-eta l_i),
    and u_i = w_i exp(-eta l_i) / Z_t. By convexity and Hoeffding's lemma the loss of the round is at most
    -log(Z_t) / eta + eta / 8. The next weights are (1 - alpha) u_j + alpha / N, and u sums to 1, so that they
    are at least (1 - alpha + alpha / N) u_i for j = i and at least (alpha / N) u_i for any other j. Along a
    sequence of experts, from the first weight 1 / N to u of the last round, which is at most 1, this gives
    (1 / N) (alpha / N)^k (1 - alpha + alpha / N)^(T - 1 - k) exp(-eta loss of the sequence) <= Z_1 ... Z_T.
    Insert it in the sum over the rounds. The bound increases with k, as alpha / N < 1 - alpha + alpha / N.
    """
    assume(check, 0 <= switches <= rounds - 1, f"a number of switches from 0 to {rounds - 1}", switches)
    if alpha is None:
        alpha = _best_share(experts, rounds, switches)
    assume(check, 0 < alpha < 1, "an alpha between 0 and 1", alpha)
    cost = _sequence_cost(experts, rounds, switches, alpha)
    if eta is None:
        return sqrt(rounds / 2 * cost)
    assume(check, eta > 0, "an eta above 0", eta)
    return cost / eta + eta * rounds / 8


def fixed_share_rates(experts: int, rounds: int, switches: int) -> tuple[float, float]:
    """Return the eta and alpha of `experts.FixedShare` with the smallest bound.

    These are alpha = k / (T - 1) N / (N - 1), which makes the expected number of switches k, and
    eta = sqrt(8 C / T), where C is the numerator of the first term of `fixed_share`.

    Parameters
    ----------
    experts : int
        At least 2.
    rounds : int
    switches : int
        At least 1, and less than (rounds - 1) (1 - 1 / experts): otherwise no alpha between 0 and 1 is best.

    Examples
    --------
    >>> from budgetron import bounds
    >>> eta, alpha = bounds.fixed_share_rates(experts=15, rounds=10000, switches=5)
    >>> round(eta, 4), round(alpha, 6)
    (0.2171, 0.000536)
    >>> round(bounds.fixed_share(15, 10000, 5, eta, alpha), 1)
    542.7
    """
    if experts < 2:
        raise ValueError(f"experts must be at least 2; got {experts}")
    if switches < 1 or switches * experts >= (rounds - 1) * (experts - 1):
        raise ValueError(
            "switches must be at least 1 and less than (rounds - 1) (1 - 1 / experts) = "
            f"{(rounds - 1) * (1 - 1 / experts):.6g}; got {switches}"
        )
    alpha = _best_share(experts, rounds, switches)
    return sqrt(8 * _sequence_cost(experts, rounds, switches, alpha) / rounds), alpha


def _best_share(experts: int, rounds: int, switches: int) -> float:
    return switches / (rounds - 1) * experts / (experts - 1)


def _sequence_cost(experts: int, rounds: int, switches: int, alpha: float) -> float:
    """Return -log of the probability that shares of alpha give to one sequence of experts."""
    stay = log1p(-alpha * (1 - 1 / experts))
    return log(experts) + switches * log(experts / alpha) - (rounds - 1 - switches) * stay


@theorem("Mohri et al., exercise 8.7", "`experts.Prod`", "regret", "1/2 <= beta < 1, losses in [0, 1]")
def prod(experts: int, rounds: int, beta: float | None = None, *, check: Check = True) -> float:
    """Return log N / (1 - beta) + (1 - beta) T; without beta at the best, 2 sqrt(T log N)."""
    return prod_general(experts, rounds, beta, 1.0, check=check)


@theorem(
    "Mohri et al., exercise 8.7 with the periods of Theorem 8.7",
    '`experts.Prod(beta="doubling")`',
    "regret",
    "losses in [0, 1]",
)
def prod_doubling(experts: int, rounds: int, *, check: Check = True) -> float:
    """Return 2 sqrt(log N) (sqrt(2) / (sqrt(2) - 1) sqrt(T) + 1).

    The proof is that of `randomized_weighted_majority_doubling`: the bound of a period is the same.
    """
    return randomized_weighted_majority_doubling(experts, rounds, check=check)


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
