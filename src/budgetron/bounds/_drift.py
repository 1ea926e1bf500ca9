"""Bounds against competitors that drift: Sutskever's paper, and the tracking bounds of the Perceptron."""

from __future__ import annotations

from math import inf, log2, sqrt

from budgetron.bounds._statement import Check, assume, require_at_most, theorem


def drift_limit(budget: int) -> float:
    """Return U = sqrt(B / (32 log2(8 B))): the simplified Forgetron has competitors of norm at most U / 2.

    Sutskever's paper, eq. 12.
    """
    return sqrt(budget / (32 * log2(8 * budget)))


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
    "Sutskever's paper, section 3.2 up to eq. 11, any constants",
    '`Forgetron`: "simplified"',
    "mistakes",
    "all ||g_t|| <= `norm_bound`, `decay` * `eta` < 1, eq. 11 with 1 on the right-hand side",
)
def simplified_forgetron_general(
    norm: float,
    losses: float,
    budget: int,
    eta: float,
    decay: float,
    norm_bound: float,
    shift: float = 0.0,
    radius: float = 1.0,
    *,
    check: Check = True,
) -> float:
    """Return (sum of hinge losses + (U^2 + 3 U S) / (2 eta)) / (1 - the left-hand side of eq. 11).

    U is 2 `norm_bound`, and the left-hand side is lambda U^2 / 8 + eta G^2 / 2 + U R (1 - lambda eta)^B with
    G = 2 R + U lambda. The paper has R = 1.
    """
    U = 2 * norm_bound
    regret = gradient_descent(U, eta, 0, 0.0, shift=shift, check=check)  # the rest is a share of the mistakes
    assume(check, 0 <= decay * eta < 1, "a decay * eta from 0 to below 1", decay * eta)
    require_at_most(check, norm, norm_bound, "a norm of the competitor")
    gradient = 2 * radius + U * decay
    share = decay * U**2 / 8 + eta * gradient**2 / 2 + U * radius * (1 - decay * eta) ** budget
    return _per_mistake(losses + regret, share, "eq. 11", check)


@theorem(
    "Sutskever's paper, Lemma 1 on the mistakes",
    '`Forgetron`: "simplified"',
    "mistakes",
    "all ||g_t|| <= `norm_bound`",
)
def simplified_forgetron_ledger(
    norm: float,
    losses: float,
    mistakes: int,
    eta: float,
    decay: float,
    norm_bound: float,
    gradient: float,
    errors: float,
    excess: float = 0.0,
    shift: float = 0.0,
    *,
    check: Check = True,
) -> float:
    """Return the bound that Lemma 1 gives for the mistakes of a run, from the ledger of the run.

    The functions of the lemma are the regularized losses f_i(w) = hinge loss + lambda ||w||^2 / 2 of the
    rounds with a mistake. This is no guarantee in advance, because it contains the number of mistakes.

    Parameters
    ----------
    norm : float
        The largest norm of a competitor.
    losses : float
        Sum of the competitor's hinge losses in the rounds with a mistake.
    mistakes : int
    eta, decay, norm_bound : float
        Step, weight decay lambda and largest norm of the learner.
    gradient : float
        G, the largest norm of a gradient with its error.
    errors : float
        E, the sum of the norms of the errors: the ledger's |grad_error| times sqrt(k(x, x)) of the support
        that was removed.
    excess : float
        The sum over the mistakes of f_i(w_i) - 1, which is not negative, where w_i made the mistake.
    shift : float
        S, the total drift of the competitor.
    """
    require_at_most(check, norm, norm_bound, "a norm of the competitor")
    regret = gradient_descent(2 * norm_bound, eta, mistakes, gradient, errors, shift, check=check)
    return losses + mistakes * decay * norm**2 / 2 + regret - excess


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
    "Sutskever's paper, eq. 8, any constants",
    '`RandomizedBudgetPerceptron`: "modified"',
    "expected mistakes",
    "all ||g_t|| <= `norm_bound`, the factor of E[M] in eq. 8 below 1",
)
def modified_randomized_budget_general(
    norm: float,
    losses: float,
    budget: int,
    eta: float,
    norm_bound: float,
    shift: float = 0.0,
    radius: float = 1.0,
    *,
    check: Check = True,
) -> float:
    """Return (sum of hinge losses + (U^2 + 3 U S) / (2 eta)) / (1 - the factor of E[M] in eq. 8).

    U is 2 `norm_bound`, and the factor is lambda U^2 / 8 + eta G^2 / 2 with lambda = 1 / (B eta) and
    G = 2 R. The paper has R = 1.
    """
    U = 2 * norm_bound
    regret = gradient_descent(U, eta, 0, 0.0, shift=shift, check=check)  # the rest is a share of the mistakes
    require_at_most(check, norm, norm_bound, "a norm of the competitor")
    share = U**2 / (8 * budget * eta) + 2 * eta * radius**2
    return _per_mistake(losses + regret, share, "eq. 8", check)


def _per_mistake(total: float, share: float, equation: str, check: Check) -> float:
    """Return the bound M of M <= total + share M."""
    assume(check, share < 1, f"a factor of the mistakes in {equation} below 1", share)
    return total / (1 - share) if share < 1 else inf


@theorem(
    "Cavallanti, Cesa-Bianchi, Gentile (2007), our proof and constants",
    '`RandomizedBudgetPerceptron`: "original"',
    "expected mistakes",
    "all ||g_t|| R < sqrt(B)",
)
def randomized_budget(
    norm: float, losses: float, budget: int, shift: float = 0.0, radius: float = 1.0, *, check: Check = True
) -> float:
    """Return (L + U^2 / (2 eta) + B R S) / (1 - eta R^2 - U^2 / (4 B eta)) for the best eta > 0.

    L is the sum of hinge losses, U the largest norm and S the total drift of the competitors g_t. The value
    is at most (L + U R sqrt(B) + B R S) / (1 - U R / sqrt(B)). The algorithm has no eta: only the proof has.

    Proof. Multiply the hypothesis by eta, which changes no prediction; call it v. Let a round be a mistake,
    with the budget full, and g its competitor. A random term s of the B terms of v is removed. Its mean is
    v / B and its squared norm at most eta^2 R^2. So the mean of ||v - s - g||^2 is at most ||v - g||^2 -
    2 / B (||v||^2 - U ||v||) + eta^2 R^2, which is at most ||v - g||^2 + U^2 / (2 B) + eta^2 R^2. The step
    adds 2 eta y (v - s)(x) - 2 eta y g(x) + eta^2 k(x, x). The mean of its first term is not positive, and
    y g(x) >= 1 - (hinge loss). In all, a mistake changes the mean of ||v - g||^2 by at most -2 eta (1 - hinge
    loss) + 2 eta^2 R^2 + U^2 / (2 B); with a budget that is not full, by less. As ||v|| <= eta B R, the drift
    of g by d changes ||v - g||^2 - ||g||^2 by at most 2 eta B R d. Initially ||v - g||^2 is ||g||^2, and it
    is never negative. Sum over the rounds, take the mean, and divide by 2 eta.
    """
    assume(check, norm * radius < sqrt(budget), f"a norm * radius below {sqrt(budget):.6g}", norm * radius)
    total = losses + budget * radius * shift
    if norm == 0:  # eta may be as small as we like
        return total
    if norm * radius >= sqrt(budget):
        return inf
    c, d = norm**2 / 2, norm**2 / (4 * budget)
    # The root of the derivative: total R^2 eta^2 + 2 c R^2 eta = total d + c
    right = total * d + c
    eta = right / (c * radius**2 + radius * sqrt(c**2 * radius**2 + total * right))
    return (total * eta + c) / (eta - radius**2 * eta**2 - d)


@theorem(
    "Cavallanti, Cesa-Bianchi, Gentile (2007), our proof and constants",
    '`ShrinkingPerceptron`: "shifting"',
    "mistakes",
    "rate >= 1",
)
def shifting_perceptron(
    norm: float, losses: float, rate: float, shift: float = 0.0, radius: float = 1.0, *, check: Check = True
) -> float:
    """Return the largest m with m <= L + sqrt(m) R (U sqrt(2 rate - 1) + S / sqrt(2 rate - 1)).

    L is the sum of hinge losses in the rounds with a mistake (or in all rounds), U the largest norm and S the
    total drift of the competitors g_t. With rate 1, the Perceptron, this is m <= L + sqrt(m) R (U + S).

    Proof. Let R = 1, and count the mistakes from 0. On mistake k the algorithm sets w_{k+1} = (1 - a_k) w_k +
    a_k y x with a_k = rate / (rate + k). As y w_k . x <= 0, ||w_{k+1}||^2 <= (1 - a_k)^2 ||w_k||^2 + a_k^2,
    and by induction ||w_k|| <= rate / sqrt((2 rate - 1) k). Let c_k = 1 / a_k = 1 + k / rate. Then y x =
    c_k w_{k+1} - (c_k - 1) w_k. Sum its product with g_k, which is at least 1 - (hinge loss), over m
    mistakes. The sum is c_{m-1} g_{m-1} . w_m plus, for k from 1 to m - 1, (1 - 1 / rate) g_{k-1} . w_k +
    (k / rate) (g_{k-1} - g_k) . w_k. With the norms of w_k and sum of 1 / sqrt(k) <= 2 sqrt(m - 1) - 1, the
    terms with U are at most U sqrt((2 rate - 1) m) and those with the drift at most S sqrt(m / (2 rate - 1)).
    """
    assume(check, rate >= 1, "a rate of at least 1", rate)
    spread = sqrt(2 * rate - 1)
    K = radius * (norm * spread + shift / spread)
    return ((K + sqrt(K**2 + 4 * losses)) / 2) ** 2
