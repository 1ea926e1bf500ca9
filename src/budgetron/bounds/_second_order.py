"""The bounds of second-order learners; the page *A theorem for second-order learners* has the proofs."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
from numpy.typing import ArrayLike

from budgetron.bounds._statement import ROUNDING, Check, assume, theorem

SOURCE = "Crammer, Kulesza, Dredze (2009), sharpened"
ASSUMPTIONS = "two classes, hinge loss, forget = 1, rows of weight 1"
LOGISTIC_ASSUMPTIONS = ASSUMPTIONS.replace("hinge", "logistic")


@theorem(
    f"{SOURCE}: competitors at the images of the rows",
    "`linear.AROW`, `SecondOrderProjectron`",
    "mistakes",
    ASSUMPTIONS,
)
def second_order(
    norm: float,
    squares: float,
    losses: float,
    gain: float,
    correct_updates: int,
    r: float = 1.0,
    prior: float = 1.0,
    exchanged: float = 0.0,
    dropped: float = 0.0,
    *,
    check: Check = True,
) -> float:
    """Return sqrt(r / prior (||u||^2 + exchanged) + squares) sqrt(gain) + dropped + losses - U.

    It bounds the mistakes for every competitor u, a vector of the coordinates of the learner. Let phi_t be
    the coordinates of row t in the span of that round, and A the rounds that were learned. The bound is
    evaluated after the run, when `gain` and U, the `correct_updates`, are known. It is not a forecast.

    Parameters
    ----------
    norm : float
        ||u||.
    squares : float
        The sum of <u, phi_t>^2 over A. With a diagonal covariance, the sum of all (u_i phi_ti)^2.
    losses : float
        The sum of the hinge losses max(0, 1 - y_t <u, phi_t>), over A or over all rounds. Over A alone,
        u = 0 gives the number of mistakes, which says nothing.
    gain : float
        The sum of 1 - r (1 - m)^2 / (v + r) over A; see `second_order_gain`. It is at most the sum of
        log(1 + v / r) plus `correct_updates`.
    correct_updates : int
        The number of rounds of A that were no mistakes.
    r, prior : float
        The noise variance, and the variance of each coordinate before the first update.
    exchanged : float
        The sum of ||u_e||^2 over the exchanges of supports, where u_e is the part of u in the span before the
        exchange that is orthogonal to the span after it.
    dropped : float
        With a diagonal covariance: the sum of u' (x x' - diag(x x')) w over A, with w after the update.
    """
    assume(check, r > 0 and prior > 0, "an r and a prior above 0", min(r, prior))
    assume(check, gain >= -ROUNDING, "a gain of at least 0", gain)
    square = r / prior * (norm**2 + exchanged) + squares
    return sqrt(square) * sqrt(max(gain, 0.0)) + dropped + losses - correct_updates


@theorem(
    f"{SOURCE}: competitors at the rows themselves",
    "`SecondOrderProjectron`",
    "mistakes",
    ASSUMPTIONS,
)
def second_order_rows(
    norm: float,
    squares: float,
    losses: float,
    gain: float,
    correct_updates: int,
    deltas: ArrayLike,
    kernel_norm: float,
    r: float = 1.0,
    prior: float = 1.0,
    exchanges: int = 0,
    *,
    check: Check = True,
) -> float:
    """Return `second_order` for a competitor known by its values u(x_t), plus what the images may differ.

    This adds kernel_norm (||delta||_2 sqrt(gain) + ||delta||_1), because |<u, phi_t> - u(x_t)| is at most
    kernel_norm delta_t. Each exchange of supports adds r / prior kernel_norm^2 under the first root.

    Parameters
    ----------
    norm, squares, losses, gain, correct_updates, r, prior
        As in `second_order`, with u(x_t) instead of <u, phi_t>.
    deltas : array-like
        The distances of the rows of A from the span of their round: ``delta`` of the ledger, and 0 for rows
        that became supports.
    kernel_norm : float
        The norm of u without its linear part.
    exchanges : int
        The number of exchanges of supports.
    """
    found = np.asarray(deltas, np.float64)
    length = float(np.linalg.norm(found)) * sqrt(max(gain, 0.0))
    images = kernel_norm * (length + float(np.abs(found).sum()))
    exchanged = exchanges * kernel_norm**2
    return images + second_order(
        norm, squares, losses, gain, correct_updates, r, prior, exchanged, check=check
    )


@theorem(
    "Page on second-order learners, logistic loss: competitors at the images of the rows",
    "`linear.AROW`, `SecondOrderProjectron`",
    "mistakes",
    LOGISTIC_ASSUMPTIONS,
)
def second_order_logistic(
    norm: float,
    losses: float,
    remainder: float,
    gain: float,
    correct_losses: float,
    r: float = 1.0,
    prior: float = 1.0,
    exchanged: float = 0.0,
    *,
    check: Check = True,
) -> float:
    """Return (losses + r / (2 prior) (||u||^2 + exchanged) + remainder + gain - correct_losses) / log 2.

    It bounds the mistakes of a learner with the logistic loss log(1 + exp(-margin)), for every competitor u.
    As in `second_order`, u is a vector of the coordinates of the learner, and A are the rounds that were
    learned. Let m be the margin of such a round before the step, m' the margin after it, g the step times r,
    which is minus the slope of the loss at m', and c = g (1 - g) its curvature there.

    Parameters
    ----------
    norm : float
        ||u||.
    losses : float
        The sum of the logistic losses of u, over A or over all rounds.
    remainder : float
        The sum of c d^2 / 2 - D(d) over A, where d is the difference of the margins of u and m', and D(d) is
        what the loss at m' + d exceeds its tangent at m'. It is at most the sum of c |d|^3 / 6. With a
        diagonal covariance, d^2 is the sum of all (u_i - w_i)^2 phi_i^2, with w after the step.
    gain : float
        The sum over A of loss(m) - loss(m') - g (m' - m) / 2.
    correct_losses : float
        The sum of loss(m) over the rounds of A that were no mistakes.
    r, prior, exchanged : float
        As in `second_order`.
    """
    assume(check, r > 0 and prior > 0, "an r and a prior above 0", min(r, prior))
    total = losses + r / (2 * prior) * (norm**2 + exchanged) + remainder + gain
    return (total - correct_losses) / log(2)


def second_order_gain(margins: ArrayLike, variances: ArrayLike, r: float = 1.0) -> float:
    """Return the sum of 1 - r (1 - m)^2 / (v + r) over the rounds that a second-order learner learned.

    Parameters
    ----------
    margins : array-like of shape (n,)
        m = y f(x) of these rounds, before the update.
    variances : array-like of shape (n,)
        v of these rounds: ``variance`` of the ledger.
    r : float, default=1.0

    Examples
    --------
    >>> from budgetron import bounds
    >>> bounds.second_order_gain([0.0, 0.5], [1.0, 1.0])
    1.375
    >>> round(bounds.second_order(norm=1.0, squares=2.0, losses=0.0, gain=1.375, correct_updates=1), 3)
    1.031
    """
    m, v = np.asarray(margins, np.float64), np.asarray(variances, np.float64)
    return float(np.sum(1.0 - r * (1.0 - m) ** 2 / (v + r)))
