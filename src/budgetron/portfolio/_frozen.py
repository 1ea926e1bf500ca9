"""The numbers that define the predictions of a portfolio at one moment, without what it needs to learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from budgetron._base.access import linear_part
from budgetron._core.rounds import Learner
from budgetron._util.types import Floats
from budgetron.portfolio._experts import Expert
from budgetron.portfolio._portfolio import FIRST_ORDER_FACTORS, Portfolio
from budgetron.portfolio._views import Scaler

__all__ = ["LEAD", "TIE", "FrozenExpert", "FrozenPortfolio", "frozen"]

# As in `_core.combination`: votes that differ by less are ties; the least lead of the predicted class.
TIE, LEAD = 1e-12, 1e-9


@dataclass(frozen=True)
class FrozenExpert:
    """An active expert: score_c(x) = sum_i coef[c, i] k(s_i, x) + slopes[c] . x + constants[c].

    k(s, x) is exp(-gamma ||x - s||^2). x is the row that the expert sees. The scores include
    the factor that they have in the combination.

    Attributes
    ----------
    standardised : bool
        Whether it sees standardised rows, not raw ones.
    scales : ndarray of shape (n_features,), or empty
        Factors of the features, if it has learned scales.
    gamma : float
    supports : ndarray of shape (n_supports, n_features)
    coef : ndarray of shape (n_outputs, n_supports)
    slopes : ndarray of shape (n_outputs, n_features), or None without linear part
    constants : ndarray of shape (n_outputs,), or None
    """

    standardised: bool
    scales: Floats
    gamma: float
    supports: Floats
    coef: Floats
    slopes: Floats | None
    constants: Floats | None


@dataclass(frozen=True)
class FrozenPortfolio:
    """A portfolio for rows that need not be the next row of the stream: without recent labels.

    Attributes
    ----------
    features, outputs : int
    dtype : dtype
        Type of the rows, in which kernel values are computed.
    scaler : Scaler or None
        It standardises rows; None if all experts see raw rows.
    experts : list of FrozenExpert
        The active experts.
    weights : ndarray of shape (n_combiners, n_outputs, n_experts)
        The combiners' weights of tanh(score).
    constants : ndarray of shape (n_combiners, n_outputs)
    shares : ndarray of shape (n_combiners + n_experts,)
        The weights of the vote. The share of an inactive expert belongs to the first combiner, as which it
        votes.
    blend : ndarray of shape (n_combiners,)
        The weights of the combiners' margins in the margin of the portfolio. They sum to 1, or are all 0.
    """

    features: int
    outputs: int
    dtype: np.dtype[Any]
    scaler: Scaler | None
    experts: list[FrozenExpert]
    weights: Floats
    constants: Floats
    shares: Floats
    blend: Floats


def frozen(portfolio: Portfolio) -> FrozenPortfolio:
    """Return what `Portfolio.decide` computes with at this moment. Later rounds do not change it."""
    pool, combination = portfolio.pool, portfolio.combination
    places = [i for i, expert in enumerate(pool.experts) if expert.active]
    first = pool.first_order_experts.weights * FIRST_ORDER_FACTORS[:, :, None]
    scaler = pool.scaler
    experts = [
        _first_order(first[i], portfolio.n_features)
        if i < len(first)
        else _with_learner(pool.experts[i], portfolio.n_features)
        for i in places
    ]
    weights, shares, n = combination.weights, combination.shares, combination.n_combiners
    voters = shares[[*range(n), *(n + i for i in places)]]
    voters[0] += np.delete(shares[n:], places).sum()
    total = float(shares[:n].sum())
    return FrozenPortfolio(
        features=portfolio.n_features,
        outputs=portfolio.n_outputs,
        dtype=portfolio.dtype,
        scaler=None if scaler is None else Scaler(scaler.mean.copy(), scaler.spread.copy(), scaler.count),
        experts=experts,
        weights=weights[:, :, places],
        constants=weights[:, :, -1].copy(),  # the features after the experts: two recent labels, a constant
        shares=voters,
        blend=shares[:n] / total if total > 0.0 else np.zeros(n),
    )


def _first_order(weights: Floats, d: int) -> FrozenExpert:
    """Return a linear expert of first order. Standardised rows have a first feature that is 1."""
    constant = weights.shape[1] > d
    return FrozenExpert(
        standardised=constant,
        scales=np.zeros(0),
        gamma=1.0,
        supports=np.zeros((0, d)),
        coef=np.zeros((len(weights), 0)),
        slopes=weights[:, 1:] if constant else weights,
        constants=weights[:, 0] if constant else None,
    )


def _with_learner(expert: Expert, d: int) -> FrozenExpert:
    learner = expert.learner
    assert learner is not None
    factor = expert.score_factor
    slopes, constants = linear_part(learner) or (None, None)
    return FrozenExpert(
        standardised=expert.design.standardised,
        scales=expert.scales.copy(),
        gamma=expert.gamma,
        supports=_support_rows(learner, d),
        coef=factor * np.atleast_2d(learner.rule.coefficients()),
        slopes=None if slopes is None else factor * slopes,
        constants=None if constants is None else factor * constants,
    )


def _support_rows(learner: Learner, d: int) -> Floats:
    supports = learner.supports
    if supports.m == 0:  # a linear expert, which may store non-zeros
        return np.zeros((0, d))
    return np.asarray(supports.rows(supports.order[: supports.m]))
