"""The bounds of regressors, on sums of squared losses."""

from __future__ import annotations

from math import log, sqrt

from budgetron.bounds._statement import Check, assume, theorem

__all__ = ["fixed_share_squares", "pa_ii_regression", "pa_regression", "vovk_azoury_warmuth"]


@theorem(
    "Vovk (2001); Azoury, Warmuth (2001)",
    "`linear.AROWRegressor` with variant = 'vaw'",
    "squared loss",
    "full covariance, forget = 1, rows of weight 1",
)
def vovk_azoury_warmuth(
    losses: float,
    norm: float,
    largest_target: float,
    log_determinant: float,
    penalty: float = 1.0,
    *,
    check: Check = True,
) -> float:
    """Return losses + penalty ||u||^2 + Y^2 ln det(I + sum x x' / penalty).

    It bounds the sum of the squared errors for every weight vector u.

    Parameters
    ----------
    losses : float
        The sum of (y - u . x)^2.
    norm : float
        ||u||.
    largest_target : float
        Y, the largest |y|.
    log_determinant : float
        ln det(I + sum x x' / penalty), over all rows. It is at most d ln(1 + n R^2 / (d penalty)).
    penalty : float, default=1.0
        r / prior of the learner.

    Examples
    --------
    >>> from budgetron import bounds
    >>> bounds.vovk_azoury_warmuth(losses=10.0, norm=2.0, largest_target=1.0, log_determinant=5.0)
    19.0
    """
    assume(check, penalty > 0.0, "a penalty above 0", penalty)
    return losses + penalty * norm**2 + largest_target**2 * log_determinant


@theorem(
    "Crammer, Dekel, Keshet, Shalev-Shwartz, Singer (2006), theorem 3, sharpened, for regression",
    "`linear.PARegressor`, `KernelPARegressor` with variant = 'PA'",
    "squared loss beyond epsilon, divided by ||x||^2",
    "no budget, rows of weight 1",
)
def pa_regression(norm: float, losses: float, *, check: Check = True) -> float:
    """Return (sqrt(losses) + sqrt(losses + ||u||^2))^2.

    It bounds the sum of l^2 / ||x||^2 for every u, where l are the epsilon-insensitive losses of the learner,
    over the rows that are not 0. The paper states it for rows of norm 1, with the larger bound
    (||u|| + 2 sqrt(losses))^2. By its lemma 1, with tau = l / ||x||^2, the sum L^2 of l^2 / ||x||^2 satisfies
    L^2 - 2 L sqrt(losses) <= ||u||^2 for rows of any norm.

    Parameters
    ----------
    norm : float
        ||u||.
    losses : float
        The sum of l*^2 / ||x||^2, with the losses l* of u.

    Examples
    --------
    >>> from budgetron import bounds
    >>> bounds.pa_regression(norm=3.0, losses=16.0)
    81.0
    """
    assume(check, losses >= 0.0, "losses of at least 0", losses)
    return (sqrt(losses) + sqrt(losses + norm**2)) ** 2


@theorem(
    "Crammer, Dekel, Keshet, Shalev-Shwartz, Singer (2006), theorem 5, for regression",
    "`linear.PARegressor`, `KernelPARegressor` with variant = 'PA-II'",
    "squared loss beyond epsilon",
    "no budget, rows of weight 1",
)
def pa_ii_regression(
    norm: float, losses: float, radius: float = 1.0, C: float = 1.0, *, check: Check = True
) -> float:
    """Return (R^2 + 1 / (2 C)) (||u||^2 + 2 C losses).

    It bounds the sum of the squared epsilon-insensitive losses for every u.

    Parameters
    ----------
    norm : float
        ||u||.
    losses : float
        The sum of the squared epsilon-insensitive losses of u.
    radius : float, default=1.0
        R, the largest ||x||.
    C : float, default=1.0
        The parameter of the learner.

    Examples
    --------
    >>> from budgetron import bounds
    >>> bounds.pa_ii_regression(norm=2.0, losses=4.0)
    18.0
    """
    assume(check, C > 0.0, "a C above 0", C)
    return (radius**2 + 1.0 / (2.0 * C)) * (norm**2 + 2.0 * C * losses)


@theorem(
    "Herbster, Warmuth (1998), for the squared loss and errors that grow",
    "`BudgetRegressor`",
    "squared loss",
    "rows of weight 1",
)
def fixed_share_squares(
    losses: float,
    rounds: int,
    switches: int,
    share: float,
    smallest_prior: float,
    largest_error: float,
    growth: float,
    *,
    check: Check = True,
) -> float:
    """Return losses + 2 R^2 ((k + 1) ln(1 / (a p)) + n ln(1 / (1 - a))) + growth.

    It bounds the sum of the squared errors of the combination of experts by fixed share. The predictions of
    the experts are clipped to the range of the targets so far. The rate of a round is 1 / (2 R_t^2), with R_t
    the largest error of a clipped prediction so far. A round with a target outside of the range, or with a
    larger error, leaves the weights as they are.

    Parameters
    ----------
    losses : float
        The sum of the squared errors of a sequence of experts, one per round, whose predictions are clipped.
    rounds : int
        n, the number of rounds.
    switches : int
        k, the number of rounds whose expert is another one than in the round before.
    share : float
        a, the part of the weights that is replaced by the first weights after each round.
    smallest_prior : float
        p, the smallest first weight of an expert.
    largest_error : float
        R, the largest error of a clipped prediction.
    growth : float
        The sum of the squared errors of the combination in the rounds that left the weights.

    Notes
    -----
    *Proof.* In a round that changes the weights, all errors are at most R_t, where the function
    e -> exp(-e^2 / (2 R_t^2)) is concave. So the loss of the weighted mean is at most the mix loss
    m = -1 / eta ln(sum w_i exp(-eta l_i)) with eta = 1 / (2 R_t^2). The new weight w_i' of expert i is at
    least (1 - a) w_i exp(-eta (l_i - m)) and at least a p, so that m - l_i is at most
    (ln(1 / w_i) - ln(1 / w_i') + ln(1 / (1 - a))) / eta. Let A be ln(1 / w) of the sequence's expert. It is
    between 0 and ln(1 / (a p)), and 1 / eta never decreases. So the sum over the rounds of (A - A') / eta is
    at most ln(1 / (a p)) / eta of the last round, and each switch adds at most as much again. In the other
    rounds the loss is part of `growth`.

    Examples
    --------
    >>> from budgetron import bounds
    >>> round(bounds.fixed_share_squares(10.0, 1000, 0, 0.001, 0.2, 1.0, 0.5), 3)
    29.535
    """
    assume(check, 0.0 < share < 1.0, "a share above 0 and below 1", share)
    assume(check, 0.0 < smallest_prior <= 1.0, "first weights above 0 and at most 1", smallest_prior)
    shared = (switches + 1) * log(1.0 / (share * smallest_prior)) + rounds * log(1.0 / (1.0 - share))
    return losses + 2.0 * largest_error**2 * shared + growth
